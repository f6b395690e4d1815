//! A configured upstream: how a round is opened on it.

use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HOST, HeaderValue, RETRY_AFTER};
use hyper::{Method, Request, Uri};
use parking_lot::Mutex;
use tokio::time::{Instant, sleep};
use tracing::debug;

use super::client::{Answer, Client, ClientError};
use super::openai_chat::{self, Flavour, request_body};
use super::server_error::ServerError;
use super::{History, Round, RoundFailure, RoundRequest, embedded};
use crate::limits::upstream as limits;

/// How an upstream is reached and spoken to.
#[derive(Debug, Clone)]
pub struct Options {
    /// Its name, by which clients ask for it.
    pub name: String,
    /// How calls and results go back to it.
    pub history: History,
    /// What speaks there.
    pub kind: Kind,
}

/// What speaks at an upstream.
#[derive(Debug, Clone)]
pub enum Kind {
    /// A server of streaming Chat Completions.
    OpenAiChat(ServerOptions),
    /// The rehearsal model.
    Embedded {
        /// Its pace; 0 is as fast as possible.
        tokens_per_sec: u32,
        /// The marker of its calls.
        marker: String,
    },
}

/// How a server of streaming Chat Completions is reached.
#[derive(Clone)]
pub struct ServerOptions {
    /// Up to and with `/v1`.
    pub base_url: Uri,
    /// Sent as `Authorization: Bearer`.
    pub api_key: Option<String>,
    /// How its requests are written. Without a model's name, the first model that
    /// the server has is asked.
    pub dialect: openai_chat::Options,
    /// Time for a connection.
    pub connect_timeout: Duration,
    /// Longest silence.
    pub idle_timeout: Duration,
}

impl std::fmt::Debug for ServerOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ServerOptions")
            .field("base_url", &self.base_url)
            .field("api_key", &self.api_key.as_ref().map(|_| "..."))
            .field("dialect", &self.dialect)
            .field("connect_timeout", &self.connect_timeout)
            .field("idle_timeout", &self.idle_timeout)
            .finish()
    }
}

/// Why an upstream cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum OptionsError {
    /// The address is no absolute one.
    #[error("{0} is no address of a server: http://HOST:PORT/v1 is expected")]
    BaseUrl(Uri),
    /// The key cannot be sent.
    #[error("the API key of {0} has characters that no header can carry")]
    ApiKey(String),
    /// There is nobody to trust.
    #[error("the platform's certificates cannot be read: {0}")]
    Certificates(#[from] std::io::Error),
}

/// An upstream, ready to be asked.
#[derive(Debug)]
pub struct Upstream {
    name: String,
    history: History,
    speaker: Speaker,
}

#[derive(Debug)]
enum Speaker {
    Server(Box<Server>),
    Embedded { tokens_per_sec: u32, marker: String },
}

impl Upstream {
    /// An upstream as configured. Nothing is sent to it yet.
    ///
    /// # Errors
    /// See [`OptionsError`].
    pub fn new(options: Options) -> Result<Self, OptionsError> {
        let Options { name, history, kind } = options;
        let speaker = match kind {
            Kind::OpenAiChat(options) => Speaker::Server(Box::new(Server::new(&name, options)?)),
            Kind::Embedded { tokens_per_sec, marker } => {
                Speaker::Embedded { tokens_per_sec, marker }
            }
        };
        Ok(Self { name, history, speaker })
    }

    /// Its name, by which clients ask for it.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// How calls and results go back to it.
    #[must_use]
    pub const fn history(&self) -> History {
        self.history
    }

    /// Asks for a round. Dropping the future, or the round, ends the generation.
    ///
    /// # Errors
    /// Nothing of an answer has arrived then; see [`RoundFailure`].
    pub async fn open(&self, request: &RoundRequest) -> Result<Round, RoundFailure> {
        match &self.speaker {
            Speaker::Server(server) => server.open(request).await,
            Speaker::Embedded { tokens_per_sec, marker } => {
                let script = embedded::answer(request, marker);
                Ok(Round::embedded(embedded::stream(script, *tokens_per_sec)))
            }
        }
    }

