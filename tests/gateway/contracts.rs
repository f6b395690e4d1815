//! `call_contract` for each upstream, and `auto`.

use serde_json::{Value, json};
use tether::call_format::{CallContract, ContractSetting, HERMES, Row};
use tether::config::{ModelServerConfig, UpstreamConfig, UpstreamKind};

use crate::support::events::{names, outcome, said};
use crate::support::gateway::Setup;
use crate::support::model::{DONE, call, delta, finish};
use crate::support::{Gateway, Model, Round};

const NATIVE: ContractSetting = ContractSetting::Is(CallContract::Native);
const IN_HERMES: ContractSetting = ContractSetting::Is(CallContract::InText(&HERMES));

/// A call of `calculate` as models of Hermes write it.
const HERMES_CALL: &str = "<tool_call>\n{\"name\": \"calculate\", \"arguments\": \
                           {\"expression\": \"6*7\"}}\n</tool_call>";

fn upstream(name: &str, model: &Model, contract: ContractSetting) -> UpstreamConfig {
    let server = ModelServerConfig {
        base_url: format!("http://{}/v1", model.address).parse().unwrap(),
        model: "fake-model".to_owned(),
        ..ModelServerConfig::default()
    };
    let kind = UpstreamKind::Server(server);
    UpstreamConfig { name: name.to_owned(), call_contract: Some(contract), kind }
}

async fn gateway(upstreams: Vec<UpstreamConfig>, model: &Model) -> Gateway {
    Gateway::with(model.address, |setup: &mut Setup| setup.config.upstreams = upstreams).await
}

/// The stream of an answer with these words.
fn words(words: &str) -> String {
    delta(&json!({ "content": words })) + &finish("stop") + DONE
}

/// The stream of an answer with a native call of `calculate`.
fn native_call() -> String {
    let function = json!({"name": "calculate", "arguments": "{\"expression\": \"6*7\"}"});
    let call = json!({"index": 0, "id": "x", "function": function});
    delta(&json!({ "tool_calls": [call] })) + &finish("tool_calls") + DONE
}

/// A turn on the second of two upstreams, whose first is down: what its model was asked first.
async fn falls_back(from: ContractSetting, to: ContractSetting, call: String) -> Value {
    let (first, mut second) = (Model::listen(), Model::listen());
    let upstreams = vec![upstream("first", &first, from), upstream("second", &second, to)];
    let gateway = gateway(upstreams, &second).await;
    let _away = first.stop().await;
    let (mut stream, round) = gateway.begin(&mut second, "s").await;
    let asked = round.request.body.clone();
    round.answer_with(&call).await;
    let round = second.round().await;
    let told = round.request.body["messages"].to_string();
    assert!(told.contains("42"), "{told}");
    round.answer("It is 42.").await;
    let frames = stream.rest().await;
    assert_eq!(said(&frames), "It is 42.", "{:?}", names(&frames));
    assert_eq!(outcome(&frames), "stop");
    asked
}

#[tokio::test]
async fn the_upstream_that_answers_is_asked_and_read_in_its_own_way() {
    let asked = falls_back(IN_HERMES, NATIVE, native_call()).await;
    assert_eq!(asked["tools"].as_array().map(Vec::len), Some(2), "{asked}");
    assert!(!asked["messages"].to_string().contains("<tool_call>"), "{asked}");

    let asked = falls_back(NATIVE, IN_HERMES, words(HERMES_CALL)).await;
    assert_eq!(asked["tools"], Value::Null);
    assert!(asked["messages"].to_string().contains("<tool_call>"), "{asked}");
}

/// `/readyz` as an operator sees it.
async fn upstreams(gateway: &Gateway) -> Value {
    gateway.get("/readyz").await.json()["upstreams"].clone()
}

#[tokio::test]
async fn auto_takes_the_format_of_the_chat_template() {
    let mut model = Model::listen();
    model.show_template("{{ '<tool_call>' }}");
    let gateway = gateway(vec![upstream("auto", &model, ContractSetting::Auto)], &model).await;
    let (mut stream, round) = gateway.begin(&mut model, "s").await;
    assert!(round.request.contents().contains("<tool_call>"), "{}", round.request.contents());
    round.answer(HERMES_CALL).await;
    model.round().await.answer("It is 42.").await;
    assert_eq!(said(&stream.rest().await), "It is 42.");
    let why = "the chat template contains <tool_call>";
    let shown = json!([{"name": "auto", "call_contract": "hermes", "because": why}]);
    assert_eq!(upstreams(&gateway).await, shown);
}

