//! How Messages offers and shows server tools: `messages.server_tools`.

use serde::Serialize;

/// See the module docs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum MessagesServerTools {
    /// They are not offered: clients bring their own.
    #[default]
    Off,
    /// They run, and the client sees only the answer.
    Hidden,
    /// They run, and the client sees each call and its result as blocks, like those of an MCP server
    /// that the API has called.
    McpToolUse,
}

impl MessagesServerTools {
    /// All, with their names in the configuration.
    pub const ALL: [(&'static str, Self); 3] =
        [("off", Self::Off), ("hidden", Self::Hidden), ("mcp_tool_use", Self::McpToolUse)];
}
