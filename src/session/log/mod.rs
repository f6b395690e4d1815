//! The log of a turn: every event, encoded once, in order, for any number of readers.
//!
//! The turn's driver writes through a [`Writer`] and never waits for a reader. A reader is a
//! position in the log: starting, rejoining and watching a turn use the same [`Reader`], begun at
//! different positions. The log also knows its audience: it wakes the driver when a reader arrives,
//! when the last one leaves, and when the turn is cancelled.

pub(crate) mod encode;
mod epochs;
mod outlet;
mod reader;
mod records;
mod seen;
pub(crate) mod storing;
mod writer;

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Waker};

use bytes::Bytes;
use parking_lot::{Mutex, MutexGuard};
use tokio::time::Instant;

use crate::event::{Event, TurnState};

pub use epochs::{EpochStart, Epochs};
use outlet::Waiting;
pub(crate) use outlet::{Outlet, Parked};
pub use reader::Reader;
pub(crate) use records::Published;
pub use records::{Batch, Record, Run};
use records::{Records, Taken};
pub(crate) use seen::Seen;
use storing::Storing;
pub use storing::{Appender, LogNewsRef};
pub(crate) use writer::StoredEvents;
pub use writer::Writer;

/// A turn's events, and their readers.
#[derive(Debug, Default)]
pub struct TurnLog {
    state: Mutex<State>,
    /// Bytes of all events, published or not.
    bytes: AtomicUsize,
}

/// What every token needs comes last, next to the lock: see [`Driver`](crate::orchestrator::Driver).
#[derive(Debug, Default)]
#[repr(C)]
struct State {
    epochs: Epochs,
    /// The turn's state.
    at: TurnState,
    ended: bool,
    // Each token needs the fields below.
    /// Its way to the store, if the turn is stored while it runs.
    storing: Option<Box<Storing>>,
    records: Records,
    /// The readers that have nothing to read.
    waiting: Vec<Waiting>,
    driver: Option<Waker>,
    /// The last record that readers can see.
    visible: u64,
    readers: u32,
    stop: EndRequest,
    /// Whether it is read on another node.
    is_read_elsewhere: bool,
}

/// What is asked of the turn.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum EndRequest {
    #[default]
    None,
    /// To end.
    Cancel,
    /// To stop where it is, for another gateway to go on with.
    Leave,
    /// To end, because its session is deleted.
    Delete,
}

/// What the driver needs to know about the other side.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Audience {
    /// How many readers the log has; those of other nodes count as one.
    pub(crate) readers: u32,
    /// Whether the turn has been cancelled.
    pub(crate) cancelled: bool,
    /// Whether the store has stopped answering.
    pub(crate) has_store_failed: bool,
    /// Whether another gateway is to go on with the turn.
    pub(crate) is_left: bool,
}

impl TurnLog {
    /// The log of a turn that is over, made from stored batches up to record `last`. The first
    /// batches may be missing. `None` if no log has stored such batches.
    #[must_use]
    pub(crate) fn restore(epochs: Epochs, batches: Vec<Batch>, last: u64) -> Option<Arc<Self>> {
        let records = Records::restore(batches, last)?;
        let state = State { records, epochs, visible: last, ended: true, ..State::default() };
        Some(Arc::new(Self { state: Mutex::new(state), ..Self::default() }))
    }

    /// The log of a turn that runs on another node, as far as the store has it.
    #[must_use]
    pub(crate) fn followed(epochs: Epochs, batches: Vec<Batch>, last: u64) -> Option<Arc<Self>> {
        let log = Self::restore(epochs, batches, last)?;
        log.state.lock().ended = false;
        Some(log)
    }

    /// Adds what another node has written since, up to record `last`; false if something is missing between.
    pub(crate) fn extend(&self, epochs: Epochs, batches: Vec<Batch>, last: u64) -> bool {
        let mut state = self.state.lock();
        let seen = state.records.last();
        // Somebody else has gone on from an earlier event.
        if seen > 0 && epochs.at(seen) != state.epochs.at(seen) {
            return false;
        }
        // Another read may have been faster.
        let mut new = batches.into_iter().filter(|batch| batch.last > seen);
        if !new.all(|batch| state.records.extend(batch)) || seen > last {
            return false;
        }
        state.epochs = epochs;
        state.visible = state.records.last();
        state.wake_readers();
        state.visible == last
    }

