//! One connection to a server, from its handshake to its end.

mod handler;
mod restarts;

use std::collections::HashMap;
use std::convert::Infallible;
use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use rmcp::model::{
    ClientCapabilities, ClientConfig, ElicitationCapability, FormElicitationCapability,
    Implementation, ProtocolVersion, SubscriptionFilter, UrlElicitationCapability,
};
use rmcp::service::{
    ClientInitializeError, ClientLifecycleMode, Peer, RoleClient, RunningServiceCancellationToken,
    ServiceError, serve_client_with_lifecycle,
};
use rmcp::transport::Transport;
use rmcp::transport::streamable_http_client::StreamableHttpClientTransport;
use tokio::time::{Instant, sleep, timeout};
use tracing::debug;

use crate::limits::mcp::LIST_AGE_MIN;
use crate::tools::keys::Keys;
use crate::tools::mcp::auth::Authorized;
use crate::tools::mcp::cause::told_handshake;
use crate::tools::mcp::end::End;
use crate::tools::mcp::http::{self, HttpClient};
use crate::tools::mcp::options::{McpOptions, Protocol, Reach};
use crate::tools::mcp::stdio::{Program, Stdio};
use crate::tools::mcp::traffic::{Gate, Traffic};
use handler::Handler;
use restarts::Backoff;

pub(super) use restarts::Restarts;

/// The protocol's two eras.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Era {
    /// Up to 2025-11-25: with a handshake, and questions inside open calls.
    Legacy,
    /// From 2026-07-28 on: without state, and questions as results.
    Modern,
}

impl Era {
    /// Its name in reports.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Legacy => "legacy",
            Self::Modern => "modern",
        }
    }
}

/// A connection. Dropping the last copy closes it, and ends its process.
pub(super) struct Connection {
    pub(super) peer: Peer<RoleClient>,
    pub(super) traffic: Traffic,
    pub(super) era: Era,
    pub(super) version: String,
    /// Whether the server says that it has tools.
    pub(super) has_tools: bool,
    listed: Mutex<LastList>,
    /// Whether it ends with a program.
    is_to_program: bool,
    end: End,
    stop: Mutex<Option<RunningServiceCancellationToken>>,
}

/// What a server listed last.
#[derive(Debug, Default)]
struct LastList {
    /// What its tools are, by name.
    definitions: HashMap<String, String>,
    /// How long that may be used, if it says so.
    lasts: Option<Duration>,
}

impl std::fmt::Debug for Connection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { era, version, .. } = self;
        f.debug_struct("Connection")
            .field("era", era)
            .field("version", version)
            .finish_non_exhaustive()
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        if let Some(stop) = self.stop.lock().take() {
            stop.cancel();
        }
    }
}

impl Connection {
    /// Waits until it ends, and returns why.
    pub(super) async fn ended(&self) -> Arc<str> {
        self.end.reached().await
    }

    /// What the server says, without the keys that it is given.
    pub(super) fn hidden(&self, told: String) -> String {
        self.end.keys.hidden(told)
    }

    /// Whether it has ended.
    pub(super) fn is_over(&self) -> bool {
        self.end.is_reached()
    }

    /// Why a request failed: if it did because the server's program has ended, that says more.
    pub(super) async fn why_failed(&self, told: String) -> String {
        if self.is_to_program && self.peer.is_transport_closed() {
            return self.ended().await.to_string();
        }
        told
    }

    /// Notes the hashes of its tools by name, and how long they may be used.
    pub(super) fn note_list(&self, definitions: HashMap<String, String>, lasts: Option<Duration>) {
        *self.listed.lock() = LastList { definitions, lasts };
    }

    /// The hash of what its tool of this name is; `None` if it has none that can be used.
    pub(super) fn definition(&self, name: &str) -> Option<String> {
        self.listed.lock().definitions.get(name).cloned()
    }

    /// Why a request that was sent will not be answered any more.
    pub(super) async fn why_unanswered(&self) -> Arc<str> {
        if self.is_to_program || self.is_over() {
            return self.ended().await;
        }
        // Over HTTP, an answer can break off while the server stays.
        "the server broke its answer off".into()
    }

