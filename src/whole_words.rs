//! Words found in text as wholes, not as parts of longer ones: names and ids, in what people,
//! models and tools write.

/// Where `needle` stands in `text` by itself: each place at which it begins. `joins` tells the
/// characters that words are made of.
pub(crate) fn find<'t>(
    text: &'t str,
    needle: &'t str,
    joins: fn(char) -> bool,
) -> impl Iterator<Item = usize> + 't {
    let starts = text.match_indices(needle).map(|(start, _)| start);
    starts.filter(move |start| {
        let (before, behind) = (&text[..*start], &text[start + needle.len()..]);
        !needle.is_empty() && !before.ends_with(joins) && !behind.starts_with(joins)
    })
}

/// Whether a character may be part of a tool's name or of an id.
pub(crate) fn is_of_name(char: char) -> bool {
    char.is_alphanumeric() || matches!(char, '_' | '-')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, needle: &str, places: &[usize]) {
        assert_eq!(find(text, needle, is_of_name).collect::<Vec<_>>(), places);
    }

    #[test]
    fn a_part_of_another_word_is_not_found() {
        check("find find_it, find", "find", &[0, 14]);
        check("pre-find (find)", "find", &[10]);
        check("öfind findö find", "find", &[14]);
    }

    #[test]
    fn nothing_is_found_nowhere() {
        check("find", "", &[]);
        check("", "", &[]);
        check("", "find", &[]);
    }
}
