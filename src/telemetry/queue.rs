//! Log lines on their way to standard error.
//!
//! ```text
//! any thread ─ push ─> pending: bytes of whole lines ─ take ─> the writer thread ─> standard error
//!                        '- no room: the line is dropped and counted
//! ```
//!
//! Only the writer waits for standard error. If the pipe is not read, lines are lost but no
//! turn waits. The same applies if the reader has gone or the disk is full.
//!
//! The first line after a silence is written at once. While lines keep coming, the writer pauses after each
//! batch, because waking it for every line costs as much as the line.
//!
//! `tracing-appender` has such a queue, but it prints to standard output and standard error
//! when its writer fails or falls behind, which is exactly when those block.

use std::io::{ErrorKind, Write};
use std::mem;
use std::sync::Arc;
use std::thread;

use memchr::memchr_iter;
use parking_lot::{Condvar, Mutex};
use tracing::warn;

use super::line::push_line;
use super::metrics;
use crate::limits::telemetry::{BATCH_INTERVAL, CLOSE_TIMEOUT, QUEUED_BYTES_MAX, RETRY_INTERVAL};

/// Once this many bytes are pending, they are written without a pause.
const HALF_FULL: usize = QUEUED_BYTES_MAX / 2;

/// The lines to write.
#[derive(Debug, Default)]
pub(super) struct Queue {
    /// Whether the records are coloured, for a terminal.
    is_coloured: bool,
    state: Mutex<State>,
    /// Signals that something is pending, or that the queue was closed.
    pushed: Condvar,
    /// Signals that the writer has ended.
    ended: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// Whole lines.
    pending: Vec<u8>,
    /// How many lines did not fit since the last batch was taken.
    dropped: u64,
    /// Whether the writer has nothing to write.
    is_writer_idle: bool,
    is_closed: bool,
    has_ended: bool,
}

/// One batch for the writer.
#[derive(Debug, PartialEq, Eq)]
struct Batch {
    lines: Vec<u8>,
    /// How many lines after these were dropped.
    dropped: u64,
}

impl Queue {
    pub(super) fn new(is_coloured: bool) -> Self {
        Self { is_coloured, ..Self::default() }
    }

    /// Appends a record as a line, if there is room.
    pub(super) fn push(&self, record: &[u8]) {
        let mut state = self.state.lock();
        let end = state.pending.len();
        let mut has_room = end + record.len() <= QUEUED_BYTES_MAX;
        if has_room {
            push_line(&mut state.pending, record, self.is_coloured);
            // Escaping makes the line longer.
            has_room = state.pending.len() <= QUEUED_BYTES_MAX;
        }
        if !has_room {
            state.pending.truncate(end);
            state.dropped += 1;
        }
        let is_half_full = end < HALF_FULL && state.pending.len() >= HALF_FULL;
        let wakes = mem::take(&mut state.is_writer_idle) || is_half_full;
        drop(state);
        if wakes {
            self.pushed.notify_one();
        }
        if !has_room {
            metrics::log_lines_dropped(1);
        }
    }

    /// Waits until something is pending and takes it; `None` once the queue is closed and
    /// empty.
    fn take(&self) -> Option<Batch> {
        let mut state = self.state.lock();
        while state.pending.is_empty() && state.dropped == 0 && !state.is_closed {
            state.is_writer_idle = true;
            self.pushed.wait(&mut state);
        }
        state.is_writer_idle = false;
        let batch =
            Batch { lines: mem::take(&mut state.pending), dropped: mem::take(&mut state.dropped) };
        let is_empty = batch.lines.is_empty() && batch.dropped == 0;
        (!is_empty).then_some(batch)
    }

    /// Waits a moment, so that lines gather. Returns whether nothing has cut that short.
    fn pause(&self) -> bool {
        let mut state = self.state.lock();
        let may_wait = |state: &mut State| !state.is_closed && state.pending.len() < HALF_FULL;
        self.pushed.wait_while_for(&mut state, may_wait, BATCH_INTERVAL).timed_out()
    }

    /// Writes batches until the queue is closed.
    fn write(&self, mut out: impl Write) {
        let mut lost = 0;
        while let Some(batch) = self.take() {
            let unwritten = write_lines(&mut out, &batch.lines);
            metrics::log_lines_dropped(unwritten);
            lost += unwritten + batch.dropped;
            // If these lines cannot be written, neither can this warning.
            if unwritten == 0 && lost > 0 {
                let lines = mem::take(&mut lost);
                warn!(lines, "log lines were dropped because standard error was blocked or closed");
            }
            self.pause();
        }
        self.state.lock().has_ended = true;
        self.ended.notify_all();
    }
}

/// Writes whole lines. Returns how many could not be written, including one that was cut.
#[expect(clippy::disallowed_methods, reason = "this thread has no event to wait for")]
fn write_lines(out: &mut impl Write, lines: &[u8]) -> u64 {
    let mut rest = lines;
    while !rest.is_empty() {
        match out.write(rest) {
            Ok(written @ 1..) => rest = &rest[written..],
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            // Another program made the pipe or the terminal non-blocking.
            Err(error) if error.kind() == ErrorKind::WouldBlock => thread::sleep(RETRY_INTERVAL),
            Ok(0) | Err(_) => return memchr_iter(b'\n', rest).count() as u64,
        }
    }
    0
}

/// The logs of this process. Dropping it waits until all lines are written, for at most
/// [`CLOSE_TIMEOUT`].
#[derive(Debug)]
#[must_use = "dropping this loses all later log lines"]
pub(crate) struct Logs(Arc<Queue>);

