//! Stores a turn while it runs. Without it, a killed process would take the running turn with it.

use std::future::poll_fn;
use std::sync::Arc;

use bytes::Bytes;
use tokio::task::JoinHandle;
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
#[derive(Debug)]
pub(super) struct Persister(Option<JoinHandle<()>>);

impl Persister {
    /// Of a turn that is only kept once it is over, if at all.
    pub(super) const NONE: Self = Self(None);

    pub(super) fn start(store: &Arc<dyn Store>, lease: &Lease, turn: &LoggedTurn) -> Self {
        let (store, lease, turn) = (Arc::clone(store), lease.clone(), turn.clone());
        Self(Some(tokio::spawn(async move {
            let _way = Way(Arc::clone(&turn.log));
            while let Some(news) = poll_fn(|cx| turn.log.poll_unstored(cx)).await {
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
        })))
    }

    /// Waits until nothing is on its way to the store any more. The log is sealed.
    pub(super) async fn stop(self) {
        if let Some(task) = self.0 {
            // It has no panic of its own to pass on: the store's are errors.
            let _ = task.await;
        }
    }

    /// Stores nothing more.
    pub(super) fn abort(&self) {
        if let Some(task) = &self.0 {
            task.abort();
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

/// Stops storing when it is dropped, so that nothing waits for a task that has panicked.
struct Way(Arc<TurnLog>);

impl Drop for Way {
    fn drop(&mut self) {
        self.0.stop_storing(true);
    }
}
