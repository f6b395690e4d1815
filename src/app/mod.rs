//! The life of the process: builds running components from a checked configuration, and shuts
//! them down in order.

mod assemble;
mod finding;
mod greeting;
mod probe;
mod running;
mod sessions;
mod store_probe;
mod tools;

use std::convert::Infallible;
use std::io::{self, Write};
use std::num::NonZero;
use std::thread;
use std::time::Duration;

use tokio::runtime::{Builder, Runtime};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tracing::{info, warn};

use crate::config::{self, Config};
use crate::event::{FailureCode, FeedbackReason, TurnFinish};
use crate::gateway::OverLimit;
use crate::limits;
use crate::orchestrator::NotRun;
use crate::server::{self, Timeouts};
use crate::telemetry::buckets;
use crate::telemetry::metrics::{self, Labels, StoreKind};
use greeting::{Greeting, kept};

pub use assemble::{
    AssemblyError, Parts, PartsError, StoreOpenError, check_sessions, check_tls, gateway, rules,
};
pub use finding::Finding;
pub use probe::probe_upstreams;
pub use running::{OtlpError, Running, StartError, start};
pub use sessions::{SessionsError, forget_recent_turns, open_sessions};
pub use store_probe::probe_store;
pub use tools::{ToolsError, mcp_servers, tools};

