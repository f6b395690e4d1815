//! Identifying the server: on first use, kept, and again when it may have been replaced.

use serde_json::{Value, json};
use tether::call_format::{CallContract, ContractSetting};

use super::{failed, nothing};
use crate::support::events::said;
use crate::support::model::{UNTIL_CLOSE, finish, text};
use crate::support::{Gateway, Model, Round, until};

/// A gateway that found no list of models when it started, and knows nothing.
async fn ignorant(model: &Model) -> Gateway {
    model.refuse_to_list();
    let gateway = Gateway::with(model.address, nothing).await;
    until(|| model.listed() > 0).await;
    gateway
}

/// A gateway that identified the server when it started.
async fn informed(model: &Model, name: &str) -> Gateway {
    let name = name.to_owned();
    let gateway = Gateway::with(model.address, |setup| setup.upstream().model = name).await;
    until(|| model.listed() > 0).await;
    gateway
}

/// A turn that is answered well; returns the request body.
async fn asked(gateway: &Gateway, model: &mut Model) -> Value {
    let (mut stream, mut round) = gateway.begin(model, "s").await;
    let body = std::mem::take(&mut round.request.body);
    answer_and_close(round).await;
    assert_eq!(said(&stream.rest().await), "Well.");
    body
}

async fn answer_and_close(mut round: Round) {
    round.write(UNTIL_CLOSE.to_owned() + &text("Well.") + &finish("stop")).await;
}

/// Turns do not queue to ask a silent server.
#[tokio::test]
async fn turns_that_begin_together_share_the_wait() {
    share_the_wait(ContractSetting::Is(CallContract::default())).await;
}

#[tokio::test]
async fn turns_that_begin_together_share_the_wait_for_the_contract() {
    share_the_wait(ContractSetting::Auto).await;
}

async fn share_the_wait(contract: ContractSetting) {
    const TURNS: usize = 12;
    let model = Model::listen();
    model.stall_listing();
    let gateway = Gateway::with(model.address, |setup| {
        setup.config.tools.call_contract = contract;
        setup.upstream().model = String::new();
    })
    .await;
    let asked_at_start = model.listed();
    let mut streams = Vec::new();
    for turn in 0..TURNS {
        let body = json!({"session_id": format!("s{turn}"), "prompt": "Hello?"});
        streams.push(gateway.turn(&body).await);
    }
    for mut stream in streams {
        failed(&stream.rest().await, "upstream_timeout", true);
    }
    let asked = model.listed() - asked_at_start;
    assert!(asked <= TURNS / 2, "{TURNS} turns asked {asked} times");
}

/// A server that is busy with its answers may leave its list unanswered for long.
#[tokio::test]
async fn turns_with_a_named_model_do_not_wait_for_the_list_again() {
    let mut model = Model::listen();
    model.stall_listing();
    let gateway = informed(&model, "fake-model").await;
    asked(&gateway, &mut model).await;
    let before = model.listed();
    asked(&gateway, &mut model).await;
    assert_eq!(model.listed(), before);
}

async fn refuse(mut round: Round) {
    round.write("HTTP/1.1 404 No\r\nContent-Length: 0\r\n\r\n").await;
    round.keep();
}

#[tokio::test]
async fn it_is_identified_once_on_first_use() {
    for owner in ["vllm", "sglang"] {
        let mut model = Model::listen();
        let gateway = ignorant(&model).await;
        model.list("fake-model", owner);
        let listed = model.listed();
        for _ in 0..3 {
            assert_eq!(asked(&gateway, &mut model).await["skip_special_tokens"], false);
        }
        assert_eq!(model.listed(), listed + 1);
    }
}

#[tokio::test]
async fn a_server_without_a_model_list_is_asked_once() {
    let mut model = Model::listen();
    let gateway = ignorant(&model).await;
    let listed = model.listed();
    for _ in 0..3 {
        assert_eq!(asked(&gateway, &mut model).await["skip_special_tokens"], Value::Null);
    }
    assert_eq!(model.listed(), listed + 1);
}