impl Logs {
    /// Starts a thread that writes the lines of `queue`.
    pub(super) fn write(
        queue: Arc<Queue>,
        out: impl Write + Send + 'static,
    ) -> std::io::Result<Self> {
        let logs = Self(Arc::clone(&queue));
        thread::Builder::new().name("logs".to_owned()).spawn(move || queue.write(out))?;
        Ok(logs)
    }
}

impl Drop for Logs {
    fn drop(&mut self) {
        let mut state = self.0.state.lock();
        state.is_closed = true;
        self.0.pushed.notify_one();
        let is_busy = |state: &mut State| !state.has_ended;
        self.0.ended.wait_while_for(&mut state, is_busy, CLOSE_TIMEOUT);
    }
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::sync::mpsc::{Receiver, Sender, channel};

    use tokio::time::Instant;

    use super::*;

    /// Accepts a write only when the test allows it.
    struct Slow {
        go: Receiver<io::Result<()>>,
        written: Sender<Vec<u8>>,
    }

    impl Write for Slow {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.go.recv().map_err(io::Error::other)??;
            self.written.send(bytes.to_vec()).map_err(io::Error::other)?;
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// A queue with a slow writer.
    struct Scene {
        queue: Arc<Queue>,
        logs: Logs,
        /// Allows a write, or makes it fail.
        go: Sender<io::Result<()>>,
        written: Receiver<Vec<u8>>,
    }

    fn scene() -> Scene {
        let ((go, gone), (write, written)) = (channel(), channel());
        let queue = Arc::new(Queue::default());
        let logs = Logs::write(Arc::clone(&queue), Slow { go: gone, written: write }).unwrap();
        Scene { queue, logs, go, written }
    }

    fn line(length: usize) -> Vec<u8> {
        let mut line = vec![b'x'; length - 1];
        line.push(b'\n');
        line
    }

    #[test]
    fn lines_are_taken_up_to_the_bound_and_dropped_over_it() {
        let queue = Queue::default();
        queue.push(&line(QUEUED_BYTES_MAX - 1));
        queue.push(&line(2));
        queue.push(&line(1));
        queue.push(&line(1));
        let batch = queue.take().unwrap();
        assert_eq!((batch.lines.len(), batch.dropped), (QUEUED_BYTES_MAX, 2));
        queue.push(&line(5));
        assert_eq!(queue.take(), Some(Batch { lines: line(5), dropped: 0 }));
    }

    /// Accepts a few bytes or fails, following a script.
    struct Scripted {
        script: Vec<io::Result<usize>>,
        written: Vec<u8>,
    }

    impl Write for Scripted {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let taken = self.script.pop().unwrap_or(Ok(bytes.len()))?.min(bytes.len());
            self.written.extend_from_slice(&bytes[..taken]);
            Ok(taken)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_full_writer_is_retried_and_a_failing_one_loses_the_rest() {
        let full = || Err(ErrorKind::WouldBlock.into());
        let mut out = Scripted { script: vec![full(), Ok(3), full()], written: Vec::new() };
        assert_eq!(write_lines(&mut out, b"one\ntwo\n"), 0);
        assert_eq!(out.written, b"one\ntwo\n");
        let gone = Err(ErrorKind::StorageFull.into());
        let mut out = Scripted { script: vec![gone, Ok(6)], written: Vec::new() };
        assert_eq!(write_lines(&mut out, b"one\ntwo\nthree\n"), 2);
    }

    #[test]
    fn only_the_writer_waits_for_a_slow_reader() {
        let Scene { queue, logs, go, written } = scene();
        for _ in 0..3 * QUEUED_BYTES_MAX / 1024 {
            queue.push(&line(1024));
        }
        go.send(Ok(())).unwrap();
        assert_eq!(written.recv().unwrap().len() % 1024, 0);
        drop(go);
        drop(logs);
    }

    #[test]
    fn pushed_lines_are_written_before_the_end() {
        let Scene { queue, logs, go, written } = scene();
        queue.push(b"first\n");
        go.send(Ok(())).unwrap();
        assert_eq!(written.recv().unwrap(), b"first\n");
        queue.push(b"second\n");
        go.send(Ok(())).unwrap();
        drop(logs);
        assert_eq!(written.recv().unwrap(), b"second\n");
    }

    #[test]
    fn lines_gather_until_half_of_the_queue_is_full() {
        let queue = Queue::default();
        queue.push(b"first\n");
        let begun = Instant::now();
        assert!(queue.pause());
        assert!(begun.elapsed() >= BATCH_INTERVAL);
        queue.push(&line(HALF_FULL));
        assert!(!queue.pause());
    }

    #[test]
    fn a_queue_that_is_closed_is_written_without_a_pause() {
        let queue = Queue::default();
        queue.state.lock().is_closed = true;
        assert!(!queue.pause());
        assert_eq!(queue.take(), None);
    }

    #[test]
    fn a_failing_writer_continues() {
        let Scene { queue, logs, go, written } = scene();
        queue.push(b"lost\n");
        go.send(Err(ErrorKind::BrokenPipe.into())).unwrap();
        while !queue.state.lock().pending.is_empty() {
            thread::yield_now();
        }
        queue.push(b"written\n");
        go.send(Ok(())).unwrap();
        assert_eq!(written.recv().unwrap(), b"written\n");
        drop(logs);
    }
}
