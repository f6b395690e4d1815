//! A lease, from its acquisition to its release.
//!
//! ```text
//!   acquire, enter ──> OwnedLease ── finish, discard ──> written and released, in one step
//!                          │     '── release, drop ────> released, or else it lapses
//!                       keep_for
//!                          v
//!                       renewed again and again ── refused, or not in time ──> its turn ends
//!
//!   asked for     renewal is due             its turn ends       lapses
//!       |---------------|---------------------------|--------------|
//!       0              1/3                         5/6             1    of its time
//! ```

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use tokio::runtime::Handle;
use tokio::select;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep_until, timeout_at};
use tracing::{debug, error, warn};

use super::LoggedTurn;
use super::log::TurnLog;
use super::log::storing::Unstorable;
use super::persister::{patiently, refused};
use super::store::{
    Batch, Entered, Holder, Lease, LogEnd, NodeId, Store, StoreError, StoredLog, StoredRecord,
    Version, Watch, Watched,
};
use crate::limits::session as limits;
use crate::telemetry::metrics;

/// A lease that is released when it is dropped, at the latest.
#[derive(Debug)]
pub(super) struct OwnedLease {
    store: Arc<dyn Store>,
    lease: Lease,
    /// When it was asked for: before it began, whatever clock the store has.
    asked_at: Instant,
    renewal: Option<JoinHandle<()>>,
    /// Whether the store has been asked to end the turn, and so may have released the lease.
    is_ending: Arc<AtomicBool>,
    is_released: bool,
}

/// A session whose lease was taken for a turn: see [`Entered`].
#[derive(Debug)]
pub(super) struct EnteredSession {
    pub(super) lease: OwnedLease,
    pub(super) before: Option<Holder>,
    pub(super) is_interrupted: bool,
    pub(super) record: Option<StoredRecord>,
}

impl EnteredSession {
    fn new(store: &Arc<dyn Store>, entered: Entered, asked_at: Instant) -> Self {
        let Entered { lease, before, is_interrupted, record } = entered;
        Self { lease: OwnedLease::new(store, lease, asked_at), before, is_interrupted, record }
    }
}

/// What the end of a turn leaves: see [`Store::finish`].
#[derive(Debug)]
pub(super) struct Finish<'a> {
    pub(super) expected: Option<Version>,
    pub(super) record: Bytes,
    pub(super) end: LogEnd<'a>,
    /// How long a store that fails is asked again.
    pub(super) patience: Duration,
}

impl OwnedLease {
    /// Takes the lease of a session; `None` if another node has it.
    pub(super) async fn acquire(
        store: &Arc<dyn Store>,
        session_id: &str,
        node: NodeId,
    ) -> Result<Option<Self>, StoreError> {
        let asked_at = Instant::now();
        let lease = store.acquire(session_id, node).await?;
        Ok(lease.map(|lease| Self::new(store, lease, asked_at)))
    }

    /// Acquires the lease for a turn that is to begin in the session or to go on there.
    pub(super) async fn enter(
        store: &Arc<dyn Store>,
        session_id: &str,
        node: NodeId,
    ) -> Result<Option<EnteredSession>, StoreError> {
        let asked_at = Instant::now();
        let entered = store.enter(session_id, node).await?;
        Ok(entered.map(|entered| EnteredSession::new(store, entered, asked_at)))
    }

    /// Acquires the lease of a new session, whose id was just made up.
    pub(super) async fn enter_new(
        store: &Arc<dyn Store>,
        session_id: &str,
        node: NodeId,
    ) -> Result<Option<EnteredSession>, StoreError> {
        let asked_at = Instant::now();
        let entered = store.enter_new(session_id, node).await?;
        Ok(entered.map(|entered| EnteredSession::new(store, entered, asked_at)))
    }

