//! The life of the process: a checked configuration becomes running components,
//! and they come to an orderly end.

mod assemble;
mod running;

use std::io::Write;
use std::time::Duration;

use metrics_exporter_prometheus::PrometheusBuilder;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tracing::{info, warn};

use crate::cli::CliError;
use crate::config::Config;
use crate::gateway::Gateway;
use crate::server::Patience;

pub use assemble::{AssemblyError, tools};
pub use running::{Running, StartError, start};

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
    let metrics = PrometheusBuilder::new()
        .install_recorder()
        .map_err(|error| CliError::Failed(error.to_string()))?;
    let signals = Signals::new().map_err(CliError::Io)?;
    let tools = tools(config).map_err(|error| StartError::from(AssemblyError::from(error)))?;
    let running = start(config, tools, Patience::default(), metrics).await?;
    greet(out, &format!("http://{}", running.address()), running.gateway())?;
    drain(running.gateway(), signals, config.server.drain_timeout).await;
    running.stop().await;
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

/// Waits for the signal to stop, then for the turns that run. After a second
/// signal they are cancelled.
async fn drain(gateway: &Gateway, mut signals: Signals, patience: Duration) {
    let name = signals.next().await;
    info!(signal = name, running = gateway.running(), "draining");
    tokio::select! {
        finished = gateway.drain(patience) => {
            if !finished {
                warn!("server.drain_timeout_sec is over; running turns were cancelled");
            }
        }
        name = signals.next() => {
            warn!(signal = name, "stopping at once; running turns are cancelled");
            gateway.cancel_all();
        }
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
