//! Tools that a client brings to a turn, and runs itself.
//!
//! The model is told about them as about any other. A call is checked against its schema and then
//! handed to the client; the turn continues with the result. A client's tool hides one of ours with
//! the same name, even if it cannot be offered, so nothing of ours runs that the client meant to run.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::{Value, json};

use super::catalog::Listed;
use super::schema::{PatternsLeft, Schema};
use super::source::told;
use super::{Catalog, Policy, SchemaError, Source, ToolSpec, clean, is_tool_name};
use crate::limits::tools::{
    CLIENT_TOOLS_MAX, DESCRIPTION_CHARS_MAX, NAME_BYTES_MAX, SCHEMA_BYTES_MAX,
};
use crate::text::{json_len, quote};

/// The tools of a client, for one turn.
#[derive(Debug, Clone, Default)]
pub struct ClientTools {
    tools: Vec<Arc<Listed>>,
    patterns_left: PatternsLeft,
    left_out: Vec<ClientToolError>,
    /// The names of tools that were left out. The request's length bounds them.
    reserved: BTreeSet<String>,
}

/// Why a client's tool cannot be offered.
#[derive(Debug, Clone, thiserror::Error, PartialEq, Eq)]
pub enum ClientToolError {
    /// No model server accepts the name.
    #[error("{} is not a valid tool name; use 1 to 64 characters from A-Z a-z 0-9 _ -", quote(.0))]
    Name(String),
    /// Two have the same name.
    #[error("two tools are called {}; rename one of them", quote(.0))]
    Twice(String),
    /// The parameters are not usable as a schema.
    #[error("the parameters of {} cannot be used: {error}", quote(name))]
    Parameters {
        /// The tool.
        name: String,
        /// What is wrong with them.
        error: SchemaError,
    },
    /// The parameters are too long.
    #[error(
        "the parameters of {} are longer than {SCHEMA_BYTES_MAX} bytes of JSON; shorten them",
        quote(.0)
    )]
    TooLong(String),
    /// There are too many.
    #[error("{} is one tool too many; send at most {CLIENT_TOOLS_MAX}", quote(.0))]
    TooMany(String),
}

impl ClientToolError {
    /// The tool's name.
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            Self::Name(name)
            | Self::Twice(name)
            | Self::Parameters { name, .. }
            | Self::TooLong(name)
            | Self::TooMany(name) => name,
        }
    }
}

/// Nothing is known about what they do. They run elsewhere, so they hold up nothing here, and what
/// they return may come from anyone.
const POLICY: Policy = Policy { open_world: true, ..Policy::NONE };

impl ClientTools {
    /// Adds a tool. Without parameters, it takes none.
    ///
    /// # Errors
    /// See [`ClientToolError`].
    pub fn add(
        &mut self,
        name: String,
        description: &str,
        parameters: Option<Value>,
    ) -> Result<(), ClientToolError> {
        if self.tools.len() == CLIENT_TOOLS_MAX {
            return Err(ClientToolError::TooMany(name));
        }
        if !is_tool_name(&name) {
            return Err(ClientToolError::Name(name));
        }
        if self.has(&name) {
            return Err(ClientToolError::Twice(name));
        }
        let parameters = parameters.unwrap_or_else(|| json!({"type": "object", "properties": {}}));
        if json_len(&parameters) > SCHEMA_BYTES_MAX {
            return Err(ClientToolError::TooLong(name));
        }
        let schema = match Schema::of_client(&parameters, &mut self.patterns_left) {
            Ok(schema) => schema,
            Err(error) => return Err(ClientToolError::Parameters { name, error }),
        };
        let told = told::schema(&name, &parameters);
        let spec = ToolSpec {
            description: clean::text(description, DESCRIPTION_CHARS_MAX),
            name,
            parameters,
            told,
            policy: POLICY,
            source: Source::client(),
            ..ToolSpec::default()
        };
        let schema = schema.explained_by(spec.told_parameters());
        self.tools.push(Arc::new(Listed::new(Arc::new(spec), schema)));
        Ok(())
    }

    /// Adds a tool, or leaves it out if it cannot be offered: many programs send all tools that
    /// they know.
    pub fn add_if_usable(&mut self, name: String, description: &str, parameters: Option<Value>) {
        let Err(error) = self.add(name, description, parameters) else { return };
        self.reserve(error.name().to_owned());
        if self.left_out.len() < CLIENT_TOOLS_MAX {
            self.left_out.push(error);
        }
    }

    /// Notes that the client runs a tool with this name, which is not offered.
    pub fn reserve(&mut self, name: String) {
        // No tool of ours has a longer one.
        if name.len() <= NAME_BYTES_MAX {
            self.reserved.insert(name);
        }
    }

    /// The names of tools that the client runs and that are not offered.
    pub fn reserved(&self) -> impl Iterator<Item = &str> {
        self.reserved.iter().map(String::as_str)
    }

    /// Why tools were left out, the first [`CLIENT_TOOLS_MAX`] of them.
    #[must_use]
    pub fn left_out(&self) -> &[ClientToolError] {
        &self.left_out
    }

