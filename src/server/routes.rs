//! What is at which address.

use std::sync::Arc;
use std::time::Duration;

use hyper::body::Incoming;
use hyper::header::{
    AUTHORIZATION, CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderMap, HeaderName,
    HeaderValue, LOCATION, ORIGIN, RETRY_AFTER,
};
use hyper::{Method, Request, StatusCode};
use serde_json::json;
use tower_http::cors::CorsLayer;
use tracing::{Instrument as _, debug, info_span};
use uuid::Uuid;

use super::auth::API_KEY;
use super::body::EventBody;
use super::query::{self, FrameId};
use super::rescue::{Refusal, Reply, ReplyBody, json_reply, whole};
use super::stall::Pace;
use super::{App, request};
use crate::gateway::BegunTurn;
use crate::session::{Found, LoggedTurn};
use crate::telemetry::metrics;

const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");
const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
const ACCEL_BUFFERING: HeaderName = HeaderName::from_static("x-accel-buffering");

const CHAT_STREAM: &str = "/api/v1/chat/stream";
const SESSIONS: &str = "/api/v1/sessions/";

const PLAYGROUND: &str = include_str!("playground/index.html");

/// What pages of other origins may send and read.
pub(super) fn cors(origins: &[String]) -> CorsLayer {
    let origins = origins.iter().filter_map(|origin| HeaderValue::from_str(origin).ok());
    CorsLayer::new()
        .allow_origin(origins.collect::<Vec<_>>())
        .allow_methods([Method::GET, Method::POST, Method::DELETE])
        .allow_headers([
            AUTHORIZATION,
            CONTENT_TYPE,
            LAST_EVENT_ID,
            API_KEY,
            IDEMPOTENCY_KEY,
            REQUEST_ID,
        ])
        .expose_headers([REQUEST_ID, LOCATION, RETRY_AFTER])
        .max_age(Duration::from_secs(7200))
}

/// Answers a request.
pub(super) async fn answer(request: Request<Incoming>, app: Arc<App>, pace: Arc<Pace>) -> Reply {
    let id = request_id(request.headers());
    let span = info_span!("request", id = %id.to_str().unwrap_or_default());
    async move {
        let (method, path) = (request.method().clone(), request.uri().path().to_owned());
        let route = Route::of(&path);
        let mut reply = match dispatch(request, &route, &app, &pace).await {
            Ok(reply) => reply,
            Err(refusal) => refusal.into_reply(),
        };
        let status = reply.status().as_u16();
        metrics::request(route.name(), status);
        debug!(%method, path, status, "answered");
        reply.headers_mut().insert(REQUEST_ID, id);
        reply
    }
    .instrument(span)
    .await
}

/// The client's own id for the request, where it has one that can be logged.
fn request_id(headers: &HeaderMap) -> HeaderValue {
    let theirs = headers.get(REQUEST_ID).filter(|id| {
        (1..=128).contains(&id.len()) && id.as_bytes().iter().all(u8::is_ascii_graphic)
    });
    theirs.cloned().unwrap_or_else(|| {
        HeaderValue::from_str(&Uuid::new_v4().to_string()).expect("a UUID is hex and dashes")
    })
}

/// The addresses, with what is variable in them.
enum Route {
    Playground,
    ChatStream,
    Cancel,
    Session(String),
    Tools,
    Live,
    Ready,
    Metrics,
    None,
}

impl Route {
    fn of(path: &str) -> Self {
        match path {
            "/" => Self::Playground,
            CHAT_STREAM => Self::ChatStream,
            "/api/v1/chat/cancel" => Self::Cancel,
            "/api/v1/tools" => Self::Tools,
            "/healthz" => Self::Live,
            "/readyz" => Self::Ready,
            "/metrics" => Self::Metrics,
            path => match path.strip_prefix(SESSIONS) {
                Some(id) if !id.is_empty() && !id.contains('/') => {
                    Self::Session(query::decode(id).into_owned())
                }
                _ => Self::None,
            },
        }
    }

    /// For metrics: one name for all addresses of a kind.
    const fn name(&self) -> &'static str {
        match self {
            Self::Playground => "playground",
            Self::ChatStream => "chat_stream",
            Self::Cancel => "chat_cancel",
            Self::Session(_) => "session",
            Self::Tools => "tools",
            Self::Live => "healthz",
            Self::Ready => "readyz",
            Self::Metrics => "metrics",
            Self::None => "none",
        }
    }

    /// The methods that it takes.
    const fn methods(&self) -> &'static str {
        match self {
            Self::ChatStream => "GET, POST",
            Self::Cancel => "POST",
            Self::Session(_) => "GET, DELETE",
            _ => "GET",
        }
    }

    /// Whether it is open to those without a key: what orchestrators probe, and
    /// the page, which holds no data of its own.
    const fn is_open(&self) -> bool {
        matches!(self, Self::Live | Self::Ready | Self::Playground)
    }
}

