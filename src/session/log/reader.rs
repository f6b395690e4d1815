//! A reader of a log: a position in it.

use std::sync::Arc;
use std::task::{Context, Poll};

use super::outlet::{Parked, Waiting};
use super::records::{Published, Record, Taken};
use super::{TurnLog, wake};
use crate::limits::stream as limits;

/// A reader of a log, at its own pace.
#[derive(Debug)]
pub struct Reader {
    pub(super) log: Arc<TurnLog>,
    /// The last event that was read.
    pub(super) seen: u64,
    /// Whether that was the last event of a log that has ended.
    is_at_end: bool,
    /// Empty between reads; kept for its capacity, unless the reader has an outlet.
    taken: Taken,
}

impl Reader {
    pub(super) fn new(log: Arc<TurnLog>, seen: u64) -> Self {
        Self { log, seen, is_at_end: false, taken: Taken::default() }
    }

    /// Passes on everything new, up to [`limits::WRITE_BYTES_MAX`] or one record; `None` at the
    /// log's end.
    pub fn poll_read(
        &mut self,
        cx: &mut Context<'_>,
        sink: impl FnMut(Record<'_>),
    ) -> Poll<Option<()>> {
        self.read_or_wait(|| Waiting::Task(cx.waker().clone()), sink)
    }

    /// The same for a reader with an outlet. If there is nothing new, `parked` is taken, and the outlet
    /// gets what comes next.
    pub(crate) fn read_or_park(
        &mut self,
        parked: &mut Option<Parked>,
        sink: impl FnMut(Record<'_>),
    ) -> Poll<Option<()>> {
        let park = || Waiting::Outlet(parked.take().expect("an outlet parks once"));
        let read = self.read_or_wait(park, sink);
        if read.is_pending() {
            // From here on, it takes what is published.
            self.taken = Taken::default();
        }
        read
    }

    /// Passes on what has just been published. False if that is not what comes next here, or too much at
    /// once: it is to be read from the log.
    pub(crate) fn take_published(
        &mut self,
        new: &Published<'_>,
        sink: impl FnMut(Record<'_>),
    ) -> bool {
        let is_next = new.seen == self.seen && new.bytes() <= limits::WRITE_BYTES_MAX;
        if is_next {
            self.seen = new.each(sink);
        }
        is_next
    }

    /// Whether everything has been read, and nothing will follow.
    pub(crate) const fn is_at_end(&self) -> bool {
        self.is_at_end
    }

    fn read_or_wait(
        &mut self,
        waiting: impl FnOnce() -> Waiting,
        sink: impl FnMut(Record<'_>),
    ) -> Poll<Option<()>> {
        let mut state = self.log.state.lock();
        let visible = state.visible;
        state.records.take_after(self.seen, visible, limits::WRITE_BYTES_MAX, &mut self.taken);
        if !self.taken.is_empty() {
            let (epochs, has_ended) = (state.epochs.clone(), state.ended);
            drop(state);
            self.seen = self.taken.drain(&epochs, sink);
            self.is_at_end = has_ended && self.seen == visible;
            return Poll::Ready(Some(()));
        }
        if state.ended {
            self.is_at_end = true;
            return Poll::Ready(None);
        }
        state.wait(waiting());
        Poll::Pending
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        let mut state = self.log.state.lock();
        state.readers -= 1;
        let driver = if state.readers == 0 { state.driver.take() } else { None };
        drop(state);
        wake(driver);
    }
}
