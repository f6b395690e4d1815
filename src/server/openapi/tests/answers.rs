//! Answers that are no turn's, held to the description.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use super::document;
use super::strict::{Seen, check};
use crate::conversation::{
    Answer, Call, Conversation, Ending, Note, Outcome, Part, Question, Step, Turn, Utterance,
    UtteranceKind,
};
use crate::event::{AcknowledgementSource, FailureCode, FeedbackReason, TurnFinish, TurnState};
use crate::parser::Arguments;
use crate::server::dialect::models::Models;
use crate::server::dialect::native::transcript::transcript;
use crate::session::Snapshot;
use crate::tools::source::{LeftOut, SourceState};
use crate::tools::{
    Clarification, ClarificationOption, Confirm, Continuation, Given, Policy, Source, SourceKind,
    SourceReport, ToolResult, ToolSpec,
};

#[test]
fn the_description_describes_itself() {
    let mut seen = Seen::default();
    seen.check("Description", &document());
    assert_eq!(seen.missing(&["Description"], &[]), [""; 0]);
}

#[test]
fn models() {
    let models = Models::new(vec!["a".to_owned()], Vec::new(), false);
    let mut seen = Seen::default();
    seen.check("Models", &models.list(7));
    seen.check("Model", &models.find("a", 7).unwrap());
    assert_eq!(seen.missing(&["Models", "Model"], &[]), [""; 0]);
}

#[test]
fn tools_and_where_they_come_from() {
    let source = Source { kind: SourceKind::Mcp, name: "files".into() };
    let policy = Policy {
        confirm: Some(Confirm::Always),
        timeout: Some(Duration::from_millis(1500)),
        ..Policy::NONE
    };
    let tool = ToolSpec {
        name: "read".to_owned(),
        title: Some("Read".to_owned()),
        parameters: json!({"type": "object"}),
        policy,
        source: source.clone(),
        ..ToolSpec::default()
    };
    let left_out = LeftOut { name: "write".to_owned(), reason: "it is not allowed".to_owned() };
    let server = SourceReport {
        source,
        state: SourceState::Ready,
        tools: 1,
        era: Some("modern"),
        version: Some("2026-07-28".to_owned()),
        sandbox: Some(vec!["landlock"]),
        program: None,
        left_out: vec![left_out],
        unmatched: vec!["`deny` names `rite`, but there is no such tool".to_owned()],
        error: Some("it broke off".to_owned()),
        pin: None,
        is_required: false,
        is_lost: false,
        prefix: String::new(),
    };
    let mut seen = Seen::default();
    seen.check("Tools", &json!({ "tools": [tool], "servers": [server] }));
    assert_eq!(seen.missing(&["Tools"], &[]), [""; 0]);
}

fn question(continuation: Continuation) -> Question {
    let option = ClarificationOption {
        subtitle: Some("Boston".to_owned()),
        confidence: Some(0.5),
        metadata: Some(json!({"town": "Boston"})),
        ..ClarificationOption::new("a", "John")
    };
    let clarification = Clarification {
        r#type: "form".to_owned(),
        question: "Which John?".to_owned(),
        options: vec![option],
        schema: Some(json!({"type": "object"})),
        url: Some("https://example.org/".to_owned()),
    };
    Question {
        clarification_id: "t.1".to_owned(),
        call_id: "call_1".to_owned(),
        tool_name: "look".to_owned(),
        source: Source { kind: SourceKind::Mcp, name: "files".into() },
        clarification,
        arguments: Some(arguments()),
        continuation,
    }
}

fn arguments() -> Arguments {
    serde_json::from_value(json!({"path": "a"})).unwrap()
}

