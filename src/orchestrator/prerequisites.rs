//! Prerequisites: a call fails, its error names another tool (`find it with find_contact`),
//! and that one then finds what was missing.
//!
//! Small models stop there and tell the user what they have found. Told to retry the call,
//! they go on. Only a call that the model has made itself is named: any other might do
//! something the user never asked for.

use serde_json::Value;

use crate::conversation::{Call, Outcome, Step};
use crate::tools::ToolResult;
use crate::whole_words::{self, is_of_name};

/// The tool to call again after `step`: that of the last failed call in `earlier` whose error
/// names a tool which has found something in `step`. `None` if it has succeeded since.
pub(super) fn call_to_retry(earlier: &[Step], step: &Step) -> Option<String> {
    let found: Vec<&Call> = step.calls().filter(|call| has_found(call)).collect();
    let calls: Vec<&Call> = earlier.iter().flat_map(Step::calls).collect();
    let at = calls.iter().rposition(|call| is_for_want_of(call, &found))?;
    let name = &calls[at].name;
    let mut later = calls[at + 1..].iter().copied().chain(step.calls());
    let has_succeeded = later.any(|call| call.name == *name && success(call).is_some());
    (!has_succeeded).then(|| name.clone())
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
        assert_eq!(call_to_retry(earlier, last).as_deref(), expected);
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
