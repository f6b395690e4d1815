//! How fast the output of a program or a server is read. One that sends without end has to wait, so it keeps no processor
//! busy: neither ours nor its own.

use parking_lot::Mutex;
use tokio::time::{Instant, sleep};

use crate::limits::tools::{READ_AT_ONCE, READ_PAUSE, READ_PER_PAUSE};

/// The bytes that may be read now.
///
/// ```text
///   room   [################    ]   bytes that are read without a pause, READ_AT_ONCE at most
///           read <-'      '-> READ_PER_PAUSE are added in each READ_PAUSE
/// ```
#[derive(Debug)]
pub(super) struct Throttle {
    room: usize,
    /// When room was last added.
    filled: Instant,
}

impl Default for Throttle {
    fn default() -> Self {
        Self { room: READ_AT_ONCE, filled: Instant::now() }
    }
}

impl Throttle {
    /// The room that is left. If there is none, look again after [`READ_PAUSE`].
    pub(super) fn room(&mut self) -> usize {
        if self.room == 0 {
            self.fill();
        }
        self.room
    }

    /// Takes the room of bytes that were read.
    pub(super) const fn take(&mut self, bytes: usize) {
        self.room = self.room.saturating_sub(bytes);
    }

    /// Adds the room of the pauses that have passed.
    fn fill(&mut self) {
        let pauses = self.filled.elapsed().as_nanos() / READ_PAUSE.as_nanos();
        let pauses = u32::try_from(pauses).unwrap_or(u32::MAX);
        if pauses > 0 {
            let more = READ_PER_PAUSE.saturating_mul(pauses as usize);
            self.room = self.room.saturating_add(more).min(READ_AT_ONCE);
            self.filled = Instant::now();
        }
    }
}

/// Waits until there is room for bytes that have arrived on one of several streams, and takes it.
pub(super) async fn pass(throttle: &Mutex<Throttle>, bytes: usize) {
    let take = |most: usize| {
        let mut throttle = throttle.lock();
        let bytes = throttle.room().min(most);
        throttle.take(bytes);
        bytes
    };
    let mut left = bytes;
    while left > 0 {
        match take(left) {
            0 => sleep(READ_PAUSE).await,
            taken => left -= taken,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_piece_of_any_size_waits_for_its_own_bytes() {
        let (begun, throttle) = (Instant::now(), Mutex::default());
        pass(&throttle, READ_AT_ONCE).await;
        assert_eq!(begun.elapsed(), Duration::ZERO);
        pass(&throttle, 1).await;
        assert_eq!(begun.elapsed(), READ_PAUSE);
        pass(&throttle, 10 * READ_PER_PAUSE).await;
        assert_eq!(begun.elapsed(), 11 * READ_PAUSE);
    }
}
