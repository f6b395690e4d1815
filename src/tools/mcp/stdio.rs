//! Messages over a process's standard input and output, one per line.

use std::collections::HashSet;
use std::io;
use std::sync::Arc;

use parking_lot::Mutex;
use rmcp::RoleClient;
use rmcp::model::{ErrorData, RequestId, ServerJsonRpcMessage};
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::{ChildStdin, ChildStdout};
use tokio::sync::Mutex as AsyncMutex;
use tokio_util::sync::CancellationToken;
use tracing::debug;

use super::message;
use crate::limits::KIB;
use crate::limits::mcp::MESSAGE_BYTES_MAX;
use crate::text::quote;

/// A process's standard input and output.
#[derive(Debug)]
pub(super) struct Stdio {
    input: Arc<AsyncMutex<Option<ChildStdin>>>,
    output: ChildStdout,
    lines: Lines,
    /// Requests whose results we read ourselves.
    raw: Arc<Mutex<HashSet<RequestId>>>,
    /// Set once the process has exited, though its children may still hold the output.
    exited: CancellationToken,
}

impl Stdio {
    pub(super) fn new(input: ChildStdin, output: ChildStdout, exited: CancellationToken) -> Self {
        Self {
            exited,
            input: Arc::new(AsyncMutex::new(Some(input))),
            output,
            lines: Lines::default(),
            raw: Arc::default(),
        }
    }

    /// Reads a line. Anything that is not a message is skipped: many servers print banners.
    fn read(&self, line: &Line) -> Option<ServerJsonRpcMessage> {
        let text = match line {
            Line::Whole(bytes) => match std::str::from_utf8(bytes) {
                Ok(text) => text.trim(),
                Err(_) => return None,
            },
            Line::TooLong(beginning) => {
                let id = id_of(beginning)?;
                let mib = MESSAGE_BYTES_MAX / crate::limits::MIB;
                let message = format!("the server answered with more than {mib} MiB");
                return Some(ServerJsonRpcMessage::error(
                    ErrorData::internal_error(message, None),
                    Some(id),
                ));
            }
        };
        if text.is_empty() {
            return None;
        }
        let raw = !self.raw.lock().is_empty();
        let read = message::read(text, raw && self.is_raw_answer(text));
        if let Err(error) = &read {
            debug!(line = quote(text), %error, "a line that is not a message");
        }
        read.ok()
    }

    fn is_raw_answer(&self, text: &str) -> bool {
        #[derive(serde::Deserialize)]
        struct Answer {
            id: RequestId,
        }
        let Ok(Answer { id }) = serde_json::from_str(text) else { return false };
        self.raw.lock().remove(&id)
    }
}

impl Transport<RoleClient> for Stdio {
    type Error = io::Error;

    fn send(
        &mut self,
        message: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = io::Result<()>> + Send + 'static {
        if let (true, TxJsonRpcMessage::<RoleClient>::Request(request)) =
            (message::is_raw(&message), &message)
        {
            self.raw.lock().insert(request.id.clone());
        }
        let input = Arc::clone(&self.input);
        async move {
            let mut line = serde_json::to_vec(&message)?;
            line.push(b'\n');
            let mut input = input.lock().await;
            let pipe = input.as_mut().ok_or(io::ErrorKind::BrokenPipe)?;
            pipe.write_all(&line).await?;
            pipe.flush().await
        }
    }

    /// Dropping the future loses nothing.
    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        loop {
            while let Some(line) = self.lines.next() {
                if let Some(message) = self.read(&line) {
                    return Some(message);
                }
            }
            let room = self.lines.room();
            let read = tokio::select! {
                biased;
                read = self.output.read_buf(room) => read.ok(),
                () = self.exited.cancelled() => None,
            };
            if !matches!(read, Some(1..)) {
                return None;
            }
        }
    }

    async fn close(&mut self) -> io::Result<()> {
        *self.input.lock().await = None;
        Ok(())
    }
}

/// Bytes on their way to lines.
///
/// ```text
///   |-- read already --|-- lines that are complete --|-- the beginning of one --|
///                      ^ begin                        ^ searched up to here
/// ```
#[derive(Debug, Default)]
struct Lines {
    buffer: Vec<u8>,
    begin: usize,
    searched: usize,
    /// Whether the rest of a line is thrown away, because the line is too long.
    is_skipping: bool,
}

/// A line without its end.
#[derive(Debug, PartialEq, Eq)]
enum Line {
    Whole(Vec<u8>),
    /// The beginning of a line that is too long.
    TooLong(Vec<u8>),
}

