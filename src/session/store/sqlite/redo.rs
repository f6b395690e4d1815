//! What running turns write: a file that is only appended to, beside the database.
//!
//! A commit of `SQLite` costs more than all other work for a token, and as much as all other work before the first
//! token. So three things are one record each at the end of this file: the record of a session whose turn begins, the
//! news of a running turn, and the end of a turn. Once the database has [that end](super::ended), the turn's records
//! here no longer count. When no record counts, a file that is not short is emptied. What a killed process leaves here,
//! the next one [folds](super::fold) into the database.
//!
//! When the file has grown long, turns go on in a second one. The first is emptied once its turns are over. If the
//! second grows long before that, the first is folded: so only turns that run for long are written twice. Both are
//! folded when somebody reads a session with a running turn. The news of a turn name it by an alias, which the first of
//! them in a file assigns.
//!
//! ```text
//!   running turns ── append ──> current [ save a, a1 b1 a2 | a ends | b2 | a is in the database | b3 .. ]
//!                                  │ long
//!                                  v
//!                               other   [ ....................... ] ── its turns are over ──> emptied
//!                                  │ current is long, too
//!                                  '──── fold ──> database
//! ```
//!
//! Records reach a file through a [buffer](super::redo_buffer) where the file system allows one, in a tenth of the time
//! of a `write`. Both outlive the process. A power cut may cost the last of them; what is left then ends with a record
//! that is cut or has the wrong sum, and nothing after it counts. Whoever opens such a file says so, and keeps a copy
//! of it.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io;
use std::mem;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use tracing::debug;
use uuid::Uuid;

use super::super::{Lease, LogNews, LogNewsRef, Version};
use super::SyncMode;
use super::beside::{file_bytes, log_of, with_suffix};
use super::ended::EndedTurn;
use super::in_place::InPlace;
use super::open_error::OpenError;
use super::redo_buffer::{Buffer, Left};
use super::redo_record::{self, Body, HEADER_BYTES};
use super::redo_segment::Segment;
use crate::limits::session::{REDO_BYTES_KEPT, REDO_BYTES_MAX};
use crate::telemetry::metrics;

/// The files of running turns.
#[derive(Debug)]
pub(super) struct Redo {
    state: Mutex<State>,
    in_place: InPlace,
    /// The last that a turn has got. The first is one that no earlier process has assigned.
    last_alias: AtomicU64,
}

/// A turn, and its alias in the files. What each token needs comes first.
#[derive(Debug)]
#[repr(C)]
pub(super) struct TurnAlias {
    alias: u64,
    /// In which [incarnation](State::incarnation) of the current file it was assigned; 0 if in none.
    assigned_in: AtomicU64,
    lease: Lease,
    turn_id: String,
}

#[derive(Debug)]
struct State {
    current: Segment,
    /// Counts how often the current file has begun empty, from 1. An alias holds for one of these times.
    incarnation: u64,
    other: Segment,
    other_is: OtherFile,
    /// How long the current file is when folding the other one is due. If that fails, it is due again once the file
    /// has grown by [`REDO_BYTES_MAX`].
    fold_at: u64,
    /// Deleted sessions, up to which version. The database has yet to follow.
    deleted: HashMap<String, Version>,
    scratch: Vec<u8>,
}

/// What becomes of the other file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum OtherFile {
    /// Turns can go on there.
    Empty,
    /// It waits to be folded.
    Waiting,
}

/// How much is to be folded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Extent {
    /// The older file alone. The one to which turns write stays as it is.
    OlderFile,
    BothFiles,
}

/// What is to be folded.
#[derive(Debug)]
pub(super) struct Folding {
    /// The file.
    pub(super) file: Vec<u8>,
    /// The file after it, which may say that turns of the first are over.
    pub(super) later: Vec<u8>,
    /// The deletions in both that the database follows then.
    deleted: Vec<(String, Version)>,
}

/// A record that was appended.
struct Recorded {
    bytes: usize,
    /// Whether the older file should be folded.
    is_fold_due: bool,
}

