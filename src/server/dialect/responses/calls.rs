//! Calls: their frames up to the point at which they run.

use serde_json::{Value, json};

use super::frames::Frames;
use super::parts::{added, bytes, place};

/// Tells of a function call with all of its arguments. `item` is its final form.
pub(super) fn function_call(frames: &mut Frames<'_>, index: usize, item: &Value) {
    let place = begin(frames, index, item);
    let arguments = bytes(&item["arguments"]);
    let delta = "response.function_call_arguments.delta";
    frames.push(delta, &[&place, b",\"delta\":", &arguments]);
    let name = bytes(&item["name"]);
    let parts = [&*place, b",\"name\":", &name, b",\"arguments\":", &arguments];
    frames.push("response.function_call_arguments.done", &parts);
}

/// Tells of a call of an MCP server with all of its arguments.
pub(super) fn mcp_call(frames: &mut Frames<'_>, index: usize, item: &Value) {
    let place = begin(frames, index, item);
    frames.push("response.mcp_call.in_progress", &[&place]);
    let arguments = bytes(&item["arguments"]);
    frames.push("response.mcp_call_arguments.delta", &[&place, b",\"delta\":", &arguments]);
    let parts = [&*place, b",\"arguments\":", &arguments];
    frames.push("response.mcp_call_arguments.done", &parts);
}

/// Tells that such a call has ended.
pub(super) fn mcp_call_ended(frames: &mut Frames<'_>, index: usize, item: &Value) {
    let event = match item["status"].as_str() {
        Some("completed") => "response.mcp_call.completed",
        _ => "response.mcp_call.failed",
    };
    frames.push(event, &[&place(id_of(item), index)]);
}

/// Tells that the output of a function call begins.
pub(super) fn function_call_output(frames: &mut Frames<'_>, index: usize, item: &Value) {
    let mut first = item.clone();
    first["status"] = "in_progress".into();
    // It was a text in older releases.
    first["output"] = if item["output"].is_string() { "".into() } else { json!([]) };
    added(frames, index, &first);
}

/// The error of a call, in one of the forms that `OpenAI`'s clients know.
pub(super) fn tool_error(error: &str) -> Value {
    json!({
        "type": "mcp_tool_execution_error", "content": [{ "type": "text", "text": error }],
    })
}

/// Tells that a call begins, as it is then. Returns its place.
fn begin(frames: &mut Frames<'_>, index: usize, item: &Value) -> Vec<u8> {
    let mut first = item.clone();
    first["status"] = "in_progress".into();
    first["arguments"] = "".into();
    for key in ["output", "error"] {
        if let Some(value) = first.get_mut(key) {
            *value = Value::Null;
        }
    }
    added(frames, index, &first);
    place(id_of(item), index)
}

fn id_of(item: &Value) -> &str {
    item["id"].as_str().unwrap_or_default()
}
