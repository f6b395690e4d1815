//! A single HTTP/2 stream: how much of its data is still unsent, and its end if that does not
//! change.
//!
//! hyper polls a body only when the stream has room, so a body cannot notice that its stream
//! has had no room for too long. But hyper runs each stream as a future on our own executor,
//! and dropping that future resets only this stream. The bytes themselves show the stream's
//! progress: h2 advances through a [`Piece`] as the windows and the socket allow.

use std::sync::Arc;
use std::task::{Poll, Waker};
use std::time::Duration;

use hyper::body::{Buf, Bytes};
use hyper::rt::Executor;
use parking_lot::Mutex;
use tokio::time::Instant;
use tracing::debug;

use super::{Pace, Streams, wait_for_stall};
use crate::telemetry::metrics;

tokio::task_local! {
    /// The stream that this task serves.
    static FLOW: Arc<Flow>;
}

/// The progress of one stream.
#[derive(Debug, Default)]
pub(in crate::server) struct Flow {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Bytes given to the stream that it has not taken yet.
    waiting: usize,
    /// When the stream last made progress, or was given data while it had none.
    moved_at: Option<Instant>,
    /// Wakes the body that waits until everything is taken.
    body: Option<Waker>,
}

impl Flow {
    /// The flow of the HTTP/2 stream that this task serves. HTTP/1.1 has none: its only stream
    /// is as fast as its socket.
    pub(in crate::server) fn current() -> Option<Arc<Self>> {
        FLOW.try_with(Arc::clone).ok()
    }

    fn give(&self, bytes: usize) {
        let mut state = self.state.lock();
        if state.waiting == 0 {
            state.moved_at = Some(Instant::now());
        }
        state.waiting += bytes;
    }

    fn take(&self, bytes: usize) {
        let mut state = self.state.lock();
        state.waiting -= bytes;
        state.moved_at = Some(Instant::now());
        if state.waiting == 0
            && let Some(body) = state.body.take()
        {
            body.wake();
        }
    }

    /// Whether the stream has taken everything it was given.
    pub(in crate::server) fn is_taken(&self) -> bool {
        self.state.lock().waiting == 0
    }

    /// Waits until the stream has taken everything.
    pub(in crate::server) fn poll_taken(&self, waker: &Waker) -> Poll<()> {
        let mut state = self.state.lock();
        if state.waiting == 0 {
            return Poll::Ready(());
        }
        state.body = Some(waker.clone());
        Poll::Pending
    }

    /// Since when the stream has had data to take but made no progress.
    fn still_since(&self) -> Option<Instant> {
        let state = self.state.lock();
        state.moved_at.filter(|_| state.waiting > 0)
    }
}

/// Bytes of a body that report to their stream when they are taken.
#[derive(Debug)]
pub(in crate::server) struct Piece {
    bytes: Bytes,
    flow: Option<Arc<Flow>>,
}

impl Piece {
    /// Gives `bytes` to a stream.
    pub(in crate::server) fn new(bytes: Bytes, flow: Option<&Arc<Flow>>) -> Self {
        if let Some(flow) = flow {
            flow.give(bytes.len());
        }
        Self { bytes, flow: flow.cloned() }
    }
}

impl Buf for Piece {
    fn remaining(&self) -> usize {
        self.bytes.len()
    }

    fn chunk(&self) -> &[u8] {
        &self.bytes
    }

    fn advance(&mut self, count: usize) {
        self.bytes.advance(count);
        if let Some(flow) = &self.flow {
            flow.take(count);
        }
    }
}

/// Runs the streams of an HTTP/2 connection, each for as long as it makes progress.
#[derive(Debug, Clone)]
pub(in crate::server) struct StreamExecutor {
    pace: Arc<Pace>,
    streams: Arc<Streams>,
    longest: Duration,
}

impl StreamExecutor {
    /// Creates an executor for the connection of `pace`, which counts its `streams`. It resets those that
    /// make no progress for `longest`.
    pub(in crate::server) const fn new(
        pace: Arc<Pace>,
        streams: Arc<Streams>,
        longest: Duration,
    ) -> Self {
        Self { pace, streams, longest }
    }
}

impl<F> Executor<F> for StreamExecutor
where
    F: Future<Output = ()> + Send + 'static,
{
    fn execute(&self, stream: F) {
        let Self { pace, streams, longest } = self.clone();
        let open = streams.open();
        tokio::spawn(async move {
            let _open = open;
            let flow = Arc::<Flow>::default();
            tokio::select! {
                biased;
                () = FLOW.scope(Arc::clone(&flow), stream) => {}
                () = stalled(&flow, &pace, longest) => {
                    metrics::reader_cut();
                    debug!("client is not reading a stream; stream reset");
                }
            }
        });
    }
}

/// Completes when the stream has made no progress for `longest`. Time in which the socket holds
/// up all streams does not count.
async fn stalled(flow: &Flow, pace: &Pace, longest: Duration) {
    let since =
        || flow.still_since().map(|since| pace.held_up_at().map_or(since, |at| at.max(since)));
    wait_for_stall(longest, since).await;
}
