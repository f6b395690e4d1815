//! How a model makes calls.

use serde::{Serialize, Serializer};

use crate::call_format::{MARKER_JSON, ROWS, Row};

/// How a model makes a call: `tools.call_contract`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallContract {
    /// It writes calls in its text, in this format, as the system prompt teaches.
    InText(&'static Row),
    /// The server gets the tools and reports calls separately from the text.
    Native,
}

impl CallContract {
    /// Every contract, with its name.
    pub(crate) fn all() -> impl Iterator<Item = (&'static str, Self)> {
        let in_text = ROWS.iter().map(|row| (row.name, Self::InText(row)));
        in_text.chain([("native", Self::Native)])
    }

    /// Its name in the configuration.
    #[must_use]
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::InText(row) => row.name,
            Self::Native => "native",
        }
    }

    /// Whether calls are in the model's text.
    #[must_use]
    pub(crate) const fn is_in_text(self) -> bool {
        matches!(self, Self::InText(_))
    }
}

impl Default for CallContract {
    fn default() -> Self {
        Self::InText(&MARKER_JSON)
    }
}

impl Serialize for CallContract {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}
