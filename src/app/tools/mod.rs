//! The sources of tools that a configuration names.

mod commands;
mod http;
mod mcp;
mod programs;

use std::sync::Arc;

use serde_json::Value;

use self::commands::Commands;
use self::programs::Programs;
use crate::config::{Config, McpConfig};
use crate::tools::builtin::{Calculate, GetCurrentTime, demo};
use crate::tools::mcp::McpServer;
use crate::tools::source::{Declared, Effects, EntryRules, Offering};
use crate::tools::{Entry, Policy, RegistryError, Source, Sources, Tool, ToolSpec};

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
    let programs = Programs::new(config);
    let mut sources = Sources::with_programs(Arc::clone(programs.launcher()));
    sources.push(builtin(config)?);
    for entry in &config.tools.http {
        http::add(&mut sources, entry);
    }
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

/// A tool as an operator writes it.
struct OperatorTool<'a> {
    name: &'a str,
    description: &'a str,
    parameters: &'a Value,
}

/// The spec of a tool that an operator writes. `verb` begins what users see while it runs.
///
/// # Errors
/// Why it cannot be offered.
fn written_spec(
    source: &Source,
    verb: &str,
    OperatorTool { name, description, parameters }: OperatorTool<'_>,
    policy: Policy,
) -> Result<ToolSpec, String> {
    let declared = Declared {
        name: name.to_owned(),
        title: None,
        description: description.to_owned(),
        parameters: parameters.clone(),
        effects: Effects::Known(policy),
    };
    Ok(ToolSpec {
        waiting_hint: format!("{verb} {}", name.replace(['_', '-'], " ")),
        source_name: None,
        ..EntryRules::of_one(source.clone()).spec(declared)?
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::{Value, json};

    use super::*;
    use crate::config::{Overrides, load_text};
    use crate::limits::tools::{DESCRIPTION_CHARS_MAX, PARAMETER_DESCRIPTION_CHARS_MAX};

    #[test]
    fn a_tool_that_the_operator_writes_is_told_like_any_other() {
        let long = "d".repeat(40_000);
        let entry = |rest: Value| {
            let q = json!({ "type": "string", "description": long, "examples": ["a"], "x-foo": 1 });
            let schema = json!({ "$schema": "https://json-schema.org/draft/2020-12/schema", "type": "object", "properties": { "q": q } });
            let mut entry = json!({ "description": long, "parameters": schema });
            entry.as_object_mut().unwrap().extend(rest.as_object().unwrap().clone());
            entry
        };
        let program = std::env::current_exe().unwrap();
        let command = entry(json!({ "name": "run", "command": [program, "--", "{q}"] }));
        let url = "https://api.example.org";
        let http = entry(json!({ "name": "ask", "url": url, "query": { "q": "{q}" } }));
        let text = json!({ "tools": { "builtin": [], "http": [http], "command": [command] } });
        let config =
            load_text("a.yml", &text.to_string(), &Overrides::default(), &|_| None).unwrap();
        let toolset = tools(&config).unwrap().toolset();
        assert_eq!(toolset.tools.catalog().names(), ["ask", "run"]);
        let cut = |chars: usize| format!("{}…", "d".repeat(chars));
        for spec in toolset.tools.catalog().specs() {
            assert_eq!(spec.description, cut(DESCRIPTION_CHARS_MAX));
            let q =
                json!({ "type": "string", "description": cut(PARAMETER_DESCRIPTION_CHARS_MAX) });
            let told = json!({ "type": "object", "properties": { "q": q } });
            assert_eq!(*spec.told_parameters(), told, "{}", spec.name);
        }
    }

    /// An entry's own rules come before what is known of all entries of its kind.
    #[test]
    fn a_policy_comes_before_what_an_entry_is_by_default() {
        let program = std::env::current_exe().unwrap();
        let kinds = [
            ("command", json!({ "command": [program] })),
            ("http", json!({ "url": "https://api.example.org" })),
        ];
        for (kind, what) in kinds {
            let policy = |own: Value| {
                let mut entry =
                    json!({ "name": "a", "description": "b", "parameters": { "type": "object" } });
                for more in [&what, &own] {
                    entry.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
                }
                let text = json!({ "tools": { "builtin": [], kind: [entry] } }).to_string();
                let config = load_text("a.yml", &text, &Overrides::default(), &|_| None).unwrap();
                let catalog = tools(&config).unwrap().toolset().tools;
                catalog.catalog().specs().next().unwrap().policy
            };
            let [five, two] = [5, 2].map(|seconds| Some(Duration::from_secs(seconds)));
            for (own, timeout) in [
                (json!({}), None),
                (json!({ "timeout_sec": 5 }), five),
                (json!({ "policy": { "timeout_sec": 2 } }), two),
                (json!({ "timeout_sec": 5, "policy": { "timeout_sec": 2 } }), two),
            ] {
                assert_eq!(policy(own.clone()).timeout, timeout, "{kind} {own}");
            }
            // A program may change anything; a GET only reads.
            assert_eq!(policy(json!({})).mutates, kind == "command", "{kind}");
            for mutates in [true, false] {
                let own = json!({ "policy": { "mutates": mutates } });
                assert_eq!(policy(own).mutates, mutates, "{kind}");
            }
        }
    }
}
