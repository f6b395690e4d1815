//! The tools of a request, and which of them must be called.

use serde::Deserialize;
use serde_json::{Value, json};

use super::server_items::Labels;
use crate::server::refusal::Refusal;
use crate::tools::Confirm;
use crate::tools::client::ClientTools;
use crate::upstream::ToolChoice;

/// The tools of a turn.
#[derive(Debug, Default)]
pub(super) struct Tools {
    /// Those that the client runs.
    pub(super) clients: ClientTools,
    /// Ours by name; all of them if absent.
    pub(super) ours: Option<Vec<String>>,
    pub(super) choice: ToolChoice,
    pub(super) confirm: Option<Confirm>,
}

/// A function of the client, as it was sent.
#[derive(Debug, Deserialize)]
struct Function {
    name: String,
    #[serde(default)]
    description: Option<String>,
    #[serde(default)]
    parameters: Option<Value>,
    #[serde(default)]
    strict: Option<bool>,
}

/// `tool_choice`.
#[derive(Debug, PartialEq, Eq)]
enum Choice {
    Auto,
    None,
    Required,
    Named(String),
    /// Only these may be called.
    Allowed {
        names: Vec<String>,
        is_required: bool,
    },
}

/// Reads `tools` and `tool_choice`. Tools that only another service could run are skipped, because
/// some clients always send them.
pub(super) fn read(
    tools: &[Value],
    choice: Option<&Value>,
    labels: &Labels,
) -> Result<Tools, Refusal> {
    let choice = read_choice(choice)?;
    if choice == Choice::None {
        return Ok(Tools { ours: Some(Vec::new()), ..Tools::default() });
    }
    let allowed = match &choice {
        Choice::Allowed { names, .. } => Some(names),
        _ => None,
    };
    let is_allowed = |name: &str| allowed.is_none_or(|names| names.iter().any(|it| it == name));
    let mut read = servers(tools, labels);
    for function in functions(tools)? {
        let Function { name, description, parameters, .. } = function;
        if is_allowed(&name) {
            let parameters = parameters.filter(|parameters| !parameters.is_null());
            read.clients
                .add(name, &description.unwrap_or_default(), parameters)
                .map_err(|error| Refusal::invalid("tools", error.to_string()))?;
        }
    }
    if let Some(names) = allowed {
        let ours = read.ours.take();
        let offered = |name: &String| ours.as_ref().is_none_or(|ours| ours.contains(name));
        let names = names.iter().filter(|name| labels.has(name) && offered(name));
        read.ours = Some(names.cloned().collect());
    }
    read.choice = match choice {
        Choice::Auto | Choice::None | Choice::Allowed { is_required: false, .. } => {
            ToolChoice::Auto
        }
        Choice::Required | Choice::Allowed { is_required: true, .. } => ToolChoice::Required,
        Choice::Named(name) => ToolChoice::Named(name),
    };
    Ok(read)
}

fn functions(tools: &[Value]) -> Result<Vec<Function>, Refusal> {
    let functions = tools.iter().filter(|tool| tool["type"] == "function");
    let read = |tool| {
        Function::deserialize(tool)
            .map_err(|error| Refusal::invalid("tools", format!("tools: {error}")))
    };
    functions.map(read).collect()
}

/// Our own tools. An entry of type `mcp` with a label of ours offers the tools of that server only.
/// Servers of the client are not called: they could be anywhere in the operator's network.
fn servers(tools: &[Value], labels: &Labels) -> Tools {
    let mut ours: Option<Vec<String>> = None;
    let mut confirm = None;
    for tool in tools.iter().filter(|tool| tool["type"] == "mcp") {
        let names = labels.tools(tool["server_label"].as_str().unwrap_or_default());
        if names.is_empty() || tool["server_url"].is_string() {
            continue;
        }
        let allowed = tool["allowed_tools"]
            .as_array()
            .or_else(|| tool["allowed_tools"]["tool_names"].as_array());
        let is_allowed = |name: &String| {
            allowed.is_none_or(|allowed| allowed.iter().any(|it| it.as_str() == Some(name)))
        };
        ours.get_or_insert_default().extend(names.into_iter().filter(is_allowed));
        if tool["require_approval"] == "always" {
            confirm = Some(Confirm::Always);
        }
    }
    Tools { ours, confirm, ..Tools::default() }
}

fn read_choice(choice: Option<&Value>) -> Result<Choice, Refusal> {
    let Some(choice) = choice.filter(|choice| !choice.is_null()) else { return Ok(Choice::Auto) };
    let name_of = |value: &Value| value["name"].as_str().map(str::to_owned);
    let read = match (choice.as_str(), choice["type"].as_str()) {
        (Some("auto"), _) => Some(Choice::Auto),
        (Some("none"), _) => Some(Choice::None),
        (Some("required"), _) => Some(Choice::Required),
        (None, Some("function" | "mcp" | "custom")) => name_of(choice).map(Choice::Named),
        (None, Some("allowed_tools")) => choice["tools"].as_array().map(|tools| Choice::Allowed {
            names: tools.iter().filter_map(name_of).collect(),
            is_required: choice["mode"] == "required",
        }),
        _ => None,
    };
    read.ok_or_else(|| {
        Refusal::invalid(
            "tool_choice",
            "tool_choice must be \"auto\", \"none\", \"required\", {\"type\": \"function\", \
             \"name\": ..} or {\"type\": \"allowed_tools\", \"mode\": .., \"tools\": [..]}",
        )
    })
}

/// The functions as the response repeats them.
pub(super) fn echo(tools: &[Value]) -> Value {
    let functions = tools.iter().filter(|tool| tool["type"] == "function");
    let echoed = functions.filter_map(|tool| Function::deserialize(tool).ok()).map(
        |Function { name, description, parameters, strict }| {
            json!({
                "type": "function", "name": name, "description": description,
                "parameters": parameters, "strict": strict,
            })
        },
    );
    echoed.collect()
}
