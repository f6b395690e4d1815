//! Two gateways with one store, as an embedder may run them: each continues what the other began.

use std::sync::Arc;

use serde_json::{Value, json};
use tether::limits::session::TTL;
use tether::session::store::{MemoryStore, Store};

use crate::support::{Gateway, Model};

async fn with_store(model: &Model, store: &Arc<dyn Store>) -> Gateway {
    let store = Arc::clone(store);
    Gateway::with(model.address, |setup| setup.store = Some(store)).await
}

#[tokio::test]
async fn a_session_moves_from_one_gateway_to_another() {
    let mut model = Model::listen();
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new(TTL));
    let [one, two] = [with_store(&model, &store).await, with_store(&model, &store).await];

    let first = one.whole_turn(&mut model, "s", "Well.").await.rest().await;
    let rejoined = two.rejoin("session_id=s", &[]).await.rest().await;
    assert_eq!(rejoined, first, "the other gateway has its events, ids included");

    let body = json!({"session_id": "s", "prompt": "And then?"});
    let mut stream = two.turn(&body).await;
    let round = model.round().await;
    let messages = round.request.body["messages"].as_array().unwrap();
    let said: Vec<_> = messages.iter().rev().take(3).map(|message| &message["content"]).collect();
    assert_eq!(said, ["And then?", "Well.", "Hello?"]);
    round.answer("The end.").await;
    let second = stream.up_to("turn_completed").await;
    assert!(second[0].id.starts_with("2-"), "the session has changed hands: {}", second[0].id);

    let transcript: Value =
        serde_json::from_slice(&one.get("/api/v1/sessions/s").await.body).unwrap();
    assert_eq!(transcript["turns"].as_array().unwrap().len(), 2);
}
