//! Names in an entry that nothing at its source has. Most are typos, and they matter: a tool whose name is misspelt in
//! `deny` is offered.

use super::Glob;
use crate::text::closest;

/// What to tell an operator of the names under `key` that are none of the `known` ones, which are names of a `what`. A
/// pattern with `*` or `?` may be meant for what does not exist yet.
pub(crate) fn unmatched<'g>(
    key: &str,
    what: &str,
    globs: impl IntoIterator<Item = &'g Glob>,
    known: &[&str],
) -> Vec<String> {
    let is_unmatched =
        |glob: &&Glob| glob.is_plain() && !known.iter().any(|name| glob.matches(name));
    let globs = globs.into_iter().filter(is_unmatched);
    globs.map(|glob| of_name(key, what, &glob.to_string(), known)).collect()
}

/// What to tell an operator of this name.
pub(crate) fn of_name(key: &str, what: &str, name: &str, known: &[&str]) -> String {
    let meant = closest(name, known.iter().copied());
    let meant = meant.map(|meant| format!("; did you mean `{meant}`?")).unwrap_or_default();
    format!("`{key}` names `{name}`, but there is no such {what}{meant}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_typo_is_told_with_what_was_probably_meant() {
        let globs = ["move_fil", "read_file", "delete_*", "mail"].map(Glob::new);
        let told = unmatched("deny", "tool", &globs, &["read_file", "move_file"]);
        assert_eq!(
            told,
            [
                "`deny` names `move_fil`, but there is no such tool; did you mean `move_file`?",
                "`deny` names `mail`, but there is no such tool",
            ]
        );
    }
}
