//! Why a file of sessions cannot be used.

use std::fs::{self, FileType};
use std::io;
use std::path::{Path, PathBuf};

use rusqlite::ErrorCode;

/// Why a file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Another process uses it.
    #[error("{} is in use by another process; a file of sessions serves one gateway", .0.display())]
    InUse(PathBuf),
    /// A later release has written it.
    #[error(
        "{} has format {version}, which this release cannot read; use a newer Tether",
        .path.display()
    )]
    Newer {
        /// The file.
        path: PathBuf,
        /// Its format.
        version: i32,
    },
    /// It is a file of another program.
    #[error("{} is not a file of sessions", .0.display())]
    Foreign(PathBuf),
    /// It is a folder, a pipe, a socket or a device.
    #[error("{} is {what}, not a file; name a file that can hold sessions", .path.display())]
    NotAFile {
        /// Where it is.
        path: PathBuf,
        /// What it is.
        what: &'static str,
    },
    /// It would be in something that is not a folder.
    #[error(
        "{} is {what}, not a folder; name a folder with --state, or a file in a folder with \
         `sessions.embedded.path`",
        .path.display()
    )]
    NotAFolder {
        /// What should be a folder.
        path: PathBuf,
        /// What it is.
        what: &'static str,
    },
    /// It was cut, or something has overwritten a part of it.
    #[error(
        "{} is damaged ({what}); it was left as it is: restore a copy of it and of the files beside \
         it, or move them away to begin with an empty one",
        .path.display()
    )]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What shows it.
        what: String,
    },
    /// It, or its folder, is read-only.
    #[error(
        "{} cannot be written ({what}): the user of this process needs write access to the file and \
         its folder",
        .path.display()
    )]
    ReadOnly {
        /// The file.
        path: PathBuf,
        /// What the system says.
        what: String,
    },
    /// It cannot be opened, read or written.
    #[error("{}: {error}", .path.display())]
    Sqlite {
        /// The file.
        path: PathBuf,
        /// Why not.
        error: rusqlite::Error,
    },
    /// It cannot be created, or its folder.
    #[error(
        "cannot open or create {}: {}; the user of this process needs write access there, or --state and \
         `sessions.embedded.path` another place",
        .0.display(), .1
    )]
    Create(PathBuf, io::Error),
    /// What running turns have left beside it cannot be moved into it.
    #[error("{}: what running turns have left beside it cannot be moved into it: {}", .0.display(), .1)]
    Unfolded(PathBuf, String),
    /// The store's thread cannot be started.
    #[error("no thread for the session store: {0}")]
    Thread(io::Error),
}

impl OpenError {
    pub(super) fn of(path: &Path, error: rusqlite::Error) -> Self {
        let path = path.into();
        match error.sqlite_error_code() {
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => Self::InUse(path),
            Some(ErrorCode::NotADatabase) => Self::Foreign(path),
            Some(ErrorCode::DatabaseCorrupt) => Self::Damaged { path, what: error.to_string() },
            Some(ErrorCode::ReadOnly | ErrorCode::CannotOpen | ErrorCode::PermissionDenied) => {
                Self::ReadOnly { path, what: error.to_string() }
            }
            _ => Self::Sqlite { path, error },
        }
    }

    /// Whether the configured path is not a file of sessions, or not one that this release can read. Trying again would
    /// not help.
    pub(crate) const fn is_wrong_file(&self) -> bool {
        match self {
            Self::Newer { .. }
            | Self::Foreign(_)
            | Self::NotAFile { .. }
            | Self::NotAFolder { .. }
            | Self::Damaged { .. } => true,
            Self::InUse(_)
            | Self::ReadOnly { .. }
            | Self::Sqlite { .. }
            | Self::Create(..)
            | Self::Unfolded(..)
            | Self::Thread(_) => false,
        }
    }

    /// Refuses whatever is at this path, unless it is a file or nothing, and what should be its folder, unless it is
    /// one or nothing. Opening a pipe would wait for its other end.
    pub(super) fn check_is_file(path: &Path) -> Result<(), Self> {
        if let Ok(found) = fs::metadata(path) {
            return match non_file(found.file_type()) {
                None => Ok(()),
                Some(what) => Err(Self::NotAFile { path: path.into(), what }),
            };
        }
        let folder = path.ancestors().skip(1).find_map(|it| Some((it, fs::metadata(it).ok()?)));
        match folder {
            Some((path, found)) if !found.is_dir() => {
                let what = non_file(found.file_type()).unwrap_or("a file");
                Err(Self::NotAFolder { path: path.into(), what })
            }
            _ => Ok(()),
        }
    }
}

/// What this is, in words; `None` if it is a file.
fn non_file(found: FileType) -> Option<&'static str> {
    #[cfg(unix)]
    {
        use std::os::unix::fs::FileTypeExt as _;
        if found.is_fifo() {
            return Some("a named pipe");
        }
        if found.is_socket() {
            return Some("a socket");
        }
    }
    match (found.is_file(), found.is_dir()) {
        (true, _) => None,
        (false, true) => Some("a folder"),
        (false, false) => Some("a device"),
    }
}
