//! The tools of a gateway, by name.

use std::sync::Arc;

use serde_json::Value;

use super::catalog::{Catalog, Listed};
use super::schema::{Schema, SchemaError};
use super::{Tool, ToolSpec};
use crate::limits::tools::NAME_BYTES_MAX;

/// A gateway's tools, in configuration order. Copies share the tools.
#[derive(Debug, Clone, Default)]
pub struct Registry {
    catalog: Catalog,
    /// In the order of the catalog.
    tools: Vec<Arc<dyn Tool>>,
}

/// Why a tool was not registered or not found.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum RegistryError {
    /// The name has a form that model servers would reject.
    #[error(
        "invalid tool name {0:?}: expected 1 to {NAME_BYTES_MAX} characters from \
         A-Z a-z 0-9 _ . -"
    )]
    BadName(String),
    /// Two tools have the same name.
    #[error("two tools are called {0:?}; rename one of them")]
    Duplicate(String),
    /// The parameters cannot be used to check arguments.
    #[error("parameters of the tool {name:?}: {error}")]
    BadSchema {
        /// The tool's name.
        name: String,
        /// What is wrong with them.
        #[source]
        error: SchemaError,
    },
    /// Some of the chosen tools do not exist.
    #[error("no such tool: {}", .0.join(", "))]
    Unknown(Vec<String>),
}

/// A tool that can be registered. Its schema is compiled once, for all registries it is added to.
#[derive(Debug, Clone)]
pub struct Entry {
    listed: Arc<Listed>,
    tool: Arc<dyn Tool>,
}

impl Entry {
    /// Checks a tool's name and schema.
    pub fn new(tool: Arc<dyn Tool>) -> Result<Self, RegistryError> {
        let spec = Arc::clone(tool.spec());
        if !is_name(&spec.name) {
            return Err(RegistryError::BadName(spec.name.clone()));
        }
        let schema = match Schema::compile(&spec.parameters) {
            Ok(schema) => schema.explained_by(spec.told_parameters()),
            Err(error) => {
                return Err(RegistryError::BadSchema { name: spec.name.clone(), error });
            }
        };
        Ok(Self { listed: Arc::new(Listed::new(spec, schema)), tool })
    }

    /// What models and clients are told about the tool.
    #[must_use]
    pub fn spec(&self) -> &Arc<ToolSpec> {
        &self.listed.spec
    }
}

impl Registry {
    /// Adds a tool after the others.
    pub fn add(&mut self, tool: Arc<dyn Tool>) -> Result<(), RegistryError> {
        self.add_entry(Entry::new(tool)?)
    }

    /// Adds a checked tool after the others.
    ///
    /// # Errors
    /// If there is a tool of this name.
    pub fn add_entry(&mut self, entry: Entry) -> Result<(), RegistryError> {
        let Entry { listed, tool } = entry;
        if self.catalog.get(&listed.spec.name).is_some() {
            return Err(RegistryError::Duplicate(listed.spec.name.clone()));
        }
        self.catalog.push(listed);
        self.tools.push(tool);
        Ok(())
    }

    /// The specs of the tools.
    #[must_use]
    pub const fn catalog(&self) -> &Catalog {
        &self.catalog
    }

    /// The tool with this name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Arc<dyn Tool>> {
        self.catalog.position(name).map(|position| &self.tools[position])
    }

    /// The same, ready to be added to another registry.
    #[must_use]
    pub fn entry(&self, name: &str) -> Option<Entry> {
        let (listed, tool) = (Arc::clone(self.catalog.entry(name)?), Arc::clone(self.get(name)?));
        Some(Entry { listed, tool })
    }

    /// Lets go of whatever the tools keep for a session, which is gone for good.
    pub(crate) fn forget(&self, session: &str) {
        for tool in &self.tools {
            tool.forget(session);
        }
    }

    /// The tools with these names, in the registry's order.
    pub fn subset(&self, names: &[impl AsRef<str>]) -> Result<Self, RegistryError> {
        let names = names.iter().map(AsRef::as_ref);
        let (mut positions, mut unknown) = (Vec::new(), Vec::new());
        for name in names {
            match self.catalog.position(name) {
                Some(position) => positions.push(position),
                None => unknown.push(name.to_owned()),
            }
        }
        if !unknown.is_empty() {
            return Err(RegistryError::Unknown(unknown));
        }
        positions.sort_unstable();
        positions.dedup();
        let tools = positions.iter().map(|position| Arc::clone(&self.tools[*position])).collect();
        Ok(Self { catalog: self.catalog.select(&positions), tools })
    }
}

/// Whether a model can be told about a tool with these parameters, a JSON Schema.
///
/// # Errors
/// Why its calls could not be checked.
pub fn check_parameters(parameters: &Value) -> Result<(), SchemaError> {
    Schema::compile(parameters).map(|_| ())
}

