//! Which contract a model has, by what its server reports: `call_contract: auto`. Pure.
//!
//! ```text
//!   chat template ── a signature ──┐
//!   names ────────── a family ─────┤── the family's format ── reaches us? ── yes ─> that format
//!                                  │                             └───────── no ──> native calls
//!   nothing known ─────────────────┴────────────────────────────────────────────> marker_json
//! ```
//! A model below a billion parameters is taught in any case. A template says more than a name, since names lie: merges and fine-tunes keep their base model's
//! template. What is found this way is still a guess, so the reason is reported with it, and the
//! configuration can overrule it.

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
}

/// The contract of the model that a server reports.
#[must_use]
pub(crate) fn detect(report: &Report) -> Detected {
    let by_template = report.template.as_deref().and_then(templates::format_in);
    let by_name = || report.names.iter().find_map(|name| names::format_of(name));
    match by_template.or_else(by_name) {
        Some(evidence) if evidence.is_learnt_by(report) => evidence.in_use(report),
        Some(Evidence { sign, .. }) => Detected {
            contract: CallContract::default(),
            reason: format!("{sign}, but models below a billion parameters do better when taught"),
        },
        None => Detected {
            contract: CallContract::default(),
            reason: match report.template {
                Some(_) => "neither the chat template nor the model's name shows a known format",
                None => "the model's name belongs to no known family",
            }
            .to_owned(),
        },
    }
}

/// What shows that a model was trained on a format.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Evidence {
    /// The format's name. Not all formats that models have can be read.
    format: &'static str,
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
    /// Whether a model as large as the reported one has learnt the format well enough. Smaller ones
    /// make more right calls, and answer more questions, when they are taught: docs/models.md.
    fn is_learnt_by(&self, report: &Report) -> bool {
        let is_small = report.parameters.is_some_and(|count| count < LEARNT_PARAMETERS_MIN);
        // Made for nothing but calls.
        !is_small || self.format == "functiongemma"
    }

    /// The contract of a model with this format on a server that reports this.
    fn in_use(&self, report: &Report) -> Detected {
        let Self { format, sign } = self;
        let (contract, why) = match Row::named(format) {
            Some(row) if report.sends_special || !row.has_special => {
                (CallContract::InText(row), String::new())
            }
            known => {
                let lost = match known {
                    Some(_) => format!("its server leaves the marks of {format} out of the text"),
                    None => format!("Tether does not read {format}"),
                };
                if report.calls_natively.unwrap_or_default() {
                    (CallContract::Native, format!("; {lost}, but the server finds calls itself"))
                } else {
                    (CallContract::default(), format!("; {lost}, and the server finds no calls"))
                }
            }
        };
        Detected { contract, reason: format!("{sign}{why}") }
    }
}

/// From how many parameters on a model is taken to have learnt its format.
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
