//! Kind `llama_completion`: the chat template is rendered first, and the prompt goes to the model.

use serde_json::{Value, json};
use tether::call_format::{CallContract, ContractSetting, Row};
use tether::config::{Constrain, ModelServerConfig, UpstreamConfig, UpstreamKind};
use tether::upstream::dialect::Kind;

use crate::support::events::{names, outcome, said};
use crate::support::gateway::Setup;
use crate::support::model::Round;
use crate::support::{Gateway, Model};

const HERMES_CALL: &str = "<tool_call>\n{\"name\": \"calculate\", \"arguments\": \
                           {\"expression\": \"6*7\"}}\n</tool_call>";
/// Every word that the probe of a chat template looks for.
const NOTHING_LOST: &str = "quokka narwhal pangolin axolotl okapi tapir";

async fn gateway(model: &Model, format: &str, constrain: Constrain) -> Gateway {
    let server = ModelServerConfig {
        base_url: format!("http://{}/v1", model.address).parse().unwrap(),
        model: "fake-model".to_owned(),
        constrain: Some(constrain),
        history: tether::upstream::History::Native,
        ..ModelServerConfig::new(Kind::LlamaCompletion)
    };
    let kind = UpstreamKind::Server(server);
    let contract = CallContract::InText(Row::named(format).unwrap());
    let call_contract = Some(ContractSetting::Is(contract));
    let upstream = UpstreamConfig { name: "fake".to_owned(), call_contract, kind };
    Gateway::with(model.address, |setup: &mut Setup| setup.config.upstreams = vec![upstream]).await
}

/// Answers with JSON.
async fn answer_json(mut round: Round, status: &str, body: &Value) {
    let body = body.to_string();
    let length = body.len();
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n"
    );
    round.write(head + &body).await;
    round.keep();
}

/// The next request to render the template, answered with this prompt: its messages and its tools.
async fn renders(model: &mut Model, prompt: &str) -> (Value, Value) {
    let round = model.round().await;
    assert!(round.request.head.starts_with("POST /apply-template "), "{}", round.request.head);
    let (messages, tools) = (round.request.body["messages"].clone(), &round.request.body["tools"]);
    let tools = tools.clone();
    answer_json(round, "200 OK", &json!({ "prompt": prompt })).await;
    (messages, tools)
}

/// The next prompt for the model, answered with these words: the body of the request.
async fn completes(model: &mut Model, words: &[&str]) -> Value {
    let round = model.round().await;
    assert!(round.request.head.starts_with("POST /completion "), "{}", round.request.head);
    let asked = round.request.body.clone();
    let pieces = words.iter().map(|words| json!({"content": words, "stop": false}));
    let last = json!({"content": "", "stop": true, "stop_type": "eos",
                      "tokens_evaluated": 5, "tokens_predicted": 2});
    let frames = pieces.chain([last]).map(|frame| format!("data: {frame}\n\n"));
    round.answer_with(&frames.collect::<String>()).await;
    asked
}

#[tokio::test]
async fn the_template_presents_tools_calls_and_results() {
    let mut model = Model::listen();
    let gateway = gateway(&model, "hermes", Constrain::LlamaGrammar).await;
    let mut stream = gateway.turn(&json!({"prompt": "What is 6*7?"})).await;
    let (_, tools) = renders(&mut model, NOTHING_LOST).await;
    assert_eq!(tools[0]["function"]["name"], "look_up", "the probe");
    let (messages, tools) = renders(&mut model, "<prompt>").await;
    assert_eq!(tools.as_array().map(Vec::len), Some(2));
    assert!(!messages.to_string().contains("tool_call"), "nothing is taught: {messages}");
    let asked = completes(&mut model, &[HERMES_CALL]).await;
    assert_eq!(asked["prompt"], "<prompt>");
    assert!(asked["grammar"].as_str().unwrap().contains("tool-0"));
    assert!(asked["preserved_tokens"].as_array().unwrap().contains(&json!("<tool_call>")));

    // The next round is not probed again.
    let (messages, _) = renders(&mut model, "<prompt 2>").await;
    let roles: Vec<_> = messages.as_array().unwrap().iter().map(|it| it["role"].clone()).collect();
    assert_eq!(roles, ["system", "user", "assistant", "tool"]);
    assert_eq!(messages[2]["tool_calls"][0]["function"]["name"], "calculate");
    completes(&mut model, &["It is ", "42."]).await;
    let frames = stream.rest().await;
    assert_eq!(said(&frames), "It is 42.");
    assert_eq!(outcome(&frames), "stop");
    let usage = &frames.last().unwrap().data["usage"];
    assert_eq!((&usage["prompt_tokens"], &usage["completion_tokens"]), (&json!(10), &json!(4)));
}

