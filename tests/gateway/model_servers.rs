//! What model servers other than llama.cpp's do. Each was seen with the server that its test names.

use serde_json::{Value, json};
use tether::call_format::{CallContract, ContractSetting, HERMES};

use crate::support::events::{names, outcome, said};
use crate::support::gateway::Setup;
use crate::support::model::{DONE, delta, finish, text};
use crate::support::{Frame, Gateway, Model, Round};

const CHAT: &str = "/v1/chat/completions";

/// vLLM, with a context of this many tokens.
fn vllm(context: u64) -> Model {
    let model = Model::listen();
    let listed = json!({"id": "fake-model", "owned_by": "vllm", "max_model_len": context});
    model.list_as(&json!({"data": [listed]}).to_string());
    model
}

/// An error inside the stream, with the status in its code. No answer has begun.
async fn refuses_in_its_stream(mut round: Round, message: &str) {
    let error = json!({"message": message, "type": "BadRequestError", "param": null, "code": 400});
    round.begin().await;
    round.chunk(format!("data: {}\n\n{DONE}", json!({"error": error}))).await;
    round.end().await;
}

/// A whole answer that is an error.
async fn refuses(mut round: Round, status: &str, message: &str) {
    let body = json!({"error": {"message": message}}).to_string();
    let length = body.len();
    round.write(format!("HTTP/1.1 {status}\r\nContent-Length: {length}\r\n\r\n{body}")).await;
    round.keep();
}

fn in_hermes(setup: &mut Setup) {
    let format = ContractSetting::Is(CallContract::InText(&HERMES));
    setup.config.tools.call_contract = format;
}