impl Redo {
    /// Opens the files beside a database, and creates them if there are none.
    pub(super) fn open(database: &Path, sync: SyncMode) -> Result<Self, OpenError> {
        let [first, second] = paths(database).map(Segment::open);
        let (mut current, mut other) = (first?, second?);
        if other.generation > current.generation {
            mem::swap(&mut current, &mut other);
        }
        let buffer = buffer_path(database);
        if let Some(left) = Left::read(buffer.clone())?
            && let Some(left) = current.take_left(left)?
            && let Some(left) = other.take_left(left)?
        {
            left.keep_damaged();
        }
        current.cut_damaged()?;
        other.cut_damaged()?;
        // If the disk is full, that stays there.
        if current.flush().and_then(|()| other.flush()).is_ok() {
            set_buffer(&buffer, sync, &mut current);
        }
        // One that an earlier process has left is removed once what is in it is written.
        let buffer = current.is_buffered().then_some(buffer);
        let files = [database.to_owned(), log_of(database)].into_iter().chain(buffer);
        let in_place = InPlace::of(files.chain(paths(database)));
        let (other_is, fold_at, scratch) = (OtherFile::Waiting, REDO_BYTES_MAX, Vec::new());
        let deleted = HashMap::new();
        let state = State { current, incarnation: 1, other, other_is, fold_at, deleted, scratch };
        // Not those of an earlier process, whose records may still be there.
        let last_alias = AtomicU64::new(Uuid::new_v4().as_u64_pair().0 >> 1);
        Ok(Self { state: Mutex::new(state), in_place, last_alias })
    }

    /// A new alias for a turn.
    pub(super) fn alias(&self, lease: &Lease, turn_id: &str) -> TurnAlias {
        let alias = 1 + self.last_alias.fetch_add(1, Ordering::Relaxed);
        let (lease, turn_id) = (lease.clone(), turn_id.to_owned());
        TurnAlias { alias, assigned_in: AtomicU64::new(0), lease, turn_id }
    }

    /// Appends what is new of a running turn that has an alias. Returns whether the older file should be folded; `None`
    /// if the lease is no longer held, and nothing was written.
    pub(super) fn append_aliased(
        &self,
        is_held: impl FnOnce() -> bool,
        turn: &TurnAlias,
        news: &LogNewsRef<'_>,
    ) -> io::Result<Option<bool>> {
        let encode = |records: &mut Vec<u8>, incarnation| turn.encode(records, incarnation, news);
        let note = |current: &mut Segment, incarnation| turn.note(current, incarnation);
        let written = self.record(is_held, encode, Segment::write, note)?;
        Ok(written.map(|written| appended(&written)))
    }

    /// The same for one without an alias.
    pub(super) fn append(
        &self,
        is_held: impl FnOnce() -> bool,
        lease: &Lease,
        turn_id: &str,
        news: &LogNews,
    ) -> io::Result<Option<bool>> {
        let encode = |records: &mut Vec<u8>, _| redo_record::append(records, lease, turn_id, news);
        let note = |current: &mut Segment, _| current.note_turn(&lease.session_id, turn_id);
        let written = self.record(is_held, encode, Segment::write, note)?;
        Ok(written.map(|written| appended(&written)))
    }

    /// Appends the record of a session, so that a full disk shows. Returns whether the older file should be folded;
    /// `None` if the lease is no longer held, and nothing was written.
    pub(super) fn save(
        &self,
        is_held: impl FnOnce() -> bool,
        lease: &Lease,
        saved: (Version, u64),
        record: &[u8],
    ) -> io::Result<Option<bool>> {
        let encode = |records: &mut Vec<u8>, _| redo_record::save(records, lease, saved, record);
        let note = |current: &mut Segment, _| current.note_saved(&lease.session_id);
        self.in_place.check()?;
        let written = self.record(is_held, encode, Segment::write_surely, note)?;
        Ok(written.map(|written| written.is_fold_due))
    }

    /// Appends the end of a turn. Returns whether the older file should be folded.
    pub(super) fn end(&self, turn: &EndedTurn) -> io::Result<bool> {
        let encode = |records: &mut Vec<u8>, _| redo_record::ended(records, turn);
        let (session_id, turn_id) = turn.ids();
        let note = |current: &mut Segment, _| current.note_turn(session_id, turn_id);
        self.in_place.check()?;
        let written = self.record(|| true, encode, Segment::write, note)?;
        Ok(written.is_some_and(|written| written.is_fold_due))
    }

