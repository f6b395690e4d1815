//! Calls that repeat an earlier one: same tool, same arguments.
//!
//! A call that has succeeded is not run again in its turn. A model that goes in circles learns
//! nothing from another result, and a clock never returns the same one twice. Nor may a message be
//! sent twice, not even if it is not known whether it was sent. There are two exceptions. A read runs
//! again once something may have changed since, and a tool whose policy says `repeatable`, such as one
//! that polls a job, always runs.
//!
//! Calls that differ in their arguments are never repeats.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use serde_json::{Map, Value};

use crate::limits::turn::REPEATS_MAX;
use crate::tools::{Policy, ToolResult};

/// The calls of a turn that have succeeded, or may have.
#[derive(Debug, Default)]
pub(super) struct Repeats {
    done: Vec<Done>,
    /// How many calls may have changed something so far.
    changes: usize,
    /// How many messages so far repeated a call of an earlier message.
    messages: u32,
    /// The round that wrote the last of them.
    last_round: Option<u32>,
}

#[derive(Debug)]
struct Done {
    name: String,
    arguments: Value,
    result: ToolResult,
    /// The round that wrote the call; `None` if it was in an earlier turn.
    round: Option<u32>,
    /// How many changes had been made when its result came in.
    changes: usize,
}

/// What a repeated call gets instead of a run.
#[derive(Debug, PartialEq)]
pub(super) struct Repeated {
    /// The earlier result.
    pub(super) result: ToolResult,
    /// Whether the model has repeated itself before and has to answer now.
    pub(super) is_last: bool,
}

impl Repeats {
    /// The earlier result, if a call of this round that is about to run repeats another.
    pub(super) fn check(
        &mut self,
        name: &str,
        arguments: &Value,
        policy: Policy,
        round: u32,
    ) -> Option<Repeated> {
        if policy.repeatable {
            return None;
        }
        let is_current = |done: &&Done| policy.mutates || done.changes == self.changes;
        let done =
            self.done.iter().rev().find(|done| done.is(name, arguments)).filter(is_current)?;
        // The same call twice in one message is a slip; in two messages it is a loop.
        if done.round != Some(round) && self.last_round.replace(round) != Some(round) {
            self.messages += 1;
        }
        Some(Repeated { result: done.result.clone(), is_last: self.messages >= REPEATS_MAX })
    }

    /// How many messages so far repeated a call of an earlier message.
    pub(super) const fn messages(&self) -> u32 {
        self.messages
    }

    /// The turn was interrupted after this many messages that repeated a call.
    pub(super) const fn resume(&mut self, messages: u32) {
        self.messages = messages;
    }

    /// Notes what a call returned. `round` is `None` if an earlier turn ran it.
    pub(super) fn note(
        &mut self,
        name: &str,
        arguments: Value,
        policy: Policy,
        result: &ToolResult,
        round: Option<u32>,
    ) {
        // One that has failed may have done a part of its work.
        self.changes += usize::from(policy.mutates);
        if result.success || result.uncertain {
            let (name, result, changes) = (name.to_owned(), result.clone(), self.changes);
            self.done.push(Done { name, arguments, result, round, changes });
        }
    }
}

impl Done {
    fn is(&self, name: &str, arguments: &Value) -> bool {
        self.name == name && is_same(&self.arguments, arguments)
    }
}

/// A number that is the same for arguments that are the same ([`is_same`]), and seldom for others.
/// Comparing it spares most comparisons of arguments.
pub(super) fn fingerprint(value: &Value) -> u64 {
    let mut hasher = DefaultHasher::new();
    match value {
        Value::Null => {}
        Value::Bool(truth) => truth.hash(&mut hasher),
        // Equal numbers are equal as floats, but 0.0 and -0.0 have different bits.
        Value::Number(number) => {
            let float = number.as_f64().filter(|float| *float != 0.0).unwrap_or_default();
            float.to_bits().hash(&mut hasher);
        }
        Value::String(text) => text.hash(&mut hasher),
        Value::Array(items) => {
            items.len().hash(&mut hasher);
            for item in items {
                fingerprint(item).hash(&mut hasher);
            }
        }
        Value::Object(members) => members_fingerprint(members).hash(&mut hasher),
    }
    hasher.finish()
}

/// The same for the members of an object, whose order does not count.
fn members_fingerprint(members: &Map<String, Value>) -> u64 {
    let of_member = |(key, value): (&String, &Value)| {
        let mut hasher = DefaultHasher::new();
        (key, fingerprint(value)).hash(&mut hasher);
        hasher.finish()
    };
    members.iter().map(of_member).fold(0, u64::wrapping_add)
}

