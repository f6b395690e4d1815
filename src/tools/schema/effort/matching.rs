//! How long it takes to match a pattern with a text, at worst.
//!
//! | a pattern | is matched by | in |
//! | --- | --- | --- |
//! | without what looks around or back | automata | positions × bytes: each byte may be at each position of the pattern |
//! | with it | backtracking | (steps + bytes) × parts × bytes: a step may run each part over the whole text |
//!
//! Most matches are much faster. But a pattern can be made for the worst case, and a model can be
//! asked to write the text for it.

use crate::limits::tools::PATTERN_STEPS_MAX;

/// Nanoseconds that a check takes, that a byte takes at a position, and that a step takes by itself. A part takes one for
/// each byte.
const CHECK_NS: usize = 400;
const POSITION_NS: usize = 12;
const STEP_NS: usize = 20;

/// How many checks a match with a text of so many bytes takes.
pub(super) fn checks(pattern: &str, bytes: usize) -> usize {
    let ns = if backtracks(pattern) {
        let parts = weight(pattern, |atom| usize::from(atom != Atom::Char)) + 1;
        let step = parts.saturating_mul(bytes).saturating_add(STEP_NS);
        PATTERN_STEPS_MAX.saturating_add(bytes).saturating_mul(step)
    } else {
        let positions = weight(pattern, |_| 1);
        positions.saturating_mul(bytes).saturating_mul(POSITION_NS)
    };
    ns / CHECK_NS
}

/// Whether a pattern may have what only backtracking can match: looking around and back, groups and repetitions
/// that give nothing back.
pub(super) fn backtracks(pattern: &str) -> bool {
    let is_group = |three: &[u8]| {
        let [b'(', b'?', kind] = three else { return false };
        !kind.is_ascii_alphabetic() && !matches!(kind, b':' | b'-')
    };
    let is_back = |two: &[u8]| {
        matches!(
            two,
            [b'\\', b'1'..=b'9' | b'k' | b'g' | b'G' | b'K'] | [b'*' | b'+' | b'?' | b'}', b'+']
        )
    };
    let bytes = pattern.as_bytes();
    bytes.windows(3).any(is_group) || bytes.windows(2).any(is_back)
}

/// A piece of a pattern that is matched at one position.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Atom {
    /// A character, a class of them, or where they may be.
    Char,
    /// A group of its own kind, or what a group has matched.
    Group,
}

/// The weight of a pattern's atoms together, each as often as it is repeated. If the pattern cannot be taken apart, all
/// repetitions count for all of it.
fn weight(pattern: &str, of: impl Fn(Atom) -> usize) -> usize {
    let mut groups: Vec<usize> = Vec::new();
    // What was weighed in the innermost group, and the last atom of it.
    let (mut whole, mut last) = (0_usize, 0_usize);
    let mut most = 1_usize;
    let mut is_clear = true;
    let mut rest = pattern;
    while let Some(char) = rest.chars().next() {
        rest = &rest[char.len_utf8()..];
        match char {
            '(' => {
                is_clear &= !has_verbose_flag(rest);
                groups.push(whole);
                whole = if rest.starts_with('?') { of(Atom::Group) } else { 0 };
                last = 0;
                continue;
            }
            ')' => match groups.pop() {
                Some(before) => {
                    (whole, last) = (before.saturating_add(whole), whole);
                    continue;
                }
                None => is_clear = false,
            },
            '{' => {
                if let Some((times, after)) = repetition(rest) {
                    whole = whole.saturating_add(last.saturating_mul(times.saturating_sub(1)));
                    last = last.saturating_mul(times);
                    most = most.saturating_mul(times.max(1));
                    rest = after;
                    continue;
                }
            }
            '*' | '+' | '?' | '|' => continue,
            _ => {}
        }
        let mut atom = Atom::Char;
        match char {
            '\\' => {
                let escaped = rest.chars().next();
                rest = &rest[escaped.map_or(0, char::len_utf8)..];
                if escaped.is_some_and(|it| matches!(it, '1'..='9' | 'k' | 'g')) {
                    atom = Atom::Group;
                }
            }
            '[' => match after_class(rest) {
                Some(after) => rest = after,
                None => is_clear = false,
            },
            _ => {}
        }
        last = of(atom);
        whole = whole.saturating_add(last);
    }
    if is_clear && groups.is_empty() { whole } else { most.saturating_mul(pattern.len()) }
}

