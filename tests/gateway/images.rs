//! Models that see the images that tools return.

use serde_json::{Value, json};
use tether::call_format::{CallContract, ContractSetting};
use tether::tools::ToolFile;
use tether::upstream::History;

use crate::artifacts::Draw;
use crate::support::events::{EventStream, Frame};
use crate::support::gateway::Setup;
use crate::support::model::{DONE, Round, call, delta, finish};
use crate::support::{Gateway, Model, within};

/// A gateway with a tool that draws a picture, and its model.
async fn gateway(change: impl FnOnce(&mut Setup)) -> (Model, Gateway) {
    let model = Model::listen();
    // What its first bytes say counts, not what its tool says.
    let bytes = b"GIF89a".as_slice().into();
    let picture = ToolFile { name: None, mime_type: "image/png".to_owned(), bytes };
    let gateway = Gateway::with(model.address, |setup| {
        setup.tools.add(Draw::new(vec![picture])).unwrap();
        setup.config.model.images = true;
        change(setup);
    })
    .await;
    (model, gateway)
}

/// The images in a request.
fn images(round: &Round) -> Vec<String> {
    let messages = round.request.body["messages"].as_array().unwrap();
    let parts = messages.iter().filter_map(|message| message["content"].as_array()).flatten();
    let urls = parts.filter_map(|part| part["image_url"]["url"].as_str());
    urls.map(str::to_owned).collect()
}

const PICTURE: &str = "data:image/gif;base64,R0lGODlh";

/// Begins a turn that draws, up to the request with the picture.
async fn drawn(gateway: &Gateway, model: &mut Model) -> (EventStream, Round) {
    let stream = gateway.turn(&json!({"session_id": "s", "prompt": "Draw."})).await;
    model.round().await.answer(&call("draw", &json!({}))).await;
    (stream, model.round().await)
}

async fn refuse(round: Round, status: &str) {
    refuse_because(round, status, "image input is not supported").await;
}

async fn refuse_because(mut round: Round, status: &str, reason: &str) {
    let body = json!({"error": {"message": reason}}).to_string();
    let length = body.len();
    round.write(format!("HTTP/1.1 {status}\r\nContent-Length: {length}\r\n\r\n{body}")).await;
    round.keep();
}

fn last(frames: &[Frame]) -> &str {
    &frames.last().unwrap().event
}

#[tokio::test]
async fn pixels_are_sent_only_if_they_are_asked_for() {
    for (shows, expected) in [(true, vec![PICTURE.to_owned()]), (false, Vec::new())] {
        let (mut model, gateway) = gateway(|setup| setup.config.model.images = shows).await;
        let (mut stream, round) = drawn(&gateway, &mut model).await;
        assert_eq!(images(&round), expected, "{shows}");
        let request = round.request.body.to_string();
        assert!(request.contains("[image image/png, 6 bytes, artifact a1]"), "{request}");
        round.answer("Here.").await;
        stream.rest().await;
    }
}

#[tokio::test]
async fn later_turns_show_them_again() {
    let (mut model, gateway) = gateway(|_| {}).await;
    let (mut stream, round) = drawn(&gateway, &mut model).await;
    round.answer("Here.").await;
    stream.rest().await;
    let mut stream = gateway.turn(&json!({"session_id": "s", "prompt": "What is it?"})).await;
    let round = model.round().await;
    assert_eq!(images(&round), [PICTURE]);
    round.answer("A cat.").await;
    stream.rest().await;
}

#[tokio::test]
async fn a_server_that_takes_no_images_answers_without_them() {
    for status in ["400 Bad", "404 No", "422 No", "500 Oh"] {
        let (mut model, gateway) = gateway(|_| {}).await;
        let (mut stream, round) = drawn(&gateway, &mut model).await;
        assert_eq!(images(&round), [PICTURE]);
        refuse(round, status).await;
        let round = model.round().await;
        assert_eq!(images(&round), [""; 0], "{status}");
        round.answer("Here.").await;
        assert_eq!(last(&stream.rest().await), "turn_completed", "{status}");

        // It is not asked with images again.
        let mut stream = gateway.turn(&json!({"session_id": "s", "prompt": "And?"})).await;
        let round = model.round().await;
        assert_eq!(images(&round), [""; 0], "{status}");
        round.answer("That is all.").await;
        stream.rest().await;
    }
}

