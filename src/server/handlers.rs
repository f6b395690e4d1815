//! The handler of each address.

use std::borrow::Cow;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;

use hyper::body::Bytes;
use hyper::header::{
    CACHE_CONTROL, CONTENT_DISPOSITION, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderName,
    HeaderValue, X_CONTENT_TYPE_OPTIONS,
};
use hyper::http::request::Parts;
use hyper::{Method, Request, StatusCode, Version};
use serde_json::json;
use tracing::{Instrument as _, debug, info_span};

use super::dialect::ag_ui::AgUi;
use super::dialect::ai_sdk::{self, AiSdk};
use super::dialect::ended::is_final;
use super::dialect::messages::Counting;
use super::dialect::native::{self, Native, request, transcript};
use super::dialect::{
    ClientRequest, Dialects, Form, ImageReader, ParsedRequest, RequestReader, WholeAnswer,
};
use super::early_failure::{early_failure, until_begun};
use super::ready::ready;
use super::refusal::Refusal;
use super::reply::{Reply, empty, json_reply, json_text, whole_reply, without_body};
use super::request_body::{self, RequestBody};
use super::request_headers::{accept, check_body_headers, conversation_name, request_id, trace};
use super::route::{ANTHROPIC_REQUEST_ID, IDEMPOTENCY_KEY, REQUEST_ID, Route};
use super::stream::{last_event_id, resume, single};
use super::waiting::Waiting;
use super::whole::{collect, whole_answer};
use super::{App, now_sec, openapi, owner_turns, playground, query, responses};
use crate::conversation::claimed::TurnLookup;
use crate::gateway::{BeginError, BegunTurn, NewTurn};
use crate::limits::server::FILE_NAME_CHARS_MAX;
use crate::limits::stream::EARLY_FAILURE_WAIT;
use crate::session::store::{Artifact, MemoryUsage};
use crate::session::{self, Cancel, FoundTurn, off_worker};
use crate::telemetry::metrics;

/// Answers a request.
pub(super) async fn answer(request: Request<impl RequestBody>, app: Arc<App>) -> Reply {
    let id = request_id(request.headers());
    let span = info_span!("request", id = %id.to_str().unwrap_or_default());
    async move {
        let (request, body) = request.into_parts();
        let route = Route::of(request.uri.path());
        let mut reply = match dispatch(&request, body, &route, &app).await {
            Ok(reply) => reply,
            Err(refusal) => refusal.into_reply(route.dialect(&app.dialects)),
        };
        let status = reply.status().as_u16();
        metrics::request(route.name(), status);
        debug!(method = %request.method, path = request.uri.path(), status, "answered");
        if request.method == Method::HEAD {
            reply = without_body(reply, request.version);
        }
        if matches!(route, Route::Messages | Route::CountTokens) {
            reply.headers_mut().insert(ANTHROPIC_REQUEST_ID, id.clone());
        }
        reply.headers_mut().insert(REQUEST_ID, id);
        reply
    }
    .instrument(span)
    .await
}

