//! A question as what interrupts a run.

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::server::dialect::ended;
use crate::tools::{Clarification, ClarificationOption, Source};

/// What the client needs in order to answer.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "AgUiInterrupt")]
pub(super) struct Interrupt {
    /// The question's id.
    id: String,
    /// Whether the user has to approve the call.
    #[schemars(extend("enum" = ["tool_call", "input_required"]))]
    reason: &'static str,
    /// The question.
    message: String,
    /// The call that asks.
    tool_call_id: String,
    /// The JSON Schema of the answer.
    #[schemars(with = "Map<String, Value>")]
    response_schema: Value,
    /// What else is known about the question.
    #[schemars(with = "Metadata")]
    metadata: Value,
}

/// What else is known about a question.
#[derive(JsonSchema)]
#[schemars(inline)]
#[expect(dead_code, reason = "only its schema is used: the members are those of the event")]
struct Metadata {
    /// The kind of question.
    r#type: String,
    /// The tool that asks.
    tool_name: String,
    /// Who is asking.
    source: Source,
    /// What can be chosen.
    options: Vec<ClarificationOption>,
    /// The JSON Schema of a form.
    #[serde(skip_serializing_if = "absent")]
    schema: Map<String, Value>,
    /// The address of a page.
    #[serde(skip_serializing_if = "absent")]
    url: String,
    /// The arguments of a call that the user has to approve.
    #[serde(skip_serializing_if = "absent")]
    arguments: Map<String, Value>,
}

/// The question of an event. `call_id` is the call that asks, as the client knows
/// it.
pub(super) fn of(asked: &Value, call_id: &str) -> Interrupt {
    let question = ended::question(asked);
    let is_approval = asked.get("arguments").is_some();
    let about = ["type", "tool_name", "source", "options", "schema", "url", "arguments"];
    let metadata: Value = about
        .into_iter()
        .filter_map(|key| {
            Some((key.to_owned(), asked.get(key).filter(|it| !it.is_null())?.clone()))
        })
        .collect();
    Interrupt {
        id: asked["clarification_id"].as_str().unwrap_or_default().to_owned(),
        reason: if is_approval { "tool_call" } else { "input_required" },
        response_schema: response_schema(asked, &question, is_approval),
        message: question.question,
        tool_call_id: call_id.to_owned(),
        metadata,
    }
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
