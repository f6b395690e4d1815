//! Runs a program for one call.

use std::ffi::OsString;
use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::{ChildStdin, ChildStdout};
use tokio::time::timeout;
use tokio_util::task::AbortOnDropHandle;

use super::output::{self, Stdout};
use super::progress::Lines;
use super::{Input, ProgressFrom, Shared, template};
use crate::limits::process::KILL_WAIT;
use crate::tools::process::{Child, OnLine, Options, Throttled};
use crate::tools::{CallContext, Reporter, ToolFault, ToolResult};

/// Runs the program and waits for its end. Dropping the future ends the program.
pub(super) async fn run(
    shared: &Shared,
    arguments: Value,
    context: CallContext,
) -> Result<ToolResult, ToolFault> {
    let filled = match shared.template.fill(&arguments) {
        Ok(filled) => filled,
        Err(reason) => return Ok(ToolResult::error(reason)),
    };
    let options = Options {
        arguments: filled.into_iter().map(OsString::from).collect(),
        session: Some(context.session),
        ..shared.process.clone()
    };
    let on_line = (shared.progress == ProgressFrom::Stderr).then(|| report_to(context.reporter));
    let started = Child::start(&options, on_line);
    let mut child = started.map_err(|error| ToolFault::permanent(error.to_string()))?;

    let stdout = Arc::new(Mutex::new(Stdout::default()));
    let reading = child.stdout.take().map(|pipe| spawn(read(pipe, Arc::clone(&stdout))));
    let input = input(&shared.stdin, &arguments);
    let _writing = child.stdin.take().map(|pipe| spawn(write(pipe, input)));
    let status = child.wait().await;
    // Its children end with it. Until then, they may hold the pipe open.
    let stderr = child.finish().await;
    if let Some(reading) = reading {
        let _ = timeout(KILL_WAIT, reading).await;
    }
    let status = status.map_err(|error| {
        ToolFault::permanent(format!("cannot tell how the program ended: {error}"))
    })?;
    let stdout = std::mem::take(&mut *stdout.lock());
    Ok(output::result(status, &shared.ok_exit_codes, &stdout, &stderr, shared.output))
}

fn spawn(io: impl Future<Output = ()> + Send + 'static) -> AbortOnDropHandle<()> {
    AbortOnDropHandle::new(tokio::spawn(io))
}

/// Reads until the pipe closes, even beyond the limit, or the program would block.
async fn read(mut pipe: Throttled<ChildStdout>, stdout: Arc<Mutex<Stdout>>) {
    let mut chunk = [0; 8192];
    while let Ok(read @ 1..) = pipe.read(&mut chunk).await {
        stdout.lock().push(&chunk[..read]);
    }
}

/// Writes the input and closes the pipe. A program need not read it.
async fn write(mut pipe: ChildStdin, input: Vec<u8>) {
    let _ = pipe.write_all(&input).await;
}

fn input(stdin: &Input, arguments: &Value) -> Vec<u8> {
    match stdin {
        Input::None => Vec::new(),
        Input::Arguments => format!("{arguments}\n").into_bytes(),
        Input::Parameter(name) => {
            arguments.get(name).map(template::text).unwrap_or_default().into_bytes()
        }
    }
}

/// Reports each line as progress.
fn report_to(reporter: Reporter) -> OnLine {
    let mut lines = Lines::default();
    Box::new(move |line| {
        if !line.trim().is_empty() {
            reporter.progress(lines.read(line));
        }
    })
}
