//! How long it takes to match a pattern with a text, at worst.
//!
//! | a pattern | is matched by | nanoseconds |
//! | --- | --- | --- |
//! | that looks neither around nor back | automata | positions × bytes: each byte may be at each position of the pattern |
//! | that does | backtracking | bytes^n, where n grows with the loops around what looks around |
//!
//! Most matches are much faster. But a pattern can be made for the worst case, and a model can be asked to write the
//! text for it. The limit on steps alone is not enough: a step may read the whole text, and what is left at once is no
//! step.

use crate::limits::tools::PATTERN_STEPS_MAX;

/// Nanoseconds for a byte at a position of an automaton, and for a step that reads nothing.
const POSITION_NS: usize = 12;
const STEP_NS: usize = 20;
/// Bytes that backtracking reads in a nanosecond.
const BYTES_PER_NS: usize = 4;

/// What the time depends on.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Shape {
    /// Characters, each as often as it is repeated; a class is one.
    positions: usize,
    /// If it needs backtracking, how deep the loops around that are nested.
    loops: Option<u32>,
    /// Whether it can only match at the start of a text.
    is_anchored: bool,
}

/// A part of a pattern, with what is repeated in it.
#[derive(Debug, Clone, Copy, Default)]
struct Part {
    positions: usize,
    /// See [`Shape::loops`].
    loops: Option<u32>,
}

impl Part {
    fn add(&mut self, part: Self) {
        self.positions = self.positions.saturating_add(part.positions);
        self.loops = self.loops.max(part.loops);
    }

    fn repeat(&mut self, Repetition { most, is_loop, is_possessive, .. }: Repetition<'_>) {
        self.positions = self.positions.saturating_mul(most);
        if is_possessive {
            self.loops = self.loops.max(Some(0));
        }
        if is_loop {
            self.loops = self.loops.map(|loops| loops + 1);
        }
    }
}

impl Shape {
    /// Nanoseconds that a match with a text of so many bytes takes.
    pub(super) fn time(&self, bytes: usize) -> usize {
        let &Self { positions, loops, is_anchored } = self;
        let Some(loops) = loops else {
            return positions.saturating_mul(bytes).saturating_mul(POSITION_NS);
        };
        let power = if is_anchored { 1 + loops.max(1) } else { 2 + loops };
        let steps = PATTERN_STEPS_MAX * STEP_NS;
        (bytes.saturating_pow(power) / BYTES_PER_NS).saturating_add(steps)
    }

    /// Whether the pattern is matched by backtracking.
    pub(super) const fn backtracks(&self) -> bool {
        self.loops.is_some()
    }

    /// If a pattern cannot be parsed, its whole length is multiplied by all its repetitions.
    pub(super) fn of(pattern: &str) -> Self {
        // The groups around, without their last atom, and that of the innermost one.
        let (mut groups, mut last) = (vec![Part::default()], Part::default());
        let (mut most, mut is_clear, mut has_choice) = (1_usize, true, false);
        let mut rest = pattern;
        while let Some(char) = rest.chars().next() {
            if let Some(repetition) = Repetition::read(rest) {
                last.repeat(repetition);
                most = most.saturating_mul(repetition.most);
                rest = repetition.rest;
                continue;
            }
            rest = &rest[char.len_utf8()..];
            let depth = groups.len();
            if let Some(group) = groups.last_mut() {
                group.add(std::mem::take(&mut last));
            }
            last = Part { positions: 1, loops: None };
            match char {
                '(' => {
                    is_clear &= !has_verbose_flag(rest);
                    groups.push(Part { positions: 1, loops: looks_around(rest).then_some(0) });
                    last = Part::default();
                }
                ')' if depth > 1 => last = groups.pop().unwrap_or_default(),
                ')' => is_clear = false,
                '|' => has_choice |= depth == 1,
                '\\' => {
                    let escaped = rest.chars().next();
                    rest = &rest[escaped.map_or(0, char::len_utf8)..];
                    let looks_back = |char| matches!(char, '1'..='9' | 'k' | 'g' | 'G' | 'K');
                    last.loops = escaped.is_some_and(looks_back).then_some(0);
                }
                '[' if is_clear => match after_class(rest) {
                    Some(after) => rest = after,
                    None => is_clear = false,
                },
                _ => {}
            }
        }
        is_clear &= groups.len() == 1;
        let mut whole = last;
        for group in groups {
            whole.add(group);
        }
        if !is_clear {
            whole.positions = most.saturating_mul(pattern.len());
        }
        let is_anchored = pattern.starts_with('^') && !has_choice && is_clear;
        Self { positions: whole.positions, loops: whole.loops, is_anchored }
    }
}

/// How often an atom is repeated.
#[derive(Debug, Clone, Copy)]
struct Repetition<'p> {
    /// How many positions each of the atom's becomes.
    most: usize,
    is_loop: bool,
    /// Whether it gives nothing back, which takes backtracking.
    is_possessive: bool,
    /// What follows.
    rest: &'p str,
}

