//! What a turn looks like, event by event.

use serde_json::{Value, json};

use super::event::Event;
use super::paint::Paint;
use super::screen::{Look, Piece, Screen};

/// A terminal with both outputs, without colours.
const TERMINAL: Look = Look {
    is_answer_shown: true,
    is_note_shown: true,
    can_erase: true,
    paint: Paint { is_on: false },
    columns: Some(80),
};

/// Both outputs go to files.
const FILES: Look = Look {
    is_answer_shown: false,
    is_note_shown: false,
    can_erase: false,
    columns: None,
    ..TERMINAL
};

/// The answer is read by a program, the notes by a person.
const PIPE: Look = Look { is_answer_shown: false, ..TERMINAL };

fn event(kind: &str, data: &Value) -> Event {
    let frame = json!({"type": kind, "data": data}).to_string();
    Event::parse(frame.as_bytes()).unwrap().expect("it is shown")
}

fn text(words: &str) -> Event {
    event("text_delta", &json!({ "text": words }))
}

/// The first text of the second round's message.
fn second_message(words: &str) -> Event {
    event("text_delta", &json!({ "loop": 2, "text": words }))
}

fn reasoning(words: &str) -> Event {
    event("reasoning_delta", &json!({ "text": words }))
}

fn started(id: &str, name: &str, arguments: &Value) -> Event {
    event(
        "tool_started",
        &json!({"call_id": id, "tool_name": name, "tool_args": arguments, "loop": 1}),
    )
}

fn completed(id: &str, name: &str, result: &Value) -> Event {
    let more = json!({"call_id": id, "tool_name": name, "tool_result": result, "duration_ms": 1234, "attempts": 1});
    event("tool_completed", &more)
}

fn data(data: &Value) -> Value {
    json!({"success": true, "data": data, "next_action": "continue"})
}

fn done(reason: &str) -> Event {
    event("turn_completed", &json!({"finish_reason": reason, "loops": 1, "tool_calls": 0}))
}

/// What is on standard output, and on standard error, after these events.
fn shown(look: Look, events: &[Event]) -> (String, String) {
    let mut screen = Screen::new(look);
    let (mut answer, mut notes) = (String::new(), String::new());
    for event in events {
        screen.event(event);
        for piece in screen.take() {
            match piece {
                Piece::Answer(text) => answer.push_str(&text),
                Piece::Note(text) => notes.push_str(&text),
            }
        }
    }
    (answer, notes)
}

/// Both outputs as they appear on one terminal, with erased lines taken out.
fn on_screen(events: &[Event]) -> String {
    let mut screen = Screen::new(TERMINAL);
    let mut seen = String::new();
    for event in events {
        screen.event(event);
        for piece in screen.take() {
            let (Piece::Answer(text) | Piece::Note(text)) = piece;
            for (at, part) in text.split("\r\x1b[K").enumerate() {
                if at > 0 {
                    seen.truncate(seen.rfind('\n').map_or(0, |end| end + 1));
                }
                seen.push_str(part);
            }
        }
    }
    seen
}

#[test]
fn words_are_shown_as_they_come() {
    let events = [text("One "), text("two."), done("stop")];
    assert_eq!(on_screen(&events), "One two.\n");
    assert_eq!(shown(FILES, &events), ("One two.\n".to_owned(), String::new()));
}

#[test]
fn an_answer_that_ends_its_line_gets_no_other_end() {
    assert_eq!(shown(FILES, &[text("a\n"), done("stop")]).0, "a\n");
    assert_eq!(shown(FILES, &[done("stop")]).0, "");
}

#[test]
fn calls_are_shown_with_arguments_duration_and_outcome() {
    let events = [
        text("Let me see."),
        started("call_7", "look", &json!({"at": "x"})),
        completed("call_7", "look", &data(&json!({"found": 3}))),
        text("\n\nThree."),
        done("stop"),
    ];
    let expected =
        "Let me see.\n  → #1 look {\"at\":\"x\"}\n  ✓ #1 look 1.2 s {\"found\":3}\nThree.\n";
    assert_eq!(on_screen(&events), expected);
}

#[test]
fn calls_side_by_side_are_told_apart() {
    let events = [
        started("call_1", "look", &json!({})),
        started("call_2", "look", &json!({})),
        completed("call_2", "look", &data(&Value::Null)),
        completed(
            "call_1",
            "look",
            &json!({"success": false, "next_action": "error", "error": "it\nbroke"}),
        ),
        done("stop"),
    ];
    let expected = "  → #1 look\n  → #2 look\n  ✓ #2 look 1.2 s\n  ✗ #1 look 1.2 s it broke\n";
    assert_eq!(on_screen(&events), expected);
}

