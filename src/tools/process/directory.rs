//! A directory that is made for a program, and removed whatever the program made of it.

use std::ffi::CStr;
use std::fs;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{
    AtFlags, CWD, Dir, FileType, Mode, OFlags, chmodat, openat, renameat, statat, unlinkat,
};
use rustix::path::Arg;
use rustix::process::geteuid;
use tempfile::TempDir;
use tokio::time::Instant;
use tracing::warn;

use crate::limits::process::REMOVAL_WAIT;

const PREFIX: &str = "tether-";

/// A fresh directory. Dropping it removes it as [`remove`] does, which blocks.
#[derive(Debug)]
pub(super) struct Fresh(PathBuf);

impl Fresh {
    /// A directory among the system's temporary ones.
    ///
    /// # Errors
    /// If it cannot be made, or if its path is not UTF-8: the launcher and the guard get it in JSON.
    pub(super) fn new() -> io::Result<Self> {
        Self::of(TempDir::with_prefix(PREFIX)?)
    }

    fn of(directory: TempDir) -> io::Result<Self> {
        if directory.path().to_str().is_none() {
            let path = directory.path().display();
            return Err(io::Error::other(format!("its path is not UTF-8 (`TMPDIR`): {path}")));
        }
        // A `TempDir` would remove it by recursion.
        Ok(Self(directory.keep()))
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Fresh {
    fn drop(&mut self) {
        if let Err(error) = remove(&self.0) {
            warn!(%error, directory = %self.0.display(), "a program's directory was not removed");
        }
    }
}

/// Removes a directory with all that is in it, including directories that their owner, who is not
/// root, could not enter. **Call it when the program is gone**, so that nothing in it changes.
///
/// # Errors
/// If something stays. All that could be removed is gone.
pub(super) fn remove(directory: &Path) -> io::Result<()> {
    let emptied = Emptying::of(directory).and_then(Emptying::run);
    match fs::remove_dir(directory) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(emptied.err().unwrap_or(error))
        }
        _ => Ok(()),
    }
}

/// Empties a directory, however deep it is, without recursion and with two open files. Each round
/// removes the directories in `top`, after moving those in them up:
///
/// ```text
///   top/a/b/c  ──>  top/0/c  ──>  top/1  ──>  top
///                   (was b)       (was c)
/// ```
/// Links are not followed: they may lead anywhere.
struct Emptying {
    top: Dir,
    /// The number that is the name of the next directory to move up. A name that is taken is not
    /// a problem: the next round removes what has it.
    next: u64,
    begin: Instant,
    /// Whether something has changed in this round.
    has_progressed: bool,
    /// The last error of this round.
    error: Option<io::Error>,
}

impl Emptying {
    fn of(directory: &Path) -> io::Result<Self> {
        open_up(CWD, directory)?;
        let top = Dir::new(open(CWD, directory)?)?;
        Ok(Self { top, next: 0, begin: Instant::now(), has_progressed: false, error: None })
    }

    /// Repeats until nothing is left or nothing changes. Room that a round makes on a full disk is
    /// what the next one may need to move directories.
    fn run(mut self) -> io::Result<()> {
        loop {
            self.has_progressed = false;
            self.error = None;
            self.round()?;
            if !self.has_progressed {
                return self.error.map_or(Ok(()), Err);
            }
        }
    }

    fn round(&mut self) -> io::Result<()> {
        self.top.rewind();
        while let Some(entry) = self.top.read() {
            let entry = entry?;
            let name = entry.file_name();
            if is_self_or_parent(name) {
                continue;
            }
            if is_directory(self.top.fd()?, name, entry.file_type()) {
                let emptied = self.move_up_from(name);
                self.note(emptied)?;
                let removed = unlinkat(self.top.fd()?, name, AtFlags::REMOVEDIR);
                self.note(removed.map_err(Into::into))?;
            } else {
                let removed = unlinkat(self.top.fd()?, name, AtFlags::empty());
                self.note(removed.map_err(Into::into))?;
            }
        }
        Ok(())
    }

    /// Removes the files in a directory in `top`, and moves the directories in it up to `top`.
    fn move_up_from(&mut self, name: &CStr) -> io::Result<()> {
        open_up(self.top.fd()?, name)?;
        let mut directory = Dir::new(open(self.top.fd()?, name)?)?;
        while let Some(entry) = directory.read() {
            let entry = entry?;
            let name = entry.file_name();
            if is_self_or_parent(name) {
                continue;
            }
            let removed = if is_directory(directory.fd()?, name, entry.file_type()) {
                // Its own `..` changes, which needs write access to it.
                open_up(directory.fd()?, name)?;
                let up = self.next.to_string();
                self.next += 1;
                renameat(directory.fd()?, name, self.top.fd()?, up)
            } else {
                unlinkat(directory.fd()?, name, AtFlags::empty())
            };
            self.note(removed.map_err(Into::into))?;
        }
        Ok(())
    }

