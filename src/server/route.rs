//! The addresses: their names, the methods they accept, and who may use them.

use std::borrow::Cow;

use hyper::Method;
use hyper::header::{HeaderName, HeaderValue, LOCATION, RETRY_AFTER};
use tower_http::cors::{AllowHeaders, CorsLayer};

use super::dialect::ag_ui::AgUi;
use super::dialect::ai_sdk::AiSdk;
use super::dialect::native::Native;
use super::dialect::{Dialect, Dialects};
use super::query;
use crate::limits;
use crate::session::ARTIFACTS;

pub(super) const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
/// The same as Anthropic's SDKs look for it.
pub(super) const ANTHROPIC_REQUEST_ID: HeaderName = HeaderName::from_static("request-id");
pub(super) const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");
pub(super) const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
/// Tells SDKs whether to send a request again after an error.
pub(super) const SHOULD_RETRY: HeaderName = HeaderName::from_static("x-should-retry");

/// The address at which turns begin and are rejoined.
pub(super) const CHAT_STREAM: &str = "/api/v1/chat/stream";
const CHAT_CANCEL: &str = "/api/v1/chat/cancel";
const SESSIONS: &str = "/api/v1/sessions/";
const RESPONSES: &str = "/v1/responses/";
const TOOLS: &str = "/api/v1/tools";
const AI_SDK_CHAT: &str = "/api/v1/ai-sdk/chat";

