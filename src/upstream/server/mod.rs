//! A server that streams its answers: requesting a round, retrying if that makes sense, and
//! finding out what kind of server it is.

mod detecting;
mod failed;
mod fitting;
mod listing;
mod opening;
mod probing;
mod reading;
mod template;

use std::ops::RangeInclusive;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64};
use std::time::Duration;

use bytes::Bytes;
use hyper::header::{
    ACCEPT, ACCEPT_ENCODING, AUTHORIZATION, CONTENT_TYPE, HOST, HeaderValue, InvalidHeaderValue,
    LOCATION,
};
use hyper::{HeaderMap, Method, Request, StatusCode, Uri};
use parking_lot::Mutex;

use self::detecting::Guess;
use self::failed::Failed;
use self::listing::{FailedListing, Known};
use self::reading::coding;
use crate::call_format::ContractSetting;
use crate::hidden_key::HiddenKey;
use crate::http;
use crate::limits::upstream as limits;
use crate::trace_context::TraceContext;
use crate::upstream::chat_template::Losses;
use crate::upstream::client::{Answer, Client, ClientError};
use crate::upstream::constrain::Constrain;
use crate::upstream::detect::Detected;
use crate::upstream::dialect::{self, Dialect};
use crate::upstream::extra_sampling::RefusedSampling;
use crate::upstream::identity::Identity;
use crate::upstream::image_support::ImageSupport;
use crate::upstream::models::Models;
use crate::upstream::patience::Patience;
use crate::upstream::server_error::ServerError;
use crate::upstream::{ChatRequest, Round, RoundFailure};

/// Why an upstream cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum OptionsError {
    /// The address is not absolute.
    #[error("{0} is not a server address; expected http://HOST:PORT/v1")]
    BaseUrl(Uri),
    /// The key cannot be sent in a header.
    #[error("the API key of {0} has characters that are not allowed in a header")]
    ApiKey(String),
    /// There are no trusted certificates.
    #[error("cannot read the system's CA certificates: {0}")]
    Certificates(#[from] std::io::Error),
}

/// How to reach a server.
#[derive(Clone)]
pub struct ServerOptions {
    /// Up to and including `/v1`.
    pub(crate) base_url: Uri,
    /// Sent as `Authorization: Bearer`.
    pub(crate) api_key: Option<String>,
    /// The API that it speaks.
    pub(crate) dialect: dialect::Kind,
    /// The model's name on the server; empty for the server's first model.
    pub(crate) model: String,
    /// What restricts the model to valid calls.
    pub(crate) constrain: Constrain,
    /// Whether the chat template opens the model's reasoning.
    pub(crate) starts_in_reasoning: bool,
    /// Longest wait for a connection.
    pub(crate) connect_timeout: Duration,
    /// Longest silence.
    pub(crate) idle_timeout: Duration,
    /// Whether requests wait longer than that for their turn, while the server answers others.
    pub(crate) waits_while_busy: bool,
}

impl std::fmt::Debug for ServerOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ServerOptions")
            .field("base_url", &self.base_url)
            .field("api_key", &self.api_key.as_ref().map(|_| "..."))
            .field("dialect", &self.dialect)
            .field("model", &self.model)
            .field("constrain", &self.constrain)
            .field("starts_in_reasoning", &self.starts_in_reasoning)
            .field("connect_timeout", &self.connect_timeout)
            .field("idle_timeout", &self.idle_timeout)
            .field("waits_while_busy", &self.waits_while_busy)
            .finish()
    }
}

