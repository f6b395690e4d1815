//! The handlers of `/v1/responses`: they fetch what the dialect needs from the sessions.

use std::sync::{Arc, Weak};

use hyper::StatusCode;
use hyper::body::Bytes;
use hyper::http::request::Parts;
use parking_lot::Mutex;
use serde_json::json;
use serde_json::value::RawValue;
use sha2::{Digest as _, Sha256};
use tokio::sync::SemaphorePermit;
use uuid::Uuid;

use super::dialect::responses::{
    Labels, Page, Parent, Referents, Rendering, Request, RequestContext, ResponseId,
    ResponseSerializer, StoredResponse, replay,
};
use super::dialect::{Form, ImageReader, ParsedRequest};
use super::refusal::Refusal;
use super::reply::{Reply, json_reply, json_text, whole_reply};
use super::request_body::{self, RequestBody};
use super::stream::{forbid_buffering, stream};
use super::{App, now_sec, owner_turns, query};
use crate::conversation::claimed::TurnLookup;
use crate::gateway::{BeginError, BegunTurn};
use crate::limits::server::{INPUT_ITEMS_LISTED, INPUT_ITEMS_LISTED_MAX, REFERENCED_BYTES_MAX};
use crate::limits::session::IDEMPOTENCY_KEY_BYTES_MAX;
use crate::session::{
    self, AnswerSerializer, AnswerSerializers, Chain, DeletedAnswer, LoggedTurn, StoredAnswer,
    off_worker,
};
use crate::text::json_len;

/// What the headers of a request name.
#[derive(Clone, Copy)]
pub(super) struct Named<'a> {
    /// Its idempotency key.
    pub(super) key: Option<&'a str>,
    pub(super) conversation: Option<&'a str>,
}

/// Reads the body of `POST /v1/responses`, and finds what it refers to. Also returns whether it
/// continues a response.
pub(super) async fn read(
    body: Bytes,
    owner: String,
    Named { key, conversation }: Named<'_>,
    app: &Arc<App>,
) -> Result<(ParsedRequest, bool), Refusal> {
    if key.is_some_and(|key| key.is_empty() || key.len() > IDEMPOTENCY_KEY_BYTES_MAX) {
        return Err(Refusal::invalid(
            "Idempotency-Key",
            format!("Idempotency-Key must be 1 to {IDEMPOTENCY_KEY_BYTES_MAX} bytes long"),
        ));
    }
    let (length, effort, sent) = (body.len(), request_body::effort(&body), body.clone());
    let mut place = request_body::place(length, app).await;
    let request = off_worker(length, move || Request::read(&sent)).await?;
    let continues = request.parent().is_some();
    let found = find(&request, &owner, key, &mut place, app).await?;
    let effort = effort + found.items_bytes;
    let (key, conversation) = (key.map(str::to_owned), conversation.map(str::to_owned));
    let (whose, request) = (owner.clone(), Mutex::new(Some(request)));
    let parse = move |lookup: &dyn TurnLookup, app: &App| {
        let request = request.lock().take();
        let request = request.map_or_else(|| Request::read(&body), Ok)?;
        let context = RequestContext {
            owner: &owner,
            lookup,
            models: &app.models,
            labels: Labels(app.gateway.tools()),
            empty_sources: empty_sources(app),
            shown: app.dialects.responses.shown,
            new_session_id: ResponseId::new_session(root(key.as_deref())),
            clock: now_sec,
            images: ImageReader::new(app.gateway.shows_images()),
            image_seed: Uuid::new_v4().to_string(),
            idempotency_key: key.clone(),
            conversation: conversation.clone(),
        };
        request.parse(found.clone(), context)
    };
    Ok((owner_turns::read(app, &whose, effort, parse).await?, continues))
}

/// The names of the configured sources that offer no tools now, such as a server that is starting.
fn empty_sources(app: &App) -> Vec<String> {
    let sources = app.gateway.sources();
    let empty = sources.iter().filter(|report| report.tools == 0);
    empty.map(|report| report.source.name.to_string()).collect()
}

/// The root of a new chain. The same key always leads to the same chain.
fn root(key: Option<&str>) -> Uuid {
    let Some(key) = key else { return Uuid::new_v4() };
    let digest = Sha256::digest(key);
    Uuid::from_slice(&digest[..16]).unwrap_or_else(|_| Uuid::new_v4())
}

