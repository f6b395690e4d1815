//! Refusals and failures as `OpenAI`'s APIs word them. All four keys are always there: some SDKs insist on each.

use serde_json::{Value, json};

use super::ended;
use crate::gateway::BeginError;
use crate::server::refusal::Refusal;

/// The code of what is too long for the model even if all that can be left out is. After `context_length_exceeded`,
/// opencode shortens the conversation and asks again, forever.
const TOO_LONG: &str = "invalid_prompt";

/// The status and the code of a refused request. In APIs other than the gateway's own, a model that
/// is not there is not found. AG-UI never refuses one: the field belongs to the application.
pub(super) fn status_and_code(refusal: &Refusal) -> (u16, &'static str) {
    match refusal {
        Refusal::Begin(BeginError::UnknownModel { .. }) => (404, "model_not_found"),
        Refusal::Begin(BeginError::NoRoom { .. }) => (400, TOO_LONG),
        refusal => {
            let (status, code) = refusal.kind();
            (status.as_u16(), code)
        }
    }
}

/// The field at fault, by the names that these APIs share.
pub(super) fn param(refusal: &Refusal) -> Option<&str> {
    match refusal {
        Refusal::BadJson { param, .. } => param.as_deref(),
        Refusal::Invalid { param, .. } => Some(*param),
        Refusal::Begin(BeginError::UnknownModel { .. }) => Some("model"),
        Refusal::Begin(BeginError::NoToolToCall { .. } | BeginError::UnknownChoice { .. }) => {
            Some("tool_choice")
        }
        _ => None,
    }
}

/// The body of the answer. `kind` is the API's name for the errors with its status.
pub(super) fn body(refusal: &Refusal, kind: &str, param: Option<&str>) -> Value {
    let (_, code) = status_and_code(refusal);
    json!({ "error": {
        "message": refusal.message(), "type": kind, "param": param, "code": code,
    } })
}

/// The status and the body of the answer to a turn that failed.
pub(super) fn failure(failed: &Value) -> (u16, Value) {
    (ended::status(failed), json!({ "error": of_turn(failed, ended::is_final(failed)) }))
}

/// The error of a turn that failed; `error` has its code and its message. Programs retry after a server error, but not
/// after an invalid request.
pub(super) fn of_turn(error: &Value, is_final: bool) -> Value {
    let kind = if is_final { "invalid_request_error" } else { "server_error" };
    let code = match &error["code"] {
        code if code == "context_length_exceeded" => &TOO_LONG.into(),
        code => code,
    };
    json!({ "message": error["message"], "type": kind, "param": null, "code": code })
}
