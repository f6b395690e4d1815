//! The tools of a gateway, by name.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use serde_json::Value;

use super::schema::{Schema, SchemaError, Violation};
use super::words::quote;
use super::{Tool, ToolSpec};
use crate::limits::tools::{FEEDBACK_NAMES_MAX, NAME_BYTES_MAX};

/// The tools of a gateway, in the order of their configuration. Copies share
/// the tools.
#[derive(Debug, Clone, Default)]
pub struct Registry {
    entries: Vec<Arc<Entry>>,
    /// Position in `entries`.
    by_name: HashMap<String, usize>,
}

#[derive(Debug)]
struct Entry {
    tool: Arc<dyn Tool>,
    schema: Schema,
}

/// Why a tool was not registered, or not found.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum RegistryError {
    /// A name that model servers would not take.
    #[error("a tool's name is 1 to {NAME_BYTES_MAX} of A-Z a-z 0-9 _ . -, not {0:?}")]
    BadName(String),
    /// Two tools of one name.
    #[error("there are two tools called {0:?}; give one of them another name")]
    Duplicate(String),
    /// Parameters that arguments cannot be checked against.
    #[error("parameters of the tool {name:?}: {error}")]
    BadSchema {
        /// The tool.
        name: String,
        /// What is wrong with them.
        #[source]
        error: SchemaError,
    },
    /// A choice of tools that are not all there.
    #[error("no such tool: {}", .0.join(", "))]
    Unknown(Vec<String>),
}

/// Why a call is not run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CallRefusal {
    /// No such tool, or not one of this turn's.
    NotFound {
        /// What the model called.
        name: String,
        /// Names that resemble it, the most alike first.
        closest: Vec<String>,
        /// Others, in their order. Together they are at most
        /// [`FEEDBACK_NAMES_MAX`].
        available: Vec<String>,
    },
    /// The arguments break the tool's schema.
    Invalid {
        /// How; never empty.
        violations: Vec<Violation>,
    },
}

impl fmt::Display for CallRefusal {
    /// What was wrong and what is allowed, in sentences for the model.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotFound { name, closest, available } => {
                write!(f, "There is no tool called {}.", quote(name))?;
                if !closest.is_empty() {
                    write!(f, " Did you mean {}?", closest.join(" or "))?;
                }
                match (closest.is_empty(), available.is_empty()) {
                    (true, true) => {
                        return f.write_str(" No tools are available: answer in words.");
                    }
                    (_, true) => {}
                    (true, false) => write!(f, " Available: {}.", available.join(", "))?,
                    (false, false) => write!(f, " Also available: {}.", available.join(", "))?,
                }
                f.write_str(" Call one of these, or answer in words.")
            }
            Self::Invalid { violations } => {
                f.write_str("The arguments are not valid.")?;
                for violation in violations {
                    write!(f, "\n- {violation}")?;
                }
                Ok(())
            }
        }
    }
}

impl Registry {
    /// Adds a tool behind the others.
    pub fn add(&mut self, tool: Arc<dyn Tool>) -> Result<(), RegistryError> {
        let spec = tool.spec();
        let name = spec.name.clone();
        if !is_name(&name) {
            return Err(RegistryError::BadName(name));
        }
        if self.by_name.contains_key(&name) {
            return Err(RegistryError::Duplicate(name));
        }
        let schema = match Schema::compile(&spec.parameters) {
            Ok(schema) => schema,
            Err(error) => return Err(RegistryError::BadSchema { name, error }),
        };
        self.push(Arc::new(Entry { tool, schema }));
        Ok(())
    }

