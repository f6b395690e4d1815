use serde_json::{Value, json};

use super::{Decoder, LlamaCompletion};
use crate::call_format::{CallContract, CallFormat, HERMES};
use crate::upstream::dialect::{Decode as _, Dialect as _, Server};
use crate::upstream::sse;
use crate::upstream::{
    ChatRequest, ExtraSampling, FrameError, Message, OfferedTool, Role, Sampling,
};

fn read(stream: &str) -> (Vec<String>, bool, Result<(), FrameError>) {
    let (mut frames, mut decoder) = (sse::Decoder::new(), Decoder::default());
    let (mut rest, mut deltas) = (stream.as_bytes(), Vec::new());
    while let Some(frame) = frames.next_frame(&mut rest).unwrap() {
        if let Err(error) = decoder.decode(&frame, &mut |delta| deltas.push(format!("{delta:?}"))) {
            return (deltas, decoder.is_finished(), Err(error));
        }
    }
    (deltas, decoder.is_finished(), Ok(()))
}

fn round() -> ChatRequest {
    let parameters = json!({"type": "object", "properties": {}});
    let tool = OfferedTool { name: "f".into(), description: "d".into(), parameters };
    ChatRequest {
        messages: vec![Message::text(Role::User, "Hi")],
        tools: [tool].into(),
        contract: CallContract::Templated(&HERMES),
        format: CallFormat::of(&HERMES),
        ..ChatRequest::default()
    }
}

fn body(round: &ChatRequest) -> Value {
    let server = Server { model: "m", prompt: "<user>Hi<assistant>", ..Server::default() };
    serde_json::from_slice(&LlamaCompletion::default().body(round, &server)).unwrap()
}

#[test]
fn tokens_are_text_and_the_last_frame_is_the_end() {
    let stream = "data: {\"index\":0,\"content\":\"Let\",\"tokens\":[1],\"stop\":false}\n\n\
                  data: {\"content\":\" \\\"me\\\"\",\"stop\":false}\n\n\
                  data: {\"content\":\"\",\"stop\":false}\n\n\
                  data: {\"content\":\"\",\"stop\":true,\"stop_type\":\"eos\",\
                  \"tokens_evaluated\":7,\"tokens_predicted\":2}\n\n";
    let (deltas, finished, end) = read(stream);
    let usage = "Usage(Usage { prompt_tokens: 7, completion_tokens: 2, total_tokens: 9 })";
    assert_eq!(deltas, ["Text(\"Let\")", "Text(\" \\\"me\\\"\")", "Finish(Stop)", usage]);
    assert!(finished && end.is_ok());
}

#[test]
fn the_reason_to_stop_is_told() {
    for (stop_type, finish) in [
        ("eos", "Stop"),
        ("word", "Stop"),
        ("limit", "Length"),
        ("none", "Other"),
        ("new", "Other"),
    ] {
        let stream = format!("data: {{\"stop\":true,\"stop_type\":\"{stop_type}\"}}\n\n");
        assert_eq!(read(&stream).0[0], format!("Finish({finish})"));
    }
    let odd = r#"data: {"content":" end.","stop":true,"stop_type":null,"tokens_evaluated":-1}"#;
    assert_eq!(read(&format!("{odd}\n\n")).0[..2], ["Text(\" end.\")", "Finish(Other)"]);
}

#[test]
fn errors_end_the_stream() {
    let error =
        "{\"error\":{\"code\":500,\"message\":\"out of memory\",\"type\":\"server_error\"}}";
    for stream in [format!("data: {error}\n\n"), format!("error: {error}\n\n")] {
        let (deltas, finished, end) = read(&stream);
        assert!(deltas.is_empty() && !finished);
        assert!(matches!(end, Err(FrameError::Server(error)) if error.message == "out of memory"));
    }
    for stream in ["data: [1]\n\n", "data: {\"content\":7}\n\n", "data: {\"content\n\n"] {
        assert_eq!(read(stream).2, Err(FrameError::Malformed), "{stream}");
    }
}

#[test]
fn the_template_gets_the_tools_only_if_it_presents_them() {
    let dialect = LlamaCompletion::default();
    let asked = |contract| {
        let round = ChatRequest { contract, ..round() };
        serde_json::from_slice::<Value>(&dialect.template_body(&round, "m").unwrap()).unwrap()
    };
    let function = json!({"name": "f", "description": "d",
                          "parameters": {"type": "object", "properties": {}}});
    let messages = json!([{"role": "user", "content": "Hi"}]);
    assert_eq!(
        asked(CallContract::Templated(&HERMES)),
        json!({"model": "m", "messages": messages, "tools": [{"type": "function", "function": function}]})
    );
    assert_eq!(asked(CallContract::InText(&HERMES)), json!({ "model": "m", "messages": messages }));
}

#[test]
fn the_marks_of_the_format_are_kept() {
    let body = body(&round());
    assert_eq!(body["prompt"], "<user>Hi<assistant>");
    assert_eq!(body["stream"], true);
    let kept = json!(["<tool_call>", "</tool_call>", "<think>", "</think>"]);
    assert_eq!(body["preserved_tokens"], kept);
    assert!(!body["response_fields"].as_array().unwrap().contains(&json!("prompt")));
}

#[test]
fn sampling_has_the_names_of_this_api() {
    let schema = json!({"type": "object", "properties": {"n": {"type": "integer"}}});
    let format = json!({"type": "json_schema", "json_schema": {"name": "n", "schema": schema}});
    let Value::Object(extra) = json!({"top_k": 40, "response_format": format}) else { panic!() };
    let extra = ExtraSampling::new(extra);
    let sampling = Sampling { max_tokens: Some(7), extra, ..Sampling::default() };
    let asked = body(&ChatRequest { sampling, ..round() });
    assert_eq!((&asked["max_tokens"], &asked["top_k"]), (&json!(7), &json!(40)));
    assert_eq!(asked["json_schema"], schema);
    assert_eq!(asked["response_format"], Value::Null);
    let Value::Object(extra) = json!({"response_format": {"type": "json_object"}}) else {
        panic!()
    };
    let sampling = Sampling { extra: ExtraSampling::new(extra), ..Sampling::default() };
    let asked = body(&ChatRequest { sampling, ..round() });
    assert_eq!(asked["json_schema"], json!({"type": "object"}));
}
