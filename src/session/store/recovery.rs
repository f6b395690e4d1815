//! Whether a store that several nodes share has just come back. A node that starts cannot know, and begins with *away*.
//!
//! ```text
//!   here ── a failure ──> away ── a write ──> back ── after a while ──> here
//!     '──── an answer that took long ─────────^
//! ```

use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use crate::limits::session::STORE_BACK_WAIT;

/// What a node knows of that.
#[derive(Debug)]
pub(crate) struct Recovery {
    state: Mutex<State>,
    /// How long it takes until all nodes have noticed, and have stored what they had to.
    time: Duration,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Here,
    Away,
    BackSince(Instant),
}

impl Recovery {
    /// Of a store for which nodes wait so long: one that has just begun to wait notices at the end.
    pub(crate) const fn new(wait: Duration) -> Self {
        Self { state: Mutex::new(State::Away), time: wait.saturating_add(STORE_BACK_WAIT) }
    }

    /// The store could not be used.
    pub(crate) fn note_failure(&self) {
        *self.state.lock() = State::Away;
    }

    /// An answer has taken so long that other nodes may have given up.
    pub(crate) fn note_delay(&self) {
        let mut state = self.state.lock();
        if *state != State::Away {
            *state = State::BackSince(Instant::now());
        }
    }

    /// The store has taken a write.
    pub(crate) fn note_write(&self) {
        let mut state = self.state.lock();
        if *state == State::Away {
            *state = State::BackSince(Instant::now());
        }
    }

    /// Whether the store has not been back for long enough yet.
    pub(crate) fn is_under_way(&self) -> bool {
        let mut state = self.state.lock();
        if matches!(*state, State::BackSince(since) if since.elapsed() >= self.time) {
            *state = State::Here;
        }
        *state != State::Here
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::*;

    const WAIT: Duration = Duration::from_secs(3);
    const TIME: Duration = WAIT.saturating_add(STORE_BACK_WAIT);

    #[tokio::test(start_paused = true)]
    async fn a_store_has_recovered_a_moment_after_it_took_a_write() {
        let recovery = Recovery::new(WAIT);
        assert!(recovery.is_under_way(), "it may have come back a moment ago");
        recovery.note_write();
        advance(TIME).await;
        assert!(!recovery.is_under_way());
        recovery.note_failure();
        advance(2 * TIME).await;
        assert!(recovery.is_under_way(), "it can be read at most");
        recovery.note_write();
        advance(TIME / 2).await;
        recovery.note_write();
        assert!(recovery.is_under_way());
        advance(TIME / 2).await;
        assert!(!recovery.is_under_way());
    }

    #[tokio::test(start_paused = true)]
    async fn a_long_delay_counts_as_a_failure_that_is_over() {
        let recovery = Recovery::new(WAIT);
        recovery.note_write();
        advance(TIME).await;
        recovery.note_delay();
        assert!(recovery.is_under_way());
        advance(TIME).await;
        assert!(!recovery.is_under_way());
        recovery.note_failure();
        recovery.note_delay();
        advance(2 * TIME).await;
        assert!(recovery.is_under_way(), "that was no write");
    }
}
