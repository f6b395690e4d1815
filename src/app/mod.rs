//! The life of the process: a checked configuration becomes running components,
//! and they come to an orderly end.

mod assemble;

use std::io::Write;
use std::sync::Arc;
use std::time::Duration;

use metrics_exporter_prometheus::PrometheusBuilder;
use tokio::net::TcpListener;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::time::{MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use crate::cli::CliError;
use crate::config::Config;
use crate::gateway::Gateway;
use crate::limits;
use crate::server::Server;
use crate::upstream::Upstream;

pub use assemble::{AssemblyError, tools};

/// Runs the gateway until a signal ends it, and drains it then. What to open and
/// what to try goes to `out`.
///
/// # Errors
/// [`CliError::Failed`] where it cannot start.
pub fn run(config: &Config, out: &mut impl Write) -> Result<(), CliError> {
    let failed = |error: std::io::Error| CliError::Failed(error.to_string());
    let runtime =
        tokio::runtime::Builder::new_multi_thread().enable_all().build().map_err(failed)?;
    runtime.block_on(serve(config, out))
}

async fn serve(config: &Config, out: &mut impl Write) -> Result<(), CliError> {
    let usage = |error: AssemblyError| CliError::Usage(error.to_string());
    let metrics = PrometheusBuilder::new()
        .install_recorder()
        .map_err(|error| CliError::Failed(error.to_string()))?;
    let gateway = Arc::new(assemble::gateway(config).map_err(usage)?);
    let signals = Signals::new().map_err(CliError::Io)?;

    let listen = config.server.listen;
    let listener = TcpListener::bind(listen).await.map_err(|error| {
        CliError::Failed(format!(
            "cannot listen on {listen}: {error}; choose another address with --listen"
        ))
    })?;
    let server = Server::new(
        listener,
        assemble::server_options(config),
        Arc::clone(&gateway),
        metrics.clone(),
    )
    .map_err(CliError::Io)?;
    let address = server.address().map_err(CliError::Io)?;
    greet(out, &format!("http://{address}"), &gateway)?;
    info!(%address, model = gateway.upstreams()[0].name(), "listening");

    let stop = CancellationToken::new();
    let upkeep = tokio::spawn(upkeep(Arc::clone(&gateway), metrics));
    let serving = tokio::spawn(server.serve(stop.clone()));
    drain(&gateway, signals, config.server.drain_timeout).await;
    stop.cancel();
    let _ = serving.await;
    upkeep.abort();
    info!("stopped");
    Ok(())
}

/// What a person sees who has just started it.
fn greet(out: &mut impl Write, origin: &str, gateway: &Gateway) -> std::io::Result<()> {
    let model = gateway.upstreams()[0].name();
    writeln!(
        out,
        "tether {} serves the model \"{model}\"\n\n  \
         open    {origin}/\n  \
         or try  curl -N {origin}/api/v1/chat/stream -d '{{\"prompt\":\"What time is it in Tokyo?\"}}'\n",
        env!("CARGO_PKG_VERSION"),
    )?;
    out.flush()
}

/// Looks after what nobody asks for: sessions that are not used any more, samples
/// of metrics, and which server the upstreams are.
async fn upkeep(gateway: Arc<Gateway>, metrics: metrics_exporter_prometheus::PrometheusHandle) {
    greet_upstreams(gateway.upstreams()).await;
    let mut tick = interval(limits::UPKEEP_INTERVAL);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tick.tick().await;
        gateway.sweep();
        metrics.run_upkeep();
    }
}

/// Says early that a model server is not there; it may still come.
async fn greet_upstreams(upstreams: &[Arc<Upstream>]) {
    for upstream in upstreams {
        match upstream.check().await {
            Ok(()) => info!(upstream = upstream.name(), "upstream is there"),
            Err(failure) => {
                warn!(upstream = upstream.name(), "upstream is not there yet: {}", failure.message);
            }
        }
    }
}

/// Waits for the signal to stop, then for the turns that run. A second signal
/// waits for nothing.
async fn drain(gateway: &Gateway, mut signals: Signals, patience: Duration) {
    let name = signals.next().await;
    info!(signal = name, running = gateway.running(), "draining");
    tokio::select! {
        finished = gateway.drain(patience) => {
            if !finished {
                warn!("server.drain_timeout_sec is over; running turns were cancelled");
            }
        }
        name = signals.next() => warn!(signal = name, "stopping at once"),
    }
}

/// The signals that end the process.
struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    fn new() -> std::io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
        })
    }

    async fn next(&mut self) -> &'static str {
        tokio::select! {
            _ = self.terminate.recv() => "SIGTERM",
            _ = self.interrupt.recv() => "SIGINT",
        }
    }
}
