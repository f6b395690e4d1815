//! Asks the gateway each second how it is, as a monitoring system would, and looks at its process.
//!
//! A thread of its own with sockets of its own, so that the clients' load does not count.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::time::Instant;

use crate::Error;
use crate::clock::micros;
use crate::gateway::{Process, Usage};
use crate::histogram::Histogram;

/// How often it asks.
const INTERVAL: Duration = Duration::from_secs(1);
/// How long it waits for an answer.
const PATIENCE: Duration = Duration::from_secs(30);
/// The longest time to an answer.
const ANSWER_MAX: Duration = Duration::from_millis(100);
/// Gauges of `/metrics` that count what the gateway keeps on purpose.
const KEPT: [&str; 4] = [
    "tether_session_bytes ",
    "tether_turn_log_bytes ",
    "tether_artifact_bytes ",
    "tether_turn_cache_bytes ",
];

/// What was seen at one moment.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Sample {
    pub(crate) usage: Usage,
    /// Bytes that the gateway counts as kept for its clients.
    pub(crate) kept_bytes: u64,
    /// Processor time so far, in hundredths of a second.
    pub(crate) cpu_ticks: u64,
}

/// What a watcher has seen.
#[derive(Debug, Default)]
pub(crate) struct Watched {
    pub(crate) healthz: Histogram,
    pub(crate) metrics: Histogram,
    /// Requests without a good answer.
    pub(crate) unanswered: u64,
    /// How many answers took longer than they should, and the samples of the first and the last.
    pub(crate) late: u64,
    pub(crate) late_samples: Option<(usize, usize)>,
    pub(crate) samples: Vec<Sample>,
}

/// A running watcher.
#[derive(Debug)]
pub(crate) struct Watcher {
    stop: SyncSender<()>,
    thread: JoinHandle<Watched>,
}

impl Watcher {
    pub(crate) fn start(gateway: SocketAddr, process: Process) -> Result<Self, Error> {
        let (stop, stopped) = sync_channel(1);
        let thread = std::thread::Builder::new().name("watcher".to_owned());
        let thread = thread.spawn(move || watch(gateway, process, &stopped))?;
        Ok(Self { stop, thread })
    }

    /// Stops it and returns what it has seen.
    pub(crate) fn finish(self) -> Result<Watched, Error> {
        drop(self.stop);
        self.thread.join().map_err(|_| "the watcher panicked".into())
    }
}

fn watch(gateway: SocketAddr, process: Process, stopped: &Receiver<()>) -> Watched {
    let mut watched = Watched::default();
    let mut due = Instant::now();
    loop {
        watched.look(gateway, process);
        due += INTERVAL;
        let wait = due.saturating_duration_since(Instant::now());
        if stopped.recv_timeout(wait) != Err(RecvTimeoutError::Timeout) {
            return watched;
        }
    }
}

impl Watched {
    fn look(&mut self, gateway: SocketAddr, process: Process) {
        match ask(gateway, "/healthz") {
            Ok((_, took)) => {
                self.healthz.record(micros(took));
                self.note_late(took);
            }
            Err(_) => self.unanswered += 1,
        }
        let mut kept_bytes = 0;
        match ask(gateway, "/metrics") {
            Ok((body, took)) => {
                self.metrics.record(micros(took));
                self.note_late(took);
                kept_bytes = kept(&body);
            }
            Err(_) => self.unanswered += 1,
        }
        self.samples.push(Sample {
            usage: process.usage(),
            kept_bytes,
            cpu_ticks: process.cpu_ticks(),
        });
    }

    fn note_late(&mut self, took: Duration) {
        if took > ANSWER_MAX {
            self.late += 1;
            let now = self.samples.len();
            self.late_samples = Some((self.late_samples.map_or(now, |(first, _)| first), now));
        }
    }
}

/// Looks once.
pub(crate) fn look(gateway: SocketAddr, process: Process) -> Sample {
    let mut watched = Watched::default();
    watched.look(gateway, process);
    watched.samples.pop().unwrap_or_default()
}

/// Asks on a new connection. Returns the answer and how long it took, from the connection to its end.
fn ask(gateway: SocketAddr, path: &str) -> Result<(String, Duration), Error> {
    let began = Instant::now();
    let mut socket = TcpStream::connect_timeout(&gateway, PATIENCE)?;
    socket.set_read_timeout(Some(PATIENCE))?;
    let request = format!("GET {path} HTTP/1.1\r\nHost: {gateway}\r\nConnection: close\r\n\r\n");
    socket.write_all(request.as_bytes())?;
    let mut answer = String::new();
    socket.read_to_string(&mut answer)?;
    if !answer.starts_with("HTTP/1.1 200 ") {
        return Err(answer.lines().next().unwrap_or_default().into());
    }
    Ok((answer, began.elapsed()))
}

fn kept(metrics: &str) -> u64 {
    let value = |name: &&str| {
        let value = metrics.lines().find_map(|line| line.strip_prefix(name));
        // Gauges are floating-point numbers, without an exponent.
        value.map_or(0, |value| crate::token::decimal(value.as_bytes()))
    };
    KEPT.iter().map(value).sum()
}
