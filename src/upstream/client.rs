//! The HTTP client of a model server: connections, their reuse, one request on
//! one of them.
//!
//! A round drives its connection itself: the connection's future is polled where
//! the answer is read, so that a token costs one task wake-up, not two, and
//! dropping the answer drops the socket, which is how a model server learns that
//! nobody listens any more. Idle connections lie in the pool and are not driven;
//! one that the server has closed meanwhile shows it when it is taken out.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper::body::{Body as _, Frame, Incoming};
use hyper::client::conn::http1::{self, SendRequest};
use hyper::{HeaderMap, Request, Response, Uri};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder, MaybeHttpsStream};
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout};
use tower_service::Service as _;

use crate::limits::upstream as limits;

type Socket = MaybeHttpsStream<TokioIo<TcpStream>>;
type Driver = http1::Connection<Socket, Full<Bytes>>;

/// Why a request came to nothing before its answer began.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The address could not be reached.
    #[error("cannot connect to {origin}: {reason}")]
    Connect {
        /// Scheme, host and port.
        origin: String,
        /// What the system said.
        reason: String,
    },
    /// No connection within the time for it.
    #[error("no connection to {origin} within {} s", .after.as_secs_f32())]
    ConnectTimeout {
        /// Scheme, host and port.
        origin: String,
        /// The time that it had.
        after: Duration,
    },
    /// No answer within the time for it.
    #[error("no answer within {} s", .after.as_secs_f32())]
    AnswerTimeout {
        /// The time that it had.
        after: Duration,
    },
    /// The connection broke while the request was under way.
    #[error("the connection broke before an answer came: {0}")]
    Broken(#[source] hyper::Error),
}

/// A client of one server.
#[derive(Debug, Clone)]
pub struct Client {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    /// Scheme and authority, for the connector.
    origin: Uri,
    connector: HttpsConnector<HttpConnector>,
    connect_timeout: Duration,
    idle: Mutex<Vec<Idle>>,
}

#[derive(Debug)]
struct Idle {
    connection: Connection,
    /// When it is too old to be used.
    end: Instant,
}

/// A connection, with the future that moves its bytes.
struct Connection {
    sender: SendRequest<Full<Bytes>>,
    driver: Pin<Box<Driver>>,
    over: bool,
    inner: Arc<InnerWaker>,
    /// `inner` as a waker.
    waker: Waker,
}

/// Wakes the task that drives a connection, but not while it does so.
///
/// hyper passes each chunk of a body through a channel whose two ends wake each
/// other. Here both ends are one task: woken by itself, it would be queued and
/// polled once more for every batch of tokens, only to find nothing.
struct InnerWaker {
    task: Mutex<Waker>,
    /// Whether the task is driving the connection right now.
    driving: AtomicBool,
    /// Whether it was woken meanwhile.
    woken: AtomicBool,
}

impl InnerWaker {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            task: Mutex::new(Waker::noop().clone()),
            driving: AtomicBool::new(false),
            woken: AtomicBool::new(false),
        })
    }

    /// From here on a wake-up is only noted.
    fn enter(&self, task: &Waker) {
        self.driving.store(true, Ordering::SeqCst);
        let mut known = self.task.lock();
        if !known.will_wake(task) {
            known.clone_from(task);
        }
    }

    /// From here on a wake-up reaches the task. Returns whether there was one:
    /// each side writes its own flag before it reads the other's, so that none
    /// falls between.
    fn leave(&self) -> bool {
        self.driving.store(false, Ordering::SeqCst);
        self.woken.swap(false, Ordering::SeqCst)
    }
}

impl Wake for InnerWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.woken.store(true, Ordering::SeqCst);
        if !self.driving.load(Ordering::SeqCst) && self.woken.swap(false, Ordering::SeqCst) {
            self.task.lock().wake_by_ref();
        }
    }
}

impl std::fmt::Debug for Connection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Connection").field("over", &self.over).finish_non_exhaustive()
    }
}

impl Client {
    /// A client for the server at `origin`, of which scheme and authority count.
    ///
    /// # Errors
    /// When `origin` is `https` and the platform has no certificates to trust.
    pub fn new(origin: Uri, connect_timeout: Duration) -> std::io::Result<Self> {
        let mut http = HttpConnector::new();
        http.enforce_http(false);
        http.set_nodelay(true);
        http.set_connect_timeout(Some(connect_timeout));
        let builder = HttpsConnectorBuilder::new();
        let builder = if origin.scheme_str() == Some("https") {
            builder.with_provider_and_native_roots(rustls::crypto::ring::default_provider())?
        } else {
            // Nothing will be asked of it; it only has to have the same type.
            builder.with_tls_config(no_tls())
        };
        let connector = builder.https_or_http().enable_http1().wrap_connector(http);
        let shared = Shared { origin, connector, connect_timeout, idle: Mutex::default() };
        Ok(Self { shared: Arc::new(shared) })
    }

