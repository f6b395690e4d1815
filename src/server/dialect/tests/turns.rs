//! Turns in which everything happens.

use serde_json::json;
use serde_json::value::RawValue;

use super::events::{completed, failed, raw, second_message, start, started_in, stopped_at, text};
use crate::event::{AcknowledgementSource, Event, FeedbackReason, TurnFinish};
use crate::tools::{Clarification, ClarificationOption, Source, SourceKind, ToolResult};

/// Values that live as long as the test: events borrow all they have.
pub(super) fn kept<T: ?Sized>(value: Box<T>) -> &'static T {
    Box::leak(value)
}

pub(super) fn result(result: ToolResult) -> &'static ToolResult {
    kept(Box::new(result))
}

fn arguments() -> &'static RawValue {
    kept(raw(&json!({"path": "a"})))
}

pub(super) fn ended(call_id: &'static str, tool_result: &'static ToolResult) -> Event<'static> {
    Event::ToolCompleted { call_id, tool_name: "look", tool_result, duration_ms: 1, attempts: 1 }
}

fn progress(total: Option<f64>, message: Option<&'static str>) -> Event<'static> {
    Event::ToolProgress { call_id: "call_1", tool_name: "look", progress: 0.5, total, message }
}

fn feedback(call_id: Option<&'static str>) -> Event<'static> {
    let (reason, message) = (FeedbackReason::ToolFailed, "It failed.");
    Event::Feedback { call_id, reason, message, attempt: 1 }
}

fn said(source: AcknowledgementSource) -> Event<'static> {
    Event::Acknowledgement { text: "Looking.", source }
}

/// A question of this kind, with everything that a question can have.
pub(super) fn question(kind: &str) -> &'static Clarification {
    let option = ClarificationOption {
        subtitle: Some("Boston".to_owned()),
        confidence: Some(0.5),
        metadata: Some(json!({"town": "Boston"})),
        ..ClarificationOption::new("a", "John")
    };
    kept(Box::new(Clarification {
        r#type: kind.to_owned(),
        question: "Which John?".to_owned(),
        options: vec![option],
        schema: (kind == "form").then(|| json!({"type": "object"})),
        url: (kind == "url").then(|| "https://example.org/".to_owned()),
    }))
}

pub(super) fn asks(clarification: &'static Clarification) -> Event<'static> {
    let source = Source { kind: SourceKind::Mcp, name: "contacts".into() };
    Event::ClarificationNeeded {
        clarification_id: "5eef151e-f351-4620-9769-441c3a4f562f.1",
        call_id: "call_1",
        tool_name: "look",
        source: kept(Box::new(source)),
        clarification,
        arguments: (clarification.r#type == "confirmation").then(arguments),
    }
}

/// Turns in which everything happens that can.
pub(super) fn turns() -> Vec<Vec<Event<'static>>> {
    let begun = || started_in("resp-000000000000000000000000000000aa");
    let data = json!({"n": 2});
    let good = result(ToolResult::data(data).with_instruction("Be brief."));
    let bad = result(ToolResult::error("no").but_uncertain());
    let call = Event::ClientToolCall {
        call_id: "call_2",
        tool_name: "doors__open",
        tool_args: arguments(),
        r#loop: 1,
    };
    let marker = Event::ToolMarkerDetected { call_id: "call_1", r#loop: 1 };
    let worked = vec![
        begun(),
        Event::Status { message: "using b instead" },
        Event::ReasoningDelta { text: "Hm." },
        text("Let me see."),
        marker,
        Event::ToolArgumentsDelta { call_id: "call_1", delta: "{" },
        said(AcknowledgementSource::Model),
        start("call_1", arguments(), 1),
        progress(Some(1.0), Some("half")),
        progress(None, None),
        ended("call_1", good),
        said(AcknowledgementSource::Hints),
        start("call_3", arguments(), 2),
        ended("call_3", bad),
        feedback(Some("call_3")),
        feedback(None),
        Event::LoopLimitReached { max_tool_loops: 2 },
        second_message("It is 2."),
        completed(TurnFinish::LoopLimit),
    ];
    let asked = |kind: &str| {
        vec![
            begun(),
            start("call_1", arguments(), 1),
            ended("call_1", result(ToolResult::clarification(question(kind).clone()))),
            asks(question(kind)),
            completed(TurnFinish::ClarificationNeeded),
        ]
    };
    let mut turns = vec![
        worked,
        vec![begun(), text("Opening."), call, completed(TurnFinish::ClientToolCalls)],
        vec![begun(), text("Hi"), completed(TurnFinish::Length)],
        vec![begun(), text("Hi"), completed(TurnFinish::ContentFilter)],
        vec![begun(), start("call_1", arguments(), 1), completed(TurnFinish::Cancelled)],
        vec![begun(), text("Hi"), failed()],
        vec![begun(), completed(TurnFinish::Stop)],
        vec![begun(), text("Hi"), stopped_at("END")],
    ];
    turns.extend(["choice", "form", "url", "confirmation"].map(asked));
    turns
}
