//! The end of a file of [running turns](super::redo), in memory that outlives the process.
//!
//! A token is a record of some 150 bytes. A `write` for each costs more than all else that storing it takes: the call
//! is short, but its kernel code and data are cold, and they evict what the next token needs. So records are copied to
//! a short file that is mapped into memory, and reach the long one many at a time. The system keeps what is in mapped
//! memory when the process ends, however it ends. The next process moves what a killed one left there into the file.
//!
//! ```text
//!   file of running turns   [ header | record | record |
//!                                                      ^ offset
//!   buffer  [ "tether buf.\n" | version u32 | generation u64 | offset u64 | used u64 | record | record |  room  ]
//!                                                                                    '----- used -----'
//! ```
//!
//! Numbers are little-endian, and the generation is that of the file. `used` is written after the records that it
//! counts, and in one piece, so there is never half of one.
//!
//! A store to a mapped page that the disk has no room for kills the process (SIGBUS). So the file has all its bytes
//! from the beginning, in blocks of its own: each process creates a new one, and only where they are overwritten in
//! place. That is so on ext4 and tmpfs, but not where blocks can be shared with a copy of the file, as on Btrfs and
//! XFS.

use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};

use bytes::Buf as _;
use mmap_io::{MappedSlice, MemoryMappedFile, MmapIoError, MmapMode};

use super::beside;
use super::open_error::OpenError;
use crate::limits::session::REDO_BUFFER_BYTES;

/// What every buffer begins with.
const MAGIC: &[u8; 12] = b"tether buf.\n";

const VERSION: u32 = 1;

/// Where the place of its records is.
const PLACE_AT: u64 = 12 + 4;

/// Where it says how many of its bytes are used.
const USED_AT: u64 = PLACE_AT + 2 * 8;

/// Bytes before its records.
pub(super) const HEADER_BYTES: usize = 12 + 4 + 3 * 8;

/// Where the records of a buffer belong.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Place {
    /// Of the file.
    pub(super) generation: u64,
    /// In the file.
    pub(super) offset: u64,
}

/// What an earlier process has left in its buffer.
#[derive(Debug)]
pub(super) struct Left {
    path: PathBuf,
    pub(super) place: Place,
    pub(super) records: Vec<u8>,
}

impl Left {
    /// Reads the buffer in this file. `None` if there is nothing in it.
    pub(super) fn read(path: PathBuf) -> Result<Option<Self>, OpenError> {
        let mut bytes = Vec::new();
        match File::open(&path) {
            Ok(file) => file.take(REDO_BUFFER_BYTES as u64).read_to_end(&mut bytes),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => Err(error),
        }
        .map_err(|error| OpenError::Create(path.clone(), error))?;
        Self::parse(path, &bytes)
    }

    /// What is in these bytes of the file.
    pub(super) fn parse(path: PathBuf, bytes: &[u8]) -> Result<Option<Self>, OpenError> {
        let mut rest = bytes;
        // A process that creates one may be killed, and a power cut may leave a file without its bytes.
        let is_begun = rest.len() >= HEADER_BYTES && rest[..HEADER_BYTES] != [0; HEADER_BYTES];
        if !is_begun
            && (header(Place::default(), 0).starts_with(rest) || rest.iter().all(|byte| *byte == 0))
        {
            return Ok(None);
        }
        if !rest.starts_with(MAGIC) {
            return Err(OpenError::Foreign(path));
        }
        if rest.len() < HEADER_BYTES {
            // It was cut.
            return Ok(None);
        }
        rest.advance(MAGIC.len());
        let version = rest.get_u32_le();
        if version != VERSION {
            let version = i32::try_from(version).unwrap_or(i32::MAX);
            return Err(OpenError::Newer { path, version });
        }
        let place = Place { generation: rest.get_u64_le(), offset: rest.get_u64_le() };
        let used = usize::try_from(rest.get_u64_le()).unwrap_or(usize::MAX);
        // A file that was cut has what is left.
        let records = rest[..used.min(rest.len())].to_vec();
        Ok(Some(Self { path, place, records }).filter(|left| !left.records.is_empty()))
    }

    /// Keeps a copy, because it belongs to no file.
    pub(super) fn keep_damaged(&self) {
        beside::keep_damaged(&self.path, self.records.len() as u64);
    }

