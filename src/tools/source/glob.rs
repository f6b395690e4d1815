//! Patterns for names: `*` is any text, `?` any character. A pattern matches whole names.

use std::fmt;

use serde::{Serialize, Serializer};
use wildmatch::WildMatch;

/// A pattern.
#[derive(Clone, PartialEq)]
pub struct Glob {
    pattern: String,
    matcher: WildMatch,
}

impl Glob {
    /// A pattern as an operator writes it.
    #[must_use]
    pub fn new(pattern: impl Into<String>) -> Self {
        let pattern = pattern.into();
        Self { matcher: WildMatch::new(&pattern), pattern }
    }

    /// Whether it matches this name.
    #[must_use]
    pub fn matches(&self, name: &str) -> bool {
        self.matcher.matches(name)
    }

    /// Whether it has no `*` and no `?`.
    #[must_use]
    pub(crate) fn is_plain(&self) -> bool {
        !self.pattern.contains(['*', '?'])
    }

    /// Whether it is this name, letter by letter.
    #[must_use]
    pub(crate) fn is_name(&self, name: &str) -> bool {
        self.pattern == name
    }
}

impl fmt::Debug for Glob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Glob({:?})", self.pattern)
    }
}

impl fmt::Display for Glob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.pattern)
    }
}

impl Serialize for Glob {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.pattern)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The rules in their plainest form.
    fn matches(pattern: &[char], name: &[char]) -> bool {
        match (pattern, name) {
            ([], []) => true,
            (['*', rest @ ..], _) => (0..=name.len()).any(|taken| matches(rest, &name[taken..])),
            (['?', rest @ ..], [_, name @ ..]) => matches(rest, name),
            ([char, rest @ ..], [other, name @ ..]) => char == other && matches(rest, name),
            _ => false,
        }
    }

    proptest! {
        #[test]
        fn it_matches_as_the_rules_say(pattern in "[ab*?]{0,8}", name in "[ab]{0,8}") {
            let chars = |text: &str| text.chars().collect::<Vec<_>>();
            let expected = matches(&chars(&pattern), &chars(&name));
            prop_assert_eq!(Glob::new(&*pattern).matches(&name), expected);
        }
    }

    #[test]
    fn a_pattern_of_many_stars_ends_soon() {
        let glob = Glob::new("*a".repeat(200) + "b");
        assert!(!glob.matches(&"a".repeat(10_000)));
    }
}
