//! A conversation is bounded in turns and in bytes; the oldest turns are dropped first.

use serde_json::json;

use super::*;
use crate::tools::{ListedFile, Source};

fn turn(id: usize, steps: Vec<Step>) -> Turn {
    Turn {
        turn_id: format!("{id:08}"),
        prompt: "?".to_owned(),
        steps,
        ending: Some(Ending::Completed(TurnFinish::Stop)),
        ..Turn::default()
    }
}

fn words(bytes: usize) -> Step {
    Step { parts: vec![Part::Text("x".repeat(bytes))], ..Step::default() }
}

/// A turn of exactly this size.
fn turn_of(id: usize, bytes: usize) -> Turn {
    let rest = size::of_turn(&turn(id, vec![words(0)]));
    turn(id, vec![words(bytes - rest)])
}

#[track_caller]
fn check(conversation: &Conversation, ids: std::ops::Range<usize>) {
    let kept: Vec<usize> = conversation.turns().map(|turn| turn.turn_id.parse().unwrap()).collect();
    assert_eq!(kept, ids.clone().collect::<Vec<_>>());
    assert_eq!(conversation.dropped(), ids.start as u64);
    let bytes = conversation.turns().map(|turn| size::of_turn(turn)).sum::<usize>();
    assert_eq!(conversation.bytes(), bytes);
}

#[test]
fn turns_are_kept_up_to_their_number() {
    let mut conversation = Conversation::default();
    for id in 0..limits::TURNS_MAX {
        conversation.push(turn(id, Vec::new()));
    }
    check(&conversation, 0..limits::TURNS_MAX);
    conversation.push(turn(limits::TURNS_MAX, Vec::new()));
    check(&conversation, 1..limits::TURNS_MAX + 1);
}

#[test]
fn turns_are_kept_up_to_their_bytes() {
    let quarter = limits::CONVERSATION_BYTES_MAX / 4;
    for (last, kept) in [(quarter, 0..4), (quarter + 1, 1..4)] {
        let mut conversation = Conversation::default();
        for id in 0..3 {
            conversation.push(turn_of(id, quarter));
        }
        conversation.push(turn_of(3, last));
        check(&conversation, kept);
    }
}

#[test]
fn the_latest_turn_is_kept_whatever_its_size() {
    let mut conversation = Conversation::default();
    conversation.push(turn_of(0, 1000));
    conversation.push(turn_of(1, limits::CONVERSATION_BYTES_MAX + 1));
    check(&conversation, 1..2);
    conversation.push(turn_of(2, 1000));
    check(&conversation, 2..3);
}

/// A running turn keeps the conversation as it was when the turn began.
#[test]
fn a_clone_does_not_change() {
    let mut conversation = Conversation::default();
    conversation.push(turn_of(0, 1000));
    let before = conversation.clone();
    conversation.push(turn_of(1, limits::CONVERSATION_BYTES_MAX));
    check(&before, 0..1);
    check(&conversation, 1..2);
}

/// The length of each text below: more than everything around them takes.
const LONG: usize = 4000;

fn long() -> String {
    "x".repeat(LONG)
}

fn of_step(step: Step) -> Turn {
    turn(0, vec![step])
}

/// A call of a tool with this name.
fn call(name: &str, arguments: &str, outcome: Outcome) -> Call {
    let arguments = Arguments::parse(arguments).unwrap();
    let (call_id, name, resolved_arguments) = ("call_1".to_owned(), name.to_owned(), None);
    Call { call_id, name, arguments, resolved_arguments, outcome }
}

fn calls(call: Call) -> Turn {
    of_step(Step { parts: vec![Part::Call(Arc::new(call))], ..Step::default() })
}

/// A question of a tool, with an option. Everything in it is long.
fn long_clarification() -> Clarification {
    let option =
        json!({"id": long(), "title": long(), "subtitle": long(), "metadata": {"a": long()}});
    let question = json!({"type": long(), "question": long(), "options": [option],
        "schema": {"a": long()}, "url": long()});
    serde_json::from_value(question).unwrap()
}

/// How many texts it has.
const CLARIFICATION_TEXTS: usize = 8;

fn long_file() -> ListedFile {
    serde_json::from_value(json!({"id": long(), "kind": long(), "mime_type": long(), "bytes": 0,
        "name": long(), "url": long(), "error": long()}))
    .unwrap()
}