#[tokio::test]
async fn auto_leaves_marks_that_do_not_arrive_to_the_server() {
    let mut model = Model::listen();
    model.show_template("[TOOL_CALLS] [ARGS]");
    let gateway = gateway(vec![upstream("auto", &model, ContractSetting::Auto)], &model).await;
    let (mut stream, round) = gateway.begin(&mut model, "s").await;
    assert_eq!(round.request.body["tools"].as_array().map(Vec::len), Some(2));
    round.answer_with(&native_call()).await;
    model.round().await.answer("It is 42.").await;
    assert_eq!(said(&stream.rest().await), "It is 42.");
}

#[tokio::test]
async fn auto_teaches_a_model_of_which_nothing_is_known() {
    let mut model = Model::listen();
    let gateway = gateway(vec![upstream("auto", &model, ContractSetting::Auto)], &model).await;
    let why = "the model's name belongs to no known family";
    let shown = json!([{"name": "auto", "call_contract": "marker_json", "because": why}]);
    assert_eq!(upstreams(&gateway).await, shown);
    let (_stream, round) = gateway.begin(&mut model, "s").await;
    assert!(round.request.contents().contains("<<function_call>>"));
}

/// Half an answer settles nothing.
#[tokio::test]
async fn auto_looks_again_after_an_answer_that_broke_off() {
    let model = Model::listen();
    model.show_half_a_template("<tool_call>");
    let gateway = gateway(vec![upstream("auto", &model, ContractSetting::Auto)], &model).await;
    assert_eq!(upstreams(&gateway).await[0]["call_contract"], Value::Null);
    model.show_template("<tool_call>");
    assert_eq!(upstreams(&gateway).await[0]["call_contract"], "hermes");
}

/// Another model may have been loaded meanwhile.
#[tokio::test]
async fn auto_looks_again_after_the_server_was_away() {
    let model = Model::listen();
    model.show_template("<tool_call>");
    let gateway = gateway(vec![upstream("auto", &model, ContractSetting::Auto)], &model).await;
    assert_eq!(upstreams(&gateway).await[0]["call_contract"], "hermes");
    let away = model.stop().await;
    let failed = gateway.post("/api/v1/chat/stream", &json!({"prompt": "Hello"})).await;
    assert!(String::from_utf8_lossy(&failed.body).contains("turn_failed"));
    let model = away.back();
    model.show_template("<function=f><parameter=");
    assert_eq!(upstreams(&gateway).await[0]["call_contract"], "qwen3_coder");
}

/// What a round of the model asks `response_format` for.
fn asked_for(request: &Value) -> &str {
    match &request["response_format"] {
        Value::Null => "nothing",
        tag if tag["format"].is_object() => "a tree",
        tag if tag["structures"].is_array() => "structures",
        _ => "something else",
    }
}

/// Refuses a request that asks for this constraint.
async fn refuse(mut round: Round, asked: &str, message: &str) {
    assert_eq!(asked_for(&round.request.body), asked);
    let body = json!({ "message": message }).to_string();
    let head = "HTTP/1.1 400 Bad Request\r\nContent-Type: application/json\r\nContent-Length: ";
    round.write(format!("{head}{}\r\n\r\n{body}", body.len())).await;
    round.keep();
}

#[tokio::test]
async fn a_constraint_that_the_server_refuses_gets_weaker() {
    let mut model = Model::listen();
    model.list("fake-model", "sglang");
    let taught = ContractSetting::default();
    let gateway = gateway(vec![upstream("sglang", &model, taught)], &model).await;
    let (mut stream, mut round) = gateway.begin(&mut model, "s").await;
    for asked in ["a tree", "structures"] {
        refuse(round, asked, "invalid response_format").await;
        round = model.round().await;
    }
    assert_eq!(asked_for(&round.request.body), "nothing");
    round.answer("Hello.").await;
    assert_eq!(said(&stream.rest().await), "Hello.");
    // And from then on.
    let (_stream, round) = gateway.begin(&mut model, "s").await;
    assert_eq!(asked_for(&round.request.body), "nothing");
}

