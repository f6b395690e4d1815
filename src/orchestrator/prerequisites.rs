//! Prerequisites: a call fails, its error names another tool (`find it with find_contact`),
//! and that one finds, or has found, what was missing.
//!
//! Small models stop there and tell the user what they have found, or call again with another
//! value that they made up. Told to retry the call, and with what, they go on. Only a call
//! that the model has made itself is named: any other might do something the user never
//! asked for.

use serde_json::{Map, Value};

use crate::conversation::{Call, Found, Outcome, Retry, Step};
use crate::limits::turn::{RETRY_VALUE_BYTES_MAX, RETRY_VALUES_MAX};
use crate::tools::ToolResult;
use crate::whole_words::{self, is_of_name};

/// The call to make again after `step`.
pub(super) fn call_to_retry(earlier: &[Step], step: &Step) -> Option<Retry> {
    wanting_what_was_found(earlier, step).or_else(|| without_what_was_found(earlier, step))
}

/// The last failed call in `earlier` whose error names a tool which has found something in
/// `step`. `None` if it has succeeded since.
fn wanting_what_was_found(earlier: &[Step], step: &Step) -> Option<Retry> {
    let found: Vec<&Call> = step.calls().filter(|call| has_found(call)).collect();
    let calls: Vec<&Call> = earlier.iter().flat_map(Step::calls).collect();
    let at = calls.iter().rposition(|call| is_for_want_of(call, &found))?;
    let name = &calls[at].name;
    let mut later = calls[at + 1..].iter().copied().chain(step.calls());
    if later.any(|call| call.name == *name && success(call).is_some()) {
        return None;
    }
    Some(Retry { tool: name.clone(), argument: wrong_argument(calls[at], &found) })
}

/// The last failed call of `step` whose error names a tool that had already found values for
/// one of its arguments, none of which it has.
fn without_what_was_found(earlier: &[Step], step: &Step) -> Option<Retry> {
    let calls = || earlier.iter().chain([step]).flat_map(Step::calls);
    let found: Vec<&Call> = calls().filter(|call| has_found(call)).collect();
    let last = step.calls().filter(|call| is_for_want_of(call, &found)).last()?;
    Some(Retry { tool: last.name.clone(), argument: Some(wrong_argument(last, &found)?) })
}

/// The argument for which the tools that the call's error names have found values under its
/// name, but not its own.
fn wrong_argument(call: &Call, found: &[&Call]) -> Option<Found> {
    let Value::Object(arguments) = call.taken_arguments().to_value() else { return None };
    let named: Vec<&Call> =
        found.iter().copied().filter(|other| is_for_want_of(call, &[*other])).collect();
    arguments.iter().find_map(|(name, own)| {
        let mut values = Vec::new();
        for data in named.iter().filter_map(|call| success(call)?.data.as_ref()) {
            push_values(&mut values, data, name);
        }
        let are_few = (1..=RETRY_VALUES_MAX).contains(&values.len());
        (are_few && !values.contains(&own.to_string()))
            .then(|| Found { name: name.clone(), values })
    })
}

/// Adds the ids that stand under `key`, at any depth, each once.
fn push_values(values: &mut Vec<String>, data: &Value, key: &str) {
    match data {
        Value::Array(items) => items.iter().for_each(|item| push_values(values, item, key)),
        Value::Object(members) => push_members(values, members, key),
        _ => {}
    }
}

fn push_members(values: &mut Vec<String>, members: &Map<String, Value>, key: &str) {
    for (name, value) in members {
        match id(value) {
            Some(id) if name == key && !values.contains(&id) => values.push(id),
            _ => push_values(values, value, key),
        }
    }
}

/// A value that may be an id, as JSON: a short word or a whole number.
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

/// The result of a call that has succeeded.
fn success(call: &Call) -> Option<&ToolResult> {
    match &call.outcome {
        // One that was not run and succeeded repeats another.
        Outcome::Ended(result) | Outcome::NotRun(result) if result.success => Some(result),
        _ => None,
    }
}

/// Whether a call has succeeded and its result is more than empty lists.
fn has_found(call: &Call) -> bool {
    success(call).is_some_and(|result| !result.data.as_ref().is_some_and(is_empty_list))
}

/// Whether this is an empty list, or an object with such a list in it and none with items.
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

/// Whether a call failed with an error, or an instruction, that names one of these tools.
fn is_for_want_of(call: &Call, others: &[&Call]) -> bool {
    let Outcome::Ended(result) = &call.outcome else { return false };
    let said = [&result.error, &result.instruction_for_ai];
    let names = |text: &str, tool: &str| whole_words::find(text, tool, is_of_name).next().is_some();
    // An error may quote an argument.
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
        let retry = call_to_retry(earlier, last);
        assert_eq!(retry.map(|retry| retry.tool).as_deref(), expected);
    }

    /// What a message is to be sent with that was sent `to` somebody, after `find_contact` has
    /// brought `data`: before it and behind it.
    #[track_caller]
    fn check_argument(to: &Value, data: Value, expected: Option<&[&str]>) {
        let mut sent = lost("find it with find_contact");
        let Part::Call(call) = &mut sent.parts[0] else { unreachable!() };
        let arguments = json!({ "text": "hello", "contact_id": to, "urgent": true });
        Arc::get_mut(call).unwrap().arguments = Arguments::parse(&arguments.to_string()).unwrap();
        let found = step("find_contact", ToolResult::data(data));
        let expected = expected.map(|values| Found {
            name: "contact_id".to_owned(),
            values: values.iter().map(|&value| value.to_owned()).collect(),
        });
        let sent_first = call_to_retry(std::slice::from_ref(&sent), &found).unwrap();
        assert_eq!(sent_first.argument, expected, "sent first");
        let found_first = call_to_retry(&[found], &sent);
        assert_eq!(found_first.and_then(|retry| retry.argument), expected, "found first");
    }

    #[test]
    fn the_values_found_for_an_argument_are_told() {
        let one = json!({ "matches": [{ "contact_id": "c_7", "name": "Priya Raman" }] });
        check_argument(&json!("Priya Raman"), one.clone(), Some(&["\"c_7\""]));
        check_argument(&json!("c_8"), one.clone(), Some(&["\"c_7\""]));
        check_argument(&json!(null), one.clone(), Some(&["\"c_7\""]));
        check_argument(&json!("c_7"), one, None);
        let two = json!([{ "contact_id": 7 }, { "contact_id": 8, "of": { "contact_id": 7 } }]);
        check_argument(&json!("7"), two.clone(), Some(&["7", "8"]));
        check_argument(&json!(8), two, None);
    }

    #[test]
    fn only_ids_are_told_and_only_a_few() {
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
    fn a_search_that_found_nothing_leads_nowhere() {
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
