//! The tools of new turns, and what their models are told about them.

use std::sync::Arc;

use crate::orchestrator::{Briefing, Rules};
use crate::tools::{Registry, RegistryError};

/// The tools that new turns get. A turn keeps those that it began with.
#[derive(Debug, Clone)]
pub(super) struct Offer {
    pub(super) tools: Arc<Registry>,
    /// The briefing on all tools. A turn that may use fewer gets one of its own.
    briefing: Option<Arc<Briefing>>,
}

impl Offer {
    /// Offers all `tools`. **`rules` must have valid parser settings, with a nonce as well.**
    pub(super) fn all(rules: &Arc<Rules>, tools: Registry) -> Self {
        let tools = Arc::new(tools);
        let briefing = Some(brief(rules, None, &tools));
        Self { tools, briefing }
    }

    /// Only the tools with these names.
    pub(super) fn subset(&self, names: &[String]) -> Result<Self, RegistryError> {
        Ok(Self { tools: Arc::new(self.tools.subset(names)?), briefing: None })
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
