//! Buffers that each thread lends out, so that connections need none of their own.

use std::cell::RefCell;
use std::thread::LocalKey;

/// Lends out this thread's buffer, as its last use left it. A nested use gets a new one.
pub(crate) fn lend<B: Default, R>(
    buffer: &'static LocalKey<RefCell<B>>,
    use_it: impl FnOnce(&mut B) -> R,
) -> R {
    buffer.with(|buffer| {
        let mut fresh = None;
        let mut lent = buffer.try_borrow_mut();
        use_it(match &mut lent {
            Ok(lent) => lent,
            Err(_) => fresh.get_or_insert_default(),
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    thread_local! {
        static BUFFER: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
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
