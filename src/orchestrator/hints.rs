//! The sentence that users see before tools run, made from the tools' waiting hints.

use crate::limits::turn::ACKNOWLEDGED_HINTS_MAX;

/// Joins waiting hints as a person would: "Looking up your appointments and checking your
/// billing." `None` if there are none.
pub(super) fn sentence<'a>(hints: impl Iterator<Item = &'a str>) -> Option<String> {
    let mut said: Vec<&str> = Vec::new();
    for hint in hints.map(|hint| hint.trim().trim_end_matches(['.', '…'])) {
        if !hint.is_empty() && !said.contains(&hint) {
            said.push(hint);
        }
    }
    let mut first = said.first()?.chars();
    let mut sentence: String = first.next().into_iter().flat_map(char::to_uppercase).collect();
    sentence.push_str(first.as_str());
    let last = said.len().min(ACKNOWLEDGED_HINTS_MAX) - 1;
    for (at, hint) in said.iter().enumerate().take(last + 1).skip(1) {
        let is_last = at == last && said.len() <= ACKNOWLEDGED_HINTS_MAX;
        sentence.push_str(if is_last { " and " } else { ", " });
        push_inside(&mut sentence, hint);
    }
    if said.len() > ACKNOWLEDGED_HINTS_MAX {
        sentence.push_str(" and more");
    }
    sentence.push('.');
    Some(sentence)
}

/// Appends a hint and lowers its first letter, unless its first word is an acronym: "checking", but
/// "CRM".
fn push_inside(sentence: &mut String, hint: &str) {
    let mut chars = hint.chars();
    let (first, second) = (chars.next(), chars.next());
    match first {
        Some(first) if second.is_none_or(char::is_lowercase) => {
            sentence.extend(first.to_lowercase());
            sentence.push_str(&hint[first.len_utf8()..]);
        }
        _ => sentence.push_str(hint),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(hints: &[&str], expected: Option<&str>) {
        assert_eq!(sentence(hints.iter().copied()).as_deref(), expected);
    }

    #[test]
    fn hints_are_joined_as_a_person_would() {
        check(&[], None);
        check(&["", " "], None);
        check(&["checking the time"], Some("Checking the time."));
        check(&["Checking the time."], Some("Checking the time."));
        check(
            &["Looking up your appointments", "Checking your billing"],
            Some("Looking up your appointments and checking your billing."),
        );
        check(&["One", "Two", "Three"], Some("One, two and three."));
        check(&["One", "Two", "Three", "Four", "Five"], Some("One, two, three and more."));
    }

    #[test]
    fn a_hint_is_said_once() {
        check(&["Checking the time", "Checking the time", ""], Some("Checking the time."));
    }

    #[test]
    fn names_keep_their_capitals() {
        check(&["Asking HR", "CRM lookup", "Éditant"], Some("Asking HR, CRM lookup and éditant."));
    }
}
