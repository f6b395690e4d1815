//! The log of a turn: every event, encoded once, in order, for any number of readers.
//!
//! The turn's driver writes through a [`Writer`] and never waits for a reader. A reader is a
//! position in the log: starting, rejoining and watching a turn use the same [`Reader`], begun at
//! different positions. The log also knows its audience: it wakes the driver when a reader arrives,
//! when the last one leaves, and when the turn is cancelled.

pub(crate) mod encode;
mod records;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Waker};

use bytes::{Bytes, BytesMut};
use parking_lot::Mutex;

use crate::event::{Event, FailureCode, Summary, TurnState, Usage};
use crate::limits::stream as limits;

pub use records::{Batch, Record};
use records::{Entry, LF, Records, Run, Taken};

/// A turn's events, and their readers.
#[derive(Debug, Default)]
pub struct TurnLog {
    epoch: u64,
    state: Mutex<State>,
    /// Bytes of all events, published or not.
    bytes: AtomicUsize,
}

#[derive(Debug, Default)]
struct State {
    /// The turn's state.
    at: TurnState,
    records: Records,
    /// The last record that readers can see.
    visible: u64,
    ended: bool,
    cancelled: bool,
    readers: usize,
    waiting: Vec<Waker>,
    driver: Option<Waker>,
}

/// What the driver needs to know about the other side.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Audience {
    /// How many readers the log has.
    pub(crate) readers: usize,
    /// Whether the turn has been cancelled.
    pub(crate) cancelled: bool,
}

impl TurnLog {
    /// The log of a turn that is over, made from stored batches up to record `last`. The first
    /// batches may be missing. `None` if no log has stored such batches.
    #[must_use]
    pub(crate) fn restore(epoch: u64, batches: Vec<Batch>, last: u64) -> Option<Arc<Self>> {
        let records = Records::restore(batches, last)?;
        let state = State { records, visible: last, ended: true, ..State::default() };
        Some(Arc::new(Self { epoch, state: Mutex::new(state), ..Self::default() }))
    }

    /// The batches to store. Call this once the log is [sealed](Writer::seal).
    #[must_use]
    pub(crate) fn batches(&self) -> Vec<Batch> {
        self.state.lock().records.batches()
    }

    /// The epoch of the session in which the log was written. Each gateway that takes over the
    /// session begins a new one, so no two of them give events the same id.
    #[must_use]
    pub const fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Cancels the turn; false if it is over already.
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

    /// Bytes of all events, including those not yet published.
    #[must_use]
    pub(crate) fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Joins the runs of a full block into one of exact size. Readers that are in the middle of the
    /// old ones keep them.
    fn join(&self, block: &FullBlock) {
        let FullBlock { first, end } = *block;
        let runs = self.state.lock().records.runs_between(first, end);
        let joined: Vec<&[u8]> = runs.iter().map(|run| &*run.bytes).collect();
        let bytes = Bytes::from(joined.concat());
        self.state.lock().records.join(Run { first, bytes }, end);
    }

    /// The audience now. The task is woken when a reader arrives, when the last one leaves, and
    /// when the turn is cancelled.
    pub(crate) fn watch_audience(&self, cx: &Context<'_>) -> Audience {
        let mut state = self.state.lock();
        if !state.driver.as_ref().is_some_and(|driver| driver.will_wake(cx.waker())) {
            state.driver = Some(cx.waker().clone());
        }
        Audience { readers: state.readers, cancelled: state.cancelled }
    }

    /// A reader of everything after event `seen`.
    #[must_use]
    pub fn read_after(self: &Arc<Self>, seen: u64) -> Reader {
        let mut state = self.state.lock();
        state.readers += 1;
        let driver = state.driver.take();
        drop(state);
        wake(driver);
        Reader { log: Arc::clone(self), seen, taken: Taken::default() }
    }
}

fn wake(waker: Option<Waker>) {
    if let Some(waker) = waker {
        waker.wake();
    }
}