async fn dispatch(
    request: &Parts,
    body: impl RequestBody,
    route: &Route<'_>,
    app: &Arc<App>,
) -> Result<Reply, Refusal> {
    if let Err(refusal) = app.admission.count_request(request) {
        if refusal.closes() {
            request_body::discard_short(request, body).await;
        }
        return Err(refusal);
    }
    app.auth.check_browser(request)?;
    if !route.is_open() {
        app.auth.check_key(&request.headers)?;
        app.admission.count_key_request(|| app.auth.owner(&request.headers))?;
    }
    request_body::check_transfer_encoding(&request.headers)?;
    let reads = matches!(request.method, Method::GET | Method::HEAD);
    match (&request.method, route) {
        (_, Route::None | Route::NoneOfOpenAi | Route::NoneOfAnthropic) => Err(Refusal::NoSuchPath),
        (&Method::POST, Route::ChatStream) => begin(request, body, app, |_| &Native).await,
        (&Method::POST, Route::ChatCompletions) => {
            begin(request, body, app, |dialects| &dialects.chat_completions).await
        }
        (&Method::POST, Route::Messages) => {
            begin(request, body, app, |dialects| &dialects.messages).await
        }
        (&Method::POST, Route::AgUi) => begin(request, body, app, |_| &AgUi).await,
        (&Method::POST, Route::AiSdkChat) => begin(request, body, app, |_| &AiSdk).await,
        (&Method::POST, Route::Responses) => respond(request, body, app).await,
        (&Method::POST, Route::Response("compact")) => responses::compact(request, body, app).await,
        (&Method::DELETE, Route::Response(id)) => responses::delete(request, id, app).await,
        (_, Route::Response(id)) if reads => responses::get(request, id, app).await,
        (&Method::POST, Route::ResponseCancel(id)) => responses::cancel(request, id, app).await,
        (_, Route::ResponseInput(id)) if reads => responses::input_items(request, id, app).await,
        (&Method::GET, Route::ChatStream) => rejoin(request, app).await,
        (&Method::POST, Route::CountTokens) => count_tokens(request, body, app).await,
        (&Method::GET, Route::AiSdkStream(chat_id)) => join_chat(request, chat_id, app).await,
        (&Method::DELETE, Route::AiSdkStream(chat_id)) => stop_chat(request, chat_id, app).await,
        (_, Route::Models) if reads => Ok(models(app)),
        (_, Route::Model(name)) if reads => model(name, app),
        (&Method::POST, Route::ChatCancel) => cancel(request, body, app).await,
        (&Method::DELETE, Route::Session(id)) => forget(request, id, app).await,
        (_, Route::Session(id)) if reads => transcript(request, id, app).await,
        (_, Route::Tools) if reads => Ok(tools(app)),
        (_, Route::Artifact(id)) if reads => artifact(request, id, app).await,
        (_, Route::Live) if reads => Ok(json_reply(StatusCode::OK, &json!({ "status": "ok" }))),
        (_, Route::Ready) if reads => Ok(ready(app, &request.headers).await),
        (_, Route::Metrics) if reads => Ok(metrics_text(app)),
        (_, Route::Playground) if reads => Ok(playground()),
        (_, Route::OpenApi) if reads => Ok(description(app)),
        _ => Err(Refusal::Method(route.methods())),
    }
}

/// Begins the turn of a request that refers to nothing stored.
async fn begin(
    request: &Parts,
    body: impl RequestBody,
    app: &Arc<App>,
    reader: fn(&Dialects) -> &dyn RequestReader,
) -> Result<Reply, Refusal> {
    check_body_headers(&request.headers)?;
    let key = single(&request.headers, &IDEMPOTENCY_KEY, "Idempotency-Key")?;
    let body = request_body::read(request, body, app).await?;
    let key = key.map(Cow::into_owned);
    let in_dialect =
        move |request: &ClientRequest<'_>, app: &App| reader(&app.dialects).read(request);
    let parsed = read(request, body, key, app, in_dialect).await?;
    start(request, parsed, app).await
}

/// Begins a response, whose request may refer to stored ones.
async fn respond(
    request: &Parts,
    body: impl RequestBody,
    app: &Arc<App>,
) -> Result<Reply, Refusal> {
    check_body_headers(&request.headers)?;
    let key = single(&request.headers, &IDEMPOTENCY_KEY, "Idempotency-Key")?;
    let body = request_body::read(request, body, app).await?;
    let owner = app.auth.owner(&request.headers);
    let conversation = conversation_name(&request.headers, &app.session_headers);
    let named = responses::Named { key: key.as_deref(), conversation };
    let read = async || responses::read(body.clone(), owner.clone(), named, app).await;
    let (parsed, continues) = read().await?;
    match start(request, parsed, app).await {
        // Another request continued the same response meanwhile, so this one branches off.
        Err(Refusal::Begin(BeginError::TurnInProgress(_))) if continues => {
            start(request, read().await?.0, app).await
        }
        // Its key leads to the chain that it began, which has forgotten the key.
        Err(Refusal::Begin(BeginError::TurnInProgress(_))) => {
            Err(Refusal::Begin(BeginError::TurnGone))
        }
        answered => answered,
    }
}

