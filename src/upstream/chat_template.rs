//! What a chat template loses of a conversation with tools.
//!
//! Templates of models that were trained on tools drop calls, second calls or the tools themselves,
//! without a word. So a conversation is rendered in which everything has a word of its own, and what
//! the template has lost is known by the words that are missing.

use serde_json::{Value, json};

/// What is missing from a rendered conversation.
#[expect(clippy::struct_excessive_bools, reason = "each may be lost on its own")]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Losses {
    /// The tools.
    pub(crate) tools: bool,
    /// A call, or the second call of a message.
    pub(crate) calls: bool,
    /// Words beside a call.
    pub(crate) words: bool,
    /// A result.
    pub(crate) results: bool,
}

const TOOL: &str = "quokka";
const FIRST_CALL: &str = "narwhal";
const SECOND_CALL: &str = "pangolin";
const WORDS: &str = "axolotl";
const FIRST_RESULT: &str = "okapi";
const SECOND_RESULT: &str = "tapir";

impl Losses {
    /// All of it: the template refuses every conversation with tools.
    pub(crate) const ALL: Self = Self { tools: true, calls: true, words: true, results: true };

    /// The bodies of requests that render the conversation: with two calls in a message, with one for
    /// templates that refuse two, and with none. What is left out counts as lost.
    #[must_use]
    pub(crate) fn requests(model: &str) -> [Value; 3] {
        [2, 1, 0].map(|calls| {
            let mut request = request(calls);
            // A router has several models.
            request["model"] = model.into();
            request
        })
    }

    /// What this rendering has lost.
    #[must_use]
    pub(crate) fn of(prompt: &str) -> Self {
        let lacks = |words: &[&str]| words.iter().any(|word| !prompt.contains(word));
        Self {
            tools: lacks(&[TOOL]),
            calls: lacks(&[FIRST_CALL, SECOND_CALL]),
            words: lacks(&[WORDS]),
            results: lacks(&[FIRST_RESULT, SECOND_RESULT]),
        }
    }

    /// What is lost, in words.
    #[must_use]
    pub(crate) fn named(self) -> Vec<&'static str> {
        let all = [
            (self.tools, "the tools"),
            (self.calls, "calls"),
            (self.words, "words beside calls"),
            (self.results, "results"),
        ];
        all.into_iter().filter_map(|(is_lost, name)| is_lost.then_some(name)).collect()
    }

    /// Whether calls, what was said beside them, and results have to be written as text.
    #[must_use]
    pub(crate) const fn of_history(self) -> bool {
        self.calls || self.words || self.results
    }
}

/// The conversation with this many of its calls.
fn request(calls: usize) -> Value {
    let all = [("call00001", FIRST_CALL, FIRST_RESULT), ("call00002", SECOND_CALL, SECOND_RESULT)];
    let mut messages = vec![
        json!({"role": "system", "content": "You are a zoologist."}),
        json!({"role": "user", "content": "What are these?"}),
    ];
    if calls > 0 {
        let tool_calls = all[..calls].iter().map(|(id, word, _)| {
            let arguments = json!({ "word": word }).to_string();
            let function = json!({"name": "look_up", "arguments": arguments});
            json!({"id": id, "type": "function", "function": function})
        });
        let content = format!("Not an {WORDS}.");
        let tool_calls = tool_calls.collect::<Value>();
        messages.push(json!({"role": "assistant", "content": content, "tool_calls": tool_calls}));
        let results = all[..calls].iter();
        messages.extend(
            results.map(
                |(id, _, result)| json!({"role": "tool", "tool_call_id": id, "content": result}),
            ),
        );
    }
    let properties = json!({"word": {"type": "string"}});
    let function = json!({
        "name": "look_up",
        "description": format!("Knows every {TOOL}."),
        "parameters": {"type": "object", "properties": properties, "required": ["word"]},
    });
    json!({"messages": messages, "tools": [{"type": "function", "function": function}]})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rendering_with_every_word_has_lost_nothing() {
        let whole = request(2).to_string();
        assert_eq!(Losses::of(&whole), Losses::default());
        assert_eq!(Losses::of(""), Losses::ALL);
    }

    #[test]
    fn what_is_missing_is_what_was_lost() {
        let whole = request(2).to_string();
        let without = |word: &str| Losses::of(&whole.replace(word, ""));
        assert_eq!(without(TOOL), Losses { tools: true, ..Losses::default() });
        for call in [FIRST_CALL, SECOND_CALL] {
            assert_eq!(without(call), Losses { calls: true, ..Losses::default() });
        }
        for result in [FIRST_RESULT, SECOND_RESULT] {
            assert_eq!(without(result), Losses { results: true, ..Losses::default() });
        }
        let words = without(WORDS);
        assert_eq!(words, Losses { words: true, ..Losses::default() });
        assert!(words.of_history() && !without(TOOL).of_history());
    }
}