#[tokio::test]
async fn what_the_template_loses_is_written_as_text() {
    for (rendered, has_tools, has_calls) in [
        ("quokka", true, false),
        ("narwhal pangolin axolotl okapi tapir", false, true),
        ("quokka narwhal axolotl okapi tapir", true, false),
        ("", false, false),
    ] {
        let mut model = Model::listen();
        let gateway = gateway(&model, "hermes", Constrain::None).await;
        let mut stream = gateway.turn(&json!({"prompt": "What is 6*7?"})).await;
        renders(&mut model, rendered).await;
        let (messages, tools) = renders(&mut model, "<prompt>").await;
        assert_eq!(tools.is_array(), has_tools, "{rendered}");
        let is_taught = messages[0]["content"].as_str().unwrap().contains("<tool_call>");
        assert_eq!(is_taught, !has_tools, "{messages}");
        completes(&mut model, &[HERMES_CALL]).await;
        let (messages, _) = renders(&mut model, "<prompt 2>").await;
        let told = messages.to_string();
        assert_eq!(told.contains("\"tool_calls\""), has_calls, "{told}");
        assert_eq!(told.contains("<tool_response>"), !has_calls, "{told}");
        assert!(told.contains("42"), "{told}");
        completes(&mut model, &["It is 42."]).await;
        assert_eq!(said(&stream.rest().await), "It is 42.");
    }
}

#[tokio::test]
async fn a_template_that_refuses_two_calls_is_asked_about_one() {
    for status in ["400 Bad Request", "422 No", "500 Internal Server Error"] {
        let mut model = Model::listen();
        let gateway = gateway(&model, "llama3", Constrain::None).await;
        let mut stream = gateway.turn(&json!({"prompt": "Hello"})).await;
        let refusal = json!({"error": {"message": "only supports single tool-calls at once"}});
        answer_json(model.round().await, status, &refusal).await;
        let (messages, _) = renders(&mut model, "quokka narwhal axolotl okapi").await;
        assert_eq!(messages[2]["tool_calls"].as_array().map(Vec::len), Some(1), "{status}");
        let (_, tools) = renders(&mut model, "<prompt>").await;
        assert!(tools.is_array());
        completes(&mut model, &["Hi."]).await;
        assert_eq!(said(&stream.rest().await), "Hi.", "{status}");
    }
}

#[tokio::test]
async fn a_format_that_is_taught_needs_no_template_for_tools() {
    let mut model = Model::listen();
    let gateway = gateway(&model, "marker_json", Constrain::None).await;
    let mut stream = gateway.turn(&json!({"prompt": "What is 6*7?"})).await;
    let (messages, tools) = renders(&mut model, "<prompt>").await;
    assert_eq!(tools, Value::Null);
    assert!(messages[0]["content"].as_str().unwrap().contains("<<function_call>>"));
    completes(&mut model, &["Hi."]).await;
    assert_eq!(said(&stream.rest().await), "Hi.");
}

#[tokio::test]
async fn reasoning_that_the_prompt_has_begun_is_reasoning() {
    let mut model = Model::listen();
    let gateway = gateway(&model, "hermes", Constrain::LlamaGrammar).await;
    let mut stream = gateway.turn(&json!({"prompt": "What is 6*7?"})).await;
    renders(&mut model, NOTHING_LOST).await;
    renders(&mut model, "<|im_start|>assistant\n<think>\n").await;
    completes(&mut model, &["Let me see.", "</think>", HERMES_CALL]).await;
    // The next prompt has none.
    renders(&mut model, "<|im_start|>assistant\n<think>\n\n</think>\n\n").await;
    completes(&mut model, &["It is 42."]).await;
    let frames = stream.rest().await;
    assert_eq!(said(&frames), "It is 42.");
    let reasoning = frames.iter().filter(|frame| frame.event == "reasoning_delta");
    let reasoning: String = reasoning.map(|it| it.data["text"].as_str().unwrap()).collect();
    assert_eq!(reasoning, "Let me see.");
}

#[tokio::test]
async fn a_conversation_that_the_template_refuses_fails_the_turn() {
    let mut model = Model::listen();
    let gateway = gateway(&model, "marker_json", Constrain::None).await;
    let mut stream = gateway.turn(&json!({"prompt": "Hello"})).await;
    let refusal = json!({"error": {"message": "roles must alternate"}});
    answer_json(model.round().await, "400 Bad Request", &refusal).await;
    let frames = stream.rest().await;
    let last = frames.last().unwrap();
    assert_eq!(last.event, "turn_failed", "{:?}", names(&frames));
    assert!(last.data["message"].as_str().unwrap().contains("roles must alternate"));
}

#[tokio::test]
async fn another_server_is_told_apart() {
    let mut model = Model::listen();
    let gateway = gateway(&model, "marker_json", Constrain::None).await;
    let mut stream = gateway.turn(&json!({"prompt": "Hello"})).await;
    answer_json(model.round().await, "200 OK", &json!({"object": "error"})).await;
    let frames = stream.rest().await;
    let message = frames.last().unwrap().data["message"].as_str().unwrap().to_owned();
    assert!(message.contains("llama_completion") && message.contains("llama.cpp"), "{message}");
}
