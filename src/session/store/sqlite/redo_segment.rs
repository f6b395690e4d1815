//! One of the two files of [running turns](super::redo).

use std::collections::HashMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write as _};
use std::mem;
use std::path::PathBuf;

use foldhash::fast::RandomState;
use tracing::warn;

use super::super::Lease;
use super::cause::is_full;
use super::open_error::OpenError;
use super::redo_record::{self, Format, HEADER_BYTES, Header};

/// One of the two files.
#[derive(Debug)]
pub(super) struct Segment {
    file: File,
    pub(super) path: PathBuf,
    /// The later of the two has the higher one.
    pub(super) generation: u64,
    /// How many bytes of it count.
    pub(super) length: u64,
    /// Of its records. None is added to those of an earlier release.
    format: Format,
    /// Whether there may be more in it, which a failed write has left.
    is_torn: bool,
    /// Whether it was written since it was last synced.
    pub(super) is_dirty: bool,
    /// What the database lacks, by session.
    live: HashMap<String, Live>,
    /// Of this, the turn that was last noted under each grant: most appends are of one that is.
    noted: HashMap<u64, String, RandomState>,
    #[cfg(test)]
    pub(super) fails_next: bool,
}

/// What the database lacks of a session.
#[derive(Debug, Default)]
struct Live {
    /// The turns of which it does not have all. There are none if it lacks the record alone.
    turns: Vec<String>,
    /// The last lease under which one was written.
    grant: u64,
}

impl Segment {
    pub(super) fn open(path: PathBuf) -> Result<Self, OpenError> {
        let fault = |error| OpenError::Create(path.clone(), error);
        let mut options = OpenOptions::new();
        options.read(true).append(true).create(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let mut file = options.open(&path).map_err(fault)?;
        let length = file.metadata().map_err(fault)?.len();
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
            length,
            format,
            is_torn: false,
            is_dirty: false,
            live: HashMap::new(),
            noted: HashMap::default(),
            #[cfg(test)]
            fails_next: false,
        };
        if length < HEADER_BYTES || (format == Format::Older && length == HEADER_BYTES) {
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

    /// Keeps a copy of a file whose end is cut or damaged: it is about to be emptied.
    pub(super) fn keep_damaged(&self, unread: usize) {
        let mut copy = self.path.as_os_str().to_owned();
        copy.push(".damaged");
        let copy = PathBuf::from(copy);
        let kept = match fs::copy(&self.path, &copy) {
            Ok(_) => format!("a copy is kept as {}", copy.display()),
            Err(error) => format!("no copy could be kept: {error}"),
        };
        warn!(
            path = %self.path.display(),
            "the last {unread} bytes of running turns are cut or damaged, and were not read; {kept}"
        );
    }

    /// The file, if it was written since it was last synced.
    pub(super) fn take_unsynced(&mut self) -> io::Result<Option<File>> {
        let was_dirty = mem::take(&mut self.is_dirty);
        was_dirty.then(|| self.file.try_clone()).transpose()
    }

    /// The file, and how much of it counts.
    pub(super) fn extent(&self) -> (PathBuf, u64) {
        (self.path.clone(), self.length)
    }

    /// Writes this at the end, whole or, as far as a reader is concerned, not at all.
    pub(super) fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        if self.length < HEADER_BYTES {
            self.begin(self.generation)?;
        }
        if self.format == Format::Older {
            return Err(io::Error::other("what an earlier release has left there comes first"));
        }
        self.append(bytes)
    }

    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
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
    pub(super) fn empty(&mut self) -> io::Result<()> {
        if self.format == Format::Older {
            return self.begin(self.generation);
        }
        self.file.set_len(HEADER_BYTES)?;
        self.length = HEADER_BYTES;
        self.is_torn = false;
        Ok(())
    }

    /// Empties it, and makes it the newest.
    pub(super) fn begin(&mut self, generation: u64) -> io::Result<()> {
        self.file.set_len(0)?;
        (self.length, self.is_torn, self.format) = (0, false, Format::Ours);
        self.generation = generation;
        self.append(&redo_record::header(generation))
    }

    /// The database lacks the record of this session.
    pub(super) fn note_saved(&mut self, session_id: &str) {
        if !self.live.contains_key(session_id) {
            self.live.insert(session_id.to_owned(), Live::default());
        }
    }

    /// The database lacks something of this turn.
    pub(super) fn note_turn(&mut self, lease: &Lease, turn_id: &str) {
        if self.noted.get(&lease.grant).is_some_and(|noted| noted == turn_id) {
            return;
        }
        let live = self.live.entry(lease.session_id.clone()).or_default();
        if live.grant != lease.grant {
            self.noted.remove(&live.grant);
            live.grant = lease.grant;
        }
        self.noted.insert(lease.grant, turn_id.to_owned());
        if !live.turns.iter().any(|turn| turn == turn_id) {
            live.turns.push(turn_id.to_owned());
        }
    }

    /// Whether the database lacks something of this session, or of any.
    pub(super) fn is_live(&self, session_id: Option<&str>) -> bool {
        session_id.map_or(!self.live.is_empty(), |session_id| self.live.contains_key(session_id))
    }

    /// The database lacks nothing.
    pub(super) fn drop_all(&mut self) {
        self.live.clear();
        self.noted.clear();
    }

    /// The database lacks nothing of this session but what there is of other turns; without a turn, nothing.
    /// Returns whether it lacked anything.
    pub(super) fn drop_live(&mut self, session_id: &str, turn_id: Option<&str>) -> bool {
        let Some(live) = self.live.get_mut(session_id) else { return false };
        self.noted.remove(&live.grant);
        live.turns.retain(|turn| turn_id.is_some_and(|turn_id| turn != turn_id));
        if live.turns.is_empty() {
            self.live.remove(session_id);
        }
        true
    }
}