/// A step with calls of each outcome, and all that the gateway can say in between.
fn step() -> Step {
    let asked = question(Continuation::Model).clarification;
    let data = ToolResult::data(json!({})).with_instruction("Be brief.");
    let outcomes = [
        Outcome::Ended(data),
        Outcome::Ended(ToolResult::clarification(asked)),
        Outcome::NotRun(ToolResult::error("no")),
        Outcome::Ended(ToolResult::error("no").but_uncertain()),
        Outcome::Skipped("it repeats another one".to_owned()),
        Outcome::Cancelled,
        Outcome::HandedOut,
        Outcome::Claimed(ToolResult::data(json!("text"))),
    ];
    let calls = outcomes.map(|outcome| {
        Part::Call(Arc::new(Call {
            call_id: "call_1".to_owned(),
            name: "look".to_owned(),
            arguments: arguments(),
            resolved_arguments: Some(arguments()),
            outcome,
        }))
    });
    let kinds = [
        UtteranceKind::Acknowledgement(AcknowledgementSource::Hints),
        UtteranceKind::Status,
        UtteranceKind::Response,
    ];
    let said = kinds.map(|kind| {
        let (text, tools) = ("Looking.".to_owned(), vec!["look".to_owned()]);
        Part::Said(Utterance { kind, text, tools, at_ms: 7 })
    });
    let note = Note { reason: FeedbackReason::MalformedCall, message: "Again.".to_owned() };
    let words = Part::Text("Let me see.".to_owned());
    let parts = [words].into_iter().chain(calls).chain(said).collect();
    Step { at_ms: 7, parts, notes: vec![note], ..Step::default() }
}

#[test]
fn transcripts() {
    let givens = [
        Given::Option(ClarificationOption::new("a", "John")),
        Given::Text("John".to_owned()),
        Given::Content(json!({"name": "John"})),
        Given::Approved { for_session: true },
        Given::Refused(Some("Not now.".to_owned())),
        Given::Refused(None),
        Given::Declined,
        Given::Cancelled,
    ];
    let approval = || question(Continuation::Approval { definition: String::new() });
    let mut conversation = Conversation::default();
    for given in givens {
        let (clarification_id, question) = ("t.1".to_owned(), "Which John?".to_owned());
        conversation.push(Turn {
            answer: Some(Box::new(Answer {
                clarification_id,
                question,
                given,
                not_chosen: Vec::new(),
                beside: None,
            })),
            ending: Some(Ending::Failed(FailureCode::Internal)),
            ..Turn::default()
        });
    }
    conversation.push(Turn {
        dropped: Some("Which John?".to_owned()),
        steps: vec![step()],
        questions: vec![approval()],
        ending: Some(Ending::Completed(TurnFinish::ClarificationNeeded)),
        ..Turn::default()
    });
    let mut seen = Seen::default();
    for state in TurnState::ALL {
        let conversation = conversation.clone();
        let snapshot = Snapshot { state: Some(state), running: None, conversation };
        let shown = serde_json::to_value(transcript("s", &snapshot)).unwrap();
        assert!(shown["clarification"].is_object(), "the question can be answered");
        seen.check("Transcript", &shown);
    }
    let empty = Snapshot { state: None, running: None, conversation: Conversation::default() };
    check("Transcript", &serde_json::to_value(transcript("s", &empty)).unwrap());
    assert_eq!(seen.missing(&["Transcript"], &[]), [""; 0]);
}

/// Wherever it is: strictness that is not strict would hold nothing.
#[test]
fn what_is_not_described_is_found() {
    let models = Models::new(vec!["a".to_owned()], Vec::new(), false).list(7);
    let asked = question(Continuation::Model);
    let result = ToolResult::clarification(asked.clarification);
    let data = json!({"call_id": "c", "tool_name": "t", "tool_result": result, "duration_ms": 1,
        "attempts": 1});
    let error = json!({"error": {"message": "m", "type": "t", "param": null, "code": "c"}});
    let mut found = 0;
    for (name, value) in [
        ("Models", models),
        ("Event", json!({"type": "tool_completed", "data": data})),
        ("ChatCompletionChunk", error),
    ] {
        check(name, &value);
        for pointer in [
            "",
            "/data",
            "/data/0",
            "/data/tool_result",
            "/error",
            "/data/tool_result/clarification",
            "/data/tool_result/clarification/options/0",
        ] {
            let mut more = value.clone();
            let Some(Value::Object(members)) = more.pointer_mut(pointer) else { continue };
            members.insert("more".to_owned(), 1.into());
            let refused = std::panic::catch_unwind(|| check(name, &more));
            assert!(refused.is_err(), "{name}{pointer}");
            found += 1;
        }
    }
    assert_eq!(found, 9);
}
