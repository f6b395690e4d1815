//! Streams as real servers write them, at every cut, and the items of a request.

mod unusual;

use std::sync::Arc;

use serde_json::{Value, json};

use super::{Decoder, OpenaiResponses};
use crate::call_format::CallContract;
use crate::upstream::FrameError;
use crate::upstream::dialect::{Decode as _, Dialect as _, Options, Server};
use crate::upstream::{
    ChatRequest, Delta, ExtraSampling, Message, MessageCall, MessagePart, OfferedTool,
    ReasoningItem, Role, Sampling, sse,
};

/// The deltas of a stream, one per line, with text and arguments merged.
fn decode<'a>(chunks: impl IntoIterator<Item = &'a [u8]>) -> (Vec<String>, Option<FrameError>) {
    let (mut frames, mut decoder) = (sse::Decoder::new(), Decoder::new(None));
    let mut said: Vec<String> = Vec::new();
    for mut chunk in chunks {
        while let Some(frame) = frames.next_frame(&mut chunk).unwrap() {
            let outcome = decoder.decode(&frame, &mut |delta| {
                let (key, words) = match delta {
                    Delta::Text(text) => ("text ".to_owned(), text.to_owned()),
                    Delta::Reasoning(text) => ("reasoning ".to_owned(), text.to_owned()),
                    Delta::ReasoningItem(json) => ("item ".to_owned(), json.to_owned()),
                    Delta::CallStarted { index } => (format!("call {index}"), String::new()),
                    Delta::CallArguments { index, json } => (format!("{index}: "), json.to_owned()),
                    Delta::CallCompleted { index, name, arguments } => {
                        (format!("whole {index}: "), format!("{name} {arguments}"))
                    }
                    Delta::Finish(finish) => (format!("{finish:?}"), String::new()),
                    Delta::Usage(usage) => ("tokens ".to_owned(), usage.total_tokens.to_string()),
                };
                match said.last_mut() {
                    Some(last) if last.starts_with(&key) && !words.is_empty() => {
                        last.push_str(&words);
                    }
                    _ => said.push(key + &words),
                }
            });
            if let Err(error) = outcome {
                return (said, Some(error));
            }
        }
    }
    (said, None)
}

fn stream(events: &Value) -> String {
    let frame = |event: &Value| {
        format!("event: {}\ndata: {event}\n\n", event["type"].as_str().unwrap_or("x"))
    };
    events.as_array().unwrap().iter().map(frame).collect()
}

/// Checks the deltas of a stream, wherever it is cut in two.
#[track_caller]
fn check(events: &Value, expected: &[&str]) {
    let bytes = stream(events);
    for cut in 0..=bytes.len() {
        let (said, error) = decode([&bytes.as_bytes()[..cut], &bytes.as_bytes()[cut..]]);
        assert_eq!(
            (said.as_slice(), error),
            (&expected.iter().map(|line| (*line).to_owned()).collect::<Vec<_>>()[..], None),
            "cut at {cut}"
        );
    }
}

fn completed() -> Value {
    json!({"type": "response.completed", "sequence_number": 9, "response": {"status": "completed",
        "usage": {"input_tokens": 3, "output_tokens": 4, "total_tokens": 7}}})
}

#[test]
fn words_and_usage() {
    check(
        &json!([
            {"type": "response.created", "sequence_number": 0, "response": {"id": "r", "error": null, "usage": null, "incomplete_details": null}},
            {"type": "response.in_progress", "sequence_number": 1, "response": {}},
            {"type": "response.output_item.added", "output_index": 0, "item": {"type": "message", "id": "msg_1", "content": []}},
            {"type": "response.content_part.added", "output_index": 0, "part": {"type": "output_text", "text": ""}},
            {"type": "response.output_text.delta", "output_index": 0, "delta": "Hé ", "logprobs": []},
            {"type": "keepalive"},
            {"type": "response.output_text.delta", "output_index": 0, "delta": "\"there\"."},
            {"type": "response.output_text.done", "output_index": 0, "text": "Hé \"there\"."},
            {"type": "response.output_item.done", "output_index": 0, "item": {"type": "message", "content": [{"type": "output_text", "text": "Hé \"there\"."}]}},
            completed(),
        ]),
        &["text Hé \"there\".", "Stop", "tokens 7"],
    );
    for usage in [json!(null), json!(7), json!({"input_tokens": -1})] {
        let end = json!({"type": "response.completed", "response": {"usage": usage}});
        check(&json!([end]), &["Stop"]);
    }
    check(&json!([{"type": "response.refusal.delta", "delta": "No."}]), &["text No."]);
}

