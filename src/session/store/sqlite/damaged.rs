//! Files that are cut or damaged. Somebody may want to look.

use std::fs;
use std::path::{Path, PathBuf};

use tracing::warn;

/// Keeps a copy of a file of which so many bytes are not read.
pub(super) fn keep(path: &Path, unread: u64) {
    let mut copy = path.as_os_str().to_owned();
    copy.push(".damaged");
    let copy = PathBuf::from(copy);
    let kept = match fs::copy(path, &copy) {
        Ok(_) => format!("a copy is kept as {}", copy.display()),
        Err(error) => format!("no copy could be kept: {error}"),
    };
    warn!(
        path = %path.display(),
        "the last {unread} bytes of running turns are cut or damaged, and were not read; {kept}"
    );
}