/// Finds what a request refers to. Items that are not found are ignored; a previous response must
/// exist.
async fn find<'a>(
    request: &Request,
    owner: &str,
    key: Option<&str>,
    place: &mut Option<SemaphorePermit<'a>>,
    app: &'a App,
) -> Result<Referents, Refusal> {
    let mut found = Referents::default();
    if let Some(id) = request.parent() {
        let stored_as = session::id_of(owner, &id.session_id());
        let chain = app.gateway.chain(&stored_as, &id.turn_id()).await?;
        found.parent = Some(match chain {
            None => return Err(Refusal::NoParent(request.parent_id().to_owned())),
            Some(Chain::Running) => {
                return Err(Refusal::ParentRuns(request.parent_id().to_owned()));
            }
            Some(Chain::Ended { conversation, head, is_latest }) => {
                // The chain may have gone on because this very request was sent before.
                let is_retry = match key {
                    Some(key) if !is_latest => app.gateway.has_begun(&stored_as, key).await?,
                    _ => false,
                };
                let session_id = (is_latest || is_retry).then(|| id.session_id());
                Parent::new(conversation, &head, session_id)
            }
        });
    }
    find_items(request, owner, place, app, &mut found).await?;
    Ok(found)
}

/// Finds the items that a request refers to, the latest first, up to [`REFERENCED_BYTES_MAX`].
async fn find_items<'a>(
    request: &Request,
    owner: &str,
    place: &mut Option<SemaphorePermit<'a>>,
    app: &'a App,
    found: &mut Referents,
) -> Result<(), Refusal> {
    for (id, wanted) in request.references() {
        let stored_as = session::id_of(owner, &id.session_id());
        let Some(stored_answer) = app.gateway.answer(&stored_as, &id.turn_id()).await? else {
            continue;
        };
        let length = length(&stored_answer);
        if place.is_none() {
            *place = request_body::place(length, app).await;
        }
        let its = off_worker(length, move || {
            let StoredAnswer { head, answer, .. } = stored_answer;
            let response = StoredResponse::read(id, &head, answer.as_deref());
            let items = response.items(answer.as_deref(), &wanted);
            let latest_first = items.into_iter().rev();
            latest_first.map(|(id, item)| (id, json_len(&item), item)).collect::<Vec<_>>()
        });
        for (id, length, item) in its.await {
            if found.items_bytes + length > REFERENCED_BYTES_MAX {
                found.lacks_items = true;
                return Ok(());
            }
            found.items_bytes += length;
            found.items.insert(id, item);
        }
    }
    Ok(())
}

/// A stored response, found by its id.
struct Loaded {
    response: StoredResponse,
    stored_answer: StoredAnswer,
    stored_as: String,
    turn_id: String,
    session_id: String,
}

impl Loaded {
    /// The turn that it comes from, if that runs or its log is kept.
    async fn turn(&self, app: &App) -> Result<Option<LoggedTurn>, Refusal> {
        if let Some(turn) = &self.stored_answer.running {
            return Ok(Some(turn.clone()));
        }
        Ok(match app.gateway.find_turn(&self.stored_as, Some(&self.turn_id), 0).await? {
            session::FoundTurn::Turn(turn) => Some(turn),
            _ => None,
        })
    }
}

async fn load(request: &Parts, id: &str, app: &App) -> Result<Loaded, Refusal> {
    let id = ResponseId::parse(id).ok_or(Refusal::FOREIGN_RESPONSE)?;
    let (session_id, turn_id) = (id.session_id(), id.turn_id());
    let stored_as = session::id_of(&app.auth.owner(&request.headers), &session_id);
    let stored_answer =
        app.gateway.answer(&stored_as, &turn_id).await?.ok_or(Refusal::NO_RESPONSE)?;
    let response = response_of(id, &stored_answer).await;
    Ok(Loaded { response, stored_answer, stored_as, turn_id, session_id })
}

async fn response_of(id: ResponseId, stored_answer: &StoredAnswer) -> StoredResponse {
    let (head, answer) = (Arc::clone(&stored_answer.head), stored_answer.answer.clone());
    let read = move || StoredResponse::read(id, &head, answer.as_deref());
    off_worker(length(stored_answer), read).await
}

