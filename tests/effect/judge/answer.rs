//! Checks whether an answer contains what it must.

/// Whether `text` contains one string of each list, ignoring case and thousands separators. A
/// number is not found inside a longer one.
pub(super) fn contains(text: &str, wanted: &[Vec<String>]) -> bool {
    let text = plain(text);
    wanted.iter().all(|strings| strings.iter().any(|string| has(&text, &plain(string))))
}

fn has(text: &str, wanted: &str) -> bool {
    text.match_indices(wanted).any(|(at, _)| {
        let (before, after) = (&text[..at], &text[at + wanted.len()..]);
        let begins_earlier = starts_with_digit(wanted) && is_inside_number(before);
        let ends_later = ends_with_digit(wanted) && goes_on_as_number(after);
        !begins_earlier && !ends_later
    })
}

/// In lower case, without thousands separators.
fn plain(text: &str) -> String {
    let chars: Vec<char> = text.to_lowercase().chars().collect();
    let is_digit = |at: usize| chars.get(at).is_some_and(char::is_ascii_digit);
    let is_separator = |at: usize| {
        // A comma, or one of the non-breaking or thin spaces.
        matches!(chars[at], ',' | '\u{a0}' | '\u{2009}' | '\u{202f}')
            && at.checked_sub(1).is_some_and(is_digit)
            && (at + 1..at + 4).all(is_digit)
            && !is_digit(at + 4)
    };
    (0..chars.len()).filter(|at| !is_separator(*at)).map(|at| chars[at]).collect()
}

fn starts_with_digit(text: &str) -> bool {
    text.starts_with(|char: char| char.is_ascii_digit())
}

fn ends_with_digit(text: &str) -> bool {
    text.ends_with(|char: char| char.is_ascii_digit())
}

/// Whether digits that follow continue a number: `1` of `12`, `0.` of `0.2`.
fn is_inside_number(before: &str) -> bool {
    ends_with_digit(before) || before.strip_suffix('.').is_some_and(ends_with_digit)
}

/// Whether the text continues a number: `78` continues in `789` and `78.5`, but not in `78.00`.
fn goes_on_as_number(after: &str) -> bool {
    let fraction = after.strip_prefix('.').unwrap_or_default();
    let digits = fraction.chars().take_while(char::is_ascii_digit);
    starts_with_digit(after) || digits.into_iter().any(|digit| digit != '0')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, wanted: &[&[&str]], expected: bool) {
        let wanted: Vec<Vec<String>> =
            wanted.iter().map(|list| list.iter().map(|&s| s.to_owned()).collect()).collect();
        assert_eq!(contains(text, &wanted), expected, "{text:?} {wanted:?}");
    }

    #[test]
    fn one_string_of_each_list_must_be_there() {
        let wanted: &[&[&str]] = &[&["14:05", "2:05"], &["Tuesday"]];
        check("It is 14:05:00 on tuesday.", wanted, true);
        check("It is 2:05 PM on Tuesday.", wanted, true);
        check("It is 14:05.", wanted, false);
        check("", wanted, false);
    }

    #[test]
    fn separators_of_thousands_do_not_count() {
        check("It is 1,234,567.", &[&["1234567"]], true);
        check("It is 1234567.", &[&["1,234,567"]], true);
        check("It is 1\u{202f}234 now.", &[&["1234"]], true);
        check("In 1,23 and 4", &[&["123"]], false);
    }

    #[test]
    fn a_number_is_not_found_inside_another() {
        check("It is 12:05.", &[&["2:05"]], false);
        check("It is 1391.", &[&["391"]], false);
        check("It is 3910.", &[&["391"]], false);
        check("It is 78.5.", &[&["78"]], false);
        check("It is 0.78", &[&["78"]], false);
        check("It is 78.", &[&["78"]], true);
        check("It costs $78.00, once", &[&["78"]], true);
        check("78.5 and 78", &[&["78"]], true);
        check("room B78", &[&["78"]], true);
    }
}
