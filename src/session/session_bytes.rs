//! A sum over all sessions that nobody has to go through them for.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The bytes of all sessions together.
#[derive(Debug, Default)]
pub(super) struct SessionBytes(AtomicUsize);

/// One session's part of the sum, until it is dropped.
#[derive(Debug)]
pub(super) struct Share {
    session_bytes: Arc<SessionBytes>,
    bytes: usize,
}

impl SessionBytes {
    /// The sum.
    pub(super) fn bytes(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }

    /// A part of it, still nothing.
    pub(super) fn share(self: &Arc<Self>) -> Share {
        Share { session_bytes: Arc::clone(self), bytes: 0 }
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
        self.session_bytes.0.fetch_add(bytes, Ordering::Relaxed);
        self.session_bytes.0.fetch_sub(self.bytes, Ordering::Relaxed);
        self.bytes = bytes;
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.session_bytes.0.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}
