//! The server's clock, as far as a gateway knows it.

use parking_lot::Mutex;
use tokio::time::Instant;

use crate::telemetry::millis;

/// What the clock said, in milliseconds since 1970, and a moment before that.
#[derive(Debug, Default)]
pub(super) struct ServerClock(Mutex<Option<(u64, Instant)>>);

impl ServerClock {
    /// Notes what the clock said after `asked_at`.
    pub(super) fn note(&self, said: u64, asked_at: Instant) {
        *self.0.lock() = Some((said, asked_at));
    }

    /// The server's time is at most this; `None` if it was never asked.
    pub(super) fn now_at_most(&self) -> Option<u64> {
        let (said, asked_at) = (*self.0.lock())?;
        Some(said + millis(asked_at.elapsed()))
    }
}
