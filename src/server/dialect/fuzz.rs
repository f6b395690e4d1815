//! The body of the fuzz target `client_request`; an ordinary test replays its corpus.

use std::fmt::Write as _;

use serde_json::Value;

use super::ag_ui::AgUi;
use super::ai_sdk::AiSdk;
use super::chat_completions::ChatCompletions;
use super::messages::{Messages, MessagesServerTools};
use super::models::Models;
use super::native::{FrameId, Native};
use super::responses::{
    ItemId, Labels, Referents, Request, RequestContext, ResponseId, Responses, ServerItems,
};
use super::server_tools::ServerTools;
use super::{ClientRequest, Dialect, ImageReader, ParsedRequest, RequestReader};
use crate::conversation::ClientInput;
use crate::conversation::claimed::NoTurns;
use crate::limits::server::REFUSAL_BYTES_MAX;
use crate::server::refusal::Refusal;
use crate::tools::Registry;

/// The APIs, in the order of the first byte.
const APIS: [Api; 6] =
    [Api::Native, Api::Chat, Api::Responses, Api::Messages, Api::AgUi, Api::AiSdk];

/// An API in which turns begin.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Api {
    Native,
    Chat,
    Responses,
    Messages,
    AgUi,
    AiSdk,
}

const CHAT: ChatCompletions = ChatCompletions { shown: ServerTools::Reasoning };
const RESPONSES: Responses = Responses { shown: ServerItems::McpCall };
const MESSAGES: Messages = Messages { server_tools: MessagesServerTools::McpToolUse };

/// Target `client_request`: the meaning of a body does not depend on how its JSON is spelt, its history accepts
/// what opens the turn, and a refusal says where the fault is.
///
/// The first byte chooses the API, and the rest is the body. One more choice is no API: then the rest is the id
/// of an event, a response or an item.
///
/// # Panics
/// If that does not hold.
pub fn client_request(data: &[u8]) {
    let Some((&choice, body)) = data.split_first() else { return };
    let Some(&api) = APIS.get(usize::from(choice) % (APIS.len() + 1)) else {
        return check_id(body);
    };
    let read = read(api, body);
    match &read {
        Ok(parsed) => check_opening(api, parsed),
        Err(refusal) => check_refusal(api, body, refusal),
    }
    let Ok(text) = std::str::from_utf8(body) else { return };
    match (read, self::read(api, respelt(text).as_bytes())) {
        (Ok(read), Ok(again)) => assert_eq!(format!("{read:?}"), format!("{again:?}"), "respelt"),
        (Err(read), Err(again)) => assert_eq!(param(&read), param(&again), "{read:?} {again:?}"),
        (Ok(_), Err(refusal)) => panic!("refused when respelt: {refusal:?}"),
        (Err(refusal), Ok(_)) => panic!("not refused when respelt: {refusal:?}"),
    }
}

fn read(api: Api, body: &[u8]) -> Result<ParsedRequest, Refusal> {
    let models = &Models::new(vec!["m".to_owned()], Vec::new(), true);
    let (owner, lookup, images) = ("o", &NoTurns, ImageReader::new(true));
    let request = ClientRequest {
        accept: "",
        body,
        idempotency_key: None,
        owner,
        models,
        conversation: None,
        lookup,
        images,
        now_sec: 0,
    };
    let reader: &dyn RequestReader = match api {
        Api::Native => &Native,
        Api::Chat => &CHAT,
        Api::Messages => &MESSAGES,
        Api::AgUi => &AgUi,
        Api::AiSdk => &AiSdk,
        Api::Responses => {
            let context = RequestContext {
                owner,
                lookup,
                models,
                labels: Labels(Registry::default().into()),
                empty_sources: Vec::new(),
                shown: ServerItems::McpCall,
                new_session_id: ResponseId::new_session(uuid::Uuid::nil()),
                clock: || 0,
                images,
                image_seed: String::new(),
                idempotency_key: None,
                conversation: None,
            };
            return Request::read(body)?.parse(Referents::default(), context);
        }
    };
    reader.read(&request)
}

/// An id that was read is written in the same way, except for leading zeros.
fn check_id(id: &[u8]) {
    let Ok(id) = std::str::from_utf8(id) else { return };
    if let Some(frame) = FrameId::parse(id) {
        let mut written = bytes::BytesMut::new();
        frame.push_to(&mut written);
        let written = std::str::from_utf8(&written).expect("digits");
        assert_eq!(FrameId::parse(written), Some(frame));
        assert!(written == id || id.starts_with('0') || id.contains("-0") || id.len() > 20, "{id}");
    }
    if let Some(response) = ResponseId::parse(id) {
        assert_eq!(response.to_string(), id);
        assert_eq!(ResponseId::of(&response.session_id(), &response.turn_id()), response);
    }
    if let Some(item) = ItemId::parse(id) {
        let written = item.response.item(item.prefix, item.number);
        assert_eq!(ItemId::parse(&written), Some(item));
    }
}

