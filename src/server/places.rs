//! Places for connections: which connection gets one, and which one loses its place when there
//! are no more.
//!
//! A connection costs its client nothing, so silent clients could hold every place until the
//! timeout for the head. When no place is free, a client with more than an eighth of the silent connections loses its
//! own oldest. Otherwise the client with the most loses its oldest, so a flood displaces itself. A connection whose
//! client has sent a request keeps its place, even if it was chosen a moment before.
//!
//! ```text
//!   accepted ── a place is free ──────────> silent ── request ──> kept ──> gone
//!      │                                      ^ │
//!      │── none, but some are silent ─────────' '── the oldest ──> cut ──> gone
//!      '── all are kept: waits until one is gone
//! ```

use std::cmp::Reverse;
use std::collections::{BTreeSet, HashMap};
use std::future::pending;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;

use crate::gateway::ClientAddress;
use crate::limits::server::SILENT_SHARE;

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
    /// By number.
    connections: HashMap<u64, SilentConnection>,
    /// Their numbers by address, the oldest first.
    by_address: HashMap<ClientAddress, BTreeSet<u64>>,
}

/// What is between a silent connection and whoever needs its place.
#[derive(Debug, Clone)]
struct SilentConnection {
    address: ClientAddress,
    /// Tells the connection to end, unless it has a request by now.
    cut: CancellationToken,
    /// Cancelled when the client has sent a request.
    kept: CancellationToken,
    /// Cancelled when the connection has ended.
    gone: CancellationToken,
}

impl Silent {
    fn add(&mut self, connection: SilentConnection) -> u64 {
        self.count += 1;
        self.by_address.entry(connection.address).or_default().insert(self.count);
        self.connections.insert(self.count, connection);
        self.count
    }

    fn remove(&mut self, number: u64) -> Option<SilentConnection> {
        let connection = self.connections.remove(&number)?;
        if let Some(numbers) = self.by_address.get_mut(&connection.address) {
            numbers.remove(&number);
            if numbers.is_empty() {
                self.by_address.remove(&connection.address);
            }
        }
        Some(connection)
    }

    /// Removes the connection to cut so that one from `address` gets a place: the oldest from there if those are a good
    /// part of all, or else from where there are most.
    fn pop(&mut self, address: Option<ClientAddress>) -> Option<SilentConnection> {
        let own = address.and_then(|address| self.by_address.get(&address));
        let own = own.filter(|numbers| numbers.len() * SILENT_SHARE > self.connections.len());
        let most = || self.by_address.values().max_by_key(|it| (it.len(), Reverse(it.first())));
        let number = *own.or_else(most)?.first()?;
        self.remove(number)
    }
}

impl Places {
    /// Creates `count` places.
    pub(super) fn new(count: usize) -> Self {
        Self { free: Arc::new(Semaphore::new(count)), silent: Arc::default() }
    }

    /// Takes a place for a connection that was accepted from this address. If none is free, takes that of a silent
    /// connection (see the module docs). If all clients have sent requests, waits for one to leave.
    ///
    /// Dropping the future takes nothing.
    pub(super) async fn take(&self, address: ClientAddress) -> Place {
        if self.free.available_permits() == 0 {
            self.make_room(Some(address)).await;
        }
        let permit = Arc::clone(&self.free).acquire_owned().await;
        self.place(address, permit.expect("the semaphore is never closed"))
    }

    /// Takes a free place, if there is one.
    pub(super) fn try_take(&self, address: ClientAddress) -> Option<Place> {
        Some(self.place(address, Arc::clone(&self.free).try_acquire_owned().ok()?))
    }

    fn place(&self, address: ClientAddress, permit: OwnedSemaphorePermit) -> Place {
        let [cut, kept, gone] = std::array::from_fn(|_| CancellationToken::new());
        let connection = SilentConnection { address, cut, kept, gone };
        let number = self.silent.lock().add(connection.clone());
        let silent = Arc::clone(&self.silent);
        Place { number, silent, connection: Mutex::new(Some(connection)), permit: Some(permit) }
    }