/// Checks that a turn with this many long texts is counted as that long, and not as much longer as another one.
#[track_caller]
fn check_texts(texts: usize, turn: &Turn) {
    let counted = size::of_turn(turn);
    let shown = format!("{turn:?}").replace(&long(), "...");
    assert_eq!(counted / LONG, texts, "{counted}: {shown}");
}

#[test]
fn everything_that_a_model_says_is_counted() {
    let said = |kind, tools| Part::Said(Utterance { kind, text: long(), tools, at_ms: 0 });
    let thought = ReasoningItem { upstream: long(), json: long() };
    let note = Note { reason: FeedbackReason::ToolFailed, message: long() };
    let found = Found { name: long(), values: vec![long(), long()] };
    let retry = |argument| Some(Retry { tool: long(), argument });
    let parts = |parts| Step { parts, ..Step::default() };
    for (texts, step) in [
        (1, words(LONG)),
        (1, parts(vec![said(UtteranceKind::Status, Vec::new())])),
        (3, parts(vec![said(UtteranceKind::Response, vec![long(), long()])])),
        (2, parts(vec![Part::Reasoning(Arc::new(thought))])),
        (1, Step { notes: vec![note], ..Step::default() }),
        (1, Step { retry: retry(None), ..Step::default() }),
        (4, Step { retry: retry(Some(found)), ..Step::default() }),
        (1, Step { aside: long(), ..Step::default() }),
        (
            6,
            Step {
                aside_images: vec![PlacedImage { at: 0, file: long_file() }],
                ..Step::default()
            },
        ),
    ] {
        check_texts(texts, &of_step(step));
    }
}

#[test]
fn everything_in_a_call_is_counted() {
    let ended = |result| call("name", "{}", Outcome::Ended(result));
    let arguments = json!({"a": long()}).to_string();
    let resolved = Some(Arguments::parse(&arguments).unwrap());
    let data = || ToolResult::data(json!(long()));
    let plain = || ToolResult::data(json!(null));
    for (texts, call) in [
        (1, Call { call_id: long(), ..call("name", "{}", Outcome::Cancelled) }),
        (1, call(&long(), "{}", Outcome::Cancelled)),
        (1, call("name", &arguments, Outcome::HandedOut)),
        (1, Call { resolved_arguments: resolved, ..call("name", "{}", Outcome::Cancelled) }),
        (1, call("name", "{}", Outcome::Skipped(long()))),
        (1, call("name", "{}", Outcome::NotRun(data()))),
        (1, call("name", "{}", Outcome::Claimed(data()))),
        (CLARIFICATION_TEXTS, call("name", "{}", Outcome::Unapproved(long_clarification()))),
        (1, ended(ToolResult::error(long()))),
        (2, ended(ToolResult::error(long()).with_instruction(long()))),
        (1, ended(data())),
        (2, ended(ToolResult::data(json!({long(): [[long()]]})))),
        (size_of::<serde_json::Value>(), ended(ToolResult::data(json!(vec![0; LONG])))),
        (CLARIFICATION_TEXTS, ended(ToolResult::clarification(long_clarification()))),
        (2, ended(ToolResult { for_user: vec![long(), long()], ..plain() })),
        (6, ended(ToolResult { artifacts: vec![long_file()], ..plain() })),
    ] {
        check_texts(texts, &calls(call));
    }
}

#[test]
fn everything_that_a_user_is_asked_is_counted() {
    let question = |continuation| Question {
        clarification_id: long(),
        call_id: long(),
        tool_name: long(),
        source: Source { name: long().into(), ..Source::default() },
        clarification: long_clarification(),
        arguments: Some(Arguments::parse(&json!({"a": long()}).to_string()).unwrap()),
        continuation,
    };
    for (texts, continuation) in [
        (0, Continuation::Model),
        (0, Continuation::Open),
        (1, Continuation::Approval { definition: long() }),
        (2, Continuation::Again { state: json!({long(): long()}) }),
    ] {
        let questions = vec![question(continuation)];
        let asks = Turn { questions, ..turn(0, Vec::new()) };
        check_texts(5 + CLARIFICATION_TEXTS + texts, &asks);
    }
}