    /// Removes the file, because its records are where they belong.
    pub(super) fn remove(&self) {
        // If it stays, they are found there.
        let _ = fs::remove_file(&self.path);
    }
}

/// See the module docs.
#[derive(Debug)]
pub(super) struct Buffer {
    path: PathBuf,
    memory: MemoryMappedFile,
    used: u64,
}

impl Buffer {
    /// Creates a buffer in this file, in place of what is there. `None` if its bytes could not be overwritten in place.
    pub(super) fn create(path: &Path) -> io::Result<Option<Self>> {
        match fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let directory = path.parent().filter(|directory| !directory.as_os_str().is_empty());
        if !overwrites_in_place(directory.unwrap_or_else(|| Path::new("."))) {
            return Ok(None);
        }
        let mut file =
            beside::private_options().read(true).write(true).create_new(true).open(path)?;
        let mut bytes = header(Place::default(), 0);
        bytes.resize(REDO_BUFFER_BYTES, 0);
        file.write_all(&bytes).inspect_err(|_| drop(fs::remove_file(path)))?;
        let mapped = MemoryMappedFile::from_file(file, MmapMode::ReadWrite, path);
        let memory = mapped.map_err(|error| match error {
            MmapIoError::Io(error) => error,
            error => io::Error::other(error),
        })?;
        Ok(Some(Self { path: path.into(), memory, used: 0 }))
    }

    /// How many bytes are in it.
    pub(super) const fn used(&self) -> u64 {
        self.used
    }

    /// Adds a record. False if there is no room for it.
    pub(super) fn put(&mut self, record: &[u8]) -> bool {
        let used = self.used + record.len() as u64;
        let is_put = self.copy_after_used(record) && self.write(USED_AT, &used.to_le_bytes());
        if is_put {
            self.used = used;
        }
        is_put
    }

    /// Calls `write` with all that is in it, and this record after that. False if there is no room for it.
    pub(super) fn write_with(
        &self,
        record: &[u8],
        write: impl FnOnce(&[u8]) -> io::Result<()>,
    ) -> io::Result<bool> {
        if !self.copy_after_used(record) {
            return Ok(false);
        }
        write(&self.slice(self.used + record.len() as u64)?)?;
        Ok(true)
    }

    /// Empties it. What comes next belongs there.
    pub(super) fn reset(&mut self, place: Place) {
        // In this order: nothing is ever in the wrong place.
        self.write(USED_AT, &0_u64.to_le_bytes());
        self.write(PLACE_AT, &place.generation.to_le_bytes());
        self.write(PLACE_AT + 8, &place.offset.to_le_bytes());
        self.used = 0;
    }

    /// What is in it.
    pub(super) fn records(&self) -> io::Result<Vec<u8>> {
        Ok(self.slice(self.used)?.to_vec())
    }

    /// Removes its file, if nothing is in it.
    pub(super) fn remove(&self) {
        if self.used == 0 {
            // An empty one does no harm.
            let _ = fs::remove_file(&self.path);
        }
    }

    fn slice(&self, bytes: u64) -> io::Result<MappedSlice<'_>> {
        self.memory.as_slice(HEADER_BYTES as u64, bytes).map_err(io::Error::other)
    }

    fn copy_after_used(&self, record: &[u8]) -> bool {
        self.write(HEADER_BYTES as u64 + self.used, record)
    }

    /// False if there is no room.
    fn write(&self, at: u64, bytes: &[u8]) -> bool {
        self.memory.update_region(at, bytes).is_ok()
    }
}

/// Of a buffer with so many bytes that belong there.
pub(super) fn header(Place { generation, offset }: Place, used: u64) -> Vec<u8> {
    let [generation, offset, used] = [generation, offset, used].map(u64::to_le_bytes);
    [&MAGIC[..], &VERSION.to_le_bytes(), &generation, &offset, &used].concat()
}

/// Whether the file system of this directory overwrites bytes of a file where they are.
#[cfg(target_os = "linux")]
fn overwrites_in_place(directory: &Path) -> bool {
    use rustix::fs::{FsWord, statfs};
    // Linux, `include/uapi/linux/magic.h`.
    const EXT4: FsWord = 0xef53;
    const TMPFS: FsWord = 0x0102_1994;
    statfs(directory).is_ok_and(|system| [EXT4, TMPFS].contains(&system.f_type))
}

#[cfg(not(target_os = "linux"))]
const fn overwrites_in_place(_directory: &Path) -> bool {
    false
}
