//! Counts the bytes that the parser looks at, in tests alone: promise 4 is about a
//! number that no clock tells reliably.

#[cfg(test)]
thread_local! {
    static EXAMINED: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

/// Notes that so many bytes are looked at once.
#[inline]
#[cfg_attr(not(test), expect(unused_variables, reason = "counted in tests alone"))]
pub(super) fn note(bytes: usize) {
    #[cfg(test)]
    EXAMINED.with(|count| count.set(count.get() + bytes));
}

/// How many were noted since this was last asked.
#[cfg(test)]
pub(super) fn take() -> usize {
    EXAMINED.take()
}
