//! What running turns write: a file that is only appended to, beside the database.
//!
//! A commit of `SQLite` costs more than all else that a token does. So what is new of a running turn is one
//! `write` to the end of this file. Once the turn is over, the database gets its whole log, and what is here
//! of it is worthless: when all is, the file is emptied. What a killed process leaves here, the next one
//! [folds](super::fold) into the database. When the file has grown long, turns go on in a second one. The
//! first is emptied once its turns are over, or it is folded when the second is long, too: then only turns
//! that have run for long are written twice. Both are folded when somebody reads a session with a running turn.
//!
//! ```text
//!   running turns ── append ──> current [ a1 b1 a2 | a ends | b2 .. ]
//!                                  │ long
//!                                  v
//!                               other   [ ....................... ] ── its turns are over ──> emptied
//!                                  │ current is long, too
//!                                  '──── fold ──> database
//! ```
//!
//! A `write` outlives the process. A power cut may cost the last of them; what is left then ends with a
//! record that is cut or has the wrong sum, and nothing after it counts.

use std::collections::HashMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write as _};
use std::mem;
use std::path::{Path, PathBuf};

use parking_lot::Mutex;

use super::super::{Lease, LogNews};
use super::open_error::OpenError;
use super::redo_record::{self, HEADER_BYTES, Header, Kind, RecordHead};
use crate::limits::session::REDO_BYTES_MAX;

/// The files of running turns.
#[derive(Debug)]
pub(super) struct Redo(Mutex<State>);

#[derive(Debug)]
struct State {
    current: Segment,
    other: Segment,
    /// Whether `other` waits to be folded. Otherwise it is empty.
    is_other_full: bool,
    /// How long the current file is when that is due. Should it not happen, it is due again as much later.
    fold_at: u64,
    scratch: Vec<u8>,
}

/// One of the two files.
#[derive(Debug)]
struct Segment {
    file: File,
    path: PathBuf,
    generation: u64,
    /// How much of it counts.
    length: u64,
    /// Whether there may be more in it, which a failed write has left.
    is_torn: bool,
    /// Whether it was written since it was last synced.
    is_dirty: bool,
    /// The turns, by session, of which the database does not have all.
    live: HashMap<String, Vec<String>>,
    /// Of these, the one that was last noted under each grant: most appends are of one that is.
    noted: HashMap<u64, String>,
    #[cfg(test)]
    fails_next: bool,
}

/// What is to be folded.
#[derive(Debug)]
pub(super) struct Folding {
    /// The file.
    pub(super) file: Vec<u8>,
    /// The file after it, which may say that turns of the first are over.
    pub(super) later: Vec<u8>,
}

impl Redo {
    /// Opens the files beside a database, and creates them if there are none.
    pub(super) fn open(database: &Path) -> Result<Self, OpenError> {
        let [first, second] = paths(database).map(Segment::open);
        let (mut current, mut other) = (first?, second?);
        if other.generation > current.generation {
            mem::swap(&mut current, &mut other);
        }
        let (is_other_full, fold_at, scratch) = (true, REDO_BYTES_MAX, Vec::new());
        Ok(Self(Mutex::new(State { current, other, is_other_full, fold_at, scratch })))
    }

    /// Appends what is new of a running turn. Returns whether the older file is in the way: it should be folded.
    pub(super) fn append(&self, lease: &Lease, turn_id: &str, news: &LogNews) -> io::Result<bool> {
        let mut guard = self.0.lock();
        let state = &mut *guard;
        if state.current.length > REDO_BYTES_MAX && !state.is_other_full {
            state.change_files()?;
        }
        redo_record::append(&mut state.scratch, lease, turn_id, news);
        state.current.write(&state.scratch)?;
        state.current.note_live(lease, turn_id);
        let is_due = state.is_other_full && state.current.length > state.fold_at;
        if is_due {
            state.fold_at = state.current.length + REDO_BYTES_MAX;
        }
        Ok(is_due)
    }

    /// Writes something that says nothing, to see whether writing works.
    pub(super) fn probe(&self) -> io::Result<()> {
        let mut guard = self.0.lock();
        let State { current, scratch, .. } = &mut *guard;
        redo_record::mark(scratch, RecordHead::of(Kind::Probe), "", "");
        current.write(scratch)
    }

