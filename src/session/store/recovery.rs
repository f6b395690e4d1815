//! Whether a store that several nodes share has just come back. A node that starts cannot know, and begins with *away*.
//!
//! ```text
//!   here ── a failure ──> away ── a write ──> back ── STORE_BACK_WAIT later ──> here
//!     '──── an answer that took long ─────────^
//! ```

use parking_lot::Mutex;
use tokio::time::Instant;

use crate::limits::session::STORE_BACK_WAIT;

/// What a node knows of that.
#[derive(Debug, Default)]
pub(crate) struct Recovery(Mutex<State>);

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum State {
    Here,
    #[default]
    Away,
    BackSince(Instant),
}

impl Recovery {
    /// The store could not be used.
    pub(crate) fn note_failure(&self) {
        *self.0.lock() = State::Away;
    }

    /// An answer has taken so long that other nodes may have given up.
    pub(crate) fn note_delay(&self) {
        let mut state = self.0.lock();
        if *state != State::Away {
            *state = State::BackSince(Instant::now());
        }
    }

    /// The store has taken a write.
    pub(crate) fn note_write(&self) {
        let mut state = self.0.lock();
        if *state == State::Away {
            *state = State::BackSince(Instant::now());
        }
    }

    /// Whether the store has not been back for [`STORE_BACK_WAIT`] yet.
    pub(crate) fn is_under_way(&self) -> bool {
        let mut state = self.0.lock();
        if matches!(*state, State::BackSince(since) if since.elapsed() >= STORE_BACK_WAIT) {
            *state = State::Here;
        }
        *state != State::Here
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_store_has_recovered_a_moment_after_it_took_a_write() {
        let recovery = Recovery::default();
        assert!(recovery.is_under_way(), "it may have come back a moment ago");
        recovery.note_write();
        advance(STORE_BACK_WAIT).await;
        assert!(!recovery.is_under_way());
        recovery.note_failure();
        advance(2 * STORE_BACK_WAIT).await;
        assert!(recovery.is_under_way(), "it can be read at most");
        recovery.note_write();
        advance(STORE_BACK_WAIT / 2).await;
        recovery.note_write();
        assert!(recovery.is_under_way());
        advance(STORE_BACK_WAIT / 2).await;
        assert!(!recovery.is_under_way());
    }

    #[tokio::test(start_paused = true)]
    async fn a_long_delay_counts_as_a_failure_that_is_over() {
        let recovery = Recovery::default();
        recovery.note_write();
        advance(STORE_BACK_WAIT).await;
        recovery.note_delay();
        assert!(recovery.is_under_way());
        advance(STORE_BACK_WAIT).await;
        assert!(!recovery.is_under_way());
        recovery.note_failure();
        recovery.note_delay();
        advance(2 * STORE_BACK_WAIT).await;
        assert!(recovery.is_under_way(), "that was no write");
    }
}
