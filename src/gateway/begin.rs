//! Begins a turn.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use std::{mem, slice};

use tokio::time::{Instant, timeout};
use tokio_util::task::task_tracker::TaskTrackerToken;
use tracing::{debug, info_span};

use super::Gateway;
use super::asked::{Asked, TurnStart};
use super::begin_error::BeginError;
use super::ids::Ids;
use super::new_turn::{ClientHistory, NewTurn, Resolved};
use super::offer::Offer;
use super::question_end;
use super::recent_turn_draft::RecentTurnDraft;
use super::run::{KeptAnswer, run};
use super::shares::TurnPermit;
use super::turn_keys::{self, TurnKeys};
use crate::conversation::claimed::ClientImages;
use crate::conversation::{AnswerError, ClientInput, Conversation, Opening};
use crate::limits::stream::UNJOINABLE_GRACE;
use crate::limits::turn::REQUIRED_SOURCE_WAIT;
use crate::orchestrator::{Basis, Briefing, Driver, Parts, Rules, TurnMachine};
use crate::session::{self, Beginning, Begun, LoggedTurn, NotBegun, SessionError, TurnGuard};
use crate::telemetry::{metrics, millis};
use crate::tools::{Catalog, Continuation};
use crate::upstream::{Route, ToolChoice, Upstream};

/// A turn that can be read from its start.
#[derive(Debug)]
pub struct BegunTurn {
    /// Its session.
    pub session_id: String,
    /// The turn.
    pub turn: LoggedTurn,
    /// Whether an earlier request with the same idempotency key began it.
    pub repeated: bool,
}

/// A turn that may begin, and what it begins with.
struct Admitted<'g> {
    requested_at: Instant,
    /// How many times all turns had been cancelled by then.
    cancellations: u64,
    upstream: &'g Arc<Upstream>,
    /// The turn's place among those that run.
    permit: TurnPermit,
    offer: Offer,
    rules: Arc<Rules>,
    disconnect_grace: Option<Duration>,
    /// The images in the client's history.
    images: ClientImages,
}

impl Gateway {
    /// Begins a turn. It runs on its own, with or without readers.
    ///
    /// If the future is dropped, no turn begins, but its session and idempotency key may already be
    /// stored. A retry with that key begins the turn.
    ///
    /// # Errors
    /// See [`BeginError`]; nothing has begun then.
    pub async fn begin(&self, mut new: NewTurn) -> Result<BegunTurn, BeginError> {
        let requested_at = Instant::now();
        let upstream = self.upstream(new.model.as_deref())?;
        let cancellations = self.cancellations.load(Ordering::SeqCst);
        // Before anything that waits, so that no more requests wait than turns may run.
        let (permit, _drain_token) = match self.permit(&new) {
            Ok(permit) => permit,
            // A turn that has begun before needs no place.
            Err(refusal) => return self.repeated(new, refusal).await,
        };
        let offer = match self.offer_of(new.tools.as_deref()).await {
            Ok(offer) => offer,
            // Nor does it need the tools.
            Err(refusal @ (BeginError::ToolsUnavailable(_) | BeginError::Draining)) => {
                return self.repeated(new, refusal).await;
            }
            Err(refusal) => return Err(refusal),
        };
        let offer = self.check(&offer, &mut new)?;
        if let Some(refusal) = self.stale_answer(&new).await? {
            return self.repeated(new, refusal).await;
        }
        let images = new.client_history.as_mut().map(|it| mem::take(&mut it.images));
        let follows = new.client_history.as_mut().and_then(|it| it.follows.take());
        let admitted = Admitted {
            requested_at,
            cancellations,
            upstream,
            permit,
            offer,
            rules: self.rules_of(&new),
            disconnect_grace: self.disconnect_grace(&new),
            images: images.unwrap_or_default(),
        };
        let ids = Ids::new(&new.owner, new.session_id.take(), new.client_history.is_some());
        let has_session = !ids.is_passing;
        let (client_history, draft) = self.take_client_history(&mut new, has_session).unzip();
        let kept = KeptAnswer { draft, serializer: new.serializer.take() };
        let beginning = Beginning {
            session_id: &ids.stored_as,
            turn_id: &ids.turn_id,
            key: new.idempotency_key.as_deref(),
            input: &new.input,
            is_new: ids.is_new,
            is_passing: ids.is_passing,
            client_history,
            follows,
            supersedes: new.supersedes,
            head: kept.serializer.as_ref().and_then(|serializer| serializer.head()),
        };
        let is_parked = |question: &str| self.parked.holds(&ids.parked_in, question);
        let begun = match self.sessions.begin(beginning, is_parked).await {
            Ok(begun) => *begun,
            Err(reason) => return not_begun(ids.session_id, reason),
        };
        self.start(new, begun, ids, admitted, kept).await
    }

