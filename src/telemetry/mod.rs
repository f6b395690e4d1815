//! Logs and metrics. Logs go to standard error as text or JSON lines, filtered by `TETHER_LOG`.
//!
//! CONTRIBUTING.md says what to log at which level. This module only decides where lines go and
//! what they look like.

pub(crate) mod buckets;
mod line;
pub(crate) mod metrics;
pub(crate) mod otlp;
mod plain;
mod queue;
pub(crate) mod seldom;
mod span_data;
pub(crate) mod trace;

use std::backtrace::{Backtrace, BacktraceStatus};
use std::io::{self, IsTerminal as _, Write};
use std::panic;
use std::str::FromStr as _;
use std::sync::Arc;
use std::thread;

use tracing::{Level, enabled, error};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::{Directive, LevelFilter};
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::fmt::time::SystemTime;
use tracing_subscriber::util::SubscriberInitExt as _;

use self::plain::{PlainFields, PlainLines};
pub(crate) use self::queue::Logs;
use self::queue::Queue;

/// The environment variable that filters logs.
pub(crate) const FILTER_VARIABLE: &str = "TETHER_LOG";

/// The format of log lines.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum LogFormat {
    /// Lines for humans.
    #[default]
    Text,
    /// One JSON object per line.
    Json,
}

/// Why logging cannot be set up.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TelemetryError {
    /// The variable is not a valid filter.
    #[error(
        "{FILTER_VARIABLE}: {0}; expected a filter such as `info`, `debug` or `warn,tether=trace`"
    )]
    Filter(#[from] tracing_subscriber::filter::ParseError),
    /// It would show the logs of a target of this name, and so probably none.
    #[error(
        "{FILTER_VARIABLE}: `{0}` is not a level; expected error, warn, info, debug, trace or off. \
         For a target of this name, write `{0}=debug`"
    )]
    NotALevel(String),
    /// Another subscriber already receives this process's logs.
    #[error("logging is already set up: {0}")]
    AlreadySet(#[from] tracing_subscriber::util::TryInitError),
    /// The system has no thread for writing logs.
    #[error("cannot write logs: {0}")]
    NoThread(#[from] io::Error),
}

/// Sends the logs of this process to standard error, at this level and above unless `TETHER_LOG`
/// says otherwise. Uses colours only on a terminal. Panics are logged as well.
///
/// # Errors
/// If the filter is invalid, if this is called twice, or if no thread can be started.
pub(crate) fn init(format: LogFormat, level: LevelFilter) -> Result<Logs, TelemetryError> {
    let filter = filter(level)?;
    let is_coloured = format == LogFormat::Text && io::stderr().is_terminal();
    let queue = Arc::new(Queue::new(is_coloured));
    let records = Records(Arc::clone(&queue));
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_writer(records);
    match format {
        LogFormat::Text if is_coloured => builder.with_ansi(true).finish().try_init()?,
        LogFormat::Text => {
            let builder = builder.with_ansi(false).fmt_fields(PlainFields);
            builder.event_format(PlainLines(SystemTime)).finish().try_init()?;
        }
        LogFormat::Json => builder.json().flatten_event(true).finish().try_init()?,
    }
    log_panics(Arc::clone(&queue));
    Ok(Logs::write(queue, io::stderr())?)
}

/// Checks `TETHER_LOG`, for commands that write no logs.
///
/// # Errors
/// If the filter is invalid.
pub(crate) fn check_filter() -> Result<(), TelemetryError> {
    filter(LevelFilter::OFF).map(|_| ())
}

fn filter(level: LevelFilter) -> Result<EnvFilter, TelemetryError> {
    #[expect(
        clippy::disallowed_methods,
        reason = "the filter applies before the configuration is read"
    )]
    let words = std::env::var(FILTER_VARIABLE).unwrap_or_default();
    filter_of(&words, level)
}

