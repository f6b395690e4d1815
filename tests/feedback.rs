//! `docs/feedback.md` shows the feedback that the model gets on its mistakes, word for word.
//!
//! A scripted model makes each mistake, and the page must contain the turn's feedback.

use std::sync::Arc;

use serde_json::json;
use tether::config::Config;
use tether::conversation::{Conversation, Opening};
use tether::event::{Event, FeedbackReason};
use tether::orchestrator::{Briefing, CallAt, Input, Output, Rules, TurnMachine, TurnRequest};
use tether::tools::{Catalog, ToolResult};
use tether::upstream::{Delta, RoundFinish, Sampling, ToolChoice};

fn page() -> String {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/feedback.md");
    std::fs::read_to_string(path).expect("the page exists").replace("<br>", "\n")
}

/// A turn with the built-in tools, and its feedback on the model's mistakes.
struct Scene {
    turn: TurnMachine,
    said: Vec<(Option<FeedbackReason>, String)>,
    running: Vec<CallAt>,
}

impl Scene {
    fn new() -> Self {
        let mut rules = Rules { max_calls: 4, ..Rules::default() };
        rules.parser.max_payload_bytes = 2048;
        let tools = tether::app::tools(&Config::default()).expect("valid defaults").toolset().tools;
        let briefing = Briefing::new(&Arc::new(rules), None, tools.catalog());
        let request = TurnRequest {
            confirm: None,
            session_id: "s".to_owned(),
            turn_id: "t".to_owned(),
            started_at_ms: 0,
            opening: Opening::Prompt("hello".to_owned()),
            images: Vec::new(),
            model: "m".to_owned(),
            sampling: Sampling::default(),
            max_tool_loops: None,
            max_calls: None,
            disconnect_grace: None,
            tool_choice: ToolChoice::Auto,
            response_format: None,
            is_read_whole: false,
            single_client_call: false,
            nobody_approves: false,
            words_only: false,
            briefing: Arc::new(briefing.expect("valid rules")),
            lent: Catalog::default(),
            history: Conversation::default(),
        };
        let turn = TurnMachine::new(request);
        let mut scene = Self { turn, said: Vec::new(), running: Vec::new() };
        scene.drain();
        scene
    }

    fn drain(&mut self) {
        while let Some(output) = self.turn.poll() {
            match output {
                Output::Event(Event::Feedback { reason, message, .. }) => {
                    self.said.push((Some(reason), message.to_owned()));
                }
                Output::Event(Event::Status { message }) => {
                    self.said.push((None, message.to_owned()));
                }
                Output::StartTool { call, .. } => self.running.push(call),
                _ => {}
            }
        }
    }

    fn handle(&mut self, input: Input<'_>) {
        self.turn.handle(input);
        self.drain();
    }

    /// One message of the model.
    fn says(&mut self, text: &str, finish: RoundFinish) {
        self.handle(Input::Delta(Delta::Text(text)));
        self.handle(Input::Delta(Delta::Finish(finish)));
        self.handle(Input::RoundEnded);
    }

    fn return_all(&mut self, result: &ToolResult) {
        for call in std::mem::take(&mut self.running) {
            let result = result.clone();
            let (duration_ms, attempts) = (1, 1);
            self.handle(Input::ToolEnded { call, result, duration_ms, attempts });
        }
    }
}

/// Makes a mistake. The first feedback must have this reason and be on the page.
#[track_caller]
fn check(reason: Option<FeedbackReason>, play: impl FnOnce(&mut Scene)) {
    let mut scene = Scene::new();
    play(&mut scene);
    let (found, message) = scene.said.first().expect("the mistake was noticed");
    assert_eq!(*found, reason, "{message}");
    assert!(page().contains(message), "docs/feedback.md does not show:\n{message}");
}

fn call(name: &str, arguments: &serde_json::Value) -> String {
    format!("<<function_call>> {{\"name\": \"{name}\", \"arguments\": {arguments}}}\n")
}

fn sum() -> String {
    call("calculate", &json!({ "expression": "1+1" }))
}

#[test]
fn calls_that_are_not_run() {
    let stop = RoundFinish::Stop;
    check(Some(FeedbackReason::ToolNotFound), |scene| {
        scene.says(&call("get_time", &json!({})), stop);
    });
    check(Some(FeedbackReason::InvalidArguments), |scene| {
        scene.says(&call("calculate", &json!({ "expression": 17, "digits": 2 })), stop);
    });
    check(Some(FeedbackReason::InvalidArguments), |scene| {
        scene
            .says(&call("calculate", &json!({ "expression": { "$result": "call_7.data" } })), stop);
    });
}

#[test]
fn calls_that_cannot_be_read() {
    let stop = RoundFinish::Stop;
    check(Some(FeedbackReason::MalformedCall), |scene| {
        scene.says("<<function_call>> {\"name\": calculate}\n", stop);
    });
    check(Some(FeedbackReason::MalformedCall), |scene| {
        scene.says("<<function_call>> calculate 1+1\n", stop);
    });
    check(Some(FeedbackReason::MalformedCall), |scene| {
        scene.says("<<function_call>> {\"expression\": \"1+1\"}\n", stop);
    });
    check(Some(FeedbackReason::IncompleteCall), |scene| {
        scene.says("<<function_call>> {\"name\": \"calculate\", \"argum", stop);
    });
    check(Some(FeedbackReason::IncompleteCall), |scene| {
        scene.says("<<function_call>> {\"name\": \"calculate\", \"argum", RoundFinish::Length);
    });
    check(Some(FeedbackReason::PayloadTooLarge), |scene| {
        scene.says(&call("calculate", &json!({ "expression": "1".repeat(4096) })), stop);
    });
}

#[test]
fn calls_that_fail_repeat_or_are_skipped() {
    let stop = RoundFinish::Stop;
    check(Some(FeedbackReason::ToolFailed), |scene| {
        scene.says(&sum(), stop);
        scene.return_all(&ToolResult::error("the service is closed until 8:00"));
    });
    check(None, |scene| {
        for _ in 0..3 {
            scene.says(&sum(), stop);
            scene.return_all(&ToolResult::data(json!({ "result": "2" })));
        }
    });
    check(None, |scene| {
        let sums = (1..6).map(|n| call("calculate", &json!({ "expression": format!("{n} + 1") })));
        scene.says(&sums.collect::<String>(), stop);
    });
}

#[test]
fn silence() {
    let stop = RoundFinish::Stop;
    check(None, |scene| scene.says("", stop));
    for (empty, at) in [(1, 0), (2, 1)] {
        let mut scene = Scene::new();
        for _ in 0..empty {
            scene.says(" \n", stop);
        }
        let told = scene.said.iter().filter(|(reason, _)| reason.is_some()).nth(at);
        let (reason, message) = told.expect("feedback was sent");
        assert_eq!(*reason, Some(FeedbackReason::EmptyResponse));
        assert!(page().contains(message), "{message}");
    }
}
