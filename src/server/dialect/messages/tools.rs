//! The tools that a client brings, and what it says about calling them.

use serde::Deserialize;
use serde_json::{Value, json};

use crate::server::refusal::Refusal;
use crate::tools::client::ClientTools;

/// A tool of the client.
#[derive(Debug, Deserialize)]
struct RawTool {
    name: String,
    #[serde(default)]
    description: Option<String>,
    input_schema: Option<Value>,
}

/// Reads the tools that come with a schema. Those that only Anthropic could run are skipped, and so
/// are those whose schema only its models know: some clients always send them.
pub(super) fn read(tools: Option<Vec<Value>>) -> Result<ClientTools, Refusal> {
    let mut read = ClientTools::default();
    for tool in tools.unwrap_or_default() {
        if tool["type"].as_str().is_some_and(|kind| kind != "custom") {
            continue;
        }
        let RawTool { name, description, input_schema } = RawTool::deserialize(tool)
            .map_err(|error| Refusal::invalid("tools", format!("tools: {error}")))?;
        let parameters = input_schema.filter(|schema| !schema.is_null());
        read.add_if_usable(name, &description.unwrap_or_default(), parameters);
    }
    Ok(read)
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
