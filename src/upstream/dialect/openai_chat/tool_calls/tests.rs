use proptest::prelude::*;
use serde_json::{Value, json};

use serde_json::value::RawValue;

use super::*;
use crate::limits::upstream::{NATIVE_CALL_BYTES_MAX, NATIVE_CALLS_MAX};

/// The calls that come out, and what is reported of their arguments on the way.
#[derive(Debug, Default)]
struct Heard {
    arguments: Vec<String>,
    calls: Vec<(String, String)>,
}

impl Heard {
    fn take(&mut self, delta: Delta<'_>) {
        match delta {
            Delta::CallStarted { index } => {
                assert_eq!(index as usize, self.arguments.len());
                self.arguments.push(String::new());
            }
            Delta::CallArguments { index, json } => {
                assert!(index as usize >= self.calls.len(), "it is not whole yet");
                self.arguments[index as usize].push_str(json);
            }
            Delta::CallCompleted { index, name, arguments } => {
                assert_eq!(index as usize, self.calls.len(), "in their order");
                assert_eq!(self.arguments[index as usize], arguments);
                self.calls.push((name.to_owned(), arguments.to_owned()));
            }
            other => panic!("{other:?}"),
        }
    }
}

fn read(piece: &Value) -> Piece {
    Piece::read(&RawValue::from_string(piece.to_string()).unwrap()).unwrap()
}

fn assemble(pieces: &[Value]) -> Result<Vec<(String, String)>, FrameError> {
    let (mut assembler, mut heard) = (Assembler::default(), Heard::default());
    for piece in pieces {
        assembler.push(&read(piece), |delta| heard.take(delta))?;
    }
    assembler.finish(|delta| heard.take(delta));
    assert_eq!(heard.calls.len(), heard.arguments.len());
    Ok(heard.calls)
}

#[track_caller]
fn check(pieces: &Value, expected: &[(&str, &str)]) {
    let owned = |(name, arguments): &(&str, &str)| ((*name).to_owned(), (*arguments).to_owned());
    let expected: Vec<_> = expected.iter().map(owned).collect();
    assert_eq!(assemble(pieces.as_array().unwrap()).unwrap(), expected, "{pieces}");
}

#[test]
fn the_standards_form() {
    check(
        &json!([
            {"index": 0, "id": "a", "type": "function", "function": {"name": "f", "arguments": ""}},
            {"index": 0, "function": {"arguments": "{\"x\""}},
            {"index": 0, "function": {"arguments": ":1}"}},
        ]),
        &[("f", "{\"x\":1}")],
    );
    check(&json!([]), &[]);
}

/// As older versions of vLLM stream a call that was asked for by name.
#[test]
fn a_name_after_the_whole_call_is_no_other_call() {
    for last in ["", "\n"] {
        check(
            &json!([
                {"index": 0, "function": {"name": "f", "arguments": "{\"x\""}},
                {"index": 0, "function": {"name": "f", "arguments": ":1}"}},
                {"index": 0, "function": {"name": "f", "arguments": last}},
            ]),
            &[("f", "{\"x\":1}")],
        );
    }
    // But more arguments are another call's.
    for name in [json!({"name": "f"}), json!({})] {
        let mut more = json!({"index": 0, "function": name});
        more["function"]["arguments"] = "{\"x\":2}".into();
        check(
            &json!([
                {"index": 0, "function": {"name": "f", "arguments": "{\"x\":1}"}},
                {"index": 0, "function": {"name": "f", "arguments": ""}},
                more,
            ]),
            &[("f", "{\"x\":1}"), ("f", "{\"x\":2}")],
        );
    }
}

#[test]
fn parallel_calls_are_distinguished_by_index() {
    check(
        &json!([
            {"index": 0, "id": "a", "function": {"name": "f", "arguments": "{"}},
            {"index": 1, "id": "b", "function": {"name": "g", "arguments": "{"}},
            {"index": 0, "function": {"arguments": "}"}},
            {"index": 1, "function": {"arguments": "\"y\":2}"}},
        ]),
        &[("f", "{}"), ("g", "{\"y\":2}")],
    );
}

#[test]
fn several_calls_may_share_an_index() {
    check(
        &json!([
            {"index": 0, "id": "a", "function": {"name": "f", "arguments": "{}"}},
            {"index": 0, "id": "b", "function": {"name": "f", "arguments": "{"}},
            {"index": 0, "function": {"arguments": "}"}},
        ]),
        &[("f", "{}"), ("f", "{}")],
    );
}