/// The constraint was not what the server refused.
#[tokio::test]
async fn a_request_that_is_refused_without_a_constraint_too_gets_it_again() {
    let mut model = Model::listen();
    model.list("fake-model", "sglang");
    let taught = ContractSetting::default();
    let gateway = gateway(vec![upstream("sglang", &model, taught)], &model).await;
    let (mut stream, mut round) = gateway.begin(&mut model, "s").await;
    for asked in ["a tree", "structures"] {
        refuse(round, asked, "no response_format helps").await;
        round = model.round().await;
    }
    refuse(round, "nothing", "no response_format helps").await;
    assert_eq!(stream.rest().await.pop().unwrap().event, "turn_failed");
    let (_stream, round) = gateway.begin(&mut model, "s").await;
    assert_eq!(asked_for(&round.request.body), "a tree");
}

/// Ollama shows a template of its own kind, and does not leave special tokens in the text.
#[tokio::test]
async fn auto_asks_ollama_about_the_model() {
    for (template, capabilities, parameters, contract) in [
        (
            "{{ range .ToolCalls }}<tool_call>",
            json!(["completion", "tools"]),
            8_190_735_360_u64,
            "hermes",
        ),
        (
            "{{ range .ToolCalls }}<tool_call>",
            json!(["completion", "tools"]),
            751_632_384,
            "marker_json",
        ),
        (
            "[TOOL_CALLS]{{ json .ToolCalls }}",
            json!(["completion", "tools"]),
            7_248_023_552,
            "native",
        ),
        ("[TOOL_CALLS]{{ json .ToolCalls }}", json!(["completion"]), 7_248_023_552, "marker_json"),
    ] {
        let mut model = Model::listen();
        let info = json!({"general.parameter_count": parameters});
        let shown = json!({"template": template, "capabilities": capabilities, "model_info": info});
        model.show_model(&shown);
        let gateway =
            gateway(vec![upstream("ollama", &model, ContractSetting::Auto)], &model).await;
        let _stream = gateway.turn(&json!({"prompt": "Hello"})).await;
        let round = model.round().await;
        assert!(round.request.head.starts_with("POST /v1/chat/completions "));
        assert_eq!(upstreams(&gateway).await[0]["call_contract"], contract, "{template}");
    }
}

/// The chat template has opened the reasoning, and the server leaves it in the answer. What the model only thinks of is
/// not done.
#[tokio::test]
async fn an_answer_may_begin_in_reasoning() {
    let mut model = Model::listen();
    let gateway = Gateway::with(model.address, |setup| {
        setup.upstream().starts_in_reasoning = Some(true);
    })
    .await;
    let (mut stream, round) = gateway.begin(&mut model, "s").await;
    let call = call("calculate", &json!({"expression": "6*7"}));
    round.answer(&format!("Should I?\n{call}\nNo.</think>\n\nHello.")).await;
    let frames = stream.rest().await;
    assert_eq!(said(&frames).trim_start(), "Hello.");
    assert!(!names(&frames).contains(&"tool_started"));
    assert_eq!(outcome(&frames), "stop");
}

/// Such models never close their reasoning before a call, so a server that takes reasoning out of the answer sends the
/// call in its field.
#[tokio::test]
async fn a_call_in_the_field_for_reasoning_runs() {
    let mut model = Model::listen();
    let row = Row::named("qwen3_coder").unwrap();
    let contract = ContractSetting::Is(CallContract::InText(row));
    let gateway = gateway(vec![upstream("q", &model, contract)], &model).await;
    let (mut stream, mut round) = gateway.begin(&mut model, "s").await;
    let call = "<tool_call>\n<function=calculate>\n<parameter=expression>6*7</parameter>\n</function>\n</tool_call>";
    round.begin().await;
    for piece in ["Let me see.\n", &call[..30], &call[30..]] {
        round.chunk(delta(&json!({"reasoning_content": piece}))).await;
    }
    round.end().await;
    let round = model.round().await;
    round.answer("It is 42.").await;
    let frames = stream.rest().await;
    assert_eq!(said(&frames), "It is 42.");
    assert!(names(&frames).contains(&"tool_completed"), "{frames:?}");
    assert_eq!(outcome(&frames), "stop");
}
