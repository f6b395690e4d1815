//! The tools that a client brings, and what it says about calling them.

use serde_json::{Value, json};

use crate::server::dialect::client_tools;
use crate::server::refusal::Refusal;
use crate::tools::client::ClientTools;

/// Reads the tools that come with a schema. Those that only Anthropic could run are skipped, and so
/// are those whose schema only its models know: some clients always send them. Clients run the latter
/// themselves, so no tool of ours takes their place.
pub(super) fn read(tools: &[Value]) -> Result<ClientTools, Refusal> {
    let kind = |tool: &Value| tool["type"].as_str().unwrap_or("custom").to_owned();
    let (custom, others): (Vec<_>, Vec<_>) = tools.iter().partition(|tool| kind(tool) == "custom");
    let clients = others
        .into_iter()
        .filter(|tool| !RUN_BY_ANTHROPIC.iter().any(|prefix| kind(tool).starts_with(prefix)));
    let names = clients.filter_map(|tool| tool["name"].as_str().map(str::to_owned));
    client_tools::of(custom.into_iter(), names)
}

/// How the types of the tools begin that Anthropic runs.
const RUN_BY_ANTHROPIC: [&str; 4] =
    ["web_search_", "web_fetch_", "code_execution_", "tool_search_tool_"];

/// `tool_choice` as `OpenAI` spells it, and whether the client takes only one call at a time.
pub(super) fn choice(choice: Option<&Value>) -> Result<(Value, bool), Refusal> {
    let Some(choice) = choice.filter(|choice| !choice.is_null()) else {
        return Ok((Value::Null, false));
    };
    let same = match (choice["type"].as_str(), choice["name"].as_str()) {
        (Some(word @ ("auto" | "none")), _) => word.into(),
        (Some("any"), _) => "required".into(),
        (Some("tool"), Some(name)) => json!({ "name": name }),
        _ => {
            return Err(Refusal::invalid(
                "tool_choice",
                "tool_choice.type must be \"auto\", \"any\", \"none\", or \"tool\" with a name",
            ));
        }
    };
    Ok((same, choice["disable_parallel_tool_use"] == true))
}