    /// Checks the request, and chooses the turn's tools.
    fn check(&self, offer: &Offer, new: &mut NewTurn) -> Result<Offer, BeginError> {
        for error in new.client_tools.left_out() {
            debug!(%error, "a client's tool is left out");
            metrics::client_tool_left_out();
        }
        if let ClientInput::Answer { .. } = new.input {
            // The call that asked was the required one. It may go on, whatever its tool.
            new.tool_choice = ToolChoice::Auto;
        }
        let offer = self.chosen(offer, new)?;
        self.check_room(new)?;
        Ok(offer)
    }

    /// Starts a turn that has begun in its session.
    async fn start(
        &self,
        new: NewTurn,
        Begun { guard, mut writer, mut opening, history }: Begun,
        ids: Ids,
        admitted: Admitted<'_>,
        mut kept: KeptAnswer,
    ) -> Result<BegunTurn, BeginError> {
        let Admitted {
            requested_at,
            cancellations,
            upstream,
            permit,
            mut offer,
            rules,
            disconnect_grace,
            images,
        } = admitted;
        let Ids { session_id, turn_id, stored_as, parked_in, .. } = ids;
        let mut closes_question = true;
        if let Some(draft) = &mut kept.draft {
            // Boxed, as are others that few turns need: all of them would be moved with each turn.
            match Box::pin(draft.close_question(&mut opening, &new.input, &history)).await {
                Ok(closes) => closes_question = closes,
                Err(error) => {
                    Box::pin(draft.free_session(guard)).await;
                    return Err(error);
                }
            }
        }
        if let Opening::Prompt(prompt) = &mut opening {
            prompt.push_str(&new.aside);
        }
        let span = info_span!("turn", session = %session_id, turn = %turn_id);
        if closes_question {
            span.in_scope(|| question_end::record(&opening, &history));
        }
        self.cancel_parked(&parked_in, &opening, &history);
        let artifacts = self.sessions.artifacts(&new.owner).beside(images.files);
        if guard.keeps_answer() {
            artifacts.keep_images(&stored_as).await;
        }
        let log = Arc::clone(writer.log());
        if self.cancellations.load(Ordering::SeqCst) > cancellations {
            log.cancel();
        }
        let basis = Basis { opening: &opening, history: &history };
        let briefing = self.brief(&offer, &rules, &guard, &basis);
        let lent = self.lend(&mut offer, &opening, new.answers_explicitly(), &history);
        if writer.is_stored() {
            let instructions =
                (!Arc::ptr_eq(&rules, &self.rules)).then(|| rules.system_prompt.clone());
            let start = TurnStart {
                session_id: &session_id,
                parked_in: &parked_in,
                opening: &opening,
                images: &images.opening,
                instructions,
                disconnect_grace,
            };
            writer.note_asked(Asked::of(&new, start, kept.draft.as_deref()).write());
        }
        let route = Route::new(upstream, &self.upstreams, new.model.is_some());
        let trace = new.trace.clone();
        let request = new.into_request(Resolved {
            session_id: session_id.clone(),
            turn_id: turn_id.clone(),
            started_at_ms: now_ms(),
            model: upstream.name().to_owned(),
            briefing,
            lent,
            disconnect_grace,
            opening,
            images: images.opening,
            history,
        });
        let parts = Parts {
            turn: TurnMachine::new(request),
            session_id: stored_as,
            parked_in,
            writer,
            route,
            tools: offer.tools,
            tool_timeout: self.tool_timeout,
            parked: self.parked.clone(),
            artifacts,
            trace,
        };
        let driver = span.in_scope(|| Box::new(Driver::new(parts)));
        metrics::first_event(requested_at.elapsed());
        self.turns.spawn(run(driver, permit, guard, kept, span));
        Ok(BegunTurn { session_id, turn: LoggedTurn { turn_id, log }, repeated: false })
    }

