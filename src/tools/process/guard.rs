//! The guard: a process that outlives a gateway that was killed, and ends what it has started.
//!
//! It reads a line of JSON for each program that begins and for each that has ended:
//!
//! ```text
//! {"began":{"group":71,"mark":"5b0c...","directory":"/tmp/tether-x1"}}
//! {"ended":71}
//! ```
//! When the pipe closes, the gateway is gone. Every program that has not ended is killed, with all
//! that it has started, and its directory is removed.

use std::collections::BTreeMap;
use std::io::{BufRead, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
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
    /// A program has begun. If the guard is not there, starts it with `launcher`.
    pub(super) fn begin(&self, launcher: impl FnOnce() -> Command, program: Guarded) {
        let line = Line::Began(program).written();
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

    /// A program has ended, and all that it had started.
    pub(super) fn end(&self, group: Pid) {
        tell(&mut self.pipe.lock(), &Line::Ended(group.as_raw_nonzero().get()).written());
    }
}

/// A program that must not outlive the gateway.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Guarded {
    pub(super) group: i32,
    pub(super) mark: Mark,
    /// A directory that was made for it.
    pub(super) directory: Option<PathBuf>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Line {
    Began(Guarded),
    Ended(i32),
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
            Ok(Line::Began(program)) => _ = programs.insert(program.group, program),
            Ok(Line::Ended(group)) => _ = programs.remove(&group),
            Err(_) => {}
        }
    }
    programs.into_values().for_each(end);
}

fn end(program: Guarded) {
    if let Some(group) = Pid::from_raw(program.group) {
        // It may have ended meanwhile.
        let _ = kill_process_group(group, Signal::KILL);
    }
    stragglers::kill(&program.mark, Search::All);
    if let Some(fresh) = program.directory {
        let _ = directory::remove(&fresh);
    }
}