    /// The database has all of this turn.
    pub(super) fn end(&self, session_id: &str, turn_id: &str) {
        self.drop_live(session_id, Some(turn_id));
    }

    /// The session is to be deleted.
    pub(super) fn forget(&self, session_id: &str) {
        self.drop_live(session_id, None);
    }

    /// What is here of a turn, or of a whole session, is worthless from now on. If that cannot be written, a
    /// later fold finds a turn that is over, or no session.
    fn drop_live(&self, session_id: &str, turn_id: Option<&str>) {
        let mut guard = self.0.lock();
        let state = &mut *guard;
        let in_current = state.current.drop_live(session_id, turn_id);
        let in_other = state.other.drop_live(session_id, turn_id);
        if !in_current && !in_other {
            return;
        }
        if state.is_other_full && state.other.live.is_empty() {
            // If that fails, it is folded.
            let _ = state.empty_other();
        }
        if state.current.live.is_empty() && !state.is_other_full && state.current.empty().is_ok() {
            return;
        }
        let head = RecordHead::of(if turn_id.is_some() { Kind::End } else { Kind::Forget });
        redo_record::mark(&mut state.scratch, head, session_id, turn_id.unwrap_or_default());
        let _ = state.current.write(&state.scratch);
    }

    /// Whether the database lacks something of this session, or of any.
    pub(super) fn has(&self, session_id: Option<&str>) -> bool {
        let state = self.0.lock();
        [&state.current, &state.other].into_iter().any(|segment| match session_id {
            Some(session_id) => segment.live.contains_key(session_id),
            None => !segment.live.is_empty(),
        })
    }

    /// What is to be folded next: the older file or, if that is empty and `all` is to be folded, the current one,
    /// to which nothing is written any more. `None` if there is nothing.
    pub(super) fn begin_fold(&self, all: bool) -> io::Result<Option<Folding>> {
        let mut guard = self.0.lock();
        let state = &mut *guard;
        if !state.is_other_full {
            if !all || state.current.length <= HEADER_BYTES {
                return Ok(None);
            }
            state.change_files()?;
        }
        let [older, newer] = [&state.other, &state.current].map(Segment::extent);
        drop(guard);
        Ok(Some(Folding { file: read(older)?, later: read(newer)? }))
    }

    /// The database has what was to be folded.
    pub(super) fn end_fold(&self) -> io::Result<()> {
        let mut state = self.0.lock();
        state.other.drop_all();
        state.empty_other()
    }

    /// Turns go on in the other file, as if this one were long.
    #[cfg(test)]
    pub(super) fn change_files(&self) {
        self.0.lock().change_files().unwrap();
    }

    /// The next write leaves half of what it should write, as on a disk that is full.
    #[cfg(test)]
    pub(super) fn fail_next_write(&self) {
        self.0.lock().current.fails_next = true;
    }

    /// Removes the files, if nothing is in them.
    pub(super) fn remove(&self) {
        let state = self.0.lock();
        for segment in [&state.current, &state.other] {
            if segment.length <= HEADER_BYTES {
                // An empty one does no harm.
                let _ = fs::remove_file(&segment.path);
            }
        }
    }

    /// Waits until what was written has reached the disk.
    pub(super) fn sync(&self) -> io::Result<()> {
        let mut guard = self.0.lock();
        let state = &mut *guard;
        let unsynced = [state.current.take_unsynced()?, state.other.take_unsynced()?];
        drop(guard);
        unsynced.iter().flatten().try_for_each(File::sync_data)
    }

    /// Whether something has yet to reach the disk.
    #[cfg(test)]
    pub(super) fn is_dirty(&self) -> bool {
        let state = self.0.lock();
        state.current.is_dirty || state.other.is_dirty
    }
}

impl State {
    /// Goes on in the other file, which is empty.
    fn change_files(&mut self) -> io::Result<()> {
        self.other.begin(self.current.generation + 1)?;
        mem::swap(&mut self.current, &mut self.other);
        self.is_other_full = true;
        Ok(())
    }

    fn empty_other(&mut self) -> io::Result<()> {
        self.fold_at = REDO_BYTES_MAX;
        self.other.empty()?;
        self.is_other_full = false;
        Ok(())
    }
}

/// The two files beside a database.
pub(super) fn paths(database: &Path) -> [PathBuf; 2] {
    ["-redo1", "-redo2"].map(|suffix| {
        let mut path = database.as_os_str().to_owned();
        path.push(suffix);
        path.into()
    })
}

