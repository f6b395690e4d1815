//! The tools of a request.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashSet};

use serde_json::{Value, json};

use super::namespaces;
use super::server_items::Labels;
use crate::gateway::BeginError;
use crate::server::dialect::{client_tools, tool_choice};
use crate::server::refusal::Refusal;
use crate::text::quote;
use crate::tools::client::ClientTools;
use crate::tools::{Confirm, ToolSpec};

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
/// send them. `allowed` are the server tools that the model's name allows. A client that asks for one of `empty_sources` is
/// told to wait: it may be starting.
pub(super) fn read(
    tools: &[Value],
    allowed: Option<Vec<String>>,
    labels: &Labels,
    empty_sources: &[String],
) -> Result<RequestTools, Refusal> {
    let mut read = servers(tools, labels, empty_sources)?;
    read.server_tools = tool_choice::both(read.server_tools, allowed);
    let functions: Vec<_> = functions(tools).collect();
    let functions = functions.iter().map(|tool| &**tool);
    read.client_tools = client_tools::of(functions, other_names(tools))?;
    Ok(read)
}

/// All tools, under the names that models know.
fn named_tools(tools: &[Value]) -> impl Iterator<Item = Cow<'_, Value>> {
    let plain = tools.iter().filter(|tool| tool["type"] != "namespace").map(Cow::Borrowed);
    plain.chain(namespaces::tools(tools).map(Cow::Owned))
}

fn functions(tools: &[Value]) -> impl Iterator<Item = Cow<'_, Value>> {
    named_tools(tools).filter(|tool| tool["type"] == "function")
}

/// The names of tools that the client runs, and that are no functions.
fn other_names(tools: &[Value]) -> impl Iterator<Item = String> {
    let others = named_tools(tools).filter(|tool| tool["type"] == "custom");
    others.filter_map(|tool| tool["name"].as_str().map(str::to_owned))
}

/// The namespace of each function that is in one, by the name that models know. Of two with the same name, only the
/// first is offered.
pub(super) fn namespace_of(tools: &[Value]) -> BTreeMap<String, String> {
    let mut seen = HashSet::new();
    let mut found = BTreeMap::new();
    for tool in functions(tools) {
        let Some(name) = tool["name"].as_str() else { continue };
        if seen.insert(name.to_owned())
            && let Some(namespace) = tool["namespace"].as_str()
        {
            found.insert(name.to_owned(), namespace.to_owned());
        }
    }
    found
}

/// The server tools. An `mcp` entry with a known label offers only the tools of that source.
/// A client's own servers are never called: they could be anywhere in the operator's network.
fn servers(
    tools: &[Value],
    labels: &Labels,
    empty_sources: &[String],
) -> Result<RequestTools, Refusal> {
    let mut server_tools: Option<Vec<String>> = None;
    let mut confirm = None;
    for tool in tools.iter().filter(|tool| tool["type"] == "mcp") {
        let label = tool["server_label"].as_str().unwrap_or_default();
        let specs = labels.tools(label);
        let is_elsewhere = tool["server_url"].is_string() || tool["connector_id"].is_string();
        if specs.is_empty() {
            if is_elsewhere {
                continue;
            }
            if empty_sources.iter().any(|name| name == label) {
                let why = format!("{label} offers no tools at the moment; try again later");
                return Err(Refusal::Begin(BeginError::ToolsUnavailable(why)));
            }
            // A restriction must not be lost with a typo: without the entry, all tools are offered.
            return Err(no_such_label(label, labels));
        }
        // As an object, it names tools. Others are asked about, too, rather than too few.
        let asks = &tool["require_approval"];
        if asks == "always" || asks.is_object() {
            confirm = Some(Confirm::Always);
        }
        if !is_elsewhere {
            let filter = Filter::read(&tool["allowed_tools"])?;
            let allowed = specs.into_iter().filter(|spec| filter.allows(spec));
            let names = allowed.map(|spec| spec.name.clone());
            server_tools.get_or_insert_default().extend(names);
        }
    }
    Ok(RequestTools { server_tools, confirm, ..RequestTools::default() })
}

fn no_such_label(label: &str, labels: &Labels) -> Refusal {
    let all: Vec<String> = labels.all().into_iter().collect();
    let all = if all.is_empty() { "none".to_owned() } else { all.join(", ") };
    let message = format!("no tools have the server_label {}; available: {all}", quote(label));
    Refusal::invalid("tools", message)
}

/// `allowed_tools`: a list of names, or an object with one or with `read_only`.
struct Filter<'r> {
    names: Option<&'r [Value]>,
    read_only: Option<bool>,
}

impl<'r> Filter<'r> {
    fn read(allowed: &'r Value) -> Result<Self, Refusal> {
        let names = if allowed.is_object() { &allowed["tool_names"] } else { allowed };
        let read_only = &allowed["read_only"];
        let is_read = (names.is_array() || names.is_null())
            && (read_only.is_boolean() || read_only.is_null());
        if !is_read {
            return Err(Refusal::invalid("tools", ALLOWED));
        }
        Ok(Self { names: names.as_array().map(Vec::as_slice), read_only: read_only.as_bool() })
    }

    fn allows(&self, spec: &ToolSpec) -> bool {
        let is = |name: &Value| name.as_str().is_some_and(|name| is_called(spec, name));
        let only_reads = !spec.policy.mutates && !spec.policy.destructive;
        self.names.is_none_or(|names| names.iter().any(is))
            && self.read_only.is_none_or(|wanted| wanted == only_reads)
    }
}

const ALLOWED: &str = "allowed_tools must be a list of names, or an object with tool_names (a list), \
                       read_only (true or false), or both";

/// Whether this is a tool's name here, or the one that its server has given it.
fn is_called(spec: &ToolSpec, name: &str) -> bool {
    spec.name == name || spec.source_name.as_deref() == Some(name)
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
    let meant = entry["name"].as_str();
    let specs = labels.tools(label).into_iter();
    specs
        .filter(|spec| meant.is_none_or(|name| is_called(spec, name)))
        .map(|spec| json!({"type": "function", "name": spec.name}))
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
