//! Files beside others: their names, and copies of damaged ones, for whoever looks into them.

use std::fs;
use std::path::{Path, PathBuf};

use tracing::warn;

/// The path of a file whose name goes on with this.
pub(super) fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut longer = path.as_os_str().to_owned();
    longer.push(suffix);
    longer.into()
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
