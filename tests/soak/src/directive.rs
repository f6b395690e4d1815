//! What a client asks of the model, in its prompt: `soak:TURN:TOKENS:CALLS:PADDING;`.

use memchr::memmem;

use crate::token::decimal;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Directive {
    /// The turn, by which the model knows how far it has come when it is asked again.
    pub(crate) turn: u64,
    pub(crate) tokens: u64,
    /// Calls of a tool, each between two parts of the tokens.
    pub(crate) calls: u64,
    /// Bytes that make each token longer.
    pub(crate) padding: u64,
}

const OPENER: &[u8] = b"soak:";

impl Directive {
    /// Finds the last one in a request to the model.
    pub(crate) fn find(body: &[u8]) -> Option<Self> {
        let start = memmem::rfind(body, OPENER)? + OPENER.len();
        let mut numbers = body[start..].split(|byte| *byte == b':').map(decimal);
        let mut next = || numbers.next();
        Some(Self { turn: next()?, tokens: next()?, calls: next()?, padding: next()? })
    }

    pub(crate) fn prompt(&self) -> String {
        let Self { turn, tokens, calls, padding } = self;
        format!("soak:{turn}:{tokens}:{calls}:{padding};")
    }

    /// How many tokens the model has written when it makes a call, or ends.
    pub(crate) const fn tokens_after(&self, round: u64) -> u64 {
        self.tokens * (round + 1) / (self.calls + 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directive_is_found_in_a_request() {
        let directive = Directive { turn: 12, tokens: 10, calls: 2, padding: 1024 };
        let body = format!("{{\"content\":\"{}\"}}", directive.prompt());
        assert_eq!(Directive::find(body.as_bytes()), Some(directive));
        assert_eq!([0, 1, 2].map(|round| directive.tokens_after(round)), [3, 6, 10]);
    }
}
