//! The HTTP server: accepts connections, answers requests, streams turns.
//!
//! HTTP/1.1 and HTTP/2 with prior knowledge share one port. Only [`rescue`] decides what a
//! client sees of an error.

mod admission;
mod answering;
mod auth;
mod body;
mod connection;
mod departure;
mod dialect;
mod direct;
mod early_failure;
mod forwarded;
mod handlers;
mod long_answers;
mod openapi;
mod owner_turns;
mod places;
mod playground;
mod query;
mod rate;
mod ready;
mod refusal;
mod reply;
mod request_body;
mod request_headers;
mod rescue;
mod responses;
mod route;
mod silence;
mod socket;
mod stall;
mod stream;
mod tls;
mod transport;
mod unread;
mod waiting;
mod whole;

use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use hyper::body::Bytes;
use hyper::header::HeaderName;
use metrics_exporter_prometheus::PrometheusHandle;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tower_http::cors::CorsLayer;
use tracing::{debug, warn};

use crate::conversation::claimed::Repair;
use crate::gateway::{ClientAddress, Gateway};
use crate::limits;
use crate::limits::server::REFUSED_CONNECTION_TIMEOUT;
use crate::telemetry::metrics::over_limit;
use crate::telemetry::seldom::Seldom;

pub(crate) use admission::ClientLimits;
use admission::{Admission, ConnectionGuard};
use auth::Auth;
pub(crate) use auth::AuthOptions;
use dialect::Dialects;
use dialect::chat_completions::ChatCompletions;
#[doc(hidden)]
pub use dialect::chat_completions::turns_in_history;
#[cfg(any(test, fuzzing))]
pub use dialect::fuzz;
use dialect::messages::Messages;
pub use dialect::messages::MessagesServerTools;
pub use dialect::models::ModelAlias;
use dialect::models::Models;
pub(crate) use dialect::models::NO_TOOLS;
pub(crate) use dialect::native::transcript::transcript;
use dialect::responses::Responses;
pub use dialect::responses::ServerItems;
pub use dialect::server_tools::ServerTools;
pub use forwarded::ForwardedHeader;
pub(crate) use forwarded::Proxies;
use long_answers::LongAnswers;
use places::{Place, Places};
use ready::UpstreamCheck;
use refusal::Limit;
use responses::StoredResponses;
pub use tls::TlsError;
pub(crate) use tls::{Tls, TlsFiles};
use transport::Transport;

/// Settings of the server.
#[derive(Debug, Clone)]
pub struct Options {
    /// Who may send requests.
    pub(crate) auth: AuthOptions,
    /// How many connections and requests each of them may have.
    pub(crate) clients: ClientLimits,
    /// The longest request body, in bytes.
    pub(crate) max_body_bytes: usize,
    /// The silence after which a keep-alive is sent.
    pub(crate) keep_alive: Duration,
    /// How long to wait for clients.
    pub(crate) timeouts: Timeouts,
    /// How much clients of Chat Completions are shown of the gateway's own tools.
    pub(crate) chat_server_tools: ServerTools,
    /// How clients of Responses see them.
    pub(crate) responses_server_tools: ServerItems,
    /// More names for models, in all dialects.
    pub(crate) models: Vec<ModelAlias>,
    /// Whether unknown names of models mean the default one.
    pub(crate) any_model: bool,
    /// The headers that name a conversation, besides `X-Session-Id`.
    pub(crate) session_headers: Vec<HeaderName>,
    /// What becomes of the gateway's own tools for clients of Messages.
    pub(crate) messages_server_tools: MessagesServerTools,
}

/// How long to wait for clients.
#[derive(Debug, Clone, Copy)]
pub struct Timeouts {
    /// For the TLS handshake.
    pub handshake: Duration,
    /// For the head of a request, and on an idle connection.
    pub head: Duration,
    /// For the body of a request.
    pub body: Duration,
    /// For a reader to take what was sent.
    pub reader: Duration,
}

