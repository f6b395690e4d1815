//! The records of a log: the events' bytes, and an index of them.
//!
//! ```text
//!  index   | end, kind, text | end, kind, text | end, kind, text | ...   a record each
//!                 |                 |                  |
//!  runs    [{"type":..}LF{"type":..}LF]  [{"type":..}LF] ...             bytes, shared
//!           first: 1                     first: 3
//! ```
//! Bytes that were published together form a run: lines of JSON. Runs are small, so when a block is
//! full, its runs are joined into one of exact size. A store keeps runs without the index, which is
//! rebuilt from the lines.

use std::borrow::Borrow;
use std::ops::Range;

use bytes::Bytes;

use super::encode::{self, TEXT_END};
use super::epochs::Epochs;
use crate::event::Kind;

/// How many records a short answer has, for which the index gets room with its second.
const RECORDS_USUAL: usize = 16;

/// Ends each record in memory.
pub(super) const LF: &[u8] = b"\n";

/// An event of a turn, encoded.
#[derive(Debug, Clone, Copy)]
pub struct Record<'a> {
    /// The epoch of the session in which it was written: see [`Epochs`].
    pub epoch: u64,
    /// Its place in the turn, from 1.
    pub sequence: u64,
    /// Which event it is.
    pub kind: Kind,
    /// The event as one line of JSON.
    pub data: &'a [u8],
    /// The piece of text that the event carries, if any: a part of `data`, escaped as JSON, without
    /// its quotation marks.
    pub text: Option<&'a [u8]>,
}

impl Record<'_> {
    /// Whether its text begins a new message of the model after earlier text.
    #[must_use]
    pub fn begins_message(&self) -> bool {
        encode::begins_message(self.data)
    }
}

/// A record's entry in the index.
#[derive(Debug, Clone, Copy)]
pub(super) struct IndexEntry {
    /// Where its line ends in its run, LF included, or [`WHOLE_RUN`](Self::WHOLE_RUN).
    pub(super) end: u32,
    /// Where its text begins in the record; 0 if it carries none.
    pub(super) text_start: u16,
    pub(super) kind: Kind,
}

impl IndexEntry {
    /// The `end` of a record that is alone in its run, which may be of any length.
    pub(super) const WHOLE_RUN: u32 = u32::MAX;

    /// A record whose text begins at `text_start`, if it carries one.
    pub(super) fn new(end: u32, text_start: Option<usize>, kind: Kind) -> Self {
        let text_start = text_start.and_then(|start| u16::try_from(start).ok()).unwrap_or(0);
        Self { end, text_start, kind }
    }
}

/// Records that are next to each other in memory.
#[derive(Debug, Clone)]
pub struct Run {
    /// The sequence of its first record.
    pub first: u64,
    /// The lines, each with its LF.
    pub bytes: Bytes,
}

impl Run {
    /// Where one of its records ends.
    fn end_of(&self, entry: IndexEntry) -> usize {
        if entry.end == IndexEntry::WHOLE_RUN { self.bytes.len() } else { entry.end as usize }
    }
}

/// Runs that follow one another, each with the sequence of its last record. The last run ends with record `last`.
fn with_last(runs: &[Run], last: u64) -> impl Iterator<Item = (&Run, u64)> {
    let last_of = move |at| runs.get(at + 1).map_or(last, |next: &Run| next.first - 1);
    runs.iter().enumerate().map(move |(at, run)| (run, last_of(at)))
}

/// The records that a log's writer has handed over.
#[derive(Debug, Default)]
pub(super) struct Records {
    /// How many records before them are missing, in a log that was loaded from the middle.
    skipped: u64,
    index: Vec<IndexEntry>,
    runs: Vec<Run>,
}

/// Events of a log as a store keeps them: one line of JSON each.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Batch {
    /// The sequence of the first.
    pub first: u64,
    /// The sequence of the last.
    pub last: u64,
    /// The lines, each with its LF.
    pub bytes: Bytes,
}

impl Records {
    /// Rebuilds the index of a stored log that ends with record `last`. `None` if no log has stored
    /// such batches.
    pub(super) fn restore(batches: Vec<Batch>, last: u64) -> Option<Self> {
        let skipped = batches.first().map_or(last, |batch| batch.first.saturating_sub(1));
        let mut records = Self { skipped, ..Self::default() };
        if !batches.into_iter().all(|batch| records.extend(batch)) {
            return None;
        }
        records.index.shrink_to_fit();
        (records.last() == last).then_some(records)
    }

    /// Adds a batch that a store has kept; false if it does not come next.
    pub(super) fn extend(&mut self, Batch { first, last, bytes }: Batch) -> bool {
        if first != self.last() + 1 || self.index_lines(&bytes).is_none() || self.last() != last {
            return false;
        }
        self.runs.push(Run { first, bytes });
        true
    }

