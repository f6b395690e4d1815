//! One read buffer for each thread, so that a connection needs none.

use std::cell::Cell;

use crate::limits::upstream::BATCH_BYTES_MAX;

thread_local! {
    static SCRATCH: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// Lends out this thread's buffer, of [`BATCH_BYTES_MAX`] bytes. Its contents mean nothing before
/// or after.
pub(super) fn with<R>(use_it: impl FnOnce(&mut [u8]) -> R) -> R {
    // Taken out meanwhile, so that a use inside of a use gets a buffer of its own.
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
    fn a_use_inside_of_a_use_has_its_own_buffer() {
        with(|outer| {
            outer.fill(1);
            with(|inner| inner.fill(2));
            assert!(outer.len() == BATCH_BYTES_MAX && outer.iter().all(|byte| *byte == 1));
        });
    }
}
