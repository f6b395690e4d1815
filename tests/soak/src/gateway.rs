//! The gateway under load: a process of its own, and what the system says of it.

use std::fs;
use std::io::{BufRead as _, BufReader, Lines};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open};

use crate::Error;
use crate::token::decimal;

/// How long a gateway may take to stop. After that it is killed, whatever runs in it.
const STOP_TIME: Timespec = Timespec { tv_sec: 5, tv_nsec: 0 };

/// A running gateway. Dropping it stops the process.
#[derive(Debug)]
pub(crate) struct Gateway {
    pub(crate) address: SocketAddr,
    pub(crate) process: Process,
    child: Child,
    /// Held open, so that the gateway can write to it.
    _output: Lines<BufReader<ChildStdout>>,
}

impl Gateway {
    /// Starts a gateway in front of `model`. Its configuration and its log are in `directory`.
    pub(crate) fn start(
        binary: &Path,
        directory: &Path,
        model: SocketAddr,
        turns_max: u64,
    ) -> Result<Self, Error> {
        fs::create_dir_all(directory)?;
        let config = directory.join("tether.yml");
        fs::write(
            &config,
            format!(
                "server: {{max_concurrent_turns: {turns_max}}}\n\
                 upstreams: [{{name: soak, base_url: \"http://{model}/v1\", model: soak}}]\n\
                 sessions: {{store: memory}}\n"
            ),
        )?;
        let mut child = Command::new(binary)
            .arg("--config")
            .arg(&config)
            .args(["--listen", "127.0.0.1:0"])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(fs::File::create(directory.join("tether.log"))?)
            .spawn()
            .map_err(|error| format!("{}: {error}", binary.display()))?;
        let mut output = BufReader::new(child.stdout.take().ok_or("no output")?).lines();
        let process = Process(child.id());
        let address = address(&mut output).inspect_err(|_| {
            // Otherwise it would live on.
            let _ = child.kill();
        })?;
        Ok(Self { address, process, child, _output: output })
    }
}

/// The address that the gateway prints.
fn address(output: &mut Lines<BufReader<ChildStdout>>) -> Result<SocketAddr, Error> {
    for line in output {
        if let Some((_, url)) = line?.split_once("open    http://") {
            return Ok(url.trim_end_matches('/').parse()?);
        }
    }
    Err("the gateway did not start; its log says why".into())
}

impl Drop for Gateway {
    fn drop(&mut self) {
        // It may have something to write at its end, such as a profile of itself.
        let pid = Pid::from_child(&self.child);
        if let Ok(process) = pidfd_open(pid, PidfdFlags::empty()) {
            let _ = kill_process(pid, Signal::TERM);
            let _ = poll(&mut [PollFd::new(&process, PollFlags::IN)], Some(&STOP_TIME));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A process, as `/proc` shows it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Process(u32);

/// What a process takes.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Usage {
    pub(crate) resident_bytes: u64,
    /// Of these, what is not the program itself.
    pub(crate) anonymous_bytes: u64,
    pub(crate) threads: u64,
    pub(crate) files: u64,
}

impl Process {
    pub(crate) fn this() -> Self {
        Self(std::process::id())
    }

    pub(crate) fn usage(self) -> Usage {
        let status = fs::read_to_string(format!("/proc/{}/status", self.0)).unwrap_or_default();
        let field = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name));
            line.map_or(0, |line| decimal(line.trim_start().as_bytes()))
        };
        Usage {
            resident_bytes: field("VmRSS:") * 1024,
            anonymous_bytes: field("RssAnon:") * 1024,
            threads: field("Threads:"),
            files: fs::read_dir(format!("/proc/{}/fd", self.0))
                .map_or(0, |files| files.count() as u64),
        }
    }

    /// The time that it has used of the processors, in hundredths of a second.
    pub(crate) fn cpu_ticks(self) -> u64 {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.0)).unwrap_or_default();
        // Behind the name, which may contain anything, the 12th and the 13th field.
        let fields = stat.rsplit_once(')').map_or("", |(_, fields)| fields);
        fields
            .split_ascii_whitespace()
            .skip(11)
            .take(2)
            .map(|field| decimal(field.as_bytes()))
            .sum()
    }

    /// How many files it may have open.
    pub(crate) fn files_max(self) -> u64 {
        let limits = fs::read_to_string(format!("/proc/{}/limits", self.0)).unwrap_or_default();
        let line = limits.lines().find_map(|line| line.strip_prefix("Max open files"));
        let soft = line.and_then(|line| line.split_ascii_whitespace().next());
        soft.map_or(u64::MAX, |soft| decimal(soft.as_bytes()))
    }
}