    fn new(store: &Arc<dyn Store>, lease: Lease, asked_at: Instant) -> Self {
        let store = Arc::clone(store);
        let is_ending = Arc::default();
        Self { store, lease, asked_at, renewal: None, is_ending, is_released: false }
    }

    pub(super) const fn get(&self) -> &Lease {
        &self.lease
    }

    /// The store that has granted it.
    pub(super) const fn store(&self) -> &Arc<dyn Store> {
        &self.store
    }

    /// Renews the lease for as long as it is held, if the store lets leases expire. If that fails, the
    /// turn ends before another node can have the session. It also ends if someone asks for that.
    pub(super) fn keep_for(&mut self, turn: &LoggedTurn) {
        let Some(time) = self.store.lease_time() else { return };
        let until = self.asked_at + usable(time);
        turn.log.note_held_until(until);
        let renewal = Renewal {
            store: Arc::clone(&self.store),
            lease: self.lease.clone(),
            turn: turn.clone(),
            time,
            until,
            is_ending: Arc::clone(&self.is_ending),
        };
        self.renewal = Some(tokio::spawn(renewal.run(self.asked_at)));
    }

    /// Ends a turn in the store, which releases the lease in the same step. The lease is kept until then, and a
    /// store that fails is asked again as long as there is patience. If the store has lost a part of this log, that
    /// part is written again.
    pub(super) async fn finish(
        mut self,
        Finish { expected, record, end, patience }: Finish<'_>,
        log: Option<&TurnLog>,
    ) -> Result<(), StoreError> {
        self.is_ending.store(true, Ordering::SeqCst);
        let (store, lease) = (Arc::clone(&self.store), self.lease.clone());
        let finish = || store.finish(&lease, expected, record.clone(), end.clone());
        let mut finished = patiently(patience, finish).await.map(drop);
        if finished == Err(StoreError::DataLoss)
            && let Some(log) = log
        {
            finished = match self.lost_part(end.turn_id, log).await {
                Ok(Some(batches)) => {
                    let end = LogEnd { batches, ..end };
                    store.finish(&lease, expected, record, end).await.map(drop)
                }
                Ok(None) => Err(StoreError::DataLoss),
                // It may have more than it has confirmed, and then nothing is lost.
                Err(error) => Err(error),
            };
        }
        self.stop_renewal();
        match finished {
            Ok(()) => self.is_released = true,
            Err(_) => self.release().await,
        }
        finished
    }

    /// The part of a sealed log that the store has lost. `None` if it has nothing of the log, or another gateway has
    /// gone on with it.
    async fn lost_part(
        &self,
        turn_id: &str,
        log: &TurnLog,
    ) -> Result<Option<Vec<Batch>>, StoreError> {
        let kept = self.store.read(&self.lease.session_id, Some(turn_id), u64::MAX).await?;
        let kept = kept.filter(|kept| kept.epochs == log.epochs());
        Ok(kept.map(|StoredLog { last, .. }| log.after(last)))
    }

    /// Forgets the session, unless the lease is lost.
    pub(super) async fn discard(mut self) -> Result<(), StoreError> {
        self.is_ending.store(true, Ordering::SeqCst);
        let discarded = self.store.discard(&self.lease).await;
        self.stop_renewal();
        match discarded {
            Ok(()) => self.is_released = true,
            Err(_) => self.release().await,
        }
        discarded
    }

    /// Releases the lease. If that fails, the store will let it expire.
    pub(super) async fn release(mut self) {
        self.stop_renewal();
        release(&*self.store, &self.lease).await;
        self.is_released = true;
    }

    fn stop_renewal(&mut self) {
        if let Some(renewal) = self.renewal.take() {
            renewal.abort();
        }
    }
}

/// A request or a turn was dropped. Whoever comes next has another lease, so that it does not
/// matter when this one is released.
impl Drop for OwnedLease {
    fn drop(&mut self) {
        self.stop_renewal();
        let Ok(runtime) = Handle::try_current() else { return };
        if !self.is_released {
            let (store, lease) = (Arc::clone(&self.store), self.lease.clone());
            runtime.spawn(async move { release(&*store, &lease).await });
        }
    }
}