#[test]
fn long_arguments_are_cut_to_the_terminal_and_errors_are_not() {
    let long = "x".repeat(200);
    let failed = json!({"success": false, "next_action": "error", "error": long});
    let events = [
        started("c", "look", &json!({ "a": long })),
        completed("c", "look", &failed),
        done("stop"),
    ];
    let seen = on_screen(&events);
    let lines: Vec<&str> = seen.lines().collect();
    assert!(lines[0].ends_with("xxx…"), "{seen}");
    assert!(lines[0].chars().count() < 80, "{seen}");
    assert!(lines[1].ends_with(&long), "{seen}");
}

#[test]
fn files_and_texts_for_the_user_are_listed() {
    let result = data(&json!({
        "for_user": ["Open it\nsoon."],
        "artifacts": [{"id": "1", "kind": "image", "mime_type": "image/png", "name": "a.png", "url": "/api/v1/artifacts/1"}],
    }));
    let seen = on_screen(&[
        started("c", "draw", &json!({})),
        completed("c", "draw", &result),
        done("stop"),
    ]);
    let expected = "  → #1 draw\n  ✓ #1 draw 1.2 s\n    Open it\n    soon.\n    \
                    file: a.png (image/png) /api/v1/artifacts/1\n";
    assert_eq!(seen, expected);
}

/// Only the last line says what is going on, and nothing of it stays.
#[test]
fn the_ticker_says_what_is_going_on() {
    let mut screen = Screen::new(TERMINAL);
    let mut note = |event: Option<&Event>, now| {
        screen.tick(now);
        if let Some(event) = event {
            screen.event(event);
        }
        let pieces = screen.take();
        pieces
            .into_iter()
            .map(|piece| match piece {
                Piece::Note(text) => text,
                Piece::Answer(text) => panic!("an answer: {text}"),
            })
            .collect::<String>()
    };
    let begun = event(
        "turn_started",
        &json!({"session_id": "s", "turn_id": "t", "model": "m", "max_tool_loops": 1}),
    );
    assert_eq!(note(None, 0), "  … waiting for the gateway");
    assert_eq!(note(Some(&begun), 10), "\r\x1b[K  … waiting for m");
    assert_eq!(note(None, 900), "", "nothing new");
    assert_eq!(note(None, 3100), "\r\x1b[K  … waiting for m, 3 s");
    let marker = event("tool_marker_detected", &json!({"call_id": "c", "loop": 1}));
    assert_eq!(note(Some(&marker), 3200), "\r\x1b[K  … the model writes a call");
    let seen = note(Some(&started("c", "look", &json!({}))), 4000);
    assert_eq!(seen, "\r\x1b[K  → #1 look\n  … #1 look");
    let progress = json!({"call_id": "c", "tool_name": "look", "progress": 1.0, "total": 3.0, "message": "a\u{1b}[1m"});
    assert_eq!(
        note(Some(&event("tool_progress", &progress)), 6500),
        "\r\x1b[K  … #1 look 1/3 a[1m, 2 s"
    );
    let end = completed("c", "look", &data(&json!(1)));
    assert_eq!(note(Some(&end), 7000), "\r\x1b[K  ✓ #1 look 1.2 s 1\n  … waiting for m");
    assert_eq!(note(Some(&done("stop")), 7100), "\r\x1b[K");
}

#[test]
fn the_last_line_fits_a_terminal_that_was_made_narrower() {
    let mut screen = Screen::new(TERMINAL);
    let line = "  … waiting for the gateway";
    assert_eq!(screen.take(), [Piece::Note(line.to_owned())]);
    screen.resize(Some(12));
    assert_eq!(screen.take(), [Piece::Note(format!("\r\x1b[K{}", super::paint::fit(line, 11)))]);
}

#[test]
fn a_log_says_what_tools_report() {
    let report = |progress: f64| {
        let data = json!({"call_id": "c", "tool_name": "look", "progress": progress, "total": null, "message": "on"});
        event("tool_progress", &data)
    };
    let events =
        [started("c", "look", &json!({})), report(1.0), report(1.0), report(2.5), done("stop")];
    let expected = "  → #1 look\n  … #1 look 1 on\n  … #1 look 2.5 on\n";
    assert_eq!(shown(FILES, &events), (String::new(), expected.to_owned()));
}

#[test]
fn reasoning_is_no_part_of_the_answer() {
    let events = [reasoning("\nHm"), reasoning(", well."), text("Yes."), done("stop")];
    assert_eq!(shown(PIPE, &events).0, "Yes.\n");
    assert_eq!(on_screen(&events), "(reasoning) Hm, well.\nYes.\n");
    let colours = Look { paint: Paint { is_on: true }, ..PIPE };
    assert!(shown(colours, &events).1.contains("\u{1b}[2mHm\u{1b}[0m"));
}