/// A server that streams its answers.
#[derive(Debug)]
pub(super) struct Server {
    name: String,
    client: Client,
    /// For traces and metrics: whose API it speaks, and its host and port.
    provider: &'static str,
    address: (String, u16),
    /// The path of `base_url`, without a trailing slash.
    path: String,
    /// The headers of every request.
    headers: HeaderMap,
    hidden_key: Option<HiddenKey>,
    dialect: Box<dyn Dialect>,
    /// Whether prompts are sent instead of messages.
    sends_prompts: bool,
    starts_in_reasoning: bool,
    contract: ContractSetting,
    images: ImageSupport,
    refused_sampling: RefusedSampling,
    /// How tightly conversations have to be told so that the model's context can hold them: see [`Way`].
    tightness: AtomicU8,
    /// The tightest way of telling a conversation that the log has spoken of.
    shown_tightness: AtomicU8,
    /// Whether the model's chat template refuses instructions as a message of their own.
    refuses_system: AtomicBool,
    /// Whether it has ever said why a model finished.
    gives_reasons: Mutex<Arc<AtomicBool>>,
    /// The model's name on the server; empty for the server's first model.
    model: String,
    idle_timeout: Duration,
    /// How long requests for answers wait for them.
    patience: Arc<Patience>,
    known: Mutex<Known>,
    /// The model's contract, if it was looked for and found.
    detected: Mutex<Option<Detected>>,
    /// The last guess; locked while a round looks for the contract.
    guessed: tokio::sync::Mutex<Option<Guess>>,
    /// Counts how many times the model may have been replaced: what was learnt of an earlier one is
    /// not kept.
    replacements: AtomicU64,
    /// The last list of models.
    listed: Mutex<Option<Models>>,
    /// What the model's chat template loses, once that is known.
    losses: Mutex<Option<Losses>>,
    /// Locked by the round that asks what the server is.
    asking: tokio::sync::Mutex<Option<FailedListing>>,
}

impl Server {
    pub(super) fn new(
        name: &str,
        contract: ContractSetting,
        options: ServerOptions,
    ) -> Result<Self, OptionsError> {
        let ServerOptions {
            base_url,
            api_key,
            dialect,
            model,
            constrain,
            starts_in_reasoning,
            connect_timeout,
            idle_timeout,
            waits_while_busy,
        } = options;
        let upstream = name.to_owned();
        let sends_prompts = dialect.sends_prompts();
        let dialect = dialect.dialect(dialect::Options { upstream, constrain });
        let bad_url = || OptionsError::BaseUrl(base_url.clone());
        let authority = base_url.authority().ok_or_else(bad_url)?;
        let host = HeaderValue::from_str(authority.as_str()).map_err(|_| bad_url())?;
        let hidden_key = api_key.as_deref().and_then(HiddenKey::of);
        let headers =
            headers(host, api_key.as_deref()).map_err(|_| OptionsError::ApiKey(name.to_owned()))?;
        let path = base_url.path().trim_end_matches('/');
        // llama.cpp's own API is beside `/v1`.
        let own = path.strip_suffix("/v1").filter(|_| sends_prompts);
        let path = own.unwrap_or(path).to_owned();
        let provider = if sends_prompts { "llama.cpp" } else { "openai" };
        let default_port = if base_url.scheme_str() == Some("https") { 443 } else { 80 };
        let address = (authority.host().to_owned(), authority.port_u16().unwrap_or(default_port));
        let client = Client::new(base_url, connect_timeout)?;
        let patience = Patience::new(idle_timeout);
        let patience = Arc::new(if waits_while_busy { patience.while_busy() } else { patience });
        Ok(Self {
            name: name.to_owned(),
            client,
            provider,
            address,
            path,
            headers,
            hidden_key,
            dialect,
            sends_prompts,
            starts_in_reasoning,
            contract,
            images: ImageSupport::default(),
            refused_sampling: RefusedSampling::default(),
            tightness: AtomicU8::new(0),
            shown_tightness: AtomicU8::new(0),
            refuses_system: AtomicBool::new(false),
            gives_reasons: Mutex::default(),
            model,
            idle_timeout,
            patience,
            known: Mutex::new(Known::Nothing),
            detected: Mutex::default(),
            guessed: tokio::sync::Mutex::default(),
            replacements: AtomicU64::new(0),
            listed: Mutex::default(),
            losses: Mutex::default(),
            asking: tokio::sync::Mutex::new(None),
        })
    }

    /// How traces and metrics name it.
    pub(super) fn telemetry_identity(&self) -> Identity {
        let listed = self.listed.lock();
        let model = listed.as_ref().map_or(&*self.model, |models| self.model_of(models));
        let (model, address) = (model.to_owned(), Some(self.address.clone()));
        Identity { provider: self.provider, model, address }
    }

    /// Whether the server takes images, as far as is known.
    pub(super) fn may_take_images(&self) -> bool {
        // A prompt is text.
        !self.sends_prompts && !self.images.is_refused()
    }