    /// Sends a request and waits for the head of its answer, at most `patience`.
    ///
    /// Dropping the future drops the connection. Where a connection from the pool
    /// breaks before an answer, the request goes out again on another one: the
    /// server mostly closed it just when it was taken out. llama.cpp does so behind
    /// each streamed answer, without a word in its head. At worst a prompt is read
    /// twice.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn send(
        &self,
        mut request: Request<Full<Bytes>>,
        patience: Duration,
    ) -> Result<Answer, ClientError> {
        loop {
            let pooled = self.shared.take_idle();
            let again = pooled.is_some().then(|| request.clone());
            let mut connection = match pooled {
                Some(connection) => connection,
                None => self.shared.connect().await?,
            };
            match timeout(patience, connection.exchange(request)).await {
                Err(_) => return Err(ClientError::AnswerTimeout { after: patience }),
                Ok(Ok(response)) => {
                    let client = self.clone();
                    return Ok(Answer::new(response, connection, client));
                }
                Ok(Err(error)) => match again {
                    // Rubbish is an answer, too.
                    Some(again) if !error.is_parse() => request = again,
                    _ => return Err(ClientError::Broken(error)),
                },
            }
        }
    }

    /// Scheme, host and port.
    #[must_use]
    pub fn origin(&self) -> &Uri {
        &self.shared.origin
    }
}

/// A TLS configuration that trusts nobody.
fn no_tls() -> rustls::ClientConfig {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("ring has the default versions")
        .with_root_certificates(rustls::RootCertStore::empty())
        .with_no_client_auth()
}

impl Shared {
    async fn connect(&self) -> Result<Connection, ClientError> {
        let origin = || self.origin.to_string().trim_end_matches('/').to_owned();
        let refused = |reason: String| ClientError::Connect { origin: origin(), reason };
        let mut connector = self.connector.clone();
        let connect = async {
            poll_fn(|cx| connector.poll_ready(cx)).await.map_err(|e| root_cause(&*e))?;
            connector.call(self.origin.clone()).await.map_err(|e| root_cause(&*e))
        };
        let socket = timeout(self.connect_timeout, connect)
            .await
            .map_err(|_| ClientError::ConnectTimeout {
                origin: origin(),
                after: self.connect_timeout,
            })?
            .map_err(refused)?;
        let (sender, driver) = http1::Builder::new()
            // Half of hyper's own: a token's frame is a quarter of a kilobyte.
            .read_buf_exact_size(Some(limits::READ_BUFFER_BYTES))
            .handshake(socket)
            .await
            .map_err(|e| refused(e.to_string()))?;
        Ok(Connection::new(sender, driver))
    }

    /// The connection that was used last and still lives.
    fn take_idle(&self) -> Option<Connection> {
        loop {
            let Idle { mut connection, end } = self.idle.lock().pop()?;
            if Instant::now() < end && connection.is_usable() {
                return Some(connection);
            }
        }
    }

    fn give_back(&self, connection: Connection, age_max: Duration) {
        let now = Instant::now();
        let mut idle = self.idle.lock();
        idle.retain(|idle| now < idle.end);
        if idle.len() < limits::IDLE_CONNECTIONS_MAX {
            idle.push(Idle { connection, end: now + age_max });
        }
    }
}