/// The addresses, with their variable parts.
#[derive(Debug)]
pub(super) enum Route<'a> {
    Playground,
    OpenApi,
    ChatStream,
    ChatCancel,
    Session(Cow<'a, str>),
    Tools,
    Artifact(&'a str),
    AgUi,
    /// The AI SDK's chats.
    AiSdkChat,
    /// The running turn of one of them.
    AiSdkStream(Cow<'a, str>),
    ChatCompletions,
    Responses,
    Response(&'a str),
    ResponseCancel(&'a str),
    ResponseInput(&'a str),
    Models,
    Model(Cow<'a, str>),
    Messages,
    CountTokens,
    Live,
    Ready,
    Metrics,
    None,
    /// Nothing, among the addresses of `OpenAI`'s APIs.
    NoneOfOpenAi,
    /// Nothing, among those of Anthropic's.
    NoneOfAnthropic,
}

impl<'a> Route<'a> {
    /// The route of a path.
    pub(super) fn of(path: &'a str) -> Self {
        match path {
            "/" => Self::Playground,
            "/openapi.json" => Self::OpenApi,
            CHAT_STREAM => Self::ChatStream,
            CHAT_CANCEL => Self::ChatCancel,
            TOOLS => Self::Tools,
            "/api/v1/ag-ui" => Self::AgUi,
            AI_SDK_CHAT => Self::AiSdkChat,
            "/v1/chat/completions" => Self::ChatCompletions,
            "/v1/responses" => Self::Responses,
            "/v1/models" => Self::Models,
            "/v1/messages" => Self::Messages,
            "/v1/messages/count_tokens" => Self::CountTokens,
            "/healthz" => Self::Live,
            "/readyz" => Self::Ready,
            "/metrics" => Self::Metrics,
            path => Self::with_id(path),
        }
    }

    fn with_id(path: &'a str) -> Self {
        let id_after = |prefix| {
            let id = path.strip_prefix(prefix);
            id.filter(|id| !id.is_empty() && !id.contains('/'))
        };
        if let Some(id) = id_after(SESSIONS) {
            return Self::Session(query::decode(id));
        }
        if let Some(rest) = path.strip_prefix(RESPONSES) {
            return match rest.split_once('/') {
                None if rest.is_empty() => Self::NoneOfOpenAi,
                None => Self::Response(rest),
                Some((id, "cancel")) => Self::ResponseCancel(id),
                Some((id, "input_items")) => Self::ResponseInput(id),
                Some(_) => Self::NoneOfOpenAi,
            };
        }
        if let Some(id) = path.strip_prefix(AI_SDK_CHAT).and_then(chat_id) {
            return Self::AiSdkStream(query::decode(id));
        }
        // Names of models may have slashes.
        if let Some(id) = path.strip_prefix("/v1/models/").filter(|id| !id.is_empty()) {
            return Self::Model(query::decode(id));
        }
        let none = match path {
            path if path.starts_with("/v1/messages/") => Self::NoneOfAnthropic,
            path if path.starts_with("/v1/") => Self::NoneOfOpenAi,
            _ => Self::None,
        };
        id_after(ARTIFACTS).map_or(none, Self::Artifact)
    }

    /// The name for metrics, the same for all addresses of a kind.
    pub(super) const fn name(&self) -> &'static str {
        match self {
            Self::Playground => "playground",
            Self::OpenApi => "openapi",
            Self::ChatStream => "chat_stream",
            Self::ChatCancel => "chat_cancel",
            Self::Session(_) => "session",
            Self::Tools => "tools",
            Self::Artifact(_) => "artifact",
            Self::AgUi => "ag_ui",
            Self::AiSdkChat => "ai_sdk_chat",
            Self::AiSdkStream(_) => "ai_sdk_stream",
            Self::ChatCompletions => "chat_completions",
            Self::Responses => "responses",
            Self::Response(_) => "response",
            Self::ResponseCancel(_) => "response_cancel",
            Self::ResponseInput(_) => "response_input_items",
            Self::Models => "models",
            Self::Model(_) => "model",
            Self::Messages => "messages",
            Self::CountTokens => "count_tokens",
            Self::Live => "healthz",
            Self::Ready => "readyz",
            Self::Metrics => "metrics",
            Self::None | Self::NoneOfOpenAi | Self::NoneOfAnthropic => "none",
        }
    }

    /// The API that it belongs to.
    pub(super) const fn dialect<'d>(&self, dialects: &'d Dialects) -> &'d dyn Dialect {
        match self {
            Self::ChatCompletions | Self::Models | Self::Model(_) | Self::NoneOfOpenAi => {
                &dialects.chat_completions
            }
            Self::AgUi => &AgUi,
            Self::AiSdkChat | Self::AiSdkStream(_) => &AiSdk,
            Self::Messages | Self::CountTokens | Self::NoneOfAnthropic => &dialects.messages,
            Self::Responses
            | Self::Response(_)
            | Self::ResponseCancel(_)
            | Self::ResponseInput(_) => &dialects.responses,
            _ => &Native,
        }
    }

    /// The methods that it accepts.
    pub(super) const fn methods(&self) -> &'static str {
        match self {
            Self::ChatStream => "GET, POST",
            Self::ChatCancel
            | Self::ChatCompletions
            | Self::Messages
            | Self::CountTokens
            | Self::AgUi
            | Self::AiSdkChat
            | Self::Responses
            | Self::ResponseCancel(_) => "POST",
            Self::Session(_) | Self::AiSdkStream(_) | Self::Response(_) => "GET, DELETE",
            _ => "GET",
        }
    }

    /// Whether it needs no key. These are the probes of orchestrators, and the playground page and
    /// the description, which hold no data of their own.
    pub(super) const fn is_open(&self) -> bool {
        matches!(self, Self::Live | Self::Ready | Self::Playground | Self::OpenApi)
    }
}

/// The chat of `/{id}/stream`.
fn chat_id(rest: &str) -> Option<&str> {
    let id = rest.strip_prefix('/')?.strip_suffix("/stream")?;
    (!id.is_empty() && !id.contains('/')).then_some(id)
}

/// What pages of the configured origins may send and read. They may send any header: SDKs have many
/// of their own (`x-stainless-..`, `anthropic-..`, `openai-..`), and none of them allows anything.
pub(super) fn cors(origins: &[String]) -> CorsLayer {
    let origins = origins.iter().filter_map(|origin| HeaderValue::from_str(origin).ok());
    CorsLayer::new()
        .allow_origin(origins.collect::<Vec<_>>())
        .allow_methods([Method::GET, Method::POST, Method::DELETE])
        .allow_headers(AllowHeaders::mirror_request())
        .expose_headers([REQUEST_ID, ANTHROPIC_REQUEST_ID, LOCATION, RETRY_AFTER, SHOULD_RETRY])
        .max_age(limits::server::PREFLIGHT_AGE)
}