    /// The records after `seen`, a batch for each run.
    pub(super) fn batches_after(&self, seen: u64) -> Vec<Batch> {
        let seen = seen.max(self.skipped);
        let from = self.runs.partition_point(|run| run.first <= seen + 1).saturating_sub(1);
        let batch = |(run, last): (&Run, u64)| {
            let first = run.first.max(seen + 1);
            let is_new = first <= last;
            is_new.then(|| Batch { first, last, bytes: run.bytes.slice(self.start(run, first)..) })
        };
        with_last(&self.runs[from..], self.last()).filter_map(batch).collect()
    }

    /// The records after `seen`, up to record `last`, and their runs. `None` if they begin or end within a run.
    pub(super) fn whole_runs(&self, seen: u64, last: u64) -> Option<(Vec<IndexEntry>, Vec<Run>)> {
        let places = self.places(seen + 1, last + 1);
        let (first, next) = (self.runs.get(places.start)?, self.runs.get(places.end));
        let end = next.map_or_else(|| self.last() + 1, |next| next.first);
        if first.first != seen + 1 || end != last + 1 {
            return None;
        }
        let entries = &self.index[self.place(seen + 1)..=self.place(last)];
        Some((entries.to_vec(), self.runs[places].to_vec()))
    }

    fn index_lines(&mut self, run: &[u8]) -> Option<()> {
        let mut start = 0;
        for newline in memchr::memchr_iter(b'\n', run) {
            let (kind, text_start) = encode::decode(&run[start..newline])?;
            start = newline + 1;
            self.index.push(IndexEntry::new(u32::try_from(start).ok()?, text_start, kind));
        }
        (start == run.len()).then_some(())
    }

    /// The sequence of the last record; 0 before the first.
    pub(super) const fn last(&self) -> u64 {
        self.skipped + self.index.len() as u64
    }

    pub(super) fn push(&mut self, entries: &[IndexEntry], runs: &[Run]) {
        if self.runs.is_empty() {
            // A turn that waits for its model has no more than these.
            self.runs.reserve_exact(runs.len());
            self.index.reserve_exact(entries.len());
        } else if self.index.len() + entries.len() > self.index.capacity() {
            self.index.reserve(RECORDS_USUAL);
        }
        self.index.extend_from_slice(entries);
        self.runs.extend_from_slice(runs);
    }

    /// The runs from record `first` up to, but not including, record `end`.
    pub(super) fn runs_between(&self, first: u64, end: u64) -> Vec<Run> {
        self.runs[self.places(first, end)].to_vec()
    }

    fn places(&self, first: u64, end: u64) -> Range<usize> {
        let place = |sequence| self.runs.partition_point(|run| run.first < sequence);
        place(first)..place(end)
    }

    /// The records whose runs can be joined into longer ones, of at most `bytes_max` bytes.
    pub(super) fn short_runs(&self, bytes_max: usize) -> Vec<Range<u64>> {
        let mut spans: Vec<(Range<u64>, usize, usize)> = Vec::new();
        for (run, last) in with_last(&self.runs, self.last()) {
            let end = last + 1;
            match spans.last_mut() {
                Some((span, runs, bytes))
                    if span.end == run.first && *bytes + run.bytes.len() <= bytes_max =>
                {
                    (span.end, *runs, *bytes) = (end, *runs + 1, *bytes + run.bytes.len());
                }
                _ => spans.push((run.first..end, 1, run.bytes.len())),
            }
        }
        spans.into_iter().filter(|(_, runs, _)| *runs > 1).map(|(span, ..)| span).collect()
    }

    /// Replaces the runs from `joined`'s first record up to `end` by this one, which is shorter than 4 GiB.
    pub(super) fn join(&mut self, joined: Run, end: u64) {
        let places = self.places(joined.first, end);
        let mut before = 0;
        for at in places.clone() {
            let run = &self.runs[at];
            let next = self.runs.get(at + 1).map_or(end, |next| next.first);
            for sequence in run.first..next {
                let place = self.place(sequence);
                let entry = &mut self.index[place];
                let end = before + run.end_of(*entry);
                entry.end = u32::try_from(end).expect("runs that are joined are short");
            }
            before += run.bytes.len();
        }
        self.runs.splice(places, [joined]);
    }