async fn dispatch(
    request: Request<Incoming>,
    route: &Route,
    app: &App,
    pace: &Arc<Pace>,
) -> Result<Reply, Refusal> {
    app.auth.check_browser(&request)?;
    if !route.is_open() {
        app.auth.check_key(request.headers())?;
    }
    let reads = matches!(*request.method(), Method::GET | Method::HEAD);
    match (request.method(), route) {
        (_, Route::None) => Err(Refusal::NoSuchPath),
        (&Method::POST, Route::ChatStream) => begin(request, app, pace).await,
        (&Method::GET, Route::ChatStream) => rejoin(&request, app, pace),
        (&Method::POST, Route::Cancel) => cancel(request, app).await,
        (&Method::DELETE, Route::Session(id)) => forget(id, app),
        (_, Route::Session(id)) if reads => transcript(id, app),
        (_, Route::Tools) if reads => Ok(tools(app)),
        (_, Route::Live) if reads => Ok(json_reply(StatusCode::OK, &json!({ "status": "ok" }))),
        (_, Route::Ready) if reads => Ok(ready(app).await),
        (_, Route::Metrics) if reads => Ok(text(app.metrics.render(), "text/plain; version=0.0.4")),
        (_, Route::Playground) if reads => Ok(playground()),
        _ => Err(Refusal::Method(route.methods())),
    }
}

async fn begin(request: Request<Incoming>, app: &App, pace: &Arc<Pace>) -> Result<Reply, Refusal> {
    check_media_type(request.headers())?;
    let key = request.headers().get(IDEMPOTENCY_KEY);
    let key = key.map(|key| String::from_utf8_lossy(key.as_bytes()).into_owned());
    let seen = last_event_id(&request);
    let body = request::read(request.into_body(), app.max_body_bytes, app.patience.body).await?;
    let new = request::parse(&body, key)?;
    let BegunTurn { session_id, turn, repeated } =
        app.gateway.begin(new).map_err(Refusal::Begin)?;
    // A client that tries again under its key says what it has seen; of a turn that
    // has just begun, nobody has seen anything.
    let seen = if repeated { seen? } else { FrameId::Ours(0) };
    resume(&session_id, &turn, seen, app, pace)
}

/// A page sends JSON as JSON, so that the browser asks first; a shell need not.
fn check_media_type(headers: &HeaderMap) -> Result<(), Refusal> {
    let media_type = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let is_json = media_type.is_some_and(|value| {
        let (media_type, _parameters) = value.split_once(';').unwrap_or((value, ""));
        media_type.trim().eq_ignore_ascii_case("application/json")
    });
    if is_json || !headers.contains_key(ORIGIN) { Ok(()) } else { Err(Refusal::MediaType) }
}

fn rejoin(request: &Request<Incoming>, app: &App, pace: &Arc<Pace>) -> Result<Reply, Refusal> {
    let query = request.uri().query();
    let Some(session_id) = query::value(query, "session_id") else {
        return Err(Refusal::invalid("session_id", "session_id is required in the query"));
    };
    request::check_session_id(&session_id)?;
    let seen = last_event_id(request)?;
    let session = app.gateway.session(&session_id).ok_or(Refusal::Unknown("session"))?;
    let turn = match session.turn(query::value(query, "turn_id").as_deref()) {
        Found::Turn(turn) => turn,
        Found::Gone => return Err(Refusal::Gone("turn")),
        Found::Unknown => return Err(Refusal::Unknown("turn")),
    };
    resume(&session_id, &turn, seen, app, pace)
}

/// What a turn's log has behind the frame that the client has seen.
fn resume(
    session_id: &str,
    turn: &LoggedTurn,
    seen: FrameId,
    app: &App,
    pace: &Arc<Pace>,
) -> Result<Reply, Refusal> {
    let log = &turn.log;
    // In this order: a log that ends in between has only grown.
    let (has_ended, last) = (log.has_ended(), log.last_sequence());
    match seen {
        FrameId::OtherEpoch => Err(Refusal::Gone("event id")),
        FrameId::Ours(after) if after > last => Err(Refusal::Gone("event id")),
        // An EventSource asks again after every end; this is how it is told to stop.
        FrameId::Ours(after) if has_ended && after == last => Ok(whole(StatusCode::NO_CONTENT, "")),
        FrameId::Ours(after) => Ok(stream(session_id, turn, after, app, pace)),
    }
}

