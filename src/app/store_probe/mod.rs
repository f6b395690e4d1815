//! Tries the store of sessions: `tether check --probe`.

mod server;

use std::io;
use std::path::Path;
use std::time::Duration;

use super::assemble::sync_mode;
use super::finding::Finding::{self, Fault, Note};
use crate::config::{self, SessionsConfig, StoreSync};
use crate::limits::session::{COMMIT_SLOW, FREE_BYTES_LOW};
use crate::session::store::{FileReport, OpenError, SqliteStore};

/// Opens the store as the gateway would, and tries it. A file that does not exist is not created.
pub async fn probe_store(config: &SessionsConfig) -> Vec<Finding> {
    let path = &*config.embedded.path;
    match config.store {
        config::Store::Memory => vec![Note(
            "they are in memory and end with the process; set `sessions.store: embedded` to keep \
             them in a file"
                .to_owned(),
        )],
        config::Store::Redis => server::probe(config).await,
        config::Store::Embedded if !path.exists() => {
            let mut findings = vec![absent(path)];
            findings.extend(free(existing_folder(path)));
            findings
        }
        config::Store::Embedded => {
            match SqliteStore::examine(path, sync_mode(config.embedded.sync)) {
                Ok(report) => {
                    let mut findings = of_file(path, &report);
                    findings.push(of_commits(report.commit, config.embedded.sync));
                    findings.extend(free(existing_folder(path)));
                    findings
                }
                Err(OpenError::InUse(path)) => vec![Note(format!(
                    "{} is in use by another process, probably a running gateway, so it was not \
                     tried; stop that to try it, or look at `tether_store_*` in its /metrics",
                    path.display()
                ))],
                Err(error) => vec![Fault(format!("{error} (`sessions.embedded.path`)"))],
            }
        }
    }
}

fn absent(path: &Path) -> Finding {
    let folder = existing_folder(path);
    // Writes a file without a name, or removes it again at once.
    match tempfile::tempfile_in(folder) {
        Ok(_) => Note(format!(
            "{} would be created; {} can be written",
            path.display(),
            folder.display()
        )),
        Err(error) => Fault(format!(
            "{} would be created, but {} cannot be written: {error}; set `sessions.embedded.path`",
            path.display(),
            folder.display()
        )),
    }
}

/// The folder of a file or, as long as that does not exist, the one that it would be made in.
fn existing_folder(path: &Path) -> &Path {
    let here = Path::new(".");
    let folders = path.ancestors().skip(1);
    let folders = folders.map(|folder| if folder == Path::new("") { here } else { folder });
    folders.into_iter().find(|folder| folder.exists()).unwrap_or(here)
}

fn of_file(path: &Path, report: &FileReport) -> Vec<Finding> {
    let FileReport { version, bytes, sessions, damage, .. } = report;
    let path = path.display();
    let size = size(*bytes);
    let mut findings =
        vec![Note(format!("{path}: {sessions} sessions in {size}, format {version}"))];
    if let Some(damage) = damage {
        findings.push(Fault(format!(
            "{path} is damaged ({damage}); restore a copy, or save what can be read with `tether \
             sessions export` and set another `sessions.embedded.path`"
        )));
    }
    findings
}

fn of_commits(commit: Duration, sync: StoreSync) -> Finding {
    let took = format!("a commit takes {:.2} ms", commit.as_secs_f64() * 1000.0);
    Note(match sync {
        StoreSync::Normal if commit >= COMMIT_SLOW => format!(
            "{took}, which is slow and delays every turn; set `sessions.embedded.path` to a file on \
             a local disk"
        ),
        StoreSync::Full if commit >= COMMIT_SLOW => format!(
            "{took} and survives a power cut, but delays every turn; set `sessions.embedded.sync: \
             normal` if a power cut may cost the last moments"
        ),
        StoreSync::Normal => format!(
            "{took} and survives a killed process; set `sessions.embedded.sync: full` if it has to \
             survive a power cut"
        ),
        StoreSync::Full => format!("{took} and survives a power cut"),
    })
}

/// How much room there is, if the system says.
fn free(folder: &Path) -> Option<Finding> {
    let stat = rustix::fs::statvfs(folder).map_err(io::Error::from).ok()?;
    let bytes = stat.f_bavail.saturating_mul(stat.f_frsize);
    let free = format!("{} are free in {}", size(bytes), folder.display());
    Some(Note(if bytes < FREE_BYTES_LOW {
        format!(
            "only {free}; set `sessions.embedded.path` to a larger disk, or a lower \
             `sessions.ttl_sec`"
        )
    } else {
        free
    }))
}

/// A size for people.
fn size(bytes: u64) -> String {
    let (mut whole, mut units) = (bytes, ["bytes", "KiB", "MiB", "GiB", "TiB"].into_iter());
    let mut unit = units.next().unwrap_or_default();
    for larger in units {
        if whole < 10 * 1024 {
            break;
        }
        (whole, unit) = (whole / 1024, larger);
    }
    format!("{whole} {unit}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_short() {
        for (bytes, shown) in
            [(7, "7 bytes"), (10_239, "10239 bytes"), (10_240, "10 KiB"), (300 << 20, "300 MiB")]
        {
            assert_eq!(size(bytes), shown);
        }
    }

    #[test]
    fn the_advice_depends_on_how_long_a_commit_takes() {
        let quick = COMMIT_SLOW / 2;
        for (commit, sync, key) in [
            (quick, StoreSync::Normal, Some("`sessions.embedded.sync: full`")),
            (quick, StoreSync::Full, None),
            (COMMIT_SLOW, StoreSync::Normal, Some("`sessions.embedded.path`")),
            (COMMIT_SLOW, StoreSync::Full, Some("`sessions.embedded.sync: normal`")),
        ] {
            let Note(advice) = of_commits(commit, sync) else { panic!("no fault") };
            match key {
                Some(key) => assert!(advice.contains(key), "{advice}"),
                None => assert!(!advice.contains('`'), "{advice}"),
            }
        }
    }

    #[test]
    fn the_folder_is_one_that_exists() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("made").join("on demand").join("tether.db");
        assert_eq!(existing_folder(&path), directory.path());
        assert_eq!(existing_folder(Path::new("tether.db")), Path::new("."));
    }
}
