//! A running gateway, from its first connection to its last.

use std::convert::Infallible;
use std::fmt::Display;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use metrics_exporter_prometheus::PrometheusHandle;
use tokio::net::{TcpListener, TcpSocket};
use tokio::task::JoinHandle;
use tokio::time::{MissedTickBehavior, interval, timeout};
use tokio_util::sync::CancellationToken;
use tracing::{error, info, warn};

use super::assemble::{self, AssemblyError, Parts};
use crate::config::Config;
use crate::gateway::Gateway;
use crate::limits;
use crate::server::{Server, Timeouts, Tls};
use crate::telemetry::metrics;
pub use crate::telemetry::otlp::OtlpError;
use crate::tools::source::SourceState;
use crate::tools::{SourceReport, Sources};
use crate::upstream::Upstream;
use crate::version;

/// A running gateway. Dropping this does not stop it; see [`stop`](Self::stop).
#[derive(Debug)]
pub struct Running {
    address: SocketAddr,
    tls: Option<Arc<Tls>>,
    gateway: Arc<Gateway>,
    stop: CancellationToken,
    serving: JoinHandle<()>,
    upkeep: JoinHandle<()>,
    offering: JoinHandle<()>,
}

/// Why a gateway cannot start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The configuration cannot be used on this machine.
    #[error(transparent)]
    Assembly(#[from] AssemblyError),
    /// Traces and metrics cannot be sent.
    #[error(transparent)]
    Otlp(#[from] OtlpError),
    /// The store of sessions cannot be used.
    #[error("sessions: {0}")]
    Store(String),
    /// The server cannot listen on the address.
    #[error("cannot listen on {listen}: {error}; choose another address with --listen")]
    Listen {
        /// The address.
        listen: SocketAddr,
        /// The error from the system.
        #[source]
        error: io::Error,
    },
}

/// Starts the gateway that `config` describes, but with `parts` instead of those that it names
/// ([`Parts::of`] makes those). `metrics` renders the `/metrics` page.
///
/// # Errors
/// See [`StartError`]. Nothing is left running.
pub async fn start(
    config: &Config,
    parts: Parts,
    timeouts: Timeouts,
    metrics: PrometheusHandle,
) -> Result<Running, StartError> {
    let Parts { mut tools, store } = parts;
    let tls = assemble::tls(&config.server).map_err(AssemblyError::Tls)?;
    if let Some(warning) = tls.as_ref().and_then(|tls| tls.warning()) {
        warn!("{warning}");
    }
    // If that fails, the check says why.
    let _ = store.wait_until_loaded().await;
    if let Err(cause) = assemble::check_store(&config.sessions, &*store).await {
        if store.is_shared() {
            return Err(StartError::Store(cause));
        }
        // Sessions in a file can be read even while the disk is full.
        warn!(cause, "no turn can begin until the file of sessions can be written");
    }
    let listen = config.server.listen;
    let no_socket = |error| StartError::Listen { listen, error };
    // First: beside another gateway on this port, no tool is started.
    let listener = listen_on(listen).map_err(no_socket)?;
    tools.start();
    let toolset = tools.toolset();
    let gateway = Arc::new(assemble::gateway_with(config, toolset, store)?);
    let address = listener.local_addr().map_err(no_socket)?;
    let options = assemble::server_options(config, timeouts);
    let server = Server::new(listener, tls.clone(), options, Arc::clone(&gateway), metrics.clone());
    let server = server.map_err(no_socket)?;
    gateway.resume_interrupted();
    gateway.store_unstored_ends();
    let model = gateway.default_upstream().name();
    info!(version = version::LINE, %address, model, node = %gateway.node(), "listening");
    gateway.sources().iter().for_each(|report| note_source(report, None));

    let stop = CancellationToken::new();
    let upkeep = tokio::spawn(upkeep(Arc::clone(&gateway), metrics));
    let offering = tokio::spawn(offer(tools, Arc::clone(&gateway), stop.clone()));
    let serving = tokio::spawn(server.serve(stop.clone()));
    Ok(Running { address, tls, gateway, stop, serving, upkeep, offering })
}

/// Listens as `TcpListener::bind` does, but lets more connections wait: it stops at 1024, which is
/// less than the clients that come at once when a proxy or a gateway beside this one has restarted.
fn listen_on(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = match address {
        SocketAddr::V4(_) => TcpSocket::new_v4(),
        SocketAddr::V6(_) => TcpSocket::new_v6(),
    }?;
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(limits::server::WAITING_CONNECTIONS_MAX)
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

    /// Whether clients have to speak TLS.
    #[must_use]
    pub const fn has_tls(&self) -> bool {
        self.tls.is_some()
    }

    /// Reads the certificate again, for connections to come, and logs the outcome. If it cannot be used, the
    /// previous one stays in use.
    pub async fn reload(&self) {
        let Some(tls) = self.tls.clone() else {
            return info!("SIGHUP: nothing to reload, without server.tls");
        };
        let reader = Arc::clone(&tls);
        let read = tokio::task::spawn_blocking(move || reader.read());
        let failed = |why: &dyn Display| {
            error!(
                "SIGHUP: {why}; the previous certificate stays in use: correct the files, then send SIGHUP again"
            );
        };
        // What is read too late is not used: by then, there may be a newer one.
        match timeout(limits::server::CERTIFICATE_READ_TIMEOUT, read).await {
            Ok(Ok(Ok(certified))) => {
                tls.renew(certified);
                match tls.warning() {
                    None => info!("SIGHUP: certificate reloaded"),
                    Some(warning) => warn!("SIGHUP: certificate reloaded; {warning}"),
                }
            }
            Ok(Ok(Err(error))) => failed(&error),
            Ok(Err(error)) => failed(&error),
            Err(_) => failed(
                &"the files of server.tls cannot be read: their disk does not answer, or they are pipes",
            ),
        }
    }

    /// Stops accepting connections, and ends what offers tools. Waits for open connections, for at most
    /// [`limits::server::CLOSE_TIMEOUT`], and for tools' programs (see [`Sources::stop`]). Running turns are not
    /// cancelled.
    pub async fn stop(self) {
        self.stop.cancel();
        let _ = tokio::join!(self.serving, self.offering);
        self.upkeep.abort();
    }
}

/// Checks the upstreams once, then regularly removes expired sessions and drains metric
/// samples.
async fn upkeep(gateway: Arc<Gateway>, prometheus: PrometheusHandle) {
    greet_upstreams(gateway.upstreams()).await;
    let mut tick = interval(limits::UPKEEP_INTERVAL);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tick.tick().await;
        gateway.sweep();
        prometheus.run_upkeep();
    }
}

