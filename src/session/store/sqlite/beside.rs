//! Files beside others: how they are named and opened, and copies of damaged ones, for whoever looks into them.

use std::fs::{self, OpenOptions};
use std::path::{Path, PathBuf};

use tracing::warn;

/// The path of a file whose name goes on with this.
pub(super) fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut longer = path.as_os_str().to_owned();
    longer.push(suffix);
    longer.into()
}

/// The write-ahead log of a database.
pub(super) fn log_of(database: &Path) -> PathBuf {
    with_suffix(database, "-wal")
}

/// For files that only their owner can read.
pub(super) fn private_options() -> OpenOptions {
    #[cfg_attr(not(unix), expect(unused_mut, reason = "only Unix has modes"))]
    let mut options = OpenOptions::new();
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options
}

/// The length of a file; 0 if there is none.
pub(super) fn file_bytes(path: &Path) -> u64 {
    fs::metadata(path).map_or(0, |file| file.len())
}

/// Copies a file whose last `unread` bytes cannot be read.
pub(super) fn keep_damaged(path: &Path, unread: u64) {
    let copy = with_suffix(path, ".damaged");
    let kept = match fs::copy(path, &copy) {
        Ok(_) => format!("a copy is kept as {}", copy.display()),
        Err(error) => format!("no copy could be kept: {error}"),
    };
    warn!(
        path = %path.display(),
        "the last {unread} bytes of running turns are cut or damaged, and were not read; {kept}"
    );
}
