//! The tools that a client of another API brings.

use serde_json::Value;

use crate::server::refusal::Refusal;
use crate::tools::client::ClientTools;

/// The tools that these describe, each with a name. Those that cannot be offered are left out: many
/// programs send all that they know. `reserved` are the names of tools of other kinds, which the client
/// runs as well.
pub(super) fn of<'a>(
    tools: impl Iterator<Item = &'a Value>,
    reserved: impl Iterator<Item = String>,
) -> Result<ClientTools, Refusal> {
    let mut read = ClientTools::default();
    for name in reserved {
        read.reserve(name);
    }
    for tool in tools {
        let name = tool["name"].as_str();
        let name =
            name.ok_or_else(|| Refusal::invalid("tools", "every entry of tools needs a name"))?;
        add(&mut read, name, tool);
    }
    Ok(read)
}

/// Reads a list of tools, or an object with the same by name. Entries of other kinds are skipped,
/// because applications have fields of their own.
pub(super) fn read(tools: Option<&Value>) -> ClientTools {
    let mut read = ClientTools::default();
    match tools {
        Some(Value::Array(list)) => {
            for tool in list {
                let tool = tool.get("function").unwrap_or(tool);
                if let Some(name) = tool["name"].as_str() {
                    add(&mut read, name, tool);
                }
            }
        }
        Some(Value::Object(by_name)) => {
            for (name, tool) in by_name.iter().filter(|(_, tool)| tool.is_object()) {
                add(&mut read, name, tool);
            }
        }
        _ => {}
    }
    read
}

/// Adds `{"name", "description", "parameters"}`, in which each API has a word of its own for the
/// parameters.
fn add(tools: &mut ClientTools, name: &str, tool: &Value) {
    let schemas = ["parameters", "inputSchema", "input_schema"];
    let schema = schemas.iter().find_map(|key| tool.get(key).filter(|it| !it.is_null()));
    let description = tool["description"].as_str().unwrap_or_default();
    tools.add_if_usable(name.to_owned(), description, schema.cloned());
}