/// The length of an answer and what was known before it, as JSON.
fn length(StoredAnswer { head, answer, .. }: &StoredAnswer) -> usize {
    head.get().len() + answer.as_ref().map_or(0, |answer| answer.get().len())
}

/// Makes the serializers of responses whose turns other gateways have begun.
#[derive(Debug)]
pub(super) struct StoredResponses(pub(super) Weak<App>);

impl AnswerSerializers for StoredResponses {
    fn of_head(&self, head: &RawValue) -> Option<Arc<dyn AnswerSerializer>> {
        let app = self.0.upgrade()?;
        Some(Arc::new(ResponseSerializer::of_head(head, rendering(&app))))
    }
}

fn rendering(app: &App) -> Rendering {
    let labels = Labels(app.gateway.tools());
    Rendering { shown: app.dialects.responses.shown, labels, clock: now_sec }
}

/// The form of the answer to a repeated request. The response says about itself what the first request made it say:
/// a repeated one may come later, with other metadata.
pub(super) async fn form_of_repeated(
    request: &Parts,
    form: Form,
    begun: &BegunTurn,
    app: &App,
) -> Result<Form, Refusal> {
    let BegunTurn { session_id, turn, .. } = begun;
    let stored_as = session::id_of(&app.auth.owner(&request.headers), session_id);
    let _loading = app.long_answers.loading_permit().await?;
    // It may have been deleted meanwhile. The turn was found, so a store that fails now costs no more than this.
    let Ok(Some(stored_answer)) = app.gateway.answer(&stored_as, &turn.turn_id).await else {
        return Ok(form);
    };
    let response = response_of(ResponseId::of(session_id, &turn.turn_id), &stored_answer).await;
    let rendering = rendering(app);
    Ok(match form {
        Form::Stream(_) => Form::Stream(response.encoder(rendering, 0)),
        Form::Whole(_) => Form::Whole(response.collector(rendering)),
        Form::Later(_) => Form::Later(response.receipt(&rendering)),
    })
}

/// `GET /v1/responses/{id}`: the response as of now, or its stream.
pub(super) async fn get(request: &Parts, id: &str, app: &App) -> Result<Reply, Refusal> {
    let query = request.uri.query();
    let seen = number(query, "starting_after")?;
    let _loading = app.long_answers.loading_permit().await?;
    let loaded = load(request, id, app).await?;
    match query::value(query, "stream").as_deref() {
        Some("true") => rejoin(loaded, seen, app).await,
        _ => object(loaded, app).await,
    }
}

async fn object(loaded: Loaded, app: &App) -> Result<Reply, Refusal> {
    let turn = match &loaded.stored_answer {
        StoredAnswer { running: None, answer: Some(_), .. } => None,
        // One that was cut short has only its log.
        _ => loaded.turn(app).await?,
    };
    let bytes = turn.as_ref().map_or_else(|| length(&loaded.stored_answer), |it| it.log.bytes());
    let room = app.long_answers.room(bytes)?;
    let Loaded { response, stored_answer, .. } = loaded;
    let object = match (turn, stored_answer.answer) {
        (Some(LoggedTurn { log, .. }), _) => {
            let rendering = rendering(app);
            off_worker(log.bytes(), move || response.object_of(rendering, &log)).await
        }
        (None, Some(answer)) => answer.get().as_bytes().to_vec(),
        (None, None) => response.lost(),
    };
    Ok(whole_reply(StatusCode::OK, room.hold(object), "application/json"))
}

/// Streams what follows event `seen`: live, from the log, or from the stored object.
async fn rejoin(loaded: Loaded, seen: Option<u64>, app: &App) -> Result<Reply, Refusal> {
    let turn = loaded.turn(app).await?;
    let Loaded { response, stored_answer, session_id, .. } = loaded;
    if let Some(turn) = turn {
        let from = seen.map_or(0, |seen| seen.saturating_add(1));
        let encoder = response.encoder(rendering(app), from);
        let mut reply = stream(&session_id, &turn, 0, encoder, app);
        reply.body_mut().greet();
        return Ok(reply);
    }
    let bytes = stored_answer.answer.as_ref().map_or(0, |answer| answer.get().len());
    let room = app.long_answers.room(bytes)?;
    let frames = match &stored_answer.answer {
        Some(answer) => {
            let answer = Arc::clone(answer);
            off_worker(bytes, move || replay(&answer, seen)).await
        }
        None => response.lost_stream(seen),
    };
    let frames = room.hold(frames);
    let mut reply = whole_reply(StatusCode::OK, frames, "text/event-stream; charset=utf-8");
    forbid_buffering(reply.headers_mut());
    Ok(reply)
}

