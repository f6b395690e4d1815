use proptest::prelude::*;

use std::sync::Arc;

use serde_json::json;
use serde_json::value::RawValue;

use super::*;
use crate::conversation::render::tests::any_turn;
use crate::conversation::{
    Answer, Call, Ending, Found, Given, Note, Outcome, Part, Question, Retry, Step, Turn,
    Utterance, UtteranceKind,
};
use crate::event::{AcknowledgementSource, FailureCode, FeedbackReason, TurnFinish};
use crate::limits::session::{RECORD_DEPTH_MAX, TURNS_MAX};
use crate::limits::tools::DATA_DEPTH_MAX;
use crate::parser::Arguments;
use crate::text::is_deeper;
use crate::tools::{Clarification, ClarificationOption, Continuation, Source, ToolResult};
use crate::upstream::ReasoningItem;

fn record(conversation: Conversation) -> SessionRecord {
    let keys = vec![("key".to_owned(), "turn".to_owned())];
    let (nonce, answers) = (Some("7f3a90c2".into()), AnswerRecords::default());
    SessionRecord { epoch: 3, nonce, keys, beginning: None, conversation, answers }
}

proptest! {
    #[test]
    fn what_is_written_is_read(turns in prop::collection::vec(any_turn(), 0..5)) {
        let mut conversation = Conversation::default();
        for turn in turns {
            conversation.push(turn);
        }
        let record = record(conversation);
        let read = SessionRecord::read(record.write().as_bytes()).unwrap();
        prop_assert_eq!(
            read.conversation.turns().collect::<Vec<_>>(),
            record.conversation.turns().collect::<Vec<_>>()
        );
        prop_assert_eq!(read.conversation.call_ids(), record.conversation.call_ids());
        prop_assert_eq!((read.epoch, &read.nonce, &read.keys), (3, &record.nonce, &record.keys));
        prop_assert_eq!(read.write(), record.write());
    }

    #[test]
    fn numbers_keep_their_last_digit(number in any::<f64>()) {
        let read: ToolResult =
            serde_json::from_str(&serde_json::to_string(&ToolResult::data(json!(number))).unwrap()).unwrap();
        prop_assert_eq!(read.data, Some(json!(number)));
    }
}