    /// Ends the log of a turn that runs on another node, there or with this event.
    pub(crate) fn end(&self, event: Option<&Event<'_>>) {
        let mut state = self.state.lock();
        if let Some(event) = event {
            let last = state.records.last();
            state.records.end_after(last, encode::line(event).into(), event.kind());
            state.visible = state.records.last();
        }
        state.ended = true;
        state.wake_readers();
    }

    /// Passes on everything that readers can see now.
    pub(crate) fn replay(&self, sink: impl FnMut(Record<'_>)) {
        self.replay_to(|state| state.visible, sink);
    }

    /// Passes on everything that readers will see of a log that is [sealed](Writer::seal).
    pub(crate) fn replay_sealed(&self, sink: impl FnMut(Record<'_>)) {
        self.replay_to(|state| state.records.last(), sink);
    }

    fn replay_to(&self, last: impl FnOnce(&State) -> u64, sink: impl FnMut(Record<'_>)) {
        let mut taken = Taken::default();
        let state = self.state.lock();
        state.records.take_after(0, last(&state), usize::MAX, &mut taken);
        let epochs = state.epochs.clone();
        drop(state);
        taken.drain(&epochs, sink);
    }

    /// The epochs in which it was written.
    #[must_use]
    pub fn epochs(&self) -> Epochs {
        self.state.lock().epochs.clone()
    }

    /// Cancels the turn; false if it is over already.
    pub fn cancel(&self) -> bool {
        let mut state = self.state.lock();
        if state.ended {
            return false;
        }
        if state.stop == EndRequest::None {
            state.stop = EndRequest::Cancel;
        }
        let driver = state.driver.take();
        drop(state);
        wake(driver);
        true
    }

    /// Notes whether the turn is read on another node.
    pub(crate) fn note_remote_reader(&self, is_read: bool) {
        let mut state = self.state.lock();
        let was_read = std::mem::replace(&mut state.is_read_elsewhere, is_read);
        let driver = if was_read == is_read { None } else { state.driver.take() };
        drop(state);
        wake(driver);
    }

    /// Stops the turn where it is, for another gateway to go on with; false if it is not stored while it runs.
    pub(crate) fn leave(&self) -> bool {
        let mut state = self.state.lock();
        if state.ended || state.storing.is_none() || state.stop != EndRequest::None {
            return false;
        }
        state.stop = EndRequest::Leave;
        let driver = state.driver.take();
        drop(state);
        wake(driver);
        true
    }

    /// Cancels the turn, because its session was deleted: nobody goes on with it. The log ends as cancelled
    /// after what is stored, even if it is sealed already.
    pub(crate) fn delete(&self) {
        self.state.lock().stop = EndRequest::Delete;
        self.cancel();
    }

    /// Whether the turn is over.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.state.lock().ended
    }

    /// The turn's state, while it runs: see [`Snapshot`](crate::session::Snapshot).
    #[must_use]
    pub(crate) fn turn_state(&self) -> TurnState {
        self.state.lock().at
    }

    /// Sets the turn's state.
    pub(crate) fn set_turn_state(&self, turn_state: TurnState) {
        self.state.lock().at = turn_state;
    }

    /// The last published event's sequence number; 0 before the first.
    #[must_use]
    pub fn last_sequence(&self) -> u64 {
        self.state.lock().visible
    }

    /// How many readers it has on this node.
    pub(crate) fn readers(&self) -> usize {
        self.state.lock().readers as usize
    }

    /// Bytes of all events, including those not yet published.
    #[must_use]
    pub(crate) fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Joins the runs of a full block into one of exact size. Readers that are in the middle of the
    /// old ones keep them.
    fn join(&self, first: u64, end: u64) {
        let runs = self.state.lock().records.runs_between(first, end);
        let joined: Vec<&[u8]> = runs.iter().map(|run| &*run.bytes).collect();
        let bytes = Bytes::from(joined.concat());
        self.state.lock().records.join(Run { first, bytes }, end);
    }

    /// Joins the runs of a sealed log into longer ones, of at most `run_bytes`. Small pieces that stay for hours would keep
    /// whole pages of memory, though everything around them was freed.
    fn compact(&self, run_bytes: usize) {
        let spans = self.state.lock().records.short_runs(run_bytes);
        for Range { start, end } in spans {
            self.join(start, end);
        }
        self.state.lock().records.shrink();
    }

    /// The audience now. The task is woken when a reader arrives, when the last one leaves, and
    /// when the turn is cancelled.
    pub(crate) fn watch_audience(&self, cx: &Context<'_>) -> Audience {
        let mut state = self.state.lock();
        if !state.driver.as_ref().is_some_and(|driver| driver.will_wake(cx.waker())) {
            state.driver = Some(cx.waker().clone());
        }
        let has_store_failed = state.storing.as_deref().is_some_and(Storing::has_failed);
        let State { readers, is_read_elsewhere, stop, .. } = *state;
        let cancelled = matches!(stop, EndRequest::Cancel | EndRequest::Delete);
        let is_left = stop == EndRequest::Leave;
        let readers = readers + u32::from(is_read_elsewhere);
        Audience { readers, cancelled, has_store_failed, is_left }
    }

    /// Passes on what readers can see after event `seen` to those that wait for it, if it comes in whole runs, and else
    /// wakes them.
    fn pass_on_after(&self, seen: u64, mut state: MutexGuard<'_, State>) {
        if state.waiting.is_empty() {
            return;
        }
        let Some((entries, runs)) = state.records.whole_runs(seen, state.visible) else {
            state.wake_readers();
            return;
        };
        let mut reading = std::mem::take(&mut state.waiting);
        let epoch = state.epochs.last();
        drop(state);
        let new = Published { seen, epoch, entries: &entries, runs: &runs };
        self.pass_on(&new, &mut reading, Instant::now());
    }

    /// Passes on what is new to these readers. Those that still wait go back; the list is empty then. Only the turn's own
    /// task may call this: if it ended the log meanwhile, they would wait for ever.
    fn pass_on(&self, new: &Published<'_>, reading: &mut Vec<Waiting>, now: Instant) {
        reading.retain(|reader| reader.pass_on(new, now));
        if reading.is_empty() {
            return;
        }
        // All of them go back under one lock, and usually in the memory that they came in.
        let mut state = self.state.lock();
        if state.waiting.is_empty() && reading.len() <= state.readers as usize {
            std::mem::swap(&mut state.waiting, reading);
        } else {
            reading.drain(..).for_each(|reader| state.wait(reader));
        }
    }

    /// A reader of everything after event `seen`.
    #[must_use]
    pub fn read_after(self: &Arc<Self>, seen: u64) -> Reader {
        let mut state = self.state.lock();
        state.readers += 1;
        let driver = state.driver.take();
        drop(state);
        wake(driver);
        Reader::new(Arc::clone(self), seen)
    }
}

fn wake(waker: Option<Waker>) {
    if let Some(waker) = waker {
        waker.wake();
    }
}

impl State {
    fn wait(&mut self, reader: Waiting) {
        if self.waiting.iter().any(|waiting| waiting.is_same(&reader)) {
            return;
        }
        if self.waiting.len() >= self.readers as usize {
            // A reader has left since. The others will wait again.
            self.wake_readers();
        }
        if self.waiting.is_empty() {
            // Most logs have one reader.
            self.waiting.reserve_exact(1);
        }
        self.waiting.push(reader);
    }

    fn wake_readers(&mut self) {
        self.waiting.drain(..).for_each(Waiting::wake);
    }
}

#[cfg(test)]
pub(crate) mod tests;
