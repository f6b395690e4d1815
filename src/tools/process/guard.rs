//! The guard: a process that outlives a gateway that was killed, and ends what it has started.
//!
//! It reads lines of JSON about each program: before it begins, when its group is known, and when it
//! has ended:
//!
//! ```text
//! {"begins":{"mark":"5b0c...","directory":"/tmp/tether-x1"}}
//! {"began":{"mark":"5b0c...","group":71}}
//! {"ended":"5b0c..."}
//! ```
//! The first line comes early because a program may do much before the gateway's thread runs again.
//! When the pipe closes, the gateway is gone. Every program that has not ended is killed, with all
//! that it has started, and its directory is removed.

use std::collections::BTreeMap;
use std::io::{BufRead, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{ChildStdin, Command, Stdio};

use parking_lot::Mutex;
use rustix::process::{Pid, Signal, kill_process_group};
use serde::{Deserialize, Serialize};
use tracing::warn;

use super::directory;
use super::stragglers::{self, Mark, Search};

/// The argument that makes the launcher the guard.
pub(super) const ARGUMENT: &str = "--guard";

/// The gateway's end.
#[derive(Debug, Default)]
pub(super) struct Guard {
    pipe: Mutex<Option<ChildStdin>>,
}

impl Guard {
    /// A program is about to begin. If the guard is not there, starts it with `launcher`.
    pub(super) fn begin(&self, launcher: impl FnOnce() -> Command, mark: &Mark, directory: &Path) {
        let (mark, directory) = (mark.clone(), directory.to_owned());
        let line = Line::Begins { mark, directory }.written();
        let mut pipe = self.pipe.lock();
        if tell(&mut pipe, &line) {
            return;
        }
        match start(launcher()) {
            Ok(started) => {
                *pipe = Some(started);
                tell(&mut pipe, &line);
            }
            Err(error) => {
                warn!(%error, "if the gateway is killed, its tools' processes may run on");
            }
        }
    }

    /// A program has begun, as this group.
    pub(super) fn began(&self, mark: &Mark, group: Pid) {
        let group = group.as_raw_nonzero().get();
        self.tell(&Line::Began { mark: mark.clone(), group });
    }

    /// A program has ended, and all that it had started.
    pub(super) fn end(&self, mark: &Mark) {
        self.tell(&Line::Ended(mark.clone()));
    }

    fn tell(&self, line: &Line) {
        tell(&mut self.pipe.lock(), &line.written());
    }
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Line {
    /// With the directory that was made for it.
    Begins {
        mark: Mark,
        directory: PathBuf,
    },
    Began {
        mark: Mark,
        group: i32,
    },
    Ended(Mark),
}

impl Line {
    fn written(&self) -> String {
        let json = serde_json::to_string(self);
        format!("{}\n", json.expect("temporary paths are UTF-8, and nothing else can fail"))
    }
}

/// Writes a line that always fits into the pipe. Returns whether the guard is there to read it.
fn tell(pipe: &mut Option<ChildStdin>, line: &str) -> bool {
    let told = pipe.as_mut().is_some_and(|pipe| pipe.write_all(line.as_bytes()).is_ok());
    if !told {
        *pipe = None;
    }
    told
}

fn start(mut launcher: Command) -> std::io::Result<ChildStdin> {
    let mut child = launcher
        .arg(ARGUMENT)
        .env_clear()
        .current_dir("/")
        // A signal from the terminal is for the gateway, not for its guard.
        .process_group(0)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()?;
    child.stdin.take().ok_or_else(|| std::io::Error::other("the guard has no input"))
}

/// What the guard does, until the gateway is gone.
pub(super) fn watch(input: impl BufRead) {
    let mut programs = BTreeMap::new();
    for line in input.lines().map_while(Result::ok) {
        match serde_json::from_str(&line) {
            Ok(Line::Begins { mark, directory }) => {
                programs.insert(mark, Program { group: None, directory });
            }
            Ok(Line::Began { mark, group }) => {
                if let Some(program) = programs.get_mut(&mark) {
                    program.group = Pid::from_raw(group);
                }
            }
            Ok(Line::Ended(mark)) => _ = programs.remove(&mark),
            Err(_) => {}
        }
    }
    // The quick work comes first: a directory may hold very many files.
    for program in programs.values() {
        program.kill_group();
    }
    for mark in programs.keys() {
        stragglers::kill(mark, Search::All);
    }
    for program in programs.values() {
        let _ = directory::remove(&program.directory);
    }
}

/// A program that must not outlive the gateway.
struct Program {
    group: Option<Pid>,
    directory: PathBuf,
}

impl Program {
    fn kill_group(&self) {
        if let Some(group) = self.group {
            // It may have ended meanwhile.
            let _ = kill_process_group(group, Signal::KILL);
        }
    }
}