/// The names in metrics of the limits on connections and requests.
pub(crate) fn limit_names() -> [&'static str; 3] {
    Limit::ALL.map(Limit::name)
}

/// The names in metrics of what is repaired in histories.
pub(crate) fn repair_names() -> [&'static str; Repair::ALL.len()] {
    Repair::ALL.map(Repair::name)
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            handshake: limits::server::TLS_HANDSHAKE_TIMEOUT,
            head: limits::server::HEAD_TIMEOUT,
            body: limits::server::BODY_TIMEOUT,
            reader: limits::stream::READER_STALL,
        }
    }
}

impl Default for Options {
    fn default() -> Self {
        Self {
            auth: AuthOptions::default(),
            clients: ClientLimits::default(),
            max_body_bytes: limits::server::BODY_BYTES_MAX,
            keep_alive: limits::stream::KEEP_ALIVE,
            timeouts: Timeouts::default(),
            chat_server_tools: ServerTools::default(),
            responses_server_tools: ServerItems::default(),
            models: Vec::new(),
            any_model: false,
            session_headers: Vec::new(),
            messages_server_tools: MessagesServerTools::default(),
        }
    }
}

/// The header that names a conversation.
const SESSION_ID: HeaderName = HeaderName::from_static("x-session-id");

/// Shared by all requests.
#[derive(Debug)]
struct App {
    gateway: Arc<Gateway>,
    auth: Auth,
    /// What pages of other origins may do.
    cors: CorsLayer,
    admission: Admission,
    metrics: PrometheusHandle,
    max_body_bytes: usize,
    keep_alive: Duration,
    timeouts: Timeouts,
    dialects: Dialects,
    /// The models that clients can ask for.
    models: Models,
    /// The headers that name a conversation; the first that is there counts.
    session_headers: Vec<HeaderName>,
    /// The description of the API, once it was asked for.
    description: OnceLock<Bytes>,
    /// When the server was started, in seconds since the Unix epoch.
    started_sec: u64,
    upstream_check: UpstreamCheck,
    /// Places for long bodies that are read at the same time.
    readings: Semaphore,
    long_answers: LongAnswers,
}

impl App {
    /// Creates the shared state of a server at `address`.
    fn new(
        options: Options,
        address: SocketAddr,
        gateway: Arc<Gateway>,
        metrics: PrometheusHandle,
    ) -> Self {
        let Options { auth, max_body_bytes, keep_alive, timeouts, models, any_model, .. } = options;
        let more_headers = options.session_headers;
        let auth = Auth::new(auth, address);
        let dialects = Dialects {
            chat_completions: ChatCompletions { shown: options.chat_server_tools },
            messages: Messages { server_tools: options.messages_server_tools },
            responses: Responses { shown: options.responses_server_tools },
        };
        let upstreams = gateway.upstreams().iter().map(|it| it.name().to_owned());
        let models = Models::new(upstreams.collect(), models, any_model);
        let session_headers = [SESSION_ID].into_iter().chain(more_headers).collect();
        let started_sec = now_sec();
        Self {
            gateway,
            cors: route::cors(auth.origins()),
            auth,
            admission: Admission::new(options.clients),
            metrics,
            max_body_bytes,
            keep_alive,
            timeouts,
            dialects,
            models,
            session_headers,
            description: OnceLock::new(),
            started_sec,
            upstream_check: UpstreamCheck::default(),
            readings: Semaphore::new(limits::server::READINGS_MAX),
            long_answers: LongAnswers::new(),
        }
    }
}

/// Seconds since the Unix epoch.
fn now_sec() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

/// A listening server.
#[derive(Debug)]
pub(crate) struct Server {
    listener: TcpListener,
    /// `None`: connections are plain.
    tls: Option<Arc<Tls>>,
    app: Arc<App>,
}