    /// Cuts a silent connection (see the module docs), for one from this address, and waits until it has ended. False if
    /// there is none.
    pub(super) async fn make_room(&self, address: Option<ClientAddress>) -> bool {
        loop {
            let chosen = self.silent.lock().pop(address);
            let Some(SilentConnection { cut, kept, gone, .. }) = chosen else { return false };
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
        self.silent.lock().remove(self.number);
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
        self.silent.lock().remove(self.number);
        // The place is free by the time that its end is reported.
        self.permit = None;
        if let Some(connection) = self.connection.get_mut() {
            connection.gone.cancel();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr};
    use std::time::Duration;

    use tokio::task::JoinHandle;
    use tokio::time::timeout;

    use super::*;

    const HERE: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
    const ELSEWHERE: IpAddr = IpAddr::V4(Ipv4Addr::new(127, 0, 0, 2));

    async fn silent(places: &Places) -> JoinHandle<()> {
        silent_from(HERE, places).await
    }

    /// A connection that ends when it is told to.
    async fn silent_from(address: IpAddr, places: &Places) -> JoinHandle<()> {
        let place = places.take(address.into()).await;
        tokio::spawn(async move { place.lost().await })
    }

    #[tokio::test]
    async fn the_longest_silent_connection_loses_its_place() {
        let places = Places::new(3);
        let kept = places.take(HERE.into()).await;
        kept.keep();
        let (first, second) = (silent(&places).await, silent(&places).await);
        let third = silent(&places).await;
        first.await.unwrap();
        assert!(!second.is_finished() && !third.is_finished());
        let _fourth = silent(&places).await;
        second.await.unwrap();
        assert!(!third.is_finished());
    }

    /// However quickly it opens them.
    #[tokio::test]
    async fn a_client_with_many_silent_connections_loses_its_own() {
        let places = Places::new(2 * SILENT_SHARE);
        let slow = silent_from(ELSEWHERE, &places).await;
        let mut flood = Vec::new();
        for _ in 0..10 * SILENT_SHARE {
            flood.push(silent(&places).await);
        }
        let late = silent_from(ELSEWHERE, &places).await;
        assert!(!slow.is_finished() && !late.is_finished());
        assert!(!flood.last().unwrap().is_finished());
        drop(places);
    }

    #[tokio::test(start_paused = true)]
    async fn connections_with_requests_are_waited_for() {
        let places = Places::new(1);
        let kept = places.take(HERE.into()).await;
        kept.keep();
        assert!(!places.make_room(None).await);
        let mut waiting = std::pin::pin!(places.take(HERE.into()));
        assert!(timeout(Duration::from_secs(60), waiting.as_mut()).await.is_err());
        drop(kept);
        waiting.await;
    }

    #[tokio::test]
    async fn an_ended_connection_is_not_cut() {
        let places = Places::new(2);
        let first = places.take(HERE.into()).await;
        let second = silent(&places).await;
        drop(first);
        assert!(places.make_room(None).await);
        second.await.unwrap();
    }

    /// Its answer may be on its way already.
    #[tokio::test(start_paused = true)]
    async fn a_connection_whose_request_was_faster_is_not_cut() {
        let places = Places::new(2);
        let place = places.take(HERE.into()).await;
        let silent = silent(&places).await;
        let mut lost = std::pin::pin!(place.lost());
        let mut room = std::pin::pin!(places.make_room(None));
        assert!(timeout(Duration::ZERO, room.as_mut()).await.is_err(), "the older one is chosen");
        place.keep();
        assert!(timeout(Duration::from_secs(1), room).await.unwrap(), "the other one is cut");
        silent.await.unwrap();
        assert!(timeout(Duration::from_secs(60), lost.as_mut()).await.is_err());
    }
}
