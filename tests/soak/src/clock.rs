//! One clock for the model, which stamps tokens, and for the clients, which read the stamps.

use std::sync::LazyLock;
use std::time::Duration;

use tokio::time::Instant;

static START: LazyLock<Instant> = LazyLock::new(Instant::now);

/// Microseconds since the first use of this clock.
pub(crate) fn now_us() -> u64 {
    micros(START.elapsed())
}

/// A duration in microseconds.
pub(crate) fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}
