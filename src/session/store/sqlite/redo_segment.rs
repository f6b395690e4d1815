//! One of the two files of [running turns](super::redo).

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{self, Read, Seek as _, SeekFrom, Write as _};
use std::mem;
use std::path::PathBuf;

use tokio::time::Instant;

use super::beside;
use super::cause::is_full;
use super::open_error::OpenError;
use super::redo_buffer::{Buffer, Left, Place};
use super::redo_record::{self, Format, HEADER_BYTES, Header};
use crate::limits::session::DISK_TRUSTED_FOR;

/// One of the two files.
#[derive(Debug)]
pub(super) struct Segment {
    file: File,
    pub(super) path: PathBuf,
    /// The later of the two has the higher one.
    pub(super) generation: u64,
    /// How many bytes of the file count.
    written: u64,
    /// What comes after them: what an earlier process has left, as long as that cannot be written ...
    left: Option<Left>,
    /// ... or else what is buffered.
    buffer: Option<Buffer>,
    /// Of its records. None is added to those of an earlier release.
    format: Format,
    /// Whether there may be more in it, which a failed write has left.
    is_torn: bool,
    /// When the disk last took something of it.
    written_at: Option<Instant>,
    /// Whether it was written since it was last synced.
    pub(super) is_dirty: bool,
    /// What the database lacks: of each session, the turns of which it does not have all. There are none if it lacks
    /// the record alone.
    live: HashMap<String, Vec<String>>,
    #[cfg(test)]
    pub(super) fails_next: bool,
}

/// The valid bytes of a file, and those that are not in it yet.
#[derive(Debug)]
pub(super) struct Snapshot {
    path: PathBuf,
    written: u64,
    unwritten: Vec<u8>,
}

impl Snapshot {
    pub(super) fn read(self) -> io::Result<Vec<u8>> {
        self.read_after(0)
    }

    /// What comes after so many bytes.
    fn read_after(self, offset: u64) -> io::Result<Vec<u8>> {
        let mut file = File::open(self.path)?;
        file.seek(SeekFrom::Start(offset))?;
        let mut bytes = Vec::new();
        file.take(self.written - offset).read_to_end(&mut bytes)?;
        bytes.extend_from_slice(&self.unwritten);
        Ok(bytes)
    }
}

impl Segment {
    pub(super) fn open(path: PathBuf) -> Result<Self, OpenError> {
        let fault = |error| OpenError::Create(path.clone(), error);
        let mut options = beside::private_options();
        let mut file = options.read(true).append(true).create(true).open(&path).map_err(fault)?;
        let written = file.metadata().map_err(fault)?.len();
        let mut header = Vec::new();
        Read::by_ref(&mut file).take(HEADER_BYTES).read_to_end(&mut header).map_err(fault)?;
        let (generation, format) = match redo_record::read_header(&header) {
            Header::Ours { generation, format } => (generation, format),
            Header::Cut => (0, Format::Ours),
            Header::Newer { version } => return Err(OpenError::Newer { path, version }),
            Header::Foreign => return Err(OpenError::Foreign(path)),
        };
        let mut segment = Self {
            file,
            path,
            generation,
            written,
            left: None,
            buffer: None,
            format,
            is_torn: false,
            written_at: None,
            is_dirty: false,
            live: HashMap::new(),
            #[cfg(test)]
            fails_next: false,
        };
        if written < HEADER_BYTES || (format == Format::Older && written == HEADER_BYTES) {
            match segment.begin(generation) {
                // It is begun once something is written: until then, the other sessions can be read.
                Err(error) if !is_full(&error) => {
                    return Err(OpenError::Create(segment.path, error));
                }
                _ => {}
            }
        }
        Ok(segment)
    }

    /// Leaves out what follows the last whole record, and cannot be read: what is added later must not come after it.
    pub(super) fn cut_damaged(&mut self) -> Result<(), OpenError> {
        let records = self.read_after(HEADER_BYTES.min(self.written))?;
        let unread = (records.len() - redo_record::whole(&records).len()) as u64;
        if unread > 0 {
            beside::keep_damaged(&self.path, unread);
            (self.written, self.is_torn) = (self.written - unread, true);
        }
        Ok(())
    }

    /// What is in the file after so many bytes.
    fn read_after(&self, offset: u64) -> Result<Vec<u8>, OpenError> {
        let file =
            Snapshot { path: self.path.clone(), written: self.written, unwritten: Vec::new() };
        file.read_after(offset).map_err(|error| OpenError::Create(self.path.clone(), error))
    }

