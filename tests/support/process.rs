//! The binary as a process.

use std::io::{BufRead as _, BufReader};
use std::ops::Deref;
use std::process::{Child, ChildStderr, Command, ExitStatus, Stdio};
use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::Value;
use tokio::task::spawn_blocking;

use super::gateway::Endpoint;
use super::{until, within};

/// The program.
pub(crate) const TETHER: &str = env!("CARGO_BIN_EXE_tether");

/// A gateway in its own process, which is killed on drop.
#[derive(Debug)]
pub(crate) struct Process {
    /// `None` once its end has been awaited.
    child: Option<Child>,
    door: Endpoint,
    _config: tempfile::NamedTempFile,
}

impl Process {
    /// Starts the process with a configuration and waits until it serves.
    #[track_caller]
    pub(crate) fn start(config: &str) -> impl Future<Output = Self> {
        Self::start_raw(local(config))
    }

    /// The same at log level debug. Also returns the log.
    #[track_caller]
    pub(crate) fn start_logging(config: &str) -> impl Future<Output = (Self, Log)> {
        Self::start_logged_with(config, |command| {
            command.args(["--log-format", "json"]).env("TETHER_LOG", "tether=debug");
            command.stderr(Stdio::piped());
        })
    }

    /// The same, after a change to the command, which pipes its log as lines of JSON.
    #[track_caller]
    pub(crate) fn start_logged_with(
        config: &str,
        change: impl FnOnce(&mut Command),
    ) -> impl Future<Output = (Self, Log)> {
        Self::spawn_logged(local(config), change)
    }

    /// The same at log level debug, with this exact configuration.
    #[track_caller]
    pub(crate) fn start_logging_raw(config: String) -> impl Future<Output = (Self, Log)> {
        Self::spawn_logged(config, |command| {
            command.args(["--log-format", "json"]).env("TETHER_LOG", "tether=debug");
            command.stderr(Stdio::piped());
        })
    }

    #[track_caller]
    fn spawn_logged(
        config: String,
        change: impl FnOnce(&mut Command),
    ) -> impl Future<Output = (Self, Log)> {
        within(async move {
            let mut process = Self::spawn(config, change).await;
            let stderr = process.child.as_mut().and_then(|child| child.stderr.take());
            let log = Log::read(stderr.expect("it is piped"));
            (process, log)
        })
    }

    /// The same, after a change to the command.
    #[track_caller]
    pub(crate) fn start_with(
        config: &str,
        change: impl FnOnce(&mut Command),
    ) -> impl Future<Output = Self> {
        within(Self::spawn(local(config), change))
    }

    /// The same with this exact configuration.
    #[track_caller]
    pub(crate) fn start_raw(config: String) -> impl Future<Output = Self> {
        within(Self::spawn(config, |_| ()))
    }

    /// The same with a single processor.
    #[track_caller]
    pub(crate) fn start_on_one_processor(config: &str) -> impl Future<Output = Self> {
        let mut command = Command::new("taskset");
        command.args(["--cpu-list", &first_processor(), TETHER]);
        within(Self::run(command, local(config), |_| ()))
    }

    async fn spawn(config: String, change: impl FnOnce(&mut Command)) -> Self {
        Self::run(Command::new(TETHER), config, change).await
    }

