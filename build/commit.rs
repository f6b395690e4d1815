//! Finds the commit that a package was built from, without running git: a builder may not have it.

use std::fs;
use std::path::{Path, PathBuf};

/// A commit, and the files that change with it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Commit {
    /// Its id, shortened.
    pub(crate) id: String,
    /// When one of these changes, the build is out of date.
    pub(crate) files: Vec<PathBuf>,
}

/// How many digits of an id are shown: enough for any repository, few enough to read.
const ID_CHARS: usize = 12;

/// The commit of the package in this folder: that of its checkout or, in a crate from a registry, the one that
/// cargo noted. A repository further up is not the package's own.
pub(crate) fn of(package: &Path) -> Option<Commit> {
    noted(&package.join(".cargo_vcs_info.json")).or_else(|| checked_out(&package.join(".git")))
}

fn noted(file: &Path) -> Option<Commit> {
    let text = fs::read_to_string(file).ok()?;
    let id = text.split("\"sha1\"").nth(1)?.split('"').nth(1)?;
    Some(Commit { id: short(id)?, files: vec![file.to_owned()] })
}

fn checked_out(git: &Path) -> Option<Commit> {
    // In a worktree, `.git` is a file that names git's folder for it, in which `commondir` names the shared one.
    let (own, mut files) = match fs::read_to_string(git) {
        Ok(text) => {
            let at = text.strip_prefix("gitdir:")?.trim();
            (git.parent()?.join(at), vec![git.to_owned()])
        }
        Err(_) => (git.to_owned(), Vec::new()),
    };
    let shared = match fs::read_to_string(own.join("commondir")) {
        Ok(text) => own.join(text.trim()),
        Err(_) => own.clone(),
    };
    let head = fs::read_to_string(own.join("HEAD")).ok()?;
    files.push(own.join("HEAD"));
    let Some(name) = head.strip_prefix("ref:").map(str::trim) else {
        return Some(Commit { id: short(&head)?, files });
    };
    let loose = shared.join(name);
    if let Ok(id) = fs::read_to_string(&loose) {
        files.push(loose);
        return Some(Commit { id: short(&id)?, files });
    }
    let packed = shared.join("packed-refs");
    let text = fs::read_to_string(&packed).ok()?;
    let id = text.lines().find_map(|line| line.strip_suffix(name)?.strip_suffix(' '))?;
    files.push(packed);
    // The next commit creates the branch's own file, so the folder in which it will be is watched.
    files.extend(loose.ancestors().skip(1).find(|folder| folder.exists()).map(Path::to_owned));
    Some(Commit { id: short(id)?, files })
}

fn short(id: &str) -> Option<String> {
    let id = id.trim();
    let is_id = id.len() >= 40 && id.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_id.then(|| id[..ID_CHARS].to_owned())
}
