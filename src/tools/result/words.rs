//! A question to the user as words, for clients that know nothing of questions.

use std::fmt::Write as _;

use super::{Clarification, ClarificationOption};
use crate::tools::{Source, SourceKind};

impl Clarification {
    /// The question and its options, numbered. Users learn if it is not the operator of this gateway who asks.
    /// `follows` says whether words come before it.
    #[must_use]
    pub(crate) fn in_words(&self, source: &Source, follows: bool) -> String {
        let mut words = if follows { "\n\n".to_owned() } else { String::new() };
        // Writing to a string cannot fail.
        if source.kind == SourceKind::Mcp && self.r#type != Self::CONFIRMATION {
            let _ = write!(words, "The server {} asks: ", source.name);
        }
        words.push_str(&self.question);
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

    /// The option that these words name: by its number in [`in_words`](Self::in_words), by its
    /// title, or else by its id, which users seldom see. Case does not count. `None` if they name
    /// several: a wrong choice is worse than none.
    #[must_use]
    pub(crate) fn option_in(&self, words: &str) -> Option<&ClarificationOption> {
        let words = words.trim().to_lowercase();
        if words.is_empty() {
            return None;
        }
        let number = words.strip_suffix(['.', ')']).unwrap_or(&words).parse::<usize>().ok();
        let is_shown_as = |at: usize, option: &ClarificationOption| {
            number == Some(at) || option.title.trim().to_lowercase() == words
        };
        let (mut shown, mut ids) = (Named::None, Named::None);
        for (at, option) in (1..).zip(&self.options) {
            shown.add_if(is_shown_as(at, option), option);
            ids.add_if(option.id.to_lowercase() == words, option);
        }
        match (shown, ids) {
            (Named::One(option), _) | (Named::None, Named::One(option)) => Some(option),
            _ => None,
        }
    }
}

/// The options that words name.
enum Named<'o> {
    None,
    One(&'o ClarificationOption),
    Several,
}

impl<'o> Named<'o> {
    fn add_if(&mut self, is_named: bool, option: &'o ClarificationOption) {
        if is_named {
            *self = if matches!(self, Self::None) { Self::One(option) } else { Self::Several };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_numbered() {
        let mut doe = ClarificationOption::new("a", "John Doe");
        doe.subtitle = Some("Sales".to_owned());
        let options = vec![doe, ClarificationOption::new("b", "John Smith")];
        let question = "Which John?".to_owned();
        let asked = Clarification { question, options, ..Clarification::default() };
        let ours = Source::default();
        assert_eq!(asked.in_words(&ours, false), "Which John?\n1. John Doe (Sales)\n2. John Smith");
        let url = Some("https://example.org/a".to_owned());
        let question = "Sign in.".to_owned();
        let page = Clarification { question, url, ..Clarification::default() };
        assert_eq!(page.in_words(&ours, true), "\n\nSign in.\nhttps://example.org/a");
        let theirs = Source { kind: SourceKind::Mcp, name: "mail".into() };
        let asked = page.in_words(&theirs, false);
        assert_eq!(asked, "The server mail asks: Sign in.\nhttps://example.org/a");
        let approval = Clarification { r#type: Clarification::CONFIRMATION.to_owned(), ..page };
        assert!(approval.in_words(&theirs, false).starts_with("Sign in."), "the gateway asks");
    }

    #[test]
    fn an_option_is_named_by_number_title_or_id() {
        let asked = |options: &[(&str, &str)]| Clarification {
            options: options.iter().map(|(id, it)| ClarificationOption::new(*id, *it)).collect(),
            ..Clarification::default()
        };
        let check = |options: &[(&str, &str)], words: &str, expected: Option<&str>| {
            let asked = asked(options);
            let named = asked.option_in(words).map(|option| &*option.id);
            assert_eq!(named, expected, "{words:?} of {options:?}");
        };
        let johns = [("c7", "John Doe"), ("C8", "John Smith"), ("c9", "John Smith")];
        for words in ["1", " 1.\n", "1)", "john doe", " John Doe ", "C7"] {
            check(&johns, words, Some("c7"));
        }
        check(&johns, "2", Some("C8"));
        check(&johns, "c8", Some("C8"));
        // Two have this title.
        check(&johns, "John Smith", None);
        for words in ["", " ", "0", "4", "-1", "1.5", "1..", "the first", "John", "Doe", "1, 2"] {
            check(&johns, words, None);
        }
        // What users see comes first, and must not be ambiguous.
        let numbers = [("2", "one"), ("1", "two")];
        check(&numbers, "2", Some("1"));
        let seats = [("a", "2"), ("b", "4")];
        check(&seats, "2", None);
        check(&seats, "1", Some("a"));
        check(&seats, "4", Some("b"));
        check(&[("a", "x"), ("A", "y")], "a", None);
        check(&[("a", ""), ("b", "y")], "", None);
        check(&[], "1", None);
    }
}
