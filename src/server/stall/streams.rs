//! How long an HTTP/2 connection has had no stream. Pings keep a connection alive, but are no use of it.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use super::wait_for_stall;

/// The streams of a connection.
#[derive(Debug)]
pub(in crate::server) struct Streams(Mutex<State>);

#[derive(Debug)]
struct State {
    open: usize,
    /// When the last one ended, or the connection began.
    idle_since: Instant,
}

/// A stream. It has ended when this is dropped.
#[derive(Debug)]
pub(super) struct OpenStream(Arc<Streams>);

impl Streams {
    /// Those of a connection that begins now.
    pub(in crate::server) fn new() -> Arc<Self> {
        Arc::new(Self(Mutex::new(State { open: 0, idle_since: Instant::now() })))
    }

    pub(super) fn open(self: &Arc<Self>) -> OpenStream {
        self.0.lock().open += 1;
        OpenStream(Arc::clone(self))
    }

    /// Completes when there has been no stream for `longest`.
    pub(in crate::server) async fn idle_for(&self, longest: Duration) {
        wait_for_stall(longest, || {
            let state = self.0.lock();
            (state.open == 0).then_some(state.idle_since)
        })
        .await;
    }
}

impl Drop for OpenStream {
    fn drop(&mut self) {
        let mut state = self.0.0.lock();
        state.open -= 1;
        state.idle_since = Instant::now();
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::timeout;

    use super::*;

    const LONGEST: Duration = Duration::from_secs(30);

    #[tokio::test(start_paused = true)]
    async fn a_connection_is_idle_from_the_end_of_its_last_stream() {
        let streams = Streams::new();
        let begun = Instant::now();
        streams.idle_for(LONGEST).await;
        assert_eq!(begun.elapsed(), LONGEST);
        let (first, second) = (streams.open(), streams.open());
        drop(first);
        assert!(timeout(LONGEST * 5, streams.idle_for(LONGEST)).await.is_err());
        drop(second);
        let ended = Instant::now();
        streams.idle_for(LONGEST).await;
        assert_eq!(ended.elapsed(), LONGEST);
    }
}
