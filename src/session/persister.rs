//! Stores a turn while it runs. Without it, a killed process would take the running turn with it.

use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::time::{Instant, sleep_until, timeout_at};
use tracing::{debug, error};

use super::LoggedTurn;
use super::codec::off_worker;
use super::journal::Journal;
use super::log::storing::{Draft, InlineAppender, NextUnstored, Stored, Unstorable, Unstored};
use super::log::{TurnLog, Writer};
use super::store::{Appended, Batch, Lease, LogNews, Store, StoreError, StoreFuture};
use crate::limits::session as limits;

/// Stores what is new of a turn, all that has gathered at a time. Readers see it after that.
///
/// ```text
///   news ── Appender ──> stored
///    '── no appender, failed, a long journal ──> Persister: asking ── answer ──> stored
/// ```
/// It has no task of its own: whoever writes the turn's log polls it after that, because nothing else wakes
/// it.
#[derive(Debug)]
pub(super) struct Persister(Option<Mutex<Persisting>>);

/// The turn, and where its news go.
struct Persisting {
    destination: Arc<Destination>,
    log: Arc<TurnLog>,
    /// Whether the writer of the log stores most of it without waiting.
    has_appender: bool,
    /// Never locked: the mutex around it is there so that references to the turn can be sent to other threads.
    asking: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
}

/// Where a turn is stored while it runs.
#[derive(Debug)]
struct Destination {
    store: Arc<dyn Store>,
    lease: Lease,
    turn_id: String,
}

impl fmt::Debug for Persisting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Persisting")
            .field("turn", &self.destination.turn_id)
            .finish_non_exhaustive()
    }
}

impl Persister {
    /// Of a turn that is only kept once it is over, if at all.
    pub(super) const NONE: Self = Self(None);

    /// Stores what this writer writes.
    pub(super) fn new(
        store: &Arc<dyn Store>,
        lease: &Lease,
        turn: &LoggedTurn,
        writer: &mut Writer,
    ) -> Self {
        let (store, lease, turn_id) = (Arc::clone(store), lease.clone(), turn.turn_id.clone());
        let appender = store.appender(&lease, &turn_id);
        let has_appender = appender.is_some();
        if let Some(appender) = appender {
            writer.set_appender(InlineAppender { appender, write_journal: inline_journal });
        }
        let destination = Arc::new(Destination { store, lease, turn_id });
        let log = Arc::clone(&turn.log);
        Self(Some(Mutex::new(Persisting { destination, log, has_appender, asking: None })))
    }

    /// Whether it never stores anything.
    pub(super) const fn is_none(&self) -> bool {
        self.0.is_none()
    }

    /// Whether the store may wake the task. Of a store without an appender, that is soon the case.
    pub(super) fn may_wake(&mut self) -> bool {
        self.0
            .as_mut()
            .map(Mutex::get_mut)
            .is_some_and(|it| !it.has_appender || it.asking.is_some())
    }

    /// Stores what is new. The task is woken when the store has answered.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>) {
        if let Some(persisting) = &mut self.0
            && persisting.get_mut().poll(cx).is_ready()
        {
            self.0 = None;
        }
    }

    /// Waits until nothing is on its way to the store any more. The log is sealed, or this never returns.
    pub(super) async fn stop(self) {
        if let Some(persisting) = self.0 {
            let mut persisting = persisting.into_inner();
            poll_fn(|cx| persisting.poll(cx)).await;
        }
    }
}

impl Persisting {
    /// Ready once nothing more is to be stored.
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        loop {
            if let Some(asking) = &mut self.asking {
                ready!(asking.as_mut().poll(cx));
                self.asking = None;
            }
            match self.log.next_unstored() {
                NextUnstored::News(news) => self.asking = Some(self.ask(news)),
                NextUnstored::Nothing => return Poll::Pending,
                NextUnstored::Over => return Poll::Ready(()),
            }
        }
    }

    /// Appends this, and then all that follows.
    fn ask(&self, news: Unstored) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        let (to, log) = (Arc::clone(&self.destination), Arc::clone(&self.log));
        Box::pin(async move {
            let mut next = Some(news);
            while let Some(news) = next {
                let upto = news.upto;
                let stored = append(&to, news).await;
                if !note(&to.lease, &log, upto, stored) {
                    return;
                }
                // It stays for all that follows: a future for each token costs more.
                next = poll_fn(|_| match log.next_unstored() {
                    NextUnstored::News(news) => Poll::Ready(Some(news)),
                    NextUnstored::Nothing => Poll::Pending,
                    NextUnstored::Over => Poll::Ready(None),
                })
                .await;
            }
        })
    }
}

