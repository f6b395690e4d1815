//! The binary, as a process.

use std::io::{BufRead as _, BufReader};
use std::ops::Deref;
use std::process::{Child, Command, ExitStatus, Stdio};

use tokio::task::spawn_blocking;

use super::gateway::Door;
use super::within;

/// A gateway of its own process. It is killed when it is dropped.
#[derive(Debug)]
pub(crate) struct Process {
    /// Gone once its end was awaited.
    child: Option<Child>,
    door: Door,
    _config: tempfile::NamedTempFile,
}

impl Process {
    /// Starts it with a configuration and waits until it serves.
    #[track_caller]
    pub(crate) fn start(config: &str) -> impl Future<Output = Self> {
        let config =
            format!("server: {{listen: \"127.0.0.1:0\", drain_timeout_sec: 20}}\n{config}");
        Self::start_raw(config)
    }

    /// The same with a whole configuration.
    #[track_caller]
    pub(crate) fn start_raw(config: String) -> impl Future<Output = Self> {
        within(async move {
            let file = tempfile::NamedTempFile::new().unwrap();
            std::fs::write(file.path(), config).unwrap();
            let mut child = Command::new(env!("CARGO_BIN_EXE_tether"))
                .arg("--config")
                .arg(file.path())
                .env("TETHER_LOG", "off")
                .stdin(Stdio::null())
                .stdout(Stdio::piped())
                .spawn()
                .unwrap();
            let greeting = BufReader::new(child.stdout.take().unwrap()).lines();
            let child = Some(child);
            let address = spawn_blocking(move || {
                let mut lines = greeting.map(Result::unwrap);
                let line = lines.find_map(|line| Some(line.split_once("http://")?.1.to_owned()));
                let address = line.expect("it says where it listens");
                address.trim_end_matches('/').parse().unwrap()
            });
            let door = Door { address: address.await.unwrap() };
            Self { child, door, _config: file }
        })
    }

    pub(crate) fn signal(&self, name: &str) {
        let pid = self.pid().to_string();
        let status = Command::new("kill").args(["-s", name, &pid]).status();
        assert!(status.unwrap().success());
    }

    /// Waits for its end.
    #[track_caller]
    pub(crate) fn exit(mut self) -> impl Future<Output = ExitStatus> {
        let mut child = self.child.take().expect("it runs");
        within(async { spawn_blocking(move || child.wait().unwrap()).await.unwrap() })
    }

    fn pid(&self) -> u32 {
        self.child.as_ref().expect("it runs").id()
    }

    /// Sockets that it holds open.
    pub(crate) fn sockets(&self) -> usize {
        let links = std::fs::read_dir(format!("/proc/{}/fd", self.pid())).unwrap();
        let targets = links.filter_map(|link| std::fs::read_link(link.unwrap().path()).ok());
        targets.filter(|target| target.to_string_lossy().starts_with("socket:")).count()
    }

    /// Memory that it has, in KiB.
    pub(crate) fn memory_kib(&self) -> usize {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.pid())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
        line.trim().trim_end_matches(" kB").parse().unwrap()
    }
}

impl Deref for Process {
    type Target = Door;

    fn deref(&self) -> &Door {
        &self.door
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            // It may have ended by itself.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