/// How often `{2}` or `{2,5}` repeats, and what follows it, given what follows its brace.
fn repetition(rest: &str) -> Option<(usize, &str)> {
    let (inside, after) = rest.split_once('}')?;
    let (least, most) = inside.split_once(',').unwrap_or((inside, inside));
    let number = |digits: &str| digits.trim().parse::<usize>().ok();
    let least = if least.trim().is_empty() { 0 } else { number(least)? };
    let most = if most.trim().is_empty() { least } else { number(most)? };
    Some((least.max(most), after))
}

/// What follows a class, given what follows its bracket. Classes nest.
fn after_class(rest: &str) -> Option<&str> {
    let rest = rest.strip_prefix('^').unwrap_or(rest);
    // The first bracket is a character.
    let mut rest = rest.strip_prefix(']').unwrap_or(rest);
    let mut depth = 1;
    loop {
        let char = rest.chars().next()?;
        rest = &rest[char.len_utf8()..];
        match char {
            '\\' => rest = &rest[rest.chars().next()?.len_utf8()..],
            '[' => depth += 1,
            ']' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return Some(rest);
        }
    }
}

/// Whether a group turns comments on, in which brackets mean nothing. `rest` follows its parenthesis.
fn has_verbose_flag(rest: &str) -> bool {
    let flags = rest.strip_prefix('?').unwrap_or_default();
    flags.chars().take_while(char::is_ascii_alphabetic).any(|flag| flag == 'x')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_repetition_counts() {
        for (pattern, expected) in [
            ("", 0),
            ("abc", 3),
            ("^[a-z]+$", 3),
            (r"\d{4}-\d{2}", 7),
            ("a{3,}|b{2,5}", 8),
            ("(?:a[ab]{300}c|d){2}", 610),
            ("(a(bc){3}){4}", 28),
            ("a{x}{,2}", 5),
            (r"[]\]()]{2}\{3}", 5),
            ("[[:alpha:]&&[^x]]{2}", 2),
            // They cannot be taken apart.
            ("a)b{3}", 18),
            ("[a{5}", 25),
            ("((a{2}){3}", 60),
            ("(?x)#[\n a{100}", 1400),
        ] {
            assert_eq!(weight(pattern, |_| 1), expected, "{pattern}");
        }
    }

    #[test]
    fn what_only_backtracking_can_match() {
        for pattern in
            ["a(?=b)", "(?!a)b", "(?<!a)b", r"(a)\1", "(?>a)", "(?(1)a|b)", "a++", "a{2}+"]
        {
            assert!(backtracks(pattern), "{pattern}");
        }
        for pattern in ["", "(?:a)", "(?i)a", "(?-i:a)", "(?P<n>a)", "a+b*?", r"\d{2,3}[+]"] {
            assert!(!backtracks(pattern), "{pattern}");
        }
    }

    #[test]
    fn time_grows_with_the_text_and_what_is_repeated() {
        let millis = |pattern, bytes| checks(pattern, bytes) * CHECK_NS / 1_000_000;
        assert_eq!(millis("^[a-z0-9]{1,64}$", 64), 0);
        assert_eq!(millis("a[ab]{300}c|b[ab]{300}e", 30_000), 217);
        assert_eq!(millis(r"^(?=.*[A-Z])(?=.*\d).{8,}$", 12), 0);
        assert_eq!(millis(r"(?=(a+))\1b", 100_000), 33_002);
        assert_eq!(checks(&"(?=a)".repeat(1000), usize::MAX), usize::MAX / CHECK_NS);
    }
}
