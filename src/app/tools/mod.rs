//! The sources of tools that a configuration names.

mod commands;
mod http;
mod mcp;
mod programs;

use std::sync::Arc;

use self::commands::Commands;
use self::programs::Programs;
use crate::config::{Config, McpConfig};
use crate::tools::builtin::{Calculate, GetCurrentTime, demo};
use crate::tools::mcp::McpServer;
use crate::tools::source::Offering;
use crate::tools::{Entry, RegistryError, Source, Sources, Tool};

/// Why the tools of a configuration cannot be used on this machine. Anything else that is wrong
/// with a tool only keeps that tool from being offered.
#[derive(Debug, thiserror::Error)]
pub enum ToolsError {
    /// A built-in tool cannot be used.
    #[error(transparent)]
    Builtin(#[from] RegistryError),
    /// A sandbox is required, but cannot be enforced.
    #[error(
        "{tool}: sandbox.mode is `require`, but this machine cannot enforce {missing}; use \
         `auto` to run it with what is available"
    )]
    Sandbox {
        /// The tool.
        tool: String,
        /// What cannot be enforced.
        missing: String,
    },
}

/// The sources of the tools that the model is offered, in the order of the configuration. Those
/// that have to be asked are not asked before [`Sources::start`].
///
/// # Errors
/// See [`ToolsError`].
pub fn tools(config: &Config) -> Result<Sources, ToolsError> {
    let mut sources = Sources::default();
    sources.push(builtin(config)?);
    for entry in &config.tools.http {
        http::add(&mut sources, entry);
    }
    let programs = Programs::new(config);
    let commands = Commands { config, programs: &programs };
    for entry in &config.tools.command {
        sources.push(commands.offering(entry)?);
    }
    for entry in &config.tools.mcp {
        mcp::add(&mut sources, entry, config, &programs)?;
    }
    Ok(sources)
}

/// The MCP servers of a configuration by name, not connected.
///
/// # Errors
/// See [`ToolsError`].
pub fn mcp_servers(config: &Config) -> Result<Vec<(String, McpServer)>, ToolsError> {
    let programs = Programs::new(config);
    let server =
        |entry: &McpConfig| Ok((entry.name.clone(), mcp::server(entry, config, &programs)?));
    config.tools.mcp.iter().map(server).collect()
}

fn builtin(config: &Config) -> Result<Offering, RegistryError> {
    let mut tools = Vec::new();
    for name in &config.tools.builtin {
        let tool: Arc<dyn Tool> = match name.as_str() {
            "get_current_time" => Arc::new(GetCurrentTime::new()),
            "calculate" => Arc::new(Calculate::new()),
            other => unreachable!("`config` only accepts built-in tools, not {other:?}"),
        };
        tools.push(Entry::new(tool)?);
    }
    if config.tools.demo {
        for tool in demo::tools() {
            tools.push(Entry::new(tool)?);
        }
    }
    Ok(Offering::ready(Source::builtin(), tools, Vec::new()))
}
