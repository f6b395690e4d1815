//! `tether tools`: prints the tools as they are described to the model, or runs one of them.

mod answer;
mod call;
mod lines;
pub(super) mod settle;

use std::io::Write;

use serde_json::json;

use super::{CliError, ToolsAction, print_diagnostic};
use crate::app;
use crate::cli::runtime::runtime;
use crate::config::Config;
use crate::tools::{ToolSpec, Toolset};

/// Lists the tools, or does what `action` says.
pub(super) fn run(
    config: &Config,
    action: Option<&ToolsAction>,
    out: &mut impl Write,
) -> Result<(), CliError> {
    match action {
        None => list(config, out),
        Some(ToolsAction::Call(args)) => call::run(config, args, out),
        Some(ToolsAction::Pin(_)) => pin(config, out),
    }
}

/// Writes the name of each MCP server, and the hash of its list of tools as it is now. What went
/// wrong goes to standard error.
///
/// # Errors
/// As [`list`]; [`CliError::Silent`] if a server does not answer.
fn pin(config: &Config, out: &mut impl Write) -> Result<(), CliError> {
    let servers = app::mcp_servers(config).map_err(CliError::usage)?;
    let mut has_failed = false;
    runtime()?.block_on(async {
        for (name, server) in &servers {
            match server.pin().await {
                Ok((pin, count)) => writeln!(out, "{name}: {pin} # {count} tools")?,
                Err(reason) => {
                    has_failed = true;
                    print_diagnostic("error", format!("mcp {name}: {reason}"));
                }
            }
        }
        out.flush()?;
        for (_, server) in &servers {
            server.ended().await;
        }
        Ok::<_, CliError>(())
    })?;
    if has_failed { Err(CliError::Silent) } else { Ok(()) }
}

/// Writes `{"tools":[...]}`, indented, in the order of the configuration, once every source has
/// answered. What went wrong goes to standard error.
///
/// # Errors
/// [`CliError::Usage`] if the configuration cannot be used here; [`CliError::Io`] if `out` fails.
fn list(config: &Config, out: &mut impl Write) -> Result<(), CliError> {
    runtime()?.block_on(async {
        let mut sources = app::tools(config).map_err(CliError::usage)?;
        let toolset = settle::settled(&mut sources, settle::wait(config)).await;
        let written = write(&toolset, config, out);
        sources.stop().await;
        written
    })
}

fn write(toolset: &Toolset, config: &Config, out: &mut impl Write) -> Result<(), CliError> {
    settle::report(toolset);
    if !app::rules(config).can_tell_all(toolset.tools.catalog()) {
        let note = "these are more tools than a model is told about at once: each question gets \
                    those that fit it best, as `tools.select` says";
        print_diagnostic("note", note);
    }
    let tools: Vec<&ToolSpec> = toolset.tools.catalog().specs().collect();
    let json = serde_json::to_string_pretty(&json!({ "tools": tools }))
        .map_err(|error| CliError::Failed(error.to_string()))?;
    writeln!(out, "{json}")?;
    out.flush()?;
    Ok(())
}
