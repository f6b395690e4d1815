//! Runs a turn.

use std::future::{Future as _, poll_fn};
use std::panic::{self, AssertUnwindSafe};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use tokio::sync::OwnedSemaphorePermit;

use super::remembered::RememberedTurns;
use crate::conversation::claimed::Past;
use crate::conversation::{self, AnswerError, Ask, Conversation, Opening};
use crate::orchestrator::{Driver, RanTurn};
use crate::session::TurnGuard;
use crate::tools::Continuation;

/// Where a turn is remembered whose client keeps the conversation itself.
#[derive(Debug)]
pub(super) struct Memory {
    pub(super) turns: Arc<RememberedTurns>,
    /// What the client had seen before the turn.
    pub(super) past: Past,
    pub(super) owner: String,
    /// Whether turns before it have left files in its session.
    pub(super) has_files: bool,
}

impl Memory {
    /// Checks that the user's answer is the first to its question. Clients send a conversation as
    /// often as they like, but a call that was approved once runs once. If words are all that the
    /// client has sent, they become a prompt.
    pub(super) fn check_answer(
        &self,
        opening: &mut Opening,
        ask: &Ask,
        history: &Conversation,
    ) -> Result<(), AnswerError> {
        let Opening::Answer(answer) = &*opening else { return Ok(()) };
        let id = &answer.clarification_id;
        let asked = history.open_questions().first();
        // If only the model goes on from the answer, it may as well do so again.
        let may_repeat = asked.is_some_and(|asked| asked.continuation == Continuation::Model);
        if may_repeat || self.turns.by_answer(&self.owner, id).is_none() {
            return Ok(());
        }
        let Ask::Words(words) = ask else { return Err(AnswerError::Stale(id.clone())) };
        *opening = Opening::Prompt(words.clone());
        Ok(())
    }

    /// Frees the session of a turn that leaves nothing.
    pub(super) async fn leave(&self, guard: TurnGuard) {
        if self.has_files {
            guard.finish(None).await;
        } else {
            guard.discard().await;
        }
    }

    /// Remembers a turn in which the model said `text`.
    fn keep(self, record: conversation::Turn, text: String) {
        let has_words = !text.is_empty();
        let mut seen = text;
        if let Some(question) = record.questions.first() {
            seen.push_str(&question.clarification.in_words(has_words));
        }
        self.turns.keep(self.owner, self.past.then("assistant", &seen), record);
    }
}

/// Runs a turn to its end. The turn is stored and its session freed before a client sees the last
/// event, because the client may ask for the next turn at once. Only a panic ends the log first.
///
/// A turn that has a `memory` is kept there instead of in a session, unless tools have returned
/// files: they belong to the session.
///
/// The driver is boxed: a future keeps a copy of what it passes on to another.
pub(super) async fn run(
    driver: Box<Driver>,
    permit: OwnedSemaphorePermit,
    guard: TurnGuard,
    memory: Option<Memory>,
) {
    let Some(RanTurn { record, text, mut writer }) = drive(driver).await else {
        match memory {
            Some(memory) => memory.leave(guard).await,
            None => guard.finish(None).await,
        }
        return drop(permit);
    };
    writer.seal();
    match memory {
        None => guard.finish(Some(record)).await,
        Some(memory) if memory.has_files || record.has_files() => {
            memory.keep(record.clone(), text);
            guard.finish(Some(record)).await;
        }
        Some(memory) => {
            memory.keep(record, text);
            guard.discard().await;
        }
    }
    drop(permit);
    drop(writer);
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
