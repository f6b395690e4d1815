//! What `tether tools call` prints: the result on one line, or the events that a turn would send.

use std::io::{self, Write};
use std::time::Duration;

use serde::Serialize;
use serde_json::Value;
use serde_json::value::RawValue;
use tokio::time::Instant;

use crate::cli::{CliError, print_diagnostic};
use crate::event::Event;
use crate::limits::tools::PROGRESS_INTERVAL;
use crate::telemetry::millis;
use crate::terminal;
use crate::tools::reported::Reported;
use crate::tools::{Progress, ToolResult};

/// What is printed.
pub(super) struct Lines<'c, W> {
    out: &'c mut W,
    are_events: bool,
    name: &'c str,
    begun: Instant,
    reported: Reported,
}

impl<'c, W: Write> Lines<'c, W> {
    /// Prints what comes of a call of the tool with this name, which begins now.
    pub(super) fn new(out: &'c mut W, are_events: bool, name: &'c str) -> Self {
        Self { out, are_events, name, begun: Instant::now(), reported: Reported::default() }
    }

    fn event(&mut self, event: &Event<'_>) -> Result<(), CliError> {
        if self.are_events {
            self.json(event)?;
        }
        Ok(())
    }

    /// Prints a value on a line of its own.
    fn json(&mut self, value: &impl Serialize) -> Result<(), CliError> {
        let json = serde_json::to_string(value).map_err(io::Error::from)?;
        writeln!(self.out, "{}", terminal::spelled_out(&json, &[]))?;
        self.out.flush()?;
        Ok(())
    }

    pub(super) fn started(&mut self, arguments: &Value) -> Result<(), CliError> {
        let raw = RawValue::from_string(arguments.to_string()).map_err(io::Error::from)?;
        let (call_id, tool_name) = (CALL_ID, self.name);
        self.event(&Event::ToolStarted { call_id, tool_name, tool_args: &raw, r#loop: 1 })
    }

    /// Takes a report, and prints it unless it is too early.
    pub(super) fn report(&mut self, progress: Progress, attempt: u32) -> Result<(), CliError> {
        self.reported.take(progress, attempt);
        self.report_due()
    }

    /// When the next report is due.
    pub(super) fn due(&self) -> Option<Instant> {
        self.reported.due_ms().map(|due| self.begun + Duration::from_millis(due))
    }

    /// Prints the report that is due, if there is one.
    pub(super) fn report_due(&mut self) -> Result<(), CliError> {
        let now = millis(self.begun.elapsed());
        let progress = self.reported.take_due(now, now + millis(PROGRESS_INTERVAL));
        progress.map_or(Ok(()), |progress| self.progress(&progress))
    }

    fn progress(&mut self, progress: &Progress) -> Result<(), CliError> {
        let Progress { progress, total, message } = progress;
        let (progress, total, message) = (*progress, *total, message.as_deref());
        if !self.are_events {
            let of = total.map(|total| format!("/{total}")).unwrap_or_default();
            let message = message.unwrap_or_default();
            print_diagnostic("progress", format!("{progress}{of} {message}"));
        }
        let (call_id, tool_name) = (CALL_ID, self.name);
        self.event(&Event::ToolProgress { call_id, tool_name, progress, total, message })
    }

    /// Prints the last report and the result.
    pub(super) fn result(&mut self, result: &ToolResult, attempts: u32) -> Result<(), CliError> {
        if let Some(progress) = self.reported.take_last() {
            self.progress(&progress)?;
        }
        if self.are_events {
            return self.event(&Event::ToolCompleted {
                call_id: CALL_ID,
                tool_name: self.name,
                tool_result: result,
                duration_ms: millis(self.begun.elapsed()),
                attempts,
            });
        }
        self.json(&*result.shown())
    }
}

/// The id of the only call.
const CALL_ID: &str = "call_1";
