//! Runs a turn.

use std::future::{Future as _, poll_fn};
use std::panic::{self, AssertUnwindSafe};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use tokio::sync::OwnedSemaphorePermit;

use super::begin_error::BeginError;
use super::question_claim::{self, QuestionClaim};
use super::recent_turns::{EndedTurn, RecentTurns};
use super::turn_cache::TurnKeys;
use crate::conversation::claimed::PrefixHash;
use crate::conversation::{self, AnswerError, ClientInput, Conversation, Opening};
use crate::orchestrator::{Driver, RanTurn};
use crate::session::store::ClaimTerm;
use crate::session::{
    AnswerSerializer, FinishedAnswer, SessionError, TurnGuard, TurnLog, Writer, off_worker,
};

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
    /// The question that the turn answers or drops: nobody else may.
    pub(super) claim: Option<QuestionClaim>,
}

impl RecentTurnDraft {
    /// Closes the open question, which the turn answers or drops. Clients send a conversation as
    /// often as they like, but a call that was approved once runs once, and one that the user did
    /// not approve never runs. If words come too late to answer, they become a prompt.
    pub(super) async fn close_question(
        &mut self,
        opening: &mut Opening,
        input: &ClientInput,
        history: &Conversation,
    ) -> Result<(), BeginError> {
        let Some(asked) = history.open_questions().first() else { return Ok(()) };
        let id = &asked.clarification_id;
        match (&*opening, input) {
            (Opening::Prompt(_), _) if self.knows_questions => {
                self.claim = self.claim(id, ClaimTerm::Lease).await?;
                self.keys.drops = Some(id.clone());
            }
            (Opening::Prompt(_) | Opening::Results(_), _) => {}
            (Opening::Answer(_), _) if asked.may_repeat() => {}
            (Opening::Answer(answer), input) => {
                match (self.claim(id, question_claim::term(asked, answer)).await?, input) {
                    (Some(claim), _) => self.claim = Some(claim),
                    (None, ClientInput::Words(words)) => *opening = Opening::Prompt(words.clone()),
                    (None, _) => return Err(AnswerError::Stale(id.clone()).into()),
                }
            }
        }
        Ok(())
    }

    async fn claim(&self, id: &str, term: ClaimTerm) -> Result<Option<QuestionClaim>, BeginError> {
        let acquired = QuestionClaim::acquire(&self.turns, &self.keys.owner, id, term).await;
        Ok(acquired.map_err(SessionError::from)?)
    }

    /// Frees the session of a turn that leaves nothing.
    pub(super) async fn leave(&self, guard: TurnGuard) {
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
    /// the turn answers is closed.
    async fn keep(
        mut self,
        turn: conversation::Turn,
        text: String,
        prefixes: Option<Vec<PrefixHash>>,
        epoch: u64,
    ) {
        let prefixes = prefixes.unwrap_or_else(|| vec![self.prefix_with(&turn, text)]);
        let confirms = self.claim.as_ref().and_then(QuestionClaim::stored);
        let ended = EndedTurn { turn, keys: self.keys, prefixes, epoch };
        self.turns.keep(ended, confirms).await;
        if let Some(claim) = &mut self.claim {
            claim.leave();
        }
    }

    fn prefix_with(&self, record: &conversation::Turn, text: String) -> PrefixHash {
        let has_words = !text.is_empty();
        let mut shown = text;
        if let Some(question) = record.questions.first() {
            shown.push_str(&question.clarification.in_words(has_words));
        }
        self.prefix.then("assistant", &shown)
    }
}

/// Runs a turn to its end. The turn is stored and its session freed before a client sees the last
/// event, because the client may ask for the next turn at once. Only a panic ends the log first.
///
/// A turn that has a `draft` is kept among the recent ones instead of in a session, unless tools have
/// returned files, which belong to the session, or the client's answer is stored in it.
///
/// The driver is boxed: a future keeps a copy of what it passes on to another.
pub(super) async fn run(
    driver: Box<Driver>,
    permit: OwnedSemaphorePermit,
    mut guard: TurnGuard,
    (mut draft, serializer): (Option<RecentTurnDraft>, Option<Arc<dyn AnswerSerializer>>),
) {
    let is_stored = draft.is_none() || guard.keeps_answer();
    let claim = draft.as_mut().and_then(|draft| draft.claim.as_mut());
    claim.map(QuestionClaim::begin).unwrap_or_default();
    let ran = match guard.store_while(drive(driver)).await {
        Some(Ok(ran)) => Some(ran),
        Some(Err(writer)) => {
            let claim = draft.as_mut().and_then(|draft| draft.claim.as_mut());
            claim.map(QuestionClaim::leave).unwrap_or_default();
            guard.leave().await;
            writer.leave();
            return drop(permit);
        }
        None => None,
    };
    let Some(RanTurn { record, text, mut writer }) = ran else {
        match draft {
            Some(draft) if !is_stored => draft.leave(guard).await,
            _ => {
                let end = end(serializer, guard.log()).await.unwrap_or_default();
                guard.set_answer(end.answer);
                guard.finish(None).await;
            }
        }
        return drop(permit);
    };
    writer.seal();
    let end = end(serializer, writer.log()).await;
    let prefixes = end.map(|end| {
        guard.set_answer(end.answer);
        end.prefixes
    });
    let epoch = guard.epoch();
    guard.note_over();
    match draft {
        None => guard.finish(Some(record)).await,
        // The session's end comes last: if this process is killed before, another gateway does both.
        Some(draft) if is_stored || draft.has_files || record.has_files() => {
            draft.keep(record.clone(), text, prefixes, epoch).await;
            guard.finish(Some(record)).await;
        }
        Some(draft) if writer.is_stored() => {
            draft.keep(record, text, prefixes, epoch).await;
            guard.discard_once_read().await;
        }
        Some(draft) => {
            tokio::join!(draft.keep(record, text, prefixes, epoch), guard.discard());
        }
    }
    drop(permit);
    drop(writer);
}

/// Makes the client's answer of a log, which is sealed.
async fn end(
    serializer: Option<Arc<dyn AnswerSerializer>>,
    log: &Arc<TurnLog>,
) -> Option<FinishedAnswer> {
    let (serializer, log) = (serializer?, Arc::clone(log));
    Some(off_worker(log.bytes(), move || serializer.end(&log)).await)
}

/// Drives a turn to its end, or until another gateway is to go on with it. `None` if the driver panics, which
/// ends the log.
async fn drive(driver: Box<Driver>) -> Option<Result<RanTurn, Writer>> {
    let mut run = pin!(driver.run());
    poll_fn(|cx| match panic::catch_unwind(AssertUnwindSafe(|| run.as_mut().poll(cx))) {
        Ok(poll) => poll.map(Some),
        Err(_) => Poll::Ready(None),
    })
    .await
}
