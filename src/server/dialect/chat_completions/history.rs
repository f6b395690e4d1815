//! The messages of a request, as what the client claims was said.

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use serde_json_borrow::Value;

use crate::conversation::claimed::{ClaimedCall, ClaimedMessage};
use crate::server::dialect::ImageReader;
use crate::server::dialect::content::{arguments_of, content_of, of_user, result_of};
use crate::server::dialect::json::{Borrowed, Json};

/// A message as it was written. Clients write all sorts of things, and a list is not refused for
/// one of them: what cannot be read is skipped.
#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(rename = "ChatMessage")]
#[serde(transparent)]
pub(super) struct RawMessage<'b>(#[serde(borrow)] Borrowed<'b>);

impl RawMessage<'_> {
    pub(super) fn claimed(self, images: ImageReader) -> ClaimedMessage {
        let Self(Borrowed(message)) = self;
        let role = role(&message);
        let is_seen = !matches!(role, "system" | "developer" | "assistant");
        let images = if is_seen { images } else { ImageReader::NAMING };
        let written = message.field("content");
        let parts = written.map_or(&[][..], Json::listed);
        let content = content_of(written.unwrap_or(&message), images);
        match role {
            "system" | "developer" => ClaimedMessage::System(content.into_text()),
            "assistant" => {
                // What the model says instead, if it refuses to answer.
                let refusal = message.text_at("refusal").filter(|_| content.is_empty());
                let text = refusal.map_or_else(|| content.into_text(), str::to_owned);
                ClaimedMessage::Assistant { text, calls: calls(&message) }
            }
            "tool" | "function" => ClaimedMessage::Result {
                call_id: id(message.field("tool_call_id")),
                output: match written {
                    Some(written) => result_of(written, content),
                    None => content,
                },
                is_error: false,
            },
            _ => ClaimedMessage::User(of_user(parts, content)),
        }
    }
}

/// Who speaks. Without a role, the message's other fields tell.
fn role<'v>(message: &'v Value<'_>) -> &'v str {
    let has = |key| message.field(key).is_some_and(|value| !value.is_null());
    match message.text_at("role") {
        Some(role) => role,
        None if has("tool_call_id") => "tool",
        None if has("tool_calls") || has("function_call") => "assistant",
        None => "user",
    }
}

/// The calls of a message. `function_call` was its only one, without an id, before there were tools.
fn calls(message: &Value<'_>) -> Vec<ClaimedCall> {
    let calls = message.field("tool_calls").map_or(&[][..], Json::listed).iter().map(call);
    let first = message.field("function_call").filter(|call| call.field("name").is_some());
    let first = first.map(|function| called(String::new(), Some(function)));
    first.into_iter().chain(calls).collect()
}

fn call(call: &Value<'_>) -> ClaimedCall {
    let id = id(call.field("id"));
    let custom = call.field("custom").filter(|custom| custom.field("name").is_some());
    let Some(custom) = custom else { return called(id, call.field("function")) };
    let name = custom.text_at("name").unwrap_or_default().to_owned();
    // As in the Responses API.
    let arguments = json!({ "input": custom.text_at("input") }).to_string();
    ClaimedCall { id, name, arguments }
}

fn called(id: String, function: Option<&Value<'_>>) -> ClaimedCall {
    ClaimedCall {
        id,
        name: function.and_then(|it| it.text_at("name")).unwrap_or_default().to_owned(),
        arguments: arguments_of(function.and_then(|function| function.field("arguments"))),
    }
}

