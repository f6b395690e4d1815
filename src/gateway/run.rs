//! Runs a turn.

use std::future::{Future, poll_fn};
use std::panic::{self, AssertUnwindSafe};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use tracing::{Instrument as _, Span};

use super::recent_turn_draft::RecentTurnDraft;
use super::shares::TurnPermit;
use crate::orchestrator::{Driver, RanTurn};
use crate::session::{AnswerSerializer, FinishedAnswer, TurnGuard, TurnLog, Writer, off_worker};

/// Where the answer of a turn goes, apart from its session.
pub(super) struct KeptAnswer {
    /// Its entry among the recent turns, if it has one. Boxed: most turns keep no room for it.
    pub(super) draft: Option<Box<RecentTurnDraft>>,
    /// Writes the answer in the client's own form, if it is to be stored.
    pub(super) serializer: Option<Arc<dyn AnswerSerializer>>,
}

/// Runs a turn to its end. The turn is stored and its session freed before a client sees the last
/// event, because the client may ask for the next turn at once. Only a panic ends the log first.
///
/// A turn that has a `draft` is kept among the recent ones instead of in a session, unless tools have
/// returned files, which belong to the session, or the client's answer is stored in it.
///
/// The driver is boxed, and this is no `async fn`: futures keep copies of their arguments and of what they pass on.
/// The driver is polled outside of the turn's `span`, which it enters only to log: entering and leaving it for each
/// token costs as much as encoding the token.
#[expect(clippy::manual_async_fn, reason = "an `async fn` would keep its arguments twice")]
pub(super) fn run(
    driver: Box<Driver>,
    place: TurnPermit,
    mut guard: TurnGuard,
    mut kept: KeptAnswer,
    span: Span,
) -> impl Future<Output = ()> + Send {
    async move {
        if let Some(draft) = &mut kept.draft {
            span.in_scope(|| draft.begin(guard.log()));
        }
        let ran = guard.store_while(pin!(drive(driver))).await;
        // Boxed, so that a turn keeps no room for its end while it runs.
        Box::pin(end_turn(ran, place, guard, kept).instrument(span)).await;
    }
}

/// Stores a turn, frees its session, and then shows its last event.
async fn end_turn(
    ran: Option<Result<Box<RanTurn>, Box<Writer>>>,
    place: TurnPermit,
    mut guard: TurnGuard,
    KeptAnswer { mut draft, serializer }: KeptAnswer,
) {
    let is_stored = draft.is_none() || guard.keeps_answer();
    let ran = match ran {
        Some(Ok(ran)) => Some(ran),
        Some(Err(writer)) => {
            if let Some(draft) = &mut draft {
                draft.leave_claim();
            }
            guard.leave().await;
            writer.leave();
            return drop(place);
        }
        None => None,
    };
    let Some(RanTurn { record, text, mut writer, report }) = ran.map(|ran| *ran) else {
        match draft {
            Some(draft) if !is_stored => draft.free_session(guard).await,
            _ => {
                let end = end(serializer, guard.log()).await.unwrap_or_default();
                guard.set_answer(end.answer);
                guard.finish(None).await;
            }
        }
        return drop(place);
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
    if !writer.log().is_superseded() {
        report.publish();
    }
    drop(place);
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
fn drive(driver: Box<Driver>) -> impl Future<Output = Option<Result<Box<RanTurn>, Box<Writer>>>> {
    // No `async fn`: that would keep the driver twice.
    let mut running = Some(driver);
    poll_fn(move |cx| {
        let polled = panic::catch_unwind(AssertUnwindSafe(|| Driver::poll_run(&mut running, cx)));
        polled.map_or_else(
            |_| {
                // Ends the log.
                running = None;
                Poll::Ready(None)
            },
            |poll| poll.map(Some),
        )
    })
}
