//! Whether a user saw a block of results, which only the model should.

use serde_json::{Deserializer, Value};

use super::subset::equal;

/// What the gateway writes above the results of a message, in lower case.
const HEADING: &str = "results of your calls:";

/// In the line below that, what the user has read while the calls ran.
const ALREADY_READ: &str = "\"already_read_by_the_user\"";

/// Whether a message shows results as the gateway puts them to the model: their heading, a
/// line of one, or, as its first words, one in JSON. `results` are those that were there
/// before, in the standard shape.
pub(super) fn shows_results(text: &str, results: &[&Value]) -> bool {
    text.to_lowercase().contains(HEADING)
        || text.lines().any(is_result_line)
        || opening_object(text).is_some_and(|object| is_result(&object, results))
}

/// A line of the block, such as `{"call":...,"tool":...,"result":...}`. The token limit may
/// have cut it.
fn is_result_line(line: &str) -> bool {
    let line = line.trim_start();
    let has = |key| line.contains(key);
    let is_result = has("\"call\"") && has("\"tool\"") && has("\"result\"");
    line.starts_with('{') && (is_result || has(ALREADY_READ))
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
    (has("call") && has("tool") && has("result"))
        || (has("success") && has("next_action"))
        || results.iter().any(is_known)
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
        check("Results of your calls:", true);
        check("Sure.\n\nresults of your calls:\n", true);
        check("Sure.\n {\"call\": \"call_1\", \"tool\": \"sky\", \"result\": {\"succ", true);
        check("{\"already_read_by_the_user\":\"Looking.\",\"note\":\"do not say it again\"}", true);
        check("{\n  \"call\": \"call_1\",\n  \"tool\": \"sky\",\n  \"result\": {}\n}", true);
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
        check("The sky is grey. I made one call, with one tool, and the result is this.", false);
        check("{name}, here are the results of your call: grey", false);
    }
}
