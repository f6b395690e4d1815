//! Runs a turn.

use std::future::{Future as _, poll_fn};
use std::panic::{self, AssertUnwindSafe};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use tokio::sync::OwnedSemaphorePermit;

use super::remembered::{ClosingQuestion, RememberedTurns, Seen};
use crate::conversation::claimed::Past;
use crate::conversation::{self, AnswerError, Ask, Conversation, Opening};
use crate::orchestrator::{Driver, RanTurn};
use crate::session::{Keeper, KeptEnd, TurnGuard, TurnLog, off_worker};

/// Where a turn is remembered whose client keeps the conversation itself.
#[derive(Debug)]
pub(super) struct Memory {
    pub(super) turns: Arc<RememberedTurns>,
    /// What the client had seen before the turn.
    pub(super) past: Past,
    pub(super) seen: Seen,
    /// Whether turns before it have left files in its session.
    pub(super) has_files: bool,
    /// Whether the client knows questions. If not, some of its prompts are not the user's, such as
    /// those that ask for a title, and so they drop no question.
    pub(super) knows_questions: bool,
    /// The question that the turn answers or drops: nobody else may.
    pub(super) closing: Option<ClosingQuestion>,
}

impl Memory {
    /// Closes the open question, which the turn answers or drops. Clients send a conversation as
    /// often as they like, but a call that was approved once runs once, and one that the user did
    /// not approve never runs. If words come too late to answer, they become a prompt.
    pub(super) fn close_question(
        &mut self,
        opening: &mut Opening,
        ask: &Ask,
        history: &Conversation,
    ) -> Result<(), AnswerError> {
        let Some(asked) = history.open_questions().first() else { return Ok(()) };
        let id = &asked.clarification_id;
        let close = || RememberedTurns::close(&self.turns, &self.seen.owner, id);
        match (&*opening, ask) {
            (Opening::Prompt(_), _) if self.knows_questions => {
                self.closing = close();
                self.seen.drops = Some(id.clone());
            }
            (Opening::Prompt(_) | Opening::Results(_), _) => {}
            (Opening::Answer(_), _) if asked.may_repeat() => {}
            (Opening::Answer(_), ask) => match (close(), ask) {
                (Some(closing), _) => self.closing = Some(closing),
                (None, Ask::Words(words)) => *opening = Opening::Prompt(words.clone()),
                (None, _) => return Err(AnswerError::Stale(id.clone())),
            },
        }
        Ok(())
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

    /// Remembers a turn in which the model said `text`. `pasts` are the forms in which the client
    /// may send the answer back, if its API has several.
    /// From then on, its question is answered.
    fn keep(self, record: conversation::Turn, text: String, pasts: Option<Vec<Past>>) {
        let pasts = pasts.unwrap_or_else(|| vec![self.past_with(&record, text)]);
        self.turns.keep(self.seen, pasts, record);
    }

    fn past_with(&self, record: &conversation::Turn, text: String) -> Past {
        let has_words = !text.is_empty();
        let mut seen = text;
        if let Some(question) = record.questions.first() {
            seen.push_str(&question.clarification.in_words(has_words));
        }
        self.past.then("assistant", &seen)
    }
}

/// Runs a turn to its end. The turn is stored and its session freed before a client sees the last
/// event, because the client may ask for the next turn at once. Only a panic ends the log first.
///
/// A turn that has a `memory` is kept there instead of in a session, unless tools have returned
/// files, which belong to the session, or the client's answer is kept in it.
///
/// The driver is boxed: a future keeps a copy of what it passes on to another.
pub(super) async fn run(
    driver: Box<Driver>,
    permit: OwnedSemaphorePermit,
    mut guard: TurnGuard,
    (memory, keeper): (Option<Memory>, Option<Arc<dyn Keeper>>),
) {
    let is_stored = memory.is_none() || guard.keeps_answer();
    let Some(RanTurn { record, text, mut writer }) = drive(driver).await else {
        match memory {
            Some(memory) if !is_stored => memory.leave(guard).await,
            _ => {
                let end = end(keeper, guard.log()).await.unwrap_or_default();
                guard.set_answer(end.answer);
                guard.finish(None).await;
            }
        }
        return drop(permit);
    };
    writer.seal();
    let end = end(keeper, writer.log()).await;
    let pasts = end.map(|end| {
        guard.set_answer(end.answer);
        end.pasts
    });
    match memory {
        None => guard.finish(Some(record)).await,
        Some(memory) if is_stored || memory.has_files || record.has_files() => {
            memory.keep(record.clone(), text, pasts);
            guard.finish(Some(record)).await;
        }
        Some(memory) => {
            memory.keep(record, text, pasts);
            guard.discard().await;
        }
    }
    drop(permit);
    drop(writer);
}

/// Makes the client's answer of a log, which is sealed.
async fn end(keeper: Option<Arc<dyn Keeper>>, log: &Arc<TurnLog>) -> Option<KeptEnd> {
    let (keeper, log) = (keeper?, Arc::clone(log));
    Some(off_worker(log.bytes(), move || keeper.end(&log)).await)
}

/// Drives a turn to its end. `None` if the driver panics, which ends the log.
async fn drive(driver: Box<Driver>) -> Option<RanTurn> {
    let mut run = pin!(driver.run());
    poll_fn(|cx| match panic::catch_unwind(AssertUnwindSafe(|| run.as_mut().poll(cx))) {
        Ok(poll) => poll.map(Some),
        Err(_) => Poll::Ready(None),
    })
    .await
}
