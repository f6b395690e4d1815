//! Stores a turn while it runs. Without it, a killed process would take the running turn with it.

use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::Context;

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::time::{Instant, sleep, timeout_at};
use tracing::{debug, error};

use super::LoggedTurn;
use super::codec::off_worker;
use super::journal::Journal;
use super::log::TurnLog;
use super::log::storing::Unstored;
use super::store::{Batch, Lease, LogNews, Store, StoreError, StoreFuture};
use crate::limits::session as limits;

/// Stores what is new of a turn, all that has gathered at a time. Readers see it after that.
///
/// It has no task of its own: whoever writes the turn's log polls it after that. A store that answers at once
/// then costs no second task for each token.
pub(super) struct Persister(Option<Mutex<Persisting>>);

/// In a mutex that is never locked, only so that references to the turn can be sent to other threads.
type Persisting = Pin<Box<dyn Future<Output = ()> + Send>>;

impl fmt::Debug for Persister {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Persister").field(&self.0.is_some()).finish()
    }
}

impl Persister {
    /// Of a turn that is only kept once it is over, if at all.
    pub(super) const NONE: Self = Self(None);

    pub(super) fn new(store: &Arc<dyn Store>, lease: &Lease, turn: &LoggedTurn) -> Self {
        Self(Some(Mutex::new(Box::pin(persist(Arc::clone(store), lease.clone(), turn.clone())))))
    }

    /// Stores what is new. The task is woken when the store has answered.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>) {
        if let Some(persisting) = &mut self.0
            && persisting.get_mut().as_mut().poll(cx).is_ready()
        {
            self.0 = None;
        }
    }

    /// Waits until nothing is on its way to the store any more. The log is sealed.
    pub(super) async fn stop(self) {
        if let Some(persisting) = self.0 {
            persisting.into_inner().await;
        }
    }
}

async fn persist(store: Arc<dyn Store>, lease: Lease, turn: LoggedTurn) {
    let _stopping = StopStoring(Arc::clone(&turn.log));
    while let Some(news) = poll_fn(|_| turn.log.poll_unstored()).await {
        let upto = news.upto;
        match append(&*store, &lease, &turn.turn_id, news).await {
            Ok(()) => turn.log.note_stored(upto),
            Err(StoreError::Unavailable(cause)) => {
                error!(session = lease.session_id, cause, "a running turn is not stored");
                return turn.log.stop_storing(true);
            }
            Err(error @ (StoreError::Superseded | StoreError::NoSession)) => {
                debug!(session = lease.session_id, %error, "a running turn is not stored");
                turn.log.stop_storing(false);
                // Whoever has the session now decides what happens in it.
                turn.log.cancel();
                return;
            }
        }
    }
}

/// Appends what is new. A store that does not answer is asked again for a while.
async fn append(
    store: &dyn Store,
    lease: &Lease,
    turn_id: &str,
    Unstored { batches, draft, .. }: Unstored,
) -> Result<(), StoreError> {
    let journal = match draft {
        Some(draft) => {
            let length = draft.turn.bytes();
            let write = move || Bytes::from(Journal::new(*draft).write());
            Some(off_worker(length, write).await)
        }
        None => None,
    };
    let news = LogNews { batches: joined(batches), journal };
    patiently(store, || store.append(lease, turn_id, news.clone())).await
}

/// Asks a store that fails again, for a while. One that does not answer at all is not asked again, because it
/// may have done it.
pub(super) async fn patiently<'s, T>(
    store: &dyn Store,
    ask: impl Fn() -> StoreFuture<'s, T>,
) -> Result<T, StoreError> {
    let deadline = Instant::now() + store.wait();
    loop {
        match timeout_at(deadline, ask()).await {
            Err(_) => {
                let waited = store.wait().as_secs();
                return Err(StoreError::Unavailable(format!("no answer within {waited} s")));
            }
            Ok(Err(StoreError::Unavailable(_)))
                if Instant::now() + limits::STORE_RETRY_INTERVAL < deadline =>
            {
                sleep(limits::STORE_RETRY_INTERVAL).await;
            }
            Ok(result) => return result,
        }
    }
}

/// What has gathered, as one batch: each takes a row in the store.
fn joined(batches: Vec<Batch>) -> Vec<Batch> {
    match (batches.first(), batches.last()) {
        (Some(Batch { first, .. }), Some(Batch { last, .. })) if first != last => {
            let lines: Vec<&[u8]> = batches.iter().map(|batch| &*batch.bytes).collect();
            vec![Batch { first: *first, last: *last, bytes: lines.concat().into() }]
        }
        _ => batches,
    }
}

/// Stops storing when it is dropped, so that nothing waits for a store that is no longer asked.
struct StopStoring(Arc<TurnLog>);

impl Drop for StopStoring {
    fn drop(&mut self) {
        self.0.stop_storing(true);
    }
}
