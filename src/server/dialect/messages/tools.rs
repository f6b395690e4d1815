//! The tools that a client brings, and what it says about calling them.

use serde_json::{Value, json};

use crate::server::dialect::client_tools;
use crate::server::refusal::Refusal;
use crate::tools::client::ClientTools;

/// Reads the tools that come with a schema. Those that only Anthropic could run are skipped, and so
/// are those whose schema only its models know: some clients always send them.
pub(super) fn read(tools: &[Value]) -> Result<ClientTools, Refusal> {
    let is_custom = |tool: &&Value| tool["type"].as_str().is_none_or(|kind| kind == "custom");
    client_tools::of(tools.iter().filter(is_custom))
}

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
