//! Messages over a process's standard input and output, one per line.

#[cfg(any(test, fuzzing))]
pub(super) mod fuzz;
mod lines;
mod program;

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;

use parking_lot::Mutex;
use rmcp::RoleClient;
use rmcp::model::{ClientNotification, RequestId, ServerJsonRpcMessage};
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::{ChildStdin, ChildStdout};
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;
use tracing::debug;

use crate::limits::mcp::{OUTGOING_LINES_MAX, RAW_ANSWERS_MAX};
use crate::text::quote;
use crate::tools::mcp::message;
use crate::tools::process::Throttled;
use lines::{Line, Lines};

pub(super) use program::Program;

/// A process's standard input and output.
#[derive(Debug)]
pub(super) struct Stdio {
    /// `None` once it is closed.
    input: Option<Input>,
    output: Throttled<ChildStdout>,
    lines: Lines,
    raw: Arc<Mutex<Raw>>,
    /// Set once the process has exited, though its children may still hold the output.
    exited: CancellationToken,
}

impl Stdio {
    pub(super) fn new(
        input: ChildStdin,
        output: Throttled<ChildStdout>,
        exited: CancellationToken,
    ) -> Self {
        Self {
            exited,
            input: Some(Input::new(input)),
            output,
            lines: Lines::default(),
            raw: Arc::default(),
        }
    }

    /// Reads a line. Anything that is not a message is skipped: many servers print banners.
    fn read(&self, line: &Line) -> Option<ServerJsonRpcMessage> {
        let text = match line {
            Line::Whole(bytes) => String::from_utf8_lossy(bytes),
            Line::TooLong(answered) => {
                let id = self.raw.lock().take_answered(*answered)?;
                return Some(ServerJsonRpcMessage::error(message::too_long(), Some(id)));
            }
        };
        let text = text.trim();
        if text.is_empty() {
            return None;
        }
        let answered = self.answered(text);
        match (message::read(text, answered.is_some()), answered) {
            (Ok(message), _) => Some(message),
            // Whoever waits for it must not wait any longer.
            (Err(_), Some(id)) => {
                Some(ServerJsonRpcMessage::error(message::unreadable(), Some(id)))
            }
            (Err(error), None) => {
                debug!(line = quote(text), %error, "a line that is not a message");
                None
            }
        }
    }

    /// The request that a message answers, if we read its result ourselves. The server's own
    /// requests have ids too, which may be the same.
    fn answered(&self, text: &str) -> Option<RequestId> {
        #[derive(serde::Deserialize)]
        struct Answer {
            id: RequestId,
            method: Option<serde::de::IgnoredAny>,
        }
        if self.raw.lock().open.is_empty() {
            return None;
        }
        let Ok(Answer { id, method: None }) = serde_json::from_str(text) else { return None };
        let id = message::as_sent(id);
        self.raw.lock().remove(&id).then_some(id)
    }
}

/// A process's standard input. One task writes to it, in the order in which messages are sent. Dropping this closes the
/// pipe, even if the process does not read and a message is stuck in it.
#[derive(Debug)]
struct Input {
    lines: mpsc::Sender<OutgoingLine>,
    _writer: AbortOnDropHandle<()>,
}

#[derive(Debug)]
struct OutgoingLine {
    line: Vec<u8>,
    written: oneshot::Sender<io::Result<()>>,
}

impl Input {
    fn new(mut pipe: ChildStdin) -> Self {
        let (lines, mut outgoing) = mpsc::channel::<OutgoingLine>(OUTGOING_LINES_MAX);
        let writer = tokio::spawn(async move {
            while let Some(OutgoingLine { mut line, written }) = outgoing.recv().await {
                line.push(b'\n');
                let writing = async {
                    pipe.write_all(&line).await?;
                    pipe.flush().await
                };
                // There may be nobody left who waits for it.
                let _ = written.send(writing.await);
            }
        });
        Self { lines, _writer: AbortOnDropHandle::new(writer) }
    }

    /// Writes this line after those before it. Fails if the input is closed before that.
    fn write(&self, line: Vec<u8>) -> impl Future<Output = io::Result<()>> + Send + 'static {
        let (written, end) = oneshot::channel();
        let waits = match self.lines.try_send(OutgoingLine { line, written }) {
            Err(TrySendError::Full(line)) => Some((self.lines.clone(), line)),
            Ok(()) | Err(TrySendError::Closed(_)) => None,
        };
        async move {
            if let Some((lines, line)) = waits {
                // If it fails, the line's other end is gone, too.
                let _ = lines.send(line).await;
            }
            end.await.unwrap_or_else(|_| Err(io::ErrorKind::BrokenPipe.into()))
        }
    }
}

/// Requests whose results we read ourselves, the oldest first.
#[derive(Debug, Default)]
struct Raw {
    open: VecDeque<RequestId>,
}

impl Raw {
    /// Notes what a message of ours begins, or gives up.
    fn note(&mut self, message: &TxJsonRpcMessage<RoleClient>) {
        match message {
            TxJsonRpcMessage::<RoleClient>::Request(request) if message::is_raw(message) => {
                // Only the oldest may be one that nobody waits for any more.
                while self.open.len() >= RAW_ANSWERS_MAX {
                    self.open.pop_front();
                }
                self.open.push_back(request.id.clone());
            }
            TxJsonRpcMessage::<RoleClient>::Notification(sent) => {
                if let ClientNotification::CancelledNotification(cancelled) = &sent.notification
                    && let Some(id) = &cancelled.params.request_id
                {
                    self.remove(id);
                }
            }
            _ => {}
        }
    }

    fn remove(&mut self, id: &RequestId) -> bool {
        let at = self.open.iter().position(|open| open == id);
        at.and_then(|at| self.open.remove(at)).is_some()
    }

    /// The request that an answer belongs to of which no more than the id is known, or not even
    /// that: then it is the only one.
    fn take_answered(&mut self, id: Option<i64>) -> Option<RequestId> {
        let id = match (id, self.open.len()) {
            (Some(id), _) => RequestId::Number(id),
            (None, 1) => self.open.front()?.clone(),
            (None, _) => return None,
        };
        self.remove(&id);
        Some(id)
    }
}

impl Transport<RoleClient> for Stdio {
    type Error = io::Error;

    fn send(
        &mut self,
        message: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = io::Result<()>> + Send + 'static {
        self.raw.lock().note(&message);
        let line = serde_json::to_vec(&message).map_err(io::Error::from);
        let written = line.map(|line| self.input.as_ref().map(|input| input.write(line)));
        async move { written?.ok_or(io::ErrorKind::BrokenPipe)?.await }
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

    /// The process need not read any more for that.
    async fn close(&mut self) -> io::Result<()> {
        self.input = None;
        Ok(())
    }
}