impl Segment {
    fn open(path: PathBuf) -> Result<Self, OpenError> {
        let fault = |error| OpenError::Create(path.clone(), error);
        let mut options = OpenOptions::new();
        options.read(true).append(true).create(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let mut file = options.open(&path).map_err(fault)?;
        let length = file.metadata().map_err(fault)?.len();
        let mut header = Vec::new();
        Read::by_ref(&mut file).take(HEADER_BYTES).read_to_end(&mut header).map_err(fault)?;
        let generation = match redo_record::read_header(&header) {
            Header::Ours { generation } => generation,
            Header::Cut => 0,
            Header::Newer { version } => return Err(OpenError::Newer { path, version }),
            Header::Foreign => return Err(OpenError::Foreign(path)),
        };
        let mut segment = Self {
            file,
            path,
            generation,
            length,
            is_torn: false,
            is_dirty: false,
            live: HashMap::new(),
            noted: HashMap::new(),
            #[cfg(test)]
            fails_next: false,
        };
        if length < HEADER_BYTES {
            segment.begin(0).map_err(|error| OpenError::Create(segment.path.clone(), error))?;
        }
        Ok(segment)
    }

    /// The file, if it was written since it was last synced.
    fn take_unsynced(&mut self) -> io::Result<Option<File>> {
        let was_dirty = mem::take(&mut self.is_dirty);
        was_dirty.then(|| self.file.try_clone()).transpose()
    }

    /// The file, and how much of it counts.
    fn extent(&self) -> (PathBuf, u64) {
        (self.path.clone(), self.length)
    }

    /// Writes this at the end, whole or, as far as a reader is concerned, not at all.
    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        if self.is_torn {
            self.file.set_len(self.length)?;
            self.is_torn = false;
        }
        #[cfg(test)]
        if mem::take(&mut self.fails_next) {
            self.is_torn = true;
            self.file.write_all(&bytes[..bytes.len() / 2])?;
            return Err(io::ErrorKind::StorageFull.into());
        }
        self.file.write_all(bytes).inspect_err(|_| self.is_torn = true)?;
        self.is_dirty = true;
        self.length += bytes.len() as u64;
        Ok(())
    }

    /// Empties it, but for its header.
    fn empty(&mut self) -> io::Result<()> {
        self.file.set_len(HEADER_BYTES)?;
        self.length = HEADER_BYTES;
        self.is_torn = false;
        Ok(())
    }

    /// Empties it, and makes it the newest.
    fn begin(&mut self, generation: u64) -> io::Result<()> {
        self.file.set_len(0)?;
        self.length = 0;
        self.generation = generation;
        self.write(&redo_record::header(generation))
    }

    fn note_live(&mut self, lease: &Lease, turn_id: &str) {
        if self.noted.get(&lease.grant).is_some_and(|noted| noted == turn_id) {
            return;
        }
        self.noted.insert(lease.grant, turn_id.to_owned());
        let turns = self.live.entry(lease.session_id.clone()).or_default();
        if !turns.iter().any(|turn| turn == turn_id) {
            turns.push(turn_id.to_owned());
        }
    }

    fn drop_all(&mut self) {
        self.live.clear();
        self.noted.clear();
    }

    /// Returns whether there was something.
    fn drop_live(&mut self, session_id: &str, turn_id: Option<&str>) -> bool {
        let Some(turns) = self.live.get_mut(session_id) else { return false };
        let before = turns.len();
        turns.retain(|turn| turn_id.is_some_and(|turn_id| turn != turn_id));
        let was_live = turns.len() < before;
        self.noted.retain(|_, noted| turn_id.is_some_and(|turn_id| noted != turn_id));
        if turns.is_empty() {
            self.live.remove(session_id);
        }
        was_live
    }
}

fn read((path, length): (PathBuf, u64)) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(length).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// The bytes of both files.
pub(super) fn bytes(database: &Path) -> u64 {
    paths(database).iter().map(|path| fs::metadata(path).map_or(0, |file| file.len())).sum()
}

/// Whether there is something in one of them.
pub(super) fn has_records(database: &Path) -> bool {
    let lengths = paths(database).map(|path| fs::metadata(path).map_or(0, |file| file.len()));
    lengths.iter().any(|length| *length > HEADER_BYTES)
}