    /// Appends a record if it `is_in_time`, and notes what the database lacks from then on. Both learn the
    /// [incarnation](State::incarnation) of the current file. Whoever deletes a session takes its lease first. So a
    /// record that is in time comes before the deletion in the file, and goes with it.
    fn record(
        &self,
        is_in_time: impl FnOnce() -> bool,
        encode: impl FnOnce(&mut Vec<u8>, u64),
        write: impl FnOnce(&mut Segment, &[u8]) -> io::Result<()>,
        note: impl FnOnce(&mut Segment, u64),
    ) -> io::Result<Option<Recorded>> {
        let mut guard = self.state.lock();
        let state = &mut *guard;
        if !is_in_time() {
            return Ok(None);
        }
        // First, because an alias holds in one file alone.
        state.change_files_if_long()?;
        state.scratch.clear();
        encode(&mut state.scratch, state.incarnation);
        write(&mut state.current, &state.scratch)?;
        note(&mut state.current, state.incarnation);
        Ok(Some(Recorded { bytes: state.scratch.len(), is_fold_due: state.is_fold_due() }))
    }

    /// Fails while one of the files is elsewhere.
    pub(super) fn check_in_place(&self) -> io::Result<()> {
        self.in_place.check()
    }

    /// Writes an empty record to the disk, to see whether that works.
    pub(super) fn probe(&self) -> io::Result<()> {
        self.in_place.check()?;
        let encode = |records: &mut Vec<u8>, _| redo_record::probe(records);
        self.record(|| true, encode, Segment::write_now, |_, _| {}).map(drop)
    }

