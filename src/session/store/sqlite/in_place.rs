//! Notices that files are moved or deleted while they are in use. Writing to them still works then, but the next
//! process would not find what was written.

use std::fs::{self, Metadata};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use parking_lot::Mutex;
use tokio::time::Instant;

use crate::limits::session::FILES_CHECK_INTERVAL;

/// Files that must stay where they are.
#[derive(Debug)]
pub(super) struct InPlace {
    files: Vec<(PathBuf, FileId)>,
    checked_at: Mutex<Instant>,
}

/// What another file at the same path does not share.
type FileId = (u64, u64);

impl InPlace {
    /// Those of these files that are there.
    pub(super) fn of(paths: impl Iterator<Item = PathBuf>) -> Self {
        let found = paths.filter_map(|path| {
            let id = fs::metadata(&path).as_ref().map(id).ok()?;
            Some((path, id))
        });
        Self { files: found.collect(), checked_at: Mutex::new(Instant::now()) }
    }

    /// Checks at most once per [interval](FILES_CHECK_INTERVAL) while all is well, and each time after a failure.
    ///
    /// # Errors
    /// One of the files is missing, or another is in its place.
    pub(super) fn check(&self) -> io::Result<()> {
        let mut checked_at = self.checked_at.lock();
        let now = Instant::now();
        if now - *checked_at < FILES_CHECK_INTERVAL {
            return Ok(());
        }
        self.check_now()?;
        *checked_at = now;
        Ok(())
    }

    /// The same at once.
    pub(super) fn check_now(&self) -> io::Result<()> {
        for (path, its_id) in &self.files {
            if !fs::metadata(path).is_ok_and(|found| id(&found) == *its_id) {
                return Err(missing(path));
            }
        }
        Ok(())
    }
}

fn missing(path: &Path) -> io::Error {
    let what = format!(
        "{} was moved, replaced or deleted while in use; move it back, or restart Tether to use what is \
         there now",
        path.display()
    );
    io::Error::new(ErrorKind::NotFound, what)
}

#[cfg(unix)]
fn id(file: &Metadata) -> FileId {
    use std::os::unix::fs::MetadataExt as _;
    (file.dev(), file.ino())
}

/// Only Unix has inodes here: a file that was replaced is not noticed.
#[cfg(not(unix))]
fn id(_file: &Metadata) -> FileId {
    (0, 0)
}