    /// Whether there are none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.tools.is_empty()
    }

    /// Whether the client runs a tool of this name, offered or not.
    #[must_use]
    pub fn runs(&self, name: &str) -> bool {
        self.has(name) || self.reserved.contains(name)
    }

    /// Whether one has this name.
    #[must_use]
    pub fn has(&self, name: &str) -> bool {
        self.tools.iter().any(|listed| listed.spec.name == name)
    }

    /// What they are like.
    pub(crate) fn specs(&self) -> impl Iterator<Item = &ToolSpec> {
        self.tools.iter().map(|listed| &*listed.spec)
    }

    /// Those whose names are chosen.
    #[must_use]
    pub fn only(&self, is_chosen: impl Fn(&str) -> bool) -> Self {
        let chosen = self.tools.iter().filter(|listed| is_chosen(&listed.spec.name));
        Self { tools: chosen.cloned().collect(), ..self.clone() }
    }

    /// The gateway's tools, minus those whose names belong to client tools that are not offered.
    #[must_use]
    pub fn without_reserved(&self, ours: &Catalog) -> Catalog {
        let is_ours = |name: &str| !self.reserved.contains(name) || self.has(name);
        if self.reserved.is_empty() || ours.specs().all(|spec| is_ours(&spec.name)) {
            return ours.clone();
        }
        let positions = 0..ours.specs().len();
        let kept: Vec<usize> = positions.filter(|at| is_ours(&ours.at(*at).name)).collect();
        ours.select(&kept)
    }

    /// These and the gateway's tools [without those that are reserved](Self::without_reserved), each
    /// of which keeps its position. One with the name of a client's tool makes room for that.
    #[must_use]
    pub fn beside(&self, ours: &Catalog) -> Catalog {
        let mut all = self.without_reserved(ours);
        for listed in &self.tools {
            all.put(Arc::clone(listed));
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tools::Registry;
    use crate::tools::registry::tests::Named;

    fn tools(names: &[&str]) -> ClientTools {
        let mut tools = ClientTools::default();
        for name in names {
            tools.add((*name).to_owned(), "", None).unwrap();
        }
        tools
    }

    #[track_caller]
    fn check_refused(name: &str, parameters: Option<Value>, expected: &str) {
        let error = tools(&["b"]).add(name.to_owned(), "", parameters).unwrap_err();
        assert_eq!(error.to_string(), expected);
    }

    fn ours() -> Registry {
        let mut ours = Registry::default();
        for name in ["a", "b", "c"] {
            let spec = ToolSpec { name: name.to_owned(), ..ToolSpec::default() };
            let parameters = json!({"type": "object"});
            ours.add(Arc::new(Named(Arc::new(ToolSpec { parameters, ..spec })))).unwrap();
        }
        ours
    }

    #[test]
    fn a_clients_tool_hides_ours() {
        let ours = ours();
        let all = tools(&["d", "b"]).beside(ours.catalog());
        assert_eq!(all.names(), ["a", "b", "c", "d"]);
        assert!(all.get("b").unwrap().is_clients());
        assert!(!all.get("a").unwrap().is_clients());
    }

    #[test]
    fn a_clients_tool_that_is_left_out_hides_ours() {
        let (ours, no_schema) = (ours(), || Some(json!({"type": ["object", "null"]})));
        let mut clients = tools(&["c"]);
        for name in ["b", "c", "e"] {
            clients.add_if_usable(name.to_owned(), "", no_schema());
        }
        assert_eq!(clients.beside(ours.catalog()).names(), ["a", "c"], "a second c hides nothing");
        assert!(clients.runs("b") && clients.runs("c") && !clients.runs("a"));
        let none = clients.only(|_| false);
        assert_eq!(none.beside(ours.catalog()).names(), ["a"], "whatever is chosen");
    }

    #[test]
    fn what_cannot_be_offered_is_refused_with_its_name() {
        let name = "is not a valid tool name; use 1 to 64 characters from A-Z a-z 0-9 _ -";
        check_refused("a.b", None, &format!("\"a.b\" {name}"));
        check_refused("b", None, "two tools are called \"b\"; rename one of them");
        check_refused(
            "a",
            Some(json!({"type": "string"})),
            "the parameters of \"a\" cannot be used: the parameters must be a JSON Schema of type \
             \"object\", not of type \"string\"",
        );
        let long = json!({"description": "x".repeat(SCHEMA_BYTES_MAX)});
        let message = format!(
            "the parameters of \"a\" are longer than {SCHEMA_BYTES_MAX} bytes of JSON; shorten them"
        );
        check_refused("a", Some(long), &message);
    }

    #[test]
    fn what_cannot_be_offered_is_left_out() {
        let mut tools = ClientTools::default();
        let no_schema = json!({"type": "object", "properties": null});
        for (name, parameters) in [("a", None), ("a", None), ("b.c", None), ("d", Some(no_schema))]
        {
            tools.add_if_usable(name.to_owned(), "", parameters);
        }
        tools.add_if_usable("e".to_owned(), "", None);
        assert_eq!(tools.left_out().len(), 3);
        let chosen = tools.only(|name| name == "e");
        assert_eq!(chosen.beside(&Catalog::default()).names(), ["e"]);
        assert_eq!(chosen.left_out(), tools.left_out());
    }

    #[test]
    fn as_many_as_may_be_and_one_more() {
        let mut tools = ClientTools::default();
        for number in 0..CLIENT_TOOLS_MAX {
            tools.add(format!("t{number}"), "", None).unwrap();
        }
        let more = || "more".to_owned();
        assert_eq!(tools.add(more(), "", None), Err(ClientToolError::TooMany(more())));
        tools.add_if_usable(more(), "", None);
        assert!(tools.runs("more") && !tools.has("more"));
    }
}