/// The filter that `words` ask for; `level` if they are blank.
fn filter_of(words: &str, level: LevelFilter) -> Result<EnvFilter, TelemetryError> {
    let words = words.trim();
    if let Some(word) = misspelt_level(words) {
        return Err(TelemetryError::NotALevel(word.to_owned()));
    }
    let builder = EnvFilter::builder().with_default_directive(Directive::from(level));
    let filter = builder.parse(words)?;
    let levels = words.split(',').filter_map(|word| word.trim().parse::<LevelFilter>().ok());
    let most = if words.is_empty() { Some(level) } else { levels.max() };
    let most = most.unwrap_or(LevelFilter::OFF);
    let is_named =
        |library: &str| words.split([',', '=', '[']).any(|word| word.trim().starts_with(library));
    let quiet = [
        // It warns of each odd frame, and a client can send any number.
        ("h2", "h2=error", most > LevelFilter::ERROR),
        // It logs what users write into forms and what servers report, which belongs to `trace`.
        ("rmcp", "rmcp=warn", matches!(most, LevelFilter::INFO | LevelFilter::DEBUG)),
    ];
    let quiet = quiet.into_iter().filter(|(library, _, is_loud)| *is_loud && !is_named(library));
    Ok(quiet.fold(filter, |filter, (_, directive, _)| {
        filter.add_directive(Directive::from_str(directive).expect("this is a directive"))
    }))
}

/// The filter, if it is a single word that is neither a level nor one of our targets. As a target
/// it would silence everything else.
fn misspelt_level(filter: &str) -> Option<&str> {
    let word = filter.trim();
    let is_word = !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_alphanumeric());
    let is_known = word.parse::<LevelFilter>().is_ok() || word == "tether";
    (is_word && !is_known).then_some(word)
}

/// Logs panics, with a backtrace if `RUST_BACKTRACE` asks for one. If errors are not logged,
/// panics go to the queue as plain lines: printing them could block.
fn log_panics(queue: Arc<Queue>) {
    panic::set_hook(Box::new(move |panic| {
        let thread = thread::current();
        let thread = thread.name();
        let backtrace = Backtrace::capture();
        if !enabled!(Level::ERROR) {
            return queue.push(format!("{panic}\n").as_bytes());
        }
        if backtrace.status() == BacktraceStatus::Captured {
            error!(thread, %backtrace, "{panic}");
        } else {
            error!(thread, "{panic}");
        }
    }));
}

/// Pushes each record to the queue.
struct Records(Arc<Queue>);

impl<'a> MakeWriter<'a> for Records {
    type Writer = Record<'a>;

    fn make_writer(&'a self) -> Record<'a> {
        Record(&self.0)
    }
}

struct Record<'a>(&'a Queue);

impl Write for Record<'_> {
    /// Takes a complete record, as the formatter passes it.
    fn write(&mut self, record: &[u8]) -> io::Result<usize> {
        self.0.push(record);
        Ok(record.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A duration for a log line or an event, in milliseconds. JSON has no 128-bit numbers.
pub(crate) fn millis(duration: std::time::Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The HTTP/2 library warns of each odd frame, and a client can send any number. The MCP library logs what users write.
    #[test]
    fn some_libraries_are_quiet_unless_the_filter_names_them() {
        for (words, level, expected) in [
            ("", LevelFilter::INFO, "rmcp=warn,h2=error,info"),
            ("  ", LevelFilter::INFO, "rmcp=warn,h2=error,info"),
            ("", LevelFilter::OFF, "off"),
            ("off", LevelFilter::INFO, "off"),
            ("error", LevelFilter::INFO, "error"),
            ("debug", LevelFilter::INFO, "rmcp=warn,h2=error,debug"),
            ("", LevelFilter::DEBUG, "rmcp=warn,h2=error,debug"),
            ("trace", LevelFilter::INFO, "h2=error,trace"),
            ("debug,rmcp=debug", LevelFilter::INFO, "rmcp=debug,h2=error,debug"),
            ("warn,tether=trace", LevelFilter::INFO, "tether=trace,h2=error,warn"),
            ("tether=trace", LevelFilter::INFO, "tether=trace"),
            ("h2=debug", LevelFilter::INFO, "h2=debug"),
            ("info,h2=debug", LevelFilter::INFO, "rmcp=warn,h2=debug,info"),
        ] {
            assert_eq!(filter_of(words, level).unwrap().to_string(), expected, "{words:?} {level}");
        }
    }
}
