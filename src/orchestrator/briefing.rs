//! What a turn's model is told before anything is said: made once for a set of
//! tools, shared by all turns that have it.

use std::sync::Arc;

use serde::{Serialize, Serializer};

use super::prompt;
use crate::call_format::{CallFormat, MARKER_JSON, ROWS, Row};
use crate::conversation::{Turn, trim};
use crate::tools::{Catalog, ToolSpec};
use crate::upstream::OfferedTool;

/// How a model makes a call: `tools.call_contract`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallContract {
    /// It writes calls in its text, in this format, as the system prompt teaches.
    InText(&'static Row),
    /// Its server is told of the tools and tells the calls from the words.
    Native,
}

impl CallContract {
    /// All of them, by name.
    pub fn all() -> impl Iterator<Item = (&'static str, Self)> {
        let in_text = ROWS.iter().map(|row| (row.name, Self::InText(row)));
        in_text.chain([("native", Self::Native)])
    }

    /// Its name in the configuration.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::InText(row) => row.name,
            Self::Native => "native",
        }
    }

    /// Whether calls are in the model's text.
    #[must_use]
    pub const fn is_in_text(self) -> bool {
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
    /// How calls are written, and what data from outside may not hold.
    pub(super) format: CallFormat,
    /// Tokens that the server's own telling of the tools takes, about; none where the
    /// system message tells of them.
    pub(super) offer_tokens: usize,
}

impl Briefing {
    /// A briefing on `tools`, whose calls are written in this format, after the operator's own
    /// instructions.
    #[must_use]
    pub fn new(instructions: &str, format: &CallFormat, tools: &Catalog) -> Self {
        let system = prompt::system(instructions, tools, format);
        let examples = prompt::examples(tools).into();
        Self { examples, ..Self::with(tools, system, format) }
    }

    /// A briefing on `tools` for servers that tell the model of them: no call is
    /// taught.
    #[must_use]
    pub fn native(instructions: &str, format: &CallFormat, tools: &Catalog) -> Self {
        let system = prompt::native_system(instructions, tools);
        let of_tool = |spec: &ToolSpec| {
            trim::tokens(&spec.name)
                + trim::tokens(&spec.description)
                + trim::tokens(&spec.parameters.to_string())
        };
        let offer_tokens = tools.specs().map(of_tool).sum();
        Self { offer_tokens, ..Self::with(tools, system, format) }
    }

    fn with(tools: &Catalog, system: String, format: &CallFormat) -> Self {
        let offered = tools
            .specs()
            .map(|spec| OfferedTool {
                name: spec.name.clone(),
                description: spec.description.clone(),
                parameters: spec.parameters.clone(),
            })
            .collect();
        let (format, examples) = (format.clone(), Arc::default());
        Self { tools: tools.clone(), offered, system, examples, format, offer_tokens: 0 }
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
