//! A turn's entry among the recent ones, drafted from its request until it ends.

use std::sync::Arc;

use super::begin_error::BeginError;
use super::question_claim::{self, QuestionClaim};
use super::recent_turns::{FinishedTurn, RecentTurns};
use super::turn_keys::TurnKeys;
use crate::conversation::claimed::PrefixHash;
use crate::conversation::{self, AnswerError, ClientInput, Conversation, Opening};
use crate::session::store::ClaimTerm;
use crate::session::{SessionError, TurnGuard, TurnLog};

/// The entry that a turn will have among the recent ones, if its client keeps the conversation itself.
#[derive(Debug)]
pub(super) struct RecentTurnDraft {
    pub(super) turns: Arc<RecentTurns>,
    /// What the client had seen before the turn.
    pub(super) prefix: PrefixHash,
    pub(super) keys: TurnKeys,
    /// Whether turns before it have left files in its session.
    pub(super) has_files: bool,
    /// Whether the client knows questions. If not, some of its prompts are not the user's, such as
    /// those that ask for a title, and so they drop no question.
    pub(super) knows_questions: bool,
    /// The claim of the question that the turn answers or drops. A turn that drops a question may have none.
    pub(super) claim: Option<QuestionClaim>,
}

impl RecentTurnDraft {
    /// Closes the open question, which the turn answers or drops. Clients send a conversation as
    /// often as they like, but a call that was approved once runs once, and one that the user did
    /// not approve never runs. If words come too late to answer, they become a prompt.
    ///
    /// Returns whether it is this turn that closes the question, and not one before it.
    pub(super) async fn close_question(
        &mut self,
        opening: &mut Opening,
        input: &ClientInput,
        history: &Conversation,
    ) -> Result<bool, BeginError> {
        let Some(asked) = history.open_questions().first() else { return Ok(false) };
        let id = &asked.clarification_id;
        match &*opening {
            Opening::Prompt(_) if self.knows_questions => {
                self.claim = self.claim(id, ClaimTerm::Lease).await?;
                self.keys.drops = Some(id.clone());
                Ok(self.claim.is_some())
            }
            Opening::Prompt(_) => Ok(false),
            Opening::Results(_) => Ok(true),
            Opening::Answer(_) if asked.may_repeat() => Ok(true),
            Opening::Answer(answer) => {
                self.claim = self.claim(id, question_claim::term(asked, answer)).await?;
                match input {
                    _ if self.claim.is_some() => Ok(true),
                    ClientInput::Words(words) => {
                        *opening = Opening::Prompt(words.clone());
                        Ok(false)
                    }
                    _ => Err(AnswerError::Stale(id.clone()).into()),
                }
            }
        }
    }

    async fn claim(&self, id: &str, term: ClaimTerm) -> Result<Option<QuestionClaim>, BeginError> {
        let acquired = QuestionClaim::acquire(&self.turns, &self.keys.owner, id, term).await;
        Ok(acquired.map_err(SessionError::from)?)
    }

    /// Notes that the turn, which writes this log, begins. If it answers a question and loses the claim, it is
    /// cancelled: what follows from an answer must not be done twice. Dropping a question twice does no harm.
    pub(super) fn begin(&mut self, log: &Arc<TurnLog>) {
        let Some(claim) = &mut self.claim else { return };
        claim.begin();
        if self.keys.drops.is_none() {
            claim.cancel_when_lost(log);
        }
    }

    /// Leaves the claim to the gateway that goes on with the turn.
    pub(super) fn leave_claim(&mut self) {
        if let Some(claim) = &mut self.claim {
            claim.leave();
        }
    }

    /// Frees the session of a turn that leaves nothing.
    pub(super) async fn free_session(&self, guard: TurnGuard) {
        if guard.keeps_answer() {
            guard.abandon().await;
        } else if self.has_files {
            guard.finish(None).await;
        } else {
            guard.discard().await;
        }
    }

    /// Keeps a turn in which the model said `text`. `prefixes` are the hashes of the forms in which
    /// the client may send the answer back, if its API has several. From then on, the question that
    /// the turn answers is closed. If another turn may have answered it, this one is not kept.
    pub(super) async fn keep(
        mut self,
        turn: conversation::Turn,
        text: String,
        prefixes: Option<Vec<PrefixHash>>,
        epoch: u64,
    ) {
        let answers = self.keys.drops.is_none();
        if answers && self.claim.as_ref().is_some_and(QuestionClaim::is_lost) {
            return;
        }
        let prefixes = prefixes.unwrap_or_else(|| vec![self.prefix_with(&turn, text)]);
        let confirms = self.claim.as_ref().and_then(QuestionClaim::stored);
        let ended = FinishedTurn { turn, keys: self.keys, prefixes, epoch };
        self.turns.keep(ended, confirms).await;
        if let Some(claim) = &mut self.claim {
            claim.leave();
        }
    }

    fn prefix_with(&self, record: &conversation::Turn, text: String) -> PrefixHash {
        let has_words = !text.is_empty();
        let mut shown = text;
        if let Some(question) = record.questions.first() {
            shown.push_str(&question.in_words(has_words));
        }
        self.prefix.then("assistant", &shown)
    }
}
