//! Processes that have left their group, such as daemons. A program's mark, a variable of its
//! environment, is inherited by all that it starts; it is how they are found.
//!
//! A process that has left its group stays if it has also cleared its environment, or hides it from a
//! gateway that is not root; a sandbox refuses one way to do that. Keeping it takes a PID namespace, which needs
//! privileges: an operator can put `bwrap` before the command.

use std::ffi::OsString;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// The variable that marks a program and all that it starts.
const VARIABLE: &str = "TETHER_PROCESS";

/// What marks a program: a random text.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub(super) struct Mark(String);

impl Mark {
    pub(super) fn new() -> Self {
        Self(Uuid::new_v4().simple().to_string())
    }

    pub(super) fn as_str(&self) -> &str {
        &self.0
    }

    /// The variable, for the program's environment.
    pub(super) fn variable(&self) -> (OsString, OsString) {
        (VARIABLE.into(), self.as_str().into())
    }
}

/// Which processes are looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Search {
    /// All of them.
    All,
    /// Those that have begun since this one. Only right while process ids have not gone round once
    /// since then, which takes minutes at least.
    Since(i32),
}

#[cfg(target_os = "linux")]
pub(super) use linux::kill;

#[cfg(target_os = "linux")]
mod linux {
    use std::fs;
    use std::io::ErrorKind;
    use std::os::fd::OwnedFd;
    use std::os::unix::ffi::OsStrExt as _;

    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

    use super::{Mark, Search, VARIABLE};
    use crate::limits::process::STRAGGLER_ROUNDS_MAX;

    /// The pause before another look, if a process was just ending or becoming another program.
    const UNCLEAR_PAUSE: Timespec = Timespec { tv_sec: 0, tv_nsec: 1_000_000 };

    /// Kills every process that carries the mark and may be looked at. Blocks, a few milliseconds
    /// as a rule.
    pub(in crate::tools::process) fn kill(mark: &Mark, search: Search) {
        let variable = format!("{VARIABLE}={}", mark.as_str());
        // Whoever is killed may have started another one before.
        for _ in 0..STRAGGLER_ROUNDS_MAX {
            let mut found: Vec<OwnedFd> = Vec::new();
            let mut is_unclear = false;
            for id in search.ids() {
                match look(id, &variable) {
                    Look::Marked(process) => found.push(process),
                    Look::Unmarked => {}
                    Look::Unclear => is_unclear = true,
                }
            }
            if found.is_empty() {
                if !is_unclear {
                    return;
                }
                // There is nothing to wait for but time.
                let _ = poll(&mut [], Some(&UNCLEAR_PAUSE));
            }
            for process in &found {
                // It may have ended.
                let _ = pidfd_send_signal(process, Signal::KILL);
            }
            found.iter().for_each(wait);
        }
    }

    /// What is known about a process.
    enum Look {
        /// It carries the mark. Another process cannot take its place meanwhile.
        Marked(OwnedFd),
        Unmarked,
        /// It has just ended, and may have started another one that was not looked at; or it is
        /// just becoming another program, whose environment is not there yet.
        Unclear,
    }

    impl Search {
        /// The ids of the processes to look at.
        fn ids(self) -> Vec<i32> {
            let range = match self {
                Self::All => None,
                Self::Since(first) => newest().map(|last| (first, last)),
            };
            let is_wanted = |id: &i32| match range {
                None => true,
                Some((first, last)) if first <= last => (first..=last).contains(id),
                // The ids have gone round.
                Some((first, last)) => *id >= first || *id <= last,
            };
            let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
            let ids = entries.filter_map(|entry| {
                std::str::from_utf8(entry.file_name().as_bytes()).ok()?.parse().ok()
            });
            ids.filter(is_wanted).collect()
        }
    }

    /// The id of the process that began last: the end of `0.20 0.18 0.12 1/80 11206`.
    fn newest() -> Option<i32> {
        let load = fs::read_to_string("/proc/loadavg").ok()?;
        load.split_ascii_whitespace().next_back()?.parse().ok()
    }

    fn look(id: i32, variable: &str) -> Look {
        let process = Pid::from_raw(id).map(|id| pidfd_open(id, PidfdFlags::empty()));
        let Some(Ok(process)) = process else { return Look::Unclear };
        match fs::read(format!("/proc/{id}/environ")) {
            // Only a process with a program of its own will have an environment.
            Ok(environment) if environment.is_empty() => {
                match fs::read_link(format!("/proc/{id}/exe")) {
                    Ok(_) => Look::Unclear,
                    Err(_) => Look::Unmarked,
                }
            }
            Ok(environment) => {
                let mut variables = environment.split(|byte| *byte == 0);
                if variables.any(|it| it == variable.as_bytes()) {
                    Look::Marked(process)
                } else {
                    Look::Unmarked
                }
            }
            Err(error) if error.kind() == ErrorKind::PermissionDenied => Look::Unmarked,
            Err(_) => Look::Unclear,
        }
    }

    /// Waits until a process that was killed has ended. One that cannot end yet, because it waits
    /// for a disk, is not worth more.
    fn wait(process: &OwnedFd) {
        let most = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };
        let _ = poll(&mut [PollFd::new(process, PollFlags::IN)], Some(&most));
    }
}

/// Elsewhere, what leaves its group is on its own.
#[cfg(not(target_os = "linux"))]
pub(super) fn kill(_mark: &Mark, _search: Search) {}