    /// Asks a modern server to say when its tools change, again and again for as long as the
    /// connection lasts.
    pub(super) async fn follow_changes(&self) -> Infallible {
        let mut filter = SubscriptionFilter::new();
        filter.tools_list_changed = Some(true);
        let mut backoff = Backoff::default();
        loop {
            let began = Instant::now();
            match self.peer.listen(filter.clone()).await {
                Ok(mut subscription) => {
                    // Nobody has listened since the tools were listed.
                    self.traffic.note_change();
                    while let Ok(Some(_)) = subscription.next().await {
                        self.traffic.note_change();
                    }
                    debug!("the server has stopped reporting changes of its tools");
                }
                Err(ServiceError::McpError(error)) => {
                    let error = self.hidden(error.to_string());
                    debug!(error, "the server does not report changes of its tools");
                    return self.expect_changes().await;
                }
                Err(error) => {
                    let error = self.hidden(error.to_string());
                    debug!(error, "the server cannot be asked for changes");
                }
            }
            sleep(backoff.pause(began.elapsed())).await;
        }
    }

    /// Assumes that the tools may have changed whenever their list has been used for as long as the
    /// server allows.
    async fn expect_changes(&self) -> Infallible {
        loop {
            let Some(lasts) = self.listed.lock().lasts else { return pending().await };
            sleep(lasts.max(LIST_AGE_MIN)).await;
            self.traffic.note_change();
        }
    }
}

/// Why there is no connection.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub(super) struct ConnectError {
    pub(super) message: String,
    /// Whether the server may just belong to the other era.
    may_be_legacy: bool,
}

impl ConnectError {
    fn fatal(message: impl Into<String>) -> Self {
        Self { message: message.into(), may_be_legacy: false }
    }
}

/// Connects to a server within this time. `known` is the era of an earlier connection.
///
/// # Errors
/// Why that failed, without the keys that the server is given: it may repeat those that it refuses.
pub(super) async fn connect(
    options: &McpOptions,
    auth: Option<&Arc<Authorized>>,
    known: Option<Era>,
    within: Duration,
) -> Result<Connection, ConnectError> {
    let keys = Arc::new(options.reach.keys());
    let connected = connect_with(&keys, options, auth, known, within).await;
    connected.map_err(|error| ConnectError { message: keys.hidden(error.message), ..error })
}

async fn connect_with(
    keys: &Arc<Keys>,
    options: &McpOptions,
    auth: Option<&Arc<Authorized>>,
    known: Option<Era>,
    within: Duration,
) -> Result<Connection, ConnectError> {
    let connecting = Box::pin(async {
        let eras = match (options.protocol, known) {
            (Protocol::Modern, _) => &[Probe::Modern][..],
            (Protocol::Legacy, _) | (_, Some(Era::Legacy)) => &[Probe::Legacy],
            (Protocol::Auto, _) => &[Probe::Auto, Probe::Legacy],
        };
        let mut failed = None;
        for probe in eras {
            match Box::pin(connect_as(keys, options, auth, *probe)).await {
                Ok(connection) => return Ok(connection),
                Err(error) if error.may_be_legacy => failed = Some(error),
                Err(error) => return Err(error),
            }
        }
        Err(failed.unwrap_or_else(|| ConnectError::fatal("it cannot be reached")))
    });
    timeout(within, connecting).await.unwrap_or_else(|_| {
        let seconds = within.as_secs_f64();
        let setting =
            if within == options.connect_timeout { " (`connect_timeout_sec`)" } else { "" };
        Err(ConnectError::fatal(format!("it did not answer within {seconds} s{setting}")))
    })
}

/// How the era is found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Probe {
    /// `server/discover`, and then `initialize` if the server answers that it does not know it.
    Auto,
    Modern,
    Legacy,
}

impl Probe {
    fn mode(self) -> ClientLifecycleMode {
        let preferred_versions = vec![ProtocolVersion::V_2026_07_28];
        match self {
            Self::Auto => ClientLifecycleMode::Auto {
                preferred_versions,
                legacy_version: Some(ProtocolVersion::LATEST_WITH_INITIALIZE),
            },
            Self::Modern => ClientLifecycleMode::Discover { preferred_versions },
            Self::Legacy => ClientLifecycleMode::Initialize,
        }
    }
}