/// `POST /v1/responses/compact`. The body is read first: a client that is still sending it would see
/// a broken connection instead of the refusal.
pub(super) async fn compact(
    request: &Parts,
    body: impl RequestBody,
    app: &App,
) -> Result<Reply, Refusal> {
    request_body::read(request, body, app).await?;
    Err(Refusal::NO_COMPACTION)
}

/// `DELETE /v1/responses/{id}`.
pub(super) async fn delete(request: &Parts, id: &str, app: &App) -> Result<Reply, Refusal> {
    let parsed = ResponseId::parse(id).ok_or(Refusal::FOREIGN_RESPONSE)?;
    let owner = app.auth.owner(&request.headers);
    let stored_as = session::id_of(&owner, &parsed.session_id());
    match app.gateway.delete_answer(&stored_as, &parsed.turn_id()).await? {
        DeletedAnswer::Deleted | DeletedAnswer::WasLast => {
            let body = json!({ "id": id, "object": "response", "deleted": true });
            Ok(json_reply(StatusCode::OK, &body))
        }
        DeletedAnswer::None => Err(Refusal::NO_RESPONSE),
        DeletedAnswer::Busy => Err(Refusal::Begin(BeginError::TurnInProgress(parsed.session_id()))),
    }
}

/// `POST /v1/responses/{id}/cancel`: waits for the end. A response that is over stays as it is.
pub(super) async fn cancel(request: &Parts, id: &str, app: &App) -> Result<Reply, Refusal> {
    let loaded = load(request, id, app).await?;
    if let Some(turn) = &loaded.stored_answer.running {
        if !loaded.response.is_background() {
            return Err(Refusal::invalid(
                "id",
                "only a response with background: true can be cancelled; to end any other, close \
                 its connection",
            ));
        }
        app.gateway.cancel_to_end(&loaded.stored_as, turn).await?;
    }
    object(loaded, app).await
}

/// `GET /v1/responses/{id}/input_items`.
pub(super) async fn input_items(request: &Parts, id: &str, app: &App) -> Result<Reply, Refusal> {
    let query = request.uri.query();
    let limit = number(query, "limit")?
        .map_or(INPUT_ITEMS_LISTED, |limit| usize::try_from(limit).unwrap_or(usize::MAX));
    if !(1..=INPUT_ITEMS_LISTED_MAX).contains(&limit) {
        let message = format!("limit must be from 1 to {INPUT_ITEMS_LISTED_MAX}");
        return Err(Refusal::invalid("limit", message));
    }
    let order = query::value(query, "order");
    if !matches!(order.as_deref(), None | Some("asc" | "desc")) {
        return Err(Refusal::invalid("order", "order must be \"asc\" or \"desc\""));
    }
    let page = Page {
        after: query::value(query, "after").map(std::borrow::Cow::into_owned),
        limit,
        is_ascending: order.as_deref() == Some("asc"),
    };
    let _loading = app.long_answers.loading_permit().await?;
    let Loaded { response, stored_answer, .. } = load(request, id, app).await?;
    let room = app.long_answers.room(length(&stored_answer))?;
    let list = move || response.input_items(&page).map(|list| json_text(&list));
    let listed = off_worker(stored_answer.head.get().len(), list).await;
    let text = listed.ok_or_else(|| {
        Refusal::invalid("after", "after must be an item of this list, such as last_id of a page")
    })?;
    Ok(whole_reply(StatusCode::OK, room.hold(text), "application/json"))
}

/// A number in the query.
fn number(query: Option<&str>, name: &'static str) -> Result<Option<u64>, Refusal> {
    let Some(value) = query::value(query, name) else { return Ok(None) };
    let wrong = |_| Refusal::invalid(name, format!("{name} must be a whole number, 0 or more"));
    value.parse().map(Some).map_err(wrong)
}