    /// Takes the records after `seen`, up to record `last` and up to `bytes_max` bytes, but at
    /// least one.
    pub(super) fn take_after(&self, seen: u64, last: u64, bytes_max: usize, taken: &mut Taken) {
        let seen = seen.max(self.skipped);
        taken.seen = seen;
        let from = self.runs.partition_point(|run| run.first <= seen + 1);
        let Some(mut at) = from.checked_sub(1) else { return };
        let mut bytes = 0;
        for sequence in seen + 1..=last {
            while self.runs.get(at + 1).is_some_and(|next| next.first <= sequence) {
                at += 1;
            }
            let run = &self.runs[at];
            let entry = self.index[self.place(sequence)];
            let start = self.start(run, sequence);
            bytes += run.end_of(entry) - start;
            if bytes > bytes_max && !taken.entries.is_empty() {
                return;
            }
            if taken.runs.last().is_none_or(|(_, last)| last.first != run.first) {
                taken.runs.push((start, run.clone()));
            }
            taken.entries.push(entry);
        }
    }

    /// Where a record begins in its run.
    fn start(&self, run: &Run, sequence: u64) -> usize {
        if sequence == run.first { 0 } else { run.end_of(self.index[self.place(sequence - 1)]) }
    }

    /// Where a record is in the index.
    #[expect(clippy::cast_possible_truncation, reason = "a log has no more records than bytes")]
    const fn place(&self, sequence: u64) -> usize {
        (sequence - self.skipped) as usize - 1
    }

    /// Drops the records after `seen`, and adds one in their place.
    pub(super) fn end_after(&mut self, seen: u64, line: Bytes, kind: Kind) {
        let seen = seen.max(self.skipped);
        self.index.truncate(usize::try_from(seen - self.skipped).unwrap_or(usize::MAX));
        self.runs.retain(|run| run.first <= seen);
        self.index.push(IndexEntry::new(IndexEntry::WHOLE_RUN, None, kind));
        self.runs.push(Run { first: seen + 1, bytes: line });
    }

    /// Frees unused capacity.
    pub(super) fn shrink(&mut self) {
        self.index.shrink_to_fit();
        self.runs.shrink_to_fit();
    }
}

/// Records that a reader has taken out of a log. Whatever is written later, they do not change.
#[derive(Debug, Default)]
pub(super) struct Taken {
    /// The record before them.
    seen: u64,
    entries: Vec<IndexEntry>,
    /// The runs, each with the position in it of the first record that was taken.
    runs: Vec<(usize, Run)>,
}

/// What readers can see from now on: just published, or just stored.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Published<'a> {
    /// The record before it.
    pub(super) seen: u64,
    pub(super) epoch: u64,
    pub(super) entries: &'a [IndexEntry],
    pub(super) runs: &'a [Run],
}

impl Published<'_> {
    /// How many bytes its lines take in memory.
    pub(super) fn bytes(&self) -> usize {
        self.runs.iter().map(|run| run.bytes.len()).sum()
    }

    /// Passes on the records in order. Returns the last one's sequence.
    pub(super) fn each(&self, sink: impl FnMut(Record<'_>)) -> u64 {
        let runs = self.runs.iter().map(|run| (0, run));
        pass_on(self.seen, self.entries.iter().copied(), runs, |_| self.epoch, sink)
    }
}

/// Passes on the records after `seen` that have these entries. Each run comes with the position in it from which to
/// read. Returns the last record's sequence.
fn pass_on<R: Borrow<Run>>(
    mut seen: u64,
    entries: impl Iterator<Item = IndexEntry>,
    runs: impl Iterator<Item = (usize, R)>,
    epoch_at: impl Fn(u64) -> u64,
    mut sink: impl FnMut(Record<'_>),
) -> u64 {
    let mut runs = runs.peekable();
    let mut open: Option<(usize, R)> = None;
    for (entry, sequence) in entries.zip(seen + 1..) {
        if runs.peek().is_some_and(|(_, run)| run.borrow().first <= sequence) {
            open = runs.next();
        }
        let Some((start, run)) = &mut open else { break };
        let run: &Run = (*run).borrow();
        let end = run.end_of(entry);
        let data = &run.bytes[std::mem::replace(start, end)..end - LF.len()];
        let text = (entry.text_start > 0)
            .then(|| &data[usize::from(entry.text_start)..data.len() - TEXT_END.len()]);
        sink(Record { epoch: epoch_at(sequence), sequence, kind: entry.kind, data, text });
        seen = sequence;
    }
    seen
}

impl Taken {
    pub(super) const fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Passes on the records in order, and forgets them. Returns the last one's sequence.
    pub(super) fn drain(&mut self, epochs: &Epochs, sink: impl FnMut(Record<'_>)) -> u64 {
        let (entries, runs) = (self.entries.drain(..), self.runs.drain(..));
        pass_on(self.seen, entries, runs, |sequence| epochs.at(sequence), sink)
    }
}
