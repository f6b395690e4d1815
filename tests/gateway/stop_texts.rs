//! Texts at which a client wants the answer to end, whatever the model server makes of them.

use serde_json::{Value, json};
use tether::call_format::{CallContract, ContractSetting};

use crate::support::client::post;
use crate::support::events::{outcome, said};
use crate::support::model::{delta, text};
use crate::support::{Gateway, Model};

#[tokio::test]
async fn the_model_is_stopped_at_the_text() {
    let mut model = Model::listen();
    let gateway = Gateway::start(&model).await;
    let body = json!({"prompt": "Hi.", "sampling": {"stop": ["END"]}});
    let mut stream = gateway.turn(&body).await;
    let mut round = model.round().await;
    assert_eq!(round.request.body.get("stop"), None);
    round.begin().await;
    round.say("One. E").await;
    stream.up_to_text("One. ").await;
    round.say("ND of it.").await;
    round.closed().await;
    let frames = stream.rest().await;
    assert_eq!((outcome(&frames), &*said(&frames)), ("stop", ""));
}

#[tokio::test]
async fn the_end_says_which_text_it_was() {
    let (mut model, gateway) = Gateway::with_model(|_| {}).await;
    let body = json!({"prompt": "Hi.", "sampling": {"stop": ["x", "END"]}});
    for (answer, stop_text) in [("One. END of it.", json!("END")), ("One.", Value::Null)] {
        let mut stream = gateway.turn(&body).await;
        model.round().await.answer(answer).await;
        let frames = stream.rest().await;
        assert_eq!(frames.last().unwrap().data["stop_text"], stop_text);
    }

    let messages = json!([{"role": "user", "content": "Hi."}]);
    let body = json!({"model": "fake", "max_tokens": 99, "messages": messages,
        "stop_sequences": ["x", "END"]});
    let mut client = gateway.client().await;
    client.send(post("/v1/messages", &[], &body.to_string())).await;
    model.round().await.answer("One. END of it.").await;
    let answer: Value = client.reply().await.json();
    assert_eq!(answer["content"][0]["text"], "One. ");
    assert_eq!(
        (&answer["stop_reason"], &answer["stop_sequence"]),
        (&json!("stop_sequence"), &json!("END"))
    );
}

#[tokio::test]
async fn a_native_call_before_it_runs() {
    let (mut model, gateway) = Gateway::with_model(|setup| {
        setup.config.tools.call_contract = ContractSetting::Is(CallContract::Native);
    })
    .await;
    let body = json!({"prompt": "Hi.", "sampling": {"stop": ["\n\n"]}});
    let mut stream = gateway.turn(&body).await;
    let mut round = model.round().await;
    round.begin().await;
    let function = json!({"name": "calculate", "arguments": r#"{"expression":"6*7"}"#});
    let called = delta(&json!({"tool_calls": [{"index": 0, "id": "c", "function": function}]}));
    round.chunk(text("Let me see.") + &called + &text("\n\n")).await;
    round.closed().await;
    let round = model.round().await;
    assert!(round.request.contents().contains("42"), "{}", round.request.contents());
    round.answer("It is 42.").await;
    let frames = stream.rest().await;
    assert_eq!(outcome(&frames), "stop");
    assert!(said(&frames).ends_with("It is 42."), "{frames:?}");
}

#[tokio::test]
async fn in_chat_completions_it_is_a_string_or_several() {
    let mut model = Model::listen();
    let gateway = Gateway::start(&model).await;
    for stop in [json!("END"), json!(["x", "END"])] {
        let messages = json!([{"role": "user", "content": "Hi."}]);
        let body = json!({"model": "fake", "messages": messages, "stop": stop});
        let mut client = gateway.client().await;
        client.send(post("/v1/chat/completions", &[], &body.to_string())).await;
        model.round().await.answer("One. END of it.").await;
        let answer: Value = client.reply().await.json();
        let choice = &answer["choices"][0];
        assert_eq!(choice["message"]["content"], "One. ");
        assert_eq!(choice["finish_reason"], "stop");
    }
}
