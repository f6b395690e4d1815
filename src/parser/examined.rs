//! Counts the bytes that the parser reads, in tests only. Promise 4 is about this number, which no
//! clock measures reliably.

#[cfg(test)]
thread_local! {
    static EXAMINED: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

/// Counts this many bytes as read once.
#[inline]
#[cfg_attr(not(test), expect(unused_variables, reason = "counted in tests alone"))]
pub(super) fn note(bytes: usize) {
    #[cfg(test)]
    EXAMINED.with(|count| count.set(count.get() + bytes));
}

/// The count since the last call.
#[cfg(test)]
pub(super) fn take() -> usize {
    EXAMINED.take()
}