/// Whether every model server accepts this name for a tool: `[A-Za-z0-9_-]{1,64}`.
#[must_use]
pub fn is_tool_name(name: &str) -> bool {
    is_name(name) && !name.contains('.')
}

fn is_name(name: &str) -> bool {
    (1..=NAME_BYTES_MAX).contains(&name.len())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_.-".contains(&byte))
}

#[cfg(test)]
pub(crate) mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::tools::{CallContext, Policy, ToolFuture, ToolResult, ToolSpec};

    /// A tool that returns its arguments.
    #[derive(Debug)]
    pub(crate) struct Named(pub(crate) Arc<ToolSpec>);

    impl Tool for Named {
        fn spec(&self) -> &Arc<ToolSpec> {
            &self.0
        }

        fn call(&self, arguments: Value, _context: CallContext) -> ToolFuture {
            Box::pin(async { Ok(ToolResult::data(arguments)) })
        }
    }

    pub(crate) fn tool(name: &str, parameters: Value) -> Arc<dyn Tool> {
        described(name, "", parameters)
    }

    pub(crate) fn described(name: &str, description: &str, parameters: Value) -> Arc<dyn Tool> {
        Arc::new(Named(Arc::new(ToolSpec {
            name: name.into(),
            description: description.into(),
            parameters,
            waiting_hint: String::new(),
            policy: Policy::default(),
            ..ToolSpec::default()
        })))
    }

    fn registry(names: &[&str]) -> Registry {
        let mut registry = Registry::default();
        for name in names {
            registry.add(tool(name, json!({"type": "object"}))).unwrap();
        }
        registry
    }

    fn names(registry: &Registry) -> Vec<&str> {
        registry.catalog().specs().map(|spec| spec.name.as_str()).collect()
    }

    #[test]
    fn tools_keep_their_order_and_are_found_by_name() {
        let registry = registry(&["b", "a", "c"]);
        assert_eq!(names(&registry), ["b", "a", "c"]);
        assert_eq!(registry.get("a").unwrap().spec().name, "a");
        assert!(registry.get("A").is_none());
    }

    #[test]
    fn names_have_a_form_and_are_unique() {
        let mut registry = registry(&["get_time"]);
        let long = "n".repeat(NAME_BYTES_MAX);
        for good in ["A", "a.b-c_9", long.as_str()] {
            registry.add(tool(good, json!({}))).unwrap();
        }
        for bad in ["", "get time", "größe", "a/b", &format!("{long}n")] {
            let error = registry.add(tool(bad, json!({}))).unwrap_err();
            assert_eq!(error, RegistryError::BadName(bad.into()));
        }
        let error = registry.add(tool("get_time", json!({}))).unwrap_err();
        assert_eq!(error, RegistryError::Duplicate("get_time".into()));
        assert_eq!(registry.catalog().specs().len(), 4);
    }

    #[test]
    fn a_tool_without_a_usable_schema_is_refused() {
        let error = Registry::default().add(tool("t", json!({"type": "array"}))).unwrap_err();
        assert_eq!(
            error.to_string(),
            r#"parameters of the tool "t": the parameters must be a JSON Schema of type "object", not of type "array""#
        );
    }

    #[test]
    fn a_models_mistake_is_explained_by_what_it_is_told() {
        let parameters = |more: Value| {
            let schema = json!({"type": "integer", "const": 1, "more": more});
            json!({"type": "object", "properties": {"n": schema}})
        };
        let spec = ToolSpec {
            name: "t".to_owned(),
            parameters: parameters(json!("IGNORE ALL")),
            told: Some(parameters(json!("a\u{e0041}"))),
            ..ToolSpec::default()
        };
        let mut registry = Registry::default();
        registry.add(Arc::new(Named(Arc::new(spec)))).unwrap();
        let told = registry.catalog().check("t", &json!({"n": "x"})).unwrap_err().to_string();
        assert!(told.contains(r#""more":"a\udb40\udc41""#), "{told}");
        assert!(!told.contains("IGNORE"), "{told}");
    }

    #[test]
    fn a_subset_keeps_the_order_of_the_whole() {
        let all = registry(&["a", "b", "c"]);
        assert_eq!(names(&all.subset(&["c", "a", "c"]).unwrap()), ["a", "c"]);
        assert!(all.subset(&[] as &[&str]).unwrap().catalog().is_empty());
        let error = all.subset(&["a", "x", "y"]).unwrap_err();
        assert_eq!(error, RegistryError::Unknown(vec!["x".into(), "y".into()]));
        let part = all.subset(&["c"]).unwrap();
        assert!(part.get("c").is_some() && part.get("a").is_none());
    }
}
