//! Grammar rules for text in which something does not occur.
//!
//! The rules are the states of a Knuth-Morris-Pratt matcher: in state `text-n`, the last `n`
//! characters are the first `n` of the marker. Each rule refers to the next one only at its
//! end, so llama.cpp's stack does not grow.

use std::fmt::Write as _;

use super::rules::{Rules, class, literal, push_class};

/// Pushes rules for any text up to and including the first `marker`, followed by the rule
/// `goal`, or for any text without the marker. Returns the start rule.
pub(super) fn push_up_to(rules: &mut Rules, name: &str, marker: &str, goal: &str) -> String {
    push_states(rules, name, marker, Some(goal))
}

/// Pushes rules for any text without the marker. Returns the start rule.
pub(super) fn push_without(rules: &mut Rules, name: &str, marker: &str) -> String {
    push_states(rules, name, marker, None)
}

/// Pushes the rule `other` for any text that does not begin with this.
pub(super) fn push_not_beginning_with(rules: &mut Rules, start: &str) {
    let mut body = String::from("\"\"");
    let mut before = String::new();
    for character in start.chars() {
        let differs = class(true, [character]);
        let _ = write!(body, " | {} {differs} any", literal(&before));
        before.push(character);
        if before.len() < start.len() {
            let _ = write!(body, " | {}", literal(&before));
        }
    }
    rules.push("other", &body);
    push_any(rules);
}

/// Pushes the rule `any` for any text.
pub(super) fn push_any(rules: &mut Rules) {
    rules.push("any", "\"\" | [^\\x00] any");
}

fn push_states(rules: &mut Rules, name: &str, marker: &str, goal: Option<&str>) -> String {
    let marker: Vec<char> = marker.chars().collect();
    let falls = falls(&marker);
    for state in 0..marker.len() {
        // The characters that keep part of the match, and how much of it.
        let mut kept: Vec<(char, usize)> = Vec::with_capacity(4);
        for &character in &marker {
            let matched = matched_after(&marker, &falls, state, character);
            if matched > 0 && !kept.iter().any(|(known, _)| *known == character) {
                kept.push((character, matched));
            }
        }
        rules.push_with(format_args!("{name}-{state}"), |body| {
            body.push_str("\"\" | ");
            push_class(body, true, kept.iter().map(|(character, _)| *character));
            let _ = write!(body, " {name}-0");
            for (character, matched) in kept {
                let is_whole = matched == marker.len();
                if is_whole && goal.is_none() {
                    continue;
                }
                body.push_str(" | ");
                push_class(body, false, [character]);
                let _ = match goal.filter(|_| is_whole) {
                    Some(goal) => write!(body, " {goal}"),
                    None => write!(body, " {name}-{matched}"),
                };
            }
        });
    }
    format!("{name}-0")
}

/// How much of the marker is still matched where its first characters, one more each time, end and the next one
/// differs: the longest beginning of it, but not all, with which they end.
fn falls(marker: &[char]) -> Vec<usize> {
    let mut falls = Vec::with_capacity(marker.len());
    for (at, &character) in marker.iter().enumerate() {
        let fall =
            if at == 0 { 0 } else { matched_after(marker, &falls, falls[at - 1], character) };
        falls.push(fall);
    }
    falls
}

/// How much of the marker is matched when `character` follows its first `state` characters.
fn matched_after(marker: &[char], falls: &[usize], mut state: usize, character: char) -> usize {
    while marker.get(state) != Some(&character) {
        if state == 0 {
            return 0;
        }
        state = falls[state - 1];
    }
    state + 1
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{falls, matched_after};

    proptest! {
        #[test]
        fn the_states_find_the_first_marker(marker in "[ab<]{1,5}", text in "[ab<]{0,40}") {
            let characters: Vec<char> = marker.chars().collect();
            let (mut state, falls) = (0, falls(&characters));
            let found = text.chars().position(|character| {
                state = matched_after(&characters, &falls, state, character);
                state == characters.len()
            });
            prop_assert_eq!(found.map(|last| last + 1 - characters.len()), text.find(&marker));
        }
    }
}