impl<'p> Repetition<'p> {
    /// Reads `*`, `+`, `?`, `{2}` or `{2,5}`, with what may follow each of them.
    fn read(pattern: &'p str) -> Option<Self> {
        let (most, is_loop, rest) = match pattern.as_bytes().first()? {
            b'*' | b'+' => (1, true, &pattern[1..]),
            b'?' => (1, false, &pattern[1..]),
            b'{' => {
                let (inside, rest) = pattern[1..].split_once('}')?;
                let (least, most) = inside.split_once(',').unwrap_or((inside, inside));
                let number = |digits: &str| digits.trim().parse::<usize>().ok();
                let least = if least.trim().is_empty() { 0 } else { number(least)? };
                let is_open = most.trim().is_empty();
                let most = if is_open { least } else { number(most)? };
                (least.max(most).max(1), is_open || most > 1, rest)
            }
            _ => return None,
        };
        let is_possessive = rest.starts_with('+');
        let rest = rest.strip_prefix(['+', '?']).unwrap_or(rest);
        Some(Self { most, is_loop, is_possessive, rest })
    }
}

/// Whether a group looks around or gives nothing back. `rest` follows its parenthesis.
fn looks_around(rest: &str) -> bool {
    let Some(kind) = rest.strip_prefix('?') else { return false };
    let is_named = kind.starts_with('<') && !kind.starts_with("<=") && !kind.starts_with("<!");
    !is_named
        && !kind.starts_with(|char: char| char.is_ascii_alphabetic() || matches!(char, ':' | '-'))
}

/// What follows a class, given what follows its bracket. `None` if it has another bracket in it: in some dialects,
/// classes nest.
fn after_class(rest: &str) -> Option<&str> {
    let rest = rest.strip_prefix('^').unwrap_or(rest);
    // The first bracket is a character.
    let mut rest = rest.strip_prefix(']').unwrap_or(rest);
    loop {
        let char = rest.chars().next()?;
        rest = &rest[char.len_utf8()..];
        match char {
            '\\' => rest = &rest[rest.chars().next()?.len_utf8()..],
            '[' => return None,
            ']' => return Some(rest),
            _ => {}
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
            ("a{3,}|b{2,5}", 9),
            ("(a[ab]{300}c|d){2}", 610),
            ("(a(bc){3}){4}", 44),
            ("a{x}{,2}", 5),
            (r"[]\]()]{2}\{3}", 5),
            // They cannot be parsed.
            ("a)b{3}", 18),
            ("[a{5}", 25),
            ("[[]|a{5}]", 45),
            ("((a{2}){3}", 60),
            ("(?x)#[\n a{100}", 1400),
        ] {
            assert_eq!(Shape::of(pattern).positions, expected, "{pattern}");
        }
    }

    #[test]
    fn loops_around_what_looks_around_nest() {
        for (pattern, expected) in [
            ("a(?=b)", 0),
            ("(?!a)b", 0),
            ("(?<!a)b", 0),
            (r"(a)\1", 0),
            ("(?>a)", 0),
            ("(?(1)a|b)", 0),
            ("a?+", 0),
            ("a++", 1),
            ("^((?!a).)*$", 1),
            ("((?!a).){2,5}", 1),
            ("(((?=a)a)*b)+", 2),
            ("(?:(?=(?:(?=a*)(?>a?))*+)(?>a?))*+", 2),
        ] {
            assert_eq!(Shape::of(pattern).loops, Some(expected), "{pattern}");
        }
        for pattern in [
            "", "(?:a)", "(?i)a", "(?-i:a)", "(?P<n>a)", "(?<n>a)", "a+b*?", r"\++", "[*+]",
            "[(?=]",
        ] {
            assert_eq!(Shape::of(pattern).loops, None, "{pattern}");
        }
    }

    #[test]
    fn time_grows_with_the_text_and_what_is_repeated() {
        let millis = |pattern, bytes| Shape::of(pattern).time(bytes) / 1_000_000;
        assert_eq!(millis("^[a-z0-9]{1,64}$", 64), 0);
        assert_eq!(millis("a[ab]{300}c|b[ab]{300}e", 30_000), 217);
        assert_eq!(millis(r"^(?=.*[A-Z])(?=.*\d).{8,}$", 12), 0);
        assert_eq!(millis(r"(?=(a+))\1b", 100_000), 2500);
        assert_eq!(millis("^((?!<script).)*$", 10_000), 25);
        let nested = (0..6).fold("a*".to_owned(), |inner, _| format!("(?:(?={inner})(?>a?))*+"));
        assert!(millis(&format!("(?=a){nested}$"), 35) > 100_000);
        let most = Shape::of("((?=a)a)*b").time(usize::MAX);
        assert_eq!(most, usize::MAX / BYTES_PER_NS + 200_000);
    }
}
