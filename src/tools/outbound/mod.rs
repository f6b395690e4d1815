//! An HTTP client for addresses that operators allow their tools to reach.
//!
//! ```text
//!   send ─> URL as browsers read it ─> pool ─> Connector: is this address allowed? ─> TCP ─> TLS
//!    ^                                                                                      |
//!    '──────────── a redirect, if it is to be followed <── Response<Body> <─────────────────'
//! ```
//! It keeps no cookies, follows no proxy variables and decompresses nothing. It has no time limit
//! for answers: dropping the future of a request, or its [`Body`], ends the request.
//!
//! Connections are pooled by hyper-util's client, which also speaks HTTP/2. The one for model
//! servers (`upstream/client`) saves wake-ups for each token, at the price of HTTP/1.1 only and
//! connections that nobody watches while they are idle; tools gain nothing from that.
//! **No request is sent twice**: the pool repeats one only if nothing of it was written, because
//! the server had closed the idle connection.

pub mod address;
mod body;
mod connect;
mod error;
#[cfg(test)]
pub(crate) mod tests;

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper::header::{HOST, LOCATION};
use hyper::http::request::Parts;
use hyper::{HeaderMap, Method, Request, Response, StatusCode, Uri};
use hyper_util::client::legacy::Client as Pool;
use hyper_util::client::legacy::connect::HttpInfo;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use tracing::debug;
use url::{Origin, Url};

pub use address::{Cidr, CidrError};
pub use body::Body;
pub use error::OutboundError;

use self::connect::Connector;
use crate::limits::outbound as limits;

/// Which addresses a client may reach.
///
/// Every other public address may be reached over `https`, and no other private one. Addresses
/// are checked when a connection is opened.
#[derive(Debug, Clone)]
pub enum Addresses {
    /// Those in these ranges, over `http` as well. Even loopback has to be listed.
    In(Vec<Cidr>),
    /// Whatever the host of this URL has, over the URL's scheme and port: whoever wrote the URL
    /// has chosen them.
    Of(Url),
}

impl Addresses {
    /// Whether a connection for `uri` to this address is allowed, whatever kind of address it is.
    fn allow(&self, uri: &Uri, address: IpAddr) -> bool {
        match self {
            Self::In(ranges) => ranges.iter().any(|range| range.contains(address)),
            Self::Of(url) => origin(uri).is_some_and(|origin| origin == url.origin()),
        }
    }
}

/// Options of a [`Client`].
#[derive(Debug, Clone)]
pub struct ClientOptions {
    /// Which addresses it may reach.
    pub addresses: Addresses,
    /// How long to wait for a connection, including the lookup of its host and TLS.
    pub connect_timeout: Duration,
    /// How many redirects to follow. Only those of GET requests are followed, and only to the
    /// same scheme, host and port. All others are answers like any other.
    pub redirects_max: usize,
}

impl ClientOptions {
    /// The default options: no redirects.
    #[must_use]
    pub const fn new(addresses: Addresses) -> Self {
        Self { addresses, connect_timeout: limits::CONNECT_TIMEOUT, redirects_max: 0 }
    }
}

/// A client with connections of its own. Copies share them.
#[derive(Clone)]
pub struct Client {
    options: Arc<ClientOptions>,
    pool: Pool<Connector, Full<Bytes>>,
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("options", &self.options).finish_non_exhaustive()
    }
}

impl Client {
    /// A client without connections. It has to be used inside a runtime.
    #[must_use]
    pub fn new(options: ClientOptions) -> Self {
        let options = Arc::new(options);
        Self::with(Connector::new(Arc::clone(&options)), options)
    }

    /// The same client, with the same connections, that follows no redirects.
    #[must_use]
    pub fn without_redirects(&self) -> Self {
        let options = ClientOptions { redirects_max: 0, ..ClientOptions::clone(&self.options) };
        Self { options: Arc::new(options), pool: self.pool.clone() }
    }