    async fn run(mut command: Command, config: String, change: impl FnOnce(&mut Command)) -> Self {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), config).unwrap();
        command.arg("--config").arg(file.path()).env("TETHER_LOG", "off");
        command.stdin(Stdio::null()).stdout(Stdio::piped());
        change(&mut command);
        let mut child = command.spawn().unwrap();
        let greeting = BufReader::new(child.stdout.take().unwrap()).lines();
        let child = Some(child);
        let address = spawn_blocking(move || {
            let mut lines = greeting.map(Result::unwrap);
            let line = lines.find_map(|line| Some(line.split_once("://")?.1.to_owned()));
            let address = line.expect("it prints its address");
            address.trim_end_matches('/').parse().unwrap()
        });
        let door = Endpoint { address: address.await.unwrap() };
        Self { child, door, _config: file }
    }

    pub(crate) fn signal(&self, name: &str) {
        let pid = self.pid().to_string();
        let status = Command::new("kill").args(["-s", name, &pid]).status();
        assert!(status.unwrap().success());
    }

    /// Stops it until SIGCONT, as a machine that sleeps. Its threads go on until each of them has noticed.
    #[track_caller]
    pub(crate) fn stop(&self) -> impl Future<Output = ()> {
        self.signal("STOP");
        let threads = format!("/proc/{}/task", self.pid());
        until(move || {
            std::fs::read_dir(&threads).unwrap().all(|thread| {
                let stat = std::fs::read_to_string(thread.unwrap().path().join("stat"));
                // The state comes after the name, which is in parentheses.
                stat.is_ok_and(|stat| stat.rsplit_once(") ").unwrap().1.starts_with('T'))
            })
        })
    }

    /// Waits for the process to end.
    #[track_caller]
    pub(crate) fn exit(mut self) -> impl Future<Output = ExitStatus> {
        let mut child = self.child.take().expect("it runs");
        within(async { spawn_blocking(move || child.wait().unwrap()).await.unwrap() })
    }

    fn pid(&self) -> u32 {
        self.child.as_ref().expect("it runs").id()
    }

    /// Limits how many files and sockets it may have open from now on.
    pub(crate) fn limit_files(&self, count: usize) {
        let (pid, limit) = (self.pid().to_string(), format!("--nofile={count}"));
        let status = Command::new("prlimit").args(["--pid", &pid, &limit]).status();
        assert!(status.unwrap().success());
    }

    /// Limits how long the files may become that it writes from now on.
    pub(crate) fn limit_file_bytes(&self, bytes: Option<u64>) {
        let bytes = bytes.map_or_else(|| "unlimited".to_owned(), |bytes| bytes.to_string());
        // Only the soft limit, so that it can be raised again.
        let (pid, limit) = (self.pid().to_string(), format!("--fsize={bytes}:"));
        let status = Command::new("prlimit").args(["--pid", &pid, &limit]).status();
        assert!(status.unwrap().success());
    }

    /// How many sockets it has open.
    pub(crate) fn sockets(&self) -> usize {
        let links = std::fs::read_dir(format!("/proc/{}/fd", self.pid())).unwrap();
        let targets = links.filter_map(|link| std::fs::read_link(link.unwrap().path()).ok());
        targets.filter(|target| target.to_string_lossy().starts_with("socket:")).count()
    }

    /// Its resident memory, in KiB.
    pub(crate) fn memory_kib(&self) -> usize {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.pid())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
        line.trim().trim_end_matches(" kB").parse().unwrap()
    }
}

/// The number of the first processor that this process may use.
fn first_processor() -> String {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).unwrap();
    line.trim().chars().take_while(char::is_ascii_digit).collect()
}

/// The configuration, with a free port.
fn local(config: &str) -> String {
    format!("server: {{listen: \"127.0.0.1:0\", drain_timeout_sec: 20}}\n{config}")
}

/// A gateway's log, line by line.
#[derive(Debug, Clone)]
pub(crate) struct Log(Arc<Mutex<Vec<Value>>>);

impl Log {
    fn read(stderr: ChildStderr) -> Self {
        let log = Self(Arc::default());
        let lines = Arc::clone(&log.0);
        spawn_blocking(move || {
            for line in BufReader::new(stderr).lines().map_while(Result::ok) {
                let line = serde_json::from_str(&line).expect("a line is one JSON object");
                lines.lock().push(line);
            }
        });
        log
    }

    pub(crate) fn lines(&self) -> Vec<Value> {
        self.0.lock().clone()
    }

    /// Forgets all lines so far.
    pub(crate) fn forget(&self) {
        self.0.lock().clear();
    }

    /// The first line with this message of the session, once it is there.
    #[track_caller]
    pub(crate) fn line_of(&self, session: &str, message: &str) -> impl Future<Output = Value> {
        let is_it = move |line: &&Value| line["message"] == message && line["session"] == session;
        async move {
            until(|| self.0.lock().iter().any(|line| is_it(&line))).await;
            self.0.lock().iter().find(is_it).cloned().unwrap()
        }
    }

    /// Waits until this many turns have logged their end.
    #[track_caller]
    pub(crate) fn turns(&self, count: usize) -> impl Future<Output = ()> {
        let ended = |line: &&Value| line["message"] == "turn ended";
        until(move || self.0.lock().iter().filter(ended).count() == count)
    }
}

impl Deref for Process {
    type Target = Endpoint;

    fn deref(&self) -> &Endpoint {
        &self.door
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            // It may already have ended.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
