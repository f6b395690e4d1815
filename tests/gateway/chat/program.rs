//! A `tether chat` that runs beside its test.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::process::Stdio;
use std::sync::Arc;

use parking_lot::Mutex;
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::{Child, Command};

use super::chat;
use crate::support::process::TETHER;
use crate::support::{until, within};

/// What it has written so far, growing.
#[derive(Debug, Clone, Default)]
pub(super) struct Seen(Arc<Mutex<String>>);

impl Seen {
    /// Collects what comes from here.
    fn from(mut source: impl AsyncRead + Unpin + Send + 'static) -> Self {
        let seen = Self::default();
        let kept = Arc::clone(&seen.0);
        tokio::spawn(async move {
            let mut bytes = vec![0; 16 * 1024];
            while let Ok(read @ 1..) = source.read(&mut bytes).await {
                kept.lock().push_str(&String::from_utf8_lossy(&bytes[..read]));
            }
        });
        seen
    }

    /// Collects what appears on this terminal, until the last program has left it.
    fn of(mut terminal: File) -> Self {
        let seen = Self::default();
        let kept = Arc::clone(&seen.0);
        tokio::task::spawn_blocking(move || {
            let mut bytes = vec![0; 16 * 1024];
            while let Ok(read @ 1..) = terminal.read(&mut bytes) {
                kept.lock().push_str(&String::from_utf8_lossy(&bytes[..read]));
            }
        });
        seen
    }

    /// Waits until it has written this after what was taken before, and takes that.
    #[track_caller]
    pub(super) fn take(&self, expected: &'static str) -> impl Future<Output = String> {
        let seen = Arc::clone(&self.0);
        async move {
            until(|| seen.lock().contains(expected)).await;
            let mut seen = seen.lock();
            let end = seen.find(expected).unwrap() + expected.len();
            seen.drain(..end).collect()
        }
    }
}

/// One with pipes.
#[derive(Debug)]
pub(super) struct Piped {
    child: Child,
    pub(super) answer: Seen,
    pub(super) notes: Seen,
}

impl Piped {
    pub(super) async fn start(address: SocketAddr, arguments: &[&str], prompt: &str) -> Self {
        let mut child = chat(address, arguments).spawn().unwrap();
        let mut stdin = child.stdin.take().unwrap();
        stdin.write_all(prompt.as_bytes()).await.unwrap();
        let answer = Seen::from(child.stdout.take().unwrap());
        let notes = Seen::from(child.stderr.take().unwrap());
        Self { child, answer, notes }
    }

    pub(super) async fn interrupt(&self) {
        signal(&self.child, "INT").await;
    }

    pub(super) async fn terminate(&self) {
        signal(&self.child, "TERM").await;
    }

    #[track_caller]
    pub(super) fn exit(mut self) -> impl Future<Output = Option<i32>> {
        within(async move { self.child.wait().await.unwrap().code() })
    }
}

/// One on a terminal of its own.
#[derive(Debug)]
pub(super) struct Terminal {
    child: Child,
    keys: File,
    pub(super) seen: Seen,
}

impl Terminal {
    pub(super) fn start(address: SocketAddr, arguments: &[&str]) -> Self {
        let ours = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&ours).unwrap();
        unlockpt(&ours).unwrap();
        let name = ptsname(&ours, Vec::new()).unwrap();
        let theirs = File::options().read(true).write(true).open(name.to_str().unwrap()).unwrap();
        let end = || Stdio::from(OwnedFd::from(theirs.try_clone().unwrap()));
        // Makes it the controlling terminal, which takes a system call of the new process.
        let mut command = Command::new("setsid");
        command.args(["--ctty", "--wait", TETHER, "chat", "--url", &format!("http://{address}")]);
        command.args(arguments).env("TERM", "xterm").env("NO_COLOR", "1").kill_on_drop(true);
        command.env_remove("TETHER_API_KEY").stdin(end()).stdout(end()).stderr(end());
        let child = command.spawn().unwrap();
        let ours = File::from(ours);
        let keys = ours.try_clone().unwrap();
        Self { child, keys, seen: Seen::of(ours) }
    }

    /// Types these keys.
    pub(super) fn keys(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).unwrap();
    }

    pub(super) async fn terminate(&self) {
        signal(&self.child, "TERM").await;
    }

    /// Waits for the prompt, and types a line.
    pub(super) async fn line(&mut self, line: &str) -> String {
        let before = self.seen.take(PROMPT).await;
        self.keys(&format!("{line}\r"));
        before
    }

    #[track_caller]
    pub(super) fn exit(mut self) -> impl Future<Output = Option<i32>> {
        within(async move { self.child.wait().await.unwrap().code() })
    }
}

async fn signal(child: &Child, name: &str) {
    let pid = child.id().unwrap().to_string();
    let status = Command::new("kill").args(["-s", name, &pid]).status().await;
    assert!(status.unwrap().success());
}

/// The line editor has written its prompt, and reads keys.
pub(super) const PROMPT: &str = "> \r\u{1b}[2C";
/// The same for an answer.
pub(super) const ANSWER: &str = "? \r\u{1b}[2C";
pub(super) const CTRL_C: &str = "\u{3}";
pub(super) const CTRL_D: &str = "\u{4}";
