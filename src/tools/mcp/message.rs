//! Messages on their way from a server to rmcp.
//!
//! rmcp guesses from the shape of a result what it is, and loses whatever it does not expect: one
//! malformed tool costs the whole list. Results of calls and lists are therefore wrapped, so that
//! they arrive as they are, and read by this module's neighbours.

use std::borrow::Cow;

use rmcp::model::{
    ClientJsonRpcMessage, ClientRequest, ErrorData, RequestId, ServerJsonRpcMessage, ServerResult,
};
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::limits::MIB;
use crate::limits::mcp::MESSAGE_BYTES_MAX;
use crate::tools::half_characters;

/// The member that a wrapped result has.
const WRAPPED: &str = "tether/result";

/// The data of our own errors in place of an answer.
const REPLACED: &str = "tether/unread";

/// The members that a response has.
#[derive(Deserialize)]
struct Envelope<'m> {
    #[serde(borrow)]
    id: Option<&'m RawValue>,
    #[serde(borrow)]
    result: Option<&'m RawValue>,
    #[serde(borrow)]
    method: Option<Cow<'m, str>>,
}

/// Whether we read the answer to a message ourselves.
pub(super) fn is_raw(message: &ClientJsonRpcMessage) -> bool {
    let ClientJsonRpcMessage::Request(request) = message else { return false };
    matches!(
        request.request,
        ClientRequest::CallToolRequest(_) | ClientRequest::ListToolsRequest(_)
    )
}

/// A message with its result wrapped, if it has one.
pub(super) fn wrap(message: &str) -> Cow<'_, str> {
    // serde would also take a list of the members in order.
    if !message.trim_start().starts_with('{') {
        return message.into();
    }
    let Ok(envelope) = serde_json::from_str::<Envelope<'_>>(message) else {
        return message.into();
    };
    match envelope {
        Envelope { id: Some(id), result: Some(result), method: None } => {
            let (id, result) = (id.get(), result.get());
            format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"{WRAPPED}":{result}}}}}"#).into()
        }
        _ => message.into(),
    }
}

/// The id of a request as it was sent: some servers answer with the number as text.
pub(super) fn as_sent(id: RequestId) -> RequestId {
    let number = match &id {
        RequestId::String(text) => text.parse().ok(),
        RequestId::Number(_) => None,
    };
    number.map_or(id, RequestId::Number)
}

/// What takes the place of an answer that is too long.
pub(super) fn too_long() -> ErrorData {
    let mib = MESSAGE_BYTES_MAX / MIB;
    unread(format!("the server answered with more than {mib} MiB"))
}

/// What takes the place of an answer that is not one of the protocol.
pub(super) fn unreadable() -> ErrorData {
    unread("the server's answer cannot be read".to_owned())
}

/// What takes the place of an answer that cannot be read, for this reason.
pub(super) fn unread(message: String) -> ErrorData {
    ErrorData::internal_error(message, Some(REPLACED.into()))
}

/// Whether an error takes the place of an answer that the server did give.
pub(super) fn replaces_answer(error: &ErrorData) -> bool {
    error.data.as_ref().is_some_and(|data| data == REPLACED)
}

/// Reads a message.
///
/// # Errors
/// If it is not a message of the protocol.
pub(super) fn read(message: &str, is_raw: bool) -> Result<ServerJsonRpcMessage, serde_json::Error> {
    readable(message, is_raw).map(|(read, _)| read)
}

/// A message, and its text as rmcp can read it.
///
/// # Errors
/// See [`read`].
pub(super) fn readable(
    message: &str,
    is_raw: bool,
) -> Result<(ServerJsonRpcMessage, Cow<'_, str>), serde_json::Error> {
    parsed(message, is_raw).or_else(|error| {
        let mended = half_characters::mended(message).ok_or(error)?;
        let (read, text) = parsed(&mended, is_raw)?;
        Ok((read, text.into_owned().into()))
    })
}

fn parsed(
    message: &str,
    is_raw: bool,
) -> Result<(ServerJsonRpcMessage, Cow<'_, str>), serde_json::Error> {
    let text = if is_raw { wrap(message) } else { message.into() };
    Ok((serde_json::from_str(&text)?, text))
}

/// The result as the server sent it; `None` if the result is of another kind.
pub(super) fn unwrap(result: ServerResult) -> Option<Value> {
    match result {
        ServerResult::CustomResult(custom) => match custom.0 {
            Value::Object(mut members) => members.remove(WRAPPED),
            _ => None,
        },
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn results_arrive_as_they_are() {
        for result in [
            json!({"content": [{"type": "unheard-of"}], "isError": "maybe"}),
            json!({"tools": [{"name": 5}]}),
            json!({}),
            json!([1]),
        ] {
            let sent = json!({"jsonrpc": "2.0", "id": 7, "result": result}).to_string();
            let ServerJsonRpcMessage::Response(read) = read(&sent, true).unwrap() else {
                panic!("{sent}");
            };
            assert_eq!(unwrap(read.result), Some(result));
        }
    }

    #[test]
    fn other_messages_are_not_touched() {
        for message in [
            r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}"#,
            r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"no"}}"#,
            r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#,
            r#"[7, {"content": []}, null]"#,
            "noise",
        ] {
            assert_eq!(wrap(message), message);
        }
    }
}
