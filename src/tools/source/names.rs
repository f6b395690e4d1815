//! The names under which models know the tools of sources.
//!
//! Model servers accept 64 of `A-Z a-z 0-9 _ -`; MCP allows 128 characters, dots included.

use crate::limits::tools::NAME_BYTES_MAX;
use crate::tools::digest;

/// How many digits of a hash tell long names apart.
const HASH_DIGITS: usize = 6;

/// How much of a long name comes before `_` and its hash.
const CUT_AT: usize = NAME_BYTES_MAX - HASH_DIGITS - 1;

/// The name of a source's tool: prefix and own name, with `_` for whatever model servers refuse. A
/// name that is too long is cut, and ends with a hash of all of it, within the limit.
pub(crate) fn told(prefix: &str, name: &str) -> String {
    let whole = format!("{prefix}{name}");
    let told = sanitized(&whole);
    if told.len() <= NAME_BYTES_MAX {
        return told;
    }
    let hash = digest::of_text(&whole);
    format!("{}_{}", &told[..CUT_AT], &hash[..HASH_DIGITS])
}

/// Whether `told` may be the name of some tool with this prefix.
pub(super) fn may_be_told(prefix: &str, told: &str) -> bool {
    let prefix = sanitized(prefix);
    told.starts_with(&prefix[..prefix.len().min(CUT_AT)])
}

/// Text with `_` for whatever model servers refuse in names.
fn sanitized(text: &str) -> String {
    let is_taken = |char: char| char.is_ascii_alphanumeric() || matches!(char, '_' | '-');
    text.chars().map(|char| if is_taken(char) { char } else { '_' }).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn other_characters_become_underscores() {
        for (prefix, name, expected) in [
            ("files__", "read_file", "files__read_file"),
            ("", "read-file", "read-file"),
            ("a.b__", "größe/neu", "a_b__gr__e_neu"),
            ("", "", ""),
        ] {
            assert_eq!(told(prefix, name), expected);
        }
    }

    #[test]
    fn long_names_are_cut_and_told_apart_within_the_limit() {
        let longest = "n".repeat(NAME_BYTES_MAX);
        assert_eq!(told("", &longest), longest);
        let (one, other) = (told("", &format!("{longest}1")), told("", &format!("{longest}2")));
        assert_eq!((one.len(), other.len()), (NAME_BYTES_MAX, NAME_BYTES_MAX));
        assert_ne!(one, other);
        assert_eq!(one[..57], longest[..57]);
    }

    #[test]
    fn a_name_tells_whose_it_cannot_be() {
        let long = "p".repeat(NAME_BYTES_MAX);
        for (prefix, name, may_be) in [
            ("files__", "files__read", true),
            ("files__", "file__read", false),
            ("a.b__", "a_b__read", true),
            ("", "anything", true),
            (&*long, &*told(&long, "read"), true),
            (&*long, "read", false),
        ] {
            assert_eq!(may_be_told(prefix, name), may_be, "{prefix} {name}");
        }
    }

    proptest! {
        #[test]
        fn every_name_is_one_that_model_servers_take(prefix in "\\PC{0,40}", name in "\\PC{1,90}") {
            let told = told(&prefix, &name);
            prop_assert!(may_be_told(&prefix, &told));
            prop_assert!((1..=NAME_BYTES_MAX).contains(&told.len()));
            prop_assert!(told.bytes().all(|b| b.is_ascii_alphanumeric() || b"_-".contains(&b)));
        }
    }
}
