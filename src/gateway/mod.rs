//! What a front end can ask for: begin a turn, find it again, cancel it, read and forget sessions.
//! It knows nothing of HTTP.

use std::future::{Future as _, poll_fn};
use std::panic::{self, AssertUnwindSafe};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use parking_lot::RwLock;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tokio_util::task::task_tracker::TaskTrackerToken;
use tracing::{Instrument as _, debug, info_span, warn};
use uuid::Uuid;

use crate::conversation::{self, AnswerError, Ask, Conversation, Opening};
use crate::limits;
use crate::orchestrator::{Briefing, Driver, Parts, Rules, Turn, TurnRequest};
use crate::parser::{SettingsError, Syntax};
use crate::session::store::{MemoryStore, MemoryUsage, Store};
use crate::session::{
    Begun, Cancel, Found, LoggedTurn, NotBegun, SessionError, Sessions, Snapshot, TurnGuard, Writer,
};
use crate::telemetry::{metrics, millis};
use crate::tools::{Catalog, Registry, RegistryError};
use crate::upstream::{RoundFailure, Route, Sampling, ToolChoice, Upstream};

/// What a gateway is made of.
#[derive(Debug, Clone)]
pub struct Options {
    /// The rules of turns.
    pub rules: Rules,
    /// The longest run of a tool without a limit of its own.
    pub tool_timeout: Duration,
    /// How many turns may run at the same time.
    pub max_concurrent_turns: usize,
    /// Where sessions are kept.
    pub store: Arc<dyn Store>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            rules: Rules::default(),
            tool_timeout: limits::turn::TOOL_TIMEOUT,
            max_concurrent_turns: limits::server::CONCURRENT_TURNS_MAX,
            store: Arc::new(MemoryStore::new(limits::session::TTL)),
        }
    }
}

/// The gateway.
#[derive(Debug)]
pub struct Gateway {
    rules: Arc<Rules>,
    tool_timeout: Duration,
    upstreams: Vec<Arc<Upstream>>,
    offer: RwLock<Offer>,
    sessions: Sessions,
    places: Arc<Semaphore>,
    turns: TaskTracker,
    draining: CancellationToken,
}

/// The tools that new turns get. A turn keeps those that it began with.
#[derive(Debug, Clone)]
struct Offer {
    tools: Arc<Registry>,
    /// The briefing on all tools. A turn that may use fewer gets one of its own.
    briefing: Option<Arc<Briefing>>,
}

impl Offer {
    fn all(rules: &Arc<Rules>, tools: Registry) -> Self {
        let briefing = Some(brief(rules, None, tools.catalog()));
        Self { tools: Arc::new(tools), briefing }
    }
}

/// A turn to begin.
#[derive(Debug, Default)]
pub struct NewTurn {
    /// The session; a new one if absent.
    pub session_id: Option<String>,
    /// What the user says.
    pub ask: Ask,
    /// The name of an upstream; the first one if absent.
    pub model: Option<String>,
    /// The names of the tools that may be used; all if absent.
    pub tools: Option<Vec<String>>,
    /// Whether the model must call a tool before it answers.
    pub tool_choice: ToolChoice,
    /// Lowers the configured limit.
    pub max_tool_loops: Option<u32>,
    /// How to sample tokens.
    pub sampling: Sampling,
    /// In one session, the same key begins only one turn.
    pub idempotency_key: Option<String>,
}

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

/// Why a turn does not begin.
#[derive(Debug, thiserror::Error)]
pub enum BeginError {
    /// One is already running.
    #[error("a turn is already running in session {0}; wait for it to end, or cancel it")]
    TurnInProgress(String),
    /// The answer is not accepted.
    #[error(transparent)]
    Answer(#[from] AnswerError),
    /// The turn that the key began is over, and its log is no longer kept.
    #[error(
        "the turn of this Idempotency-Key has ended and is no longer kept; use a new key for a new \
         turn"
    )]
    TurnGone,
    /// No such upstream.
    #[error("no upstream is named {name:?}; available: {}", known.join(", "))]
    UnknownModel {
        /// What was asked for.
        name: String,
        /// What there is.
        known: Vec<String>,
    },
    /// No such tool.
    #[error("{error}; available: {}", list(known))]
    UnknownTool {
        /// What was asked for.
        error: RegistryError,
        /// What there is.
        known: Vec<String>,
    },
    /// A call is required, but there is no tool.
    #[error("tool_choice requires a call, but this turn has no tools")]
    NoToolToCall,
    /// A call is required, but this turn does not have the tool.
    #[error(
        "tool_choice names {name:?}, which this turn does not have; available: {}",
        list(known)
    )]
    UnknownChoice {
        /// What was asked for.
        name: String,
        /// What there is.
        known: Vec<String>,
    },
    /// All places are taken.
    #[error("{0} turns are already running (server.max_concurrent_turns); try again later")]
    Full(usize),
    /// The gateway is about to stop.
    #[error("the gateway is shutting down and accepts no new turns; try again later")]
    Draining,
    /// The session cannot be used.
    #[error(transparent)]
    Session(#[from] SessionError),
}