/// The message of a turn that fails with this code.
fn failure(frames: &[Frame], retryable: bool) -> String {
    assert_eq!(outcome(frames), "upstream_error", "{frames:#?}");
    let failed = &frames.last().unwrap().data;
    assert_eq!(failed["retryable"], retryable, "{failed}");
    failed["message"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn vllm_refuses_a_constraint_in_its_stream() {
    let mut model = vllm(32_768);
    let gateway = Gateway::start(&model).await;
    let (mut stream, first) = gateway.begin(&mut model, "s").await;
    assert_eq!(first.request.body["response_format"]["type"], "structural_tag");
    refuses_in_its_stream(first, "Invalid grammar specification: 'triggers'").await;
    let second = model.round().await;
    assert_eq!(second.request.body["response_format"], Value::Null);
    second.answer("Well.").await;
    assert_eq!(said(&stream.rest().await), "Well.");
    let (mut stream, round) = gateway.begin(&mut model, "other").await;
    assert_eq!(round.request.body["response_format"], Value::Null, "and not again");
    round.answer("Well.").await;
    assert_eq!(outcome(&stream.rest().await), "stop");
}

/// A request for an answer in JSON from a server that does not take the schema, and refuses it like this.
async fn asks_for_json(model: &mut Model, refuse: impl AsyncFn(Round)) {
    let gateway = Gateway::start(model).await;
    let properties = json!({"sum": {"type": "integer"}});
    let schema = json!({"type": "object", "properties": properties, "required": ["sum"]});
    let format = json!({"type": "json_schema", "json_schema": {"name": "a", "schema": schema}});
    let messages = json!([{"role": "user", "content": "What is 6*7?"}]);
    let body = json!({"model": "fake", "messages": messages, "response_format": format});
    let mut refused = 0;
    let answers = async {
        loop {
            let round = model.round().await;
            let asked = &round.request.body["response_format"];
            if asked["type"] == "json_schema" {
                refused += 1;
                refuse(round).await;
            } else if refused == 0 {
                round.answer("It is 42.").await;
            } else {
                round.answer("{\"sum\": 42}").await;
            }
        }
    };
    let reply = tokio::select! {
        reply = gateway.post(CHAT, &body) => reply,
        () = answers => unreachable!("it answers without end"),
    };
    assert_eq!(reply.status(), 200, "{reply:?}");
    assert_eq!(reply.json()["choices"][0]["message"]["content"], "{\"sum\": 42}");
    assert_eq!(refused, 1, "it is asked once");
}

#[tokio::test]
async fn vllm_refuses_a_clients_schema_in_its_stream() {
    let message = "Grammar error: Unimplemented keys: [\"uniqueItems\"]";
    let refuse = async |round| refuses_in_its_stream(round, message).await;
    asks_for_json(&mut vllm(32_768), refuse).await;
}

#[tokio::test]
async fn llama_cpp_python_answers_500_to_a_schema() {
    let message = "1 validation error:\n  {'loc': ('body','response_format','type')}";
    let refuse = async |round| refuses(round, "500 Internal Server Error", message).await;
    asks_for_json(&mut Model::listen(), refuse).await;
}

#[tokio::test]
async fn vllm_refuses_an_answer_that_its_context_could_not_hold() {
    for (asked, sent) in [(1536, 1536), (1537, 1536), (9000, 1536), (5, 5)] {
        let mut model = vllm(2048);
        let gateway = Gateway::start(&model).await;
        let messages = json!([{"role": "user", "content": "Hi."}]);
        let body = json!({"model": "fake", "max_tokens": asked, "messages": messages});
        let answers = async {
            let round = model.round().await;
            assert_eq!(round.request.body["max_tokens"], sent);
            round.answer("Well.").await;
        };
        let (reply, ()) = tokio::join!(gateway.post("/v1/messages", &body), answers);
        assert_eq!(reply.status(), 200);
    }
}

/// It takes a prompt that leaves room for one token.
#[tokio::test]
async fn vllm_is_told_no_more_than_leaves_room_for_an_answer() {
    let mut model = vllm(2048);
    let gateway = Gateway::start(&model).await;
    let mut messages = Vec::new();
    for number in 1..=8 {
        let question = format!("{number}: {}", "why ".repeat(200));
        messages.push(json!({"role": "user", "content": question}));
        messages.push(json!({"role": "assistant", "content": "Because."}));
    }
    messages.push(json!({"role": "user", "content": "Why?"}));
    let body = json!({"model": "fake", "messages": messages});
    let answers = async {
        let round = model.round().await;
        let told = round.request.contents();
        assert!(told.len() < 3 * 2048, "{}", told.len());
        assert!(!told.contains("1: why"), "{told}");
        assert!(told.contains("8: why") && told.contains("Why?"), "{told}");
        round.answer("Well.").await;
    };
    let (reply, ()) = tokio::join!(gateway.post(CHAT, &body), answers);
    assert_eq!(reply.status(), 200);
}

#[tokio::test]
async fn vllm_is_recognized_once_it_is_there() {
    let mut model = vllm(32_768);
    model.hang_up_when_asked();
    let gateway = Gateway::start(&model).await;
    let (mut stream, round) = gateway.begin(&mut model, "s").await;
    assert_eq!(round.request.body["skip_special_tokens"], Value::Null);
    round.answer("Well.").await;
    stream.rest().await;
    model.list("fake-model", "vllm");
    let (mut stream, round) = gateway.begin(&mut model, "s").await;
    assert_eq!(round.request.body["skip_special_tokens"], false);
    round.answer("Well.").await;
    assert_eq!(outcome(&stream.rest().await), "stop");
}

/// The list has others, whose context says nothing about this one.
#[tokio::test]
async fn the_context_is_that_of_the_model_that_is_asked() {
    let mut model = Model::listen();
    let listed =
        |id: &str, context: u64| json!({"id": id, "owned_by": "vllm", "max_model_len": context});
    let list = json!({"data": [listed("tiny", 512), listed("fake-model", 32_768)]});
    model.list_as(&list.to_string());
    let gateway = Gateway::start(&model).await;
    let messages = json!([{"role": "user", "content": "Hi."}]);
    let body = json!({"model": "fake", "max_tokens": 9000, "messages": messages});
    let answers = async {
        let round = model.round().await;
        assert_eq!(round.request.body["max_tokens"], 9000);
        round.answer("Well.").await;
    };
    let (reply, ()) = tokio::join!(gateway.post("/v1/messages", &body), answers);
    assert_eq!(reply.status(), 200);
}

/// It ends one stream properly in the middle if another request comes.
#[tokio::test]
async fn llama_cpp_python_ends_an_answer_for_another() {
    let mut model = Model::listen();
    let gateway = Gateway::start(&model).await;
    // Otherwise, it might be a server that never says why a model has finished.
    gateway.whole_turn(&mut model, "s", "Well.").await.rest().await;
    let (mut stream, round) = gateway.begin(&mut model, "s").await;
    round.answer_with(&(text("A fox is") + DONE)).await;
    let frames = stream.rest().await;
    assert!(failure(&frames, true).contains("finish reason"), "{frames:#?}");
    assert_eq!(said(&frames), "A fox is");
}

/// Of Gemma 2 and others. mlx-lm says so with status 404, vLLM with 400.
#[tokio::test]
async fn a_chat_template_takes_no_instructions() {
    for status in ["404 Not Found", "400 Bad Request"] {
        let mut model = Model::listen();
        let gateway = Gateway::start(&model).await;
        let (mut stream, round) = gateway.begin(&mut model, "s").await;
        let instructions = round.request.body["messages"][0]["content"].clone();
        refuses(round, status, "System role not supported").await;
        for prompt in ["first", "second"] {
            let round = model.round().await;
            let first = &round.request.body["messages"][0];
            assert_eq!(first["role"], "user", "{prompt}: {first}");
            let told = first["content"].as_str().unwrap();
            assert!(told.starts_with(instructions.as_str().unwrap()), "{prompt}: {told}");
            round.answer("Well.").await;
            assert_eq!(outcome(&stream.rest().await), "stop");
            stream = gateway.turn(&json!({"session_id": "s", "prompt": "Again."})).await;
        }
    }
}

#[tokio::test]
async fn mlx_lm_answers_404_to_whatever_goes_wrong() {
    let mut model = Model::listen();
    let gateway = Gateway::start(&model).await;
    let (mut stream, round) = gateway.begin(&mut model, "s").await;
    refuses(round, "404 Not Found", "generation thread died").await;
    let message = failure(&stream.rest().await, true);
    assert_eq!(message, "the model server answered 404: generation thread died");
}

/// Its chat template has a tag that the server knows.
#[tokio::test]
async fn mlx_lm_takes_calls_out_of_the_text() {
    let mut model = Model::listen();
    let gateway = Gateway::with(model.address, in_hermes).await;
    let (mut stream, round) = gateway.begin(&mut model, "s").await;
    let function = json!({"name": "calculate", "arguments": "{\"expression\": \"6*7\"}"});
    let call = json!({"index": 0, "id": "x", "type": "function", "function": function});
    let answer = delta(&json!({"tool_calls": [call]})) + &finish("tool_calls") + DONE;
    round.answer_with(&answer).await;
    let round = model.round().await;
    assert!(round.request.contents().contains("42"), "{}", round.request.contents());
    round.answer("It is 42.").await;
    assert_eq!(said(&stream.rest().await), "It is 42.");
}

/// The model only writes about calls.
#[tokio::test]
async fn mlx_lm_takes_calls_out_of_an_answer_without_tools() {
    let mut model = Model::listen();
    let gateway = Gateway::with(model.address, in_hermes).await;
    let messages = json!([{"role": "user", "content": "How does a call look?"}]);
    let body = json!({"model": "fake:no-tools", "messages": messages});
    let call = json!({"index": 0, "id": "x", "function": {"name": "f", "arguments": "{}"}});
    let answer =
        text("So:") + &delta(&json!({"tool_calls": [call]})) + &finish("tool_calls") + DONE;
    let answers = async { model.round().await.answer_with(&answer).await };
    let (reply, ()) = tokio::join!(gateway.post(CHAT, &body), answers);
    assert_eq!(reply.json()["choices"][0]["message"]["content"], "So:");
}

#[tokio::test]
async fn mlx_lm_drops_a_call_that_it_cannot_read() {
    let mut model = Model::listen();
    let gateway = Gateway::with(model.address, in_hermes).await;
    let (mut stream, round) = gateway.begin(&mut model, "s").await;
    round.answer_with(&(finish("tool_calls") + DONE)).await;
    let round = model.round().await;
    let told = round.request.contents();
    assert!(told.contains("the model server could not read the call"), "{told}");
    round.answer("Well.").await;
    let frames = stream.rest().await;
    assert!(names(&frames).contains(&"feedback"), "{frames:#?}");
    assert_eq!(said(&frames), "Well.");
}
