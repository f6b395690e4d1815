//! Namespaces of client tools, in which Codex sends those of its MCP servers and of its agents. Models know one list
//! of names, so there a tool's name begins with its namespace:
//!
//! ```text
//!   {"type": "namespace", "name": "mcp__weather", "tools": [{"name": "get", ..}]}      in the request
//!   mcp__weather__get                                                                  for the model
//!   {"type": "function_call", "namespace": "mcp__weather", "name": "get", ..}          in the response
//! ```

use std::collections::BTreeMap;

use serde_json::Value;

const BETWEEN: &str = "__";

/// The namespaces among the tools of a request.
fn all(tools: &[Value]) -> impl Iterator<Item = &Value> {
    tools.iter().filter(|tool| tool["type"] == "namespace")
}

/// The tools in them, under the names that models know.
pub(super) fn tools(tools: &[Value]) -> impl Iterator<Item = Value> {
    all(tools).flat_map(|namespace| {
        let inside = namespace["tools"].as_array().into_iter().flatten();
        inside.filter(|tool| tool.is_object()).map(|tool| {
            let mut tool = tool.clone();
            tool["namespace"] = namespace["name"].clone();
            tool["name"] = full_name(&tool).into();
            tool
        })
    })
}

/// The name under which models know a tool with this `name` and `namespace`.
pub(super) fn full_name(item: &Value) -> String {
    let name = item["name"].as_str().unwrap_or_default();
    match item["namespace"].as_str() {
        Some(namespace) if !namespace.is_empty() => [namespace, name].join(BETWEEN),
        _ => name.to_owned(),
    }
}

/// The namespace of a full name, and the name in it. `of_tools` has the namespace of each tool in one, by its full name.
/// Older releases stored only the names of all namespaces, of which the longest that fits counts.
pub(super) fn split<'n>(
    name: &'n str,
    of_tools: &'n BTreeMap<String, String>,
    older: &'n [String],
) -> Option<(&'n str, &'n str)> {
    let in_it = |namespace: &'n String| {
        let own = name.strip_prefix(namespace.as_str())?.strip_prefix(BETWEEN)?;
        Some((namespace.as_str(), own))
    };
    match of_tools.get(name) {
        Some(namespace) => in_it(namespace),
        None => older.iter().filter_map(in_it).max_by_key(|(namespace, _)| namespace.len()),
    }
}