    /// The tool of that name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Arc<dyn Tool>> {
        self.entry(name).map(|entry| &entry.tool)
    }

    /// What the tools are, in order.
    #[must_use]
    pub fn specs(&self) -> impl ExactSizeIterator<Item = &ToolSpec> {
        self.entries.iter().map(|entry| entry.tool.spec())
    }

    /// What the tools are called, in order.
    #[must_use]
    pub fn names(&self) -> Vec<String> {
        self.specs().map(|spec| spec.name.clone()).collect()
    }

    /// Whether there are none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Only the tools of these names, in the order that they have here.
    pub fn subset(&self, names: &[impl AsRef<str>]) -> Result<Self, RegistryError> {
        let names = names.iter().map(AsRef::as_ref);
        let unknown: Vec<String> =
            names.clone().filter(|name| self.entry(name).is_none()).map(str::to_owned).collect();
        if !unknown.is_empty() {
            return Err(RegistryError::Unknown(unknown));
        }
        let mut positions: Vec<usize> =
            names.filter_map(|name| self.by_name.get(name).copied()).collect();
        positions.sort_unstable();
        positions.dedup();
        let mut subset = Self::default();
        for position in positions {
            subset.push(Arc::clone(&self.entries[position]));
        }
        Ok(subset)
    }

    /// Whether a call may run: its tool is there and its arguments are valid.
    ///
    /// # Errors
    /// Why it is not run.
    pub fn check(&self, name: &str, arguments: &Value) -> Result<(), CallRefusal> {
        let Some(entry) = self.entry(name) else { return Err(self.not_found(name)) };
        let valid = entry.schema.validate(arguments);
        valid.map_err(|violations| CallRefusal::Invalid { violations })
    }

    fn entry(&self, name: &str) -> Option<&Arc<Entry>> {
        self.by_name.get(name).map(|&position| &self.entries[position])
    }

    fn push(&mut self, entry: Arc<Entry>) {
        self.by_name.insert(entry.tool.spec().name.clone(), self.entries.len());
        self.entries.push(entry);
    }

    fn not_found(&self, name: &str) -> CallRefusal {
        let names = || self.specs().map(|spec| spec.name.as_str());
        let mut alike: Vec<(f64, &str)> =
            names().map(|known| (closeness(name, known), known)).collect();
        alike.retain(|(likeness, _)| *likeness >= ALIKE);
        // A stable sort: those equally alike keep their order.
        alike.sort_by(|a, b| b.0.total_cmp(&a.0));
        alike.truncate(CLOSEST_MAX);
        let closest: Vec<String> = alike.into_iter().map(|(_, name)| name.to_owned()).collect();
        let others = names().filter(|name| !closest.iter().any(|close| close == name));
        let available =
            others.take(FEEDBACK_NAMES_MAX - closest.len()).map(str::to_owned).collect();
        CallRefusal::NotFound { name: name.to_owned(), closest, available }
    }
}

/// Names that are put forward as what the model meant; with more it would have
/// to guess again.
const CLOSEST_MAX: usize = 3;

/// From here on two names resemble each other: half of the letters are the same,
/// as in `get_time` and `get_current_time`.
const ALIKE: f64 = 0.5;

/// How alike a name is to a known one, 0 to 1: as it stands, or without what models put
/// around names (`functions.calculate:0`).
fn closeness(name: &str, known: &str) -> f64 {
    let bare = name.strip_prefix("functions.").unwrap_or(name);
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    let bare = match bare.rsplit_once(':') {
        Some((bare, number)) if is_number(number) => bare,
        _ => bare,
    };
    likeness(name, known).max(likeness(bare, known))
}

/// How alike two names are, 0 to 1: by edit distance, whatever their case and
/// the characters between their words.
fn likeness(a: &str, b: &str) -> f64 {
    let plain = |name: &str| -> String {
        let name = name.chars().take(NAME_BYTES_MAX);
        name.map(
            |char| if matches!(char, '-' | '.' | ' ') { '_' } else { char.to_ascii_lowercase() },
        )
        .collect()
    };
    strsim::normalized_damerau_levenshtein(&plain(a), &plain(b))
}

fn is_name(name: &str) -> bool {
    (1..=NAME_BYTES_MAX).contains(&name.len())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_.-".contains(&byte))
}