    /// Whether it can be reached now.
    ///
    /// # Errors
    /// Why it cannot.
    pub async fn check(&self) -> Result<(), RoundFailure> {
        match &self.speaker {
            Speaker::Server(server) => server.check().await,
            Speaker::Embedded { .. } => Ok(()),
        }
    }
}

/// A server of streaming Chat Completions.
#[derive(Debug)]
struct Server {
    client: Client,
    /// The path of `base_url`, without a slash at its end.
    path: String,
    host: HeaderValue,
    authorization: Option<HeaderValue>,
    dialect: openai_chat::Options,
    idle_timeout: Duration,
    /// What the server has said of itself.
    seen: Mutex<Option<Seen>>,
}

/// What a server says of itself in its list of models.
#[derive(Debug, Clone)]
struct Seen {
    flavour: Flavour,
    /// Its first model.
    model: Option<String>,
    at: Instant,
}

impl Server {
    fn new(name: &str, options: ServerOptions) -> Result<Self, OptionsError> {
        let ServerOptions { base_url, api_key, dialect, connect_timeout, idle_timeout } = options;
        let bad_url = || OptionsError::BaseUrl(base_url.clone());
        let authority = base_url.authority().ok_or_else(bad_url)?;
        let host = HeaderValue::from_str(authority.as_str()).map_err(|_| bad_url())?;
        let authorization = api_key
            .map(|key| {
                let mut value = HeaderValue::from_str(&format!("Bearer {key}"))
                    .map_err(|_| OptionsError::ApiKey(name.to_owned()))?;
                value.set_sensitive(true);
                Ok::<_, OptionsError>(value)
            })
            .transpose()?;
        let path = base_url.path().trim_end_matches('/').to_owned();
        let client = Client::new(base_url, connect_timeout)?;
        let seen = Mutex::new(None);
        Ok(Self { client, path, host, authorization, dialect, idle_timeout, seen })
    }

    async fn open(&self, request: &RoundRequest) -> Result<Round, RoundFailure> {
        let mut attempt = 1;
        loop {
            let failed = match self.ask(request).await {
                Ok(answer) => return Ok(Round::http(answer, self.idle_timeout)),
                Err(failed) => failed,
            };
            let Some(wait) = failed.wait.filter(|_| attempt < limits::ATTEMPTS_MAX) else {
                return Err(failed.failure);
            };
            debug!(attempt, reason = %failed.failure.message, "asking again");
            sleep(wait.max(limits::RETRY_BACKOFF * attempt)).await;
            attempt += 1;
        }
    }

    /// The request's body, once the server has said what it has, where that matters.
    async fn body(&self, request: &RoundRequest) -> Result<Bytes, Failed> {
        let knows_model = self.seen.lock().as_ref().is_some_and(|seen| seen.model.is_some());
        if self.dialect.model.is_empty() && !knows_model {
            self.look().await?;
        }
        let seen = self.seen.lock().clone();
        let flavour = seen.as_ref().map(|seen| seen.flavour).unwrap_or_default();
        let mut dialect = self.dialect.clone();
        if dialect.model.is_empty() {
            dialect.model = seen.and_then(|seen| seen.model).unwrap_or_default();
        }
        Ok(request_body(request, &dialect, flavour).into())
    }

