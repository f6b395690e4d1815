//! How the gateway's own tools appear in Responses: `responses.server_tools`.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde::Serialize;

use crate::tools::{Registry, ToolSpec};

/// See the module docs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ServerItems {
    /// As calls of an MCP server, which no client runs itself.
    #[default]
    McpCall,
    /// As function calls with their outputs, for clients that draw those and run none.
    FunctionCall,
    /// Not at all.
    Hidden,
}

impl ServerItems {
    /// All, with their names in the configuration.
    pub const ALL: [(&'static str, Self); 3] = [
        ("mcp_call", Self::McpCall),
        ("function_call", Self::FunctionCall),
        ("hidden", Self::Hidden),
    ];
}

/// The labels of the servers behind our tools.
#[derive(Debug, Clone)]
pub(in crate::server) struct Labels(pub(in crate::server) Arc<Registry>);

impl Labels {
    /// The label for a tool: the name of its source in the configuration, else the kind of source.
    pub(super) fn of(&self, tool: &str) -> String {
        let Some(spec) = self.0.catalog().get(tool) else { return "tether".to_owned() };
        match &*spec.source.name {
            "" => spec.source.kind.name().to_owned(),
            name => name.to_owned(),
        }
    }

    /// The tools with this label.
    pub(super) fn tools(&self, label: &str) -> Vec<&ToolSpec> {
        self.0.catalog().specs().filter(|spec| self.of(&spec.name) == label).collect()
    }

    /// All labels, each once.
    pub(super) fn all(&self) -> BTreeSet<String> {
        self.0.catalog().specs().map(|spec| self.of(&spec.name)).collect()
    }
}