/// Such a refusal looks as if the model had been replaced.
#[tokio::test]
async fn a_server_that_does_not_find_a_model_for_images_is_not_asked_for_it_again() {
    let (mut model, gateway) = gateway(|_| {}).await;
    let (mut stream, round) = drawn(&gateway, &mut model).await;
    refuse_because(round, "404 No", "No endpoints found that support image input").await;
    model.round().await.answer("Here.").await;
    assert_eq!(last(&stream.rest().await), "turn_completed");
    assert_eq!(shown(&gateway, &mut model).await, [""; 0]);
}

/// One client's damaged file must not blind the model for others.
#[tokio::test]
async fn a_server_that_could_not_read_the_first_image_gets_others() {
    let (mut model, gateway) = gateway(|_| {}).await;
    let (mut stream, round) = drawn(&gateway, &mut model).await;
    refuse_because(round, "400 Bad", "cannot identify image file").await;
    model.round().await.answer("Here.").await;
    stream.rest().await;
    drawn_again(&gateway, &mut model, 0).await;
}

/// A gateway whose server has refused a picture.
async fn refused() -> (Model, Gateway) {
    let (mut model, gateway) = gateway(|_| {}).await;
    let (mut stream, round) = drawn(&gateway, &mut model).await;
    refuse(round, "400 Bad").await;
    model.round().await.answer("Here.").await;
    stream.rest().await;
    (model, gateway)
}

/// The images of the next turn.
async fn shown(gateway: &Gateway, model: &mut Model) -> Vec<String> {
    let mut stream = gateway.turn(&json!({"session_id": "s", "prompt": "And?"})).await;
    let round = model.round().await;
    let images = images(&round);
    round.answer("That is all.").await;
    stream.rest().await;
    images
}

#[tokio::test]
async fn a_server_that_comes_back_is_shown_them_again() {
    let (model, gateway) = refused().await;
    let away = model.stop().await;
    let mut stream = gateway.turn(&json!({"session_id": "s", "prompt": "And?"})).await;
    assert_eq!(last(&stream.rest().await), "turn_failed");
    assert_eq!(shown(&gateway, &mut away.back()).await, [PICTURE]);
}

#[tokio::test]
async fn a_server_with_another_model_is_shown_them_again() {
    let (mut model, gateway) = refused().await;
    assert_eq!(shown(&gateway, &mut model).await, [""; 0]);
    model.list("fake-model", "vllm");
    // `/readyz` asks for the list, but not each time.
    let listed = model.listed();
    let asks = async {
        while model.listed() == listed {
            gateway.get("/readyz").await;
        }
    };
    within(asks).await;
    assert_eq!(shown(&gateway, &mut model).await, [PICTURE]);
}

/// A turn that draws again. Its picture is the newest of the session.
async fn drawn_again(gateway: &Gateway, model: &mut Model, shown_before: usize) {
    let mut stream = gateway.turn(&json!({"session_id": "s", "prompt": "Again."})).await;
    let round = model.round().await;
    assert_eq!(images(&round).len(), shown_before);
    round.answer(&call("draw", &json!({}))).await;
    let round = model.round().await;
    assert_eq!(images(&round).len(), shown_before + 1);
    round.answer("Here.").await;
    assert_eq!(last(&stream.rest().await), "turn_completed");
}

#[tokio::test]
async fn refused_images_are_not_sent_again_but_others_are() {
    let (mut model, gateway) = gateway(|_| {}).await;
    let (mut stream, round) = drawn(&gateway, &mut model).await;
    round.answer("Here.").await;
    stream.rest().await;
    let mut stream = gateway.turn(&json!({"session_id": "s", "prompt": "And?"})).await;
    let round = model.round().await;
    assert_eq!(images(&round), [PICTURE]);
    refuse(round, "400 Bad").await;
    let round = model.round().await;
    assert_eq!(images(&round), [""; 0]);
    round.answer("So.").await;
    stream.rest().await;
    drawn_again(&gateway, &mut model, 0).await;
}

#[tokio::test]
async fn a_request_that_was_too_large_says_nothing_about_other_images() {
    let (mut model, gateway) = gateway(|_| {}).await;
    let (mut stream, round) = drawn(&gateway, &mut model).await;
    refuse(round, "413 Large").await;
    let round = model.round().await;
    assert_eq!(images(&round), [""; 0]);
    round.answer("Here.").await;
    stream.rest().await;
    drawn_again(&gateway, &mut model, 0).await;
}

