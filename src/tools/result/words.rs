//! A question to the user as words, for clients that know nothing of questions.

use std::fmt::Write as _;

use super::Clarification;

impl Clarification {
    /// The question and its options, numbered. `follows` says whether words come before it.
    #[must_use]
    pub(crate) fn in_words(&self, follows: bool) -> String {
        let mut words = if follows { "\n\n".to_owned() } else { String::new() };
        words.push_str(&self.question);
        // Writing to a string cannot fail.
        if let Some(url) = &self.url {
            let _ = write!(words, "\n{url}");
        }
        for (number, option) in (1..).zip(&self.options) {
            let _ = write!(words, "\n{number}. {}", option.title);
            if let Some(subtitle) = &option.subtitle {
                let _ = write!(words, " ({subtitle})");
            }
        }
        words
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tools::ClarificationOption;

    #[test]
    fn options_are_numbered() {
        let mut doe = ClarificationOption::new("a", "John Doe");
        doe.subtitle = Some("Sales".to_owned());
        let options = vec![doe, ClarificationOption::new("b", "John Smith")];
        let question = "Which John?".to_owned();
        let asked = Clarification { question, options, ..Clarification::default() };
        assert_eq!(asked.in_words(false), "Which John?\n1. John Doe (Sales)\n2. John Smith");
        let url = Some("https://example.org/a".to_owned());
        let question = "Sign in.".to_owned();
        let page = Clarification { question, url, ..Clarification::default() };
        assert_eq!(page.in_words(true), "\n\nSign in.\nhttps://example.org/a");
    }
}