/// What the client has seen last: nothing, where it does not say.
fn last_event_id(request: &Request<Incoming>) -> Result<FrameId, Refusal> {
    let header = request.headers().get(LAST_EVENT_ID);
    let header = header.map(|id| String::from_utf8_lossy(id.as_bytes()));
    let id = header.or_else(|| query::value(request.uri().query(), "last_event_id"));
    match id.as_deref() {
        None | Some("") => Ok(FrameId::Ours(0)),
        Some(id) => FrameId::parse(id)
            .ok_or_else(|| Refusal::invalid("Last-Event-ID", "an event id looks like 1-42")),
    }
}

/// The stream of a turn's events behind frame `after`.
fn stream(session_id: &str, turn: &LoggedTurn, after: u64, app: &App, pace: &Arc<Pace>) -> Reply {
    let LoggedTurn { turn_id, log } = turn;
    let body = EventBody::new(log.read_after(after), pace.reader(), app.keep_alive);
    let mut reply = Reply::new(ReplyBody::Events(body));
    let headers = reply.headers_mut();
    let session = query::encode(session_id);
    let location = format!("{CHAT_STREAM}?session_id={session}&turn_id={turn_id}");
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream; charset=utf-8"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache, no-transform"));
    headers.insert(ACCEL_BUFFERING, HeaderValue::from_static("no"));
    if let Ok(location) = HeaderValue::from_str(&location) {
        headers.insert(LOCATION, location);
    }
    reply
}

async fn cancel(request: Request<Incoming>, app: &App) -> Result<Reply, Refusal> {
    check_media_type(request.headers())?;
    let body = request::read(request.into_body(), app.max_body_bytes, app.patience.body).await?;
    let request::Cancel { session_id } = request::parse_cancel(&body)?;
    let session = app.gateway.session(&session_id).ok_or(Refusal::Unknown("session"))?;
    if session.cancel() {
        Ok(json_reply(StatusCode::ACCEPTED, &json!({ "status": "cancelling" })))
    } else {
        Err(Refusal::Unknown("running turn"))
    }
}

fn transcript(id: &str, app: &App) -> Result<Reply, Refusal> {
    let session = app.gateway.session(id).ok_or(Refusal::Unknown("session"))?;
    let running = session.running().map(|turn| turn.turn_id);
    let conversation = session.conversation();
    let body = json!({
        "session_id": session.id(),
        "running_turn_id": running,
        "dropped_turns": conversation.dropped(),
        "turns": conversation,
    });
    Ok(json_reply(StatusCode::OK, &body))
}

fn forget(id: &str, app: &App) -> Result<Reply, Refusal> {
    if app.gateway.forget(id) {
        Ok(whole(StatusCode::NO_CONTENT, ""))
    } else {
        Err(Refusal::Unknown("session"))
    }
}

fn tools(app: &App) -> Reply {
    let tools: Vec<_> = app.gateway.tools().specs().collect();
    json_reply(StatusCode::OK, &json!({ "tools": tools }))
}

async fn ready(app: &App) -> Reply {
    if app.gateway.is_draining() {
        let body = json!({ "status": "draining" });
        return json_reply(StatusCode::SERVICE_UNAVAILABLE, &body);
    }
    match app.gateway.check_upstream().await {
        Ok(()) => json_reply(StatusCode::OK, &json!({ "status": "ready" })),
        Err(failure) => {
            let body = json!({ "status": "upstream_unreachable", "message": failure.message });
            json_reply(StatusCode::SERVICE_UNAVAILABLE, &body)
        }
    }
}

/// The page, in no frame: a page around it could borrow its user's clicks.
fn playground() -> Reply {
    let mut reply = text(PLAYGROUND.to_owned(), "text/html; charset=utf-8");
    let policy = HeaderValue::from_static("frame-ancestors 'none'");
    reply.headers_mut().insert(CONTENT_SECURITY_POLICY, policy);
    reply
}

fn text(body: String, media_type: &'static str) -> Reply {
    let mut reply = whole(StatusCode::OK, body);
    reply.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(media_type));
    reply
}
