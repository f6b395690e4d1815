//! A server's process, watched until it ends.

use std::sync::Arc;

use tokio::process::{ChildStdin, ChildStdout};
use tokio::sync::watch;
use tokio::time::timeout;
use tokio_util::sync::{CancellationToken, DropGuard};
use tracing::debug;

use crate::limits::mcp::{EXIT_WAIT, STDERR_WAIT};
use crate::limits::process::CLOSE_WAIT;
use crate::tools::keys::Keys;
use crate::tools::process::{Child, Options, ProcessError, Throttled, describe};

/// A server's process. **Dropping it ends the process and everything that it has started.**
#[derive(Debug)]
pub(in crate::tools::mcp) struct Program {
    /// Set once the process has exited. What it has started may still hold its output.
    pub(in crate::tools::mcp) exited: CancellationToken,
    end: watch::Receiver<Option<Arc<str>>>,
    _stop: DropGuard,
}

/// Its input and output.
type Pipes = (ChildStdin, Throttled<ChildStdout>);

impl Program {
    /// Starts a process. Its standard error goes to the log, without these keys.
    ///
    /// # Errors
    /// See [`ProcessError`].
    pub(in crate::tools::mcp) fn start(
        name: Arc<str>,
        options: &Options,
        keys: Arc<Keys>,
    ) -> Result<(Self, Option<Pipes>), ProcessError> {
        let on_line = Box::new(move |line: &str| {
            debug!(server = &*name, line = keys.hidden(line.to_owned()), "stderr");
        });
        let mut child = Child::start(options, Some(on_line))?;
        let pipes = child.stdin.take().zip(child.stdout.take());
        let (exited, stop) = (CancellationToken::new(), CancellationToken::new());
        let (sender, end) = watch::channel(None);
        tokio::spawn(watch_over(child, exited.clone(), stop.clone(), sender));
        Ok((Self { exited, end, _stop: stop.drop_guard() }, pipes))
    }

    /// How it ended, once its output is closed.
    pub(in crate::tools::mcp) async fn told_end(&self) -> String {
        let mut end = self.end.clone();
        let ended = timeout(EXIT_WAIT, end.wait_for(Option::is_some)).await;
        match ended {
            Ok(Ok(told)) => told.as_deref().unwrap_or_default().to_owned(),
            _ => "the server closed its output".to_owned(),
        }
    }
}

async fn watch_over(
    mut child: Child,
    exited: CancellationToken,
    stop: CancellationToken,
    end: watch::Sender<Option<Arc<str>>>,
) {
    let status = tokio::select! {
        status = child.wait() => Some(status),
        () = stop.cancelled() => None,
    };
    if let Some(status) = status {
        let how = status.map_or_else(|error| error.to_string(), describe);
        // Its last words may still be in the pipe.
        child.drain_stderr(STDERR_WAIT).await;
        let told = match child.stderr.reason() {
            line if line.is_empty() => format!("the server ended: {how}"),
            line => format!("the server ended: {how}; {line}"),
        };
        end.send_replace(Some(told.into()));
    } else {
        // Its input has been closed.
        let _ = timeout(CLOSE_WAIT, child.wait()).await;
    }
    exited.cancel();
    child.end().await;
}
