//! A conversation is bounded in turns and in bytes; the oldest turns are dropped first.

use serde_json::json;

use super::*;

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

/// Everything in a turn adds to its size, at least as much as it takes as text.
#[test]
fn everything_in_a_turn_is_counted() {
    let empty = size::of_turn(&turn(0, Vec::new()));
    let call = |name: String, arguments: &str, outcome| {
        let arguments = Arguments::parse(arguments).unwrap();
        let (call_id, resolved_arguments) = ("call_1".to_owned(), None);
        let call = Call { call_id, name, arguments, resolved_arguments, outcome };
        Step { parts: vec![Part::Call(Arc::new(call))], ..Step::default() }
    };
    let ended = |result| call("name".to_owned(), "{}", Outcome::Ended(result));
    let long = || "x".repeat(1000);
    let option =
        json!({"id": long(), "title": long(), "subtitle": long(), "metadata": {"a": long()}});
    let question = json!({"type": long(), "question": long(), "options": [option]});
    let question = ToolResult::clarification(serde_json::from_value(question).unwrap());
    let note = Note { reason: FeedbackReason::ToolFailed, message: long() };
    let arguments = json!({"a": long()}).to_string();
    for (bytes, step) in [
        (1000, words(1000)),
        (1000, Step { notes: vec![note], ..Step::default() }),
        (1000, call(long(), "{}", Outcome::Cancelled)),
        (1000, call("name".to_owned(), &arguments, Outcome::Cancelled)),
        (1000, call("name".to_owned(), "{}", Outcome::Skipped(long()))),
        (1000, ended(ToolResult::error(long()))),
        (2000, ended(ToolResult::error(long()).with_instruction(long()))),
        (1000, ended(ToolResult::data(json!(long())))),
        (2000, ended(ToolResult::data(json!({long(): [[long()]]})))),
        (100 * size_of::<serde_json::Value>(), ended(ToolResult::data(json!(vec![0; 100])))),
        (6000, ended(question)),
    ] {
        let shown = format!("{step:?}");
        let counted = size::of_turn(&turn(0, vec![step])) - empty;
        assert!((bytes..bytes + 1500).contains(&counted), "{counted} for {bytes}: {shown}");
    }
}
