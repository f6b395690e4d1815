//! The writer of a log: fills blocks of memory, and shows readers what is published of them.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::{Bytes, BytesMut};
use parking_lot::Mutex;
use serde_json::value::RawValue;
use tokio::time::Instant;

use super::epochs::Epochs;
use super::outlet::Waiting;
use super::records::{Batch, IndexEntry, LF, Published, Records, Run};
use super::storing::{Barrier, Draft, InlineAppender, Stored, Storing};
use super::{State, TurnLog, encode};
use crate::conversation::{self, Tally};
use crate::event::{Event, FailureCode};
use crate::limits::stream as limits;
use crate::thread_buffer;

thread_local! {
    /// Where an event is encoded. Once its length is known, it is copied to where it stays.
    static LINE: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// The only writer of a log. Dropping it ends the log, with a failure if the turn's own last event
/// has not been pushed. What every token needs comes first.
#[derive(Debug)]
#[repr(C)]
pub struct Writer {
    log: Arc<TurnLog>,
    block: Block,
    /// What has been pushed but not published, except for the block's open run. Emptied
    /// whenever it is published; kept for its capacity.
    entries: Vec<IndexEntry>,
    runs: Vec<Run>,
    /// Readers that get what was just handed over. Empty between calls; kept for its capacity.
    reading: Vec<Waiting>,
    /// Full blocks, whose runs are joined when they are published.
    full: Vec<FullBlock>,
    /// The last event's sequence number, published or not.
    last: u64,
    /// The epoch in which everything is written.
    epoch: u64,
    /// The turn as far as it has come, until it is published.
    draft: Option<Box<Draft>>,
    /// What stores it without waiting, if the store can do that.
    appender: Option<InlineAppender>,
    /// Whether the turn's final event was pushed.
    complete: bool,
    // Each token needs the fields above.
    is_sealed: bool,
    /// Whether the turn is stored while it runs.
    is_stored: bool,
    /// How many journals there were.
    journals: u64,
    asked: Option<Arc<RawValue>>,
    takeovers: Takeovers,
}

/// How often a turn has been taken over in its present round.
#[derive(Debug, Default)]
struct Takeovers {
    count: u32,
    /// How many rounds it had requested by then.
    rounds: Option<u32>,
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
    /// Its size in bytes, full or not.
    size: usize,
}

/// How events are handed over to the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum HandingOver {
    /// They are not stored. Readers see them if they need not be.
    Unstored,
    /// They are, and so is the draft: readers see them.
    Stored,
    /// With the end of the log, which readers see later.
    Sealed,
}

/// A block that is full: its records are those from `first` up to, but not including, `end`.
#[derive(Debug)]
struct FullBlock {
    first: u64,
    end: u64,
}

impl Block {
    fn new(size: usize, first: u64) -> Self {
        let open = BytesMut::with_capacity(size);
        Self { open, open_first: first, first, size }
    }

    /// The block after it, which begins with record `first`. It is twice as large, up to a limit: a turn that has said much
    /// will probably say more.
    fn following(&self, first: u64) -> Self {
        let size = (2 * self.size).clamp(limits::LOG_FIRST_BLOCK_BYTES, limits::LOG_BLOCK_BYTES);
        Self::new(size, first)
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

/// What a store has of the log of a turn.
#[derive(Debug)]
pub(crate) struct StoredEvents<'a> {
    /// The epochs it was written in.
    pub(crate) epochs: &'a Epochs,
    pub(crate) batches: Vec<Batch>,
    /// The sequence of its last event.
    pub(crate) last: u64,
}

impl Writer {
    /// An empty log, written in this epoch, and its writer.
    #[must_use]
    pub(crate) fn new(epoch: u64) -> (Arc<TurnLog>, Self) {
        Self::of(epoch, None)
    }

    /// The same for a turn that is stored while it runs. Unless it `is_lazy`, readers see what is stored.
    #[must_use]
    pub(crate) fn stored(epoch: u64, is_lazy: bool) -> (Arc<TurnLog>, Self) {
        Self::of(epoch, Some(Box::new(Storing::new(is_lazy))))
    }

    fn of(epoch: u64, storing: Option<Box<Storing>>) -> (Arc<TurnLog>, Self) {
        let epochs = Epochs::begun_in(epoch);
        Self::of_state(State { epochs, storing, ..State::default() }, 0)
    }

