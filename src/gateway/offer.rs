//! The tools of new turns, and what their models are told about them.

use std::sync::Arc;

use tracing::warn;

use super::begin_error::BeginError;
use crate::orchestrator::{Basis, Briefing, Rules, Selection};
use crate::tools::builtin::FindTools;
use crate::tools::client::ClientTools;
use crate::tools::search::Index;
use crate::tools::{Catalog, Registry, RegistryError, SourceReport, Toolset};
use crate::upstream::ToolChoice;

/// The tools that new turns get. A turn keeps those that it began with.
#[derive(Debug, Clone)]
pub(super) struct Offer {
    pub(super) tools: Arc<Registry>,
    /// What may be called: these tools, and those of the turn's client.
    pub(super) catalog: Catalog,
    /// The status of each source of tools.
    pub(super) sources: Arc<[SourceReport]>,
    /// The required source that is not ready, if any.
    pub(super) awaited: Option<Awaited>,
    teaching: Teaching,
}

/// A required source that is not ready.
#[derive(Debug, Clone)]
pub(super) struct Awaited {
    /// Which one, and why.
    pub(super) why: Arc<str>,
    /// Whether waiting is pointless: it cannot start as configured.
    pub(super) is_lost: bool,
}

impl Awaited {
    /// Why no turn begins without it.
    pub(super) fn refusal(&self) -> BeginError {
        let Self { why, is_lost } = self;
        let advice =
            if *is_lost { "restart the gateway once that is mended" } else { "try again later" };
        BeginError::ToolsUnavailable(format!("{why}; {advice}"))
    }
}

/// How the models of new turns learn about the tools.
#[derive(Debug, Clone)]
enum Teaching {
    /// They are told about all tools, by the same briefing.
    Same(Arc<Briefing>),
    /// They are told about all tools, because the turn's request has chosen or brought some.
    Chosen,
    /// There are too many tools: each turn has a selection.
    Selected(Arc<Index>),
}

impl Offer {
    /// Offers all tools of a set. **`rules` must have valid parser settings, with a nonce as
    /// well.**
    pub(super) fn all(rules: &Arc<Rules>, toolset: Toolset) -> Self {
        let awaited = toolset.awaited().map(|source| {
            let why = source.error.as_deref().unwrap_or("it has not answered yet");
            Awaited { why: format!("{}: {why}", source.source).into(), is_lost: source.is_lost }
        });
        let Toolset { mut tools, sources } = toolset;
        let teaching = if rules.can_tell_all(tools.catalog()) {
            Teaching::Same(brief(rules, None, tools.catalog(), Selection::all(tools.catalog())))
        } else {
            let index = Arc::new(Index::of(tools.catalog()));
            add_finder(rules, &mut tools, &index);
            Teaching::Selected(index)
        };
        let catalog = tools.catalog().clone();
        Self { tools: Arc::new(tools), catalog, sources: sources.into(), awaited, teaching }
    }

    /// Only the tools with these names.
    pub(super) fn subset(&self, names: &[String]) -> Result<Self, RegistryError> {
        let tools = Arc::new(self.tools.subset(names)?);
        let catalog = tools.catalog().clone();
        Ok(Self { tools, catalog, teaching: Teaching::Chosen, ..self.clone() })
    }

    /// Lends tools of `all` to the turn, if it has none of their names: calls of earlier turns may run
    /// them, but the model is not told about them. Returns what is lent.
    pub(super) fn lend<'n>(
        &mut self,
        names: impl Iterator<Item = &'n str>,
        all: &Registry,
    ) -> Catalog {
        let mut lent = Registry::default();
        for name in names.filter(|name| self.catalog.get(name).is_none()) {
            // The tool may be gone by now.
            if let Some(entry) = all.entry(name)
                && Arc::make_mut(&mut self.tools).add_entry(entry.clone()).is_ok()
            {
                _ = lent.add_entry(entry);
            }
        }
        lent.catalog().clone()
    }

    /// The same with these tools of a client, and without ours that they hide.
    pub(super) fn beside(self, rules: &Rules, clients: &ClientTools) -> Self {
        let ours = clients.without_reserved(&self.catalog);
        let is_less = ours.specs().len() < self.catalog.specs().len();
        if clients.is_empty() && !is_less {
            return self;
        }
        let catalog = clients.beside(&ours);
        let teaching = match self.teaching {
            Teaching::Same(_) if rules.can_tell_all(&catalog) => Teaching::Chosen,
            Teaching::Same(_) => Teaching::Selected(Arc::new(Index::of(&ours))),
            // The positions in an index are those of its catalog.
            Teaching::Selected(_) if is_less => Teaching::Selected(Arc::new(Index::of(&ours))),
            other => other,
        };
        Self { catalog, teaching, ..self }
    }

    /// Checks that a turn with these tools of a client has the tool that must be called.
    pub(super) fn check_choice(
        &self,
        choice: &ToolChoice,
        clients: &ClientTools,
    ) -> Result<(), BeginError> {
        match choice {
            ToolChoice::Required if self.catalog.is_empty() => {
                let left_out = clients.left_out().iter().take(LEFT_OUT_TOLD_MAX).cloned().collect();
                Err(BeginError::NoToolToCall { left_out })
            }
            ToolChoice::Named(name) if self.catalog.get(name).is_none() => {
                Err(BeginError::UnknownChoice {
                    name: name.clone(),
                    known: self.catalog.names(),
                    left_out: clients.left_out().iter().find(|error| error.name() == name).cloned(),
                })
            }
            ToolChoice::Auto | ToolChoice::Required | ToolChoice::Named(_) => Ok(()),
        }
    }

    /// The briefing for a turn of a session with this nonce, if markers carry one.
    pub(super) fn briefing(
        &self,
        rules: &Arc<Rules>,
        nonce: Option<&str>,
        basis: &Basis<'_>,
    ) -> Arc<Briefing> {
        let tools = &self.catalog;
        let selection = match &self.teaching {
            Teaching::Same(briefing) if nonce.is_none() && briefing.is_by(rules) => {
                return Arc::clone(briefing);
            }
            Teaching::Same(_) | Teaching::Chosen => Selection::all(tools),
            Teaching::Selected(index) => Selection::of(rules, tools, index, basis),
        };
        brief(rules, nonce, tools, selection)
    }
}

/// How many tools a refusal explains that were left out. They tend to have the same fault.
const LEFT_OUT_TOLD_MAX: usize = 3;

/// Adds the tool that finds the others. If an embedder's tool has its name, that tool stays.
fn add_finder(rules: &Rules, tools: &mut Registry, index: &Arc<Index>) {
    let told_bytes_max = rules.told_bytes();
    let finder = FindTools::new(tools.catalog().clone(), Arc::clone(index), told_bytes_max);
    if let Err(error) = tools.add(Arc::new(finder)) {
        warn!(%error, "models cannot search for tools");
    }
}

fn brief(
    rules: &Arc<Rules>,
    nonce: Option<&str>,
    tools: &Catalog,
    selection: Selection,
) -> Arc<Briefing> {
    let briefing = Briefing::selected(rules, nonce, tools, selection);
    Arc::new(briefing.expect("`Gateway::new` has checked the parser's settings"))
}
