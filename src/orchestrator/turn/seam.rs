//! The seam between a message that was cut off and the one that goes on with it.
//!
//! ```text
//!   said    The capital of Fra|
//!   comes                      nce is Paris.                          shown
//!   comes   The capital of Fra|nce is Paris.                          shown from the bar on
//! ```
//! A model that is asked in words to go on likes to begin again. As long as it repeats what it has said, nothing
//! is shown.
//!
//! White space at the end of what was said is not shown to the model, because many chat templates trim it: it comes
//! again, perhaps with more of it.
//!
//! ```text
//!   said    Let me look.\n|
//!   comes               \n|\n<<function_call>>            shown from the bar on
//! ```

use crate::conversation::{Part, Turn};

/// See the module docs.
#[derive(Debug)]
pub(super) struct Seam {
    /// What was said before, without white space around it.
    said: String,
    /// The white space at its end.
    blank: String,
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
        let all = match last {
            Some(Part::Text(text)) => &**text,
            _ => "",
        };
        let words = all.trim_end();
        let (said, blank) = (words.trim_start().to_owned(), all[words.len()..].to_owned());
        Self { said, blank, held: String::new(), state: State::Comparing }
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
            if !self.said.is_empty()
                && let Some(rest) = come.strip_prefix(&*self.said)
            {
                self.held = rest.to_owned();
            }
            self.state = State::AtSeam;
        }
        let is_blank = self.held.trim_start().is_empty();
        if self.state == State::AtSeam && !self.blank.is_empty() && is_blank {
            return String::new();
        }
        self.pass()
    }

    /// The message is over: returns what is new of the white space that has come last.
    pub(super) fn finish(&mut self) -> String {
        if self.held.trim_start().is_empty() { self.pass() } else { String::new() }
    }

    /// What has come is new, but for the white space that was shown before.
    fn pass(&mut self) -> String {
        let held = std::mem::take(&mut self.held);
        if self.state == State::Passed || self.blank.is_empty() {
            self.state = State::Passed;
            return held;
        }
        self.state = State::Passed;
        held.strip_prefix(&*self.blank).unwrap_or_else(|| held.trim_start()).to_owned()
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
    fn white_space_that_was_cut_is_shown_to_its_end() {
        check("First.\n", "\n\nSecond.", "\nSecond.");
        check("\n", "\n\nFirst.", "\nFirst.");
        check("First.\n\n", "\nSecond.", "Second.");
        check("First.\n", " Second.", "Second.");
    }

    #[test]
    fn white_space_at_the_end_of_a_message_is_new_as_far_as_it_was_not_shown() {
        for (said, message, shown) in [
            ("Done.", "\n", "\n"),
            ("Done.\n", "\n", ""),
            ("Done.\n", "\n\n", "\n"),
            ("Done.", "", ""),
            ("One, two", "One", ""),
        ] {
            for is_shown in [false, true] {
                let mut seam = seam(said);
                if is_shown {
                    seam.expect_no_repetition();
                }
                let both = [seam.push(message), seam.finish()].concat();
                let expected = if is_shown && message == "One" { message } else { shown };
                assert_eq!(both, expected, "{said:?} then {message:?}");
            }
        }
    }

    #[test]
    fn a_model_that_is_shown_its_message_may_repeat_its_words() {
        let mut seam = seam("ha ha ");
        seam.expect_no_repetition();
        assert_eq!([seam.push(" ha"), seam.push(" ha")].concat(), "ha ha");
    }
}
