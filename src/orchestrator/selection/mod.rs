//! Which tools a turn's model is told about in full, and which by name only.
//!
//! ```text
//!   all tools fit ───────────> told, in the order of the configuration
//!   too many, or too long ───> told:  the client's │ always │ used in this session │ best for the question │ find_tools
//!                              named: the best of the rest
//! ```
//! Many descriptions confuse small models and fill up their context. Large models do better with
//! all tools in sight, so nothing is hidden entirely: names are cheap, and `find_tools` tells the
//! rest.

use super::rules::Rules;
use crate::conversation::{Conversation, Opening, Step, trim};
use crate::limits::turn::{QUESTIONS_SEARCHED, SERVER_TOOLS_SHARE, TOLD_SHARE};
use crate::tools::Catalog;
use crate::tools::builtin::FindTools;
use crate::tools::search::Index;

/// What a model is told about some tools, as positions in their catalog.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Selection {
    /// The tools told in full, in this order.
    pub(super) told: Vec<usize>,
    /// The tools told by name, in the order of the catalog.
    pub(super) named: Vec<usize>,
    /// How many more there are.
    pub(super) unnamed: usize,
}

impl Rules {
    /// Whether a model can be told about all of these tools in full.
    #[must_use]
    pub fn can_tell_all(&self, tools: &Catalog) -> bool {
        tools.specs().len() <= self.select.max_told
            && self.told_tokens_of(tools) <= self.told_tokens()
    }

    /// About how many tokens the descriptions of these tools take.
    #[must_use]
    pub fn told_tokens_of(&self, tools: &Catalog) -> usize {
        (0..tools.specs().len()).map(|at| tool_tokens(tools, at)).sum()
    }

    /// Tokens that the descriptions of selected tools may take.
    #[must_use]
    const fn told_tokens(&self) -> usize {
        self.context_budget_tokens / TOLD_SHARE
    }

    /// The same in bytes.
    #[must_use]
    pub const fn told_bytes(&self) -> usize {
        self.told_tokens() * trim::BYTES_PER_TOKEN
    }
}

fn tool_tokens(tools: &Catalog, position: usize) -> usize {
    trim::tokens_of_bytes(tools.told_bytes(position))
}

/// What the selection of a turn's tools depends on.
#[derive(Debug)]
pub struct Basis<'a> {
    /// The user's words, or an answer to a question.
    pub opening: &'a Opening,
    /// The earlier turns.
    pub history: &'a Conversation,
}

impl Selection {
    /// All of these tools, in full.
    #[must_use]
    pub fn all(tools: &Catalog) -> Self {
        Self { told: (0..tools.specs().len()).collect(), ..Self::default() }
    }

    /// The tools told in full, as positions in their catalog.
    #[must_use]
    pub fn told(&self) -> &[usize] {
        &self.told
    }

    /// Roughly how many tokens describe the tools that are told in full.
    pub(super) fn tokens(&self, tools: &Catalog) -> usize {
        self.told.iter().map(|at| tool_tokens(tools, *at)).sum()
    }

    /// Whether some tools are not told in full.
    #[must_use]
    pub(super) const fn is_partial(&self) -> bool {
        !self.named.is_empty() || self.unnamed > 0
    }

    /// The tools for a turn. `index` is an index of `tools`, or of all but the last: `find_tools`
    /// need not be found.
    #[must_use]
    pub fn of(rules: &Rules, tools: &Catalog, index: &Index, basis: &Basis<'_>) -> Self {
        let mut picked = Picked::of_client(rules, tools);
        let finder = FindTools::position_in(tools);
        let is_always = |at: &usize| {
            let name = &tools.at(*at).name;
            rules.select.always.iter().any(|glob| glob.matches(name))
        };
        let count = tools.specs().len();
        for at in (0..count).filter(is_always) {
            picked.push(at);
        }
        for at in used(tools, basis, rules.select.max_told) {
            picked.push_if_fits(at);
        }
        let found = index.find(&texts(basis));
        for at in found.iter().filter(|at| Some(**at) != finder) {
            picked.push_if_fits(*at);
        }
        if let Some(at) = finder {
            picked.push(at);
        }
        let told = picked.told;

        let mut is_listed = vec![false; count];
        for at in &told {
            is_listed[*at] = true;
        }
        let mut named: Vec<usize> = Vec::new();
        for at in found.into_iter().chain(0..count) {
            if named.len() < rules.select.names && !is_listed[at] {
                is_listed[at] = true;
                named.push(at);
            }
        }
        named.sort_unstable();
        let unnamed = count - told.len() - named.len();
        Self { told, named, unnamed }
    }
}

/// The tools picked so far.
struct Picked<'a> {
    tools: &'a Catalog,
    told: Vec<usize>,
    /// How many tools may be told, apart from those that always are.
    most: usize,
    /// Tokens left for more.
    room: usize,
}

impl<'a> Picked<'a> {
    /// The client's tools, which are always told. They leave places and room for others.
    fn of_client(rules: &Rules, tools: &'a Catalog) -> Self {
        let (most, room) = (rules.select.max_told, rules.told_tokens());
        let mut picked = Self { tools, told: Vec::new(), most, room };
        for at in (0..tools.specs().len()).filter(|at| tools.at(*at).is_clients()) {
            picked.push(at);
        }
        picked.most = most.max(picked.told.len() + most / SERVER_TOOLS_SHARE);
        picked.room = picked.room.max(room / SERVER_TOOLS_SHARE);
        picked
    }

    fn push(&mut self, at: usize) {
        if !self.told.contains(&at) {
            self.room = self.room.saturating_sub(tool_tokens(self.tools, at));
            self.told.push(at);
        }
    }

    fn push_if_fits(&mut self, at: usize) {
        if self.told.len() < self.most && tool_tokens(self.tools, at) <= self.room {
            self.push(at);
        }
    }
}

/// The server tools that the session has called, at most `most`: the latest ones, the earliest of them
/// first, so that the prompt of the next turn begins as this one's does.
fn used(tools: &Catalog, basis: &Basis<'_>, most: usize) -> Vec<usize> {
    let mut used = Vec::new();
    let continued = match basis.opening {
        Opening::Results(turn) => Some(&**turn),
        Opening::Prompt(_) | Opening::Answer(_) => None,
    };
    let turns = continued.into_iter().chain(basis.history.turns().rev().map(|turn| &**turn));
    let calls = turns.flat_map(|turn| turn.steps.iter().rev()).flat_map(Step::calls);
    let ours = |at: &usize| !tools.at(*at).is_clients();
    for at in calls.filter_map(|call| tools.position(&call.name)).filter(ours) {
        if used.len() < most && !used.contains(&at) {
            used.push(at);
        }
    }
    used.reverse();
    used
}

/// The user's last prompts. The older a prompt is, the less it counts.
///
/// Answers to questions are left out: "Yes." says nothing about tools, but the prompt that led to
/// the question does.
fn texts<'q>(basis: &'q Basis<'q>) -> Vec<(&'q str, f32)> {
    let prompts = basis.history.turns().rev().filter(|turn| turn.answer.is_none());
    let before = prompts.map(|turn| &*turn.prompt);
    let now = match basis.opening {
        Opening::Prompt(words) => Some(&**words),
        Opening::Results(turn) if turn.answer.is_none() => Some(&*turn.prompt),
        Opening::Answer(_) | Opening::Results(_) => None,
    };
    let weights = std::iter::successors(Some(1.0_f32), |weight| Some(weight / 2.0));
    now.into_iter().chain(before).take(QUESTIONS_SEARCHED).zip(weights).collect()
}

#[cfg(test)]
mod tests;