    /// Asks as often as is worthwhile, and waits for the answer to begin.
    async fn try_open(&self, render: impl Fn() -> ChatRequest) -> Result<Round, Failed> {
        // The variants from whose refusals this round has learnt: one after the other.
        let mut refused: Option<RangeInclusive<u8>> = None;
        let mut attempt = 1;
        loop {
            // Boxed, and rendered for each attempt, so that nothing of it is held while the model reads its prompt.
            let failed = match Box::pin(self.ask(render())).await {
                Ok(mut asked) => match asked.round.begin().await {
                    Ok(()) => return Ok(asked.round),
                    Err(failure) => self.learn_from(Failed::before_the_answer(failure), asked.sent),
                },
                Err(failed) => failed,
            };
            if let Some(last) = failed.refused_variant {
                refused = Some(refused.map_or(last, |refused| *refused.start())..=last);
            }
            if !failed.waits_to_retry(&mut attempt).await {
                // Asking for less has not helped, so that was not what the server refused.
                if let Some(refused) = refused {
                    self.dialect.unlearn(refused);
                }
                return Err(failed);
            }
        }
    }

    /// Makes one attempt, up to the head of an answer that is an event stream.
    async fn ask(&self, mut request: ChatRequest) -> Result<Asked, Failed> {
        let models = self.models().await?;
        let (model, flavour) = (self.model_of(&models), models.flavour);
        // vLLM refuses a limit that leaves its context no room for the prompt. Some clients always set a high one.
        let context = models.context.and_then(|tokens| tokens.try_into().ok());
        let most = context.map_or(u32::MAX, |tokens: u32| tokens - tokens / 4);
        request.sampling.max_tokens = request.sampling.max_tokens.map(|tokens| tokens.min(most));
        let prompt = match self.dialect.template_body(&request, model) {
            Some(body) => self.render(body.into()).await?,
            None => String::new(),
        };
        let server = dialect::Server { model, flavour, prompt: &prompt };
        let body = Bytes::from(self.dialect.body(&request, &server));
        let has_tools = !request.tools.is_empty();
        let (variant, replacements) = (self.dialect.variant(), self.replacements());
        let sent = Sent { has_tools, variant, replacements };
        let path = format!("{}{}", self.path, self.dialect.path());
        let mut post = self.request(Method::POST, &path, body);
        for (name, value) in request.trace.iter().flat_map(TraceContext::headers) {
            if let Ok(value) = HeaderValue::try_from(value) {
                post.headers_mut().insert(name, value);
            }
        }
        let mut answer = self.send(post, &self.patience).await?;
        if answer.head.status.is_redirection() {
            let location = answer.head.headers.get(LOCATION);
            let location = location.and_then(|value| value.to_str().ok());
            let location = location.map(|location| self.without_key(location.to_owned()));
            return Err(Failed::permanent(RoundFailure::redirected(location.as_deref())));
        }
        if !answer.head.status.is_success() {
            let body = self.read_error(&mut answer).await;
            return Err(self.learn_from(Failed::refused(&answer, &body), sent));
        }
        let media_type = answer.head.headers.get(CONTENT_TYPE);
        let media_type = media_type.and_then(|value| value.to_str().ok()).unwrap_or_default();
        if !http::is_media_type(media_type, "text/event-stream") {
            let media_type = self.without_key(media_type.to_owned());
            let body = self.read_error(&mut answer).await;
            let error = ServerError::from_body(body.as_bytes());
            return Err(Failed::permanent(RoundFailure::not_a_stream(&media_type, &error)));
        }
        if let Some(coding) = coding(&answer) {
            let coding = self.without_key(coding.to_owned());
            return Err(Failed::permanent(RoundFailure::compressed(&coding)));
        }
        // The model goes on with a prefilled message, whose reasoning is over; and a server that holds the answer to a
        // form does so from the first token on.
        let has_form = request.sampling.extra.fields().contains_key("response_format");
        let in_reasoning = (self.starts_in_reasoning && !request.is_prefilled && !has_form)
            || request.format.row().reasoning_open_in(&prompt).is_some();
        let decoder = self.dialect.decoder(&request);
        let round = Round::http(answer.body, request.contract, decoder, &self.patience)
            .hiding(self.hidden_key.clone())
            .with_reasons(Arc::clone(&self.gives_reasons.lock()))
            .begun_in_reasoning(in_reasoning)
            .prefilled(request.is_prefilled);
        Ok(Asked { round, sent })
    }

