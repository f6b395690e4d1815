//! The log of a turn: every frame, encoded once, in order, for any number of
//! readers.
//!
//! The turn's driver writes through a [`Writer`] and never waits for anybody. A
//! reader is a position in the log: starting, re-joining and watching a turn are
//! the same [`Reader`], begun at another place. Beside the frames, the log knows
//! who is there: the driver is woken when the last reader leaves and when
//! somebody cancels.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Waker};

use bytes::{Bytes, BytesMut};
use memchr::memmem;
use parking_lot::Mutex;

use super::frame;
use crate::event::{Event, FailureCode, Summary, TurnState, Usage};
use crate::limits::stream as limits;

/// A turn's frames, and who reads them.
#[derive(Debug, Default)]
pub struct TurnLog {
    state: Mutex<State>,
    /// Of all frames, published or not.
    bytes: AtomicUsize,
}

#[derive(Debug, Default)]
struct State {
    /// Where the turn is.
    at: TurnState,
    batches: Vec<Batch>,
    /// The last frame's sequence number; 0 before the first.
    last: u64,
    ended: bool,
    cancelled: bool,
    readers: usize,
    waiting: Vec<Waker>,
    driver: Option<Waker>,
}

/// Frames that were published together.
#[derive(Debug, Clone)]
struct Batch {
    /// Sequence number of its first frame.
    first: u64,
    bytes: Bytes,
}

/// What the driver has to know about the other side.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Audience {
    /// How many read the log now.
    pub readers: usize,
    /// Whether somebody has cancelled the turn.
    pub cancelled: bool,
}

impl TurnLog {
    /// Cancels the turn; false when it is over already.
    pub fn cancel(&self) -> bool {
        let mut state = self.state.lock();
        if state.ended {
            return false;
        }
        state.cancelled = true;
        let driver = state.driver.take();
        drop(state);
        wake(driver);
        true
    }

    /// Whether the turn is over.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.state.lock().ended
    }

    /// Where the turn is. That it is over is known when its session is free again.
    #[must_use]
    pub fn turn_state(&self) -> TurnState {
        self.state.lock().at
    }

    /// Says where the turn is.
    pub fn set_turn_state(&self, turn_state: TurnState) {
        self.state.lock().at = turn_state;
    }

    /// The last frame's sequence number; 0 before the first.
    #[must_use]
    pub fn last_sequence(&self) -> u64 {
        self.state.lock().last
    }

    /// Bytes of all frames, those included that are not published yet.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    /// What the log takes in memory once it is over, in bytes.
    #[must_use]
    pub fn memory(&self) -> usize {
        // The last batch may not be published yet.
        let batches = (self.state.lock().batches.len() + 1) * size_of::<Batch>();
        size_of::<Self>() + batches + self.bytes() + limits::LOG_BLOCK_BYTES
    }

    /// The audience now; the task is woken when it changes.
    pub fn watch_audience(&self, cx: &mut Context<'_>) -> Audience {
        let mut state = self.state.lock();
        if !state.driver.as_ref().is_some_and(|driver| driver.will_wake(cx.waker())) {
            state.driver = Some(cx.waker().clone());
        }
        Audience { readers: state.readers, cancelled: state.cancelled }
    }

    /// A reader of all that follows frame `after`.
    #[must_use]
    pub fn read_after(self: &Arc<Self>, after: u64) -> Reader {
        let mut state = self.state.lock();
        state.readers += 1;
        let position = state.position_after(after);
        let driver = state.driver.take();
        drop(state);
        wake(driver);
        Reader { log: Arc::clone(self), position }
    }
}

fn wake(waker: Option<Waker>) {
    if let Some(waker) = waker {
        waker.wake();
    }
}

/// A place between two frames.
#[derive(Debug, Clone, Copy)]
struct Position {
    batch: usize,
    /// Bytes of that batch that are behind us already.
    offset: usize,
}

impl State {
    /// The place behind frame `after`.
    fn position_after(&self, after: u64) -> Position {
        let batch = self.batches.partition_point(|batch| batch.first <= after + 1);
        let Some(at) = batch.checked_sub(1) else {
            return Position { batch: 0, offset: 0 };
        };
        let Batch { first, bytes } = &self.batches[at];
        // A frame is one line of data: a blank line ends it and nothing else.
        let skipped = usize::try_from(after + 1 - first).unwrap_or(usize::MAX);
        let ends = memmem::find_iter(bytes, b"\n\n").map(|end| end + 2);
        match skipped.checked_sub(1) {
            None => Position { batch: at, offset: 0 },
            Some(last) => match ends.take(skipped).nth(last) {
                Some(offset) => Position { batch: at, offset },
                // It asks for more than there is: the next batch, when it comes.
                None => Position { batch: at + 1, offset: 0 },
            },
        }
    }