    fn with(connector: Connector, options: Arc<ClientOptions>) -> Self {
        let pool = Pool::builder(TokioExecutor::new())
            .timer(TokioTimer::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(limits::IDLE_CONNECTION_AGE)
            .pool_max_idle_per_host(limits::IDLE_CONNECTIONS_MAX)
            .http1_max_buf_size(limits::HEAD_BYTES_MAX)
            .http2_max_header_list_size(limits::H2_HEADER_BYTES_MAX)
            .http2_keep_alive_interval(limits::H2_PING_INTERVAL)
            .http2_keep_alive_timeout(limits::H2_PING_TIMEOUT)
            .build(connector);
        Self { options, pool }
    }

    /// Sends a request to an absolute URL, and waits for the head of the answer.
    ///
    /// The URL is read as browsers read it: `http://0x7f000001` is loopback. The `Host` field is
    /// the client's. Answers of any status are returned.
    ///
    /// # Errors
    /// See [`OutboundError`]. If [`is_unsent`](OutboundError::is_unsent), the server did not
    /// receive the request.
    pub async fn send(&self, request: Request<Bytes>) -> Result<Response<Body>, OutboundError> {
        let (head, body) = request.into_parts();
        let mut url = parse(&head.uri.to_string())?;
        let may_follow = self.options.redirects_max > 0 && head.method == Method::GET;
        let mut followed = 0;
        loop {
            let response = self.send_once(&head, &url, body.clone()).await?;
            let next = redirect(&url, response.status(), response.headers());
            let Some(next) = next.filter(|_| may_follow) else { return Ok(response) };
            if followed == self.options.redirects_max {
                return Err(OutboundError::Redirects { host: host(&url) });
            }
            followed += 1;
            url = next;
        }
    }

    async fn send_once(
        &self,
        head: &Parts,
        url: &Url,
        body: Bytes,
    ) -> Result<Response<Body>, OutboundError> {
        let host: Arc<str> = host(url).into();
        let uri: Uri = url.as_str().parse().map_err(|_| OutboundError::Url("it is too long"))?;
        let mut request = Request::new(Full::new(body));
        *request.method_mut() = head.method.clone();
        *request.uri_mut() = uri;
        *request.headers_mut() = head.headers.clone();
        request.headers_mut().remove(HOST);
        let answer = self.pool.request(request).await;
        let response = answer.map_err(|error| {
            debug!(host = &*host, method = %head.method, %error, "no answer");
            error::of_client(&error, &host)
        })?;
        let info = response.extensions().get::<HttpInfo>();
        debug!(
            host = &*host,
            address = info.map(|info| tracing::field::display(info.remote_addr())),
            method = %head.method,
            status = response.status().as_u16(),
            "answer"
        );
        Ok(response.map(|incoming| Body::new(incoming, host)))
    }
}

/// Reads a URL as browsers do.
fn parse(text: &str) -> Result<Url, OutboundError> {
    let mut url =
        Url::parse(text).map_err(|_| OutboundError::Url("it is not absolute, or not valid"))?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(OutboundError::Url("its scheme is neither http nor https"));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(OutboundError::Url("it has a user name or a password"));
    }
    url.set_fragment(None);
    Ok(url)
}

fn origin(uri: &Uri) -> Option<Origin> {
    Some(Url::parse(&uri.to_string()).ok()?.origin())
}

/// The host, for messages.
fn host(url: &Url) -> String {
    url.host_str().unwrap_or_default().to_owned()
}

/// Where an answer to a GET redirects to, if that is on the same origin.
fn redirect(url: &Url, status: StatusCode, headers: &HeaderMap) -> Option<Url> {
    if !matches!(status.as_u16(), 301 | 302 | 303 | 307 | 308) {
        return None;
    }
    let location = headers.get(LOCATION)?.to_str().ok()?;
    let next = parse(url.join(location).ok()?.as_str()).ok()?;
    (next.origin() == url.origin()).then_some(next)
}
