//! Detours: a call fails, its error points to another tool (`find it with find_contact`),
//! and that one finds what was missing.
//!
//! Small models stop there and tell the user what they have found on the way. Told which call
//! to make next, they go on. Only a call that the model has made itself is named: another one
//! might do what nobody asked for.

use crate::conversation::{Call, Outcome, Step};
use crate::whole_words::{self, is_of_name};

/// The tool that the model was on its way to: the last of `earlier` whose call failed with an
/// error that names a tool which has succeeded in `step`. Nothing if it has succeeded since.
pub(super) fn way_back(earlier: &[Step], step: &Step) -> Option<String> {
    let found: Vec<&Call> = step.calls().filter(|call| has_succeeded(call)).collect();
    let calls: Vec<&Call> = earlier.iter().flat_map(Step::calls).collect();
    let at = calls.iter().rposition(|call| points_to(call, &found))?;
    let mut succeeded = calls[at + 1..].iter().filter(|call| has_succeeded(call)).chain(&found);
    let name = &calls[at].name;
    (!succeeded.any(|call| call.name == *name)).then(|| name.clone())
}

fn has_succeeded(call: &Call) -> bool {
    matches!(&call.outcome, Outcome::Ended(result) if result.success)
}

/// Whether a call failed and its tool says to make one of these calls.
fn points_to(call: &Call, others: &[&Call]) -> bool {
    let Outcome::Ended(result) = &call.outcome else { return false };
    let said = [&result.error, &result.instruction_for_ai];
    let names = |text: &str, tool: &str| whole_words::find(text, tool, is_of_name).next().is_some();
    let says = |tool: &str| said.into_iter().flatten().any(|text| names(text, tool));
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
        assert_eq!(way_back(earlier, last).as_deref(), expected);
    }

    #[test]
    fn who_was_sent_to_another_tool_comes_back() {
        let back = Some("send_message");
        let steps =
            [lost("there is no such contact; find it with find_contact"), found("get_weather")];
        check(&steps[..1], &found("find_contact"), back);
        check(&steps[..1], &found("get_weather"), None);
        check(&steps[..1], &step("find_contact", ToolResult::error("too many")), None);
        check(&steps, &found("find_contact"), back);
        let hint = ToolResult::error("no").with_instruction("Call `find_contact` first.");
        check(&[step("send_message", hint)], &found("find_contact"), back);
    }

    #[test]
    fn who_has_arrived_is_not_sent_again() {
        let lost = lost("find it with find_contact");
        check(&[lost.clone(), found("send_message")], &found("find_contact"), None);
        check(&[lost], &found("send_message"), None);
    }

    #[test]
    fn a_name_is_a_whole_word() {
        for error in ["see find_contacts", "see re-find_contact", "Find_contact", ""] {
            check(&[lost(error)], &found("find_contact"), None);
        }
    }
}
