//! Checks whether a user saw a block of results, which only the model should see.

/// Follows a tool's name in the heading of its result.
const RETURNED: &str = "returned:";

/// Whether a message shows results in the gateway's form: a heading line, or JSON at the start. No
/// task asks for JSON, so anything that begins with it is a result, real or not, whole or cut.
pub(super) fn shows_results(text: &str) -> bool {
    text.lines().any(is_result_line) || begins_with_json(text)
}

/// Whether this is a line such as `` `get_weather` (call_1) returned: {...} ``, with or without
/// the id.
fn is_result_line(line: &str) -> bool {
    let rest = line.trim_start().strip_prefix('`').and_then(|line| line.split_once('`'));
    rest.is_some_and(|(_, rest)| {
        let rest = rest.trim_start();
        let without_id = rest.strip_prefix("(call_").and_then(|rest| rest.split_once(')'));
        without_id.map_or(rest, |(_, rest)| rest.trim_start()).starts_with(RETURNED)
    })
}

/// Whether an object, or an array that is not a link, comes first, in a code fence or not.
fn begins_with_json(text: &str) -> bool {
    let text = text.trim_start();
    let text = text.strip_prefix("```").map_or(text, |code| code.trim_start_matches(is_language));
    let after = |open: char| text.trim_start().strip_prefix(open).map(str::trim_start);
    after('{').is_some_and(|inside| inside.starts_with(['"', '}']))
        || after('[').is_some_and(|inside| inside.starts_with(['"', '{', '[', ']']))
}

fn is_language(char: char) -> bool {
    char.is_ascii_alphanumeric()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: bool) {
        assert_eq!(shows_results(text), expected, "{text:?}");
    }

    #[test]
    fn the_line_of_a_result_is_seen() {
        check("`sky` (call_1) returned: {\"sky\": \"grey\"}", true);
        check("Sure.\n\n  `sky` returned: grey", true);
        check("`sky` (call_1) ret", false);
    }

    #[test]
    fn json_is_seen_at_the_beginning() {
        check("\n{\"sky\": \"grey\"}", true);
        check("{\"sky\": \"grey\"} is what I found.", true);
        check("{ \"sky\": \"gre", true);
        check("{}", true);
        check("[{\"sky\": \"grey\"}]", true);
        check("```json\n{\"sky\": \"grey\"}\n```", true);
        check("```\n[\"grey\"]\n```", true);
        check("It is {\"sky\": \"grey\"}.", false);
    }

    #[test]
    fn words_are_not_results() {
        check("", false);
        check("The sky is grey. The tool `sky` returned: grey.", false);
        check("{name}, here are the results of your call: grey", false);
        check("[The sky](https://sky.example) is grey.", false);
        check("```rust\nlet sky = \"grey\";\n```", false);
    }
}