/// Begins the turn that a request asks for, and answers in its form.
async fn start(request: &Parts, parsed: ParsedRequest, app: &App) -> Result<Reply, Refusal> {
    let owner = app.auth.owner(&request.headers);
    let ParsedRequest { turn, mut form, repairs } = parsed;
    for (repair, _) in repairs.iter() {
        metrics::history_repaired(repair.name());
    }
    let is_read_whole = matches!(form, Form::Whole(_));
    let is_response = turn.serializer.is_some();
    let (address, trace) = (app.admission.client(request), trace(&request.headers));
    let new = NewTurn { owner, address, trace, is_read_whole, ..turn };
    let mut client = Waiting::new(request);
    let begun = begin_turn(request, new, &mut client, app).await?;
    if begun.repeated && is_response {
        form = responses::form_of_repeated(request, form, &begun, app).await?;
    }
    let BegunTurn { session_id, turn, repeated } = begun;
    match form {
        Form::Stream(encoder) => {
            // A client that retries with its key says what it has seen. It cannot have seen
            // anything of a turn that has just begun.
            let may_have_seen = repeated && encoder.can_be_joined();
            let seen = if may_have_seen { last_event_id(request)? } else { None };
            let failure = encoder.early_failure();
            let reply = resume(&session_id, &turn, seen, encoder, app)?;
            let Some(failure) = failure else { return Ok(reply) };
            let within = EARLY_FAILURE_WAIT.min(app.keep_alive);
            let failed = early_failure(&turn, within, client).await;
            Ok(failed.map_or(reply, |failed| {
                let (status, body) = failure(&failed);
                whole_answer(WholeAnswer { status, body, may_be_repeated: !is_final(&failed) })
            }))
        }
        Form::Whole(whole) => Ok(collect(&turn, whole, client).await),
        Form::Later(receipt) => {
            until_begun(&turn).await;
            let receipt = receipt.receipt(&session_id, &turn.turn_id);
            Ok(json_reply(StatusCode::OK, &receipt))
        }
    }
}

/// Begins a turn, unless its client leaves first. Otherwise the turn would hold its place while it waits for a source
/// of tools, and then run with nobody reading it.
async fn begin_turn(
    request: &Parts,
    new: NewTurn,
    client: &mut Waiting,
    app: &App,
) -> Result<BegunTurn, Refusal> {
    // An older client that has closed its sending side may still read a stream.
    let is_watched = new.is_read_whole || request.version != Version::HTTP_10;
    // Boxed, because the futures around it are moved several times before they are polled.
    let mut beginning = Box::pin(app.gateway.begin(new));
    poll_fn(|cx| match beginning.as_mut().poll(cx) {
        Poll::Ready(begun) => Poll::Ready(begun.map_err(Refusal::Begin)),
        Poll::Pending if is_watched => client.poll_gone(cx).map(|()| Err(left())),
        Poll::Pending => Poll::Pending,
    })
    .await
}

/// Ends the request of a client that has left. Nobody reads the answer, so any refusal will do.
fn left() -> Refusal {
    Refusal::BodyBroken("its client has left".to_owned())
}

/// Answers about how many tokens a request would take. No turn begins.
async fn count_tokens(
    request: &Parts,
    body: impl RequestBody,
    app: &Arc<App>,
) -> Result<Reply, Refusal> {
    check_body_headers(&request.headers)?;
    let body = request_body::read(request, body, app).await?;
    let counting =
        read(request, body, None, app, |it, app| app.dialects.messages.read_to_count(it));
    let Counting { turn, message_tokens } = counting.await?;
    let briefing_tokens = app.gateway.briefing_tokens(turn).await.map_err(Refusal::Begin)?;
    Ok(json_reply(StatusCode::OK, &json!({ "input_tokens": briefing_tokens + message_tokens })))
}

/// Reads a request's body, with everything else that its dialect needs. A long body is read off the
/// worker, where it would hold up other clients.
async fn read<T: Send + 'static>(
    request: &Parts,
    body: Bytes,
    idempotency_key: Option<String>,
    app: &Arc<App>,
    in_dialect: impl Fn(&ClientRequest<'_>, &App) -> Result<T, Refusal> + Send + Sync + 'static,
) -> Result<T, Refusal> {
    let (accept, owner) = (accept(&request.headers), app.auth.owner(&request.headers));
    let conversation = conversation_name(&request.headers, &app.session_headers);
    let conversation = conversation.map(str::to_owned);
    let effort = request_body::effort(&body);
    let _place = request_body::place(body.len(), app).await;
    let whose = owner.clone();
    let read = move |lookup: &dyn TurnLookup, app: &App| {
        let client_request = ClientRequest {
            accept: &accept,
            body: &body,
            idempotency_key: idempotency_key.as_deref(),
            owner: &owner,
            models: &app.models,
            conversation: conversation.as_deref(),
            lookup,
            images: ImageReader::new(app.gateway.shows_images()),
            now_sec: now_sec(),
        };
        in_dialect(&client_request, app)
    };
    owner_turns::read(app, &whose, effort, read).await
}

