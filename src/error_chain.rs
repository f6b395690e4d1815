//! Errors and what caused them.

use std::error::Error;
use std::iter;

/// An error, and all that caused it.
pub(crate) fn causes<'e>(
    error: &'e (dyn Error + 'static),
) -> impl Iterator<Item = &'e (dyn Error + 'static)> {
    iter::successors(Some(error), |error| (*error).source())
}

/// The innermost cause: `connection refused` rather than `client error`.
pub(crate) fn root_cause(error: &(dyn Error + 'static)) -> String {
    causes(error).last().map_or_else(|| error.to_string(), ToString::to_string)
}

/// An error with all that caused it: `client error (Connect): tcp connect error: Connection refused (os error 111)`.
pub(crate) fn with_causes(error: &(dyn Error + 'static)) -> String {
    let mut told = error.to_string();
    for cause in causes(error).skip(1) {
        let cause = cause.to_string();
        // Errors that only wrap another one repeat it.
        if !told.ends_with(&cause) {
            told.extend([": ", &cause]);
        }
    }
    told
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("{0}")]
    struct Link(&'static str, #[source] Option<Box<Self>>);

    fn chain(words: &[&'static str]) -> Link {
        let (first, rest) = words.split_first().unwrap();
        Link(first, (!rest.is_empty()).then(|| Box::new(chain(rest))))
    }

    #[test]
    fn an_error_is_told_with_its_causes() {
        for (words, root, all) in [
            (&["client error"][..], "client error", "client error"),
            (&["client error", "refused"], "refused", "client error: refused"),
            (&["lost: refused", "refused"], "refused", "lost: refused"),
        ] {
            let error = chain(words);
            assert_eq!((&*root_cause(&error), &*with_causes(&error)), (root, all));
        }
    }
}
