//! The end of a file of [running turns](super::redo), in memory that outlives the process.
//!
//! A token is a record of some 200 bytes. A `write` for each costs more than all else that storing it takes: it is short,
//! but what it goes through in the kernel is not in the processor's caches when it comes, and has left it without what
//! the next token needs. So records are copied to a short file that is mapped into memory, and reach the long one many
//! at a time. The system keeps what is in mapped memory when the process ends, however it ends. What a killed process
//! has left there, the next one puts where it belongs.
//!
//! ```text
//!   file of running turns   [ header | record | record |
//!                                                      ^ offset
//!   buffer   [ "tether buf.\n" | version u32 | generation u64 | offset u64 | used u64 | record | record |  room  ]
//!                                                                                     '----- used -----'
//! ```
//!
//! Numbers are little-endian. `used` is written after the records that it counts, so there is never half of one. The
//! generation is that of the file.
//!
//! To write to mapped memory for which the disk has no room ends the process with a signal. So the file has all its
//! bytes from the beginning, and there is a buffer only where they stay in their place when they are overwritten: on
//! ext4, XFS and tmpfs.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

use bytes::Buf as _;
use mmap_io::{MappedSlice, MemoryMappedFile, MmapIoError, MmapMode};
use tracing::debug;

use super::damaged;
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
const HEADER_BYTES: usize = 12 + 4 + 3 * 8;

/// Where the records of a buffer belong.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Place {
    /// Of the file.
    pub(super) generation: u64,
    /// In the file.
    pub(super) offset: u64,
}

/// See the module docs.
#[derive(Debug)]
pub(super) struct Buffer {
    path: PathBuf,
    memory: Memory,
    place: Place,
    used: u64,
}

#[derive(Debug)]
enum Memory {
    Mapped(MemoryMappedFile),
    /// What another process has left there, where no buffer is wanted.
    Left(Vec<u8>),
}

impl Buffer {
    /// Opens the buffer in this file, or creates one. If none `is_wanted`, or there can be none, it is one to which
    /// nothing is added, or `None` if there is nothing in it.
    pub(super) fn open(path: PathBuf, is_wanted: bool) -> Result<Option<Self>, OpenError> {
        let left = match fs::read(&path) {
            Ok(bytes) => Contents::of(&bytes, &path)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(OpenError::Create(path, error)),
        };
        let Contents { place, records } = left.unwrap_or_default();
        let used = records.len() as u64;
        let mapped = if is_wanted { map(&path, used > 0) } else { Ok(None) };
        let memory = match mapped.unwrap_or_else(|error| {
            debug!(path = %path.display(), %error, "turns are written without a buffer");
            None
        }) {
            Some(memory) => Memory::Mapped(memory),
            None if records.is_empty() => return Ok(None),
            None => Memory::Left(records),
        };
        Ok(Some(Self { path, memory, place, used }))
    }

    pub(super) const fn place(&self) -> Place {
        self.place
    }

    /// How many bytes are in it.
    pub(super) const fn used(&self) -> u64 {
        self.used
    }

    /// Whether something can be added once it is empty.
    pub(super) const fn is_reusable(&self) -> bool {
        matches!(self.memory, Memory::Mapped(_))
    }

    /// Adds a record. False if there is no room for it.
    pub(super) fn put(&mut self, record: &[u8]) -> bool {
        let used = self.used + record.len() as u64;
        let is_put = self.put_unused(record) && self.write(USED_AT, &used.to_le_bytes());
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
        if !record.is_empty() && !self.put_unused(record) {
            return Ok(false);
        }
        let bytes = self.used + record.len() as u64;
        match &self.memory {
            Memory::Mapped(memory) => write(&slice(memory, bytes)?)?,
            Memory::Left(records) => write(records)?,
        }
        Ok(true)
    }

    /// Empties it. What comes next belongs there.
    pub(super) fn reset(&mut self, place: Place) {
        if let Memory::Left(records) = &mut self.memory {
            records.clear();
            // If it stays, what is in it is found to be in its place already.
            let _ = fs::remove_file(&self.path);
        }
        // In this order: nothing is ever in the wrong place.
        self.write(USED_AT, &0_u64.to_le_bytes());
        let mut bytes = place.generation.to_le_bytes().to_vec();
        bytes.extend_from_slice(&place.offset.to_le_bytes());
        self.write(PLACE_AT, &bytes);
        (self.place, self.used) = (place, 0);
    }