/// The only writer of a log. Dropping it ends the log, with a failure if the turn's own last event
/// has not been pushed.
#[derive(Debug)]
pub struct Writer {
    log: Arc<TurnLog>,
    /// Where an event is encoded. Once its length is known, it is copied to where it stays.
    scratch: Vec<u8>,
    block: Block,
    /// What has been pushed but not published, except for the block's open run.
    entries: Vec<Entry>,
    runs: Vec<Run>,
    /// Full blocks, whose runs are joined when they are published.
    full: Vec<FullBlock>,
    /// The last event's sequence number, published or not.
    last: u64,
    /// Whether the turn's final event was pushed.
    complete: bool,
    is_sealed: bool,
}

/// The memory that is being filled. Readers share the part that is published.
///
/// ```text
///   [ run | run | run |  open run   |   room   ]
///     '-- published --' '- not yet -'
/// ```
#[derive(Debug)]
struct Block {
    open: BytesMut,
    /// The sequence of the first record in `open`.
    open_first: u64,
    /// The sequence of the block's first record.
    first: u64,
}

/// A block that is full: its records are those from `first` up to, but not including, `end`.
#[derive(Debug)]
struct FullBlock {
    first: u64,
    end: u64,
}

impl Block {
    fn new(bytes: usize, first: u64) -> Self {
        let open = BytesMut::with_capacity(bytes);
        Self { open, open_first: first, first }
    }

    fn has_room_for(&self, bytes: usize) -> bool {
        bytes <= self.open.capacity() - self.open.len()
    }

    /// Takes the open run; `next` is the sequence of the record after it.
    fn take_run(&mut self, next: u64) -> Option<Run> {
        let first = std::mem::replace(&mut self.open_first, next);
        let bytes = self.open.split().freeze();
        (!bytes.is_empty()).then_some(Run { first, bytes })
    }
}

impl Writer {
    /// An empty log, written in this epoch, and its writer.
    #[must_use]
    pub(crate) fn new(epoch: u64) -> (Arc<TurnLog>, Self) {
        let log = Arc::new(TurnLog { epoch, ..TurnLog::default() });
        let block = Block::new(limits::LOG_FIRST_BLOCK_BYTES, 1);
        let writer = Self {
            log: Arc::clone(&log),
            scratch: Vec::new(),
            block,
            entries: Vec::new(),
            runs: Vec::new(),
            full: Vec::new(),
            last: 0,
            complete: false,
            is_sealed: false,
        };
        (log, writer)
    }

    /// Encodes an event. Readers see it after the next [`publish`](Self::publish). Text that is too
    /// long for one record is split into several, in order; nothing else is split, and nothing is
    /// left out.
    pub(crate) fn push(&mut self, event: &Event<'_>) {
        match *event {
            Event::TextDelta { text } => self.push_pieces(text, |text| Event::TextDelta { text }),
            Event::ReasoningDelta { text } => {
                self.push_pieces(text, |text| Event::ReasoningDelta { text });
            }
            Event::ToolArgumentsDelta { call_id, delta } => {
                self.push_pieces(delta, |delta| Event::ToolArgumentsDelta { call_id, delta });
            }
            _ => self.push_record(event),
        }
        self.complete |= event.is_last();
    }

    fn push_pieces<'a>(&mut self, mut text: &'a str, event: impl Fn(&'a str) -> Event<'a>) {
        loop {
            let (head, rest) = text.split_at(encode::fitting(text, limits::RECORD_TEXT_BYTES_MAX));
            self.push_record(&event(head));
            if rest.is_empty() {
                return;
            }
            text = rest;
        }
    }

    fn push_record(&mut self, event: &Event<'_>) {
        self.scratch.clear();
        let text_start = encode::encode(&mut self.scratch, event);
        self.scratch.extend_from_slice(LF);
        let bytes = self.scratch.len();
        self.log.bytes.fetch_add(bytes, Ordering::Relaxed);
        let sequence = self.last + 1;
        let end = if bytes > limits::LOG_BLOCK_BYTES / 4 {
            self.push_alone(sequence);
            Entry::WHOLE_RUN
        } else {
            self.push_to_block(sequence);
            u32::try_from(self.block.open.len()).expect("a block is small")
        };
        self.entries.push(Entry::new(end, text_start, event.kind()));
        self.last = sequence;
    }

    /// Puts a long record into memory of its own.
    fn push_alone(&mut self, sequence: u64) {
        self.change_block(sequence, Block::new(0, sequence + 1));
        let bytes = Bytes::from(std::mem::take(&mut self.scratch).into_boxed_slice());
        self.runs.push(Run { first: sequence, bytes });
    }

