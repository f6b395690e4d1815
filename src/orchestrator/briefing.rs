//! What a turn's model is told before anything is said: made once for a set of
//! tools, shared by all turns that have it.

use std::sync::Arc;

use serde::Serialize;

use super::prompt;
use crate::conversation::{Turn, trim};
use crate::tools::{Catalog, ToolSpec};
use crate::upstream::OfferedTool;

/// How a model makes a call: `tools.call_contract`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum CallContract {
    /// It writes a marker, then JSON, as the system prompt teaches.
    #[default]
    MarkerJson,
    /// Its server is told of the tools and tells the calls from the words.
    Native,
}

/// A set of tools, and how a model hears of it.
#[derive(Debug)]
pub struct Briefing {
    pub(super) tools: Catalog,
    /// The tools as constraints and native calls are made from them.
    pub(super) offered: Arc<[OfferedTool]>,
    /// The system message.
    pub(super) system: String,
    /// Exchanges that are shown to the model before the session's own.
    pub(super) examples: Arc<[Turn]>,
    /// What opens a call; nothing where the server tells calls from words.
    pub(super) marker: Arc<str>,
    /// Tokens that the server's own telling of the tools takes, about; none where the
    /// system message tells of them.
    pub(super) offer_tokens: usize,
}

/// A marker with a nonce in it, behind its last letter or digit: of
/// `<<function_call>>`, `<<function_call:7f3a>>`. Text from outside cannot name it.
#[must_use]
pub fn marker_with_nonce(marker: &str, nonce: &str) -> String {
    let last = marker.char_indices().rev().find(|(_, char)| char.is_alphanumeric());
    let end = last.map_or(marker.len(), |(at, char)| at + char.len_utf8());
    format!("{}:{nonce}{}", &marker[..end], &marker[end..])
}

impl Briefing {
    /// A briefing on `tools`, whose calls begin with `marker`, behind the
    /// operator's own instructions.
    #[must_use]
    pub fn new(instructions: &str, marker: &str, tools: &Catalog) -> Self {
        let system = prompt::system(instructions, tools, marker);
        let examples = prompt::examples(tools).into();
        Self { examples, ..Self::with(tools, system, marker) }
    }

    /// A briefing on `tools` for servers that tell the model of them: no call is
    /// taught.
    #[must_use]
    pub fn native(instructions: &str, tools: &Catalog) -> Self {
        let system = prompt::native_system(instructions, tools);
        let of_tool = |spec: &ToolSpec| {
            trim::tokens(&spec.name)
                + trim::tokens(&spec.description)
                + trim::tokens(&spec.parameters.to_string())
        };
        let offer_tokens = tools.specs().map(of_tool).sum();
        Self { offer_tokens, ..Self::with(tools, system, "") }
    }

    fn with(tools: &Catalog, system: String, marker: &str) -> Self {
        let offered = tools
            .specs()
            .map(|spec| OfferedTool {
                name: spec.name.clone(),
                description: spec.description.clone(),
                parameters: spec.parameters.clone(),
            })
            .collect();
        let (marker, examples) = (marker.into(), Arc::default());
        Self { tools: tools.clone(), offered, system, examples, marker, offer_tokens: 0 }
    }

    /// The tools.
    #[must_use]
    pub const fn tools(&self) -> &Catalog {
        &self.tools
    }

    /// The system message that the model is sent.
    #[must_use]
    pub fn system(&self) -> &str {
        &self.system
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_nonce_stands_behind_the_markers_last_letter() {
        for (marker, expected) in [
            ("<<function_call>>", "<<function_call:7f3a>>"),
            ("[[do]]", "[[do:7f3a]]"),
            ("CALL", "CALL:7f3a"),
            ("§§", "§§:7f3a"),
            ("<é>", "<é:7f3a>"),
        ] {
            assert_eq!(marker_with_nonce(marker, "7f3a"), expected);
        }
    }
}
