//! Grammar rules for text in which something does not occur.
//!
//! The rules are the states of a Knuth-Morris-Pratt matcher: in state `text-n`, the last `n`
//! characters are the first `n` of the marker. Each rule refers to the next one only at its
//! end, so llama.cpp's stack does not grow.

use std::fmt::Write as _;

use super::rules::{Rules, class, literal};

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
    let state_name = |state: usize| format!("{name}-{state}");
    for state in 0..marker.len() {
        // The characters that keep part of the match, and how much of it.
        let mut kept: Vec<(char, usize)> = Vec::new();
        for &character in &marker {
            let matched = matched_after(&marker, state, character);
            if matched > 0 && !kept.iter().any(|(known, _)| *known == character) {
                kept.push((character, matched));
            }
        }
        let others = class(true, kept.iter().map(|(character, _)| *character));
        let mut body = format!("\"\" | {others} {}", state_name(0));
        for (character, matched) in kept {
            let next = if matched == marker.len() {
                let Some(goal) = goal else { continue };
                goal.to_owned()
            } else {
                state_name(matched)
            };
            body.push_str(" | ");
            body.push_str(&class(false, [character]));
            body.push(' ');
            body.push_str(&next);
        }
        rules.push(&state_name(state), &body);
    }
    state_name(0)
}

/// How much of the marker is matched when `character` follows its first `state` characters.
/// Markers are short, so nothing is precomputed.
fn matched_after(marker: &[char], state: usize, character: char) -> usize {
    let mut seen = marker[..state].to_vec();
    seen.push(character);
    (1..=seen.len()).rev().find(|length| seen.ends_with(&marker[..*length])).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::matched_after;

    proptest! {
        #[test]
        fn the_states_find_the_first_marker(marker in "[ab<]{1,5}", text in "[ab<]{0,40}") {
            let characters: Vec<char> = marker.chars().collect();
            let mut state = 0;
            let found = text.chars().position(|character| {
                state = matched_after(&characters, state, character);
                state == characters.len()
            });
            prop_assert_eq!(found.map(|last| last + 1 - characters.len()), text.find(&marker));
        }
    }
}