    fn push_to_block(&mut self, sequence: u64) {
        if !self.block.has_room_for(self.scratch.len()) {
            self.change_block(sequence, Block::new(limits::LOG_BLOCK_BYTES, sequence));
        }
        self.block.open.extend_from_slice(&self.scratch);
    }

    /// Switches to another block. The current one ends before record `end`.
    fn change_block(&mut self, end: u64, block: Block) {
        self.runs.extend(self.block.take_run(end));
        let Block { first, .. } = std::mem::replace(&mut self.block, block);
        if first < end {
            self.full.push(FullBlock { first, end });
        }
    }

    /// Shows readers everything that was pushed, at once.
    pub(crate) fn publish(&mut self) {
        if !self.entries.is_empty() {
            let log = Arc::clone(&self.log);
            let mut state = log.state.lock();
            self.hand_over(&mut state);
            state.visible = self.last;
            state.wake_readers();
        }
        self.join_blocks();
    }

    /// Moves everything that was pushed into the log, still invisible.
    fn hand_over(&mut self, state: &mut State) {
        let open = self.block.take_run(self.last + 1);
        state.records.push(&self.entries, self.runs.drain(..).chain(open));
        self.entries.clear();
    }

    fn join_blocks(&mut self) {
        for block in self.full.drain(..) {
            self.log.join(&block);
        }
    }

    /// Bytes of all events, published or not.
    #[must_use]
    pub(crate) fn bytes(&self) -> usize {
        self.log.bytes()
    }

    /// Ends the log, with a failure if the turn's own last event was not pushed. It can be stored
    /// now; readers see its end when the writer is dropped.
    pub(crate) fn seal(&mut self) {
        if self.is_sealed {
            return;
        }
        self.is_sealed = true;
        if !self.complete {
            self.push(&DIED);
        }
        let end = self.last + 1;
        self.change_block(end, Block::new(0, end));
        let log = Arc::clone(&self.log);
        self.hand_over(&mut log.state.lock());
        self.join_blocks();
        self.log.state.lock().records.shrink();
    }

    /// The log that it writes.
    #[must_use]
    pub(crate) const fn log(&self) -> &Arc<TurnLog> {
        &self.log
    }
}

/// The last event of a turn whose driver died.
const DIED: Event<'_> = Event::TurnFailed {
    code: FailureCode::Internal,
    message: "the gateway ended this turn unexpectedly; see its log",
    retryable: true,
    summary: Summary { loops: 0, tool_calls: 0, usage: Usage::NONE, text: "" },
};

impl Drop for Writer {
    fn drop(&mut self) {
        self.seal();
        let mut state = self.log.state.lock();
        state.visible = self.last;
        state.ended = true;
        state.driver = None;
        state.wake_readers();
        state.waiting.shrink_to_fit();
    }
}

impl State {
    // Called under the lock: waking only queues a task.
    fn wake_readers(&mut self) {
        for waker in self.waiting.drain(..) {
            waker.wake();
        }
    }
}

/// A reader of a log, at its own pace.
#[derive(Debug)]
pub struct Reader {
    log: Arc<TurnLog>,
    /// The last event that was read.
    seen: u64,
    /// Empty between reads; kept for its capacity.
    taken: Taken,
}

impl Reader {
    /// Passes on everything new, up to [`limits::WRITE_BYTES_MAX`] or one record; `None` at the
    /// log's end.
    pub fn poll_read(
        &mut self,
        cx: &mut Context<'_>,
        sink: impl FnMut(Record<'_>),
    ) -> Poll<Option<()>> {
        let mut state = self.log.state.lock();
        let visible = state.visible;
        state.records.take_after(self.seen, visible, limits::WRITE_BYTES_MAX, &mut self.taken);
        if !self.taken.is_empty() {
            drop(state);
            self.seen = self.taken.drain(self.log.epoch, sink);
            return Poll::Ready(Some(()));
        }
        if state.ended {
            return Poll::Ready(None);
        }
        if !state.waiting.iter().any(|waker| waker.will_wake(cx.waker())) {
            if state.waiting.len() >= state.readers {
                // A reader has left since. The others will wait again.
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
pub(crate) mod tests;