#[tokio::test]
async fn an_answer_that_only_begins_proves_nothing() {
    let (mut model, gateway) = gateway(|_| {}).await;
    let (mut stream, mut round) = drawn(&gateway, &mut model).await;
    round.begin().await;
    round.write("data: {\"error\": {\"message\": \"no images\"}}\n\n").await;
    assert_eq!(last(&stream.rest().await), "turn_failed");
    // It still counts as unknown, so a refusal is about all images.
    let mut stream = gateway.turn(&json!({"session_id": "s", "prompt": "And?"})).await;
    refuse(model.round().await, "400 Bad").await;
    model.round().await.answer("So.").await;
    stream.rest().await;
    let (mut stream, round) = drawn(&gateway, &mut model).await;
    assert_eq!(images(&round), [""; 0]);
    round.answer("Here.").await;
    stream.rest().await;
}

#[tokio::test]
async fn a_file_that_is_no_image_is_not_shown() {
    let page = ToolFile {
        name: None,
        mime_type: "image/png".to_owned(),
        bytes: b"<html>".as_slice().into(),
    };
    let mut model = Model::listen();
    let gateway = Gateway::with(model.address, |setup| {
        setup.tools.add(Draw::new(vec![page])).unwrap();
        setup.config.model.images = true;
    })
    .await;
    let (mut stream, round) = drawn(&gateway, &mut model).await;
    assert_eq!(images(&round), [""; 0]);
    round.answer("Here.").await;
    stream.rest().await;
}

#[tokio::test]
async fn the_tools_of_native_calls_leave_the_images_their_share() {
    let (mut model, gateway) = gateway(|setup| {
        setup.config.tools.call_contract = ContractSetting::Is(CallContract::Native);
        setup.upstream().history = History::Native;
    })
    .await;
    let mut stream = gateway.turn(&json!({"session_id": "s", "prompt": "Draw."})).await;
    for number in 0..3 {
        let round = model.round().await;
        assert_eq!(images(&round).len(), number);
        if number == 2 {
            round.answer("Here.").await;
        } else {
            answer_natively(round, number).await;
        }
    }
    stream.rest().await;
}

/// Answers with a native call that differs by its number.
async fn answer_natively(mut round: Round, number: usize) {
    round.begin().await;
    let arguments = json!({ "number": number }).to_string();
    let function = json!({"name": "draw", "arguments": arguments});
    let call = json!({"index": 0, "id": "c", "type": "function", "function": function});
    let stream = delta(&json!({ "tool_calls": [call] })) + &finish("tool_calls") + DONE;
    round.chunk(&stream).await;
    round.write("0\r\n\r\n").await;
    round.keep();
}

/// Whether a user message follows a tool message, which the strictest templates refuse.
fn has_user_after_tool(round: &Round) -> bool {
    let messages = round.request.body["messages"].as_array().unwrap();
    messages.windows(2).any(|pair| pair[0]["role"] == "tool" && pair[1]["role"] == "user")
}

#[tokio::test]
async fn a_strict_template_is_spared_the_message_with_the_images() {
    let native = |setup: &mut Setup| setup.upstream().history = History::Native;
    let (mut model, gateway) = gateway(native).await;
    let (mut stream, round) = drawn(&gateway, &mut model).await;
    assert_eq!(images(&round), [PICTURE]);
    assert!(has_user_after_tool(&round));
    // llama.cpp's words; they name no images.
    refuse_because(round, "500 Oh", "Jinja Exception: roles must alternate").await;
    // Once in this turn, and from the start in the next.
    for _ in 0..2 {
        let round = model.round().await;
        assert!(!has_user_after_tool(&round), "{:#}", round.request.body);
        round.answer("Here.").await;
        assert_eq!(last(&stream.rest().await), "turn_completed");
        stream = gateway.turn(&json!({"session_id": "s", "prompt": "And?"})).await;
    }
}

#[tokio::test]
async fn a_refusal_for_another_reason_is_the_turns() {
    let (mut model, gateway) = gateway(|_| {}).await;
    let (mut stream, round) = drawn(&gateway, &mut model).await;
    refuse(round, "401 No").await;
    assert_eq!(last(&stream.rest().await), "turn_failed");
    // Without images it is refused as well.
    let (mut stream, round) = drawn(&gateway, &mut model).await;
    refuse(round, "400 Bad").await;
    refuse(model.round().await, "400 Bad").await;
    let frames = stream.rest().await;
    let message: &Value = &frames.last().unwrap().data["message"];
    assert!(message.as_str().unwrap().contains("image input is not supported"), "{message}");
}
