//! What a model's context could not hold, by the numbers in a server's refusal.
//!
//! ```text
//!   |<------------------ context ------------------>|
//!   |  input                     |  room            |
//!   |  input                     |  the longest answer that was asked for  |   refused
//! ```
//! Most servers count the longest answer that a request allows as if it were written already. So a short prompt is
//! refused if its client allows an answer as long as the context.

/// What was too long for the context.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Overflow {
    /// The prompt alone.
    Prompt,
    /// The prompt together with the longest answer.
    PromptAndAnswer(TokenCounts),
    /// One or the other: the server gives no numbers.
    Unclear,
}

/// How a server has counted a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TokenCounts {
    /// The tokens of the prompt.
    pub(super) input: u32,
    /// Those that the model's context holds.
    pub(super) context: u32,
    /// Whether the prompt may have more: some servers stop counting once it is too much.
    pub(super) is_least: bool,
}

/// What vLLM says if it has counted no more of the prompt than what the answer leaves, and one token.
const STOPS_COUNTING: [&str; 3] = ["at least", "maximum input length", "upper bound"];

impl TokenCounts {
    /// Reads them from a refusal in the words of vLLM, `SGLang`, `OpenRouter`, llama-cpp-python or `OpenAI`.
    pub(super) fn read(message: &str) -> Option<Self> {
        let message = message.to_ascii_lowercase();
        let context = numbers(&message).find(|it| it.before.contains("context length"))?.value;
        let input = numbers(&message).find(|it| it.value != context && it.counts_input())?.value;
        let is_least = STOPS_COUNTING.iter().any(|words| message.contains(words));
        Some(Self { input, context, is_least })
    }

    /// How long an answer may be at most.
    pub(super) const fn room(self) -> u32 {
        self.context.saturating_sub(self.input)
    }

    /// How much of the context is an answer's: if it asks for more, that may be too much.
    pub(super) const fn fair_share(self) -> u32 {
        self.context / 4
    }
}

/// A number in a text, and the words between it and the numbers around it.
struct Number<'t> {
    value: u32,
    before: &'t str,
    after: &'t str,
}

impl Number<'_> {
    /// Whether it is said of the prompt: `5900 in the messages`, but not `100 in the completion`.
    fn counts_input(&self) -> bool {
        let first = |words: &[&str]| words.iter().filter_map(|word| self.after.find(word)).min();
        let output = first(&["output", "completion"]).unwrap_or(usize::MAX);
        first(&["input", "message", "prompt"]).is_some_and(|input| input < output)
    }
}

/// The numbers in a text.
fn numbers(text: &str) -> impl Iterator<Item = Number<'_>> {
    let mut rest = text;
    let found = std::iter::from_fn(move || {
        let (before, from) = rest.split_at(rest.find(|char: char| char.is_ascii_digit())?);
        let end = from.find(|char: char| !char.is_ascii_digit()).unwrap_or(from.len());
        let (digits, after) = from.split_at(end);
        rest = after;
        let next = after.find(|char: char| char.is_ascii_digit()).unwrap_or(after.len());
        Some((digits, before, &after[..next]))
    });
    found.filter_map(|(digits, before, after)| {
        Some(Number { value: digits.parse().ok()?, before, after })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_counts_of_the_servers_are_read() {
        for (message, counts) in [
            // vLLM, four versions
            (
                "This model's maximum context length is 4096 tokens. However, you requested 6000 tokens (5900 in \
                 the messages, 100 in the completion). Please reduce the length of the messages or completion.",
                Some((5900, 4096)),
            ),
            (
                "You passed 31745 input tokens and requested 1024 output tokens. However, the model's context \
                 length is only 32768 tokens, resulting in a maximum input length of 31744 tokens. Please reduce \
                 the length of the input prompt.",
                Some((31745, 32768)),
            ),
            (
                "This model's maximum context length is 32768 tokens. However, you requested 30500 output tokens \
                 and your prompt contains at least 2300 input tokens, for a total of 32800 tokens. Please reduce the length \
                 of the input prompt or the number of requested output tokens.",
                Some((2300, 32768)),
            ),
            (
                "'max_tokens' or 'max_completion_tokens' is too large: 40000. This model's maximum context length \
                 is 32768 tokens and your request has 20 input tokens (40000 > 32768 - 20).",
                Some((20, 32768)),
            ),
            // SGLang
            (
                "Requested token count exceeds the model's maximum context length of 32768 tokens. You requested a \
                 total of 38045 tokens: 7545 tokens from the input messages and 30500 tokens for the completion. \
                 Please reduce the number of tokens in the input messages or the completion to fit within the limit.",
                Some((7545, 32768)),
            ),
            // OpenRouter
            (
                "This endpoint's maximum context length is 32768 tokens. However, you requested about 40020 tokens \
                 (20 of text input, 40000 in the output). Please reduce the length of either one.",
                Some((20, 32768)),
            ),
            // Without counts, and with numbers that are none
            ("This model's maximum context length is 4096 tokens.", None),
            ("request (5031 tokens) exceeds the available context size (4096 tokens)", None),
            ("max_tokens must be at least 1, got 0. (parameter=max_tokens, value=0)", None),
            ("the context length is 99999999999 tokens, and 7 input tokens", None),
            ("context length", None),
            ("", None),
        ] {
            let read = TokenCounts::read(message).map(|it| (it.input, it.context));
            assert_eq!(read, counts, "{message}");
        }
    }

    #[test]
    fn a_server_that_stops_counting_is_known() {
        for (message, is_least) in [
            ("context length is 9 tokens; your prompt contains at least 7 input tokens", true),
            ("context length is 9, you passed 7 input tokens; a maximum input length of 6", true),
            ("context length is 9 tokens, an upper bound for 0 input tokens", true),
            ("context length is 9 tokens; your prompt contains 7 input tokens", false),
        ] {
            assert_eq!(TokenCounts::read(message).unwrap().is_least, is_least, "{message}");
        }
    }

    #[test]
    fn the_room_for_an_answer_is_what_the_prompt_leaves() {
        let room = |input, context| TokenCounts { input, context, is_least: false }.room();
        assert_eq!([room(90, 100), room(100, 100), room(101, 100)], [10, 0, 0]);
    }
}
