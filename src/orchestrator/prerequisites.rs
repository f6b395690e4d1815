//! Prerequisites: a call fails, its error names another tool (`find it with find_contact`), and
//! that tool finds what was missing, or had already found it.
//!
//! Small models stop there and tell the user what they found, or call again with another made-up
//! value. Told to retry the call, and with which value, they carry on.
//!
//! Only a call that the model itself has made is suggested: any other might do something the user
//! never asked for. And a value is suggested only if it cannot belong to another call: it must be
//! for a single argument and come from the only lookup of its kind in the turn. A mutating call
//! never gets a choice of several values.

use serde_json::{Map, Value};

use crate::conversation::{Call, Found, Outcome, Retry, Step};
use crate::limits::turn::{RETRY_VALUE_BYTES_MAX, RETRY_VALUES_MAX};
use crate::text::{self, is_of_name};
use crate::tools::ToolResult;

/// The call to make again after `step`. `mutates` says whether a tool is mutating.
pub(super) fn call_to_retry(
    earlier: &[Step],
    step: &Step,
    mutates: impl Fn(&str) -> bool,
) -> Option<Retry> {
    let calls: Vec<&Call> = earlier.iter().chain([step]).flat_map(Step::calls).collect();
    let new = calls.len() - step.calls().count();
    let found: Vec<&Call> = calls.iter().copied().filter(|call| has_found(call)).collect();
    let found_now: Vec<&Call> = step.calls().filter(|call| has_found(call)).collect();

    let waiting = calls[..new].iter().rposition(|call| is_for_want_of(call, &found_now));
    let (at, since) = match waiting {
        Some(at) => (at, at),
        None => (new + calls[new..].iter().rposition(|call| is_for_want_of(call, &found))?, 0),
    };
    let call = calls[at];
    let has_succeeded = |other: &&Call| other.name == call.name && success(other).is_some();
    if calls[since..].iter().any(has_succeeded) {
        return None;
    }
    let argument = wrong_argument(call, &calls, mutates(&call.name));
    // A call that failed after the lookup has already seen its result: without a value there is
    // nothing new to tell.
    let is_worth_it = waiting.is_some() || argument.is_some();
    is_worth_it.then(|| Retry { tool: call.name.clone(), argument })
}

/// The one argument that the call got wrong: the lookup that the call's error names found other
/// values under its name. For a mutating call there must be exactly one value, and the lookup must
/// have searched for what the call said.
fn wrong_argument(call: &Call, calls: &[&Call], mutates: bool) -> Option<Found> {
    let Value::Object(arguments) = call.taken_arguments().to_value() else { return None };
    let mut named = calls.iter().filter(|other| is_for_want_of(call, &[**other]));
    let lookup = named.next()?;
    if named.any(|other| other.arguments.as_str() != lookup.arguments.as_str()) {
        return None;
    }
    let data = success(lookup)?.data.as_ref()?;
    let mut wrong = arguments.iter().filter_map(|(name, own)| {
        let mut values = Vec::new();
        push_values(&mut values, data, name);
        let values_max = if mutates { 1 } else { RETRY_VALUES_MAX };
        let can_be_told = (1..=values_max).contains(&values.len())
            && !values.contains(&own.to_string())
            && (!mutates || is_about(lookup, own));
        can_be_told.then(|| Found { name: name.clone(), values })
    });
    let (Some(argument), None) = (wrong.next(), wrong.next()) else { return None };
    Some(argument)
}

/// Whether a lookup searched for a value: `{"name": "Priya Raman"}` for `priya`.
fn is_about(lookup: &Call, value: &Value) -> bool {
    let Some(value) = value.as_str() else { return false };
    let (sought, value) = (lookup.arguments.as_str().to_lowercase(), value.to_lowercase());
    text::find_whole(&sought, &value, char::is_alphanumeric).next().is_some()
}

/// Adds the ids found under `key`, each once. Objects that have the key are not searched further:
/// an id inside would belong to a part.
fn push_values(values: &mut Vec<String>, data: &Value, key: &str) {
    match data {
        Value::Array(items) => items.iter().for_each(|item| push_values(values, item, key)),
        Value::Object(members) => push_member(values, members, key),
        _ => {}
    }
}

fn push_member(values: &mut Vec<String>, members: &Map<String, Value>, key: &str) {
    match members.get(key) {
        Some(value) => values.extend(id(value).filter(|id| !values.contains(id))),
        None => members.values().for_each(|value| push_values(values, value, key)),
    }
}

/// A value that could be an id, as JSON: a short word or a whole number.
fn id(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => {
            let is_word = !text.is_empty() && !text.contains(char::is_whitespace);
            (is_word && text.len() <= RETRY_VALUE_BYTES_MAX).then(|| value.to_string())
        }
        Value::Number(number) => (!number.is_f64()).then(|| value.to_string()),
        _ => None,
    }
}

