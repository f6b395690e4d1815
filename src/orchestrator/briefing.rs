//! A turn's briefing: what its model is told before the conversation begins. It is made once for a
//! set of tools and shared by every turn that offers them.

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
    /// The server is sent the tools and reports calls separately from the text.
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

/// A set of tools, and how the model learns about them.
#[derive(Debug)]
pub struct Briefing {
    pub(super) tools: Catalog,
    /// The tools in the form that constraints and native calls need.
    pub(super) offered: Arc<[OfferedTool]>,
    /// The system message.
    pub(super) system: String,
    /// Exchanges shown to the model before the session's own.
    pub(super) examples: Arc<[Turn]>,
    /// How calls are written, and what outside data must not contain.
    pub(super) format: CallFormat,
    /// Roughly how many tokens the server adds to its prompt for the tools; 0 if the system
    /// message lists them instead.
    pub(super) offer_tokens: usize,
}

impl Briefing {
    /// A briefing on `tools` for a model that writes its calls in this format. The system message
    /// begins with the operator's instructions.
    #[must_use]
    pub fn new(instructions: &str, format: &CallFormat, tools: &Catalog) -> Self {
        let system = prompt::system(instructions, tools, format);
        let examples = prompt::examples(tools).into();
        Self { examples, ..Self::with(tools, system, format) }
    }

    /// A briefing on `tools` for a server that presents them to the model itself. The prompt does
    /// not teach how to call them.
    #[must_use]
    pub(crate) fn native(instructions: &str, format: &CallFormat, tools: &Catalog) -> Self {
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
}
