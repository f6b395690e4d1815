//! Where tools come from, and what turns get when that changes.

use serde_json::{Value, json};
use tether::tools::source::{LeftOut, Offering, SourceReport, SourceState};
use tether::tools::{Entry, Source, SourceKind};
use tokio::sync::watch;

use crate::support::client::post;
use crate::support::events::said;
use crate::support::gateway::{STREAM, Setup};
use crate::support::model::call;
use crate::support::tools::Wait;
use crate::support::{Gateway, Model, within};

fn files() -> Source {
    Source::entry(SourceKind::Mcp, "files")
}

fn offering(state: SourceState, tool: Option<&Wait>) -> Offering {
    let tools = tool.map(|tool| Entry::new(std::sync::Arc::new(tool.clone())).unwrap());
    Offering { report: SourceReport::new(files(), state), tools: tools.into_iter().collect() }
}

/// A source that has not answered.
fn source(is_required: bool) -> (watch::Sender<Offering>, impl FnOnce(&mut Setup)) {
    let mut first = offering(SourceState::Starting, None);
    first.report.is_required = is_required;
    let report = first.report.clone();
    let (sender, receiver) = watch::channel(first);
    (sender, move |setup: &mut Setup| setup.tools.push_live(report, || receiver))
}

async fn servers(gateway: &Gateway) -> Value {
    gateway.get("/api/v1/tools").await.json()["servers"].clone()
}

#[tokio::test]
async fn the_list_says_what_became_of_each_source() {
    let model = Model::listen();
    let (sender, change) = source(false);
    let gateway = Gateway::with(model.address, change).await;
    let builtin = json!({"kind": "builtin", "state": "ready", "tools": 2, "left_out": []});
    let starting =
        json!({"kind": "mcp", "name": "files", "state": "starting", "tools": 0, "left_out": []});
    assert_eq!(servers(&gateway).await, json!([builtin, starting]));

    let left_out = LeftOut { name: "write".to_owned(), reason: "it is too long".to_owned() };
    let failed = SourceReport {
        left_out: vec![left_out],
        error: Some("it ended: exit status 1".to_owned()),
        ..SourceReport::new(files(), SourceState::Failed)
    };
    sender.send(Offering { report: failed, tools: Vec::new() }).unwrap();
    let expected = json!({
        "kind": "mcp", "name": "files", "state": "failed", "tools": 0,
        "left_out": [{"name": "write", "reason": "it is too long"}],
        "error": "it ended: exit status 1",
    });
    within(async {
        while servers(&gateway).await[1] != expected {
            tokio::task::yield_now().await;
        }
    })
    .await;
}

/// Otherwise, its turn would keep a place, and then begin with nobody reading it.
#[tokio::test]
async fn a_client_that_leaves_while_its_turn_waits_for_a_source() {
    let mut model = Model::listen();
    let (sender, change) = source(true);
    let gateway = Gateway::with(model.address, change).await;
    let running = || gateway.running.gateway().running();
    let mut client = gateway.client().await;
    client.send(post(STREAM, &[], r#"{"prompt":"Gone."}"#)).await;
    within(async {
        while running() == 0 {
            tokio::task::yield_now().await;
        }
        drop(client);
        while running() > 0 {
            tokio::task::yield_now().await;
        }
    })
    .await;
    sender.send(offering(SourceState::Ready, Some(&Wait::new()))).unwrap();
    let (_stream, round) = gateway.begin(&mut model, "s").await;
    assert!(!round.request.body.to_string().contains("Gone."));
    assert!(model.has_no_requests());
}

#[tokio::test]
async fn a_turn_waits_for_a_required_source() {
    let mut model = Model::listen();
    let (sender, change) = source(true);
    let gateway = Gateway::with(model.address, change).await;
    let ready = gateway.get("/readyz").await;
    assert_eq!((ready.status(), &ready.json()["status"]), (503, &json!("tools_unavailable")));
    assert_eq!(ready.json()["message"], "mcp files: it has not answered yet");

    let wait = Wait::new();
    let body = json!({"prompt": "Wait."});
    let begins = async {
        within(async {
            while gateway.running.gateway().running() == 0 {
                tokio::task::yield_now().await;
            }
        })
        .await;
        // The turn has its place, but not yet its tools.
        assert!(model.has_no_requests());
        sender.send(offering(SourceState::Ready, Some(&wait))).unwrap();
    };
    let (mut stream, ()) = tokio::join!(gateway.turn(&body), begins);
    let round = model.round().await;
    assert!(round.request.contents().contains("wait"), "the model knows the tool");
    round.answer(&call("wait", &json!({}))).await;
    wait.started().await;
    wait.release();
    model.round().await.answer("Done.").await;
    assert_eq!(said(&stream.rest().await).trim(), "Done.");
    assert_eq!(gateway.get("/readyz").await.status(), 200);
}

#[tokio::test]
async fn a_turn_keeps_the_tools_that_it_began_with() {
    let mut model = Model::listen();
    let (sender, change) = source(false);
    let gateway = Gateway::with(model.address, change).await;
    let wait = Wait::new();
    sender.send(offering(SourceState::Ready, Some(&wait))).unwrap();
    within(async {
        while servers(&gateway).await[1]["tools"] != 1 {
            tokio::task::yield_now().await;
        }
    })
    .await;
    let mut stream = gateway.turn(&json!({"prompt": "Wait."})).await;
    let round = model.round().await;
    sender.send(offering(SourceState::Ready, None)).unwrap();
    within(async {
        while servers(&gateway).await[1]["tools"] != 0 {
            tokio::task::yield_now().await;
        }
    })
    .await;
    round.answer(&call("wait", &json!({}))).await;
    wait.started().await;
    wait.release();
    model.round().await.answer("Done.").await;
    stream.rest().await;

    let refused = gateway.post(STREAM, &json!({"prompt": "Again.", "tools": ["wait"]})).await;
    assert_eq!(refused.status(), 400);
}
