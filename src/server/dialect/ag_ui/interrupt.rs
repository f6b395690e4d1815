//! A question as what interrupts a run.

use serde_json::{Map, Value, json};

use crate::server::dialect::ended;
use crate::tools::Clarification;

/// What the client needs in order to answer. `call_id` is the call that asks, as the client knows
/// it.
pub(super) fn of(asked: &Value, call_id: &str) -> Value {
    let question = ended::question(asked);
    let is_approval = asked.get("arguments").is_some();
    let about = ["type", "tool_name", "source", "options", "schema", "url", "arguments"];
    let metadata: Value = about
        .into_iter()
        .filter_map(|key| {
            Some((key.to_owned(), asked.get(key).filter(|it| !it.is_null())?.clone()))
        })
        .collect();
    json!({
        "id": asked["clarification_id"],
        "reason": if is_approval { "tool_call" } else { "input_required" },
        "message": question.question,
        "toolCallId": call_id,
        "responseSchema": response_schema(asked, &question, is_approval),
        "metadata": metadata,
    })
}

/// The payloads that answer the question.
fn response_schema(asked: &Value, question: &Clarification, is_approval: bool) -> Value {
    let mut properties = json!({});
    let ids: Vec<&str> = question.options.iter().map(|option| &*option.id).collect();
    if !ids.is_empty() {
        properties["selected_option"] = json!({ "type": "string", "enum": ids });
    }
    if is_approval {
        properties["approved"] = json!({ "type": "boolean" });
    }
    let form = asked.get("schema").filter(|schema| schema.is_object());
    if let Some(form) = form {
        properties["content"] = form.clone();
    }
    if is_approval || (form.is_none() && question.takes_text()) {
        properties["text"] = json!({ "type": "string", "minLength": 1 });
    }
    let fields = properties.as_object().into_iter().flat_map(Map::keys);
    let ways: Vec<Value> = fields.map(|field| json!({ "required": [field] })).collect();
    let mut schema = json!({ "type": "object", "properties": properties });
    // Any of them, but only one. A list of none is no schema.
    if !ways.is_empty() {
        schema["oneOf"] = ways.into();
    }
    schema
}
