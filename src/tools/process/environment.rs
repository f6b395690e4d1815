//! The environment of a program: what it needs to run, and what the operator gives it. Nothing
//! else: the gateway's own environment has keys in it.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

/// The variables that every program inherits, besides those that begin with `LC_`. `TMPDIR` is its own.
pub const ALWAYS: [&str; 6] = ["PATH", "HOME", "LANG", "TZ", "USER", "LOGNAME"];

/// Picks a program's environment from `own`: the usual variables and those in `inherit`. Then adds
/// `set`, which wins.
pub fn environment(
    own: impl IntoIterator<Item = (OsString, OsString)>,
    inherit: &[String],
    set: &[(String, String)],
) -> Vec<(OsString, OsString)> {
    let is_inherited = |name: &OsStr| {
        let name = name.to_str().unwrap_or_default();
        ALWAYS.contains(&name)
            || name.starts_with("LC_")
            || inherit.iter().any(|inherited| inherited == name)
    };
    let is_set = |name: &OsStr| set.iter().any(|(set, _)| OsStr::new(set) == name);
    let inherited = own.into_iter().filter(|(name, _)| is_inherited(name) && !is_set(name));
    let set = set.iter().map(|(name, value)| (name.into(), value.into()));
    inherited.chain(set).collect()
}

/// The file that a program's name stands for, found as a shell would. `None` if there is no such
/// program that can be executed.
#[must_use]
pub fn find_program(
    name: &OsStr,
    path: Option<&OsStr>,
    directory: Option<&Path>,
) -> Option<PathBuf> {
    let named = Path::new(name);
    if named.is_absolute() {
        return is_program(named).then(|| named.to_owned());
    }
    if named.components().count() > 1 {
        let base = directory.map_or_else(|| PathBuf::from("."), Path::to_owned);
        let found = std::path::absolute(base.join(named)).ok()?;
        return is_program(&found).then_some(found);
    }
    let directories = path?.as_bytes().split(|byte| *byte == b':').map(OsStr::from_bytes);
    let found = directories.map(Path::new).filter(|at| at.is_absolute());
    found.map(|at| at.join(named)).find(|found| is_program(found))
}

fn is_program(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt as _;

    let metadata = path.metadata();
    metadata.is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn own() -> Vec<(OsString, OsString)> {
        let names = ["PATH", "HOME", "LC_ALL", "LCX", "API_KEY", "TOKEN", "LANG"];
        names.map(|name| (name.into(), format!("own {name}").into())).to_vec()
    }

    #[track_caller]
    fn check(inherit: &[&str], set: &[(&str, &str)], expected: &[(&str, &str)]) {
        let inherit: Vec<String> = inherit.iter().map(|&name| name.to_owned()).collect();
        let set: Vec<_> = set.iter().map(|&(n, v)| (n.to_owned(), v.to_owned())).collect();
        let found = environment(own(), &inherit, &set);
        let found: Vec<_> =
            found.iter().map(|(n, v)| (n.to_str().unwrap(), v.to_str().unwrap())).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn only_the_usual_variables_and_the_named_ones_are_passed_on() {
        let usual = [
            ("PATH", "own PATH"),
            ("HOME", "own HOME"),
            ("LC_ALL", "own LC_ALL"),
            ("LANG", "own LANG"),
        ];
        check(&[], &[], &usual);
        let mut with_token = usual.to_vec();
        with_token.insert(3, ("TOKEN", "own TOKEN"));
        check(&["TOKEN", "NONE"], &[], &with_token);
    }

    #[test]
    fn what_is_set_wins() {
        let expected = [
            ("PATH", "own PATH"),
            ("LC_ALL", "own LC_ALL"),
            ("LANG", "own LANG"),
            ("HOME", "/srv"),
            ("API_KEY", "other"),
        ];
        check(&["API_KEY"], &[("HOME", "/srv"), ("API_KEY", "other")], &expected);
    }

    #[test]
    fn a_program_is_found_as_a_shell_finds_it() {
        let find = |name: &str, path: &str| find_program(name.as_ref(), Some(path.as_ref()), None);
        assert_eq!(find("sh", "/nowhere:/bin"), Some("/bin/sh".into()));
        assert_eq!(find("/bin/sh", ""), Some("/bin/sh".into()));
        for (name, path) in [
            ("sh", "/nowhere"),
            ("sh", "bin:."),
            ("passwd", "/etc"),
            ("/etc/passwd", "/bin"),
            ("/bin", "/bin"),
            ("", "/bin"),
        ] {
            assert_eq!(find(name, path), None, "{name} in {path}");
        }
        let below = find_program("bin/sh".as_ref(), None, Some(Path::new("/")));
        assert_eq!(below, Some("/bin/sh".into()));
    }
}
