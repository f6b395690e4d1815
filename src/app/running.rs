//! A gateway that serves, from its first connection to its last.

use std::net::SocketAddr;
use std::sync::Arc;

use metrics_exporter_prometheus::PrometheusHandle;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio::time::{MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use super::assemble::{self, AssemblyError};
use crate::config::Config;
use crate::gateway::Gateway;
use crate::limits;
use crate::server::{Server, Timeouts};
use crate::tools::Registry;
use crate::upstream::Upstream;

/// A gateway that serves. Dropping it leaves it running; see
/// [`stop`](Self::stop).
#[derive(Debug)]
pub struct Running {
    address: SocketAddr,
    gateway: Arc<Gateway>,
    stop: CancellationToken,
    serving: JoinHandle<()>,
    upkeep: JoinHandle<()>,
}

/// Why a gateway does not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The configuration cannot be used on this machine.
    #[error(transparent)]
    Assembly(#[from] AssemblyError),
    /// The address cannot be listened on.
    #[error("cannot listen on {listen}: {error}; choose another address with --listen")]
    Listen {
        /// The address.
        listen: SocketAddr,
        /// What the system said.
        #[source]
        error: std::io::Error,
    },
}

/// Starts the gateway that `config` describes, with `tools` instead of those that
/// it names ([`tools`](super::tools) makes them). `metrics` is what `/metrics`
/// shows.
///
/// # Errors
/// See [`StartError`]; nothing runs then.
pub async fn start(
    config: &Config,
    tools: Registry,
    timeouts: Timeouts,
    metrics: PrometheusHandle,
) -> Result<Running, StartError> {
    let gateway = Arc::new(assemble::gateway(config, tools)?);
    let listen = config.server.listen;
    let no_socket = |error| StartError::Listen { listen, error };
    let listener = TcpListener::bind(listen).await.map_err(no_socket)?;
    let address = listener.local_addr().map_err(no_socket)?;
    let options = assemble::server_options(config, timeouts);
    let server =
        Server::new(listener, options, Arc::clone(&gateway), metrics.clone()).map_err(no_socket)?;
    info!(%address, model = gateway.default_upstream().name(), "listening");

    let stop = CancellationToken::new();
    let upkeep = tokio::spawn(upkeep(Arc::clone(&gateway), metrics));
    let serving = tokio::spawn(server.serve(stop.clone()));
    Ok(Running { address, gateway, stop, serving, upkeep })
}

impl Running {
    /// The address that it listens on.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// The gateway itself, to be drained before it is stopped.
    #[must_use]
    pub const fn gateway(&self) -> &Arc<Gateway> {
        &self.gateway
    }

    /// Takes no more connections and waits for the end of those that are open, at
    /// most [`limits::server::CLOSE_TIMEOUT`]. Turns that still run are not cut.
    pub async fn stop(self) {
        self.stop.cancel();
        let _ = self.serving.await;
        self.upkeep.abort();
    }
}

/// Looks after what nobody asks for: sessions that are not used any more, samples
/// of metrics, and which server the upstreams are.
async fn upkeep(gateway: Arc<Gateway>, metrics: PrometheusHandle) {
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