    /// What follows `position`, at most [`limits::WRITE_BYTES_MAX`] unless a single
    /// batch is longer.
    fn read(&self, position: Position) -> Option<Piece> {
        let first = self.batches.get(position.batch)?.bytes.slice(position.offset..);
        let mut bytes = first.len();
        let more: Vec<_> = self.batches[position.batch + 1..]
            .iter()
            .take_while(|batch| {
                bytes += batch.bytes.len();
                bytes <= limits::WRITE_BYTES_MAX
            })
            .map(|batch| batch.bytes.clone())
            .collect();
        let next = Position { batch: position.batch + 1 + more.len(), offset: 0 };
        Some(Piece { first, more, next })
    }
}

/// What a reader takes at once: adjacent batches, and the place behind them.
struct Piece {
    first: Bytes,
    more: Vec<Bytes>,
    next: Position,
}

impl Piece {
    /// All of it in one. Copying is cheaper than a write for each batch.
    fn join(self) -> Bytes {
        if self.more.is_empty() {
            return self.first;
        }
        let bytes = self.first.len() + self.more.iter().map(Bytes::len).sum::<usize>();
        let mut joined = BytesMut::with_capacity(bytes);
        joined.extend_from_slice(&self.first);
        for bytes in self.more {
            joined.extend_from_slice(&bytes);
        }
        joined.freeze()
    }
}

/// The one writer of a log. Dropping it ends the log, with a failure where the
/// turn's own last event has not been pushed.
#[derive(Debug)]
pub struct Writer {
    log: Arc<TurnLog>,
    buffer: BytesMut,
    /// The last frame's sequence number, published or not.
    last: u64,
    /// Whether the last event was pushed.
    complete: bool,
}

impl Writer {
    /// A log that is still empty, and its writer.
    #[must_use]
    pub fn new() -> (Arc<TurnLog>, Self) {
        let log = Arc::new(TurnLog::default());
        let buffer = BytesMut::with_capacity(limits::LOG_FIRST_BLOCK_BYTES);
        (Arc::clone(&log), Self { log, buffer, last: 0, complete: false })
    }

    /// Encodes an event. Readers see it with the next [`publish`](Self::publish).
    pub fn push(&mut self, event: &Event<'_>) {
        /// Room that most frames fit into. Without it a block would grow piece by
        /// piece, behind what readers share already.
        const FRAME_ROOM: usize = 192;

        let before = self.buffer.len();
        if self.buffer.capacity() - before < FRAME_ROOM {
            self.buffer.reserve(limits::LOG_BLOCK_BYTES);
        }
        self.last += frame::encode(&mut self.buffer, event, self.last + 1);
        self.log.bytes.fetch_add(self.buffer.len() - before, Ordering::Relaxed);
        self.complete |= event.is_last();
    }

    /// Shows the readers all that was pushed, at once.
    pub fn publish(&mut self) {
        if self.buffer.is_empty() {
            return;
        }
        let bytes = self.buffer.split().freeze();
        let mut state = self.log.state.lock();
        let batch = Batch { first: state.last + 1, bytes };
        state.batches.push(batch);
        state.last = self.last;
        state.wake_readers();
    }

    /// Bytes of all frames, published or not.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.log.bytes()
    }

    /// The log that it writes.
    #[must_use]
    pub fn log(&self) -> &Arc<TurnLog> {
        &self.log
    }
}

/// What clients of a turn are told whose driver is gone.
const DIED: Event<'_> = Event::TurnFailed {
    code: FailureCode::Internal,
    message: "the gateway ended this turn before its time; its log says why",
    retryable: true,
    summary: Summary { loops: 0, tool_calls: 0, usage: Usage::NONE, text: "" },
};

impl Drop for Writer {
    fn drop(&mut self) {
        if !self.complete {
            self.push(&DIED);
        }
        self.publish();
        let mut state = self.log.state.lock();
        state.ended = true;
        state.driver = None;
        state.seal();
        state.wake_readers();
    }
}

impl State {
    // Under the lock, since a waker only queues its task.
    fn wake_readers(&mut self) {
        for waker in self.waiting.drain(..) {
            waker.wake();
        }
    }

    /// A log that is over takes no more room than its frames. Batches stay as
    /// they are, for readers that are amid them.
    fn seal(&mut self) {
        self.batches.shrink_to_fit();
        self.waiting.shrink_to_fit();
    }
}

/// A reader of a log, at its own pace.
#[derive(Debug)]
pub struct Reader {
    log: Arc<TurnLog>,
    position: Position,
}

impl Reader {
    /// All that is new, up to [`limits::WRITE_BYTES_MAX`]; `None` at the log's end.
    pub fn poll_read(&mut self, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        let mut state = self.log.state.lock();
        if let Some(piece) = state.read(self.position) {
            drop(state);
            self.position = piece.next;
            return Poll::Ready(Some(piece.join()));
        }
        if state.ended {
            return Poll::Ready(None);
        }
        if !state.waiting.iter().any(|waker| waker.will_wake(cx.waker())) {
            if state.waiting.len() >= state.readers {
                // Somebody has left since. Those who have not wait again.
                state.wake_readers();
            }
            state.waiting.push(cx.waker().clone());
        }
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

#[cfg(test)]
mod tests;