/// The history accepts what opens the turn, unless that answers a question: none is open here.
fn check_opening(api: Api, parsed: &ParsedRequest) {
    let Some(client) = &parsed.turn.client_history else {
        return assert_eq!(api, Api::Native, "a client that keeps no history");
    };
    let opened = client.history.open(&parsed.turn.input, |_| false);
    let is_answer = matches!(parsed.turn.input, ClientInput::Answer { .. });
    assert!(opened.is_ok() || is_answer, "{opened:?}");
}

/// A refusal is short, blames the client, and names a field that the body has or lacks. If the body
/// is no JSON, it names a line and a column of it.
fn check_refusal(api: Api, body: &[u8], refusal: &Refusal) {
    let dialect: &dyn Dialect = match api {
        Api::Native => &Native,
        Api::Chat => &CHAT,
        Api::Responses => &RESPONSES,
        Api::Messages => &MESSAGES,
        Api::AgUi => &AgUi,
        Api::AiSdk => &AiSdk,
    };
    let (status, _) = dialect.error(refusal);
    assert!((400..500).contains(&status), "{status}: {refusal:?}");
    let message = refusal.message();
    assert!((1..=REFUSAL_BYTES_MAX).contains(&message.len()), "{message:?}");
    match refusal {
        Refusal::BadJson { param: None, message } => {
            if let Some((_, place)) = message.rsplit_once(" at line ") {
                check_place(body, place);
            } else {
                assert!(names_body(message), "{message}");
            }
        }
        Refusal::BadJson { param: Some(param), .. } => {
            assert!(has_member(body, param), "{param} is no member of {}", lossy(body));
        }
        Refusal::Invalid { param, message } => {
            let field = param.split('.').next().unwrap_or_default();
            assert!(message.contains(field) || has_member(body, param), "{param}: {message}");
        }
        _ => {}
    }
}

/// Whether a message is about the whole body.
fn names_body(message: &str) -> bool {
    message.starts_with("the body ") || message.ends_with(" occurs more than once")
}

fn check_place(body: &[u8], place: &str) {
    let numbers = place.split_once(" column ").expect("a line and a column");
    let [line, column] = [numbers.0, numbers.1].map(|it| it.parse::<usize>().expect("a number"));
    let lines: Vec<&[u8]> = body.split(|byte| *byte == b'\n').collect();
    let found = lines.get(line - 1).unwrap_or_else(|| panic!("line {place} of {}", lossy(body)));
    assert!(column <= found.len() + 1, "line {place} of {}", lossy(body));
}

/// Whether a path begins with a member of the body.
fn has_member(body: &[u8], path: &str) -> bool {
    let mut reader = serde_json::Deserializer::from_slice(body);
    reader.disable_recursion_limit();
    let body: Option<Value> = serde::Deserialize::deserialize(&mut reader).ok();
    match body {
        Some(Value::Object(members)) => members.keys().any(|key| path.starts_with(key.as_str())),
        _ => true,
    }
}

fn lossy(body: &[u8]) -> std::borrow::Cow<'_, str> {
    String::from_utf8_lossy(body)
}

/// The field that a refusal names.
fn param(refusal: &Refusal) -> Option<&str> {
    match refusal {
        Refusal::BadJson { param, .. } => param.as_deref(),
        Refusal::Invalid { param, .. } => Some(param),
        _ => None,
    }
}

/// The same JSON with all characters of its strings escaped and with more white space. Anything else does not
/// become JSON by it.
fn respelt(body: &str) -> String {
    let (mut respelt, mut chars) = (String::new(), body.chars());
    let mut is_inside = false;
    while let Some(char) = chars.next() {
        match char {
            '"' => {
                is_inside = !is_inside;
                respelt.push('"');
            }
            '\\' if is_inside => {
                respelt.push('\\');
                respelt.extend(chars.next());
                // The digits of an escape are part of it.
                if respelt.ends_with("\\u") {
                    respelt.extend(chars.by_ref().take(4));
                }
            }
            // Strings must not have these, escaped or not.
            '\0'..' ' => respelt.push(char),
            _ if is_inside => {
                for unit in char.encode_utf16(&mut [0; 2]) {
                    write!(respelt, "\\u{unit:04X}").expect("a string takes all");
                }
            }
            ',' | ':' | '[' | '{' => {
                respelt.push(char);
                respelt.push_str(" \n\t\r");
            }
            _ => respelt.push(char),
        }
    }
    respelt
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn corpus_of_client_request() {
        crate::corpus::replay("client_request", client_request);
    }

    #[test]
    fn what_is_respelt_is_the_same_json() {
        let body = "{\"a\\n\": [1, \"b😀\\ud83d\\ude00\\\"\", {}], \"c\": null}";
        let respelt = respelt(body);
        assert!(respelt.contains("\\uD83D\\uDE00"), "{respelt}");
        let read = |json: &str| serde_json::from_str::<Value>(json).unwrap();
        assert_eq!(read(&respelt), read(body));
    }
}