async fn connect_as(
    keys: &Arc<Keys>,
    options: &McpOptions,
    auth: Option<&Arc<Authorized>>,
    probe: Probe,
) -> Result<Connection, ConnectError> {
    let traffic = Traffic::default();
    match &options.reach {
        Reach::Missing(reason) => Err(ConnectError::fatal(reason.clone())),
        Reach::Program(program) => {
            let name = Arc::clone(&options.rules.source.name);
            let started = Program::start(name, program, Arc::clone(keys));
            let (program, pipes) =
                started.map_err(|error| ConnectError::fatal(error.to_string()))?;
            let Some((input, output)) = pipes else {
                return Err(ConnectError::fatal("the program has no input or output"));
            };
            let stdio = Stdio::new(input, output, program.exited.clone());
            let transport = Gate::new(stdio, traffic.clone());
            let end = End::new(keys);
            let connected =
                Box::pin(handshake(transport, options, traffic, probe, Some(program), end)).await;
            match connected {
                Ok(connection) => Ok(connection),
                Err((error, program)) => Err(of_program(error, program).await),
            }
        }
        Reach::Http(reach) => {
            let end = End::new(keys);
            let client = HttpClient::new(reach.client.clone(), auth.cloned(), end.clone());
            let config = http::config(&reach.url, &reach.headers);
            let transport = StreamableHttpClientTransport::with_client(client, config);
            let transport = Gate::new(transport, traffic.clone());
            let connected =
                Box::pin(handshake(transport, options, traffic, probe, None, end)).await;
            connected.map_err(|(error, _)| of_http(&error))
        }
    }
}

/// What the gateway can do for a server: put its questions to the user.
fn client_config(options: &McpOptions) -> ClientConfig {
    let mut elicitation = ElicitationCapability::new();
    // The gateway fills in defaults itself.
    elicitation.form = Some(FormElicitationCapability::default());
    elicitation.url = options.may_send_to_pages.then(UrlElicitationCapability::default);
    let mut capabilities = ClientCapabilities::default();
    capabilities.elicitation = Some(elicitation);
    let own = Implementation::new("tether", env!("CARGO_PKG_VERSION"));
    let mut config = ClientConfig::new(capabilities, own);
    config.protocol_version = ProtocolVersion::LATEST_WITH_INITIALIZE;
    config
}

async fn handshake<T>(
    transport: Gate<T>,
    options: &McpOptions,
    traffic: Traffic,
    probe: Probe,
    program: Option<Program>,
    end: End,
) -> Result<Connection, (ClientInitializeError, Option<Program>)>
where
    T: Transport<RoleClient> + 'static,
{
    let handler = Handler::new(client_config(options), traffic.clone(), options);
    let service = match serve_client_with_lifecycle(handler, transport, probe.mode()).await {
        Ok(service) => service,
        Err(error) => return Err((error, program)),
    };
    let peer = service.peer().clone();
    let info = peer.peer_info();
    let version = info.as_deref().map(|info| info.protocol_version.clone()).unwrap_or_default();
    let era = if version >= ProtocolVersion::V_2026_07_28 { Era::Modern } else { Era::Legacy };
    let has_tools = info.is_some_and(|info| info.capabilities.tools.is_some());
    let stop = Mutex::new(Some(service.cancellation_token()));
    let (ended, is_to_program) = (end.clone(), program.is_some());
    tokio::spawn(async move {
        let _ = service.waiting().await;
        match program {
            Some(program) => ended.note(program.told_end().await),
            None => ended.note("the connection was lost"),
        }
    });
    Ok(Connection {
        peer,
        traffic,
        era,
        version: version.to_string(),
        has_tools,
        listed: Mutex::default(),
        is_to_program,
        end,
        stop,
    })
}

async fn of_program(error: ClientInitializeError, program: Option<Program>) -> ConnectError {
    let may_be_legacy = !matches!(error, ClientInitializeError::Cancelled);
    let is_end = matches!(
        error,
        ClientInitializeError::ConnectionClosed(_) | ClientInitializeError::TransportError { .. }
    );
    let message = match program {
        Some(program) if is_end => program.told_end().await,
        _ => told_handshake(&error),
    };
    ConnectError { message, may_be_legacy }
}

fn of_http(error: &ClientInitializeError) -> ConnectError {
    // A server that cannot be reached, or that does not let us in, is no better in the other era.
    let is_final = matches!(
        error,
        ClientInitializeError::TransportError { .. }
            | ClientInitializeError::NoCompatibleProtocolVersion { .. }
            | ClientInitializeError::LegacyFallbackFailed { .. }
    );
    ConnectError { message: told_handshake(error), may_be_legacy: !is_final }
}