    /// The writer of a log that another gateway has begun, which goes on in this epoch. The turn has been taken
    /// over so often. `None` if no log has stored such batches.
    #[must_use]
    pub(crate) fn resumed(
        stored: StoredEvents<'_>,
        epoch: u64,
        is_lazy: bool,
        takeovers: u32,
    ) -> Option<Self> {
        let StoredEvents { epochs, batches, last } = stored;
        let bytes = batches.iter().map(|batch| batch.bytes.len()).sum();
        let records = Records::restore(batches, last)?;
        let storing = Some(Box::new(Storing::after(last, is_lazy)));
        let epochs = epochs.then(last + 1, epoch);
        let state = State { records, epochs, storing, visible: last, ..State::default() };
        let (_, mut writer) = Self::of_state(state, bytes);
        writer.takeovers.count = takeovers;
        Some(writer)
    }

    /// Goes on with a log of so many bytes.
    fn of_state(state: State, bytes: usize) -> (Arc<TurnLog>, Self) {
        let (is_stored, last) = (state.storing.is_some(), state.records.last());
        let epoch = state.epochs.last();
        let log = Arc::new(TurnLog { state: Mutex::new(state), bytes: AtomicUsize::new(bytes) });
        let block = Block::new(limits::LOG_FIRST_BLOCK_BYTES, last + 1);
        let writer = Self {
            log: Arc::clone(&log),
            block,
            entries: Vec::new(),
            runs: Vec::new(),
            full: Vec::new(),
            last,
            epoch,
            complete: false,
            is_sealed: false,
            is_stored,
            appender: None,
            draft: None,
            journals: 0,
            asked: None,
            takeovers: Takeovers::default(),
            reading: Vec::new(),
        };
        (log, writer)
    }

