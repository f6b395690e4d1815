//! Removes a program's directory, whatever the program made of it.

use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::Path;

use rustix::process::geteuid;

/// What an owner needs to list a directory and to remove what is in it.
const OWNER_MAY_ALL: u32 = 0o700;

/// Removes a directory with all that is in it, including directories that their owner, who is not
/// root, could not enter. **Call it when the program is gone**, so that nothing in it changes.
pub(super) fn remove(directory: &Path) -> io::Result<()> {
    fs::remove_dir_all(directory).or_else(|_| {
        open_up(directory);
        fs::remove_dir_all(directory)
    })
}

/// Gives us access to a directory and to those below it, as far as they are ours. Links are not
/// followed: they may lead anywhere. What fails will fail again when it is removed.
fn open_up(directory: &Path) {
    let mut found = vec![directory.to_owned()];
    while let Some(path) = found.pop() {
        let Ok(metadata) = path.symlink_metadata() else { continue };
        if !metadata.is_dir() || metadata.uid() != geteuid().as_raw() {
            continue;
        }
        let mode = metadata.mode();
        if mode & OWNER_MAY_ALL != OWNER_MAY_ALL {
            let _ = fs::set_permissions(&path, Permissions::from_mode(mode | OWNER_MAY_ALL));
        }
        let entries = fs::read_dir(&path).into_iter().flatten().flatten();
        let is_directory = |entry: &fs::DirEntry| entry.file_type().is_ok_and(|kind| kind.is_dir());
        found.extend(entries.filter(is_directory).map(|entry| entry.path()));
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn close(directory: &Path, mode: u32) {
        fs::set_permissions(directory, Permissions::from_mode(mode)).unwrap();
    }

    fn mode(path: &Path) -> u32 {
        path.metadata().unwrap().mode() & 0o777
    }

    /// `a` and `a/b`, which their owner cannot enter, and a link out of them to `outside`.
    fn closed() -> (tempfile::TempDir, tempfile::TempDir) {
        let (directory, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let inner = directory.path().join("a/b");
        fs::create_dir_all(&inner).unwrap();
        fs::write(inner.join("file"), "").unwrap();
        symlink(outside.path(), directory.path().join("a/link")).unwrap();
        close(outside.path(), 0o500);
        close(&inner, 0);
        close(&directory.path().join("a"), 0o50);
        (directory, outside)
    }

    #[test]
    fn directories_are_opened_up_and_what_links_lead_to_is_not() {
        let (directory, outside) = closed();
        open_up(directory.path());
        assert_eq!(mode(&directory.path().join("a")), 0o750);
        assert_eq!(mode(&directory.path().join("a/b")), 0o700);
        assert_eq!(mode(outside.path()), 0o500);
    }

    #[test]
    fn what_its_owner_could_not_enter_is_removed() {
        let (directory, outside) = closed();
        remove(directory.path()).unwrap();
        assert!(!directory.path().exists() && outside.path().exists());
    }
}
