//! The life of the process: builds running components from a checked configuration, and shuts
//! them down in order.

mod assemble;
mod running;

use std::io::Write;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use metrics_exporter_prometheus::PrometheusBuilder;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tracing::{info, warn};

use crate::config::Config;
use crate::gateway::Gateway;
use crate::server::Timeouts;

pub use assemble::{AssemblyError, Parts, gateway, tools};
pub use running::{Running, StartError, start};

/// Why the gateway does not run, or stopped.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// It cannot start.
    #[error(transparent)]
    Start(#[from] StartError),
    /// The system refuses basic resources: threads, signals.
    #[error("cannot set up threads or signal handling: {0}")]
    System(std::io::Error),
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
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    runtime.map_err(RunError::System)?.block_on(serve(config, parts, out))
}

async fn serve(config: &Config, parts: Parts, out: &mut impl Write) -> Result<(), RunError> {
    let metrics = PrometheusBuilder::new().install_recorder()?;
    let signals = Signals::new().map_err(RunError::System)?;
    let running = start(config, parts, Timeouts::default(), metrics).await?;
    let model = running.gateway().default_upstream().name();
    let wants_key = !config.server.api_keys.is_empty();
    if let Err(error) = greet(out, running.address(), model, wants_key) {
        // The output is not being read; the gateway serves requests anyway.
        warn!(%error, "cannot print the greeting");
    }
    drain(running.gateway(), signals, config.server.drain_timeout).await;
    running.stop().await;
    info!("stopped");
    Ok(())
}

/// Prints what someone who has just started the gateway needs to know.
fn greet(
    out: &mut impl Write,
    mut address: SocketAddr,
    model: &str,
    wants_key: bool,
) -> std::io::Result<()> {
    if address.ip().is_unspecified() {
        // It listens on all addresses of this machine, but a browser needs one.
        address.set_ip(match address {
            SocketAddr::V4(_) => Ipv4Addr::LOCALHOST.into(),
            SocketAddr::V6(_) => Ipv6Addr::LOCALHOST.into(),
        });
    }
    let key = if wants_key { " -H 'Authorization: Bearer KEY'" } else { "" };
    writeln!(
        out,
        "tether {} is serving the model \"{model}\"\n\n  \
         open    http://{address}/\n  \
         or try  curl -N http://{address}/api/v1/chat/stream{key} -d '{{\"prompt\":\"What time is it in Tokyo?\"}}'\n",
        env!("CARGO_PKG_VERSION"),
    )?;
    out.flush()
}

/// Waits for a signal to stop, then for running turns. A second signal cancels them.
async fn drain(gateway: &Gateway, mut signals: Signals, within: Duration) {
    let name = signals.next().await;
    info!(signal = name, running = gateway.running(), "draining");
    tokio::select! {
        finished = gateway.drain(within) => {
            if !finished {
                warn!("server.drain_timeout_sec has passed; running turns were cancelled");
            }
        }
        name = signals.next() => {
            warn!(signal = name, "stopping now; running turns are cancelled");
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

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(address: &str, wants_key: bool, opened: &str, tried: &str) {
        let mut out = Vec::new();
        greet(&mut out, address.parse().unwrap(), "qwen3", wants_key).unwrap();
        let greeting = String::from_utf8(out).unwrap();
        assert!(greeting.contains(&format!("open    {opened}\n")), "{greeting}");
        assert!(greeting.contains(&format!("or try  curl -N {tried} -d '{{")), "{greeting}");
    }

    #[test]
    fn the_greeting_shows_working_addresses() {
        let stream = "/api/v1/chat/stream";
        for (address, opened) in [
            ("127.0.0.1:8080", "http://127.0.0.1:8080/"),
            ("10.1.2.3:80", "http://10.1.2.3:80/"),
            ("0.0.0.0:8080", "http://127.0.0.1:8080/"),
            ("[::]:8080", "http://[::1]:8080/"),
        ] {
            let origin = opened.trim_end_matches('/');
            check(address, false, opened, &format!("{origin}{stream}"));
            let with_key = format!("{origin}{stream} -H 'Authorization: Bearer KEY'");
            check(address, true, opened, &with_key);
        }
    }
}