#[test]
fn several_calls_may_share_an_id() {
    check(
        &json!([
            {"index": 0, "id": "a", "function": {"name": "f", "arguments": "{\"x\":1}"}},
            {"index": 1, "id": "a", "function": {"name": "f", "arguments": "{\"x\":1}"}},
            {"index": 2, "id": "a", "function": {"name": "g", "arguments": "{"}},
            {"index": 3, "id": "a", "function": {"name": "h", "arguments": "{"}},
            {"index": 2, "id": "a", "function": {"arguments": "}"}},
            {"index": 3, "id": "a", "function": {"arguments": "\"y\":2}"}},
        ]),
        &[("f", "{\"x\":1}"), ("f", "{\"x\":1}"), ("g", "{}"), ("h", "{\"y\":2}")],
    );
    // Without indexes, the arguments tell calls apart.
    check(
        &json!([
            {"id": "a", "function": {"name": "f", "arguments": "{\"x\":1}"}},
            {"id": "a", "function": {"name": "f", "arguments": "{\"x\":2}"}},
        ]),
        &[("f", "{\"x\":1}"), ("f", "{\"x\":2}")],
    );
}

#[test]
fn a_repetition_of_a_whole_call_is_not_a_call() {
    let f = json!({"index": 0, "id": "a", "function": {"name": "f", "arguments": "{\"x\":1}"}});
    let g = json!({"index": 1, "id": "b", "function": {"name": "g", "arguments": "{}"}});
    let once = [("f", "{\"x\":1}"), ("g", "{}")];
    check(&json!([f, f]), &once[..1]);
    check(&json!([f, f, g, g, f]), &once);
    // The whole list again at the end, when the first call may be running.
    check(&json!([f, g, f, g]), &once);
    let pieces = json!([
        {"index": 0, "id": "a", "function": {"name": "f", "arguments": ""}},
        {"index": 0, "function": {"arguments": "{\"x\":"}},
        {"index": 0, "function": {"arguments": "1}"}},
        g, f, g,
    ]);
    check(&pieces, &once);
    // With fewer members than before, or formatted differently.
    for again in [
        json!({"index": 0, "function": {"name": "f", "arguments": "{\"x\":1}"}}),
        json!({"id": "a", "function": {"name": "f", "arguments": "{\"x\":1}"}}),
        json!({"function": {"name": "f", "arguments": "{\"x\":1}"}}),
        json!({"index": 0, "function": {"arguments": "{\"x\":1}"}}),
        json!({"index": 0, "id": "a", "function": {"name": "f", "arguments": {"x": 1}}}),
        json!({"index": 0, "id": "a", "function": {"name": "f", "arguments": "{\"x\": 1}"}}),
        json!({"index": 0, "id": "a", "function": {"name": "f", "arguments": ""}}),
    ] {
        check(&json!([f, g, again]), &once);
    }
}

#[test]
fn pieces_after_a_finished_call_begin_another() {
    check(
        &json!([
            {"index": 0, "id": "a", "function": {"name": "f", "arguments": "{\"x\":1}"}},
            {"index": 1, "id": "b", "function": {"name": "g", "arguments": "{}"}},
            {"index": 0, "function": {"arguments": " \n"}},
            {"index": 0, "function": {"arguments": "{\"x\":2}"}},
        ]),
        &[("f", "{\"x\":1}"), ("g", "{}"), ("", "{\"x\":2}")],
    );
}

#[test]
fn an_empty_object_may_precede_the_arguments() {
    for name in ["f", ""] {
        for id in ["a", ""] {
            if id.is_empty() && !name.is_empty() {
                continue;
            }
            check(
                &json!([
                    {"index": 0, "id": "a", "function": {"name": "f", "arguments": "{}"}},
                    {"index": 0, "id": id, "function": {"name": name, "arguments": "{\"x\":"}},
                    {"index": 0, "id": id, "function": {"name": name, "arguments": "1}"}},
                ]),
                &[("f", "{\"x\":1}")],
            );
        }
    }
}

#[test]
fn ids_and_indexes_may_be_missing_or_another_type() {
    let first = "{\"x\":1}";
    let second = "{\"x\":2}";
    for (zero, one) in [
        (json!(0), json!(0)),
        (json!("0"), json!("1")),
        (json!(0.0), json!(1.0)),
        (json!(-1), json!(-1)),
        (json!(-1), json!(-2)),
        (json!(1), json!(2)),
        (json!(0), json!(null)),
        (json!(null), json!(null)),
        (json!([0]), json!({"i": 1})),
        (json!("first"), json!(1)),
    ] {
        check(
            &json!([
                {"index": zero, "function": {"name": "f", "arguments": first}},
                {"index": one, "function": {"name": "f", "arguments": second}},
            ]),
            &[("f", first), ("f", second)],
        );
        check(
            &json!([
                {"index": zero, "id": 7, "function": {"name": "f", "arguments": ""}},
                {"index": zero, "function": {"arguments": first}},
                {"index": one, "id": 8, "function": {"name": "g", "arguments": second}},
            ]),
            &[("f", first), ("g", second)],
        );
    }
    check(
        &json!([
            {"id": null, "function": {"name": "f", "arguments": "{"}},
            {"function": {"arguments": "}"}},
            {"function": {"name": "g", "arguments": {"x": 1}}},
        ]),
        &[("f", "{}"), ("g", "{\"x\":1}")],
    );
}