#[cfg(test)]
pub(crate) mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::tools::{CallContext, Policy, ToolFuture, ToolResult};

    /// A tool that gives back what it is given.
    #[derive(Debug)]
    pub(crate) struct Named(pub(crate) ToolSpec);

    impl Tool for Named {
        fn spec(&self) -> &ToolSpec {
            &self.0
        }

        fn call(&self, arguments: Value, _context: CallContext) -> ToolFuture {
            Box::pin(async { Ok(ToolResult::data(arguments)) })
        }
    }

    fn tool(name: &str, parameters: Value) -> Arc<dyn Tool> {
        Arc::new(Named(ToolSpec {
            name: name.into(),
            description: String::new(),
            parameters,
            waiting_hint: String::new(),
            example: None,
            policy: Policy::default(),
        }))
    }

    fn registry(names: &[&str]) -> Registry {
        let mut registry = Registry::default();
        for name in names {
            registry.add(tool(name, json!({"type": "object"}))).unwrap();
        }
        registry
    }

    fn names(registry: &Registry) -> Vec<&str> {
        registry.specs().map(|spec| spec.name.as_str()).collect()
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
        assert_eq!(registry.specs().len(), 4);
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
    fn a_subset_keeps_the_order_of_the_whole() {
        let all = registry(&["a", "b", "c"]);
        assert_eq!(names(&all.subset(&["c", "a", "c"]).unwrap()), ["a", "c"]);
        assert!(all.subset(&[] as &[&str]).unwrap().is_empty());
        let error = all.subset(&["a", "x", "y"]).unwrap_err();
        assert_eq!(error, RegistryError::Unknown(vec!["x".into(), "y".into()]));
        let part = all.subset(&["c"]).unwrap();
        assert!(part.get("c").is_some() && part.get("a").is_none());
    }

    #[track_caller]
    fn check_not_found(registry: &Registry, name: &str, told: &str) {
        assert_eq!(registry.check(name, &json!({})).unwrap_err().to_string(), told);
    }

    #[test]
    fn an_unknown_tool_is_answered_with_the_closest_names_first() {
        let registry = registry(&["calculate", "get_current_time", "get_weather", "send_message"]);
        check_not_found(
            &registry,
            "get_time",
            "There is no tool called \"get_time\". Did you mean get_current_time? \
             Also available: calculate, get_weather, send_message. Call one of these, or \
             answer in words.",
        );
        check_not_found(
            &registry,
            "Get-Wether",
            "There is no tool called \"Get-Wether\". Did you mean get_weather? \
             Also available: calculate, get_current_time, send_message. Call one of these, or \
             answer in words.",
        );
        for name in ["functions.calculate:0", "functions.calculate", "calculate:12"] {
            check_not_found(
                &registry,
                name,
                &format!(
                    "There is no tool called \"{name}\". Did you mean calculate? \
                     Also available: get_current_time, get_weather, send_message. \
                     Call one of these, or answer in words."
                ),
            );
        }
        let weather = self::registry(&["get_weather_map", "get_weather"]);
        check_not_found(
            &weather,
            "get_wether",
            "There is no tool called \"get_wether\". Did you mean get_weather or get_weather_map? \
             Call one of these, or answer in words.",
        );
        check_not_found(
            &registry,
            "xyz",
            "There is no tool called \"xyz\". \
             Available: calculate, get_current_time, get_weather, send_message. \
             Call one of these, or answer in words.",
        );
        check_not_found(
            &Registry::default(),
            "xyz",
            "There is no tool called \"xyz\". No tools are available: answer in words.",
        );
    }

    #[test]
    fn no_more_names_are_told_than_a_model_can_use() {
        let many: Vec<String> = (0..FEEDBACK_NAMES_MAX * 2).map(|n| format!("tool_{n}")).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        let Err(CallRefusal::NotFound { closest, available, .. }) =
            registry(&many).check("tool_x", &json!({}))
        else {
            panic!("there is no such tool")
        };
        assert_eq!(closest.len(), CLOSEST_MAX);
        assert_eq!(closest.len() + available.len(), FEEDBACK_NAMES_MAX);
    }

    #[test]
    fn arguments_are_checked_before_anything_runs() {
        let mut registry = Registry::default();
        registry.add(tool("t", json!({"properties": {"n": {"type": "integer"}}}))).unwrap();
        assert_eq!(registry.check("t", &json!({"n": 1})), Ok(()));
        assert_eq!(
            registry.check("t", &json!({"n": "1"})).unwrap_err().to_string(),
            "The arguments are not valid.\n- arguments.n: expected an integer; \
             received a string: \"1\"; its schema is \"n\": {\"type\":\"integer\"}"
        );
        let refusal = registry.check("t", &json!([])).unwrap_err().to_string();
        assert!(refusal.contains("expected an object"));
    }

    proptest! {
        #[test]
        fn any_call_is_answered(name in any::<String>()) {
            let registry = registry(&["get_current_time"]);
            let refusal = registry.check(&name, &json!({})).unwrap_err();
            prop_assert!(!refusal.to_string().is_empty());
        }
    }
}