/// Why a gateway cannot be built from its options.
#[derive(Debug, thiserror::Error)]
pub enum OptionsError {
    /// The parser does not accept its settings.
    #[error(transparent)]
    Parser(#[from] SettingsError),
    /// There is no upstream.
    #[error("there are no upstreams; configure at least one")]
    NoUpstream,
}

impl Gateway {
    /// A gateway in front of `upstreams`, the first of which is the default.
    ///
    /// # Errors
    /// See [`OptionsError`]. Turns cannot fail because of the options later.
    pub fn new(
        options: Options,
        upstreams: Vec<Arc<Upstream>>,
        tools: Registry,
    ) -> Result<Self, OptionsError> {
        // As long as every nonce.
        let longest = "0".repeat(limits::parser::NONCE_BYTES - 1);
        let nonce = options.rules.carries_nonce().then_some(&*longest);
        Syntax::new(options.rules.parser_settings(nonce))?;
        if upstreams.is_empty() {
            return Err(OptionsError::NoUpstream);
        }
        let rules = Arc::new(options.rules);
        let offer = RwLock::new(Offer::all(&rules, tools));
        Ok(Self {
            rules,
            tool_timeout: options.tool_timeout,
            upstreams,
            offer,
            sessions: Sessions::new(options.store),
            places: Arc::new(Semaphore::new(options.max_concurrent_turns)),
            turns: TaskTracker::new(),
            draining: CancellationToken::new(),
        })
    }

    /// Begins a turn. It runs on its own, with or without readers. If the future is dropped,
    /// nothing begins.
    ///
    /// # Errors
    /// See [`BeginError`]; nothing has begun then.
    pub async fn begin(&self, new: NewTurn) -> Result<BegunTurn, BeginError> {
        let asked = Instant::now();
        let upstream = self.upstream(new.model.as_deref())?;
        let is_named = new.model.is_some();
        let offer = self.offer_of(new.tools.as_deref())?;
        check_choice(&new.tool_choice, offer.tools.catalog())?;
        let (permit, _drain_token) = match self.permit() {
            Ok(permit) => permit,
            // A turn that has begun before needs no place.
            Err(refusal) => return self.repeated(new, refusal).await,
        };
        let session_id = new.session_id.unwrap_or_else(|| Uuid::new_v4().to_string());
        let turn_id = Uuid::new_v4().to_string();
        let key = new.idempotency_key.as_deref();
        let begun = match self.sessions.begin(&session_id, &turn_id, key, &new.ask).await {
            Ok(begun) => begun,
            Err(reason) => return not_begun(session_id, reason),
        };
        let Begun { guard, writer, opening, history } = *begun;
        let span = info_span!("turn", session = %session_id, turn = %turn_id);
        span.in_scope(|| note_question(&opening, &history));
        let log = Arc::clone(writer.log());
        let request = TurnRequest {
            session_id: session_id.clone(),
            turn_id: turn_id.clone(),
            started_at_ms: now_ms(),
            opening,
            model: upstream.name().to_owned(),
            sampling: new.sampling,
            max_tool_loops: new.max_tool_loops,
            tool_choice: new.tool_choice,
            briefing: self.briefing(&offer, &guard),
            history,
        };
        let parts = Parts {
            turn: Turn::new(request),
            writer,
            route: Route::new(upstream, &self.upstreams, is_named),
            tools: offer.tools,
            tool_timeout: self.tool_timeout,
        };
        let driver = span.in_scope(|| Box::new(Driver::new(parts)));
        metrics::first_event(asked.elapsed());
        self.turns.spawn(run(driver, permit, guard).instrument(span));
        Ok(BegunTurn { session_id, turn: LoggedTurn { turn_id, log }, repeated: false })
    }

