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

/// The member that a wrapped result has.
const WRAPPED: &str = "tether/result";

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
    ErrorData::internal_error(format!("the server answered with more than {mib} MiB"), None)
}

/// What takes the place of an answer that is not one of the protocol.
pub(super) fn unreadable() -> ErrorData {
    ErrorData::internal_error("the server's answer cannot be read", None)
}

/// Reads a message.
///
/// # Errors
/// If it is not a message of the protocol.
pub(super) fn read(message: &str, is_raw: bool) -> Result<ServerJsonRpcMessage, serde_json::Error> {
    let parse = |message: &str| {
        if is_raw { serde_json::from_str(&wrap(message)) } else { serde_json::from_str(message) }
    };
    parse(message).or_else(|error| match with_whole_characters(message) {
        Some(mended) => parse(&mended),
        None => Err(error),
    })
}

/// The message with half characters replaced, if it has any: JavaScript writes them for a text that
/// was cut within an emoji (`"\ud83d"`), and they are no Unicode.
fn with_whole_characters(message: &str) -> Option<String> {
    let (mut mended, mut done, mut at) = (String::new(), 0, 0);
    while let Some(found) = memchr::memchr(b'\\', message.get(at..)?.as_bytes()) {
        at += found;
        at += match (surrogate(message, at), surrogate(message, at + 6)) {
            (Some(0xd800..=0xdbff), Some(0xdc00..=0xdfff)) => 12,
            (Some(_), _) => {
                mended.push_str(&message[done..at]);
                mended.push_str("\\ufffd");
                done = at + 6;
                6
            }
            (None, _) => 2,
        };
    }
    mended.push_str(&message[done..]);
    (done > 0).then_some(mended)
}

/// The surrogate that is escaped at this place.
fn surrogate(message: &str, at: usize) -> Option<u16> {
    let digits = message.get(at..at + 6)?.strip_prefix("\\u")?;
    let code = u16::from_str_radix(digits, 16).ok()?;
    (0xd800..=0xdfff).contains(&code).then_some(code)
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
    fn half_characters_are_replaced() {
        for (text, expected) in [
            (r"cut \ud83d", Some(r"cut \ufffd")),
            (r"\ude00\ud83d\ude00\ud83d!", Some(r"\ufffd\ud83d\ude00\ufffd!")),
            (r"\ud83d\u0041", Some(r"\ufffd\u0041")),
            (r"\ud83d\n\ud8", Some(r"\ufffd\n\ud8")),
            (r"whole \ud83d\ude00 and \\ud83d", None),
            (r"ends in \", None),
            ("", None),
        ] {
            assert_eq!(with_whole_characters(text).as_deref(), expected, "{text}");
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
