//! HTTP tools: written requests, filled requests, answers, and calls over real connections.

mod answers;
mod bearer;
mod calls;
mod filling;
mod mistakes;

use serde_json::{Value, json};

use super::*;

/// Parameters of type string with these names, all of them required if they end in `!`.
fn parameters(names: &[&str]) -> Value {
    let bare = |name: &&str| name.trim_end_matches('!').to_owned();
    let properties: Map<String, Value> =
        names.iter().map(|name| (bare(name), json!({ "type": "string" }))).collect();
    let required: Vec<_> = names.iter().filter(|name| name.ends_with('!')).map(bare).collect();
    json!({ "type": "object", "properties": properties, "required": required })
}

/// Parameters of any type with these names, all required.
fn any_parameters(names: &[&str]) -> Value {
    let properties: Map<String, Value> =
        names.iter().map(|name| ((*name).to_owned(), json!({}))).collect();
    json!({ "type": "object", "properties": properties, "required": names })
}

fn get(url: &str) -> WrittenRequest {
    WrittenRequest { method: "GET".into(), url: url.into(), ..WrittenRequest::default() }
}

fn post(body: WrittenBody) -> WrittenRequest {
    let url = "https://api.example.org/v1".into();
    WrittenRequest { method: "post".into(), url, body: Some(body), ..WrittenRequest::default() }
}

fn pairs<V: Clone>(pairs: &[(&str, V)]) -> Vec<(String, V)> {
    pairs.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect()
}
