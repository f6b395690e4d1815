//! The tools of a request.

use std::borrow::Cow;
use std::iter;

use serde_json::{Value, json};

use super::namespaces;
use super::server_items::Labels;
use crate::server::dialect::{client_tools, tool_choice};
use crate::server::refusal::Refusal;
use crate::tools::Confirm;
use crate::tools::client::ClientTools;

/// The tools of a turn.
#[derive(Debug, Default)]
pub(super) struct RequestTools {
    /// Those that the client runs.
    pub(super) client_tools: ClientTools,
    /// The names of the server tools; all if absent.
    pub(super) server_tools: Option<Vec<String>>,
    pub(super) confirm: Option<Confirm>,
}

/// Reads `tools`. Those that only another service could run are skipped, because some clients always
/// send them. `allowed` are the server tools that the model's name allows.
pub(super) fn read(
    tools: &[Value],
    allowed: Option<Vec<String>>,
    labels: &Labels,
) -> Result<RequestTools, Refusal> {
    let mut read = servers(tools, labels);
    read.server_tools = tool_choice::both(read.server_tools, allowed);
    let functions: Vec<_> = functions(tools).collect();
    read.client_tools = client_tools::of(functions.iter().map(|tool| &**tool), iter::empty())?;
    Ok(read)
}

fn functions(tools: &[Value]) -> impl Iterator<Item = Cow<'_, Value>> {
    let plain = tools.iter().filter(|tool| tool["type"] == "function").map(Cow::Borrowed);
    plain.chain(namespaces::functions(tools).map(Cow::Owned))
}

/// The server tools. An `mcp` entry with a known label offers only the tools of that source.
/// A client's own servers are never called: they could be anywhere in the operator's network.
fn servers(tools: &[Value], labels: &Labels) -> RequestTools {
    let mut server_tools: Option<Vec<String>> = None;
    let mut confirm = None;
    for tool in tools.iter().filter(|tool| tool["type"] == "mcp") {
        let names = labels.tools(tool["server_label"].as_str().unwrap_or_default());
        if names.is_empty() || tool["server_url"].is_string() {
            continue;
        }
        let allowed = tool["allowed_tools"]
            .as_array()
            .or_else(|| tool["allowed_tools"]["tool_names"].as_array());
        let is_allowed = |tool: &(String, Option<String>)| {
            let is = |name: &Value| name.as_str().is_some_and(|name| is_called(tool, name));
            allowed.is_none_or(|allowed| allowed.iter().any(is))
        };
        let allowed = names.into_iter().filter(is_allowed).map(|(name, _)| name);
        server_tools.get_or_insert_default().extend(allowed);
        // As an object, it names tools. Others are asked about, too, rather than too few.
        let asks = &tool["require_approval"];
        if asks == "always" || asks.is_object() {
            confirm = Some(Confirm::Always);
        }
    }
    RequestTools { server_tools, confirm, ..RequestTools::default() }
}

/// Whether this is a tool's name here, or the one that its server has given it.
fn is_called((here, own): &(String, Option<String>), name: &str) -> bool {
    here == name || own.as_deref() == Some(name)
}

/// A `tool_choice` in which labels are replaced by the names of their tools.
pub(super) fn with_names(choice: &Value, labels: &Labels) -> Result<Value, Refusal> {
    if choice["type"] == "mcp" {
        let mut tools = named(choice, labels);
        return match tools.len() {
            0 => Err(Refusal::invalid("tool_choice", NO_SUCH_TOOL)),
            1 => Ok(tools.remove(0)),
            _ => Ok(json!({"type": "allowed_tools", "mode": "required", "tools": tools})),
        };
    }
    let mut choice = choice.clone();
    if let Some(tools) = choice.get_mut("tools").and_then(Value::as_array_mut) {
        let each = std::mem::take(tools).into_iter();
        *tools = each
            .flat_map(|tool| if tool["type"] == "mcp" { named(&tool, labels) } else { vec![tool] })
            .collect();
    }
    Ok(choice)
}

const NO_SUCH_TOOL: &str = "tool_choice selects no tool: server_label must name a source of tools, as \
                            GET /api/v1/tools lists them, and name one of its tools";

/// The tools that an `mcp` entry selects: all with its label, or the one with its `name`.
fn named(entry: &Value, labels: &Labels) -> Vec<Value> {
    let Some(label) = entry["server_label"].as_str() else {
        return vec![json!({"type": "function", "name": entry["name"]})];
    };
    let tools = labels.tools(label).into_iter();
    let meant = entry["name"].as_str();
    tools
        .filter(|tool| meant.is_none_or(|name| is_called(tool, name)))
        .map(|(name, _)| json!({"type": "function", "name": name}))
        .collect()
}

/// The functions as the response repeats them.
pub(super) fn echo(tools: &[Value]) -> Value {
    let echoed = functions(tools).map(|tool| {
        json!({
            "type": "function", "name": tool["name"], "description": tool["description"],
            "parameters": tool["parameters"], "strict": tool["strict"],
        })
    });
    echoed.collect()
}