fn models(app: &App) -> Reply {
    json_reply(StatusCode::OK, &app.models.list(app.started_sec))
}

fn model(name: &str, app: &App) -> Result<Reply, Refusal> {
    Ok(json_reply(StatusCode::OK, &app.models.find(name, app.started_sec)?))
}

async fn rejoin(request: &Parts, app: &App) -> Result<Reply, Refusal> {
    let query = request.uri.query();
    let Some(session_id) = query::value(query, "session_id") else {
        return Err(Refusal::invalid("session_id", "session_id is required in the query string"));
    };
    request::check_session_id(&session_id)?;
    let seen = last_event_id(request)?;
    let (turn_id, after) = (query::value(query, "turn_id"), seen.map_or(0, |id| id.sequence));
    let stored_as = stored_as(request, &session_id, app);
    let turn = match app.gateway.find_turn(&stored_as, turn_id.as_deref(), after).await? {
        FoundTurn::Turn(turn) => turn,
        FoundTurn::Gone => return Err(Refusal::TURN_GONE),
        FoundTurn::NoTurn => return Err(Refusal::NO_TURN),
        FoundTurn::NoSession => return Err(Refusal::NO_SESSION),
    };
    resume(&session_id, &turn, seen, native::encoder(&accept(&request.headers)), app)
}

async fn cancel(request: &Parts, body: impl RequestBody, app: &App) -> Result<Reply, Refusal> {
    check_body_headers(&request.headers)?;
    let body = request_body::read(request, body, app).await?;
    let session_id = request::parse_cancel(&body)?;
    match app.gateway.cancel(&stored_as(request, &session_id, app)).await? {
        Cancel::Cancelling => Ok(cancelling()),
        Cancel::NothingRuns => Err(Refusal::NOTHING_RUNS),
        Cancel::NoSession => Err(Refusal::NO_SESSION),
    }
}

/// Streams the turn that runs in a chat of the AI SDK, from its start.
async fn join_chat(request: &Parts, chat_id: &str, app: &App) -> Result<Reply, Refusal> {
    let session_id = ai_sdk::session_id(chat_id);
    let stored_as = stored_as(request, &session_id, app);
    match app.gateway.find_turn(&stored_as, None, 0).await? {
        FoundTurn::Turn(turn) if !turn.log.has_ended() => {
            resume(&session_id, &turn, None, ai_sdk::encoder(), app)
        }
        FoundTurn::Turn(_) | FoundTurn::Gone | FoundTurn::NoTurn | FoundTurn::NoSession => {
            Ok(empty(StatusCode::NO_CONTENT))
        }
    }
}

async fn stop_chat(request: &Parts, chat_id: &str, app: &App) -> Result<Reply, Refusal> {
    let session_id = ai_sdk::session_id(chat_id);
    match app.gateway.cancel(&stored_as(request, &session_id, app)).await? {
        Cancel::Cancelling => Ok(cancelling()),
        Cancel::NothingRuns | Cancel::NoSession => Err(Refusal::NOTHING_RUNS),
    }
}

fn cancelling() -> Reply {
    json_reply(StatusCode::ACCEPTED, &json!({ "status": "cancelling" }))
}

/// The id under which the sender's session `name` is stored.
fn stored_as(request: &Parts, name: &str, app: &App) -> String {
    session::id_of(&app.auth.owner(&request.headers), name)
}