/// The journal of a draft that is not long.
fn inline_journal(draft: &Draft) -> Option<String> {
    let is_short = draft.turn.bytes() <= limits::INLINE_RECORD_BYTES_MAX;
    is_short.then(|| Journal::new(draft.clone()).write())
}

/// Notes how storing this much has gone. False if nothing more is to be stored.
fn note(lease: &Lease, log: &TurnLog, upto: Stored, stored: Result<Appended, StoreError>) -> bool {
    let session = &*lease.session_id;
    match stored {
        Ok(Appended { is_cancelled }) => {
            // Before the write is noted: that releases the tools that wait for it.
            if is_cancelled {
                log.cancel();
            }
            log.note_stored(upto);
        }
        Err(StoreError::Unavailable(cause) | StoreError::Damaged(cause)) => {
            error!(session, cause, "a running turn is not stored");
            log.stop_storing(Unstorable::Silent);
            return false;
        }
        Err(StoreError::DataLoss) => {
            error!(session, "the session store has lost a part of a running turn");
            log.stop_storing(Unstorable::DataLoss);
            return false;
        }
        Err(error @ (StoreError::Superseded | StoreError::NoSession)) => {
            debug!(session, %error, "a running turn is not stored");
            log.stop_storing(refused(&error));
            // Whoever has the session now decides what happens in it.
            log.cancel();
            return false;
        }
    }
    true
}

/// Whoever waits for the store hears that it is no longer asked.
impl Drop for Persisting {
    fn drop(&mut self) {
        self.log.stop_storing(Unstorable::Silent);
    }
}

/// Appends what is new. A store that does not answer is asked again for a while.
async fn append(
    Destination { store, lease, turn_id }: &Destination,
    Unstored { batches, draft, .. }: Unstored,
) -> Result<Appended, StoreError> {
    let journal = match draft {
        Some(draft) => {
            let length = draft.turn.bytes();
            let write = move || Bytes::from(Journal::new(*draft).write());
            Some(off_worker(length, write).await)
        }
        None => None,
    };
    let news = LogNews { batches: joined(batches), journal };
    patiently(store.wait(), || store.append(lease, turn_id, news.clone())).await
}

/// Asks, and asks again while the store says that it is unavailable, until `patience` is over. The time that an attempt
/// takes counts towards the pause before the next one. An attempt that is still open at the end is dropped: the store
/// may have done it.
pub(crate) async fn patiently<'s, T>(
    patience: Duration,
    ask: impl Fn() -> StoreFuture<'s, T>,
) -> Result<T, StoreError> {
    let mut asked_at = Instant::now();
    let deadline = asked_at + patience;
    loop {
        let again_at = asked_at + limits::STORE_RETRY_INTERVAL;
        match timeout_at(deadline, ask()).await {
            Err(_) => {
                let waited = patience.as_secs_f32();
                return Err(StoreError::Unavailable(format!("no answer within {waited} s")));
            }
            Ok(Err(StoreError::Unavailable(_))) if again_at.max(Instant::now()) < deadline => {
                sleep_until(again_at).await;
                asked_at = Instant::now();
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

/// Why a store refuses what is written under a lease.
pub(super) fn refused(error: &StoreError) -> Unstorable {
    if *error == StoreError::NoSession { Unstorable::Deleted } else { Unstorable::Superseded }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use tokio::time::sleep;

    use super::*;

    /// The silence used up the time: after another pause, none would be left for a second attempt.
    #[tokio::test(start_paused = true)]
    async fn a_store_that_was_silent_is_asked_again_at_once() {
        let times = Cell::new(0);
        let patience = 2 * limits::STORE_RETRY_INTERVAL;
        let asked = patiently(patience, || {
            times.set(times.get() + 1);
            let is_first = times.get() == 1;
            Box::pin(async move {
                if is_first {
                    sleep(patience / 2).await;
                    return Err(StoreError::Unavailable("no answer".to_owned()));
                }
                Ok(())
            })
        });
        assert_eq!(asked.await, Ok(()));
        assert_eq!(times.get(), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn a_store_that_refuses_is_asked_at_intervals() {
        let begun_at = Instant::now();
        let patience = 3 * limits::STORE_RETRY_INTERVAL;
        let times = Cell::new(0);
        let asked = patiently::<()>(patience, || {
            times.set(times.get() + 1);
            Box::pin(async { Err(StoreError::Unavailable("full".to_owned())) })
        });
        assert_eq!(asked.await, Err(StoreError::Unavailable("full".to_owned())));
        assert_eq!((times.get(), begun_at.elapsed()), (3, 2 * limits::STORE_RETRY_INTERVAL));
    }
}
