//! What is wrong with the file, in words that say where to look.

use std::io::{self, ErrorKind};

use rusqlite::ErrorCode;

use super::StoreError;

/// Why the file could not be used, unless the caller was refused.
pub(super) fn failure_of<T>(result: &Result<T, StoreError>) -> Option<StoreError> {
    let is_failure = |error: &&StoreError| matches!(error, StoreError::Unavailable(_));
    result.as_ref().err().filter(is_failure).cloned()
}

#[expect(clippy::needless_pass_by_value, reason = "it is what `map_err` passes")]
pub(super) fn unavailable(error: rusqlite::Error) -> StoreError {
    StoreError::Unavailable(cause(&error))
}

/// What is wrong, in words that say where to look. The code tells apart what `SQLite` words alike.
fn cause(error: &rusqlite::Error) -> String {
    let Some(failure) = error.sqlite_error() else { return error.to_string() };
    let what = match failure.code {
        ErrorCode::DiskFull => "the disk is full",
        ErrorCode::SystemIoFailure => "the disk cannot be read or written, or is full",
        ErrorCode::ReadOnly => "the file cannot be written",
        ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase => "the file is damaged",
        _ => return error.to_string(),
    };
    format!("{what} ({error}, SQLite code {})", failure.extended_code)
}

/// The same for a file beside the database.
pub(super) fn unavailable_beside(error: &io::Error) -> StoreError {
    let what = match error.kind() {
        _ if is_full(error) => "the disk is full",
        ErrorKind::NotFound => "a file is missing",
        _ => "the file beside it cannot be read or written",
    };
    StoreError::Unavailable(format!("{what} ({error})"))
}

/// Whether the disk, a quota or a limit on the length of files left no room.
pub(super) fn is_full(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::FileTooLarge
    )
}

pub(super) fn stopped() -> StoreError {
    StoreError::Unavailable("it has stopped".to_owned())
}
