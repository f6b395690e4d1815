//! The idempotency keys that tools get.

use std::collections::HashSet;
use std::sync::Arc;

use serde_json::json;

use crate::support::model::call;
use crate::support::tools::Key;
use crate::support::{Gateway, Model};

#[tokio::test]
async fn each_call_of_any_turn_has_a_key_of_its_own() {
    let mut model = Model::listen();
    let gateway = Gateway::with(model.address, |setup| {
        setup.tools.add(Arc::new(Key::new())).unwrap();
    })
    .await;
    let mut keys = HashSet::new();
    for session in ["s", "t", "s"] {
        let (mut stream, mut round) = gateway.begin(&mut model, session).await;
        for n in 0..2 {
            round.answer(&call("key", &json!({ "n": n }))).await;
            round = model.round().await;
        }
        round.answer("Well.").await;
        for frame in stream.rest().await.iter().filter(|frame| frame.event == "tool_completed") {
            let key = frame.data["tool_result"]["data"]["key"].as_str().unwrap();
            assert!(keys.insert(key.to_owned()), "{key} twice");
        }
    }
    assert_eq!(keys.len(), 6);
}
