//! The tools that a client of another API brings.

use serde_json::Value;

use crate::server::refusal::Refusal;
use crate::tools::client::ClientTools;

/// Reads tools: a list of `{"name", "description", "parameters"}`, or an object with the same by
/// name. Entries of other kinds are skipped, because applications have fields of their own.
pub(super) fn read(tools: Option<&Value>) -> Result<ClientTools, Refusal> {
    let mut read = ClientTools::default();
    let mut add = |name: &str, tool: &Value| {
        let schemas = ["parameters", "inputSchema", "input_schema"];
        let schema = schemas.iter().find_map(|key| tool.get(key).filter(|it| it.is_object()));
        let description = tool["description"].as_str().unwrap_or_default();
        read.add(name.to_owned(), description, schema.cloned())
            .map_err(|error| Refusal::invalid("tools", error.to_string()))
    };
    match tools {
        Some(Value::Array(list)) => {
            for tool in list {
                let tool = tool.get("function").unwrap_or(tool);
                if let Some(name) = tool["name"].as_str() {
                    add(name, tool)?;
                }
            }
        }
        Some(Value::Object(by_name)) => {
            for (name, tool) in by_name.iter().filter(|(_, tool)| tool.is_object()) {
                add(name, tool)?;
            }
        }
        _ => {}
    }
    Ok(read)
}