impl Server {
    /// Creates a server on a socket that is already listening.
    ///
    /// # Errors
    /// If the socket has no address.
    pub(crate) fn new(
        listener: TcpListener,
        tls: Option<Arc<Tls>>,
        options: Options,
        gateway: Arc<Gateway>,
        metrics: PrometheusHandle,
    ) -> std::io::Result<Self> {
        let app = Arc::new(App::new(options, listener.local_addr()?, gateway, metrics));
        app.gateway.serialize_with(Arc::new(StoredResponses(Arc::downgrade(&app))));
        Ok(Self { listener, tls, app })
    }

    /// Serves until `stop`. After that, open connections may finish what they are sending, for
    /// at most [`limits::server::CLOSE_TIMEOUT`].
    pub(crate) async fn serve(self, stop: CancellationToken) {
        let connections = TaskTracker::new();
        let places = Places::new(limits::server::CONNECTIONS_MAX);
        let refused = Places::new(limits::server::REFUSED_CONNECTIONS_MAX);
        let serve = async {
            let mut warnings = Seldom::default();
            loop {
                let (socket, peer) = self.accept(&places, &mut warnings).await;
                let guard = Arc::new(self.app.admission.count_connection(peer.ip()));
                let is_over = guard.is_over();
                let address = ClientAddress::from(peer.ip());
                let place = if is_over {
                    over_limit(Limit::Connections(0).name());
                    self.place_to_refuse(address, &refused)
                } else {
                    Some(places.take(address).await)
                };
                let Some(place) = place.map(Arc::new) else {
                    debug!(%peer, "a connection beyond its client's limit is closed");
                    continue;
                };
                let (app, stop) = (Arc::clone(&self.app), stop.clone());
                let accepted = Accepted { socket, guard, place, app, stop };
                if let Some(tls) = &self.tls {
                    let served = tls::serve(accepted, tls.place(address).await, Arc::clone(tls));
                    connections.spawn(Box::pin(served));
                    continue;
                }
                let Some(served) = serve_plain(accepted) else { continue };
                if is_over {
                    connections.spawn(timeout(REFUSED_CONNECTION_TIMEOUT, served));
                } else {
                    connections.spawn(served);
                }
            }
        };
        stop.run_until_cancelled(serve).await;
        drop(self.listener);
        connections.close();
        if timeout(limits::server::CLOSE_TIMEOUT, connections.wait()).await.is_err() {
            debug!(open = connections.len(), "closed the remaining connections");
        }
    }

    /// A place for a connection beyond its client's limit, for as long as it takes to say why it is refused. Under TLS
    /// there is none: a handshake costs more than a refusal is worth.
    fn place_to_refuse(&self, address: ClientAddress, refused: &Places) -> Option<Place> {
        if self.tls.is_some() { None } else { refused.try_take(address) }
    }

    /// Accepts the next connection.
    async fn accept(&self, places: &Places, warnings: &mut Seldom) -> (TcpStream, SocketAddr) {
        loop {
            match self.listener.accept().await {
                Ok(accepted) => return accepted,
                // Probably out of file descriptors.
                Err(error) if places.make_room(None).await => {
                    debug!(%error, "cannot accept a connection; closed a silent one");
                }
                Err(error) => {
                    if warnings.is_due(limits::server::ACCEPT_WARNING_INTERVAL) {
                        warn!(%error, "cannot accept a connection");
                    }
                    // Give open connections time to end.
                    tokio::time::sleep(limits::server::ACCEPT_PAUSE).await;
                }
            }
        }
    }
}

/// A connection that was accepted, and what it is served with.
struct Accepted {
    socket: TcpStream,
    guard: Arc<ConnectionGuard>,
    /// Free again once the socket is closed.
    place: Arc<Place>,
    app: Arc<App>,
    stop: CancellationToken,
}

/// Serves a connection without TLS. `None` if it is gone already.
fn serve_plain(
    Accepted { socket, guard, place, app, stop }: Accepted,
) -> Option<impl Future<Output = ()>> {
    match Transport::plain(socket) {
        Ok(transport) => Some(connection::serve(transport, guard, place, app, stop)),
        Err(error) => {
            debug!(peer = %guard.peer(), %error, "connection lost before it was served");
            None
        }
    }
}

#[cfg(test)]
mod tests;
