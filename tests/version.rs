//! How a build finds its commit, in every form in which git and cargo leave it.

#![expect(clippy::unwrap_used, reason = "a test that panics has failed, as it should")]

#[path = "../build/commit.rs"]
mod commit;

use std::fs;
use std::path::Path;

use commit::Commit;
use tempfile::TempDir;

const ID: &str = "0123456789abcdef0123456789abcdef01234567";
const OTHER: &str = "76543210fedcba9876543210fedcba9876543210";

/// A folder with these files.
fn folder(files: &[(&str, &str)]) -> TempDir {
    let folder = TempDir::new().unwrap();
    for (path, text) in files {
        let path = folder.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    folder
}

/// Checks the commit that is found below `package`, and which files it depends on.
#[track_caller]
fn check(folder: &TempDir, package: &str, files: &[&str]) {
    let Commit { id, files: found } = commit::of(&folder.path().join(package)).unwrap();
    assert_eq!(id, "0123456789ab");
    let real = |path: &Path| path.canonicalize().unwrap();
    let found: Vec<_> = found.iter().map(|path| real(path)).collect();
    let expected: Vec<_> = files.iter().map(|path| real(&folder.path().join(path))).collect();
    assert_eq!(found, expected);
}

#[test]
fn the_commit_of_a_branch_is_in_its_file() {
    let git = [(".git/HEAD", "ref: refs/heads/a/b\n"), (".git/refs/heads/a/b", &format!("{ID}\n"))];
    check(&folder(&git), "", &[".git/HEAD", ".git/refs/heads/a/b"]);
}

/// The next commit creates a file for the branch, so its folder is watched.
#[test]
fn the_commit_of_a_packed_branch_is_in_packed_refs() {
    let packed = format!(
        "# pack-refs with: peeled\n{OTHER} refs/mirror/refs/heads/main\n{ID} refs/heads/main\n"
    );
    let git = [
        (".git/HEAD", "ref: refs/heads/main\n"),
        (".git/packed-refs", &packed),
        (".git/refs/heads/x", OTHER),
    ];
    check(&folder(&git), "", &[".git/HEAD", ".git/packed-refs", ".git/refs/heads"]);
}

#[test]
fn a_detached_head_is_the_commit() {
    check(&folder(&[(".git/HEAD", &format!("{ID}\n"))]), "", &[".git/HEAD"]);
}

#[test]
fn a_worktree_has_a_head_of_its_own() {
    let git = [
        ("tree/.git", "gitdir: ../main/.git/worktrees/tree\n"),
        ("main/.git/worktrees/tree/HEAD", "ref: refs/heads/work\n"),
        ("main/.git/worktrees/tree/commondir", "../..\n"),
        ("main/.git/HEAD", OTHER),
        ("main/.git/refs/heads/work", ID),
    ];
    let files = ["tree/.git", "main/.git/worktrees/tree/HEAD", "main/.git/refs/heads/work"];
    check(&folder(&git), "tree", &files);
}

#[test]
fn a_crate_from_a_registry_has_the_commit_that_cargo_noted() {
    let noted =
        format!("{{\n  \"git\": {{\n    \"sha1\": \"{ID}\"\n  }},\n  \"path_in_vcs\": \"\"\n}}");
    let unpacked =
        [("outer/.git/HEAD", OTHER), ("outer/crate/.cargo_vcs_info.json", noted.as_str())];
    check(&folder(&unpacked), "outer/crate", &["outer/crate/.cargo_vcs_info.json"]);
}

#[test]
fn anything_malformed_is_no_commit() {
    for files in [
        &[][..],
        &[(".git/HEAD", "ref: refs/heads/.invalid\n"), (".git/reftable/tables.list", "")],
        &[(".git/HEAD", "ref: refs/heads/unborn\n")],
        &[(".git/HEAD", "\u{e9}\n")],
        &[(".git/HEAD", "0123456789ab\n")],
        &[(".git", "gitdir: nowhere\n")],
        &[(".git", "\n")],
        &[(".cargo_vcs_info.json", "{}")],
        &[(".cargo_vcs_info.json", "{\"git\":{\"sha1\":\"dirty\"}}")],
    ] {
        assert_eq!(commit::of(folder(files).path()), None, "{files:?}");
    }
}