    /// Asks once, up to the head of an answer that is an event stream.
    async fn ask(&self, request: &RoundRequest) -> Result<Answer, Failed> {
        let body = Full::new(self.body(request).await?);
        let request = self.request(Method::POST, "/chat/completions", body);
        let mut answer = self.client.send(request, self.idle_timeout).await?;
        let status = answer.head.status;
        if !status.is_success() {
            let said = answer.read_to_string(limits::ERROR_BODY_BYTES_MAX, self.idle_timeout).await;
            return Err(Failed::refused(&answer, &said));
        }
        let media_type = answer.head.headers.get(CONTENT_TYPE);
        let media_type = media_type.and_then(|value| value.to_str().ok()).unwrap_or_default();
        if !media_type.starts_with("text/event-stream") {
            let media_type = media_type.to_owned();
            let said = answer.read_to_string(limits::ERROR_BODY_BYTES_MAX, self.idle_timeout).await;
            let error = ServerError::from_body(said.as_bytes());
            return Err(Failed::finally(RoundFailure::no_stream(&media_type, &error)));
        }
        Ok(answer)
    }

    async fn check(&self) -> Result<(), RoundFailure> {
        let fresh = |seen: &Seen| seen.at.elapsed() < limits::CHECK_AGE;
        if self.seen.lock().as_ref().is_some_and(fresh) {
            return Ok(());
        }
        self.look().await.map_err(|failed| failed.failure)
    }

    /// Asks for the list of models, which every server has and which names it.
    async fn look(&self) -> Result<(), Failed> {
        let request = self.request(Method::GET, "/models", Full::default());
        let mut answer = self.client.send(request, limits::CHECK_TIMEOUT).await?;
        let said = answer.read_to_string(limits::MODELS_BYTES_MAX, limits::CHECK_TIMEOUT).await;
        if !answer.head.status.is_success() {
            return Err(Failed::refused(&answer, &said));
        }
        let flavour = Flavour::of_models(&said);
        let model = first_model(&said);
        *self.seen.lock() = Some(Seen { flavour, model, at: Instant::now() });
        answer.finish();
        Ok(())
    }

    fn request(&self, method: Method, path: &str, body: Full<Bytes>) -> Request<Full<Bytes>> {
        let uri = format!("{}{path}", self.path);
        let mut request = Request::builder()
            .method(method)
            .uri(uri)
            .header(HOST, &self.host)
            .header(CONTENT_TYPE, "application/json")
            .header(ACCEPT, "text/event-stream, application/json");
        if let Some(authorization) = &self.authorization {
            request = request.header(AUTHORIZATION, authorization);
        }
        request.body(body).expect("the path comes from a valid address")
    }
}

/// The first model of a list such as `{"data":[{"id":"..."}]}`.
fn first_model(models: &str) -> Option<String> {
    let models: serde_json::Value = serde_json::from_str(models).ok()?;
    models.pointer("/data/0/id")?.as_str().map(str::to_owned)
}

/// A request that came to nothing, and how long to wait before the next, where
/// that makes sense.
struct Failed {
    failure: RoundFailure,
    wait: Option<Duration>,
}

impl Failed {
    /// The server has answered, and with an error.
    fn refused(answer: &Answer, said: &str) -> Self {
        let status = answer.head.status.as_u16();
        let failure = RoundFailure::refused(status, &ServerError::from_body(said.as_bytes()));
        let is_busy = matches!(status, 429 | 502 | 503 | 504);
        Self { failure, wait: retry_after(answer).filter(|_| is_busy) }
    }

    const fn finally(failure: RoundFailure) -> Self {
        Self { failure, wait: None }
    }
}

impl From<ClientError> for Failed {
    fn from(error: ClientError) -> Self {
        // A server that is being started refuses connections for a moment. Where
        // the request may have arrived, it is not sent twice.
        let wait = matches!(error, ClientError::Connect { .. }).then_some(Duration::ZERO);
        Self { failure: error.into(), wait }
    }
}

/// What the server asks for, or no time at all; `None` where it is too long.
fn retry_after(answer: &Answer) -> Option<Duration> {
    let Some(header) = answer.head.headers.get(RETRY_AFTER) else { return Some(Duration::ZERO) };
    let seconds = header.to_str().ok()?.trim().parse().ok()?;
    Some(Duration::from_secs(seconds)).filter(|wait| *wait <= limits::RETRY_AFTER_MAX)
}
