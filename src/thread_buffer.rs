//! Buffers that each thread lends out, so that connections need none of their own.

use std::cell::Cell;
use std::thread::LocalKey;

/// Lends out this thread's buffer, as its last use left it. It is taken out while in use, so a nested use gets a new
/// one.
pub(crate) fn lend<B: Default, R>(
    buffer: &'static LocalKey<Cell<B>>,
    use_it: impl FnOnce(&mut B) -> R,
) -> R {
    let mut lent = buffer.take();
    let result = use_it(&mut lent);
    buffer.set(lent);
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    thread_local! {
        static BUFFER: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
    }

    #[test]
    fn a_nested_use_has_a_buffer_of_its_own() {
        lend(&BUFFER, |outer| {
            outer.push(1);
            lend(&BUFFER, |inner| {
                assert!(inner.is_empty());
                inner.push(2);
            });
            assert_eq!(*outer, [1]);
        });
        lend(&BUFFER, |buffer| assert_eq!(*buffer, [1]));
    }
}
