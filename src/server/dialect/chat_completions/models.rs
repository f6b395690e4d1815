//! The models that clients can ask for: `GET /v1/models`.

use serde_json::{Value, json};

/// The suffix of a model's name with which none of the gateway's own tools are offered.
pub(in crate::server) const NO_TOOLS: &str = ":no-tools";

/// The list of models.
pub(in crate::server) fn list(names: &[String], since_sec: u64) -> Value {
    let with_suffix = names.iter().flat_map(|name| [name.clone(), format!("{name}{NO_TOOLS}")]);
    let models: Vec<Value> = with_suffix.map(|name| one(&name, since_sec)).collect();
    json!({ "object": "list", "data": models })
}

/// A model, if there is one with this name.
pub(in crate::server) fn find(names: &[String], name: &str, since_sec: u64) -> Option<Value> {
    let bare = name.strip_suffix(NO_TOOLS).unwrap_or(name);
    let is_known = names.iter().any(|known| known == name || known == bare);
    is_known.then(|| one(name, since_sec))
}

fn one(name: &str, since_sec: u64) -> Value {
    json!({ "id": name, "object": "model", "created": since_sec, "owned_by": "tether" })
}