/// What `serde` is known to lose unless it is told not to.
#[test]
fn nothing_is_lost_on_the_way() {
    let kept = |outcome: Outcome| {
        let call = Call {
            call_id: "call_1".to_owned(),
            name: "f".to_owned(),
            arguments: Arguments::parse(r#"{"b": 1.10, "a": 12345678901234567890123}"#).unwrap(),
            resolved_arguments: None,
            outcome,
        };
        let call = Arc::new(call);
        let thought = ReasoningItem { upstream: "u".to_owned(), json: "{}".to_owned() };
        let parts = vec![Part::Reasoning(Arc::new(thought)), Part::Call(Arc::clone(&call))];
        let steps = vec![Step { parts, ..Step::default() }];
        let turn = Turn { steps, deferred: vec![call], call_ids: 7, ..Turn::default() };
        let mut conversation = Conversation::default();
        conversation.push(turn.clone());
        let read = SessionRecord::read(record(conversation).write().as_bytes()).unwrap();
        assert_eq!(**read.conversation.turns().next().unwrap(), turn);
        assert_eq!(read.conversation.call_ids(), 7);
    };
    for data in [
        json!(null),
        json!([0.1 + 0.2, 5e-324, 1e300, 179_769_313_486_231_570.0, -0.0, 1.0]),
        json!([u64::MAX, i64::MIN]),
        json!({ "b": { "\u{0}": "\u{7f}\u{2028}" }, "a": [] }),
    ] {
        kept(Outcome::Ended(ToolResult::data(data)));
    }
    let nothing = ToolResult { data: None, ..ToolResult::data(json!(null)) };
    kept(Outcome::Ended(nothing));
    for text in ["", "no such zone"] {
        kept(Outcome::NotRun(ToolResult::error(text).with_instruction(text)));
        kept(Outcome::Skipped(text.to_owned()));
    }
    kept(Outcome::Cancelled);
}

#[test]
fn a_newer_record_is_refused_with_what_to_do() {
    let newer = format!("{{\"version\":{},\"sessions\":[]}}", VERSION + 1);
    assert_eq!(
        SessionRecord::read(newer.as_bytes()).unwrap_err().to_string(),
        "the session was written by a newer version of Tether (record version 5; this one \
         reads up to 4); run that version, or delete the session"
    );
}

/// The turns alone do not say it any more.
#[test]
fn what_turns_have_left_behind_outlives_them() {
    let mut conversation = Conversation::default();
    conversation.push(confirms());
    conversation.push(approved());
    assert_eq!(conversation.approvals().len(), 1);
    for _ in 0..TURNS_MAX {
        conversation.push(Turn { call_ids: 1, ..Turn::default() });
    }
    assert_eq!((conversation.dropped(), conversation.call_ids()), (2, TURNS_MAX));
    conversation.push(Turn { call_ids: 1, ..Turn::default() });
    let read = SessionRecord::read(record(conversation.clone()).write().as_bytes()).unwrap();
    assert_eq!(read.conversation.approvals(), conversation.approvals());
    assert_eq!(read.conversation.call_ids(), TURNS_MAX + 1);
    assert_eq!(read.conversation.dropped(), 3);
}

/// Its turns say that the user has approved a tool, but the branch may begin before that.
#[test]
fn a_branch_stays_without_approvals() {
    let mut conversation = Conversation::default();
    conversation.push(confirms());
    conversation.push(approved());
    let branch = conversation.branch(2, None);
    let read = SessionRecord::read(record(branch).write().as_bytes()).unwrap();
    assert_eq!(read.conversation.turns().len(), 2);
    assert_eq!(read.conversation.approvals(), []);
}

/// At the limit, and one over it.
#[test]
fn results_are_as_deep_as_they_may_be() {
    let nested = |depth: usize| (0..depth).fold(json!(1), |inner, _| json!([inner]));
    for (depth, fits) in [(DATA_DEPTH_MAX, true), (DATA_DEPTH_MAX + 1, false)] {
        let result = ToolResult::data(nested(depth)).checked();
        assert_eq!(result.success, fits, "{result:?}");
        let text = serde_json::to_string(&result).unwrap();
        assert!(!is_deeper(text.as_bytes(), DATA_DEPTH_MAX + 1));
    }
    let deepest = format!("{}{}", "[".repeat(RECORD_DEPTH_MAX), "]".repeat(RECORD_DEPTH_MAX));
    assert!(!is_deeper(deepest.as_bytes(), RECORD_DEPTH_MAX));
    assert!(is_deeper(format!("[{deepest}]").as_bytes(), RECORD_DEPTH_MAX));
    let bomb = format!("{{\"version\":1,\"session\":{}", "[".repeat(1_000_000));
    assert!(matches!(SessionRecord::read(bomb.as_bytes()), Err(RecordError::Damaged(_))));
}

#[test]
fn what_no_gateway_wrote_is_refused() {
    let whole = record(Conversation::default()).write();
    for text in ["", "{}", "{\"version\":1}", "{\"version\":-1}", &whole[..whole.len() - 1]] {
        assert!(
            matches!(SessionRecord::read(text.as_bytes()), Err(RecordError::Damaged(_))),
            "{text}"
        );
    }
}

/// Each version that was ever written stays readable.
#[test]
fn records_of_all_versions_are_read() {
    for version in 1..=VERSION {
        let path = format!("tests/data/session/record-{version}.json");
        let text = std::fs::read_to_string(&path).unwrap();
        let record = SessionRecord::read(text.as_bytes()).unwrap();
        let turns = record.conversation.turns().len();
        assert_eq!((record.epoch, turns), (3, version as usize + 2), "{path}");
        if version == VERSION {
            assert_eq!(record.write(), text.trim_end(), "written as it was");
        }
    }
}

/// The stored form has a version. To change the form, raise the version and keep the old file.
#[test]
fn what_is_written_does_not_change_unnoticed() {
    let path = format!("tests/data/session/record-{VERSION}.json");
    let kept = std::fs::read_to_string(path).unwrap_or_default();
    assert_eq!(sample().write(), kept.trim_end());
}

/// A bit of everything.
fn sample() -> SessionRecord {
    let mut conversation = Conversation::default();
    for turn in [asked(), answered(), confirms(), approved(), handed_out()] {
        conversation.push(turn);
    }
    let mut answers = AnswerRecords::default();
    let json = |text: &str| Arc::from(RawValue::from_string(text.to_owned()).unwrap());
    answers.begin("five", json(r#"{"created_at":1,"echo":{"model":"m"}}"#));
    answers.end("five", Some(json(r#"{"id":"resp_1","output":[]}"#)));
    answers.keep_replaced(&conversation);
    conversation.push(returned());
    answers.begin("six", json(r#"{"created_at":2,"echo":{}}"#));
    SessionRecord { answers, ..record(conversation) }
}

/// A turn after that, whose gateway died.
fn returned() -> Turn {
    Turn {
        turn_id: "six".to_owned(),
        prompt: "Go on.".to_owned(),
        ending: Some(Ending::Failed(FailureCode::Internal)),
        ..Turn::default()
    }
}

fn call(id: &str, outcome: Outcome) -> Arc<Call> {
    Arc::new(Call {
        call_id: id.to_owned(),
        name: "look_up".to_owned(),
        arguments: Arguments::parse(r#"{"name": "John"}"#).unwrap(),
        resolved_arguments: Some(Arguments::parse("{}").unwrap()),
        outcome,
    })
}

fn said(kind: UtteranceKind) -> Part {
    let (text, tools) = ("One moment.".to_owned(), vec!["look_up".to_owned()]);
    Part::Said(Utterance { kind, text, tools, at_ms: 2 })
}

fn option() -> ClarificationOption {
    ClarificationOption {
        id: "john_doe".to_owned(),
        title: "John Doe".to_owned(),
        subtitle: Some("Sales".to_owned()),
        confidence: Some(0.5),
        metadata: Some(json!({ "floor": 2 })),
    }
}

fn question(id: &str, clarification: Clarification, continuation: Continuation) -> Question {
    Question {
        clarification_id: id.to_owned(),
        call_id: "call_1".to_owned(),
        tool_name: "look_up".to_owned(),
        source: Source::builtin(),
        clarification,
        arguments: Some(Arguments::parse(r#"{"name": "John"}"#).unwrap()),
        continuation,
    }
}

/// A turn that ends with a question.
fn asked() -> Turn {
    let clarification = Clarification {
        r#type: "choice".to_owned(),
        question: "Which John?".to_owned(),
        options: vec![option()],
        ..Clarification::default()
    };
    let deferred = call("call_2", Outcome::Skipped("needs the answer".to_owned()));
    let first = Step {
        aside: String::new(),
        aside_images: Vec::new(),
        at_ms: 1,
        parts: vec![
            Part::Text("Let me see.".to_owned()),
            said(UtteranceKind::Acknowledgement(AcknowledgementSource::Model)),
            Part::Call(call(
                "call_1",
                Outcome::Ended(ToolResult::clarification(clarification.clone())),
            )),
            Part::Call(Arc::clone(&deferred)),
        ],
        notes: vec![Note {
            reason: FeedbackReason::MalformedCall,
            message: "Write it again.".to_owned(),
        }],
        retry: None,
    };
    Turn {
        turn_id: "one".to_owned(),
        started_at_ms: 1,
        prompt: "Tell John.".to_owned(),
        steps: vec![first],
        questions: vec![
            question("one.1", clarification.clone(), Continuation::Model),
            question("one.2", clarification, Continuation::Again { state: json!({ "step": 1 }) }),
        ],
        deferred: vec![deferred],
        call_ids: 2,
        ending: Some(Ending::Completed(TurnFinish::ClarificationNeeded)),
        ..Turn::default()
    }
}

/// A turn that drops a question, and ends with a call to approve.
fn confirms() -> Turn {
    let asks = Clarification { r#type: "confirmation".to_owned(), ..Clarification::default() };
    let unapproved = call("call_5", Outcome::Unapproved(asks.clone()));
    let continuation = Continuation::Approval { definition: "0f".to_owned() };
    Turn {
        turn_id: "three".to_owned(),
        started_at_ms: 4,
        prompt: "Never mind.".to_owned(),
        dropped: Some("Which John?".to_owned()),
        steps: vec![Step { parts: vec![Part::Call(unapproved)], ..Step::default() }],
        questions: vec![question("three.1", asks, continuation)],
        ending: Some(Ending::Completed(TurnFinish::ClarificationNeeded)),
        ..Turn::default()
    }
}

/// The turn that approves it, for the rest of the session.
fn approved() -> Turn {
    Turn {
        turn_id: "four".to_owned(),
        prompt: "Yes.".to_owned(),
        answer: Some(Box::new(Answer {
            clarification_id: "three.1".to_owned(),
            question: "Run look_up with these arguments?".to_owned(),
            given: Given::Approved { for_session: true },
            not_chosen: Vec::new(),
            beside: None,
        })),
        ending: Some(Ending::Completed(TurnFinish::Stop)),
        ..Turn::default()
    }
}

/// A turn that has handed two calls to the client, one of which has a result.
fn handed_out() -> Turn {
    let claimed = call("call_6", Outcome::Claimed(ToolResult::data(json!({ "text": "Milk." }))));
    let awaited = call("call_7", Outcome::HandedOut);
    let parts = vec![Part::Call(claimed), Part::Call(awaited)];
    Turn {
        turn_id: "five".to_owned(),
        prompt: "Open both.".to_owned(),
        steps: vec![Step { parts, ..Step::default() }],
        call_ids: 2,
        ending: Some(Ending::Completed(TurnFinish::ClientToolCalls)),
        ..Turn::default()
    }
}

/// The turn that answers it, and fails.
fn answered() -> Turn {
    let second = Step {
        aside: String::new(),
        aside_images: Vec::new(),
        at_ms: 3,
        parts: vec![
            Part::Call(call("call_3", Outcome::NotRun(ToolResult::error("no such John")))),
            Part::Call(call("call_4", Outcome::Cancelled)),
            said(UtteranceKind::Status),
            said(UtteranceKind::Response),
        ],
        notes: Vec::new(),
        retry: Some(Retry {
            tool: "send".to_owned(),
            argument: Some(Found {
                name: "to".to_owned(),
                values: vec!["\"john_doe\"".to_owned()],
            }),
        }),
    };
    Turn {
        turn_id: "two".to_owned(),
        started_at_ms: 3,
        prompt: "John Doe".to_owned(),
        answer: Some(Box::new(Answer {
            clarification_id: "one.1".to_owned(),
            question: "Which John?".to_owned(),
            given: Given::Option(option()),
            not_chosen: vec!["john_smith".to_owned()],
            beside: None,
        })),
        steps: vec![second],
        call_ids: 2,
        ending: Some(Ending::Failed(FailureCode::UpstreamError)),
        ..Turn::default()
    }
}