    fn permit(&self) -> Result<(OwnedSemaphorePermit, TaskTrackerToken), BeginError> {
        let permit = Arc::clone(&self.places).try_acquire_owned();
        let running = self.turns.len();
        // Taken before the check for draining, because a drain waits for every turn that was let
        // in.
        let counted = self.turns.token();
        if self.is_draining() {
            return Err(BeginError::Draining);
        }
        let permit = permit.map_err(|_| BeginError::Full(running))?;
        Ok((permit, counted))
    }

    /// The turn that an earlier request with the same key began; `refusal` if there is none.
    async fn repeated(&self, new: NewTurn, refusal: BeginError) -> Result<BegunTurn, BeginError> {
        let (Some(session_id), Some(key)) = (new.session_id, new.idempotency_key) else {
            return Err(refusal);
        };
        match self.sessions.begun_by(&session_id, &key).await? {
            Some(reason) => not_begun(session_id, reason),
            None => Err(refusal),
        }
    }

    fn upstream(&self, name: Option<&str>) -> Result<&Arc<Upstream>, BeginError> {
        let Some(name) = name else { return Ok(self.default_upstream()) };
        let found = self.upstreams.iter().find(|upstream| upstream.name() == name);
        found.ok_or_else(|| BeginError::UnknownModel {
            name: name.to_owned(),
            known: self.upstreams.iter().map(|upstream| upstream.name().to_owned()).collect(),
        })
    }

    /// The tools with these names, or all tools if no names are given.
    fn offer_of(&self, names: Option<&[String]>) -> Result<Offer, BeginError> {
        let all = self.offer.read().clone();
        let Some(names) = names else { return Ok(all) };
        match all.tools.subset(names) {
            Ok(tools) => Ok(Offer { tools: Arc::new(tools), briefing: None }),
            Err(error) => {
                Err(BeginError::UnknownTool { error, known: all.tools.catalog().names() })
            }
        }
    }

    /// The briefing on these tools, with the session's own marker if markers carry a nonce.
    fn briefing(&self, offer: &Offer, guard: &TurnGuard) -> Arc<Briefing> {
        let nonce = self.rules.carries_nonce().then(|| guard.nonce());
        match &offer.briefing {
            Some(briefing) if nonce.is_none() => Arc::clone(briefing),
            _ => brief(&self.rules, nonce, offer.tools.catalog()),
        }
    }

    /// A session as of now, if there is one.
    ///
    /// # Errors
    /// See [`SessionError`].
    pub async fn snapshot(&self, session_id: &str) -> Result<Option<Snapshot>, SessionError> {
        self.sessions.snapshot(session_id).await
    }

    /// A turn of a session, the latest if `turn_id` is absent, for a reader that has seen its
    /// events up to `seen`.
    ///
    /// # Errors
    /// See [`SessionError`].
    pub async fn find_turn(
        &self,
        session_id: &str,
        turn_id: Option<&str>,
        seen: u64,
    ) -> Result<Found, SessionError> {
        self.sessions.find_turn(session_id, turn_id, seen).await
    }

    /// Cancels the turn of a session that runs on this node.
    ///
    /// # Errors
    /// See [`SessionError`].
    pub async fn cancel(&self, session_id: &str) -> Result<Cancel, SessionError> {
        self.sessions.cancel(session_id).await
    }

    /// Forgets a session and cancels the turn of it that runs on this node; false if there is no such session.
    ///
    /// # Errors
    /// See [`SessionError`].
    pub async fn forget(&self, session_id: &str) -> Result<bool, SessionError> {
        self.sessions.forget(session_id).await
    }

    /// The tools that new turns get.
    #[must_use]
    pub fn tools(&self) -> Arc<Registry> {
        Arc::clone(&self.offer.read().tools)
    }

    /// Replaces the tools of new turns. Running turns keep theirs.
    pub fn replace_tools(&self, tools: Registry) {
        // Built before taking the lock: a prompt with hundreds of tools takes a while.
        let offer = Offer::all(&self.rules, tools);
        *self.offer.write() = offer;
    }

    /// The upstream of turns that do not name one.
    #[must_use]
    pub fn default_upstream(&self) -> &Arc<Upstream> {
        // `new` refuses an empty list.
        &self.upstreams[0]
    }

    /// All upstreams, the default first.
    #[must_use]
    pub fn upstreams(&self) -> &[Arc<Upstream>] {
        &self.upstreams
    }

