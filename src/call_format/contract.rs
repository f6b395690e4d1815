//! How a model makes calls.

use serde::{Serialize, Serializer};

use super::{CallFormat, MARKER_JSON, ROWS, Row};

/// How a model makes a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallContract {
    /// It writes calls in its text, in this format, as the system prompt teaches.
    InText(&'static Row),
    /// It writes calls in its text, in this format, as the chat template teaches: the template gets
    /// the tools. Only an upstream that renders the template knows whether this is possible.
    Templated(&'static Row),
    /// The server gets the tools and reports calls separately from the text.
    Native,
}

/// Which contract an upstream has: `tools.call_contract` and `upstreams[].call_contract`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ContractSetting {
    /// The one that its server and its model suggest.
    Auto,
    /// This one.
    Is(CallContract),
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
            Self::InText(row) | Self::Templated(row) => row.name,
            Self::Native => "native",
        }
    }

    /// Whether calls are in the model's text.
    #[must_use]
    pub(crate) const fn is_in_text(self) -> bool {
        self.row().is_some()
    }

    /// The format of calls in the model's text, if they are there.
    #[must_use]
    pub(crate) const fn row(self) -> Option<&'static Row> {
        match self {
            Self::InText(row) | Self::Templated(row) => Some(row),
            Self::Native => None,
        }
    }

    /// Whether the system prompt teaches the model how to call tools. Otherwise the model's server,
    /// or its chat template, presents the tools.
    #[must_use]
    pub(crate) const fn is_taught(self) -> bool {
        matches!(self, Self::InText(_))
    }

    /// How calls are written. In formats that the prompt teaches, the marker opens them.
    #[must_use]
    pub(crate) fn format(self, marker: &str) -> CallFormat {
        match self.row() {
            Some(row) => CallFormat::of(row).with_opener(marker),
            // Never read, but still kept out of what the model is shown.
            None => CallFormat::marker(marker),
        }
    }
}

impl ContractSetting {
    /// Every setting, with its name.
    pub(crate) fn all() -> impl Iterator<Item = (&'static str, Self)> {
        let contracts = CallContract::all().map(|(name, contract)| (name, Self::Is(contract)));
        contracts.chain([("auto", Self::Auto)])
    }

    /// Its name in the configuration.
    #[must_use]
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Is(contract) => contract.name(),
        }
    }

    /// Whether it is native calls.
    #[must_use]
    pub(crate) fn is_native(self) -> bool {
        self == Self::Is(CallContract::Native)
    }

    /// The contract, or the one that any model can be taught as long as none is known.
    #[must_use]
    pub(crate) fn or_taught(self) -> CallContract {
        match self {
            Self::Auto => CallContract::default(),
            Self::Is(contract) => contract,
        }
    }
}

impl Default for CallContract {
    fn default() -> Self {
        Self::InText(&MARKER_JSON)
    }
}

impl Default for ContractSetting {
    fn default() -> Self {
        Self::Is(CallContract::default())
    }
}

impl Serialize for CallContract {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

impl Serialize for ContractSetting {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}