    /// Notes that the database has these turns, each as its session and its id, and the records of their sessions. If
    /// that cannot be written, no harm is done: a later fold finds that the database has them.
    pub(super) fn settle<'a>(&self, turns: impl Iterator<Item = (&'a str, &'a str)>) {
        let mut guard = self.state.lock();
        let state = &mut *guard;
        state.scratch.clear();
        for (session_id, turn_id) in turns {
            if state.drop_live(session_id, Some(turn_id)) {
                redo_record::settled(&mut state.scratch, session_id, turn_id);
            }
        }
        if !state.scratch.is_empty() {
            let _ = state.current.write(&state.scratch);
        }
    }

    /// Deletes a session, up to this version of its record: nothing of it in the files counts any more, nor in the
    /// database, which has yet to [follow](Self::settle_deleted). Returns whether the database lacked something of it.
    pub(super) fn forget(&self, session_id: &str, latest: Version) -> io::Result<bool> {
        self.in_place.check()?;
        let mut guard = self.state.lock();
        let state = &mut *guard;
        state.change_files_if_long()?;
        state.scratch.clear();
        redo_record::forget(&mut state.scratch, session_id, latest);
        state.current.write(&state.scratch)?;
        let was_live = state.drop_live(session_id, None);
        state.deleted.insert(session_id.to_owned(), latest);
        Ok(was_live)
    }

    /// Notes that the database has followed such a deletion.
    pub(super) fn settle_deleted(&self, session_id: &str, latest: Version) {
        let deleted = &mut self.state.lock().deleted;
        if deleted.get(session_id) == Some(&latest) {
            deleted.remove(session_id);
        }
    }

    /// Whether there is a file to [empty](Self::empty_unneeded).
    pub(super) fn has_unneeded(&self) -> bool {
        let state = self.state.lock();
        state.is_other_unneeded() || state.is_current_unneeded()
    }

    /// Empties files of which the database has everything. That has reached the disk by now, because what is in the
    /// file may be minutes old, and a power cut must not take it.
    pub(super) fn empty_unneeded(&self) {
        let mut state = self.state.lock();
        // If emptying fails, the file is emptied or folded later.
        if state.is_other_unneeded() {
            let _ = state.empty_other();
        }
        if state.is_current_unneeded() {
            // Aliases go with what is there. If emptying fails, it does no harm to assign them again.
            state.incarnation += 1;
            let _ = state.current.empty();
        }
    }

    /// Whether the database lacks something of this session, or of any.
    pub(super) fn has(&self, session_id: Option<&str>) -> bool {
        self.state.lock().is_live(session_id)
    }

    /// What is to be folded next: the older file or, if that is empty and both are to be folded, the current one,
    /// to which nothing is written any more. `None` if there is nothing.
    pub(super) fn begin_fold(&self, extent: Extent) -> io::Result<Option<Folding>> {
        // They are read by their paths.
        self.in_place.check_now()?;
        let mut guard = self.state.lock();
        let state = &mut *guard;
        if state.other_is == OtherFile::Empty {
            if extent == Extent::OlderFile || state.current.length() <= HEADER_BYTES {
                return Ok(None);
            }
            state.change_files()?;
        }
        let (older, newer) = (state.other.snapshot()?, state.current.snapshot()?);
        let deleted = state.deleted.iter().map(|(id, latest)| (id.clone(), *latest)).collect();
        drop(guard);
        Ok(Some(Folding { file: older.read()?, later: newer.read()?, deleted }))
    }

    /// What would be folded if all were, the older file first.
    pub(super) fn unfolded(&self) -> io::Result<Vec<Folding>> {
        let guard = self.state.lock();
        let (older, newer) = (guard.other.snapshot()?, guard.current.snapshot()?);
        let is_waiting = guard.other_is == OtherFile::Waiting;
        drop(guard);
        let (older, newer) = (is_waiting.then(|| older.read()).transpose()?, newer.read()?);
        let of = |file, later| Folding { file, later, deleted: Vec::new() };
        let older = older.map(|file| of(file, newer.clone()));
        Ok(older.into_iter().chain([of(newer, Vec::new())]).collect())
    }

    /// Notes what an earlier process has left in the files and could not be folded, so that the database lacks it.
    pub(super) fn note_unfolded(&self) -> io::Result<()> {
        let files = self.unfolded()?;
        let mut guard = self.state.lock();
        let state = &mut *guard;
        // The last is the current one.
        for (folding, segment) in files.iter().rev().zip([&mut state.current, &mut state.other]) {
            for record in redo_record::records(&folding.file) {
                if !matches!(record.body, Body::Settled { .. } | Body::Probe) {
                    segment.note_saved(record.session_id);
                }
            }
        }
        Ok(())
    }

    /// The database has what was to be folded.
    pub(super) fn end_fold(&self, folding: &Folding) -> io::Result<()> {
        for (session_id, latest) in &folding.deleted {
            self.settle_deleted(session_id, *latest);
        }
        let mut state = self.state.lock();
        state.other.drop_all();
        state.empty_other()
    }

    /// Turns go on in the other file, as if this one were long, if that is empty.
    #[cfg(test)]
    pub(super) fn change_files(&self) {
        let mut state = self.state.lock();
        if state.other_is == OtherFile::Empty {
            // If a write is to fail, it may be this one.
            let _ = state.change_files();
        }
    }

    /// Writes what is in the buffer to the file.
    #[cfg(test)]
    pub(super) fn flush(&self) {
        self.state.lock().current.flush().unwrap();
    }

    /// Makes the next write fail halfway, as on a full disk.
    #[cfg(test)]
    pub(super) fn fail_next_write(&self) {
        self.state.lock().current.fails_next = true;
    }

    /// Removes the files, if nothing is in them. Others that were put in their place stay.
    pub(super) fn remove(&self) {
        if self.in_place.check_now().is_err() {
            return;
        }
        let state = self.state.lock();
        state.current.remove();
        state.other.remove();
    }

    /// Waits until what was written has reached the disk.
    pub(super) fn sync(&self) -> io::Result<()> {
        let mut guard = self.state.lock();
        let state = &mut *guard;
        let unsynced = [state.current.take_unsynced()?, state.other.take_unsynced()?];
        drop(guard);
        unsynced.iter().flatten().try_for_each(File::sync_data)
    }

    /// Whether something has yet to reach the disk.
    #[cfg(test)]
    pub(super) fn is_dirty(&self) -> bool {
        let state = self.state.lock();
        state.current.is_dirty || state.other.is_dirty
    }
}

/// Counts what was appended. Returns whether the older file should be folded.
fn appended(written: &Recorded) -> bool {
    metrics::store_append(written.bytes);
    written.is_fold_due
}

impl TurnAlias {
    /// Appends what is new of the turn, after its alias if that is not assigned in this incarnation of the file.
    fn encode(&self, records: &mut Vec<u8>, incarnation: u64, news: &LogNewsRef<'_>) {
        let Self { alias, lease, turn_id, .. } = self;
        if !self.is_assigned_in(incarnation) {
            redo_record::alias(records, lease, turn_id, *alias);
        }
        redo_record::alias_news(records, *alias, news);
    }