/// Why the gateway does not run, or stopped.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// It cannot start.
    #[error(transparent)]
    Start(#[from] StartError),
    /// The system refuses basic resources: threads, signals.
    #[error("cannot set up threads or signal handling: {0}")]
    System(io::Error),
    /// A metrics recorder is already installed.
    #[error("cannot set up metrics: {0}")]
    Metrics(#[from] metrics_exporter_prometheus::BuildError),
}

/// Runs the gateway with these parts until a signal arrives, then drains it. Prints to `out` what
/// to open and what to try.
///
/// # Errors
/// See [`RunError`].
pub fn run(config: &Config, parts: Parts, out: &mut impl Write) -> Result<(), RunError> {
    let processors = thread::available_parallelism().map_or(1, NonZero::get);
    let runtime = runtime(processors).map_err(RunError::System)?;
    let served = runtime.block_on(serve(config, parts, out));
    // A thread that waits for a file does not keep the process from its end.
    runtime.shutdown_timeout(limits::server::CLOSE_TIMEOUT);
    served
}

/// From now on, a write beyond the limit on the size of files (`ulimit -f`) fails, as on a full disk. By default, it ends
/// the process.
///
/// # Errors
/// If the system refuses signal handlers.
pub fn survive_full_files() -> io::Result<()> {
    let runtime = Builder::new_current_thread().enable_io().build()?;
    // tokio never takes a handler back. Programs that are started do not inherit it.
    runtime.block_on(async { signal(SignalKind::from_raw(libc::SIGXFSZ)).map(drop) })
}

/// One thread per processor. With a single processor, the current thread runs everything, so tasks are not shared
/// between threads.
fn runtime(processors: usize) -> io::Result<Runtime> {
    let mut builder =
        if processors == 1 { Builder::new_current_thread() } else { Builder::new_multi_thread() };
    builder.enable_all().build()
}

async fn serve(config: &Config, parts: Parts, out: &mut impl Write) -> Result<(), RunError> {
    let recorder = buckets::builder()?.install_recorder()?;
    begin_counting(config);
    let exporter = assemble::exporter(&config.telemetry.otlp).map_err(StartError::from)?;
    let mut signals = Signals::new().map_err(RunError::System)?;
    let running = tokio::select! {
        biased;
        running = start(config, parts, Timeouts::default(), recorder) => running?,
        // It may be waiting for its store.
        name = signals.stop_requested(async || info!("SIGHUP: nothing to reload")) => {
            info!(signal = name, "stopped before it has started");
            return Ok(());
        }
    };
    let greeting = Greeting {
        address: running.address(),
        scheme: if running.has_tls() { "https" } else { "http" },
        model: running.gateway().default_upstream().name(),
        wants_key: !config.server.api_keys.is_empty(),
        sources: &running.gateway().sources(),
        keeps: &kept(&config.sessions),
    };
    if let Err(error) = greeting.print(out) {
        // The output is not being read; the gateway serves requests anyway.
        warn!(%error, "cannot print the greeting");
    }
    drain(&running, &mut signals, config.server.drain_timeout).await;
    tokio::select! {
        () = running.stop() => {}
        // Whoever sends another one does not want to wait.
        name = signals.stop_requested(async || info!("SIGHUP: the gateway is stopping")) => {
            warn!(signal = name, "stopping now; connections and tools are not waited for");
        }
    }
    if let Some(exporter) = exporter {
        exporter.stop().await;
    }
    info!("stopped");
    Ok(())
}

/// Starts counters at 0.
fn begin_counting(config: &Config) {
    let kind = match config.sessions.store {
        config::Store::Memory => StoreKind::Memory,
        config::Store::Embedded => StoreKind::File,
        config::Store::Redis => StoreKind::Shared,
    };
    let finishes = TurnFinish::ALL.iter().map(|finish| finish.name());
    let outcomes: Vec<_> =
        finishes.chain(FailureCode::ALL.iter().map(|code| code.name())).collect();
    let feedback = FeedbackReason::ALL.map(FeedbackReason::name);
    let not_run = NotRun::ALL.map(NotRun::name);
    let of_turns = OverLimit::ALL.map(OverLimit::name);
    let over_limit = [&server::limit_names()[..], &of_turns].concat();
    let repairs = server::repair_names();
    let upstreams: Vec<_> = config.upstreams.iter().map(|it| &*it.name).collect();
    let mcp_servers: Vec<_> = config.tools.mcp.iter().map(|it| &*it.name).collect();
    let labels = Labels {
        outcomes: &outcomes,
        feedback: &feedback,
        not_run: &not_run,
        over_limit: &over_limit,
        repairs: &repairs,
        upstreams: if upstreams.len() > 1 { &upstreams } else { &[] },
        mcp_servers: &mcp_servers,
    };
    metrics::begin(kind, &labels);
}

/// Waits for a signal to stop, then for running turns. A second signal cancels them. SIGHUP reloads the
/// certificate.
async fn drain(running: &Running, signals: &mut Signals, within: Duration) {
    let gateway = running.gateway();
    let name = signals.stop_requested(async || running.reload().await).await;
    info!(signal = name, running = gateway.running(), "draining");
    tokio::select! {
        finished = gateway.drain(within) => {
            if !finished {
                warn!("server.drain_timeout_sec has passed; running turns were left to other gateways, or cancelled");
            }
        }
        name = signals.stop_requested(async || running.reload().await) => {
            warn!(signal = name, "stopping now; running turns are cancelled");
            tokio::select! {
                () = gateway.stop() => {}
                // A third one does not wait for their ends.
                _ = signals.stop_requested(async || running.reload().await) => {}
            }
        }
    }
}

/// The signals that end the process, and SIGHUP, which would end it if nobody handled it.
struct Signals {
    terminate: Signal,
    interrupt: Signal,
    hang_up: Signal,
}

impl Signals {
    fn new() -> io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hang_up: signal(SignalKind::hangup())?,
        })
    }

    /// Waits for a signal to stop. SIGHUP is not one: it calls `reload`. People send it for that, and it also
    /// comes when a terminal closes.
    async fn stop_requested(&mut self, reload: impl AsyncFn()) -> &'static str {
        let Self { terminate, interrupt, hang_up } = self;
        // Concurrently, because a file to reload may be on a file system that hangs.
        tokio::select! {
            _ = terminate.recv() => "SIGTERM",
            _ = interrupt.recv() => "SIGINT",
            never = reload_when(hang_up, reload) => match never {},
        }
    }
}

/// Reloads each time that the signal comes.
async fn reload_when(hang_up: &mut Signal, reload: impl AsyncFn()) -> Infallible {
    loop {
        hang_up.recv().await;
        reload().await;
    }
}

#[cfg(test)]
mod tests {
    use tokio::runtime::RuntimeFlavor;

    use super::*;

    #[test]
    fn a_single_processor_is_not_shared_between_threads() {
        let flavor = |processors| runtime(processors).unwrap().handle().runtime_flavor();
        assert_eq!(flavor(1), RuntimeFlavor::CurrentThread);
        assert_eq!(flavor(2), RuntimeFlavor::MultiThread);
    }
}
