//! Places for connections: which connection gets one, and which one loses its place when there
//! are no more.
//!
//! A connection costs its client nothing, so silent clients could hold every place until the
//! timeout for the head. When no place is free, the connection that has been silent longest is
//! cut. A connection whose client has sent a request keeps its place, even if it was chosen a moment before.
//!
//! ```text
//!   accepted ── a place is free ──────────> silent ── request ──> kept ──> gone
//!      │                                      ^ │
//!      │── none, but some are silent ─────────' '── the longest ──> cut ──> gone
//!      '── all are kept: waits until one is gone
//! ```

use std::collections::BTreeMap;
use std::future::pending;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;

/// A fixed number of places for connections.
#[derive(Debug)]
pub(super) struct Places {
    free: Arc<Semaphore>,
    silent: Arc<Mutex<Silent>>,
}

/// The connections whose clients have not sent a request yet.
#[derive(Debug, Default)]
struct Silent {
    /// The number of connections so far.
    count: u64,
    /// By number, so the oldest comes first.
    connections: BTreeMap<u64, SilentConnection>,
}

/// What is between a silent connection and whoever needs its place.
#[derive(Debug, Clone)]
struct SilentConnection {
    /// Tells the connection to end, unless it has a request by now.
    cut: CancellationToken,
    /// Cancelled when the client has sent a request.
    kept: CancellationToken,
    /// Cancelled when the connection has ended.
    gone: CancellationToken,
}

impl Places {
    /// Creates `count` places.
    pub(super) fn new(count: usize) -> Self {
        Self { free: Arc::new(Semaphore::new(count)), silent: Arc::default() }
    }

    /// Takes a place for an accepted connection. If none is free, takes the place of the
    /// connection that has been silent longest. If all clients have sent requests, waits for
    /// one to leave.
    ///
    /// Dropping the future takes nothing.
    pub(super) async fn take(&self) -> Place {
        if self.free.available_permits() == 0 {
            self.make_room().await;
        }
        let permit = Arc::clone(&self.free).acquire_owned().await;
        self.place(permit.expect("the semaphore is never closed"))
    }

    /// Takes a free place, if there is one.
    pub(super) fn try_take(&self) -> Option<Place> {
        Some(self.place(Arc::clone(&self.free).try_acquire_owned().ok()?))
    }

    fn place(&self, permit: OwnedSemaphorePermit) -> Place {
        let [cut, kept, gone] = std::array::from_fn(|_| CancellationToken::new());
        let connection = SilentConnection { cut, kept, gone };
        let mut silent = self.silent.lock();
        silent.count += 1;
        let number = silent.count;
        silent.connections.insert(number, connection.clone());
        drop(silent);
        let silent = Arc::clone(&self.silent);
        Place { number, silent, connection: Mutex::new(Some(connection)), permit: Some(permit) }
    }

    /// Cuts the connection that has been silent longest and waits until it has ended. False if
    /// there is none.
    pub(super) async fn make_room(&self) -> bool {
        loop {
            let oldest = self.silent.lock().connections.pop_first();
            let Some((_, SilentConnection { cut, kept, gone })) = oldest else { return false };
            cut.cancel();
            tokio::select! {
                () = gone.cancelled() => return true,
                // Its request was faster.
                () = kept.cancelled() => {}
            }
        }
    }
}

/// A connection's place, which is free again once this is dropped.
#[derive(Debug)]
pub(super) struct Place {
    number: u64,
    silent: Arc<Mutex<Silent>>,
    /// `None` once its client has sent a request: streams keep no memory for it.
    connection: Mutex<Option<SilentConnection>>,
    /// `None` once the place is free.
    permit: Option<OwnedSemaphorePermit>,
}

impl Place {
    /// Records that the client has sent a request, so that it cannot lose its place.
    pub(super) fn keep(&self) {
        let Some(connection) = self.connection.lock().take() else { return };
        connection.kept.cancel();
        self.silent.lock().connections.remove(&self.number);
    }

    /// Completes when the connection must give up its place. Poll this after what may
    /// [keep](Self::keep) it.
    pub(super) async fn lost(&self) {
        let tokens = self.connection.lock().as_ref().map(|it| (it.cut.clone(), it.kept.clone()));
        let Some((cut, kept)) = tokens else { return pending().await };
        cut.cancelled().await;
        if kept.is_cancelled() {
            pending::<()>().await;
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.silent.lock().connections.remove(&self.number);
        // The place is free by the time that its end is reported.
        self.permit = None;
        if let Some(connection) = self.connection.get_mut() {
            connection.gone.cancel();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::task::JoinHandle;
    use tokio::time::timeout;

    use super::*;

    /// A connection that ends when it is told to.
    async fn silent(places: &Places) -> JoinHandle<()> {
        let place = places.take().await;
        tokio::spawn(async move { place.lost().await })
    }

    #[tokio::test]
    async fn the_longest_silent_connection_loses_its_place() {
        let places = Places::new(3);
        let kept = places.take().await;
        kept.keep();
        let (first, second) = (silent(&places).await, silent(&places).await);
        let third = silent(&places).await;
        first.await.unwrap();
        assert!(!second.is_finished() && !third.is_finished());
        let _fourth = silent(&places).await;
        second.await.unwrap();
        assert!(!third.is_finished());
    }

    #[tokio::test(start_paused = true)]
    async fn connections_with_requests_are_waited_for() {
        let places = Places::new(1);
        let kept = places.take().await;
        kept.keep();
        assert!(!places.make_room().await);
        let mut waiting = std::pin::pin!(places.take());
        assert!(timeout(Duration::from_secs(60), waiting.as_mut()).await.is_err());
        drop(kept);
        waiting.await;
    }

    #[tokio::test]
    async fn an_ended_connection_is_not_cut() {
        let places = Places::new(2);
        let first = places.take().await;
        let second = silent(&places).await;
        drop(first);
        assert!(places.make_room().await);
        second.await.unwrap();
    }

    /// Its answer may be on its way already.
    #[tokio::test(start_paused = true)]
    async fn a_connection_whose_request_was_faster_is_not_cut() {
        let places = Places::new(2);
        let place = places.take().await;
        let silent = silent(&places).await;
        let mut lost = std::pin::pin!(place.lost());
        let mut room = std::pin::pin!(places.make_room());
        assert!(timeout(Duration::ZERO, room.as_mut()).await.is_err(), "the older one is chosen");
        place.keep();
        assert!(timeout(Duration::from_secs(1), room).await.unwrap(), "the other one is cut");
        silent.await.unwrap();
        assert!(timeout(Duration::from_secs(60), lost.as_mut()).await.is_err());
    }
}