    /// Encodes an event. Readers see it after the next [`publish_at`](Self::publish_at). Text that is too
    /// long for one record is split into several, in order; nothing else is split, and nothing is
    /// left out.
    pub(crate) fn push(&mut self, event: &Event<'_>) {
        match *event {
            Event::TextDelta { mut r#loop, text } => {
                self.push_pieces(text, |text| Event::TextDelta { r#loop: r#loop.take(), text });
            }
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

    fn push_pieces<'a>(&mut self, mut text: &'a str, mut event: impl FnMut(&'a str) -> Event<'a>) {
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
        thread_buffer::lend(&LINE, |line| {
            line.clear();
            let text_start = encode::encode(line, event);
            line.extend_from_slice(LF);
            self.log.bytes.fetch_add(line.len(), Ordering::Relaxed);
            let sequence = self.last + 1;
            let end = if line.len() > limits::LOG_BLOCK_BYTES / 4 {
                // In one piece, of which this thread keeps nothing.
                self.push_alone(sequence, std::mem::take(line));
                IndexEntry::WHOLE_RUN
            } else {
                self.push_to_block(sequence, line);
                u32::try_from(self.block.open.len()).expect("a block is small")
            };
            self.entries.push(IndexEntry::new(end, text_start, event.kind()));
            self.last = sequence;
        });
    }

    /// Puts a long record into memory of its own.
    fn push_alone(&mut self, sequence: u64, line: Vec<u8>) {
        self.change_block(sequence, Block::new(0, sequence + 1));
        self.runs.push(Run { first: sequence, bytes: Bytes::from(line.into_boxed_slice()) });
    }

    fn push_to_block(&mut self, sequence: u64, line: &[u8]) {
        if !self.block.has_room_for(line.len()) {
            self.change_block(sequence, self.block.following(sequence));
        }
        self.block.open.extend_from_slice(line);
    }

    /// Switches to another block. The current one ends before record `end`.
    fn change_block(&mut self, end: u64, block: Block) {
        self.runs.extend(self.block.take_run(end));
        let Block { first, .. } = std::mem::replace(&mut self.block, block);
        if first < end {
            self.full.push(FullBlock { first, end });
        }
    }

    /// Shows readers everything that was pushed, at once or, if the turn is stored while it runs, when that
    /// is done.
    /// Readers with an outlet are told that it is `now`.
    pub(crate) fn publish_at(&mut self, now: Instant) {
        if !self.entries.is_empty() || self.draft.is_some() {
            let seen = self.last - self.entries.len() as u64;
            self.close_run();
            let handing_over =
                if self.append_inline(seen) { HandingOver::Stored } else { HandingOver::Unstored };
            self.hand_over(handing_over);
            self.pass_on(seen, now);
        }
        self.join_blocks();
    }

    /// Stores the events after `seen` that are about to be handed over, and the draft. False if that takes longer, or if
    /// something before them is not stored yet.
    fn append_inline(&mut self, seen: u64) -> bool {
        let Some(appender) = &self.appender else { return false };
        let is_caught_up = |storing: &Storing| storing.is_caught_up(seen);
        if !self.log.state.lock().storing.as_deref().is_some_and(is_caught_up) {
            return false;
        }
        let is_stored = appender.append(&self.runs, self.last, self.draft.as_deref());
        if is_stored {
            self.draft = None;
        }
        is_stored
    }

    /// Passes on what has been handed over, the events after `seen`, to the readers that wait for it.
    fn pass_on(&mut self, seen: u64, now: Instant) {
        let (entries, runs) = (&self.entries, &self.runs);
        let new = Published { seen, epoch: self.epoch, entries, runs };
        self.log.pass_on(&new, &mut self.reading, now);
        self.entries.clear();
        self.runs.clear();
    }

    #[cfg(test)]
    pub(crate) fn publish(&mut self) {
        self.publish_at(Instant::now());
    }

    /// Whether the turn is stored while it runs.
    #[must_use]
    pub(crate) const fn is_stored(&self) -> bool {
        self.is_stored
    }

    /// From now on, stores with this what is published.
    pub(crate) fn set_appender(&mut self, appender: InlineAppender) {
        self.appender = Some(appender);
    }

    /// Notes what the turn was asked, for every journal.
    pub(crate) fn note_asked(&mut self, asked: Arc<RawValue>) {
        self.asked = Some(asked);
    }

    /// Notes the turn as far as it has come: its whole steps, which end with event `after`, or with the last one. If
    /// it is stored while it runs, this is stored with what is published next.
    pub(crate) fn note_journal(
        &mut self,
        turn: &Arc<conversation::Turn>,
        tally: Tally,
        after: Option<u64>,
    ) {
        if !self.is_stored {
            return;
        }
        let since = *self.takeovers.rounds.get_or_insert(tally.rounds);
        if tally.rounds > since {
            self.takeovers.count = 0;
        }
        let after = after.unwrap_or(self.last);
        let (asked, turn) = (self.asked.clone(), Arc::clone(turn));
        let takeovers = self.takeovers.count;
        self.draft = Some(Box::new(Draft { after, asked, takeovers, tally, turn }));
        self.journals += 1;
    }

    #[cfg(test)]
    pub(super) const fn last(&self) -> u64 {
        self.last
    }

    #[cfg(test)]
    pub(super) const fn journals(&self) -> u64 {
        self.journals
    }

    /// What waits until everything so far is stored, once it is published.
    #[must_use]
    pub(crate) fn barrier(&self) -> Barrier {
        let log = self.is_stored.then(|| Arc::clone(&self.log));
        Barrier::new(log, Stored { events: self.last, journals: self.journals })
    }

    /// Ends the open run: what follows goes to another one.
    fn close_run(&mut self) {
        if self.runs.is_empty() {
            // Usually there is one.
            self.runs.reserve_exact(1);
        }
        self.runs.extend(self.block.take_run(self.last + 1));
    }

    /// Moves everything that was pushed into the log. Its last run is closed.
    fn hand_over(&mut self, handing_over: HandingOver) {
        let mut state = self.log.state.lock();
        state.records.push(&self.entries, &self.runs);
        let shows = match (&mut state.storing, handing_over) {
            (None, _) => handing_over != HandingOver::Sealed,
            (Some(storing), HandingOver::Sealed) => {
                storing.seal();
                false
            }
            (Some(storing), HandingOver::Unstored) => {
                storing.hand_over(self.draft.take(), self.journals);
                storing.shows_at_once()
            }
            (Some(storing), HandingOver::Stored) => {
                storing.hand_over(None, self.journals);
                storing.note_stored(Stored { events: self.last, journals: self.journals });
                true
            }
        };
        if shows {
            state.visible = self.last;
            std::mem::swap(&mut state.waiting, &mut self.reading);
        }
    }

    fn join_blocks(&mut self) {
        for FullBlock { first, end } in self.full.drain(..) {
            self.log.join(first, end);
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
        self.hand_over(HandingOver::Sealed);
        self.entries.clear();
        self.runs.clear();
        self.join_blocks();
        self.log.compact(limits::SEALED_RUN_BYTES);
    }

    /// Leaves the log where it is stored, without an end: another gateway goes on with it.
    pub(crate) fn leave(mut self) {
        self.complete = true;
        self.log.note_superseded();
    }

    /// The log that it writes.
    #[must_use]
    pub(crate) const fn log(&self) -> &Arc<TurnLog> {
        &self.log
    }
}

/// The last event of a turn whose driver died.
const DIED: Event<'_> = Event::cut_short(
    FailureCode::Internal,
    "the gateway ended this turn unexpectedly; see its log",
);

impl Drop for Writer {
    fn drop(&mut self) {
        self.seal();
        self.log.end_if_deleted();
        let mut state = self.log.state.lock();
        let shown = state.storing.as_deref().and_then(Storing::shown_at_most);
        state.visible = shown.unwrap_or_else(|| state.records.last());
        state.ended = true;
        state.driver = None;
        state.wake_readers();
        state.waiting.shrink_to_fit();
    }
}