    /// Learns from a request that has failed. If another request may succeed, the failure says so: also if it is another
    /// round that has learnt how, or if another model may answer.
    fn learn_from(&self, mut failed: Failed, sent: Sent) -> Failed {
        let Some(status) = failed.status else { return failed };
        let Sent { has_tools, variant, replacements } = sent;
        let failure = &failed.failure;
        let is_unknown = status == StatusCode::NOT_FOUND && failure.is_refusal;
        let is_gone = self.model.is_empty() && failed.is_refusal() && failure.misses_model();
        if (is_unknown || is_gone) && !failure.is_overflow() {
            self.forget();
            // A name learnt from the server can be learnt again; a configured name is final.
            failed.wait = self.model.is_empty().then_some(Duration::ZERO);
        }
        if let Some(told) = failed.rejection.as_deref() {
            if self.replacements() != replacements {
                failed.wait = Some(Duration::ZERO);
            } else if self.dialect.learn_refusal(told, has_tools, variant) {
                failed.refused_variant = Some(variant);
            }
        }
        if self.dialect.variant() != variant {
            failed.wait = Some(Duration::ZERO);
        }
        failed
    }

    /// The name of the model to ask.
    fn model_of<'m>(&'m self, models: &'m Models) -> &'m str {
        let learnt = models.first.as_deref().unwrap_or_default();
        if self.model.is_empty() { learnt } else { &self.model }
    }

    /// The answer to a question about the server, in JSON.
    async fn look_up(&self, method: Method, path: &str, body: Bytes) -> Result<String, Failed> {
        self.look_up_within(limits::CHECK_TIMEOUT, method, path, body).await
    }

    async fn look_up_within(
        &self,
        within: Duration,
        method: Method,
        path: &str,
        body: Bytes,
    ) -> Result<String, Failed> {
        let request = self.request(method, path, body);
        let answer = self.send(request, &Patience::new(within)).await?;
        self.read_whole(answer, limits::MODELS_BYTES_MAX, within).await
    }

    /// Forgets what was learnt; the server may have been replaced.
    fn forget(&self) {
        *self.known.lock() = Known::Nothing;
        self.forget_model();
    }

    async fn send(
        &self,
        request: Request<Bytes>,
        patience: &Patience,
    ) -> Result<Answer, ClientError> {
        let outcome = self.client.send(request, patience).await;
        if outcome.as_ref().is_err_and(ClientError::is_unreachable) {
            self.forget();
        }
        outcome
    }

    fn request(&self, method: Method, path: &str, body: Bytes) -> Request<Bytes> {
        let mut request = Request::new(body);
        *request.method_mut() = method;
        *request.uri_mut() = path.parse().expect("the path is part of a valid URL");
        *request.headers_mut() = self.headers.clone();
        request
    }
}

/// The headers of every request.
fn headers(host: HeaderValue, api_key: Option<&str>) -> Result<HeaderMap, InvalidHeaderValue> {
    let accept = HeaderValue::from_static("text/event-stream, application/json");
    let mut headers = HeaderMap::from_iter([
        (HOST, host),
        (CONTENT_TYPE, HeaderValue::from_static("application/json")),
        (ACCEPT, accept),
        // Without it, any coding is acceptable (RFC 9110, section 12.5.3).
        (ACCEPT_ENCODING, HeaderValue::from_static("identity")),
    ]);
    if let Some(key) = api_key {
        let mut value = HeaderValue::from_str(&format!("Bearer {key}"))?;
        value.set_sensitive(true);
        headers.insert(AUTHORIZATION, value);
    }
    Ok(headers)
}

/// A request whose answer is an event stream.
struct Asked {
    round: Round,
    sent: Sent,
}

/// A request, as far as its refusal may teach something.
#[derive(Clone, Copy)]
struct Sent {
    has_tools: bool,
    /// What was asked for: see [`Dialect::variant`].
    variant: u8,
    /// How many times the model may have been replaced by then.
    replacements: u64,
}