/// A server that is still starting, or a proxy in front of one, may say more later.
#[tokio::test]
async fn a_server_that_is_starting_up_is_asked_again() {
    let mut model = Model::listen();
    model.start_up();
    let gateway = Gateway::with(model.address, nothing).await;
    until(|| model.listed() > 0).await;
    assert_eq!(asked(&gateway, &mut model).await["skip_special_tokens"], Value::Null);
    model.list("fake-model", "vllm");
    assert_eq!(asked(&gateway, &mut model).await["skip_special_tokens"], false);
}

#[tokio::test]
async fn a_server_whose_list_broke_off_is_asked_again() {
    let mut model = Model::listen();
    model.list("fake-model", "vllm");
    model.break_off_list(true);
    let gateway = Gateway::with(model.address, nothing).await;
    until(|| model.listed() > 0).await;
    assert_eq!(asked(&gateway, &mut model).await["skip_special_tokens"], Value::Null);
    model.break_off_list(false);
    assert_eq!(asked(&gateway, &mut model).await["skip_special_tokens"], false);
}

#[tokio::test]
async fn it_is_identified_again_after_a_404() {
    let mut model = Model::listen();
    model.list("fake-model", "vllm");
    let gateway = informed(&model, "fake-model").await;
    assert_eq!(asked(&gateway, &mut model).await["skip_special_tokens"], false);
    model.list("fake-model", "library");
    let (mut stream, round) = gateway.begin(&mut model, "s").await;
    refuse(round).await;
    failed(&stream.rest().await, "upstream_error", false);
    assert_eq!(asked(&gateway, &mut model).await["skip_special_tokens"], Value::Null);
}

#[tokio::test]
async fn a_learnt_name_is_learnt_again_at_once() {
    let mut model = Model::listen();
    model.list("old", "library");
    let gateway = informed(&model, "").await;
    assert_eq!(asked(&gateway, &mut model).await["model"], "old");
    model.list("new", "library");
    let (mut stream, round) = gateway.begin(&mut model, "s").await;
    assert_eq!(round.request.body["model"], "old");
    refuse(round).await;
    let round = model.round().await;
    assert_eq!(round.request.body["model"], json!("new"));
    answer_and_close(round).await;
    assert_eq!(said(&stream.rest().await), "Well.");
}

/// As llama.cpp's router does.
#[tokio::test]
async fn a_learnt_name_may_be_refused_with_another_status() {
    for status in ["400 Bad", "422 No", "500 Oh"] {
        let mut model = Model::listen();
        model.list("old", "library");
        let gateway = informed(&model, "").await;
        assert_eq!(asked(&gateway, &mut model).await["model"], "old");
        model.list("new", "library");
        let (mut stream, mut round) = gateway.begin(&mut model, "s").await;
        let body = r#"{"error":{"message":"model 'old' not found"}}"#;
        let length = body.len();
        round.write(format!("HTTP/1.1 {status}\r\nContent-Length: {length}\r\n\r\n{body}")).await;
        round.keep();
        let round = model.round().await;
        assert_eq!(round.request.body["model"], "new", "{status}");
        answer_and_close(round).await;
        assert_eq!(said(&stream.rest().await), "Well.");
    }
}

#[tokio::test]
async fn it_is_identified_again_after_an_outage() {
    let mut model = Model::listen();
    model.list("fake-model", "vllm");
    let gateway = informed(&model, "fake-model").await;
    assert_eq!(asked(&gateway, &mut model).await["skip_special_tokens"], false);
    let model = model.stop().await;
    let prompt = json!({"session_id": "s", "prompt": "Hello?"});
    failed(&gateway.turn(&prompt).await.rest().await, "upstream_unavailable", true);
    let mut model = model.back();
    model.list("fake-model", "library");
    assert_eq!(asked(&gateway, &mut model).await["skip_special_tokens"], Value::Null);
}
