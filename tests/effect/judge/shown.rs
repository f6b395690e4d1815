//! Whether a user saw a block of results, which only the model should.

use serde_json::{Deserializer, Value};

use super::subset::equal;

/// What follows a tool's name in the line of its result.
const RETURNED: &str = "returned:";

/// Whether a message shows results as the gateway puts them to the model: a line of one or,
/// as its first words, one in JSON. `results` are those that were there before, in the
/// standard shape.
pub(super) fn shows_results(text: &str, results: &[&Value]) -> bool {
    text.lines().any(is_result_line)
        || opening_object(text).is_some_and(|object| is_result(&object, results))
}

/// A line such as `` `get_weather` (call_1) returned: {...} ``, with or without the id.
fn is_result_line(line: &str) -> bool {
    let rest = line.trim_start().strip_prefix('`').and_then(|line| line.split_once('`'));
    rest.is_some_and(|(_, rest)| {
        let rest = rest.trim_start();
        let without_id = rest.strip_prefix("(call_").and_then(|rest| rest.split_once(')'));
        without_id.map_or(rest, |(_, rest)| rest.trim_start()).starts_with(RETURNED)
    })
}

/// The JSON object that a message begins with.
fn opening_object(text: &str) -> Option<Value> {
    let text = text.trim_start();
    if !text.starts_with('{') {
        return None;
    }
    Deserializer::from_str(text).into_iter().next()?.ok()
}

/// Whether an object is a result of the turn, or has the shape of one.
fn is_result(object: &Value, results: &[&Value]) -> bool {
    let has = |key| object.get(key).is_some();
    let is_known = |result: &&Value| {
        equal(object, result) || result.get("data").is_some_and(|data| equal(object, data))
    };
    (has("success") && has("next_action")) || results.iter().any(is_known)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check(text: &str, expected: bool) {
        let result = json!({"success": true, "data": {"sky": "grey"}, "next_action": "continue"});
        assert_eq!(shows_results(text, &[&result]), expected, "{text:?}");
    }

    #[test]
    fn a_block_of_results_is_seen() {
        check("`sky` (call_1) returned: {\"sky\": \"grey\"}", true);
        check("Sure.\n\n  `sky` returned: grey", true);
        check("`sky` (call_1) ret", false);
    }

    #[test]
    fn a_result_in_json_is_seen_at_the_beginning() {
        check("\n{\"sky\": \"grey\"}", true);
        check("{\"sky\": \"grey\"} is what I found.", true);
        check(
            "{\"success\": true, \"data\": {\"sky\": \"red\"}, \"next_action\": \"continue\"}",
            true,
        );
        check("{\"sky\": \"red\"}", false);
        check("It is {\"sky\": \"grey\"}.", false);
        check("{\"sky\": \"gre", false);
    }

    #[test]
    fn words_are_no_results() {
        check("", false);
        check("The sky is grey. The tool `sky` returned: grey.", false);
        check("{name}, here are the results of your call: grey", false);
    }
}
