//! Responses that are deleted.

use serde_json::{Value, json};
use tether::limits::session::IDEMPOTENCY_KEYS_MAX;

use super::{RESPONSES, after, asked, body, get, in_background, path};
use crate::support::client::{Reply, post, request};
use crate::support::gateway::Endpoint;
use crate::support::process::Process;
use crate::support::redis_server::RedisServer;
use crate::support::{Gateway, Model, until};

async fn delete(gateway: &Endpoint, response: &Value) -> Reply {
    gateway.exchange(request("DELETE", &path(response), &[], "")).await
}

#[tokio::test]
async fn a_deleted_response_is_gone_and_its_children_stay() {
    let (mut model, gateway) = Gateway::with_model(|_| {}).await;
    let (first, _) = asked(&gateway, &mut model, &body("Hi.", &json!({})), &["Ho."]).await;
    let (second, _) = asked(&gateway, &mut model, &body("And?", &after(&first)), &["So."]).await;
    let deleted = delete(&gateway, &first).await;
    let expected = json!({"id": first["id"], "object": "response", "deleted": true});
    assert_eq!((deleted.status(), deleted.json()), (200, expected));
    assert_eq!(delete(&gateway, &first).await.status(), 404);
    assert_eq!(gateway.get(&path(&first)).await.status(), 404);
    let refused = gateway.post(RESPONSES, &body("Hm?", &after(&first))).await;
    assert_eq!(refused.status(), 404);
    let (_, told) = asked(&gateway, &mut model, &body("Go on.", &after(&second)), &["Ok."]).await;
    assert!(told.contains("Hi.") && told.contains("Ho."), "{told}");
}

#[tokio::test]
async fn with_its_last_response_a_session_is_gone() {
    let (mut model, gateway) = Gateway::with_model(|_| {}).await;
    let (only, _) = asked(&gateway, &mut model, &body("Hi.", &json!({})), &["Ho."]).await;
    let deleted = delete(&gateway, &only).await;
    assert_eq!(deleted.status(), 200);
    assert_eq!(gateway.running.gateway().memory_usage().sessions, 0);
}

#[tokio::test]
async fn a_response_is_deleted_while_its_child_runs() {
    let (mut model, gateway) = Gateway::with_model(|_| {}).await;
    let (first, _) = asked(&gateway, &mut model, &body("Hi.", &json!({})), &["Ho."]).await;
    let mut more = after(&first);
    more["background"] = true.into();
    let child = gateway.post(RESPONSES, &body("And?", &more)).await.json();
    let round = model.round().await;
    assert_eq!(delete(&gateway, &first).await.status(), 200);
    assert_eq!(gateway.get(&path(&first)).await.status(), 404);
    assert_eq!(delete(&gateway, &first).await.status(), 404);
    round.answer("So.").await;
    gateway.get(&format!("{}?stream=true", path(&child))).await;
    assert_eq!(get(&gateway, &child).await["status"], "completed");
    assert_eq!(gateway.get(&path(&first)).await.status(), 404, "nor after its child");
}

#[tokio::test]
async fn a_response_that_runs_is_cancelled_and_deleted() {
    let (mut model, gateway) = Gateway::with_model(|_| {}).await;
    let (first, _) = asked(&gateway, &mut model, &body("Hi.", &json!({})), &["Ho."]).await;
    let mut more = after(&first);
    more["background"] = true.into();
    let child = gateway.post(RESPONSES, &body("And?", &more)).await.json();
    let mut round = model.round().await;
    assert_eq!(delete(&gateway, &child).await.status(), 200);
    round.closed().await;
    assert_eq!(gateway.get(&path(&child)).await.status(), 404);
    assert_eq!(get(&gateway, &first).await, first);
}

#[tokio::test]
async fn a_root_that_runs_takes_its_session_with_it() {
    let (mut model, gateway) = Gateway::with_model(|_| {}).await;
    let (queued, mut round) = in_background(&gateway, &mut model).await;
    assert_eq!(delete(&gateway, &queued).await.status(), 200);
    round.closed().await;
    assert_eq!(gateway.get(&path(&queued)).await.status(), 404);
    until(|| gateway.running.gateway().memory_usage().sessions == 0).await;
}

