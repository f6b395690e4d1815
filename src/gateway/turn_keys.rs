//! The keys of recent turns: a turn is found by its id, what its client has seen, its prompt and its questions.

use crate::conversation::Turn;
use crate::conversation::claimed::PrefixHash;
use crate::session::store::{EntryKey, EntryOwner};

/// What a turn can be found by, apart from its id and its prefix hashes.
#[derive(Debug)]
pub(super) struct TurnKeys {
    /// Whose it is.
    pub(super) owner: String,
    /// What the client said to begin the turn, if its conversation has a name.
    pub(super) prompt: Option<EntryKey>,
    /// The question that the turn has dropped, if its client asked for that.
    pub(super) drops: Option<String>,
}

impl TurnKeys {
    /// All keys of a turn of which its client has seen one of `prefixes`.
    pub(super) fn of(self, prefixes: &[PrefixHash], turn: &Turn) -> Vec<EntryKey> {
        let Self { owner, prompt, drops } = self;
        let mut keys = vec![by_id(&owner, &turn.turn_id)];
        keys.extend(prefixes.iter().map(by_prefix));
        if let Some(asked) = turn.questions.first() {
            keys.push(by_question(&owner, &asked.clarification_id));
        }
        if let Some(answer) = turn.answer.as_deref() {
            keys.push(by_answer(&owner, &answer.clarification_id));
        }
        keys.extend(drops.map(|id| by_drop(&owner, &id)));
        keys.extend(prompt);
        keys
    }
}

/// The owner of this name.
pub(crate) fn of_owner(owner: &str) -> EntryOwner {
    EntryOwner::of(&["owner", owner])
}

/// The turn with this id.
pub(super) fn by_id(owner: &str, turn_id: &str) -> EntryKey {
    EntryKey::of(&["turn", owner, turn_id])
}

/// The turn at whose end its client had seen exactly this. The hash includes the owner.
pub(super) const fn by_prefix(prefix: &PrefixHash) -> EntryKey {
    EntryKey::of_hash(prefix.bytes())
}

/// The turn that ended with this question.
pub(super) fn by_question(owner: &str, clarification_id: &str) -> EntryKey {
    EntryKey::of(&["question", owner, clarification_id])
}

/// The turn that an answer to this question opened.
pub(super) fn by_answer(owner: &str, clarification_id: &str) -> EntryKey {
    EntryKey::of(&["answer", owner, clarification_id])
}

/// The turn that dropped this question.
fn by_drop(owner: &str, clarification_id: &str) -> EntryKey {
    EntryKey::of(&["drop", owner, clarification_id])
}

/// The turns that began with this prompt, in the owner's conversation of this name. White space around the
/// prompt does not count. A history of thousands of prompts costs one lookup each.
pub(super) fn by_prompt(owner: &str, name: &str, prompt: &str) -> EntryKey {
    EntryKey::of(&["prompt", owner, name, prompt.trim()])
}

/// The keys by which it is known whether a question is closed.
#[derive(Debug, Clone, Copy)]
pub(super) struct QuestionKeys {
    /// Of the turn that has answered it.
    pub(super) answer: EntryKey,
    /// Of the turn that has dropped it.
    pub(super) drop: EntryKey,
    /// Of the claim of the turn that does either.
    pub(super) claim: EntryKey,
}

impl QuestionKeys {
    pub(super) fn of(owner: &str, clarification_id: &str) -> Self {
        Self {
            answer: by_answer(owner, clarification_id),
            drop: by_drop(owner, clarification_id),
            claim: EntryKey::of(&["closing", owner, clarification_id]),
        }
    }
}
