//! The records of a log: the events' bytes, and an index of them.
//!
//! ```text
//!  index   | end, kind, text | end, kind, text | end, kind, text | ...   a record each
//!               |                   |                 |
//!  runs    [{"type":..}{"type":..}] [{"type":..}] ...                    bytes, shared
//!           first: 1                 first: 3
//! ```
//! Bytes that were published together are a run. Runs are small, so those of a block become
//! one, of exact size, when the block is full.

use std::ops::Range;

use bytes::Bytes;

use super::encode::TEXT_END;
use crate::event::Kind;

/// An event of a turn, encoded.
#[derive(Debug, Clone, Copy)]
pub struct Record<'a> {
    /// The epoch of the session in which it was written: see [`TurnLog::epoch`](super::TurnLog::epoch).
    pub epoch: u64,
    /// Its place in the turn, from 1.
    pub sequence: u64,
    /// Which event it is.
    pub kind: Kind,
    /// The event as one line of JSON.
    pub data: &'a [u8],
    /// For an event that carries a piece of text: that text, escaped as JSON, without the
    /// quotation marks. It is a part of `data`.
    pub text: Option<&'a [u8]>,
}

/// What the index knows of a record.
#[derive(Debug, Clone, Copy)]
pub(super) struct Entry {
    /// Where it ends in its run, or [`WHOLE_RUN`](Self::WHOLE_RUN).
    pub(super) end: u32,
    /// Where its text begins in the record; 0 if it carries none.
    pub(super) text_start: u16,
    pub(super) kind: Kind,
}

impl Entry {
    /// The end of a record that is alone in its run, however long that is.
    pub(super) const WHOLE_RUN: u32 = u32::MAX;
}

/// Records that lie together.
#[derive(Debug, Clone)]
pub(super) struct Run {
    /// The sequence of its first record.
    pub(super) first: u64,
    pub(super) bytes: Bytes,
}

impl Run {
    /// Where one of its records ends.
    fn end_of(&self, entry: Entry) -> usize {
        if entry.end == Entry::WHOLE_RUN { self.bytes.len() } else { entry.end as usize }
    }
}

/// All published records.
#[derive(Debug, Default)]
pub(super) struct Records {
    index: Vec<Entry>,
    runs: Vec<Run>,
}

impl Records {
    /// The sequence of the last record; 0 before the first.
    pub(super) const fn last(&self) -> u64 {
        self.index.len() as u64
    }

    pub(super) fn push(&mut self, entries: &[Entry], runs: impl Iterator<Item = Run>) {
        self.index.extend_from_slice(entries);
        self.runs.extend(runs);
    }

    /// The runs from record `first` to before record `end`.
    pub(super) fn runs_between(&self, first: u64, end: u64) -> Vec<Run> {
        self.runs[self.places(first, end)].to_vec()
    }

    fn places(&self, first: u64, end: u64) -> Range<usize> {
        let place = |sequence| self.runs.partition_point(|run| run.first < sequence);
        place(first)..place(end)
    }

    /// Lets one run of a block stand for all of those from its first record to before `end`.
    pub(super) fn join(&mut self, run: Run, end: u64) {
        let places = self.places(run.first, end);
        let mut before = 0;
        for at in places.clone() {
            let Run { first, bytes } = &self.runs[at];
            let next = self.runs.get(at + 1).map_or(end, |next| next.first);
            for sequence in *first..next {
                self.index[index_of(sequence)].end += before;
            }
            before += u32::try_from(bytes.len()).expect("a block is small");
        }
        self.runs.splice(places, [run]);
    }

    /// What follows `seen`, at most `bytes_max` bytes or one record, into `taken`.
    pub(super) fn take_after(&self, seen: u64, bytes_max: usize, taken: &mut Taken) {
        taken.seen = seen;
        let from = self.runs.partition_point(|run| run.first <= seen + 1);
        let Some(mut at) = from.checked_sub(1) else { return };
        let mut bytes = 0;
        for sequence in seen + 1..=self.last() {
            while self.runs.get(at + 1).is_some_and(|next| next.first <= sequence) {
                at += 1;
            }
            let run = &self.runs[at];
            let entry = self.index[index_of(sequence)];
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
        if sequence == run.first { 0 } else { run.end_of(self.index[index_of(sequence - 1)]) }
    }

    /// Gives back what is more than needed.
    pub(super) fn shrink(&mut self) {
        self.index.shrink_to_fit();
        self.runs.shrink_to_fit();
    }

    /// What the index and the list of runs take in memory.
    pub(super) const fn memory(&self) -> usize {
        self.index.capacity() * size_of::<Entry>() + self.runs.capacity() * size_of::<Run>()
    }
}

#[expect(clippy::cast_possible_truncation, reason = "a log has no more records than bytes")]
const fn index_of(sequence: u64) -> usize {
    sequence as usize - 1
}

/// Records that a reader has taken out of a log: they stay as they are, whatever is written.
#[derive(Debug, Default)]
pub(super) struct Taken {
    /// The record before them.
    seen: u64,
    entries: Vec<Entry>,
    /// Each with where the first record that was taken begins in it.
    runs: Vec<(usize, Run)>,
}

impl Taken {
    pub(super) const fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Hands out the records in order, and forgets them. Gives the last one's sequence.
    pub(super) fn drain(&mut self, epoch: u64, mut sink: impl FnMut(Record<'_>)) -> u64 {
        let mut runs = self.runs.drain(..).peekable();
        let mut open: Option<(usize, Run)> = None;
        for (entry, sequence) in self.entries.drain(..).zip(self.seen + 1..) {
            if runs.peek().is_some_and(|(_, run)| run.first <= sequence) {
                open = runs.next();
            }
            let Some((start, run)) = &mut open else { break };
            let end = run.end_of(entry);
            let data = &run.bytes[std::mem::replace(start, end)..end];
            let text = (entry.text_start > 0)
                .then(|| &data[usize::from(entry.text_start)..data.len() - TEXT_END.len()]);
            sink(Record { epoch, sequence, kind: entry.kind, data, text });
            self.seen = sequence;
        }
        self.seen
    }
}