fn id(id: Option<&Value<'_>>) -> String {
    match id {
        Some(Value::Str(id)) => id.clone().into_owned(),
        Some(id @ Value::Number(_)) => id.to_string(),
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::{Borrowed, ClaimedCall, ClaimedMessage, ImageReader, RawMessage, json};

    fn claimed(message: &Value) -> ClaimedMessage {
        RawMessage(Borrowed(message.into())).claimed(ImageReader::new(true))
    }

    #[test]
    fn whatever_a_message_is_it_is_read() {
        let user = |text: &str| ClaimedMessage::User(text.into());
        for (message, expected) in [
            (json!("Hi."), user("Hi.")),
            (json!(null), user("")),
            (json!({}), user("")),
            (json!({"content": "Hi."}), user("Hi.")),
            (json!({"role": "user", "text": "Hi."}), user("Hi.")),
            (json!({"role": null, "content": 7}), user("7")),
            (json!({"role": "user", "content": {"type": "text", "text": "Hi."}}), user("Hi.")),
            (json!({"role": "user", "content": ["Hi.", {"text": "Ho."}]}), user("Hi.\nHo.")),
            (
                json!({"role": "user", "content": {"type": "new"}}),
                user("[something that is not shown]"),
            ),
            (json!({"role": "user", "content": [{"type": "text", "text": ""}]}), user("")),
            (
                json!({"role": "user", "content": [{"type": "video_url", "video_url": {}}]}),
                user("[a video, which is not shown]"),
            ),
        ] {
            assert_eq!(claimed(&message), expected, "{message}");
        }
    }

    #[test]
    fn what_the_assistant_refuses_is_its_text() {
        for (content, text) in [(json!(null), "No."), (json!("Yes."), "Yes.")] {
            let message = json!({"role": "assistant", "content": content, "refusal": "No."});
            let calls = Vec::new();
            assert_eq!(claimed(&message), ClaimedMessage::Assistant { text: text.into(), calls });
        }
    }

    const NOT_AN_IMAGE: &str = "[an image, which is not shown: not a PNG, JPEG, GIF or WebP file]";

    #[test]
    fn whatever_a_result_is_it_is_told() {
        for (content, told) in [
            (json!("a"), "a"),
            (json!(5), "5"),
            (json!({"a": [1]}), r#"{"a":[1]}"#),
            (json!([{"type": "json", "json": {"a": 1}}]), r#"[{"type":"json","json":{"a":1}}]"#),
            (json!([1, 2]), "[1,2]"),
            (json!(true), "true"),
            (json!([{"type": "note", "text": "a"}]), r#"[{"type":"note","text":"a"}]"#),
            (json!([{"type": "image", "data": "AA=="}]), NOT_AN_IMAGE),
            (json!([{"type": "text", "text": ""}]), ""),
            (json!([]), ""),
            (json!(null), ""),
        ] {
            let message = json!({"role": "tool", "tool_call_id": "1", "content": content});
            let ClaimedMessage::Result { output, .. } = claimed(&message) else { panic!() };
            assert_eq!(output, told.into(), "{content}");
        }
    }

    #[test]
    fn of_a_repeated_key_the_last_one_counts() {
        let message = r#"{"role": "user", "content": "a", "content": "b"}"#;
        let message: RawMessage<'_> = serde_json::from_str(message).unwrap();
        assert_eq!(message.claimed(ImageReader::NAMING), ClaimedMessage::User("b".into()));
    }

    #[test]
    fn whatever_a_call_is_it_is_read() {
        let call = |id: &str, name: &str, arguments: &str| {
            let [id, name, arguments] = [id, name, arguments].map(str::to_owned);
            ClaimedCall { id, name, arguments }
        };
        for (calls, expected) in [
            (json!(null), None),
            (json!("x"), None),
            (json!([null]), Some(call("", "", ""))),
            (json!({}), Some(call("", "", ""))),
            (json!([{"id": null, "function": null}]), Some(call("", "", ""))),
            (json!([{"id": 7, "function": {"name": null}}]), Some(call("7", "", ""))),
            (json!([{"function": {"name": "a", "arguments": null}}]), Some(call("", "a", ""))),
            (json!([{"function": {"name": "a", "arguments": {}}}]), Some(call("", "a", "{}"))),
        ] {
            let calls = json!({"role": "assistant", "tool_calls": calls});
            let (text, expected) = (String::new(), expected.into_iter().collect());
            let message = ClaimedMessage::Assistant { text, calls: expected };
            assert_eq!(claimed(&calls), message, "{calls}");
        }
        let custom = json!({"name": "patch", "input": "*** Begin"});
        let message = json!({
            "role": "assistant", "content": null, "function_call": {"name": "a", "arguments": "{}"},
            "tool_calls": [{"id": "1", "type": "custom", "custom": custom}],
        });
        let calls = vec![call("", "a", "{}"), call("1", "patch", r#"{"input":"*** Begin"}"#)];
        assert_eq!(claimed(&message), ClaimedMessage::Assistant { text: String::new(), calls });
        for (id, expected) in [(json!(7), "7"), (json!("a"), "a"), (json!([]), "")] {
            let result = claimed(&json!({"tool_call_id": id, "content": "1"}));
            let (call_id, output) = (expected.to_owned(), "1".into());
            assert_eq!(result, ClaimedMessage::Result { call_id, output, is_error: false });
        }
    }
}