/// A response, and a child of it that runs, in a process that keeps its sessions in this way.
async fn with_child(model: &mut Model, sessions: &str) -> (String, Process, [Value; 2]) {
    let url = format!("http://{}/v1", model.address);
    let config = format!(
        "sessions: {{{sessions}}}
upstreams: [{{name: fake, kind: openai_chat, base_url: \"{url}\", model: fake}}]
"
    );
    let process = Process::start(&config).await;
    let hi = body("Hi.", &json!({}));
    let (first, _) = tokio::join!(process.post(RESPONSES, &hi), model.answers(&["Ho."]));
    let mut more = after(&first.json());
    more["background"] = true.into();
    let child = process.post(RESPONSES, &body("And?", &more)).await.json();
    (config, process, [first.json(), child])
}

async fn what_is_deleted_stays_deleted(sessions: &str) {
    let mut model = Model::listen();
    let (config, process, [first, child]) = with_child(&mut model, sessions).await;
    let _round = model.round().await;
    assert_eq!(delete(&process, &first).await.status(), 200);
    if sessions.starts_with("redis") {
        let other = Process::start(&config).await;
        assert_eq!(other.get(&path(&first)).await.status(), 404, "while the turn runs elsewhere");
    }
    drop(process);
    let process = Process::start(&config).await;
    assert_eq!(process.get(&path(&first)).await.status(), 404);
    model.round().await.answer("So.").await;
    process.get(&format!("{}?stream=true", path(&child))).await;
    assert_eq!(process.get(&path(&child)).await.json()["status"], "completed");
    assert_eq!(process.get(&path(&first)).await.status(), 404);
    drop(process);

    let mut model = Model::listen();
    let (config, process, [first, child]) = with_child(&mut model, sessions).await;
    let _round = model.round().await;
    assert_eq!(delete(&process, &child).await.status(), 200);
    drop(process);
    let process = Process::start(&config).await;
    assert_eq!(process.get(&path(&child)).await.status(), 404);
    assert_eq!(process.get(&path(&first)).await.json(), first);
    let next = body("Go on.", &after(&first));
    let (next, told) = tokio::join!(process.post(RESPONSES, &next), model.answers(&["Ok."]));
    assert_eq!(next.status(), 200);
    assert!(told.contains("Go on.") && !told.contains("And?"), "{told}");
}

#[tokio::test]
async fn what_is_deleted_while_a_turn_runs_stays_deleted_if_its_process_is_killed() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("tether.db");
    what_is_deleted_stays_deleted(&format!("embedded: {{path: {file:?}}}")).await;
    let server = RedisServer::start();
    what_is_deleted_stays_deleted(&format!("redis: {{url: \"{}\", lease_sec: 1}}", server.url()))
        .await;
}

/// What a user deletes does not come back.
#[tokio::test]
async fn the_key_of_a_deleted_response_does_not_bring_it_back() {
    let (mut model, gateway) = Gateway::with_model(|_| {}).await;
    let hi = body("Hi.", &json!({})).to_string();
    let send = async || gateway.exchange(post(RESPONSES, &["Idempotency-Key: k"], &hi)).await;
    let (first, ()) = tokio::join!(send(), async { model.round().await.answer("Ho.").await });
    let first = first.json();
    asked(&gateway, &mut model, &body("And?", &after(&first)), &["So."]).await;
    assert_eq!(delete(&gateway, &first).await.status(), 200);
    let again = send().await;
    assert_eq!((again.status(), &again.json()["error"]["code"]), (410, &json!("gone")));
}

/// Waiting would not help.
#[tokio::test]
async fn a_key_that_its_chain_has_forgotten_is_gone() {
    let (mut model, gateway) = Gateway::with_model(|_| {}).await;
    let send = async |key: usize, body: &Value| {
        let key = format!("Idempotency-Key: {key}");
        gateway.exchange(post(RESPONSES, &[&key], &body.to_string())).await
    };
    let root = body("Hi.", &json!({}));
    let answer = async |model: &mut Model| model.round().await.answer("Ho.").await;
    let (mut last, ()) = tokio::join!(send(0, &root), answer(&mut model));
    for key in 1..=IDEMPOTENCY_KEYS_MAX {
        let next = body("And?", &after(&last.json()));
        (last, ()) = tokio::join!(send(key, &next), answer(&mut model));
    }
    assert_eq!(send(0, &root).await.status(), 410);
}