async fn transcript(request: &Parts, id: &str, app: &App) -> Result<Reply, Refusal> {
    let stored_as = stored_as(request, id, app);
    let _loading = app.long_answers.loading_permit().await?;
    let session = app.gateway.snapshot(&stored_as).await?.ok_or(Refusal::NO_SESSION)?;
    let (id, length) = (id.to_owned(), session.conversation.bytes());
    let room = app.long_answers.room(length)?;
    let text = move || json_text(&transcript::transcript(&id, &session));
    let text = room.hold(off_worker(length, text).await);
    Ok(whole_reply(StatusCode::OK, text, "application/json"))
}

async fn forget(request: &Parts, id: &str, app: &App) -> Result<Reply, Refusal> {
    if app.gateway.forget(&stored_as(request, id, app)).await? {
        Ok(empty(StatusCode::NO_CONTENT))
    } else {
        Err(Refusal::NO_SESSION)
    }
}

fn tools(app: &App) -> Reply {
    let (tools, servers) = (app.gateway.tools(), app.gateway.sources());
    let tools: Vec<_> = tools.catalog().specs().collect();
    json_reply(StatusCode::OK, &json!({ "tools": tools, "servers": *servers }))
}

/// A file that a tool returned. A stranger may have made it, so a browser must not take it for a
/// page of this server: it saves the file, or shows an image or plays a sound if a page embeds it.
async fn artifact(request: &Parts, id: &str, app: &App) -> Result<Reply, Refusal> {
    let owner = app.auth.owner(&request.headers);
    let _loading = app.long_answers.loading_permit().await?;
    let artifact = app.gateway.artifact(&owner, id).await?.ok_or(Refusal::NO_ARTIFACT)?;
    let Artifact { name, mime_type, bytes, .. } = artifact;
    let bytes = app.long_answers.room(bytes.len())?.hold(bytes);
    let mut reply = whole_reply(StatusCode::OK, bytes, "application/octet-stream");
    let headers = reply.headers_mut();
    if let Ok(mime_type) = HeaderValue::try_from(mime_type) {
        headers.insert(CONTENT_TYPE, mime_type);
    }
    headers.insert(CONTENT_DISPOSITION, disposition(name.as_deref()));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    let alone = HeaderValue::from_static("default-src 'none'; sandbox; frame-ancestors 'none'");
    headers.insert(CONTENT_SECURITY_POLICY, alone);
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("private, max-age=3600, immutable"));
    Ok(reply)
}

/// An attachment with this name (RFC 6266), in characters that every client accepts.
fn disposition(name: Option<&str>) -> HeaderValue {
    let is_plain = |char: char| char.is_ascii_alphanumeric() || "._- ".contains(char);
    let plain = |char| if is_plain(char) { char } else { '_' };
    let name: String =
        name.unwrap_or_default().chars().take(FILE_NAME_CHARS_MAX).map(plain).collect();
    let attachment = match name.trim_matches(['.', ' ']) {
        "" => "attachment".to_owned(),
        name => format!("attachment; filename=\"{name}\""),
    };
    HeaderValue::try_from(attachment).expect("it has plain characters only")
}

fn metrics_text(app: &App) -> Reply {
    let MemoryUsage { sessions, session_bytes, turn_log_bytes, artifact_bytes } =
        app.gateway.memory_usage();
    let turn_cache_bytes = app.gateway.turn_cache_bytes();
    metrics::memory(sessions, session_bytes, turn_log_bytes, artifact_bytes, turn_cache_bytes);
    let remote = app.gateway.remote_usage();
    metrics::remote_logs(remote.map(|remote| (remote.logs, remote.readers)));
    whole_reply(StatusCode::OK, app.metrics.render(), "text/plain; version=0.0.4")
}

/// The description of the API, which never changes.
fn description(app: &App) -> Reply {
    let document = app.description.get_or_init(|| {
        let headers: Vec<&str> = app.session_headers.iter().map(HeaderName::as_str).collect();
        openapi::document(&headers).to_string().into()
    });
    whole_reply(StatusCode::OK, document.clone(), "application/json")
}

/// The playground. It refuses to be framed, because a page around it could borrow its user's
/// clicks.
fn playground() -> Reply {
    let mut reply = whole_reply(StatusCode::OK, playground::PAGE, "text/html; charset=utf-8");
    let policy = HeaderValue::from_static("frame-ancestors 'none'");
    reply.headers_mut().insert(CONTENT_SECURITY_POLICY, policy);
    reply
}