    /// The file, if it was written since it was last synced.
    pub(super) fn take_unsynced(&mut self) -> io::Result<Option<File>> {
        let was_dirty = mem::take(&mut self.is_dirty);
        was_dirty.then(|| self.file.try_clone()).transpose()
    }

    /// Its length, with what is not in the file yet.
    pub(super) fn length(&self) -> u64 {
        let left = self.left.as_ref().map_or(0, |left| left.records.len() as u64);
        self.written + left + self.buffer.as_ref().map_or(0, Buffer::used)
    }

    /// Its valid bytes.
    pub(super) fn snapshot(&self) -> io::Result<Snapshot> {
        let mut unwritten = self.left.as_ref().map(|left| left.records.clone()).unwrap_or_default();
        if let Some(buffer) = &self.buffer {
            unwritten.extend_from_slice(&buffer.records()?);
        }
        Ok(Snapshot { path: self.path.clone(), written: self.written, unwritten })
    }

    /// Takes what an earlier process has left in its buffer, or returns it if it does not belong here.
    pub(super) fn take_left(&mut self, mut left: Left) -> Result<Option<Left>, OpenError> {
        let Place { generation, offset } = left.place;
        if generation != self.generation || offset > self.written {
            return Ok(Some(left));
        }
        // After a power cut, some of its pages may be older than others. What follows them could not be read.
        let readable = redo_record::whole(&left.records).len();
        if readable < left.records.len() {
            left.keep_damaged();
            left.records.truncate(readable);
        }
        let after = self.read_after(offset)?;
        // What follows the last whole record was never acknowledged.
        let whole = redo_record::whole(&after);
        self.is_torn = true;
        if whole.starts_with(&left.records) {
            // It was killed when it had written all of it.
            self.written = offset + whole.len() as u64;
            left.remove();
            return Ok(None);
        }
        if !left.records.starts_with(whole) {
            beside::keep_damaged(&self.path, self.written - offset);
        }
        self.written = offset;
        self.left = Some(left);
        Ok(None)
    }

    /// What is written from now on goes through this buffer, which is empty.
    pub(super) fn set_buffer(&mut self, buffer: Buffer) {
        self.buffer = Some(buffer);
        self.reset_buffer();
    }

    /// Whether there is a buffer.
    pub(super) const fn is_buffered(&self) -> bool {
        self.buffer.is_some()
    }

    /// The buffer, for another file. [Flush](Self::flush) it before that.
    pub(super) const fn take_buffer(&mut self) -> Option<Buffer> {
        self.buffer.take()
    }

    /// Writes everything to the file.
    pub(super) fn flush(&mut self) -> io::Result<()> {
        self.flush_left()?;
        if self.buffer.as_ref().is_some_and(|buffer| buffer.used() > 0) {
            self.write_now(&[])?;
        }
        Ok(())
    }

    fn flush_left(&mut self) -> io::Result<()> {
        let Some(left) = self.left.take() else { return Ok(()) };
        match self.append(&left.records) {
            Ok(()) => left.remove(),
            Err(error) => {
                self.left = Some(left);
                return Err(error);
            }
        }
        Ok(())
    }