#[test]
fn names_come_in_pieces_or_again_and_again() {
    check(
        &json!([
            {"index": 0, "id": "a", "function": {"name": "get_"}},
            {"index": 0, "function": {"name": "time", "arguments": "{}"}},
        ]),
        &[("get_time", "{}")],
    );
    check(
        &json!([
            {"index": 0, "id": "a", "function": {"name": "f", "arguments": ""}},
            {"index": 0, "id": "a", "function": {"name": "f", "arguments": "{"}},
            {"index": 0, "id": "a", "function": {"name": "f", "arguments": "}"}},
        ]),
        &[("f", "{}")],
    );
}

#[test]
fn an_id_may_come_late() {
    check(
        &json!([
            {"index": 0, "function": {"name": "f"}},
            {"index": 0, "id": "a", "function": {"arguments": "{}"}},
        ]),
        &[("f", "{}")],
    );
}

#[test]
fn a_call_is_whole_as_soon_as_the_next_begins_and_nothing_can_be_added_to_it() {
    let piece = |index: u8, name: &str, arguments: &str| json!({"index": index, "function": {"name": name, "arguments": arguments}});
    for (first, whole) in [("{\"x\":1}", 1), ("{\"x\":", 0), ("{}", 0), ("", 0)] {
        let (mut assembler, mut heard) = (Assembler::default(), Heard::default());
        for json in [piece(0, "f", first), piece(1, "g", "")] {
            assembler.push(&read(&json), |delta| heard.take(delta)).unwrap();
        }
        assert_eq!(heard.calls.len(), whole, "{first}");
    }
}

/// It is up to the parser to report what is missing, and to the model to fix it.
#[test]
fn names_and_arguments_of_another_type_are_passed_on() {
    for (function, name, arguments) in [
        (json!({"name": ["f"], "arguments": "{}"}), "", "{}"),
        (json!({"name": "f", "arguments": 7}), "f", "7"),
        (json!({"name": "f", "arguments": [1, 2]}), "f", "[1,2]"),
        (json!({"name": "f", "arguments": true}), "f", "true"),
        (json!({"name": "f", "arguments": null}), "f", ""),
        (json!("f"), "", ""),
    ] {
        check(&json!([{"index": 0, "id": "a", "function": function}]), &[(name, arguments)]);
    }
}

#[test]
fn calls_are_bounded_in_number_and_size() {
    let calls = |count: usize| -> Vec<Value> {
        (0..count).map(|at| json!({"index": at, "id": at.to_string()})).collect()
    };
    assert_eq!(assemble(&calls(NATIVE_CALLS_MAX)).unwrap().len(), NATIVE_CALLS_MAX);
    assert!(assemble(&calls(NATIVE_CALLS_MAX + 1)).is_err());
    let sized = |bytes: usize| [json!({"function": {"arguments": "x".repeat(bytes)}})];
    assert!(assemble(&sized(NATIVE_CALL_BYTES_MAX)).is_ok());
    assert!(assemble(&sized(NATIVE_CALL_BYTES_MAX + 1)).is_err());
}

proptest! {
    /// However arguments are cut, and pieces of parallel calls interleaved.
    #[test]
    fn any_cut_assembles_to_the_same_calls(
        texts in prop::collection::vec("[a-z\u{e9}\u{1f9ee}\"\\\\ ]{0,12}", 1..5),
        cuts in prop::collection::vec((0_usize..5, 1_usize..4), 0..60),
    ) {
        let calls: Vec<_> = texts.iter().enumerate().map(|(at, text)| {
            (format!("f{at}"), json!({"x": text}).to_string())
        }).collect();
        let mut pieces: Vec<_> = calls.iter().enumerate().map(|(at, (name, _))| {
            let id = format!("id{at}");
            json!({"index": at, "id": id, "function": {"name": name, "arguments": ""}})
        }).collect();
        let mut rest: Vec<Vec<char>> =
            calls.iter().map(|(_, arguments)| arguments.chars().collect()).collect();
        let last = (0..calls.len()).map(|at| (at, usize::MAX));
        for (at, count) in cuts.into_iter().chain(last) {
            let Some(rest) = rest.get_mut(at) else { continue };
            let taken: String = rest.drain(..count.min(rest.len())).collect();
            pieces.push(json!({"index": at, "function": {"arguments": taken}}));
        }
        prop_assert_eq!(assemble(&pieces).unwrap(), calls);
    }
}
