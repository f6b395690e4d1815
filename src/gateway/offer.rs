//! The tools of new turns, and what their models are told about them.

use std::sync::Arc;

use crate::orchestrator::{Briefing, Rules};
use crate::tools::{Registry, RegistryError, SourceReport, Toolset};

/// The tools that new turns get. A turn keeps those that it began with.
#[derive(Debug, Clone)]
pub(super) struct Offer {
    pub(super) tools: Arc<Registry>,
    /// What became of each source of tools.
    pub(super) sources: Arc<[SourceReport]>,
    /// Why turns have to wait, if a required source is not ready.
    pub(super) awaited: Option<Arc<str>>,
    /// The briefing on all tools. A turn that may use fewer gets one of its own.
    briefing: Option<Arc<Briefing>>,
}

impl Offer {
    /// Offers all tools of a set. **`rules` must have valid parser settings, with a nonce as
    /// well.**
    pub(super) fn all(rules: &Arc<Rules>, toolset: Toolset) -> Self {
        let awaited = toolset.awaited().map(|source| {
            let why = source.error.as_deref().unwrap_or("it has not answered yet");
            Arc::from(format!("{}: {why}", source.source))
        });
        let Toolset { tools, sources } = toolset;
        let tools = Arc::new(tools);
        let briefing = Some(brief(rules, None, &tools));
        Self { tools, sources: sources.into(), awaited, briefing }
    }

    /// Only the tools with these names.
    pub(super) fn subset(&self, names: &[String]) -> Result<Self, RegistryError> {
        let tools = Arc::new(self.tools.subset(names)?);
        Ok(Self { tools, briefing: None, ..self.clone() })
    }

    /// The briefing on these tools for a session with this nonce, if markers carry one.
    pub(super) fn briefing(&self, rules: &Arc<Rules>, nonce: Option<&str>) -> Arc<Briefing> {
        match &self.briefing {
            Some(briefing) if nonce.is_none() => Arc::clone(briefing),
            _ => brief(rules, nonce, &self.tools),
        }
    }
}

fn brief(rules: &Arc<Rules>, nonce: Option<&str>, tools: &Registry) -> Arc<Briefing> {
    let briefing = Briefing::new(rules, nonce, tools.catalog());
    Arc::new(briefing.expect("`Gateway::new` has checked the parser's settings"))
}