    /// Notes that this was written there.
    fn note(&self, current: &mut Segment, incarnation: u64) {
        if !self.is_assigned_in(incarnation) {
            self.assigned_in.store(incarnation, Ordering::Relaxed);
            current.note_turn(&self.lease.session_id, &self.turn_id);
        }
    }

    fn is_assigned_in(&self, incarnation: u64) -> bool {
        self.assigned_in.load(Ordering::Relaxed) == incarnation
    }
}

impl State {
    /// Once the file is long, turns go on in the other one, if that is empty.
    fn change_files_if_long(&mut self) -> io::Result<()> {
        if self.current.length() > REDO_BYTES_MAX && self.other_is == OtherFile::Empty {
            self.change_files()?;
        }
        Ok(())
    }

    /// Whether the older file should be folded. Says so once for each [`REDO_BYTES_MAX`] that are written meanwhile.
    fn is_fold_due(&mut self) -> bool {
        let is_due = self.other_is == OtherFile::Waiting && self.current.length() > self.fold_at;
        if is_due {
            self.fold_at = self.current.length() + REDO_BYTES_MAX;
        }
        is_due
    }

    /// Drops what is live of a turn, or of a whole session. Returns whether something was.
    fn drop_live(&mut self, session_id: &str, turn_id: Option<&str>) -> bool {
        let in_current = self.current.drop_live(session_id, turn_id);
        let in_other = self.other.drop_live(session_id, turn_id);
        in_current || in_other
    }

    fn is_other_unneeded(&self) -> bool {
        self.other_is == OtherFile::Waiting && !self.other.is_live(None) && self.deleted.is_empty()
    }

    /// Whether nothing is live in the current file, and it is long enough to be worth emptying.
    fn is_current_unneeded(&self) -> bool {
        let is_live = self.current.is_live(None) || !self.deleted.is_empty();
        self.current.length() > REDO_BYTES_KEPT && self.other_is == OtherFile::Empty && !is_live
    }

    fn is_live(&self, session_id: Option<&str>) -> bool {
        let is_deleted = session_id
            .map_or(!self.deleted.is_empty(), |session_id| self.deleted.contains_key(session_id));
        is_deleted || self.current.is_live(session_id) || self.other.is_live(session_id)
    }

    /// Goes on in the other file, which is empty.
    fn change_files(&mut self) -> io::Result<()> {
        self.current.flush()?;
        self.other.begin(self.current.generation + 1)?;
        if let Some(buffer) = self.current.take_buffer() {
            self.other.set_buffer(buffer);
        }
        mem::swap(&mut self.current, &mut self.other);
        self.incarnation += 1;
        self.other_is = OtherFile::Waiting;
        Ok(())
    }

    fn empty_other(&mut self) -> io::Result<()> {
        self.fold_at = REDO_BYTES_MAX;
        self.other.empty()?;
        self.other_is = OtherFile::Empty;
        Ok(())
    }
}

/// Creates a buffer for what is written to this file, if that is possible. What waits for the disk is not buffered.
fn set_buffer(path: &Path, sync: SyncMode, current: &mut Segment) {
    if sync.waits_for_disk() {
        // An empty one does no harm.
        let _ = fs::remove_file(path);
        return;
    }
    match Buffer::create(path) {
        Ok(buffer) => buffer.into_iter().for_each(|buffer| current.set_buffer(buffer)),
        Err(error) => {
            debug!(path = %path.display(), %error, "turns are written without a buffer");
        }
    }
}

/// The two files beside a database.
pub(super) fn paths(database: &Path) -> [PathBuf; 2] {
    ["-redo1", "-redo2"].map(|suffix| with_suffix(database, suffix))
}

/// The buffer of the file to which turns are written.
pub(super) fn buffer_path(database: &Path) -> PathBuf {
    with_suffix(database, "-redo-buffer")
}

/// The bytes of both files and of their buffer.
pub(super) fn bytes(database: &Path) -> u64 {
    let files = paths(database).into_iter().chain([buffer_path(database)]);
    files.map(|path| file_bytes(&path)).sum()
}

/// Whether there is something in them.
pub(super) fn has_records(database: &Path) -> bool {
    paths(database).iter().any(|path| file_bytes(path) > HEADER_BYTES)
        || matches!(Left::read(buffer_path(database)), Ok(Some(_)))
}