    /// Writes this at the end, whole or, as far as a reader is concerned, not at all. It may stay in the buffer.
    pub(super) fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.prepare()?;
        if self.put(bytes) {
            return Ok(());
        }
        self.flush()?;
        if self.put(bytes) { Ok(()) } else { self.append(bytes) }
    }

    /// Writes this at the end, so that a full disk shows: to the file, unless the disk has taken something a moment ago.
    pub(super) fn write_surely(&mut self, bytes: &[u8]) -> io::Result<()> {
        if self.written_at.is_some_and(|at| at.elapsed() < DISK_TRUSTED_FOR) {
            return self.write(bytes);
        }
        self.write_now(bytes)
    }

    /// Writes this to the file, after what is in the buffer: whole or, as far as a reader is concerned, not at all.
    pub(super) fn write_now(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.prepare()?;
        let Some(mut buffer) = self.buffer.take() else { return self.append(bytes) };
        let written = buffer.write_with(bytes, |all| self.append(all));
        if let Ok(true) = written {
            buffer.reset(self.end());
        }
        self.buffer = Some(buffer);
        if !written? {
            self.flush()?;
            self.append(bytes)?;
        }
        Ok(())
    }

    /// Makes sure that records can be added.
    fn prepare(&mut self) -> io::Result<()> {
        if self.written < HEADER_BYTES {
            self.begin(self.generation)?;
        }
        if self.format == Format::Older {
            return Err(io::Error::other("what an earlier release has left there comes first"));
        }
        self.flush_left()
    }

    /// Adds a record to the buffer. False if it has no room for it.
    fn put(&mut self, record: &[u8]) -> bool {
        #[cfg(test)]
        if self.fails_next {
            return false;
        }
        self.buffer.as_mut().is_some_and(|buffer| buffer.put(record))
    }

    /// Writes this to the file. What goes to the buffer from now on, if there is one, comes after it.
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        if self.is_torn {
            self.file.set_len(self.written)?;
            self.is_torn = false;
        }
        #[cfg(test)]
        if mem::take(&mut self.fails_next) {
            self.is_torn = true;
            self.file.write_all(&bytes[..bytes.len() / 2])?;
            return Err(io::ErrorKind::StorageFull.into());
        }
        let written = self.file.write_all(bytes);
        (self.is_torn, self.written_at) = (written.is_err(), written.is_ok().then(Instant::now));
        written?;
        self.is_dirty = true;
        self.written += bytes.len() as u64;
        self.reset_buffer();
        Ok(())
    }

    /// Empties the buffer. What comes next belongs at the end of the file.
    fn reset_buffer(&mut self) {
        let end = self.end();
        self.buffer.iter_mut().for_each(|buffer| buffer.reset(end));
    }

    /// Empties it, but for its header. Nothing in it counts any more.
    pub(super) fn empty(&mut self) -> io::Result<()> {
        if self.format == Format::Older {
            return self.begin(self.generation);
        }
        if let Some(left) = self.left.take() {
            left.remove();
        }
        // First, because what is in it belongs after what is in the file.
        self.reset_buffer();
        self.file.set_len(HEADER_BYTES)?;
        (self.written, self.is_torn) = (HEADER_BYTES, false);
        self.reset_buffer();
        Ok(())
    }

    /// Empties it, and makes it the newest. Nothing is in its buffer.
    pub(super) fn begin(&mut self, generation: u64) -> io::Result<()> {
        self.file.set_len(0)?;
        (self.written, self.is_torn, self.format) = (0, false, Format::Ours);
        self.generation = generation;
        self.append(&redo_record::header(generation))
    }

    /// The end of the file.
    const fn end(&self) -> Place {
        Place { generation: self.generation, offset: self.written }
    }

    /// Removes it and its buffer, if nothing is in them.
    pub(super) fn remove(&self) {
        if self.length() <= HEADER_BYTES {
            // An empty one does no harm.
            let _ = fs::remove_file(&self.path);
        }
        self.buffer.iter().for_each(Buffer::remove);
    }

    /// The database lacks the record of this session.
    pub(super) fn note_saved(&mut self, session_id: &str) {
        self.turns_of(session_id);
    }

    /// The database lacks something of this turn.
    pub(super) fn note_turn(&mut self, session_id: &str, turn_id: &str) {
        let turns = self.turns_of(session_id);
        if !turns.iter().any(|turn| turn == turn_id) {
            turns.push(turn_id.to_owned());
        }
    }

    fn turns_of(&mut self, session_id: &str) -> &mut Vec<String> {
        self.live.entry(session_id.to_owned()).or_default()
    }

    /// Whether the database lacks something of this session, or of any.
    pub(super) fn is_live(&self, session_id: Option<&str>) -> bool {
        session_id.map_or(!self.live.is_empty(), |session_id| self.live.contains_key(session_id))
    }

    /// The database lacks nothing.
    pub(super) fn drop_all(&mut self) {
        self.live.clear();
    }

    /// The database lacks nothing of this session but what there is of other turns; without a turn, nothing.
    /// Returns whether it lacked anything.
    pub(super) fn drop_live(&mut self, session_id: &str, turn_id: Option<&str>) -> bool {
        let Some(turns) = self.live.get_mut(session_id) else { return false };
        turns.retain(|turn| turn_id.is_some_and(|turn_id| turn != turn_id));
        if turns.is_empty() {
            self.live.remove(session_id);
        }
        true
    }
}