/// The result of a successful call.
fn success(call: &Call) -> Option<&ToolResult> {
    match &call.outcome {
        // A call that succeeded without a run repeats another.
        Outcome::Ended(result) | Outcome::NotRun(result) if result.success => Some(result),
        _ => None,
    }
}

/// Whether a call succeeded with more than empty lists.
fn has_found(call: &Call) -> bool {
    success(call).is_some_and(|result| !result.data.as_ref().is_some_and(is_empty_list))
}

/// Whether this is an empty list, or an object whose lists are all empty.
fn is_empty_list(data: &Value) -> bool {
    match data {
        Value::Array(items) => items.is_empty(),
        Value::Object(members) => {
            let mut lists = members.values().filter_map(Value::as_array).peekable();
            lists.peek().is_some() && lists.all(Vec::is_empty)
        }
        _ => false,
    }
}

/// Whether a call failed with an error or instruction that names one of these tools.
fn is_for_want_of(call: &Call, others: &[&Call]) -> bool {
    let Outcome::Ended(result) = &call.outcome else { return false };
    let said = [&result.error, &result.instruction_for_ai];
    let names = |text: &str, tool: &str| text::find_whole(text, tool, is_of_name).next().is_some();
    // The name may be part of an argument that the error quotes.
    let is_quoted = |tool: &str| names(call.arguments.as_str(), tool);
    let says =
        |tool: &str| said.into_iter().flatten().any(|text| names(text, tool)) && !is_quoted(tool);
    !result.success && others.iter().any(|other| other.name != call.name && says(&other.name))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::json;

    use super::*;
    use crate::conversation::Part;
    use crate::parser::Arguments;
    use crate::tools::ToolResult;

    fn step(name: &str, result: ToolResult) -> Step {
        let call = Call {
            call_id: "call_1".to_owned(),
            name: name.to_owned(),
            arguments: Arguments::parse("{}").unwrap(),
            resolved_arguments: None,
            outcome: Outcome::Ended(result),
        };
        Step { parts: vec![Part::Call(Arc::new(call))], ..Step::default() }
    }

    fn lost(error: &str) -> Step {
        step("send_message", ToolResult::error(error))
    }

    fn found(name: &str) -> Step {
        step(name, ToolResult::data(json!({ "contact_id": "c_7" })))
    }

    #[track_caller]
    fn check(earlier: &[Step], last: &Step, expected: Option<&str>) {
        let retry = call_to_retry(earlier, last, |_| false);
        assert_eq!(retry.map(|retry| retry.tool).as_deref(), expected);
    }

    /// A call of `find_contact` for Priya.
    fn looked_up(data: Value) -> Step {
        let mut step = step("find_contact", ToolResult::data(data));
        set_arguments(&mut step, &json!({ "name": "Priya R." }));
        step
    }

    fn sent(arguments: &Value) -> Step {
        let mut step = lost("find it with find_contact");
        set_arguments(&mut step, arguments);
        step
    }

    fn set_arguments(step: &mut Step, arguments: &Value) {
        let Part::Call(call) = &mut step.parts[0] else { unreachable!() };
        Arc::get_mut(call).unwrap().arguments = Arguments::parse(&arguments.to_string()).unwrap();
    }

    /// Checks which value is suggested for a message sent `to` someone, if `find_contact` returns
    /// `data` before it or after it.
    #[track_caller]
    fn check_argument(to: &Value, data: Value, expected: Option<&[&str]>) {
        let sent = sent(&json!({ "text": "hello", "contact_id": to, "urgent": true }));
        check_values(&sent, &looked_up(data), false, expected);
    }

    #[track_caller]
    fn check_values(sent: &Step, found: &Step, mutates: bool, expected: Option<&[&str]>) {
        let expected = expected.map(|values| Found {
            name: "contact_id".to_owned(),
            values: values.iter().map(|&value| value.to_owned()).collect(),
        });
        let sent_first = call_to_retry(std::slice::from_ref(sent), found, |_| mutates).unwrap();
        assert_eq!(sent_first.argument, expected, "sent first");
        let found_first = call_to_retry(std::slice::from_ref(found), sent, |_| mutates);
        assert_eq!(found_first.and_then(|retry| retry.argument), expected, "found first");
    }

    #[test]
    fn values_found_for_an_argument_are_suggested() {
        let one = json!({ "matches": [{ "contact_id": "c_7", "name": "Priya Raman" }] });
        check_argument(&json!("Priya Raman"), one.clone(), Some(&["\"c_7\""]));
        check_argument(&json!("c_8"), one.clone(), Some(&["\"c_7\""]));
        check_argument(&json!(null), one.clone(), Some(&["\"c_7\""]));
        check_argument(&json!("c_7"), one, None);
        let two = json!([{ "contact_id": 7 }, { "contact_id": 8, "of": { "contact_id": 9 } }]);
        check_argument(&json!("7"), two.clone(), Some(&["7", "8"]));
        check_argument(&json!(8), two, None);
    }

    #[test]
    fn a_mutating_call_gets_the_one_value_looked_up_for_it() {
        let one = looked_up(json!({ "contact_id": "c_7" }));
        let to = |id: &str| sent(&json!({ "contact_id": id }));
        check_values(&to("priya"), &one, true, Some(&["\"c_7\""]));
        check_values(&to("Bob"), &one, true, None);
        check_values(&to("c_8"), &one, true, None);
        let two = looked_up(json!([{ "contact_id": "c_7" }, { "contact_id": "c_8" }]));
        check_values(&to("priya"), &two, true, None);
    }

    #[test]
    fn ambiguous_values_are_not_suggested() {
        let one = looked_up(json!({ "contact_id": "c_7", "text": "hi" }));
        check_values(&sent(&json!({ "contact_id": "c_8", "text": "ho" })), &one, false, None);
        let to_bob = sent(&json!({ "contact_id": "bob" }));
        let mut empty = looked_up(json!([]));
        set_arguments(&mut empty, &json!({ "name": "Bob" }));
        let retry = call_to_retry(&[one.clone(), empty], &to_bob, |_| false);
        assert_eq!(retry, None, "Ann was found, Bob was not");
        let retry = call_to_retry(&[one, found("send_message")], &to_bob, |_| false);
        assert_eq!(retry, None, "the one that was found has been used");
    }

    #[test]
    fn only_a_few_ids_are_suggested() {
        let ids = |count| (0..count).map(|n| json!({ "contact_id": format!("c_{n}") })).collect();
        let told: Vec<String> = (0..RETRY_VALUES_MAX).map(|n| format!("\"c_{n}\"")).collect();
        let told: Vec<&str> = told.iter().map(String::as_str).collect();
        check_argument(&json!("Priya"), ids(RETRY_VALUES_MAX), Some(&told));
        check_argument(&json!("Priya"), ids(RETRY_VALUES_MAX + 1), None);
        let long = "c".repeat(RETRY_VALUE_BYTES_MAX);
        let as_json = format!("\"{long}\"");
        check_argument(&json!("Priya"), json!({ "contact_id": long }), Some(&[&as_json]));
        for no_id in [json!(long + "c"), json!("c 7"), json!(""), json!(7.5), json!(true)] {
            check_argument(&json!("Priya"), json!({ "contact_id": no_id }), None);
        }
    }

    #[test]
    fn a_call_is_retried_once_the_tool_that_its_error_names_has_found_something() {
        let retry = Some("send_message");
        let steps =
            [lost("there is no such contact; find it with find_contact"), found("get_weather")];
        check(&steps[..1], &found("find_contact"), retry);
        check(&steps[..1], &found("get_weather"), None);
        check(&steps[..1], &step("find_contact", ToolResult::error("too many")), None);
        check(&steps, &found("find_contact"), retry);
        let hint = ToolResult::error("no").with_instruction("Call `find_contact` first.");
        check(&[step("send_message", hint)], &found("find_contact"), retry);
    }

    #[test]
    fn a_call_that_has_succeeded_since_is_not_retried() {
        let lost = lost("find it with find_contact");
        check(&[lost.clone(), found("send_message")], &found("find_contact"), None);
        check(&[lost], &found("send_message"), None);
    }

    #[test]
    fn an_empty_search_suggests_nothing() {
        for (data, expected) in [
            (json!([]), None),
            (json!({"total": 0, "matches": [], "hint": "Try fewer words."}), None),
            (json!({"matches": [{"contact_id": "c_7"}], "others": []}), Some("send_message")),
            (json!({"status": "ready"}), Some("send_message")),
        ] {
            let found = step("find_contact", ToolResult::data(data));
            check(&[lost("find it with find_contact")], &found, expected);
        }
    }

    #[test]
    fn a_lookup_that_was_made_before_counts() {
        let mut found = found("find_contact");
        let Part::Call(call) = &mut found.parts[0] else { unreachable!() };
        let call = Arc::get_mut(call).unwrap();
        let Outcome::Ended(result) = &call.outcome else { unreachable!() };
        call.outcome = Outcome::NotRun(result.clone());
        check(&[lost("find it with find_contact")], &found, Some("send_message"));
    }

    #[test]
    fn an_argument_that_an_error_quotes_names_no_tool() {
        let mut lost = lost("there is no zone called \"calculate\"");
        let Part::Call(call) = &mut lost.parts[0] else { unreachable!() };
        Arc::get_mut(call).unwrap().arguments =
            Arguments::parse("{\"timezone\": \"calculate\"}").unwrap();
        check(&[lost], &found("calculate"), None);
    }

    #[test]
    fn a_name_is_a_whole_word() {
        for error in ["see find_contacts", "see re-find_contact", "Find_contact", ""] {
            check(&[lost(error)], &found("find_contact"), None);
        }
    }
}
