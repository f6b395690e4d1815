//! Questions that were answered outside of the list of messages.
//!
//! Some clients send the user's answer beside the list, and only in the request that it opens. Later
//! they send the turn that asked and the turn that followed as one:
//!
//! ```text
//!   user, call A; result A; assistant   ->   user, call A; result A | answer, assistant
//!                                            '---- asked by ----'   '-- opened by --'
//! ```

use std::collections::HashSet;
use std::sync::Arc;

use super::reading::{Exchange, Reply};
use super::repairs::Repairs;
use super::restored::{says, turn_of};
use super::turns::Draft;
use super::{Adopted, TurnLookup, append, open_question_id};
use crate::conversation::{Choice, ClientInput, Turn, Words};

/// Splits the exchanges that hold a question and the turn that its answer opened.
pub(super) fn split(exchanges: Vec<Exchange>, lookup: &dyn TurnLookup) -> Vec<Exchange> {
    let mut all = Vec::with_capacity(exchanges.len());
    // A list that names one turn again and again would cost a look at its words each time.
    let mut seen = HashSet::new();
    for mut exchange in exchanges {
        let mut at = 0;
        while at < exchange.replies.len() {
            let asking = turn_of(&exchange.replies[at], lookup);
            let asking = asking.filter(|turn| seen.insert(turn.turn_id.clone()));
            at += 1;
            let Some(asking) = asking else { continue };
            let Some((end, prompt)) = answered_at(&exchange, &asking, at, lookup) else { continue };
            let replies = exchange.replies.split_off(end);
            all.push(std::mem::replace(&mut exchange, Exchange { prompt, replies }));
            at = 0;
        }
        all.push(exchange);
    }
    all
}

/// Where the turn that asked ends, and the user's answer, if an answer opened what follows. That
/// turn has the reply before `at`.
fn answered_at(
    exchange: &Exchange,
    asking: &Arc<Turn>,
    at: usize,
    lookup: &dyn TurnLookup,
) -> Option<(usize, Words)> {
    let question = asking.questions.first()?;
    let opened = lookup.by_answer(&question.clarification_id)?;
    // It may have made other calls as well.
    let is_of_turn =
        |reply: &&Reply| turn_of(reply, lookup).is_some_and(|turn| turn.turn_id == asking.turn_id);
    let replies = &exchange.replies;
    let calls = replies[at..].iter().take_while(is_of_turn).count();
    // A reply without words says nothing about whose it is, but its calls do: the answer may have led to a question, too.
    let is_of_another = |reply: &Reply| {
        turn_of(reply, lookup).is_some_and(|turn| {
            turn.turn_id != asking.turn_id && !asking.continued.contains(&turn.turn_id)
        })
    };
    let next = replies[at..].iter().position(is_of_another);
    let most = next.map_or(replies.len(), |next| at + next);
    let end = (at + calls).max(says(asking, &replies[..most]));
    (end < replies.len())
        .then(|| (end, Words { text: opened.prompt.clone(), images: opened.images.clone() }))
}

impl Adopted {
    /// The same, but an answer to a question opens the next turn. If the list lacks the turn that
    /// asked, that turn is appended.
    #[must_use]
    pub fn answering(
        mut self,
        clarification_id: String,
        choice: Choice,
        lookup: &dyn TurnLookup,
    ) -> Self {
        let is_open = open_question_id(&self.history) == Some(&clarification_id);
        self.append_asking_turn(&clarification_id, lookup);
        // If the list lacks the question, its last words may be those that led to it.
        let beside = match self.input {
            ClientInput::Words(words) if is_open => Some(words),
            _ => None,
        };
        if beside.is_none() {
            self.images.opening.clear();
        }
        self.input = ClientInput::Answer { clarification_id, choice, beside };
        self
    }

    /// Whether it answers a question that is answered once. Such an answer must not cancel a turn that runs, which may be
    /// that of an earlier one.
    pub(crate) fn answers_for_good(&self) -> bool {
        let ClientInput::Answer { clarification_id, .. } = &self.input else { return false };
        let asked = self.history.open_questions().first();
        !asked.is_some_and(|it| it.clarification_id == *clarification_id && it.may_repeat())
    }

    /// The same if the user has dropped this question: no words answer it.
    #[must_use]
    pub fn dropping(mut self, clarification_id: &str, lookup: &dyn TurnLookup) -> Self {
        if let ClientInput::Words(words) = self.input {
            self.input = ClientInput::Prompt(words);
        }
        self.append_asking_turn(clarification_id, lookup);
        self
    }

    /// Appends the turn that asked, if the list lacks it and the question is still open. If the
    /// list has that turn and goes on after it, the question is no longer open. If the list ends with part of that
    /// turn, with results that it does not wait for, the whole turn replaces that part.
    fn append_asking_turn(&mut self, clarification_id: &str, lookup: &dyn TurnLookup) {
        if lookup.is_closed(clarification_id) {
            return;
        }
        let Some(turn) = lookup.by_question(clarification_id) else { return };
        if self.history.turns().any(|known| known.turn_id == turn.turn_id) {
            return;
        }
        if self.retold.as_ref() == Some(&turn.turn_id) {
            self.history.pop();
        }
        let draft = Draft::again(&turn, self.history.call_ids());
        append(&mut self.history, draft.finish(&mut Repairs::default()));
    }
}
