//! Mistakes in a configuration, reported so that they can be fixed without looking anything up:
//! place, key, what was found, what was expected.

use std::fmt;

use super::raw::Place;
use crate::limits::config::MISTAKES_SHOWN_MAX;

/// A configuration that cannot be used, with every mistake in it.
///
/// Displays as one line if there is a single mistake, else as a heading with one line per
/// mistake, up to [`MISTAKES_SHOWN_MAX`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct ConfigError {
    /// The file's name as it was given, or a description if there is no file.
    pub source_name: String,
    /// In file order; never empty.
    pub mistakes: Vec<Mistake>,
}

/// One thing to fix.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mistake {
    /// The place in the file, if it has one.
    pub place: Option<Place>,
    /// The path of the key, `upstreams[0].base_url`; empty for the whole file.
    pub key: String,
    /// What is wrong. Never holds a secret or a value of the environment.
    pub message: String,
}

impl Mistake {
    /// A mistake of several keys together, and so of no single place.
    pub(super) const fn of_several(key: String, message: String) -> Self {
        Self { place: None, key, message }
    }
}

impl ConfigError {
    /// Creates an error with `mistakes` sorted into file order.
    #[must_use]
    pub(super) fn new(source_name: &str, mut mistakes: Vec<Mistake>) -> Self {
        mistakes.sort_by_key(|mistake| mistake.place);
        Self { source_name: source_name.to_owned(), mistakes }
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let separator = match self.mistakes.len() {
            1 => "",
            many => {
                write!(f, "{many} errors in the configuration")?;
                "\n  "
            }
        };
        for mistake in self.mistakes.iter().take(MISTAKES_SHOWN_MAX) {
            f.write_str(separator)?;
            f.write_str(&self.source_name)?;
            if let Some(Place { line, column }) = mistake.place {
                write!(f, ":{line}:{column}")?;
            }
            if !mistake.key.is_empty() {
                write!(f, ": {}", mistake.key)?;
            }
            write!(f, ": {}", mistake.message)?;
        }
        match self.mistakes.len().saturating_sub(MISTAKES_SHOWN_MAX) {
            0 => Ok(()),
            more => write!(f, "\n  and {more} more"),
        }
    }
}