#[test]
fn calls_are_whole_when_their_item_is_done() {
    check(
        &json!([
            {"type": "response.output_item.added", "output_index": 0, "item": {"type": "function_call", "id": "fc_1", "call_id": "c", "name": "f", "arguments": ""}},
            {"type": "response.function_call_arguments.delta", "item_id": "fc_1", "output_index": 0, "delta": "{\"x\":"},
            {"type": "response.output_item.added", "output_index": 1, "item": {"type": "function_call", "id": "fc_2", "call_id": "d", "name": "g"}},
            {"type": "response.function_call_arguments.delta", "item_id": "fc_1", "output_index": 0, "delta": "1}"},
            {"type": "response.function_call_arguments.done", "item_id": "fc_1", "output_index": 0, "name": "f", "arguments": "{\"x\":1}"},
            {"type": "response.output_item.done", "output_index": 0, "item": {"type": "function_call", "id": "fc_1", "call_id": "c", "name": "f", "arguments": "{\"x\":1}"}},
            {"type": "response.output_item.done", "output_index": 1, "item": {"type": "function_call", "id": "fc_2", "call_id": "d", "name": "g", "arguments": "{}"}},
            completed(),
        ]),
        &[
            "call 0",
            "0: {\"x\":",
            "call 1",
            "0: 1}",
            "whole 0: f {\"x\":1}",
            "1: {}",
            "whole 1: g {}",
            "ToolCalls",
            "tokens 7",
        ],
    );
}

#[test]
fn servers_that_do_not_count_their_items_name_them() {
    let call = |kind: &str, id: &str, arguments: &str| json!({"type": kind, "item": {"type": "function_call", "id": id, "name": "f", "arguments": arguments}});
    check(
        &json!([
            call("response.output_item.added", "a", ""),
            {"type": "response.function_call_arguments.delta", "item_id": "a", "delta": "{}"},
            call("response.output_item.done", "a", "{}"),
            // Never announced.
            call("response.output_item.done", "b", "{\"y\":2}"),
            completed(),
        ]),
        &[
            "call 0",
            "0: {}",
            "whole 0: f {}",
            "call 1",
            "1: {\"y\":2}",
            "whole 1: f {\"y\":2}",
            "ToolCalls",
            "tokens 7",
        ],
    );
}

#[test]
fn cut_calls_become_whole_after_the_finish() {
    let cut = |reason: &Value| {
        json!([
            {"type": "response.output_item.added", "output_index": 0, "item": {"type": "function_call", "name": "f"}},
            {"type": "response.function_call_arguments.delta", "output_index": 0, "delta": "{\"x"},
            {"type": "response.output_item.done", "output_index": 0, "item": {"type": "function_call", "name": "f", "arguments": "{\"x", "status": "incomplete"}},
            {"type": "response.incomplete", "response": {"status": "incomplete", "incomplete_details": reason}},
        ])
    };
    for (reason, finish) in [
        (json!({"reason": "max_output_tokens"}), "Length"),
        (Value::Null, "Length"),
        (json!({"reason": "content_filter"}), "ContentFilter"),
        (json!({"reason": "boredom"}), "Length"),
    ] {
        check(&cut(&reason), &["call 0", "0: {\"x", finish, "whole 0: f {\"x"]);
    }
}

