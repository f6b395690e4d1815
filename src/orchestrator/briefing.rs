//! A turn's briefing: what its model is told before the conversation begins. If the model can be
//! told about all tools, the briefing is made once and shared by every turn.

use std::sync::Arc;

use parking_lot::Mutex;

use super::known_tools::KnownTools;
use super::primer::Primer;
use super::prompt;
use super::rules::Rules;
use super::selection::Selection;
use crate::call_format::CallContract;
use crate::conversation::trim;
use crate::parser::SettingsError;
use crate::tools::Catalog;

/// A set of tools, and how models learn about them.
#[derive(Debug)]
pub struct Briefing {
    pub(super) rules: Arc<Rules>,
    nonce: Option<String>,
    /// The tools that may be called.
    pub(super) tools: Catalog,
    selection: Selection,
    /// Those that are told in full.
    pub(super) told: Catalog,
    pub(super) known: KnownTools,
    /// Roughly how many tokens describe those told in full.
    told_tokens: usize,
    /// The primer for upstreams of which nothing else is known.
    usual: Arc<Primer>,
    /// Those for other contracts, each made when an upstream with that contract answers.
    others: Mutex<Vec<Arc<Primer>>>,
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
        Self::selected(rules, nonce, tools, Selection::all(tools))
    }

    /// A briefing on `tools` that tells the model about those selected.
    ///
    /// # Errors
    /// If the parser's settings are not usable.
    pub fn selected(
        rules: &Arc<Rules>,
        nonce: Option<&str>,
        tools: &Catalog,
        selection: Selection,
    ) -> Result<Self, SettingsError> {
        let told = tools.select(&selection.told);
        let shown = prompt::Tools { all: tools, told: &told, selection: &selection };
        let usual = Arc::new(Primer::new(rules.call_contract, rules, nonce, &shown)?);
        Ok(Self {
            rules: Arc::clone(rules),
            nonce: nonce.map(str::to_owned),
            tools: tools.clone(),
            known: KnownTools::of(&selection, tools),
            told_tokens: selection.tokens(tools),
            selection,
            told,
            usual,
            others: Mutex::default(),
        })
    }

    /// The primer for a model with the usual contract.
    pub(super) const fn usual_primer(&self) -> &Arc<Primer> {
        &self.usual
    }

    /// The primer for a model with this contract. **The parser's settings must be valid for it.**
    pub(super) fn primer(&self, contract: CallContract) -> Arc<Primer> {
        if self.usual.contract == contract {
            return Arc::clone(&self.usual);
        }
        let mut others = self.others.lock();
        if let Some(known) = others.iter().find(|primer| primer.contract == contract) {
            return Arc::clone(known);
        }
        let Self { tools, told, selection, .. } = self;
        let tools = prompt::Tools { all: tools, told, selection };
        let primer = Primer::new(contract, &self.rules, self.nonce.as_deref(), &tools);
        let primer = Arc::new(primer.expect("`Rules::check` has passed"));
        others.push(Arc::clone(&primer));
        primer
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
        let primer = &self.usual;
        let by_server = if primer.contract.is_taught() { 0 } else { self.told_tokens };
        let budget = self.rules.context_budget_tokens;
        let result_bytes_max = trim::result_bytes(budget);
        let examples = primer.examples.tokens(primer.format(), result_bytes_max);
        trim::tokens(&primer.system) + examples + by_server
    }
}
