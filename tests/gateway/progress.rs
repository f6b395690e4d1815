//! A slow tool that reports while it runs.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::json;
use tether::tools::{Clarification, Progress, ToolResult};
use tokio::sync::mpsc::Sender;

use crate::support::events::{names, outcome, said};
use crate::support::model::call;
use crate::support::tools::{Floods, Slow, Step};
use crate::support::{EventStream, Gateway, Model, until};

/// A turn whose model has called the slow tool.
struct Scene {
    model: Model,
    gateway: Gateway,
    stream: EventStream,
    tool: Sender<Step>,
    running: Arc<AtomicUsize>,
}

impl Scene {
    async fn open() -> Self {
        let mut model = Model::listen();
        let (slow, tool, running) = Slow::new("index_files");
        let gateway = Gateway::with(model.address, |setup| {
            setup.tools.add(Arc::new(slow)).unwrap();
        })
        .await;
        let (mut stream, round) = gateway.begin(&mut model, "s").await;
        round.answer_at_once(&format!("One moment.\n{}", call("index_files", &json!({})))).await;
        stream.up_to("tool_started").await;
        Self { model, gateway, stream, tool, running }
    }

    /// Reports progress; returns what the client receives.
    async fn reports(&mut self, progress: Progress) -> serde_json::Value {
        self.tool.send(Step::Report(progress)).await.unwrap();
        self.stream.up_to("tool_progress").await.pop().unwrap().data
    }
}

#[tokio::test]
async fn reports_are_seen_while_the_tool_runs() {
    let mut scene = Scene::open().await;
    assert_eq!(
        scene.reports(Progress::new(1.0).of(3.0).saying("one of three")).await,
        json!({
            "call_id": "call_1", "tool_name": "index_files",
            "progress": 1.0, "total": 3.0, "message": "one of three",
        })
    );
    assert_eq!(scene.reports(Progress::new(2.0)).await["message"], json!(null));
    assert_eq!(scene.running.load(Ordering::Relaxed), 1);

    scene.tool.send(Step::End(ToolResult::data(json!({"files": 3})))).await.unwrap();
    scene.model.round().await.answer("Three files.").await;
    let frames = scene.stream.rest().await;
    assert_eq!(names(&frames), ["tool_completed", "text_delta", "turn_completed"]);
    assert_eq!(said(&frames), "Three files.");
}

/// At most ten reports per second are sent, and always the last one.
#[tokio::test]
async fn a_flood_of_reports_is_thinned_out() {
    let mut scene = Scene::open().await;
    for done in 1..=100_000 {
        scene.tool.send(Step::Report(Progress::new(f64::from(done)))).await.unwrap();
    }
    scene.tool.send(Step::End(ToolResult::data(json!({})))).await.unwrap();
    let frames = scene.stream.up_to("tool_completed").await;
    let told: Vec<_> = frames.iter().filter(|frame| frame.event == "tool_progress").collect();
    assert_eq!(told.last().unwrap().data["progress"], 100_000.0);
    let ran_ms = frames.last().unwrap().data["duration_ms"].as_u64().unwrap();
    // The first, one per tenth of a second, and the last.
    assert!(told.len() as u64 <= 2 + ran_ms / 100, "{} in {ran_ms} ms", told.len());
    scene.model.round().await.answer("Done.").await;
    assert_eq!(outcome(&scene.stream.rest().await), "stop");
}

/// The tool blocks neither the turn nor its readers.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_tool_that_reports_without_pause_can_be_cancelled() {
    let mut model = Model::listen();
    let gateway = Gateway::with(model.address, |setup| {
        setup.tools.add(Arc::new(Floods::new("flood"))).unwrap();
    })
    .await;
    let (mut stream, round) = gateway.begin(&mut model, "s").await;
    round.answer_at_once(&format!("One moment.\n{}", call("flood", &json!({})))).await;
    for _ in 0..3 {
        stream.up_to("tool_progress").await;
    }
    assert_eq!(gateway.cancel("s").await, 202);
    assert_eq!(outcome(&stream.rest().await), "cancelled");
}

#[tokio::test]
async fn a_question_ends_the_tools_run_and_the_turn() {
    let mut scene = Scene::open().await;
    let question = "Which folder?".to_owned();
    let (r#type, options) = ("text".to_owned(), Vec::new());
    scene
        .tool
        .send(Step::Ask(Clarification { r#type, question, options, ..Clarification::default() }))
        .await
        .unwrap();
    let frames = scene.stream.rest().await;
    assert_eq!(names(&frames), ["tool_completed", "clarification_needed", "turn_completed"]);
    assert_eq!(outcome(&frames), "clarification_needed");
    until(|| scene.running.load(Ordering::Relaxed) == 0).await;

    let id = &frames[1].data["clarification_id"];
    let answer = json!({
        "session_id": "s",
        "clarification_response": {"clarification_id": id, "text": "the home folder"},
    });
    let mut stream = scene.gateway.turn(&answer).await;
    let round = scene.model.round().await;
    assert!(round.request.contents().contains("the home folder"));
    round.answer_at_once(&call("index_files", &json!({"folder": "home"}))).await;
    stream.up_to("tool_started").await;
    scene.tool.send(Step::End(ToolResult::data(json!({"files": 9})))).await.unwrap();
    scene.model.round().await.answer("Nine files.").await;
    assert_eq!(said(&stream.rest().await), "Nine files.");
}