/// How much is read at once.
const READ_BYTES: usize = 8 * KIB;
/// The largest capacity that a buffer keeps after a long line.
const KEPT_BYTES: usize = 64 * KIB;
/// What is kept of a line that is too long: enough for its id.
const BEGINNING_BYTES: usize = 256;

impl Lines {
    /// The buffer, to append bytes to.
    fn room(&mut self) -> &mut Vec<u8> {
        self.buffer.drain(..self.begin);
        self.searched -= self.begin;
        self.begin = 0;
        if self.buffer.is_empty() && self.buffer.capacity() > KEPT_BYTES {
            self.buffer = Vec::new();
        }
        self.buffer.reserve(READ_BYTES);
        &mut self.buffer
    }

    fn next(&mut self) -> Option<Line> {
        loop {
            let Some(found) = memchr::memchr(b'\n', &self.buffer[self.searched..]) else {
                self.searched = self.buffer.len();
                return self.give_up();
            };
            let end = self.searched + found;
            let line = &self.buffer[self.begin..end];
            self.begin = end + 1;
            self.searched = self.begin;
            if !std::mem::take(&mut self.is_skipping) {
                return Some(if line.len() > MESSAGE_BYTES_MAX {
                    Line::TooLong(line[..BEGINNING_BYTES].to_vec())
                } else {
                    Line::Whole(line.to_vec())
                });
            }
        }
    }

    /// Throws away the beginning of a line that is too long.
    fn give_up(&mut self) -> Option<Line> {
        let begun = &self.buffer[self.begin..];
        if !self.is_skipping && begun.len() <= MESSAGE_BYTES_MAX {
            return None;
        }
        let beginning = begun[..begun.len().min(BEGINNING_BYTES)].to_vec();
        self.buffer = Vec::new();
        (self.begin, self.searched) = (0, 0);
        let is_first = !std::mem::replace(&mut self.is_skipping, true);
        is_first.then_some(Line::TooLong(beginning))
    }
}

/// The id in the beginning of a message, if it is a number.
fn id_of(beginning: &[u8]) -> Option<RequestId> {
    let text = String::from_utf8_lossy(beginning);
    let (_, after) = text.split_once("\"id\"")?;
    let number = after.trim_start().strip_prefix(':')?.trim_start();
    let end = number.find(|char: char| !char.is_ascii_digit())?;
    Some(RequestId::Number(number[..end].parse().ok()?))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn lines(chunks: impl Iterator<Item = Vec<u8>>) -> Vec<Line> {
        let mut lines = Lines::default();
        let mut read = Vec::new();
        for chunk in chunks {
            lines.room().extend_from_slice(&chunk);
            while let Some(line) = lines.next() {
                read.push(line);
            }
        }
        read
    }

    proptest! {
        #[test]
        fn lines_are_the_same_however_they_are_cut(
            text in "[ab\n]{0,60}",
            size in 1_usize..10,
        ) {
            let whole: Vec<Line> = match text.rsplit_once('\n') {
                Some((complete, _)) => complete
                    .split('\n')
                    .map(|line| Line::Whole(line.as_bytes().to_vec()))
                    .collect(),
                None => Vec::new(),
            };
            let chunks = text.as_bytes().chunks(size).map(<[u8]>::to_vec);
            prop_assert_eq!(lines(chunks), whole);
        }
    }

    #[test]
    fn a_line_that_is_too_long_is_known_by_its_beginning_and_the_next_is_read() {
        for size in [1 << 16, MESSAGE_BYTES_MAX * 2 + 100] {
            let long = |bytes: usize| {
                let mut line = br#"{"jsonrpc":"2.0","id": 12,"result":""#.to_vec();
                line.resize(bytes, b'x');
                line
            };
            let text = [
                long(MESSAGE_BYTES_MAX),
                b"\n".to_vec(),
                long(MESSAGE_BYTES_MAX + 1),
                b"\nnext\n".to_vec(),
            ]
            .concat();
            let read = lines(text.chunks(size).map(<[u8]>::to_vec));
            let [Line::Whole(whole), Line::TooLong(beginning), Line::Whole(next)] = &read[..]
            else {
                panic!("{} lines", read.len());
            };
            assert_eq!((whole.len(), &next[..]), (MESSAGE_BYTES_MAX, &b"next"[..]));
            assert_eq!(id_of(beginning), Some(RequestId::Number(12)));
        }
    }
}