async fn release(store: &dyn Store, lease: &Lease) {
    if let Err(error) = store.release(lease).await {
        debug!(session = &*lease.session_id, %error, "the lease was not released");
    }
}

/// How long after it was asked for a lease is used. The rest is for the way of the request, and for a
/// turn that has to stop.
fn usable(time: Duration) -> Duration {
    time * 5 / 6
}

/// Keeps the lease of a running turn.
struct Renewal {
    store: Arc<dyn Store>,
    lease: Lease,
    turn: LoggedTurn,
    time: Duration,
    /// From then on, another node may have the session.
    until: Instant,
    is_ending: Arc<AtomicBool>,
}

impl Renewal {
    async fn run(mut self, asked_at: Instant) {
        let mut watch = Watch::never();
        let mut due = asked_at + self.interval();
        let mut is_watching = false;
        loop {
            if !is_watching {
                let watching = self.store.watch(&self.lease.session_id, Watched::Owner);
                if let Ok(Ok(stands)) = timeout_at(due, watching).await {
                    (watch, is_watching) = (stands, true);
                    // Before that, somebody may have cancelled the turn, or begun to read it.
                    match self.renew().await {
                        Some(next) => due = next,
                        None => return,
                    }
                }
            }
            select! {
                biased;
                () = sleep_until(due) => {}
                () = watch.changed() => {}
            }
            match self.renew().await {
                Some(next) => due = next,
                None => return,
            }
        }
    }

    /// Renews the lease, and returns when to do so again; `None` if it is lost.
    async fn renew(&mut self) -> Option<Instant> {
        let asked_at = Instant::now();
        match timeout_at(self.until, self.store.renew(&self.lease)).await {
            Ok(Ok(renewed)) => {
                self.turn.log.note_remote_reader(renewed.is_read);
                metrics::lease_renewed();
                self.until = asked_at + usable(self.time);
                self.turn.log.note_held_until(self.until);
                if renewed.cancels(&self.turn.turn_id) {
                    self.turn.log.cancel();
                }
                Some(asked_at + self.interval())
            }
            Ok(Err(StoreError::Unavailable(_))) if Instant::now() < self.until => {
                Some(self.until.min(Instant::now() + limits::STORE_RETRY_INTERVAL))
            }
            Ok(Err(StoreError::Superseded | StoreError::DataLoss | StoreError::NoSession))
                if self.is_ending.load(Ordering::SeqCst) =>
            {
                None
            }
            Ok(Err(error @ (StoreError::Superseded | StoreError::NoSession))) => {
                debug!(session = &*self.lease.session_id, %error, "a lease was lost");
                metrics::lease_lost();
                self.turn.log.stop_storing(refused(&error));
                self.turn.log.cancel();
                None
            }
            Ok(Err(StoreError::DataLoss)) => {
                error!(session = &*self.lease.session_id, "the session store has lost a lease");
                metrics::lease_lost();
                self.turn.log.stop_storing(Unstorable::DataLoss);
                None
            }
            Ok(Err(StoreError::Unavailable(_) | StoreError::Damaged(_))) | Err(_) => {
                warn!(
                    session = &*self.lease.session_id,
                    "a lease was not renewed in time: its turn ends"
                );
                metrics::lease_lost();
                self.turn.log.stop_storing(Unstorable::Silent);
                None
            }
        }
    }

    /// A third of the lease's time, and less by up to a tenth, so that many turns that begin together
    /// are not renewed together.
    fn interval(&self) -> Duration {
        let thousandths = u16::try_from(self.lease.grant % 1000).unwrap_or_default();
        (self.time / 3).mul_f64(1.0 - f64::from(thousandths) / 10_000.0)
    }
}
