//! The seam between a message that was cut off and the one that goes on with it.
//!
//! ```text
//!   said    The capital of Fra|
//!   comes                      nce is Paris.                          shown
//!   comes   The capital of Fra|nce is Paris.                          shown from the bar on
//! ```
//! A model that is asked in words to go on likes to begin again. As long as it repeats what it has said, nothing
//! is shown. White space at the seam is shown once: chat templates trim it from messages.

use crate::conversation::{Part, Turn};

/// See the module docs.
#[derive(Debug)]
pub(super) struct Seam {
    /// What was said before, without white space at its start.
    said: String,
    /// What has come and may be a repetition.
    held: String,
    state: State,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Everything so far may be a repetition of what was said.
    Comparing,
    /// Nothing but white space has come.
    AtSeam,
    /// The message goes on.
    Passed,
}

impl Seam {
    /// After the last words of a turn.
    pub(super) fn after(turn: &Turn) -> Self {
        let last = turn.steps.last().and_then(|step| step.parts.last());
        let said = match last {
            Some(Part::Text(text)) => text.trim_start().to_owned(),
            _ => String::new(),
        };
        Self { said, held: String::new(), state: State::Comparing }
    }

    /// The model is shown what it has said, and goes on with it.
    pub(super) const fn expect_no_repetition(&mut self) {
        self.state = State::AtSeam;
    }

    /// Whether all that comes is new.
    pub(super) fn is_passed(&self) -> bool {
        self.state == State::Passed
    }

    /// Takes what comes, and returns what of it is new.
    pub(super) fn push(&mut self, text: &str) -> String {
        self.held.push_str(text);
        if self.state == State::Comparing {
            let come = self.held.trim_start();
            if self.said.starts_with(come) {
                return String::new();
            }
            if let Some(rest) = come.strip_prefix(self.said.trim_end()) {
                self.held = rest.to_owned();
            }
            self.state = State::AtSeam;
        }
        if self.state == State::AtSeam && self.said.ends_with(char::is_whitespace) {
            let come = self.held.trim_start();
            if come.is_empty() {
                return String::new();
            }
            self.held = come.to_owned();
        }
        self.state = State::Passed;
        std::mem::take(&mut self.held)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conversation::Step;

    fn seam(said: &str) -> Seam {
        let parts = vec![Part::Text(said.to_owned())];
        let steps = vec![Step { parts, ..Step::default() }];
        Seam::after(&Turn { steps, ..Turn::default() })
    }

    /// Checks what is shown of a message after these words, however it is cut.
    #[track_caller]
    fn check(said: &str, message: &str, shown: &str) {
        for cut in (0..=message.len()).filter(|at| message.is_char_boundary(*at)) {
            let mut seam = seam(said);
            let both = [seam.push(&message[..cut]), seam.push(&message[cut..])].concat();
            assert_eq!(both, shown, "{said:?} then {message:?}, cut at {cut}");
        }
        let mut seam = seam(said);
        let mut buffer = [0; 4];
        let spelled: String =
            message.chars().map(|char| seam.push(char.encode_utf8(&mut buffer))).collect();
        assert_eq!(spelled, shown, "{said:?} then {message:?}, spelled");
    }

    #[test]
    fn what_goes_on_is_shown() {
        check("The capital of Fra", "nce is Paris.", "nce is Paris.");
        check("The capital", " of France", " of France");
        check("It is", "n't.", "n't.");
        check("Grüße aus K", "öln", "öln");
    }

    #[test]
    fn what_was_said_is_not_shown_again() {
        check("The capital of Fra", "The capital of France is Paris.", "nce is Paris.");
        check("\n\nThe capital ", "The capital of", "of");
        check("Done.", "Done.", "");
        check("One, two", "One", "");
    }

    #[test]
    fn another_beginning_is_shown_as_it_is() {
        check("The capital of Fra", "The city is Paris.", "The city is Paris.");
        check("The capital", "Thus: Paris", "Thus: Paris");
    }

    #[test]
    fn white_space_at_the_seam_is_shown_once() {
        check("Let ", " me look.", "me look.");
        check("Let ", "me look.", "me look.");
        check("First.\n\n", "\n\nSecond.", "Second.");
    }

    #[test]
    fn a_model_that_is_shown_its_message_may_repeat_its_words() {
        let mut seam = seam("ha ha ");
        seam.expect_no_repetition();
        assert_eq!([seam.push(" ha"), seam.push(" ha")].concat(), "ha ha");
    }
}
