//! Calls that repeat themselves: found by their arguments and their results.
//!
//! A model that goes in circles makes the same call again and learns nothing. A
//! model that polls does so, too, and learns something. So a call is taken for a
//! repetition only when it has brought the same result twice, and a call that changes
//! the world already when it has succeeded once: nobody wants the message sent again.

use serde_json::Value;

use crate::limits::turn::{REPEATS_ASKED_MAX, SAME_RESULTS_MAX};
use crate::tools::ToolResult;

/// What the turn's calls brought.
#[derive(Debug, Default)]
pub(super) struct Repeats(Vec<Seen>);

#[derive(Debug)]
struct Seen {
    name: String,
    arguments: Value,
    result: ToolResult,
    /// How often in a row it brought that result, and how often it was asked for
    /// since it did so first.
    same: u32,
    asked: u32,
}

/// What a repeated call comes to.
#[derive(Debug, PartialEq)]
pub(super) struct Repeated {
    /// What it brought before.
    pub(super) result: ToolResult,
    /// Whether the model will not be brought off it.
    pub(super) is_hopeless: bool,
}

impl Repeats {
    /// Whether a call that is about to run is a repetition.
    pub(super) fn ask(&mut self, name: &str, arguments: &Value, mutates: bool) -> Option<Repeated> {
        let seen = self.find(name, arguments)?;
        let is_done = mutates && seen.result.success;
        if seen.same < SAME_RESULTS_MAX && !is_done {
            return None;
        }
        seen.asked += 1;
        let is_hopeless = seen.asked >= REPEATS_ASKED_MAX;
        Some(Repeated { result: seen.result.clone(), is_hopeless })
    }

    /// Notes that a call was made again, and not run.
    pub(super) fn note_again(&mut self, name: &str, arguments: &Value) {
        if let Some(seen) = self.find(name, arguments) {
            seen.asked += 1;
        }
    }

    /// Notes what a call brought.
    pub(super) fn note(&mut self, name: &str, arguments: Value, result: &ToolResult) {
        match self.find(name, &arguments) {
            Some(seen) if seen.result == *result => {
                seen.same += 1;
                seen.asked += 1;
            }
            Some(seen) => {
                seen.result = result.clone();
                (seen.same, seen.asked) = (1, 1);
            }
            None => self.0.push(Seen {
                name: name.to_owned(),
                arguments,
                result: result.clone(),
                same: 1,
                asked: 1,
            }),
        }
    }

    fn find(&mut self, name: &str, arguments: &Value) -> Option<&mut Seen> {
        self.0.iter_mut().find(|seen| seen.name == name && is_same(&seen.arguments, arguments))
    }
}

/// Whether two arguments are the same to a tool: `1` and `1.0` are one number.
pub(super) fn is_same(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Number(one), Value::Number(other)) => {
            // Not of two integers: large ids would be the same as floats.
            let as_floats = (one.is_f64() || other.is_f64()) && one.as_f64() == other.as_f64();
            one == other || as_floats
        }
        (Value::Array(one), Value::Array(other)) => {
            one.len() == other.len()
                && one.iter().zip(other).all(|(one, other)| is_same(one, other))
        }
        (Value::Object(one), Value::Object(other)) => {
            let has = |(key, value)| other.get(key).is_some_and(|other| is_same(value, other));
            one.len() == other.len() && one.iter().all(has)
        }
        (one, other) => one == other,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn result(n: u32) -> ToolResult {
        ToolResult::data(json!(n))
    }

    /// Asks for a call; where it may run, it brings `brings`.
    fn ask(repeats: &mut Repeats, arguments: &Value, brings: u32) -> Option<bool> {
        let repeated = repeats.ask("look", arguments, false);
        if repeated.is_none() {
            repeats.note("look", arguments.clone(), &result(brings));
        }
        repeated.map(|repeated| repeated.is_hopeless)
    }

    #[test]
    fn a_call_that_brought_the_same_twice_is_told_and_the_fourth_is_hopeless() {
        let mut repeats = Repeats::default();
        let asked = [0; 4].map(|_| ask(&mut repeats, &json!({ "a": 1, "b": 2 }), 7));
        assert_eq!(asked, [None, None, Some(false), Some(true)]);
        let again = repeats.ask("look", &json!({ "b": 2, "a": 1 }), false).unwrap();
        assert_eq!(again.result, result(7), "in whatever order the keys stand");
    }

    #[test]
    fn other_arguments_or_other_results_are_no_loop() {
        let mut repeats = Repeats::default();
        for n in 0..10 {
            assert_eq!(ask(&mut repeats, &json!({ "page": n }), 7), None);
            assert_eq!(ask(&mut repeats, &json!({ "job": 1 }), n), None);
        }
    }

    #[test]
    fn what_has_changed_the_world_does_so_once() {
        let mut repeats = Repeats::default();
        let arguments = json!({ "to": "john" });
        assert_eq!(repeats.ask("send", &arguments, true), None);
        repeats.note("send", arguments.clone(), &ToolResult::error("no network"));
        assert_eq!(repeats.ask("send", &arguments, true), None, "it has not happened yet");
        repeats.note("send", arguments.clone(), &result(1));
        let hopeless = |repeats: &mut Repeats| {
            repeats.ask("send", &arguments, true).map(|repeated| repeated.is_hopeless)
        };
        assert_eq!([0; 3].map(|_| hopeless(&mut repeats)), [Some(false), Some(false), Some(true)]);
    }
}
