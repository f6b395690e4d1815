//! A turn that another gateway has begun.

use std::sync::Arc;

use bytes::Bytes;
use serde_json::value::RawValue;
use tokio::sync::mpsc::Sender;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tracing::warn;

use super::cut_short;
use super::log::Writer;
use super::store::{Holder, Lease, NodeId, StoredLog};
use super::turn_guard::TurnGuard;
use crate::conversation::{Conversation, Interrupted, Outcome};
use crate::telemetry::{metrics, millis};

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
    pub(crate) takeover: Box<Takeover>,
}

/// How a turn was taken over, for the log.
#[derive(Debug)]
pub(crate) struct Takeover {
    /// The id under which its session is stored.
    pub(crate) session_id: String,
    pub(crate) turn_id: String,
    /// Who takes it over, in this epoch.
    pub(crate) node: NodeId,
    pub(crate) epoch: u64,
    /// Who had it before, if the store knows.
    pub(crate) before: Option<Box<Holder>>,
    /// The last event that was stored.
    pub(crate) after: u64,
    /// How often it was taken over in its present round, counting this takeover. If that is too often, it ends.
    pub(crate) takeovers: u32,
    /// In how many epochs it was written before.
    pub(crate) epochs_before: usize,
}

impl Takeover {
    pub(super) fn new(lease: &Lease, log: &StoredLog, takeovers: u32) -> Self {
        let Lease { session_id, node, epoch, before, .. } = lease.clone();
        let (turn_id, after) = (log.turn_id.clone(), log.last);
        let epochs_before = log.epochs.starts().count();
        Self { session_id, turn_id, node, epoch, before, after, takeovers, epochs_before }
    }

    /// The node that had it before.
    pub(crate) fn node_before(&self) -> Option<String> {
        self.before.as_ref().map(|holder| holder.node.to_string())
    }

    /// How long ago its lease lapsed.
    pub(crate) fn lapsed_ms(&self) -> Option<u64> {
        self.before.as_ref()?.lapsed.map(millis)
    }

    /// Logs that the turn is ended, and why. What its calls have done is unknown, unless they have a result.
    pub(super) fn log_ended(&self, interrupted: &Interrupted, why: &str) {
        warn!(
            session = self.session_id,
            turn = self.turn_id,
            why,
            node = %self.node,
            from_node = self.node_before(),
            lapsed_ms = self.lapsed_ms(),
            epoch = self.epoch,
            after = self.after,
            takeovers = self.takeovers,
            epochs_before = self.epochs_before,
            rounds = interrupted.tally.rounds,
            under_way = interrupted.under_way(),
            calls_kept = interrupted.describe_calls(|call| call.outcome != Outcome::Cancelled),
            calls_unknown = interrupted.describe_calls(|call| call.outcome == Outcome::Cancelled),
            "an interrupted turn is ended"
        );
    }
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
        let Self { guard, mut writer, interrupted, takeover, .. } = self;
        takeover.log_ended(&interrupted, why);
        writer.push(&cut_short::interrupted(&interrupted));
        let turn = interrupted.into_ended();
        writer.seal();
        metrics::turn_interrupted("ended");
        guard.finish(Some(turn)).await;
    }
}