    /// Notes how a step went. An error if something that still runs fills the directory as fast as
    /// it is emptied.
    fn note(&mut self, step: io::Result<()>) -> io::Result<()> {
        match step {
            Ok(()) => self.has_progressed = true,
            Err(error) => self.error = Some(error),
        }
        if self.begin.elapsed() > REMOVAL_WAIT {
            return Err(io::ErrorKind::TimedOut.into());
        }
        Ok(())
    }
}

fn open(parent: BorrowedFd<'_>, name: impl Arg) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(openat(parent, name, flags, Mode::empty())?)
}

/// Gives us access to a directory if it is ours. What fails will fail again when it is opened.
fn open_up(parent: BorrowedFd<'_>, name: impl Arg + Copy) -> io::Result<()> {
    let found = statat(parent, name, AtFlags::SYMLINK_NOFOLLOW)?;
    let (kind, mode) = (FileType::from_raw_mode(found.st_mode), Mode::from_raw_mode(found.st_mode));
    let is_ours = kind == FileType::Directory && found.st_uid == geteuid().as_raw();
    if is_ours && !mode.contains(Mode::RWXU) {
        let _ = chmodat(parent, name, mode | Mode::RWXU, AtFlags::empty());
    }
    Ok(())
}

fn is_self_or_parent(name: &CStr) -> bool {
    matches!(name.to_bytes(), b"." | b"..")
}

/// Whether an entry is a directory. Not all file systems say it with the name.
fn is_directory(parent: BorrowedFd<'_>, name: &CStr, kind: FileType) -> bool {
    let look = || Some(statat(parent, name, AtFlags::SYMLINK_NOFOLLOW).ok()?.st_mode);
    let kind = match kind {
        FileType::Unknown => look().map_or(kind, FileType::from_raw_mode),
        kind => kind,
    };
    kind == FileType::Directory
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;
    use std::fs::Permissions;
    use std::os::fd::AsFd as _;
    use std::os::unix::ffi::OsStrExt as _;
    use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};

    use rustix::fs::mkdirat;

    use super::*;

    fn close(directory: &Path, mode: u32) {
        fs::set_permissions(directory, Permissions::from_mode(mode)).unwrap();
    }

    fn mode(path: &Path) -> u32 {
        path.metadata().unwrap().mode() & 0o777
    }

    #[test]
    fn what_its_owner_could_not_enter_is_removed_and_what_links_lead_to_is_not() {
        let (fresh, outside) = (Fresh::new().unwrap(), tempfile::tempdir().unwrap());
        let (a, b) = (fresh.path().join("a"), fresh.path().join("a/b"));
        fs::create_dir_all(b.join("c")).unwrap();
        fs::write(b.join("file"), "").unwrap();
        fs::write(outside.path().join("kept"), "").unwrap();
        symlink(outside.path(), a.join("link")).unwrap();
        symlink(outside.path(), b.join("c/link")).unwrap();
        close(outside.path(), 0o500);
        for closed in [&b.join("c"), &b, &a, fresh.path()] {
            close(closed, 0);
        }
        let path = fresh.path().to_owned();
        drop(fresh);
        assert!(!path.exists() && outside.path().join("kept").exists());
        assert_eq!(mode(outside.path()), 0o500);
    }

    /// Too deep for a path, for recursion on this stack, and for an open file on each level.
    #[test]
    fn a_directory_of_thousands_of_levels_is_removed() {
        let fresh = Fresh::new().unwrap();
        let path = fresh.path().to_owned();
        let mut at = open(CWD, fresh.path()).unwrap();
        for _ in 0..5000 {
            mkdirat(&at, "0", Mode::RWXU).unwrap();
            mkdirat(&at, "1", Mode::RWXU).unwrap();
            at = open(at.as_fd(), "0").unwrap();
        }
        let small = std::thread::Builder::new().stack_size(128 * 1024);
        small.spawn(|| drop(fresh)).unwrap().join().unwrap();
        assert!(!path.exists());
    }

    #[test]
    fn names_that_are_taken_stop_nothing() {
        let fresh = Fresh::new().unwrap();
        fs::create_dir_all(fresh.path().join("a/x/y")).unwrap();
        fs::create_dir_all(fresh.path().join("a/z")).unwrap();
        fs::create_dir_all(fresh.path().join("0/full/1")).unwrap();
        fs::write(fresh.path().join("1"), "").unwrap();
        remove(fresh.path()).unwrap();
        assert!(!fresh.path().exists());
    }

    #[test]
    fn a_path_that_is_not_utf_8_is_an_error_and_leaves_nothing() {
        let outer = tempfile::tempdir().unwrap();
        let odd = outer.path().join(OsStr::from_bytes(b"\xff"));
        fs::create_dir(&odd).unwrap();
        let error = Fresh::of(TempDir::new_in(&odd).unwrap()).unwrap_err().to_string();
        assert!(error.contains("not UTF-8 (`TMPDIR`)"), "{error}");
        assert_eq!(fs::read_dir(&odd).unwrap().count(), 0);
    }

    #[test]
    fn a_directory_that_is_gone_is_removed() {
        let fresh = Fresh::new().unwrap();
        fs::remove_dir(fresh.path()).unwrap();
        remove(fresh.path()).unwrap();
    }
}
