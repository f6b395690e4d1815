//! The guard: a process that outlives a gateway that was killed, and ends what that had started.
//!
//! It reads one line for each group that begins (`+ID`) and ends (`-ID`). When the pipe closes, the
//! gateway is gone, and every group that has not ended is killed.

use std::collections::BTreeSet;
use std::io::{BufRead, Write as _};
use std::os::unix::process::CommandExt as _;
use std::process::{ChildStdin, Command, Stdio};

use parking_lot::Mutex;
use rustix::process::{Pid, Signal, kill_process_group};
use tracing::warn;

/// The argument that makes the launcher the guard.
pub(super) const ARGUMENT: &str = "--guard";

/// The gateway's end.
#[derive(Debug, Default)]
pub(super) struct Guard {
    pipe: Mutex<Option<ChildStdin>>,
}

impl Guard {
    /// A group has begun. If the guard is not there, starts it with `launcher`.
    pub(super) fn begin(&self, launcher: impl FnOnce() -> Command, group: Pid) {
        let line = format!("+{}\n", group.as_raw_nonzero());
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
                warn!(%error, "if the gateway is killed, its tools' processes may keep running");
            }
        }
    }

    /// A group has ended.
    pub(super) fn end(&self, group: Pid) {
        tell(&mut self.pipe.lock(), &format!("-{}\n", group.as_raw_nonzero()));
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
    let mut groups = BTreeSet::new();
    for line in input.lines().map_while(Result::ok) {
        let (sign, number) = line.split_at_checked(1).unwrap_or_default();
        let Some(group) = number.parse().ok().and_then(Pid::from_raw) else { continue };
        match sign {
            "+" => _ = groups.insert(group.as_raw_nonzero()),
            "-" => _ = groups.remove(&group.as_raw_nonzero()),
            _ => {}
        }
    }
    for group in groups.into_iter().filter_map(|group| Pid::from_raw(group.get())) {
        // It may have ended meanwhile.
        let _ = kill_process_group(group, Signal::KILL);
    }
}