#[test]
fn reasoning_is_reported_once_and_its_item_kept() {
    let item =
        json!({"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "xyz"});
    check(
        &json!([
            {"type": "response.reasoning_summary_part.added", "summary_index": 0, "part": {}},
            {"type": "response.reasoning_summary_text.delta", "summary_index": 0, "delta": "Hm"},
            {"type": "response.reasoning_summary_part.added", "summary_index": 1, "part": {}},
            {"type": "response.reasoning_summary_text.delta", "summary_index": 1, "delta": "so"},
            {"type": "response.reasoning_text.delta", "delta": "not twice"},
            {"type": "response.output_item.done", "output_index": 0, "item": item},
        ]),
        &["reasoning Hm\n\nso", &format!("item {item}")],
    );
    check(&json!([{"type": "response.reasoning_text.delta", "delta": "Hm"}]), &["reasoning Hm"]);
}

#[test]
fn failures_are_the_servers_words() {
    for (event, message) in [
        (
            json!({"type": "error", "code": "server_error", "message": "Oh no", "param": null}),
            "Oh no",
        ),
        (json!({"type": "error", "error": {"message": "Oh no", "code": "x"}}), "Oh no"),
        (
            json!({"type": "response.failed", "response": {"error": {"code": "server_error", "message": "Oh no"}}}),
            "Oh no",
        ),
        (json!({"error": {"message": "Oh no"}}), "Oh no"),
        (json!({"type": "response.failed", "response": {"error": null}}), "no reason given"),
        (
            json!({"type": "response.completed", "response": {"status": "failed", "error": {"message": "Oh no"}}}),
            "Oh no",
        ),
    ] {
        let (said, error) = decode([stream(&json!([event])).as_bytes()]);
        let Some(FrameError::Server(error)) = error else { panic!("{event}: {said:?}") };
        assert_eq!(error.message, message, "{event}");
    }
}

#[test]
fn frames_that_are_not_events_are_malformed() {
    for data in [
        "7",
        "[1]",
        "{",
        r#"{"type":7}"#,
        r#"{"type":"response.output_text.delta"}"#,
        r#"{"type":"response.output_text.delta","delta":7}"#,
    ] {
        let (said, error) = decode([format!("data: {data}\n\n").as_bytes()]);
        assert_eq!((said, error), (Vec::new(), Some(FrameError::Malformed)), "{data}");
    }
    for data in ["", "[DONE]", r#"{"type":"response.gateway:new","delta":7}"#, "{}"] {
        assert_eq!(decode([format!("data: {data}\n\n").as_bytes()]), (Vec::new(), None), "{data}");
    }
}

#[test]
fn split_characters_do_not_end_the_turn() {
    let half = br#"data: {"type":"response.output_text.delta","delta":"a\ud83d b"}"#;
    assert_eq!(decode([&half[..], b"\n\n"]).0, ["text a\u{FFFD} b"]);
}

/// An assistant message.
fn said(parts: Vec<MessagePart>) -> Message {
    Message { role: Role::Assistant, parts }
}

fn thought(upstream: &str, json: &Value) -> Arc<ReasoningItem> {
    Arc::new(ReasoningItem { upstream: upstream.to_owned(), json: json.to_string() })
}

fn body(messages: Vec<Message>, contract: CallContract) -> Value {
    let tool = OfferedTool {
        name: "f".into(),
        description: "d".into(),
        parameters: json!({"type": "object"}),
    };
    let sampling = Sampling {
        temperature: Some(0.5),
        max_tokens: Some(7),
        seed: Some(1),
        stop: vec!["x".to_owned()],
        ..Sampling::default()
    };
    let tools = [tool].into();
    let round = ChatRequest { messages, sampling, tools, contract, ..ChatRequest::default() };
    let upstream = "us".to_owned();
    let dialect = OpenaiResponses::new(Options { upstream, ..Options::default() });
    let body = dialect.body(&round, &Server { model: "m", ..Server::default() });
    serde_json::from_slice(&body).unwrap()
}

#[test]
fn messages_become_items() {
    let call = MessageCall { id: "c1".into(), name: "f".into(), arguments: "{\"x\":1}".into() };
    let messages = vec![
        Message::text(Role::System, "Be kind."),
        Message::text(Role::User, "Hi"),
        said(vec![MessagePart::Text("So.".into()), MessagePart::Call(call)]),
        Message::result("c1", "{}"),
    ];
    assert_eq!(
        body(messages, CallContract::Native),
        json!({
            "model": "m",
            "instructions": "Be kind.",
            "input": [
                {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Hi"}]},
                {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "So."}]},
                {"type": "function_call", "call_id": "c1", "name": "f", "arguments": "{\"x\":1}"},
                {"type": "function_call_output", "call_id": "c1", "output": "{}"},
            ],
            "stream": true,
            "store": false,
            "temperature": 0.5,
            "max_output_tokens": 7,
            "tools": [{"type": "function", "name": "f", "description": "d", "parameters": {"type": "object"}, "strict": false}],
            "parallel_tool_calls": true,
        })
    );
}

#[test]
fn extra_sampling_has_the_names_of_this_api() {
    let schema = json!({"type": "object"});
    let details = json!({"name": "a", "schema": schema, "strict": true});
    let extra = json!({
        "reasoning_effort": "low", "top_k": 40, "presence_penalty": 0.5,
        "response_format": {"type": "json_schema", "json_schema": details},
    });
    let body = |extra: Value| -> Value {
        let extra = ExtraSampling::new(extra.as_object().unwrap().clone());
        let sampling = Sampling { extra, ..Sampling::default() };
        let round = ChatRequest { sampling, ..ChatRequest::default() };
        let dialect = OpenaiResponses::new(Options::default());
        let body = dialect.body(&round, &Server { model: "m", ..Server::default() });
        serde_json::from_slice(&body).unwrap()
    };
    assert_eq!(
        body(extra),
        json!({
            "model": "m", "input": [], "stream": true, "store": false,
            "reasoning": {"effort": "low"}, "top_k": 40, "presence_penalty": 0.5,
            "text": {"format":
                {"type": "json_schema", "name": "a", "schema": schema, "strict": true}},
        })
    );
    let object = body(json!({"response_format": {"type": "json_object"}}));
    assert_eq!(object["text"], json!({"format": {"type": "json_object"}}));
}

#[test]
fn a_message_with_images_has_several_parts() {
    use crate::upstream::Image;

    let mut told = Message::text(Role::User, "`f` returned: ..");
    let image = Image { id: "a".into(), mime_type: "image/png", bytes: "a".into() };
    told.parts.extend([MessagePart::Image(image), MessagePart::Text("\n\nAnswer.".into())]);
    let content = json!([
        {"type": "input_text", "text": "`f` returned: .."},
        {"type": "input_image", "image_url": "data:image/png;base64,YQ==", "detail": "auto"},
        {"type": "input_text", "text": "\n\nAnswer."},
    ]);
    let item = json!({"type": "message", "role": "user", "content": content});
    assert_eq!(body(vec![told], CallContract::Native)["input"], json!([item]));
}

#[test]
fn without_native_calls_no_tools_are_sent() {
    let body = body(vec![Message::text(Role::User, "Hi")], CallContract::default());
    assert_eq!((&body["tools"], &body["parallel_tool_calls"]), (&Value::Null, &Value::Null));
    assert_eq!(body["instructions"], Value::Null);
}

#[test]
fn reasoning_goes_back_to_its_server_unless_it_is_empty() {
    let plain = json!({"type": "reasoning", "id": "r", "content": [{"type": "reasoning_text", "text": "Hm"}], "status": null});
    let sealed = json!({"type": "reasoning", "id": "r", "summary": [], "encrypted_content": "xyz"});
    let stored = json!({"type": "reasoning", "id": "r", "summary": [], "content": []});
    let reasoning = vec![
        thought("us", &plain),
        thought("us", &sealed),
        thought("us", &stored),
        thought("them", &sealed),
    ];
    let parts = reasoning.into_iter().map(MessagePart::Reasoning);
    let parts = parts.chain([MessagePart::Text("So.".into())]).collect();
    let body = body(vec![said(parts)], CallContract::default());
    let plain = json!({"type": "reasoning", "id": "r", "summary": [], "content": [{"type": "reasoning_text", "text": "Hm"}]});
    let said = json!({"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "So."}]});
    assert_eq!(body["input"], json!([plain, sealed, said]));
}

#[test]
fn reasoning_precedes_what_it_came_with() {
    let item = |id: &str| json!({"type": "reasoning", "id": id, "summary": [], "encrypted_content": "xyz"});
    let thought = |id: &str| MessagePart::Reasoning(thought("us", &item(id)));
    let call = |id: &str| {
        let (name, arguments) = ("f".into(), "{}".into());
        MessagePart::Call(MessageCall { id: id.into(), name, arguments })
    };
    let text = |text: &str| MessagePart::Text(text.into());
    let parts = vec![
        text("So.\n"),
        thought("a"),
        call("c1"),
        thought("b"),
        text("And."),
        text("\n"),
        thought("c"),
        call("c2"),
    ];
    let body = body(vec![said(parts)], CallContract::Native);
    let call =
        |id: &str| json!({"type": "function_call", "call_id": id, "name": "f", "arguments": "{}"});
    let said = |text: &str| json!({"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": text}]});
    assert_eq!(
        body["input"],
        json!([said("So."), item("a"), call("c1"), item("b"), said("And."), item("c"), call("c2")])
    );
}

#[test]
fn encrypted_reasoning_is_requested_if_it_is_missing_otherwise() {
    let holds = |json: &Value| {
        let round = round_with(json);
        assert!(!asks_to_encrypt(&dialect("them"), &round));
        !asks_to_encrypt(&dialect("us"), &round)
    };
    assert!(!holds(&json!({"type": "reasoning", "id": "r", "summary": []})));
    assert!(!holds(&json!({"id": "r", "summary": [{"text": "Hm"}], "encrypted_content": null})));
    assert!(holds(&json!({"id": "r", "encrypted_content": "xyz"})));
    assert!(holds(&json!({"id": "r", "content": [{"type": "reasoning_text", "text": "Hm"}]})));
}

#[test]
fn what_a_server_refuses_to_encrypt_is_not_requested_again_until_it_may_have_been_replaced() {
    let (dialect, empty) = (dialect("us"), json!({"id": "r", "summary": []}));
    let said = "unknown value reasoning.Encrypted_content";
    dialect.learn_refusal(said, false, 0);
    assert!(asks_to_encrypt(&dialect, &round_with(&empty)), "that was about something else");
    let variant = dialect.variant();
    dialect.learn_refusal("no", false, 0);
    assert_eq!(dialect.variant(), variant, "the same request would be refused again");
    assert!(asks_to_encrypt(&dialect, &ChatRequest::default()), "for all conversations");
    dialect.learn_refusal(said, false, 0);
    assert_ne!(dialect.variant(), variant);
    assert!(!asks_to_encrypt(&dialect, &round_with(&empty)));
    dialect.forget_refusals();
    assert!(asks_to_encrypt(&dialect, &round_with(&empty)));
}

fn dialect(upstream: &str) -> OpenaiResponses {
    OpenaiResponses::new(Options { upstream: upstream.to_owned(), ..Options::default() })
}

/// A round after a message with this reasoning.
fn round_with(reasoning: &Value) -> ChatRequest {
    let thought = MessagePart::Reasoning(thought("us", reasoning));
    let messages = vec![said(vec![thought, MessagePart::Text("So.".into())])];
    ChatRequest { messages, ..ChatRequest::default() }
}

fn asks_to_encrypt(dialect: &OpenaiResponses, round: &ChatRequest) -> bool {
    let body: Value = serde_json::from_slice(&dialect.body(round, &Server::default())).unwrap();
    body.get("include") == Some(&json!(["reasoning.encrypted_content"]))
}
