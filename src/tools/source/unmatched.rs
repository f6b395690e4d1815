//! Names in an entry that nothing at its source has. Most are typos, and they matter: a tool whose name is misspelt in
//! `deny` is offered.

use super::Glob;
use crate::text::closest;

/// Warnings about the names under `key` that are none of the `known` ones, which are names of a `what`. A pattern with
/// `*` or `?` may be meant for what does not exist yet.
pub(crate) fn unmatched<'g>(
    key: &str,
    what: &str,
    globs: impl IntoIterator<Item = &'g Glob>,
    known: &[impl AsRef<str>],
) -> Vec<String> {
    let is_unmatched =
        |glob: &&Glob| glob.is_plain() && !known.iter().any(|name| glob.matches(name.as_ref()));
    let globs = globs.into_iter().filter(is_unmatched);
    globs.map(|glob| warning_for(key, what, &glob.to_string(), known)).collect()
}

/// The warning about a name that is none of these.
pub(crate) fn warning_for(key: &str, what: &str, name: &str, known: &[impl AsRef<str>]) -> String {
    // Strangers choose names.
    let known = known.iter().map(AsRef::as_ref).filter(|known| !known.contains(char::is_control));
    let meant = closest(name, known);
    let meant = meant.map(|meant| format!("; did you mean `{meant}`?")).unwrap_or_default();
    format!("`{key}` names `{name}`, but there is no such {what}{meant}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_typo_is_reported_with_what_was_probably_meant() {
        let globs = ["move_fil", "read_file", "delete_*", "mail"].map(Glob::new);
        let warnings = unmatched("deny", "tool", &globs, &["read_file", "move_file", "mai\n"]);
        assert_eq!(
            warnings,
            [
                "`deny` names `move_fil`, but there is no such tool; did you mean `move_file`?",
                "`deny` names `mail`, but there is no such tool",
            ]
        );
    }
}
