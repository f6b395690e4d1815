//! Stores a turn while it runs. Without it, a killed process would take the running turn with it.

use std::future::poll_fn;
use std::sync::Arc;

use bytes::Bytes;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};
use tracing::{debug, error};

use super::LoggedTurn;
use super::codec::off_worker;
use super::journal::Journal;
use super::log::storing::Unstored;
use super::store::{Lease, LogNews, Store, StoreError};
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
                        return turn.log.stop_storing(false);
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
    Unstored { batches, journal, .. }: Unstored,
) -> Result<(), StoreError> {
    let journal = match journal {
        Some((after, turn)) => {
            let length = turn.bytes();
            let write = move || Bytes::from(Journal::new(after, turn).write());
            Some(off_worker(length, write).await)
        }
        None => None,
    };
    let news = LogNews { batches, journal };
    let begun_at = Instant::now();
    loop {
        match store.append(lease, turn_id, news.clone()).await {
            Err(StoreError::Unavailable(_)) if begun_at.elapsed() < limits::STORE_WAIT => {
                sleep(limits::STORE_RETRY_INTERVAL).await;
            }
            result => return result,
        }
    }
}