    /// The turn's tools: server and client tools, or only the one that must be called. A model that
    /// knows others might call one of them, and it would run.
    pub(super) fn chosen(&self, offer: &Offer, new: &mut NewTurn) -> Result<Offer, BeginError> {
        let all = offer.clone().beside(&self.rules, &new.client_tools);
        all.check_choice(&new.tool_choice, &new.client_tools)?;
        let ToolChoice::Named(name) = &new.tool_choice else { return Ok(all) };
        new.client_tools = new.client_tools.only(|tool| tool == name);
        let server_tools = if new.client_tools.is_empty() { slice::from_ref(name) } else { &[] };
        let offer = offer
            .subset(server_tools)
            .map_err(|error| BeginError::UnknownTool { error, known: all.catalog.names() })?;
        Ok(offer.beside(&self.rules, &new.client_tools))
    }

    /// Why the answer is refused, if it comes too late. It must not cancel the turn that runs, which
    /// may be the one that has closed the question.
    async fn stale_answer(&self, new: &NewTurn) -> Result<Option<BeginError>, SessionError> {
        let (ClientInput::Answer { clarification_id, .. }, Some(client_history)) =
            (&new.input, &new.client_history)
        else {
            return Ok(None);
        };
        let open = client_history.history.open_questions().first();
        let may_repeat =
            open.is_some_and(|it| it.clarification_id == *clarification_id && it.may_repeat());
        let is_stale =
            !may_repeat && self.recent_turns.is_closed(&new.owner, clarification_id).await?;
        Ok(is_stale.then(|| AnswerError::Stale(clarification_id.clone()).into()))
    }

    /// The turn's rules: those of all turns, unless its request brings instructions.
    pub(super) fn rules_of(&self, new: &NewTurn) -> Arc<Rules> {
        let instructions = new
            .client_history
            .as_ref()
            .and_then(|client_history| client_history.instructions.clone());
        self.rules_with(instructions)
    }

    /// The rules of all turns, with these instructions in place of `model.system_prompt`, if there are any.
    pub(super) fn rules_with(&self, instructions: Option<String>) -> Arc<Rules> {
        match instructions {
            Some(system_prompt) => Arc::new(Rules { system_prompt, ..Rules::clone(&self.rules) }),
            None => Arc::clone(&self.rules),
        }
    }

    /// How long the turn continues without a reader; `None` for the configured time.
    fn disconnect_grace(&self, new: &NewTurn) -> Option<Duration> {
        let can_be_joined =
            new.client_history.as_ref().is_none_or(|client_history| client_history.can_be_joined);
        match (new.runs_alone, can_be_joined) {
            (true, _) => Some(Duration::MAX),
            (false, true) => None,
            (false, false) => Some(UNJOINABLE_GRACE.min(self.rules.disconnect_grace)),
        }
    }

    /// Takes the client's history, if it sent one, and drafts the turn's entry among the recent ones.
    fn take_client_history(
        &self,
        new: &mut NewTurn,
        has_session: bool,
    ) -> Option<(Conversation, Box<RecentTurnDraft>)> {
        let ClientHistory { history, prefix, .. } = new.client_history.take()?;
        let keys = keys(new, &history);
        let has_files = has_session && history.turns().any(|turn| turn.has_files());
        let turns = Arc::clone(&self.recent_turns);
        let knows_questions = !new.nobody_approves;
        let draft =
            RecentTurnDraft { turns, prefix, keys, has_files, knows_questions, claim: None };
        Some((history, Box::new(draft)))
    }

    /// What the model of a turn is told.
    pub(super) fn brief(
        &self,
        offer: &Offer,
        rules: &Arc<Rules>,
        guard: &TurnGuard,
        basis: &Basis<'_>,
    ) -> Arc<Briefing> {
        let nonce = self.rules.marker_nonce.then(|| guard.nonce());
        let briefing = offer.briefing(rules, nonce, basis);
        let (told, tokens) = briefing.told();
        metrics::tools_told(told, tokens);
        briefing
    }

    /// Lends the turn the tool of the call that the user has answered, and those of the calls that
    /// were put off until then: its request may leave them out, or all tools. Words that happen to fit
    /// a question are no such decision: the answer must be an `is_explicit` one.
    pub(super) fn lend(
        &self,
        offer: &mut Offer,
        opening: &Opening,
        is_explicit: bool,
        history: &Conversation,
    ) -> Catalog {
        let (Opening::Answer(_), Some(asked)) = (opening, history.open_questions().first()) else {
            return Catalog::default();
        };
        let is_decision =
            is_explicit || matches!(asked.continuation, Continuation::Approval { .. });
        let put_off = history.chain().next().into_iter().flat_map(|turn| &turn.deferred);
        let names = put_off.map(|call| &*call.name).chain([&*asked.tool_name]);
        offer.lend(names.filter(|_| is_decision), &self.tools())
    }

