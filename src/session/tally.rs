//! A sum over all sessions that nobody has to go through them for.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The bytes of all sessions together.
#[derive(Debug, Default)]
pub(super) struct Tally(AtomicUsize);

/// One session's part of the sum, until it is dropped.
#[derive(Debug)]
pub(super) struct Share {
    tally: Arc<Tally>,
    bytes: usize,
}

impl Tally {
    /// The sum.
    pub(super) fn bytes(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }

    /// A part of it, still nothing.
    pub(super) fn share(self: &Arc<Self>) -> Share {
        Share { tally: Arc::clone(self), bytes: 0 }
    }
}

impl Share {
    /// The part.
    pub(super) const fn bytes(&self) -> usize {
        self.bytes
    }

    /// Makes the part so large.
    pub(super) fn set(&mut self, bytes: usize) {
        // Added before it is taken off: the sum never falls below nothing.
        self.tally.0.fetch_add(bytes, Ordering::Relaxed);
        self.tally.0.fetch_sub(self.bytes, Ordering::Relaxed);
        self.bytes = bytes;
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.tally.0.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}
