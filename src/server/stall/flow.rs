//! One stream of HTTP/2: what it was given and has not sent, and its end where that
//! does not change.
//!
//! hyper polls a body only when the stream has room, so a body cannot notice that its
//! stream has none for too long. But hyper runs each stream as a future on our own
//! executor, and dropping that future resets the stream and nothing else. How far the
//! stream is, the bytes themselves tell: h2 advances through a [`Piece`] as windows
//! and socket let it.

use std::sync::Arc;
use std::task::{Poll, Waker};
use std::time::Duration;

use hyper::body::{Buf, Bytes};
use hyper::rt::Executor;
use parking_lot::Mutex;
use tokio::time::Instant;
use tracing::debug;

use super::{Pace, wait_for_stall};
use crate::telemetry::metrics;

tokio::task_local! {
    /// The stream that this task serves.
    static FLOW: Arc<Flow>;
}

/// How far one stream is.
#[derive(Debug, Default)]
pub(in crate::server) struct Flow {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Bytes that were given and are not taken yet.
    waiting: usize,
    /// When the stream last moved, or was given something while it had nothing.
    moved_at: Option<Instant>,
    /// Waits for all to be taken.
    body: Option<Waker>,
}

impl Flow {
    /// Of the HTTP/2 stream that this task serves. HTTP/1.1 has none: its one stream
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

    /// Whether the stream has taken all that it was given.
    pub(in crate::server) fn is_taken(&self) -> bool {
        self.state.lock().waiting == 0
    }

    /// Waits for that.
    pub(in crate::server) fn poll_taken(&self, waker: &Waker) -> Poll<()> {
        let mut state = self.state.lock();
        if state.waiting == 0 {
            return Poll::Ready(());
        }
        state.body = Some(waker.clone());
        Poll::Pending
    }

    /// Since when the stream has stood still with something to take.
    fn still_since(&self) -> Option<Instant> {
        let state = self.state.lock();
        state.moved_at.filter(|_| state.waiting > 0)
    }
}

/// Bytes of a body that tell their stream when they are taken.
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

/// Runs the streams of one HTTP/2 connection, each as long as it moves.
#[derive(Debug, Clone)]
pub(in crate::server) struct StreamExecutor {
    pace: Arc<Pace>,
    longest: Duration,
}

impl StreamExecutor {
    /// For the connection of `pace`, whose streams are reset after `longest` without
    /// progress.
    pub(in crate::server) const fn new(pace: Arc<Pace>, longest: Duration) -> Self {
        Self { pace, longest }
    }
}

impl<F> Executor<F> for StreamExecutor
where
    F: Future<Output = ()> + Send + 'static,
{
    fn execute(&self, stream: F) {
        let Self { pace, longest } = self.clone();
        tokio::spawn(async move {
            let flow = Arc::<Flow>::default();
            tokio::select! {
                biased;
                () = FLOW.scope(Arc::clone(&flow), stream) => {}
                () = stalled(&flow, &pace, longest) => {
                    metrics::reader_cut();
                    debug!("client takes nothing of a stream; stream reset");
                }
            }
        });
    }
}

/// Ends when the stream has stood still for `longest`. While the socket holds up all
/// streams, none of them is to blame.
async fn stalled(flow: &Flow, pace: &Pace, longest: Duration) {
    let since =
        || flow.still_since().map(|since| pace.held_up_at().map_or(since, |at| at.max(since)));
    wait_for_stall(longest, since).await;
}
