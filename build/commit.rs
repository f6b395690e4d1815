//! The commit that a package was made from, found without running git: a builder may not have it.

use std::fs;
use std::path::{Path, PathBuf};

/// A commit, and the files of git that change with it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Commit {
    /// Its id, shortened.
    pub(crate) id: String,
    /// The build is out of date once one of these changes.
    pub(crate) files: Vec<PathBuf>,
}

/// Digits of an id that are shown: enough for any repository, and few enough to read.
const ID_CHARS: usize = 12;

/// The commit of a package in this folder: of its checkout or, in a crate from a registry, the one
/// that cargo noted. A repository further up is not the package's own.
pub(crate) fn of(package: &Path) -> Option<Commit> {
    noted(&package.join(".cargo_vcs_info.json")).or_else(|| checked_out(&package.join(".git")))
}

fn noted(file: &Path) -> Option<Commit> {
    let text = fs::read_to_string(file).ok()?;
    let id = text.split("\"sha1\"").nth(1)?.split('"').nth(1)?;
    Some(Commit { id: short(id)?, files: vec![file.to_owned()] })
}

fn checked_out(git: &Path) -> Option<Commit> {
    // A worktree has a file that says where its folder is, and that one says where the shared one is.
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
    // The next commit makes a file of its own for the branch.
    files.extend(loose.ancestors().skip(1).find(|folder| folder.exists()).map(Path::to_owned));
    Some(Commit { id: short(id)?, files })
}

fn short(id: &str) -> Option<String> {
    let id = id.trim();
    let is_id = id.len() >= 40 && id.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_id.then(|| id[..ID_CHARS].to_owned())
}
