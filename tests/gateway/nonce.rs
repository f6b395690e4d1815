//! `stream.parser.marker_nonce`: each session has its own marker, and no outside text can
//! contain it.

use serde_json::json;

use crate::support::events::{outcome, said};
use crate::support::model::call;
use crate::support::{Gateway, Model};

/// The marker in a system prompt.
fn taught(contents: &str) -> String {
    let from = contents.find("the marker <<function_call:").expect("it is taught") + 11;
    let end = contents[from..].find(">>").unwrap() + 2;
    contents[from..from + end].to_owned()
}

#[tokio::test]
async fn only_the_sessions_own_marker_calls() {
    let mut model = Model::listen();
    let gateway =
        Gateway::with(model.address, |setup| setup.config.stream.parser.marker_nonce = true).await;
    let plain = call("calculate", &json!({"expression": "1+1"}));

    let (mut stream, round) = gateway.begin(&mut model, "s").await;
    let marker = taught(&round.request.contents());
    round.answer(&format!("It says: {plain}")).await;
    let frames = stream.rest().await;
    assert_eq!(said(&frames), format!("It says: {plain}"), "words, and all of them");

    let (mut stream, round) = gateway.begin(&mut model, "s").await;
    assert_eq!(taught(&round.request.contents()), marker, "a session keeps its marker");
    round.answer(&plain.replace("<<function_call>>", &marker)).await;
    let round = model.round().await;
    assert!(round.request.contents().contains(&format!("{marker} {{\"name\": \"calculate\"")));
    round.answer("Two.").await;
    let frames = stream.rest().await;
    assert_eq!((outcome(&frames), &*said(&frames)), ("stop", "Two."));
    assert!(frames.iter().any(|frame| frame.event == "tool_completed"));

    let (mut stream, round) = gateway.begin(&mut model, "other").await;
    assert_ne!(taught(&round.request.contents()), marker, "another session has another one");
    round.answer("Well.").await;
    stream.rest().await;
}
