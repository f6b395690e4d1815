//! Which call contract fits a model, judged by what its server reports: `call_contract: auto`. Pure.
//!
//! ```text
//!   chat template, else a name ──> a known format? ── no ─────────────────────> marker_json
//!                                   │ yes
//!                                  below a billion parameters? ── yes ────────> marker_json
//!                                   │ no
//!                                  can its marks be read here? ── yes ────────> that format
//!                                   │ no
//!                                  can the server parse calls? ── yes / no ───> native / marker_json
//! ```
//! The template comes first because a merge or fine-tune keeps its base model's template under a
//! new name. The result is still a guess, so its reason is reported, and the configuration can
//! overrule it.

mod names;
mod templates;
#[cfg(test)]
mod tests;

use std::fmt;

use super::models::Flavour;
use crate::call_format::{CallContract, Row};

/// What a server says about itself and its model.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Report {
    /// The kind of server.
    pub(crate) flavour: Flavour,
    /// The model's names: as the server calls it, where it was loaded from.
    pub(crate) names: Vec<String>,
    /// The source of its chat template, if the server shows it.
    pub(crate) template: Option<String>,
    /// How many parameters it has, if the server says so.
    pub(crate) parameters: Option<u64>,
    /// Whether the server parses calls by itself; `None` if it does not say.
    pub(crate) calls_natively: Option<bool>,
    /// Whether special tokens are part of the text that the server sends.
    pub(crate) sends_special: bool,
}

/// A contract, and why it was chosen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Detected {
    /// The contract.
    pub(crate) contract: CallContract,
    /// What it was recognised by, to follow "because".
    pub(crate) reason: String,
    /// The format that the model was trained on, if that shows.
    pub(crate) format: Option<&'static Row>,
}

/// The contract of the model that a server reports.
#[must_use]
pub(crate) fn detect(report: &Report) -> Detected {
    let by_template = report.template.as_deref().and_then(templates::format_in);
    let by_name = || report.names.iter().find_map(|name| names::format_of(name));
    match by_template.or_else(by_name) {
        Some(evidence) if evidence.is_learnt_by(report) => evidence.in_use(report),
        Some(Evidence { sign, format }) => Detected {
            contract: CallContract::default(),
            format: Some(format),
            reason: format!(
                "{sign}, but the model has less than a billion parameters, so it is taught"
            ),
        },
        None => Detected {
            contract: CallContract::default(),
            format: None,
            reason: match report.template {
                Some(_) => "neither the chat template nor the model's name shows a known format",
                None => "the model's name belongs to no known family",
            }
            .to_owned(),
        },
    }
}

/// The format that the first of these names shows.
#[must_use]
pub(crate) fn format_by_name<'a>(names: impl IntoIterator<Item = &'a str>) -> Option<&'static Row> {
    names.into_iter().find_map(names::format_of).map(|evidence| evidence.format)
}

/// What shows that a model was trained on a format.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Evidence {
    format: &'static Row,
    sign: Sign,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Sign {
    /// These are in the chat template.
    Template(&'static [&'static str]),
    /// The model has a name with this in it.
    Name { name: String, family: &'static str },
}

impl Evidence {
    /// Whether a model as large as the reported one has learnt the format well enough. The smaller one
    /// that was measured makes more right calls, and answers more questions, when it is taught:
    /// docs/models.md.
    fn is_learnt_by(&self, report: &Report) -> bool {
        let is_small = report.parameters.is_some_and(|count| count < LEARNT_PARAMETERS_MIN);
        // Made for nothing but calls.
        !is_small || self.format.name == "functiongemma"
    }

    /// The contract of a model with this format on a server that reports this.
    fn in_use(&self, report: &Report) -> Detected {
        let Self { format, sign } = self;
        if report.sends_special || !format.has_special {
            let (contract, reason) = (CallContract::InText(format), sign.to_string());
            return Detected { contract, reason, format: Some(format) };
        }
        let (contract, can) = match report.calls_natively {
            Some(true) => (CallContract::Native, "but the server can parse calls"),
            Some(false) => (CallContract::default(), "and the server cannot parse calls"),
            None => {
                let unsaid = "and the server does not say whether it can parse calls";
                (CallContract::default(), unsaid)
            }
        };
        let lost = "its special tokens may be left out of the server's text";
        Detected { contract, reason: format!("{sign}; {lost}, {can}"), format: Some(format) }
    }
}

/// Smaller models are taught even if they were trained on a format.
const LEARNT_PARAMETERS_MIN: u64 = 1_000_000_000;

impl fmt::Display for Sign {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Template(marks) => {
                write!(f, "the chat template contains {}", marks.join(" and "))
            }
            Self::Name { name, family } => write!(f, "the model's name, {name}, contains {family}"),
        }
    }
}
