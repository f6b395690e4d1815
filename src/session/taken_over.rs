//! A turn that another gateway has begun.

use std::sync::Arc;

use bytes::Bytes;
use serde_json::value::RawValue;
use tokio::sync::mpsc::Sender;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tracing::{info, warn};

use super::cut_short;
use super::lease::OwnedLease;
use super::log::Writer;
use super::running::Claim;
use super::store::{Holder, Lease, NodeId, StoredLog};
use super::turn_guard::TurnGuard;
use crate::conversation::{CallFates, Conversation, Interrupted, Outcome};
use crate::telemetry::{metrics, millis};

/// A turn that has been taken over. It runs already, as far as readers can tell.
#[derive(Debug)]
pub(crate) struct TakenOver {
    /// The id under which its session is stored.
    pub(crate) session_id: Arc<str>,
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
    session_id: Arc<str>,
    turn_id: String,
    /// Who takes it over, in this epoch.
    node: NodeId,
    epoch: u64,
    /// Who had it before, if the store knows.
    before: Option<Holder>,
    /// The last event that was stored.
    after: u64,
    /// How often it was taken over in its present round, counting this takeover, from nodes that had not left it. If
    /// that is too often, it ends.
    pub(super) takeovers: u32,
    /// In how many epochs it was written before.
    epochs_before: usize,
}

/// Logs a takeover: from whom, and what was under way. What becomes of it is in the last fields.
macro_rules! log_takeover {
    ($log:ident!, $takeover:expr, $interrupted:expr, $($outcome:tt)*) => {
        $log!(
            session = &*$takeover.session_id,
            turn = $takeover.turn_id,
            node = %$takeover.node,
            from_node = $takeover.before.map(|holder| holder.node.to_string()),
            lapsed_ms = $takeover.before.and_then(|holder| holder.lapsed).map(millis),
            epoch = $takeover.epoch,
            after = $takeover.after,
            takeovers = $takeover.takeovers,
            epochs_before = $takeover.epochs_before,
            rounds = $interrupted.tally.rounds,
            under_way = $interrupted.under_way(),
            $($outcome)*
        )
    };
}

impl Takeover {
    pub(super) fn new(
        lease: &Lease,
        before: Option<Holder>,
        log: &StoredLog,
        takeovers: u32,
    ) -> Self {
        let Lease { session_id, node, epoch, .. } = lease.clone();
        let (turn_id, after) = (log.turn_id.clone(), log.last);
        let epochs_before = log.epochs.starts().count();
        Self { session_id, turn_id, node, epoch, before, after, takeovers, epochs_before }
    }

    /// Logs that the turn goes on here: what was under way, and what becomes of its calls.
    pub(crate) fn log_resumed(&self, interrupted: &Interrupted, calls: &CallFates) {
        log_takeover!(
            info!,
            self,
            interrupted,
            calls_kept = calls.kept,
            calls_run_again = calls.run_again,
            calls_unknown = calls.unknown,
            "an interrupted turn is taken over"
        );
    }

    /// Logs that the turn is ended, and why. What its calls have done is unknown, unless they have a result.
    pub(super) fn log_ended(&self, interrupted: &Interrupted, why: &str) {
        log_takeover!(
            warn!,
            self,
            interrupted,
            calls_kept = interrupted.describe_calls(|call| call.outcome != Outcome::Cancelled),
            calls_unknown = interrupted.describe_calls(|call| call.outcome == Outcome::Cancelled),
            why,
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

/// A session whose interrupted turn is taken over: no other request has it, and no other node.
#[derive(Debug)]
pub(super) struct HeldSession {
    pub(super) claim: Claim,
    pub(super) lease: OwnedLease,
    /// Who had it before.
    pub(super) before: Option<Holder>,
    pub(super) place: TakeoverPlace,
}

/// Where a turn that is taken over will run.
#[derive(Debug)]
pub(super) enum TakeoverPlace {
    /// In a place that is reserved for it.
    Reserved(OwnedSemaphorePermit),
    /// In a place that it has to wait for.
    Awaited,
}

impl TakeoverPlace {
    pub(super) fn into_permit(self) -> Option<OwnedSemaphorePermit> {
        match self {
            Self::Reserved(permit) => Some(permit),
            Self::Awaited => None,
        }
    }
}

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
        guard.finish(Some(turn)).await;
        if !writer.log().is_superseded() {
            metrics::turn_interrupted("ended");
            metrics::turn_outcome(cut_short::INTERRUPTED_OUTCOME);
        }
    }
}