    fn permit(&self, new: &NewTurn) -> Result<(TurnPermit, TaskTrackerToken), BeginError> {
        let permit = Arc::clone(&self.places).try_acquire_owned();
        let running = self.turns.len();
        // Taken before the check for draining, because a drain waits for every turn that was
        // admitted.
        let counted = self.turns.token();
        if self.is_draining() {
            return Err(BeginError::Draining);
        }
        let permit = permit.map_err(|_| BeginError::Full(running))?;
        let free = self.places.available_permits();
        let turn = self.shares.admit(&new.owner, new.address, free).inspect_err(|over| {
            metrics::over_limit(over.name());
        })?;
        Ok((TurnPermit { _place: permit, _counted: turn }, counted))
    }

    /// The turn that an earlier request with the same key began; `refusal` if there is none.
    async fn repeated(&self, new: NewTurn, refusal: BeginError) -> Result<BegunTurn, BeginError> {
        let (Some(session_id), Some(key)) = (new.session_id, new.idempotency_key) else {
            return Err(refusal);
        };
        let stored_as = session::id_of(&new.owner, &session_id);
        match self.sessions.begun_by(&stored_as, &key).await? {
            Some(reason) => not_begun(session_id, reason),
            None => Err(refusal),
        }
    }

    pub(super) fn upstream(&self, name: Option<&str>) -> Result<&Arc<Upstream>, BeginError> {
        let Some(name) = name else { return Ok(self.default_upstream()) };
        let found = self.upstreams.iter().find(|upstream| upstream.name() == name);
        found.ok_or_else(|| BeginError::UnknownModel {
            name: name.to_owned(),
            known: self.upstreams.iter().map(|upstream| upstream.name().to_owned()).collect(),
        })
    }

    /// The tools with these names, or all tools if no names are given, once the required sources
    /// are ready. A drain does not wait for that.
    pub(super) async fn offer_of(&self, names: Option<&[String]>) -> Result<Offer, BeginError> {
        let now = self.offer.borrow().clone();
        let all = if now.awaited.is_none() { now } else { self.complete_offer().await? };
        let Some(names) = names else { return Ok(all) };
        all.subset(names).map_err(|error| {
            let known = all.tools.catalog().names();
            BeginError::UnknownTool { error, known }
        })
    }

    /// All tools, once the required sources are ready. A lost source is not waited for.
    async fn complete_offer(&self) -> Result<Offer, BeginError> {
        let mut offers = self.offer.subscribe();
        let is_settled = |offer: &Offer| offer.awaited.as_ref().is_none_or(|it| it.is_lost);
        let ready = offers.wait_for(is_settled);
        let ready = tokio::select! {
            biased;
            ready = timeout(REQUIRED_SOURCE_WAIT, ready) => ready,
            () = self.draining.cancelled() => return Err(BeginError::Draining),
        };
        let offer = match ready {
            Ok(Ok(offer)) => offer.clone(),
            _ => self.offer.borrow().clone(),
        };
        match &offer.awaited {
            None => Ok(offer),
            Some(awaited) => Err(awaited.refusal()),
        }
    }
}

/// What the turn can be found by once it has ended.
fn keys(new: &NewTurn, history: &Conversation) -> TurnKeys {
    let prompt = match &new.input {
        ClientInput::Words(words) | ClientInput::Prompt(words) => Some(words),
        // The turn goes on from the one that handed out the calls.
        ClientInput::Results(_) | ClientInput::Answer { .. } => {
            history.turns().next_back().map(|turn| &turn.prompt)
        }
    };
    let prompt = prompt.map_or("", String::as_str);
    let by_prompt = |name: &String| turn_keys::by_prompt(&new.owner, name, prompt);
    let prompt = new.conversation.as_ref().map(by_prompt);
    TurnKeys { owner: new.owner.clone(), prompt, drops: None }
}

/// The turn that is read instead of a new one, or why there is none.
fn not_begun(session_id: String, reason: NotBegun) -> Result<BegunTurn, BeginError> {
    if let NotBegun::Refused(AnswerError::Expired(_)) = reason {
        metrics::clarification("expired");
    }
    Err(match reason {
        NotBegun::Repeated(turn) => return Ok(BegunTurn { session_id, turn, repeated: true }),
        NotBegun::Gone => BeginError::TurnGone,
        NotBegun::Busy | NotBegun::Overtaken => BeginError::TurnInProgress(session_id),
        NotBegun::Refused(error) => error.into(),
        NotBegun::Failed(error) => error.into(),
    })
}

pub(super) fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    millis(since)
}