/// Whether two arguments are equal to a tool: `1` and `1.0` are the same number.
pub(super) fn is_same(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Number(one), Value::Number(other)) => {
            // Never compare two integers as floats: large ids would become equal.
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

    const READS: Policy = Policy::NONE;
    const WRITES: Policy = Policy { mutates: true, ..Policy::NONE };
    const POLLS: Policy = Policy { repeatable: true, ..Policy::NONE };

    /// Calls a tool in a round; if it runs, it returns `n`. Returns what a repeat gets.
    fn call(
        repeats: &mut Repeats,
        (name, policy): (&str, Policy),
        arguments: &Value,
        round: u32,
        n: u32,
    ) -> Option<Repeated> {
        let repeated = repeats.check(name, arguments, policy, round);
        if repeated.is_none() {
            let result = ToolResult::data(json!(n));
            repeats.note(name, arguments.clone(), policy, &result, Some(round));
        }
        repeated
    }

    fn told(n: u32, is_last: bool) -> Repeated {
        Repeated { result: ToolResult::data(json!(n)), is_last }
    }

    #[test]
    fn a_repeat_gets_the_earlier_result_and_the_second_is_the_last() {
        let mut repeats = Repeats::default();
        let look = ("look", READS);
        assert_eq!(call(&mut repeats, look, &json!({ "a": 1, "b": 2 }), 1, 7), None);
        assert_eq!(
            call(&mut repeats, look, &json!({ "b": 2.0, "a": 1 }), 2, 8),
            Some(told(7, false))
        );
        assert_eq!(call(&mut repeats, look, &json!({ "a": 1, "b": 2 }), 3, 8), Some(told(7, true)));
    }

    #[test]
    fn repeats_of_different_calls_count_together() {
        let mut repeats = Repeats::default();
        for tool in ["look", "read"] {
            assert_eq!(call(&mut repeats, (tool, READS), &json!({}), 1, 7), None);
        }
        assert_eq!(call(&mut repeats, ("look", READS), &json!({}), 2, 8), Some(told(7, false)));
        assert_eq!(call(&mut repeats, ("read", READS), &json!({}), 3, 8), Some(told(7, true)));
    }

    #[test]
    fn several_repeats_in_one_message_count_once_and_inside_it_not_at_all() {
        let mut repeats = Repeats::default();
        assert_eq!(call(&mut repeats, ("look", READS), &json!({}), 1, 7), None);
        for _ in 0..3 {
            assert_eq!(call(&mut repeats, ("look", READS), &json!({}), 1, 8), Some(told(7, false)));
        }
        for _ in 0..3 {
            assert_eq!(call(&mut repeats, ("look", READS), &json!({}), 2, 8), Some(told(7, false)));
        }
        assert_eq!(call(&mut repeats, ("look", READS), &json!({}), 3, 8), Some(told(7, true)));
    }

    #[test]
    fn numbers_are_equal_whatever_way_they_are_written_but_close_is_not_equal() {
        let large = 1_i64 << 53;
        for (one, other, same) in [
            (json!(1), json!(1.0), true),
            (json!(1.5), json!(1.5), true),
            (json!(0), json!(-0.0), true),
            (json!({ "a": [1], "b": "x" }), json!({ "b": "x", "a": [1.0] }), true),
            (json!({ "a": 1, "b": 2 }), json!({ "a": 2, "b": 1 }), false),
            (json!([1]), json!([1, 2]), false),
            (json!(1.5), json!(2.5), false),
            (json!(1), json!(1.5), false),
            (json!(large), json!(large + 1), false),
        ] {
            assert_eq!(is_same(&one, &other), same, "{one} and {other}");
            assert_eq!(is_same(&other, &one), same, "{other} and {one}");
            assert!(!same || fingerprint(&one) == fingerprint(&other), "{one} and {other}");
        }
    }

    #[test]
    fn other_arguments_and_failed_calls_are_not_repeats() {
        let mut repeats = Repeats::default();
        for page in 0..10 {
            assert_eq!(
                call(&mut repeats, ("look", READS), &json!({ "page": page }), page, 7),
                None
            );
        }
        repeats.note("send", json!({}), WRITES, &ToolResult::error("no network"), Some(11));
        assert_eq!(repeats.check("send", &json!({}), WRITES, 12), None);
    }

    #[test]
    fn a_write_that_may_have_worked_is_not_run_again() {
        let mut repeats = Repeats::default();
        let error = ToolResult::error("it did not answer; it may or may not have taken effect");
        let error = error.but_uncertain();
        repeats.note("send", json!({ "to": "a" }), WRITES, &error, Some(1));
        let repeated = Some(Repeated { result: error, is_last: false });
        assert_eq!(repeats.check("send", &json!({ "to": "a" }), WRITES, 2), repeated);
        assert_eq!(repeats.check("send", &json!({ "to": "b" }), WRITES, 2), None);
    }

    #[test]
    fn a_read_is_run_again_after_a_write_that_has_failed() {
        let error = ToolResult::error("no network");
        for error in [error.clone(), error.but_uncertain()] {
            let mut repeats = Repeats::default();
            assert_eq!(call(&mut repeats, ("list", READS), &json!({}), 1, 1), None);
            repeats.note("add", json!({}), WRITES, &error, Some(2));
            assert_eq!(repeats.check("list", &json!({}), READS, 3), None);
        }
    }

    #[test]
    fn a_read_is_run_again_after_a_write_and_a_write_is_not() {
        let mut repeats = Repeats::default();
        let (list, add) = (("list", READS), ("add", WRITES));
        assert_eq!(call(&mut repeats, list, &json!({}), 1, 1), None);
        assert_eq!(call(&mut repeats, add, &json!({ "item": "tea" }), 2, 2), None);
        assert_eq!(call(&mut repeats, list, &json!({}), 3, 3), None);
        assert_eq!(call(&mut repeats, list, &json!({}), 4, 4), Some(told(3, false)));
        assert_eq!(call(&mut repeats, add, &json!({ "item": "rice" }), 5, 5), None);
        assert_eq!(call(&mut repeats, add, &json!({ "item": "tea" }), 6, 6), Some(told(2, true)));
    }

    #[test]
    fn a_tool_that_polls_is_always_run() {
        let mut repeats = Repeats::default();
        for round in 1..10 {
            assert_eq!(call(&mut repeats, ("poll", POLLS), &json!({}), round, 7), None);
        }
    }

    #[test]
    fn a_call_of_an_earlier_turn_counts_as_made() {
        let mut repeats = Repeats::default();
        repeats.note("send", json!({}), WRITES, &ToolResult::data(json!(7)), None);
        assert_eq!(call(&mut repeats, ("send", WRITES), &json!({}), 1, 8), Some(told(7, false)));
        assert_eq!(call(&mut repeats, ("send", WRITES), &json!({}), 2, 8), Some(told(7, true)));
    }
}
