//! What a configuration may refer to: variables and other files.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// Looks up a variable in the environment of the process or of a test.
pub type Environment<'a> = &'a dyn Fn(&str) -> Option<OsString>;

/// What a file may refer to.
#[derive(Clone, Copy)]
pub(super) struct Surroundings<'a> {
    /// The folder of the file.
    pub(super) folder: &'a Path,
    pub(super) environment: Environment<'a>,
    /// Reads another file, up to [`FILE_BYTES_MAX`](crate::limits::config::FILE_BYTES_MAX).
    pub(super) read: &'a dyn Fn(&Path) -> Result<String, String>,
}

impl Surroundings<'_> {
    /// The path of another file: absolute, in the user's home (`~/`), or beside the file.
    pub(super) fn path(&self, written: &Path) -> PathBuf {
        match (written.strip_prefix("~"), (self.environment)("HOME")) {
            (Ok(below), Some(home)) => Path::new(&home).join(below),
            _ => self.folder.join(written),
        }
    }
}
