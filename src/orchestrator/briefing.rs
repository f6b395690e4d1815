//! A turn's briefing: what its model is told before the conversation begins. It is made once for a
//! set of tools and shared by every turn that offers them.

use std::sync::Arc;

use super::call_contract::CallContract;
use super::prompt;
use super::rules::Rules;
use crate::call_format::CallFormat;
use crate::conversation::{Turn, trim};
use crate::parser::{SettingsError, Syntax};
use crate::tools::{Catalog, ToolSpec};
use crate::upstream::OfferedTool;

/// A set of tools, and how the model learns about them.
#[derive(Debug)]
pub struct Briefing {
    pub(super) rules: Arc<Rules>,
    pub(super) tools: Catalog,
    /// The tools in the form that constraints and native calls need.
    pub(super) offered: Arc<[OfferedTool]>,
    /// The system message.
    pub(super) system: String,
    /// Exchanges shown to the model before the session's own.
    pub(super) examples: Arc<[Turn]>,
    /// How the model's words are read.
    pub(super) syntax: Arc<Syntax>,
    /// Roughly how many tokens the server adds to its prompt for the tools; 0 if the system
    /// message lists them instead.
    pub(super) offer_tokens: usize,
}

impl Briefing {
    /// A briefing on `tools`. The marker of calls carries the nonce, if there is one.
    ///
    /// # Errors
    /// If the parser's settings are not usable.
    pub fn new(
        rules: &Arc<Rules>,
        nonce: Option<&str>,
        tools: &Catalog,
    ) -> Result<Self, SettingsError> {
        let syntax = Syntax::new(rules.parser_settings(nonce))?;
        let mut briefing = Self {
            rules: Arc::clone(rules),
            tools: tools.clone(),
            offered: tools.specs().map(offer).collect(),
            system: String::new(),
            examples: Arc::default(),
            syntax: Arc::new(syntax),
            offer_tokens: 0,
        };
        match rules.call_contract {
            CallContract::InText(_) => briefing.teach(),
            CallContract::Native => briefing.leave_to_server(),
        }
        Ok(briefing)
    }

    /// Lists the tools in the system message and shows how they are called.
    fn teach(&mut self) {
        self.system = prompt::system(&self.rules.system_prompt, &self.tools, self.format());
        self.examples = prompt::examples(&self.tools).into();
    }

    /// Leaves it to the server to present the tools to the model. The prompt does not teach how to
    /// call them.
    fn leave_to_server(&mut self) {
        self.system = prompt::native_system(&self.rules.system_prompt, &self.tools);
        let of_tool = |spec: &ToolSpec| {
            trim::tokens(&spec.name)
                + trim::tokens(&spec.description)
                + trim::tokens(&spec.told_parameters().to_string())
        };
        self.offer_tokens = self.tools.specs().map(of_tool).sum();
    }

    /// How calls are written, and what outside data must not contain.
    pub(super) fn format(&self) -> &CallFormat {
        &self.syntax.settings().format
    }
}

fn offer(spec: &ToolSpec) -> OfferedTool {
    OfferedTool {
        name: spec.name.clone(),
        description: spec.description.clone(),
        parameters: spec.told_parameters().clone(),
    }
}