    /// What is in it.
    pub(super) fn records(&self) -> io::Result<Vec<u8>> {
        match &self.memory {
            Memory::Mapped(memory) => Ok(slice(memory, self.used)?.to_vec()),
            Memory::Left(records) => Ok(records.clone()),
        }
    }

    /// Empties it, and keeps a copy, because nobody knows where its records belong.
    pub(super) fn keep_damaged(&mut self) {
        damaged::keep(&self.path, self.used);
        self.reset(self.place);
    }

    /// Removes its file, if nothing is in it.
    pub(super) fn remove(&self) {
        if self.used == 0 {
            // An empty one does no harm.
            let _ = fs::remove_file(&self.path);
        }
    }

    /// Writes a record after those that count.
    fn put_unused(&self, record: &[u8]) -> bool {
        self.write(HEADER_BYTES as u64 + self.used, record)
    }

    /// False if there is no room.
    fn write(&self, at: u64, bytes: &[u8]) -> bool {
        match &self.memory {
            Memory::Mapped(memory) => memory.update_region(at, bytes).is_ok(),
            Memory::Left(_) => false,
        }
    }
}

fn slice(memory: &MemoryMappedFile, used: u64) -> io::Result<MappedSlice<'_>> {
    memory.as_slice(HEADER_BYTES as u64, used).map_err(io::Error::other)
}

/// What is in a buffer.
#[derive(Debug, Default, PartialEq, Eq)]
struct Contents {
    place: Place,
    records: Vec<u8>,
}

impl Contents {
    /// `None` if the file was only just created.
    fn of(bytes: &[u8], path: &Path) -> Result<Option<Self>, OpenError> {
        let Some((header, rest)) = bytes.split_first_chunk::<HEADER_BYTES>() else {
            return Ok(None);
        };
        let (mut header, mut magic) = (&header[..], [0; MAGIC.len()]);
        header.copy_to_slice(&mut magic);
        match (&magic, header.get_u32_le()) {
            // The magic is written last.
            ([0, ..], _) => return Ok(None),
            (MAGIC, VERSION) => {}
            (MAGIC, version) => {
                let version = i32::try_from(version).unwrap_or(i32::MAX);
                return Err(OpenError::Newer { path: path.into(), version });
            }
            _ => return Err(OpenError::Foreign(path.into())),
        }
        let place = Place { generation: header.get_u64_le(), offset: header.get_u64_le() };
        let used = usize::try_from(header.get_u64_le()).unwrap_or(usize::MAX);
        // A file that was cut has what is left.
        let records = rest[..used.min(rest.len())].to_vec();
        Ok(Some(Self { place, records }))
    }
}

/// Maps the file, and writes an empty buffer to it unless it `has_records`. `None` if its bytes might not stay in their
/// place.
fn map(path: &Path, has_records: bool) -> io::Result<Option<MemoryMappedFile>> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options.open(path)?;
    if !stays_in_place(&file) {
        return Ok(None);
    }
    if !has_records {
        begin(&mut file).inspect_err(|_| drop(fs::remove_file(path)))?;
    }
    let mapped = MemoryMappedFile::from_file(file, MmapMode::ReadWrite, path);
    mapped.map(Some).map_err(|error| match error {
        MmapIoError::Io(error) => error,
        error => io::Error::other(error),
    })
}

/// Writes an empty buffer.
fn begin(file: &mut File) -> io::Result<()> {
    use std::io::{Seek as _, SeekFrom, Write as _};
    file.set_len(0)?;
    file.write_all(&vec![0; REDO_BUFFER_BYTES])?;
    file.seek(SeekFrom::Start(MAGIC.len() as u64))?;
    file.write_all(&VERSION.to_le_bytes())?;
    file.rewind()?;
    file.write_all(MAGIC)
}

/// Whether the file system overwrites bytes of the file where they are.
#[cfg(target_os = "linux")]
fn stays_in_place(file: &File) -> bool {
    use rustix::fs::{FsWord, fstatfs};
    // Linux, `include/uapi/linux/magic.h`.
    const EXT4: FsWord = 0xef53;
    const XFS: FsWord = 0x5846_5342;
    const TMPFS: FsWord = 0x0102_1994;
    fstatfs(file).is_ok_and(|system| [EXT4, XFS, TMPFS].contains(&system.f_type))
}

#[cfg(not(target_os = "linux"))]
const fn stays_in_place(_file: &File) -> bool {
    false
}