#[test]
fn rounds_of_an_answer_in_a_pipe_are_lines() {
    let call = [started("c", "look", &json!({})), completed("c", "look", &data(&json!(1)))];
    let answer = |first: &str, second: &str| {
        let [start, end] = call.each_ref();
        let mut screen = Screen::new(FILES);
        let events = [&text(first), start, end, &second_message(second), &done("stop")];
        for event in events {
            screen.event(event);
        }
        let answers = screen.take().into_iter().filter_map(|piece| match piece {
            Piece::Answer(text) => Some(text),
            Piece::Note(_) => None,
        });
        answers.collect::<String>()
    };
    assert_eq!(answer("Let me see.", "Three."), "Let me see.\nThree.\n");
    assert_eq!(answer("Let me see.\n\n", "Three."), "Let me see.\n\nThree.\n");
    assert_eq!(answer("Let me see.", "\n\nThree."), "Let me see.\n\nThree.\n");
}

/// Eager tools run while the model is still writing.
#[test]
fn words_beside_a_running_call_belong_to_its_message() {
    let events = [
        text("Let me "),
        started("c", "look", &json!({})),
        text("see."),
        completed("c", "look", &data(&json!(1))),
        text(" All"),
        second_message("Three."),
        done("stop"),
    ];
    assert_eq!(shown(FILES, &events).0, "Let me see. All\nThree.\n");
}

/// A note says nothing about what the model wrote.
#[test]
fn a_note_does_not_break_the_answer_in_a_pipe() {
    let status = || event("status", &json!({"message": "still there"}));
    let events = [text("a"), status(), text("b"), reasoning("Hm."), text("c"), done("stop")];
    assert_eq!(shown(FILES, &[text("a"), status(), text("b"), done("stop")]).0, "ab\n");
    assert_eq!(shown(PIPE, &events).0, "abc\n");
    let limit = event("loop_limit_reached", &json!({"max_tool_loops": 1}));
    assert_eq!(shown(FILES, &[text("a"), limit, second_message("b"), done("stop")]).0, "a\nb\n");
}

/// A program gets the model's words as they are; a terminal is not to obey them.
#[test]
fn escape_sequences_do_not_reach_a_terminal() {
    let hostile = "a\u{1b}]0;b\u{7}\u{9b}2J\u{202e}c\r";
    let tool = "t\u{1b}[2J\u{202e}";
    let events = [
        text(hostile),
        reasoning(hostile),
        started("c", tool, &json!({ "a": hostile })),
        completed("c", tool, &data(&json!(hostile))),
        event("status", &json!({ "message": hostile })),
        event(
            "feedback",
            &json!({"call_id": null, "reason": "x\u{1b}c", "message": hostile, "attempt": 1}),
        ),
        event("acknowledgement", &json!({"text": hostile, "source": "hints"})),
        event("turn_failed", &json!({"code": "internal", "message": hostile, "retryable": true})),
    ];
    let seen = on_screen(&events);
    let obeyed = |char: char| {
        (char.is_control() && char != '\n') || ('\u{202a}'..='\u{202e}').contains(&char)
    };
    assert!(!seen.contains(obeyed), "{seen:?}");
    assert!(shown(PIPE, &events).0.starts_with(hostile));
}

#[test]
fn endings_are_told() {
    let failed = event(
        "turn_failed",
        &json!({"code": "internal", "message": "It broke.", "retryable": true}),
    );
    for (end, expected) in [
        (done("stop"), ""),
        (done("cancelled"), "cancelled\n"),
        (done("length"), "the answer ends here because the model has reached its token limit\n"),
        (failed, "error: It broke. (trying again may help)\n"),
    ] {
        assert_eq!(shown(FILES, &[text("Wel"), end]), ("Wel\n".to_owned(), expected.to_owned()));
    }
}

#[test]
fn an_acknowledgement_is_shown_once() {
    let said =
        |source: &str| event("acknowledgement", &json!({"text": "Looking.", "source": source}));
    assert_eq!(shown(FILES, &[said("model")]).1, "");
    assert_eq!(shown(FILES, &[said("hints")]).1, "Looking.\n");
}

#[test]
fn a_mistake_of_the_model_is_told_once() {
    let told = |reason: &str| {
        event(
            "feedback",
            &json!({"call_id": "c", "reason": reason, "message": "Not so.", "attempt": 1}),
        )
    };
    let expected = "  ! the model was corrected: invalid_arguments: Not so.\n";
    assert_eq!(shown(FILES, &[told("invalid_arguments")]).1, expected);
    assert_eq!(shown(FILES, &[told("tool_failed")]).1, "", "the call's own line says so");
}

#[test]
fn lines_are_cut_by_columns() {
    use super::paint::fit;
    for (line, columns, expected) in [
        ("abc", 3, "abc"),
        ("abcd", 3, "ab…"),
        ("日本語", 6, "日本語"),
        ("日本語", 5, "日本…"),
        ("日本語", 4, "日…"),
        ("", 0, ""),
        ("a", 0, "…"),
    ] {
        assert_eq!(fit(line, columns), expected, "{line} in {columns}");
    }
}
