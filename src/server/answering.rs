//! What hyper is writing to an HTTP/1 connection.
//!
//! hyper refuses some heads by itself, before there is a request to handle. It writes such an answer like any other, so
//! it has to be told apart. That takes no look at the bytes, which a body could imitate: between two requests, hyper
//! has nothing else to write.
//!
//! ```text
//!   Between ── a request arrives ──> Answering ── its body is dropped ──> Written
//!     ^                                                                      │
//!     '──────────────────── hyper has flushed everything ────────────────────'
//! ```

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

/// What hyper is writing to a connection.
#[derive(Debug, Clone, Default)]
pub(super) struct Progress(Arc<AtomicU8>);

const BETWEEN: u8 = 0;
const ANSWERING: u8 = 1;
const WRITTEN: u8 = 2;
const REFUSED: u8 = 3;

impl Progress {
    /// A request has arrived.
    pub(super) fn begin(&self) {
        self.0.store(ANSWERING, Ordering::Relaxed);
    }

    /// Reports the end of an answer when it is dropped.
    pub(super) fn answer(&self) -> AnswerEnd {
        AnswerEnd(self.clone())
    }

    /// Whether a head was refused.
    pub(super) fn has_refused(&self) -> bool {
        self.0.load(Ordering::Relaxed) == REFUSED
    }

    /// Whether hyper has sent everything that it was given.
    pub(super) fn is_between(&self) -> bool {
        self.0.load(Ordering::Relaxed) == BETWEEN
    }

    /// hyper has nothing left to write.
    pub(super) fn note_flushed(&self) {
        self.step(WRITTEN, BETWEEN);
    }

    /// A head is refused.
    pub(super) fn note_refused(&self) {
        self.step(BETWEEN, REFUSED);
    }

    fn step(&self, from: u8, to: u8) {
        // It is another step's turn.
        let _ = self.0.compare_exchange(from, to, Ordering::Relaxed, Ordering::Relaxed);
    }
}

/// Drop this with the body of an answer: hyper has taken all of it by then.
#[derive(Debug)]
pub(super) struct AnswerEnd(Progress);

impl Drop for AnswerEnd {
    fn drop(&mut self) {
        self.0.step(ANSWERING, WRITTEN);
    }
}
