//! Verdicts on whole tasks.

use serde_json::{Value, json};

use super::{Verdict, judge, repeated};
use crate::record::{Transcript, Turn, Written};
use crate::tasks::Wanted;

fn turn(events: &[(&str, Value)]) -> Turn {
    let mut turn = Turn::default();
    for (name, data) in events {
        turn.note(&json!({"type": name, "data": data}));
    }
    turn
}

fn call(id: &str, arguments: &Value, round: u64) -> [(&'static str, Value); 2] {
    let started =
        json!({"call_id": id, "tool_name": "look", "tool_args": arguments, "loop": round});
    let result = json!({"success": true, "data": arguments, "next_action": "continue"});
    [("tool_started", started), ("tool_completed", json!({"call_id": id, "tool_result": result}))]
}

fn text(text: &str) -> (&'static str, Value) {
    ("text_delta", json!({ "text": text }))
}

fn completed() -> (&'static str, Value) {
    ("turn_completed", json!({"finish_reason": "stop", "text": ""}))
}

fn calls(arguments: &[Value]) -> Wanted {
    let call = |arguments| json!({"name": "look", "arguments": arguments});
    let calls = arguments.iter().map(|arguments| serde_json::from_value(call(arguments)).unwrap());
    Wanted::Calls(calls.collect())
}

#[test]
fn calls_are_right_one_to_one_in_any_order() {
    let wanted = calls(&[json!({"n": [1, 2]}), json!({"n": [1]})]);
    let right = |events: &[[(&str, Value); 2]]| {
        judge(&wanted, &[turn(&events.concat())], &Transcript::default()).right
    };
    let (one, two) = (call("call_1", &json!({"n": 1}), 1), call("call_2", &json!({"n": 2}), 1));
    assert_eq!(right(&[one.clone(), two.clone()]), Some(true), "the first takes either");
    assert_eq!(right(&[two.clone(), one.clone()]), Some(true));
    assert_eq!(right(&[two.clone(), two.clone()]), Some(false), "none is left for the second");
    let third = call("call_3", &json!({"n": 1}), 1);
    assert_eq!(right(&[one.clone(), two, third]), Some(false), "one too many");
    let later = call("call_3", &json!({"n": 2}), 2);
    assert_eq!(right(&[one, later]), Some(false), "the first message counts");
}

#[test]
fn a_refused_call_makes_a_turn_invalid() {
    let wanted = calls(&[json!({})]);
    let valid =
        |events: &[(&str, Value)]| judge(&wanted, &[turn(events)], &Transcript::default()).valid;
    let mut events = call("call_1", &json!({}), 1).to_vec();
    assert_eq!(valid(&events), Some(true));
    events.push(("feedback", json!({"reason": "tool_failed"})));
    assert_eq!(valid(&events), Some(true), "the call was good");
    events.push(("feedback", json!({"reason": "invalid_arguments"})));
    assert_eq!(valid(&events), Some(false));
    assert_eq!(valid(&[text("Well.")]), Some(false));
}

#[test]
fn an_answer_is_judged_by_the_last_turn_and_calls_by_all() {
    let wanted = Wanted::Answer {
        calls: vec![
            serde_json::from_value(json!({"name": "look", "arguments": {"n": 1}})).unwrap(),
        ],
        answer: vec![vec!["grey".to_owned()]],
        choose: None,
    };
    let judge = |first: &[(&str, Value)], last: &[(&str, Value)]| {
        let Verdict { right, answered, .. } =
            judge(&wanted, &[turn(first), turn(last)], &Transcript::default());
        (right, answered)
    };
    let looked = call("call_1", &json!({"n": 1}), 1);
    let said = [text("It is grey."), completed()];
    assert_eq!(judge(&looked, &said), (Some(true), Some(true)));
    assert_eq!(judge(&said, &looked), (Some(true), Some(false)));
    assert_eq!(judge(&[], &said), (Some(false), Some(true)));
    assert_eq!(judge(&looked, &said[..1]), (Some(true), Some(false)), "it did not complete");
    let echo = [text("`sky` (call_1) returned: grey"), completed()];
    assert_eq!(judge(&looked, &echo), (Some(true), Some(false)), "that is no answer");
}

#[test]
fn an_answer_composed_by_the_gateway_is_distinguished() {
    let wanted = |word: &str| Wanted::Answer {
        calls: Vec::new(),
        answer: vec![vec![word.to_owned()]],
        choose: None,
    };
    let said = [turn(&[text("sky: grey"), completed()])];
    let composed = |word: &str, is_composed: bool| {
        judge(&wanted(word), &said, &Transcript { is_composed, ..Transcript::default() }).composed
    };
    assert_eq!(composed("grey", true), Some(true));
    assert_eq!(composed("grey", false), Some(false));
    assert_eq!(composed("blue", true), Some(false), "it does not answer");
}

#[test]
fn every_attempt_is_a_false_call() {
    let judge = |events: &[(&str, Value)]| {
        let Verdict { false_call, answered, .. } =
            judge(&Wanted::NoCall, &[turn(events)], &Transcript::default());
        (false_call, answered)
    };
    assert_eq!(judge(&[text("Hello."), completed()]), (Some(false), Some(true)));
    assert_eq!(judge(&[text(" "), completed()]), (Some(false), Some(false)));
    assert_eq!(judge(&[("tool_marker_detected", json!({}))]), (Some(true), Some(false)));
    let refused = ("feedback", json!({"reason": "malformed_call"}));
    assert_eq!(judge(&[refused, text("Hello."), completed()]), (Some(true), Some(true)));
}

#[test]
fn repeated_calls_are_counted_run_or_not() {
    let written = |n: f64| Written { name: "look".to_owned(), arguments: json!({ "n": n }) };
    assert_eq!(repeated(&[written(1.0), written(2.0), written(1.0), written(1.0)]), 2);
    assert_eq!(repeated(&[]), 0);
}

#[test]
fn a_shown_result_is_echoed_after_a_real_one_and_invented_before() {
    let shown = |turns: &[Turn]| {
        let Verdict { echoed, invented, .. } =
            judge(&Wanted::NoCall, turns, &Transcript::default());
        (echoed, invented)
    };
    let looked = call("call_1", &json!({"n": 1}), 1);
    let block = [text("`sky` (call_1) returned:")];
    let then = |first: &[(&str, Value)], last: &[(&str, Value)]| turn(&[first, last].concat());
    assert_eq!(shown(&[turn(&looked)]), (false, false));
    assert_eq!(shown(&[then(&looked, &block)]), (true, false));
    assert_eq!(shown(&[then(&block, &looked)]), (false, true));
    let refused = [("feedback", json!({"reason": "tool_not_found"}))];
    assert_eq!(shown(&[then(&refused, &block)]), (true, false), "told of as a result");
    assert_eq!(shown(&[turn(&looked), turn(&[text("{\"n\": 1}")])]), (true, false));
    assert_eq!(shown(&[turn(&[text("{\"n\": 1}")]), turn(&looked)]), (false, true));
    let end =
        ("turn_completed", json!({"finish_reason": "stop", "text": "`sky` (call_1) returned:"}));
    assert_eq!(shown(&[then(&looked, &[text("Well."), end])]), (true, false), "in the last event");
}