/// Offers tools until the gateway stops.
async fn offer(mut sources: Sources, gateway: Arc<Gateway>, stop: CancellationToken) {
    tokio::select! {
        never = offer_changes(&mut sources, gateway) => match never {},
        () = stop.cancelled() => sources.stop().await,
    }
}

/// Gives new turns the current tools whenever a source changes what it offers.
async fn offer_changes(sources: &mut Sources, gateway: Arc<Gateway>) -> Infallible {
    let mut before = gateway.sources();
    loop {
        sources.changed().await;
        gateway.replace_tools(sources.toolset());
        let now = gateway.sources();
        for report in now.iter().filter(|report| !before.contains(report)) {
            note_source(report, before.iter().find(|it| it.source == report.source));
        }
        before = now;
    }
}

/// Logs and counts what a source offers. Warns of what it did not warn of `before`.
fn note_source(report: &SourceReport, before: Option<&SourceReport>) {
    let SourceReport { source, state, tools, left_out, error, .. } = report;
    let (left, error) = (left_out.len(), error.as_deref());
    if *state == SourceState::Failed {
        warn!(%source, error, "no tools offered");
    } else {
        info!(%source, state = state.name(), tools, left_out = left, error, "tools offered");
    }
    for warning in report.warnings_since(before) {
        warn!("{warning}");
    }
    let is_up = *state == SourceState::Ready;
    metrics::tool_source(source.kind.name(), &source.name, is_up, *tools, left);
}

/// Warns early if a model server is down; it may still come up.
async fn greet_upstreams(upstreams: &[Arc<Upstream>]) {
    for upstream in upstreams {
        match upstream.check().await {
            Ok(()) => info!(upstream = upstream.name(), "upstream reachable"),
            Err(failure) => {
                warn!(
                    upstream = upstream.name(),
                    "upstream not reachable yet: {}", failure.message
                );
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpStream;
    use std::time::Duration;

    use ::metrics::with_local_recorder;
    use metrics_exporter_prometheus::PrometheusBuilder;
    use tokio::time::sleep;

    use super::*;
    use crate::app::assemble::gateway;
    use crate::gateway::NewTurn;
    use crate::tools::source::LeftOut;
    use crate::tools::{Source, SourceKind};

    /// A client that has left still waits to be accepted, so this takes few file descriptors.
    #[tokio::test]
    async fn thousands_of_clients_may_come_at_once() {
        let listener = listen_on("127.0.0.1:0".parse().unwrap()).unwrap();
        let address = listener.local_addr().unwrap();
        for count in 0..2000 {
            let connected = TcpStream::connect_timeout(&address, Duration::from_millis(900));
            assert!(connected.is_ok(), "after {count}: {connected:?}");
        }
    }

    /// A client that never comes back leaves its session behind.
    #[tokio::test(start_paused = true)]
    async fn sessions_whose_time_is_up_are_removed_regularly() {
        let mut config = Config::default();
        config.sessions.ttl = Duration::from_secs(1);
        let parts = Parts::of(&config).unwrap();
        let gateway = Arc::new(gateway(&config, parts).unwrap());
        let handle = PrometheusBuilder::new().build_recorder().handle();
        let upkeep = tokio::spawn(upkeep(Arc::clone(&gateway), handle));
        for _ in 0..2 {
            gateway.begin(NewTurn::default()).await.unwrap();
            while gateway.running() > 0 {
                sleep(Duration::from_millis(100)).await;
            }
            assert_eq!(gateway.memory_usage().sessions, 1);
            sleep(limits::UPKEEP_INTERVAL + Duration::from_secs(2)).await;
            assert_eq!(gateway.memory_usage().sessions, 0);
        }
        upkeep.abort();
    }

    #[test]
    fn the_metrics_show_what_a_source_offers() {
        let recorder = PrometheusBuilder::new().build_recorder();
        let shown = |state, tools, left_out: usize| {
            let source = Source::entry(SourceKind::Mcp, "files");
            let one = || LeftOut { name: "write".to_owned(), reason: "it is too long".to_owned() };
            let left_out = std::iter::repeat_with(one).take(left_out).collect();
            let report = SourceReport { tools, left_out, ..SourceReport::new(source, state) };
            with_local_recorder(&recorder, || note_source(&report, None));
            let text = recorder.handle().render();
            ["tool_source_up", "tools_offered", "tools_left_out"].map(|name| {
                let sample = format!("tether_{name}{{kind=\"mcp\",name=\"files\"}} ");
                let value = text.lines().find_map(|line| line.strip_prefix(&sample));
                value.unwrap().parse::<u32>().unwrap()
            })
        };
        assert_eq!(shown(SourceState::Failed, 0, 1), [0, 0, 1]);
        assert_eq!(shown(SourceState::Ready, 2, 0), [1, 2, 0]);
    }
}
