//! One read buffer for each thread, so that connections need none of their own.

use std::cell::RefCell;

use crate::limits::upstream::BATCH_BYTES_MAX;
use crate::thread_buffer;

thread_local! {
    static SCRATCH: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// Lends out this thread's buffer of [`BATCH_BYTES_MAX`] bytes. It holds leftovers at first, and
/// nothing in it is kept.
pub(super) fn with<R>(use_it: impl FnOnce(&mut [u8]) -> R) -> R {
    thread_buffer::lend(&SCRATCH, |buffer| {
        buffer.resize(BATCH_BYTES_MAX, 0);
        use_it(buffer)
    })
}