#[test]
fn everything_that_a_user_says_is_counted() {
    let option = long_clarification().options.remove(0);
    for (texts, given) in [
        (4, Given::Option(option)),
        (1, Given::Text(long())),
        (1, Given::Refused(Some(long()))),
        (2, Given::Content(json!({long(): long()}))),
        (0, Given::Approved { for_session: true }),
        (0, Given::Declined),
    ] {
        let answer = Answer {
            clarification_id: long(),
            question: long(),
            given,
            not_chosen: vec![long(), long()],
            beside: Some(long()),
        };
        let answer = Some(Box::new(answer));
        check_texts(5 + texts, &Turn { answer, ..turn(0, Vec::new()) });
    }
    let images = vec![PlacedImage { at: 0, file: long_file() }];
    for (texts, turn) in [
        (1, Turn { turn_id: long(), ..turn(0, Vec::new()) }),
        (1, Turn { prompt: long(), ..turn(0, Vec::new()) }),
        (1, Turn { dropped: Some(long()), ..turn(0, Vec::new()) }),
        (2, Turn { continued: vec![long(), long()], ..turn(0, Vec::new()) }),
        (6, Turn { images, ..turn(0, Vec::new()) }),
    ] {
        check_texts(texts, &turn);
    }
}

/// A turn that was read from a store shares no calls with its steps.
#[test]
fn calls_that_wait_for_an_answer_are_counted() {
    let arguments = json!({"a": long()}).to_string();
    let waits = call("name", &arguments, Outcome::Cancelled);
    let turn = Turn { deferred: vec![Arc::new(waits)], ..turn(0, Vec::new()) };
    check_texts(1, &turn);
    let mut conversation = Conversation::default();
    conversation.push(turn);
    let written = serde_json::to_string(&conversation).unwrap();
    let read: Conversation = serde_json::from_str(&written).unwrap();
    check_texts(1, read.turns().next().unwrap());
    assert!(read.bytes() > LONG);
}

/// The user is asked whether a tool may run, as it is defined, and approves it for the whole session.
fn approve(conversation: &mut Conversation, tool_name: &str, definition: &str) {
    let question = Question {
        clarification_id: "t.1".to_owned(),
        call_id: "call_1".to_owned(),
        tool_name: tool_name.to_owned(),
        source: Source::default(),
        clarification: Clarification::default(),
        arguments: None,
        continuation: Continuation::Approval { definition: definition.to_owned() },
    };
    let ending = Some(Ending::Completed(TurnFinish::ClarificationNeeded));
    conversation.push(Turn { questions: vec![question], ending, ..turn(0, Vec::new()) });
    let given = Given::Approved { for_session: true };
    let (clarification_id, question) = ("t.1".to_owned(), String::new());
    let answer = Answer { clarification_id, question, given, not_chosen: Vec::new(), beside: None };
    conversation.push(Turn { answer: Some(Box::new(answer)), ..turn(1, Vec::new()) });
}

fn approvals(conversation: &Conversation) -> Vec<(&str, &str)> {
    let approvals = conversation.approvals().iter();
    approvals.map(|approval| (&*approval.tool_name, &*approval.definition)).collect()
}

#[test]
fn the_approval_of_a_changed_tool_takes_the_place_of_the_earlier_one() {
    let mut conversation = Conversation::default();
    for (tool, definition) in [("a", "D1"), ("b", "D1"), ("a", "D2")] {
        approve(&mut conversation, tool, definition);
    }
    assert_eq!(approvals(&conversation), [("b", "D1"), ("a", "D2")]);
}

#[test]
fn as_many_approvals_as_may_be_and_one_more() {
    let names: Vec<String> = (0..=limits::APPROVALS_MAX).map(|at| format!("tool_{at}")).collect();
    let (last, most) = names.split_last().unwrap();
    let mut conversation = Conversation::default();
    for name in most {
        approve(&mut conversation, name, "D");
    }
    let kept = |conversation: &Conversation| -> Vec<String> {
        conversation.approvals().iter().map(|approval| approval.tool_name.clone()).collect()
    };
    assert_eq!(kept(&conversation), most);
    approve(&mut conversation, last, "D");
    assert_eq!(kept(&conversation), names[1..], "the oldest is gone");
}