/// What lies at the bottom of an error: "connection refused", not "client error".
fn root_cause(error: &(dyn std::error::Error + 'static)) -> String {
    let mut cause = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    cause.to_string()
}

impl Connection {
    fn new(sender: SendRequest<Full<Bytes>>, driver: Driver) -> Self {
        let inner = InnerWaker::new();
        let waker = Waker::from(Arc::clone(&inner));
        Self { sender, driver: Box::pin(driver), over: false, inner, waker }
    }

    /// Moves bytes, as far as they go now.
    fn drive(&mut self) {
        if !self.over {
            let mut cx = Context::from_waker(&self.waker);
            self.over = self.driver.as_mut().poll(&mut cx).is_ready();
        }
    }

    /// Whether another request can be sent on it. A close that has arrived
    /// meanwhile is noticed here.
    fn is_usable(&mut self) -> bool {
        self.inner.enter(Waker::noop());
        self.drive();
        self.inner.leave();
        !self.over && self.sender.is_ready()
    }

    async fn exchange(
        &mut self,
        request: Request<Full<Bytes>>,
    ) -> hyper::Result<Response<Incoming>> {
        let mut response = std::pin::pin!(self.sender.send_request(request));
        let (driver, over) = (&mut self.driver, &mut self.over);
        poll_fn(|cx| {
            // The answer first: it may be there although the connection is over.
            if let Poll::Ready(response) = response.as_mut().poll(cx) {
                return Poll::Ready(response);
            }
            if !*over {
                *over = driver.as_mut().poll(cx).is_ready();
            }
            response.as_mut().poll(cx)
        })
        .await
    }
}

/// How long the connection of an answer may lie idle: a second less than the
/// server says in `Keep-Alive: timeout=5`, since its close and the next request
/// may cross, and at most [`limits::IDLE_CONNECTION_AGE`].
fn keep_alive(headers: &HeaderMap) -> Duration {
    let header = headers.get("keep-alive").and_then(|value| value.to_str().ok());
    let timeout = header.and_then(|value| {
        let mut parameters = value.split(',').map(str::trim);
        parameters.find_map(|parameter| parameter.strip_prefix("timeout="))
    });
    let seconds: Option<u64> = timeout.and_then(|seconds| seconds.parse().ok());
    let theirs = seconds.map(|seconds| Duration::from_secs(seconds.saturating_sub(1)));
    theirs.map_or(limits::IDLE_CONNECTION_AGE, |theirs| theirs.min(limits::IDLE_CONNECTION_AGE))
}

/// An answer whose body is still arriving. Dropping it drops the connection,
/// unless [`finish`](Self::finish) has seen the body's end.
#[derive(Debug)]
pub struct Answer {
    /// Status and headers.
    pub head: hyper::http::response::Parts,
    body: Incoming,
    connection: Connection,
    client: Client,
    /// Whether wake-ups are only noted, since the task is reading.
    entered: bool,
}

impl Answer {
    fn new(response: Response<Incoming>, connection: Connection, client: Client) -> Self {
        let (head, body) = response.into_parts();
        Self { head, body, connection, client, entered: false }
    }

    /// The next piece of the body as it came from the socket; `None` at its end.
    ///
    /// **After a piece, poll again, now or in the same task's next turn**: the task
    /// is woken for more only once this has been pending.
    ///
    /// # Errors
    /// When the connection broke before the body's end.
    pub fn poll_chunk(&mut self, cx: &mut Context<'_>) -> Poll<Option<hyper::Result<Bytes>>> {
        loop {
            if !std::mem::replace(&mut self.entered, true) {
                self.connection.inner.enter(cx.waker());
            }
            match self.poll_frame() {
                Poll::Pending => {
                    self.entered = false;
                    if !self.connection.inner.leave() {
                        return Poll::Pending;
                    }
                }
                Poll::Ready(None) => return Poll::Ready(None),
                Poll::Ready(Some(Err(error))) => return Poll::Ready(Some(Err(error))),
                Poll::Ready(Some(Ok(frame))) => match frame.into_data() {
                    Ok(data) if !data.is_empty() => return Poll::Ready(Some(Ok(data))),
                    // Trailers, or nothing at all.
                    _ => {}
                },
            }
        }
    }

    fn poll_frame(&mut self) -> Poll<Option<hyper::Result<Frame<Bytes>>>> {
        // Whatever the body waits for comes through `drive`, so it wakes nobody.
        let mut cx = Context::from_waker(Waker::noop());
        let frame = Pin::new(&mut self.body).poll_frame(&mut cx);
        if frame.is_ready() {
            return frame;
        }
        self.connection.drive();
        Pin::new(&mut self.body).poll_frame(&mut cx)
    }

    /// Reads what is left of the body as text: at most `bytes_max` of it, and what
    /// comes within `patience`.
    pub async fn read_to_string(&mut self, bytes_max: usize, patience: Duration) -> String {
        let mut body = Vec::new();
        let read = async {
            while let Some(Ok(chunk)) = poll_fn(|cx| self.poll_chunk(cx)).await {
                let room = bytes_max - body.len();
                body.extend_from_slice(&chunk[..chunk.len().min(room)]);
                if body.len() == bytes_max {
                    break;
                }
            }
        };
        // Half of an error says more than the news that it did not end.
        let _ = timeout(patience, read).await;
        String::from_utf8_lossy(&body).into_owned()
    }

    /// Waits a moment for the body's end and keeps the connection for the next
    /// request. Nothing more that matters is in it.
    pub fn finish(mut self) {
        let mut cx = Context::from_waker(Waker::noop());
        match self.poll_end(&mut cx) {
            Poll::Ready(true) => self.give_back(),
            Poll::Ready(false) => {}
            Poll::Pending => {
                tokio::spawn(async move {
                    let end = poll_fn(|cx| self.poll_end(cx));
                    if timeout(limits::ANSWER_END_TIMEOUT, end).await == Ok(true) {
                        self.give_back();
                    }
                });
            }
        }
    }

    /// Whether the body ended where it was expected to.
    fn poll_end(&mut self, cx: &mut Context<'_>) -> Poll<bool> {
        self.poll_chunk(cx).map(|chunk| chunk.is_none())
    }

    fn give_back(mut self) {
        if self.connection.is_usable() {
            let age_max = keep_alive(&self.head.headers);
            self.client.shared.give_back(self.connection, age_max);
        }
    }
}
