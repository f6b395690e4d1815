//! A turn's briefing: what its model is told before the conversation begins. If the model can be
//! told about all tools, the briefing is made once and shared by every turn.

use std::sync::Arc;

use super::call_contract::CallContract;
use super::known_tools::KnownTools;
use super::prompt;
use super::rules::Rules;
use super::selection::Selection;
use crate::call_format::CallFormat;
use crate::conversation::{Turn, render, trim};
use crate::parser::{SettingsError, Syntax, Tools};
use crate::tools::Catalog;

/// A set of tools, and how the model learns about them.
#[derive(Debug)]
pub struct Briefing {
    pub(super) rules: Arc<Rules>,
    /// The tools that may be called.
    pub(super) tools: Catalog,
    /// Those that are told in full.
    pub(super) told: Catalog,
    pub(super) known: KnownTools,
    /// Roughly how many tokens describe those told in full.
    pub(super) told_tokens: usize,
    /// The system message.
    pub(super) system: String,
    /// Exchanges shown to the model before the session's own.
    pub(super) examples: Arc<[Turn]>,
    /// How the model's words are read.
    pub(super) syntax: Arc<Syntax>,
}

impl Briefing {
    /// A briefing on `tools`, all of which are told in full. The marker of calls carries the nonce,
    /// if there is one.
    ///
    /// # Errors
    /// If the parser's settings are not usable.
    pub fn new(
        rules: &Arc<Rules>,
        nonce: Option<&str>,
        tools: &Catalog,
    ) -> Result<Self, SettingsError> {
        Self::selected(rules, nonce, tools, &Selection::all(tools))
    }

    /// A briefing on `tools` that tells the model about those selected.
    ///
    /// # Errors
    /// If the parser's settings are not usable.
    pub fn selected(
        rules: &Arc<Rules>,
        nonce: Option<&str>,
        tools: &Catalog,
        selection: &Selection,
    ) -> Result<Self, SettingsError> {
        let mut settings = rules.parser_settings(nonce);
        settings.tools = offered(&settings.format, tools);
        let syntax = Syntax::new(settings)?;
        let mut briefing = Self {
            rules: Arc::clone(rules),
            tools: tools.clone(),
            told: tools.select(&selection.told),
            known: KnownTools::of(selection, tools),
            told_tokens: selection.tokens(tools),
            system: String::new(),
            examples: Arc::default(),
            syntax: Arc::new(syntax),
        };
        match rules.call_contract {
            CallContract::InText(_) => briefing.teach(selection),
            CallContract::Native => briefing.leave_to_server(selection),
        }
        Ok(briefing)
    }

    /// Lists the tools in the system message and shows how they are called.
    fn teach(&mut self, selection: &Selection) {
        let tools = prompt::Tools { all: &self.tools, told: &self.told, selection };
        self.system = prompt::system(&self.rules.system_prompt, &tools, self.format());
        self.examples = prompt::examples(&self.told).into();
    }

    /// Leaves it to the server to present the tools to the model. The prompt does not teach how to
    /// call them.
    fn leave_to_server(&mut self, selection: &Selection) {
        let tools = prompt::Tools { all: &self.tools, told: &self.told, selection };
        self.system = prompt::native_system(&self.rules.system_prompt, &tools);
    }

    /// Whether it was made by these rules.
    #[must_use]
    pub(crate) fn is_by(&self, rules: &Arc<Rules>) -> bool {
        Arc::ptr_eq(&self.rules, rules)
    }

    /// How many tools the model is told about in full, and in roughly how many tokens.
    #[must_use]
    pub fn told(&self) -> (usize, usize) {
        (self.told.specs().len(), self.told_tokens)
    }

    /// About how many tokens all of it takes.
    #[must_use]
    pub(crate) fn tokens(&self) -> usize {
        let by_server = if self.rules.call_contract.is_in_text() { 0 } else { self.told_tokens };
        let budget = self.rules.context_budget_tokens;
        let examples = render::example_tokens(&self.examples, self.format(), budget);
        trim::tokens(&self.system) + examples + by_server
    }

    /// How calls are written, and what outside data must not contain.
    pub(super) fn format(&self) -> &CallFormat {
        &self.syntax.settings().format
    }
}

/// The tools, for formats that are read with their help.
fn offered(format: &CallFormat, tools: &Catalog) -> Tools {
    if format.row().needs_tools() {
        Tools::of(tools.specs().map(|spec| (&*spec.name, &spec.parameters)))
    } else {
        Tools::default()
    }
}