    /// Whether any upstream can be reached now. As in turns, upstreams in cool-down are asked last.
    ///
    /// # Errors
    /// Why the first one that was asked cannot be reached.
    pub async fn check_upstream(&self) -> Result<(), RoundFailure> {
        Route::new(&self.upstreams[0], &self.upstreams, false).check().await
    }

    /// How many turns are running.
    #[must_use]
    pub fn running(&self) -> usize {
        self.turns.len()
    }

    /// Whether the gateway is about to stop.
    #[must_use]
    pub fn is_draining(&self) -> bool {
        self.draining.is_cancelled()
    }

    /// What the session store holds.
    #[must_use]
    pub fn memory_usage(&self) -> MemoryUsage {
        self.sessions.memory_usage()
    }

    /// Forgets sessions that have not been used for a long time.
    pub fn sweep(&self) {
        self.sessions.sweep();
    }

    /// Accepts no new turns, gives running turns this long to finish, and cancels the rest. They
    /// get at most [`limits::turn::CANCEL_TIMEOUT`] to end. Returns whether all turns finished by
    /// themselves.
    pub async fn drain(&self, within: Duration) -> bool {
        self.draining.cancel();
        self.turns.close();
        if timeout(within, self.turns.wait()).await.is_ok() {
            return true;
        }
        self.cancel_all();
        if timeout(limits::turn::CANCEL_TIMEOUT, self.turns.wait()).await.is_err() {
            warn!(running = self.running(), "cancelled turns did not end");
        }
        false
    }

    /// Cancels all running turns. Their readers see how they end.
    pub fn cancel_all(&self) {
        self.sessions.cancel_all();
    }
}

/// The turn that is read instead of a new one, or why there is none.
fn not_begun(session_id: String, reason: NotBegun) -> Result<BegunTurn, BeginError> {
    Err(match reason {
        NotBegun::Repeated(turn) => return Ok(BegunTurn { session_id, turn, repeated: true }),
        NotBegun::Gone => BeginError::TurnGone,
        NotBegun::Busy => BeginError::TurnInProgress(session_id),
        NotBegun::Refused(error) => error.into(),
        NotBegun::Failed(error) => error.into(),
    })
}

/// Records what becomes of the open question, if there is one.
fn note_question(opening: &Opening, history: &Conversation) {
    let Some(question) = history.open_questions().first() else { return };
    let outcome = match opening {
        Opening::Answer(_) => "answered",
        Opening::Prompt(_) => "dropped",
    };
    debug!(outcome, tool = question.tool_name, "clarification closed");
    metrics::clarification(outcome);
}

/// Checks that the turn has the tool that must be called.
fn check_choice(choice: &ToolChoice, tools: &Catalog) -> Result<(), BeginError> {
    match choice {
        ToolChoice::Required if tools.is_empty() => Err(BeginError::NoToolToCall),
        ToolChoice::Named(name) if tools.get(name).is_none() => {
            Err(BeginError::UnknownChoice { name: name.clone(), known: tools.names() })
        }
        ToolChoice::Auto | ToolChoice::Required | ToolChoice::Named(_) => Ok(()),
    }
}

fn list(names: &[String]) -> String {
    if names.is_empty() { "none".to_owned() } else { names.join(", ") }
}

/// Runs a turn to its end. The turn is stored and its session freed before a client sees the last
/// event, because the client may ask for the next turn at once. Only a panic ends the log first.
///
/// The driver is boxed: a future keeps a copy of what it passes on to another.
async fn run(driver: Box<Driver>, permit: OwnedSemaphorePermit, guard: TurnGuard) {
    let (record, mut writer) = drive(driver).await.unzip();
    if let Some(writer) = &mut writer {
        writer.seal();
    }
    guard.finish(record).await;
    drop(permit);
    drop(writer);
}

/// Drives a turn to its end. `None` if the driver panics, which ends the log.
async fn drive(driver: Box<Driver>) -> Option<(conversation::Turn, Writer)> {
    let mut run = pin!(driver.run());
    poll_fn(|cx| match panic::catch_unwind(AssertUnwindSafe(|| run.as_mut().poll(cx))) {
        Ok(poll) => poll.map(Some),
        Err(_) => Poll::Ready(None),
    })
    .await
}

fn brief(rules: &Arc<Rules>, nonce: Option<&str>, tools: &Catalog) -> Arc<Briefing> {
    let briefing = Briefing::new(rules, nonce, tools);
    Arc::new(briefing.expect("`Gateway::new` has checked the parser's settings"))
}

fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    millis(since)
}

#[cfg(test)]
mod tests;
