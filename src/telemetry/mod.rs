//! Logs and metrics. Logs are filtered by `TETHER_LOG`, as text or JSON lines, on standard error.
//!
//! What to log at which level is house style (CONTRIBUTING.md); this file only
//! decides where lines go and what they look like.

pub mod metrics;

use std::io::{self, IsTerminal as _, Write};

use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::{Directive, LevelFilter};
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::util::SubscriberInitExt as _;

/// The environment variable that filters logs.
pub const FILTER_VARIABLE: &str = "TETHER_LOG";

/// How logs are written.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum LogFormat {
    /// Lines for people.
    #[default]
    Text,
    /// One JSON object a line.
    Json,
}

/// Why logs cannot be written.
#[derive(Debug, thiserror::Error)]
pub enum TelemetryError {
    /// The variable holds no filter.
    #[error(
        "{FILTER_VARIABLE}: {0}; expected a filter such as `info`, `debug` or `warn,tether=trace`"
    )]
    Filter(#[from] tracing_subscriber::filter::FromEnvError),
    /// Something else receives the logs of this process already.
    #[error("logs are set up already: {0}")]
    AlreadySet(#[from] tracing_subscriber::util::TryInitError),
}

/// Sends the logs of this process to standard error, level `info` and above
/// where `TETHER_LOG` says nothing else. Colours are for terminals alone.
///
/// # Errors
/// A filter that cannot be read; a second call.
pub fn init(format: LogFormat) -> Result<(), TelemetryError> {
    let filter = EnvFilter::builder()
        .with_default_directive(Directive::from(LevelFilter::INFO))
        .with_env_var(FILTER_VARIABLE)
        .from_env()?;
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_writer(StderrLines);
    match format {
        LogFormat::Text => builder.with_ansi(io::stderr().is_terminal()).finish().try_init()?,
        LogFormat::Json => builder.json().flatten_event(true).finish().try_init()?,
    }
    Ok(())
}

/// Writes each record as one line of standard error.
struct StderrLines;

impl<'a> MakeWriter<'a> for StderrLines {
    type Writer = Line<io::StderrLock<'a>>;

    fn make_writer(&'a self) -> Self::Writer {
        Line(io::stderr().lock())
    }
}

/// Keeps a record on its line: what a peer sent cannot forge further records.
/// The formatter escapes what would steer a terminal; colours are its own.
struct Line<W>(W);

impl<W: Write> Write for Line<W> {
    /// Takes a whole record, as the formatter hands it over.
    fn write(&mut self, record: &[u8]) -> io::Result<usize> {
        let (text, end) = match record.strip_suffix(b"\n") {
            Some(text) => (text, &b"\n"[..]),
            None => (record, &b""[..]),
        };
        for piece in text.split_inclusive(|byte| is_control(*byte)) {
            match piece.split_last() {
                Some((control, before)) if is_control(*control) => {
                    self.0.write_all(before)?;
                    write!(self.0, "{}", control.escape_ascii())?;
                }
                _ => self.0.write_all(piece)?,
            }
        }
        self.0.write_all(end)?;
        Ok(record.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

/// Escape, which colours begin with, is left to the formatter.
const fn is_control(byte: u8) -> bool {
    byte.is_ascii_control() && byte != b'\t' && byte != 0x1b
}

/// A duration for a log line or an event, in milliseconds: a number, which a 128-bit one
/// is not to JSON.
pub(crate) fn millis(duration: std::time::Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(record: &str, line: &str) {
        let mut out = Vec::new();
        Line(&mut out).write_all(record.as_bytes()).unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), line);
    }

    #[test]
    fn a_record_stays_on_one_line() {
        check("INFO plain\n", "INFO plain\n");
        check("INFO a\nINFO forged\n", "INFO a\\nINFO forged\n");
        check("INFO a\r\nb\n", "INFO a\\r\\nb\n");
        check("\0INFO\n\n", "\\x00INFO\\n\n");
        check("tab\tand ünïcode\n", "tab\tand ünïcode\n");
        check("no end", "no end");
        check("", "");
    }
}
