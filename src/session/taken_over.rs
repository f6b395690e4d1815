//! A turn that another gateway has begun.

use std::sync::Arc;

use bytes::Bytes;
use serde_json::value::RawValue;
use tokio::sync::mpsc::Sender;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tracing::warn;

use super::journal;
use super::log::Writer;
use super::turn_guard::TurnGuard;
use crate::conversation::{Conversation, Interrupted};
use crate::telemetry::metrics;

/// A turn that has been taken over. It runs already, as far as readers can tell.
#[derive(Debug)]
pub(crate) struct TakenOver {
    /// The id under which its session is stored.
    pub(crate) session_id: String,
    pub(crate) guard: TurnGuard,
    /// Goes on with the turn's log.
    pub(crate) writer: Writer,
    /// The session's turns before it.
    pub(crate) conversation: Conversation,
    /// The turn's request, as the gateway that began it wrote it.
    pub(crate) asked: Arc<RawValue>,
    pub(crate) interrupted: Interrupted,
    /// Its place among those that run, unless it has to wait for one.
    pub(crate) permit: Option<OwnedSemaphorePermit>,
    /// The journal as it was, which does not count this takeover.
    pub(super) journal: Bytes,
}

/// Who goes on with turns that are taken over.
#[derive(Debug)]
pub(super) struct Successor {
    pub(super) turns: Sender<TakenOver>,
    /// The places of running turns.
    pub(super) places: Arc<Semaphore>,
}

/// A place for a turn that is taken over, unless it has to wait for one.
#[derive(Debug)]
pub(super) struct Place(pub(super) Option<OwnedSemaphorePermit>);

impl TakenOver {
    /// Leaves the turn to whoever comes next, who finds it as it was.
    pub(crate) async fn leave(self) {
        self.guard.restore_journal(self.journal).await;
        self.guard.leave().await;
        self.writer.leave();
    }

    /// Ends the turn, which cannot go on.
    pub(crate) async fn end(self, why: &str) {
        let Self { session_id, guard, mut writer, interrupted, .. } = self;
        let turn = interrupted.into_ended();
        warn!(session = session_id, turn = turn.turn_id, why, "an interrupted turn is ended");
        writer.push(&journal::INTERRUPTED);
        writer.seal();
        metrics::turn_interrupted("ended");
        guard.finish(Some(turn)).await;
    }
}
