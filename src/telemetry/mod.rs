//! Logs and metrics. Logs are filtered by `TETHER_LOG`, as text or JSON lines, on standard error.
//!
//! What to log at which level is house style (CONTRIBUTING.md); this module only
//! decides where lines go and what they look like.

mod line;
pub mod metrics;
mod queue;

use std::backtrace::{Backtrace, BacktraceStatus};
use std::io::{self, IsTerminal as _, Write};
use std::panic;
use std::sync::Arc;
use std::thread;

use tracing::{Level, enabled, error};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::{Directive, LevelFilter};
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::util::SubscriberInitExt as _;

pub use self::queue::Logs;
use self::queue::Queue;

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
    /// The system gives no thread to write them in.
    #[error("cannot write logs: {0}")]
    NoThread(#[from] io::Error),
}

/// Sends the logs of this process to standard error, level `info` and above
/// where `TETHER_LOG` says nothing else. Colours are for terminals alone. Panics are
/// logged as well.
///
/// # Errors
/// A filter that cannot be read; a second call; no thread to write in.
pub fn init(format: LogFormat) -> Result<Logs, TelemetryError> {
    let filter = filter()?;
    let queue = Arc::new(Queue::default());
    let records = Records(Arc::clone(&queue));
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_writer(records);
    match format {
        LogFormat::Text => builder.with_ansi(io::stderr().is_terminal()).finish().try_init()?,
        LogFormat::Json => builder.json().flatten_event(true).finish().try_init()?,
    }
    log_panics();
    Ok(Logs::write(queue, io::stderr())?)
}

/// Checks `TETHER_LOG`, for commands that write no logs.
///
/// # Errors
/// A filter that cannot be read.
pub fn check_filter() -> Result<(), TelemetryError> {
    filter().map(|_| ())
}

fn filter() -> Result<EnvFilter, TelemetryError> {
    let builder = EnvFilter::builder()
        .with_default_directive(Directive::from(LevelFilter::INFO))
        .with_env_var(FILTER_VARIABLE);
    Ok(builder.from_env()?)
}

/// Has panics logged, with a backtrace if `RUST_BACKTRACE` asks for one. Where errors are not
/// logged, they are printed as they would be without us.
fn log_panics() {
    let print = panic::take_hook();
    panic::set_hook(Box::new(move |panic| {
        if !enabled!(Level::ERROR) {
            return print(panic);
        }
        let thread = thread::current();
        let thread = thread.name();
        let backtrace = Backtrace::capture();
        if backtrace.status() == BacktraceStatus::Captured {
            error!(thread, %backtrace, "{panic}");
        } else {
            error!(thread, "{panic}");
        }
    }));
}

/// Puts each record into the queue.
struct Records(Arc<Queue>);

impl<'a> MakeWriter<'a> for Records {
    type Writer = Record<'a>;

    fn make_writer(&'a self) -> Record<'a> {
        Record(&self.0)
    }
}

struct Record<'a>(&'a Queue);

impl Write for Record<'_> {
    /// Takes a whole record, as the formatter hands it over.
    fn write(&mut self, record: &[u8]) -> io::Result<usize> {
        self.0.push(record);
        Ok(record.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A duration for a log line or an event, in milliseconds: a number, which a 128-bit one
/// is not to JSON.
pub(crate) fn millis(duration: std::time::Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
