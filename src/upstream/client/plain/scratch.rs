//! One read buffer for each thread, so that connections need none of their own.

use std::cell::Cell;

use crate::limits::upstream::BATCH_BYTES_MAX;

thread_local! {
    static SCRATCH: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// Lends out this thread's buffer of [`BATCH_BYTES_MAX`] bytes. It holds leftovers at first, and
/// nothing in it is kept.
pub(super) fn with<R>(use_it: impl FnOnce(&mut [u8]) -> R) -> R {
    // Taken out while in use, so that a nested use gets a buffer of its own.
    let mut buffer = SCRATCH.take();
    buffer.resize(BATCH_BYTES_MAX, 0);
    let result = use_it(&mut buffer);
    SCRATCH.set(buffer);
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_nested_use_has_a_buffer_of_its_own() {
        with(|outer| {
            outer.fill(1);
            with(|inner| inner.fill(2));
            assert!(outer.len() == BATCH_BYTES_MAX && outer.iter().all(|byte| *byte == 1));
        });
    }
}
