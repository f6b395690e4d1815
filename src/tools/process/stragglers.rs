//! Processes that have left their group, such as daemons. A program's mark, a variable of its
//! environment, is inherited by all that it starts; it is how they are found.
//!
//! A process that has left its group and also cleared its environment stays. Keeping it takes a PID
//! namespace, which needs privileges: an operator can put `bwrap` before the command.

use std::ffi::OsString;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// The variable that marks a program and all that it starts.
const VARIABLE: &str = "TETHER_PROCESS";

/// What marks a program: a random text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
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
    use std::os::fd::OwnedFd;
    use std::os::unix::ffi::OsStrExt as _;

    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

    use super::{Mark, Search, VARIABLE};
    use crate::limits::process::STRAGGLER_ROUNDS_MAX;

    /// Kills every process that carries the mark and may be looked at. Blocks, a few milliseconds
    /// as a rule.
    pub(in crate::tools::process) fn kill(mark: &Mark, search: Search) {
        let variable = format!("{VARIABLE}={}", mark.as_str());
        // Whoever is killed may have started another one before.
        for _ in 0..STRAGGLER_ROUNDS_MAX {
            let found: Vec<OwnedFd> =
                search.ids().into_iter().filter_map(|id| marked(id, &variable)).collect();
            if found.is_empty() {
                return;
            }
            for process in &found {
                // It may have ended.
                let _ = pidfd_send_signal(process, Signal::KILL);
            }
            found.iter().for_each(wait);
        }
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

    /// The process, if it carries the mark. Another one cannot take its place meanwhile.
    fn marked(id: i32, variable: &str) -> Option<OwnedFd> {
        let process = pidfd_open(Pid::from_raw(id)?, PidfdFlags::empty()).ok()?;
        let environment = fs::read(format!("/proc/{id}/environ")).ok()?;
        let is_marked = environment.split(|byte| *byte == 0).any(|it| it == variable.as_bytes());
        is_marked.then_some(process)
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
