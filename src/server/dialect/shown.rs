//! How programs with a user interface are shown tools, questions and failures.

use serde_json::{Value, json};

use super::call_id;

/// The text of a tool's result, or why it failed.
pub(super) fn output(result: &Value) -> Result<Value, String> {
    if result["success"] == false {
        return Err(result["error"].as_str().unwrap_or("the tool failed").to_owned());
    }
    match result.get("clarification") {
        Some(asked) => Ok(json!({ "clarification": asked })),
        None => Ok(result["data"].clone()),
    }
}

/// The same as one text. Data that is only a text stays as it is.
pub(super) fn output_text(result: &Value) -> Result<String, String> {
    let output = output(result)?;
    Ok(match (&output, output["text"].as_str()) {
        (Value::Null, _) => String::new(),
        (Value::String(text), _) => text.clone(),
        (Value::Object(members), Some(text)) if members.len() == 1 => text.to_owned(),
        (output, _) => output.to_string(),
    })
}

/// Whether a tool ended with a question to the user.
pub(super) fn asks(result: &Value) -> bool {
    result.get("clarification").is_some()
}

/// A question, with its call's id as clients see it.
pub(super) fn question(turn_id: &str, asked: &Value) -> Value {
    let mut question = asked.clone();
    let call_id = asked["call_id"].as_str().unwrap_or_default();
    question["call_id"] = call_id::for_client(turn_id, call_id).into();
    question
}

/// Why a turn failed, for a page that shows it to anybody: the event's own message may have the
/// address of a model server.
pub(super) const fn failure(code: &str) -> &'static str {
    match code.as_bytes() {
        b"upstream_unavailable" => "The model cannot be reached. Try again later.",
        b"upstream_timeout" => "The model did not answer in time. Try again.",
        b"context_length_exceeded" => {
            "That is too long for the model. Shorten your message, or begin a new conversation."
        }
        b"upstream_error" => "The model failed. Try again.",
        b"empty_response" => "The model gave no answer. Try again, or ask in other words.",
        b"turn_too_large" => "The answer became too long. Ask for less at a time.",
        _ => "The answer failed. Try again.",
    }
}

/// The result of a call that its turn did not wait for.
pub(super) const INTERRUPTED: &str = "interrupted: the answer ended before the tool did";
