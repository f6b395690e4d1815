//! What a front door can ask for: begin a turn, find one again, cancel it, read
//! and forget sessions. Knows no HTTP.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::{Instrument as _, info_span};
use uuid::Uuid;

use crate::limits;
use crate::orchestrator::{Briefing, Driver, Parts, Rules, Turn, TurnRequest};
use crate::session::{Begin, Found, LoggedTurn, Session, Sessions};
use crate::telemetry::metrics;
use crate::tools::{Registry, RegistryError};
use crate::upstream::{RoundFailure, Sampling, Upstream};

/// What a gateway is made of.
#[derive(Debug, Clone)]
pub struct Options {
    /// How turns go.
    pub rules: Rules,
    /// Longest run of a tool that has no limit of its own.
    pub tool_timeout: Duration,
    /// How long a turn goes on when nobody reads it.
    pub disconnect_grace: Duration,
    /// Turns that run at the same time.
    pub max_concurrent_turns: usize,
    /// How long a session is kept when nobody uses it.
    pub session_ttl: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            rules: Rules::default(),
            tool_timeout: limits::turn::TOOL_TIMEOUT,
            disconnect_grace: limits::stream::DISCONNECT_GRACE,
            max_concurrent_turns: limits::server::CONCURRENT_TURNS_MAX,
            session_ttl: limits::session::TTL,
        }
    }
}

/// The gateway.
#[derive(Debug)]
pub struct Gateway {
    rules: Arc<Rules>,
    tool_timeout: Duration,
    disconnect_grace: Duration,
    upstreams: Vec<Arc<Upstream>>,
    /// On all tools; turns that may use fewer get one of their own.
    briefing: Arc<Briefing>,
    sessions: Sessions,
    places: Arc<Semaphore>,
    turns: TaskTracker,
    draining: CancellationToken,
}

/// A turn to begin.
#[derive(Debug, Default)]
pub struct NewTurn {
    /// The session; a new one where absent.
    pub session_id: Option<String>,
    /// The user's words.
    pub prompt: String,
    /// Name of an upstream; the first where absent.
    pub model: Option<String>,
    /// Names of the tools that may be used; all where absent.
    pub tools: Option<Vec<String>>,
    /// Lowers the configured cap.
    pub max_tool_loops: Option<u32>,
    /// How tokens are chosen.
    pub sampling: Sampling,
    /// The same key in the same session begins one turn only.
    pub idempotency_key: Option<String>,
}

/// A turn that can be read from its start.
#[derive(Debug)]
pub struct BegunTurn {
    /// Its session.
    pub session_id: String,
    /// The turn.
    pub turn: LoggedTurn,
    /// Whether the idempotency key had begun it before.
    pub repeated: bool,
}

/// Why a turn does not begin.
#[derive(Debug, thiserror::Error)]
pub enum BeginError {
    /// One runs already.
    #[error("a turn is running in session {0}; cancel it or wait for its end")]
    TurnInProgress(String),
    /// The key's turn is over and no longer held.
    #[error("the turn that this Idempotency-Key began is over and no longer held")]
    TurnGone,
    /// No such upstream.
    #[error("no upstream is named {name:?}; there are: {}", known.join(", "))]
    UnknownModel {
        /// What was asked for.
        name: String,
        /// What there is.
        known: Vec<String>,
    },
    /// No such tool.
    #[error("{error}; there are: {}", known.join(", "))]
    UnknownTool {
        /// What was asked for.
        error: RegistryError,
        /// What there is.
        known: Vec<String>,
    },
    /// All places are taken.
    #[error("{0} turns are running, as many as server.max_concurrent_turns allows")]
    Full(usize),
    /// The gateway is about to stop.
    #[error("the gateway is shutting down")]
    Draining,
    /// The configuration cannot be used.
    #[error(transparent)]
    Settings(#[from] crate::parser::SettingsError),
}

impl Gateway {
    /// A gateway in front of `upstreams`, the first of which is the default.
    #[must_use]
    pub fn new(options: Options, upstreams: Vec<Arc<Upstream>>, tools: Registry) -> Self {
        let briefing = Arc::new(brief(&options.rules, tools));
        Self {
            rules: Arc::new(options.rules),
            tool_timeout: options.tool_timeout,
            disconnect_grace: options.disconnect_grace,
            upstreams,
            briefing,
            sessions: Sessions::new(options.session_ttl),
            places: Arc::new(Semaphore::new(options.max_concurrent_turns)),
            turns: TaskTracker::new(),
            draining: CancellationToken::new(),
        }
    }

    /// Begins a turn. It runs on its own, whoever reads it.
    ///
    /// # Errors
    /// See [`BeginError`]; nothing has begun then.
    pub fn begin(&self, new: NewTurn) -> Result<BegunTurn, BeginError> {
        let upstream = self.upstream(new.model.as_deref())?;
        let briefing = self.briefing(new.tools.as_deref())?;
        let place = match self.place() {
            Ok(place) => place,
            // What was begun before needs none.
            Err(refusal) => return self.repeated(new).unwrap_or(Err(refusal)),
        };
        let session_id = new.session_id.unwrap_or_else(|| Uuid::new_v4().to_string());
        let session = self.sessions.open(&session_id);
        let turn_id = Uuid::new_v4().to_string();
        let (guard, writer) = match session.begin(&turn_id, new.idempotency_key.as_deref()) {
            Begin::New(guard, writer) => (guard, writer),
            Begin::Repeated(turn) => return Ok(BegunTurn { session_id, turn, repeated: true }),
            Begin::Gone => return Err(BeginError::TurnGone),
            Begin::Busy => return Err(BeginError::TurnInProgress(session_id)),
        };
        let span = info_span!("turn", session = %session_id, turn = %turn_id);
        let log = Arc::clone(writer.log());
        let request = TurnRequest {
            session_id: session_id.clone(),
            turn_id: turn_id.clone(),
            started_at_ms: now_ms(),
            prompt: new.prompt,
            model: upstream.name().to_owned(),
            form: upstream.history().into(),
            sampling: new.sampling,
            max_tool_loops: new.max_tool_loops,
            briefing: Arc::clone(&briefing),
            history: session.conversation(),
        };
        let parts = Parts {
            turn: Turn::new(Arc::clone(&self.rules), request)?,
            writer,
            upstream: Arc::clone(upstream),
            briefing,
            tool_timeout: self.tool_timeout,
            disconnect_grace: self.disconnect_grace,
        };
        let driver = span.in_scope(|| Driver::new(parts));
        let run = async move {
            let running = (place, metrics::turn_running());
            let (record, writer) = driver.run().await;
            // All is free before the last event is seen: a client may ask for the
            // next turn at once.
            guard.finish(record);
            drop(running);
            drop(writer);
        };
        self.turns.spawn(run.instrument(span));
        Ok(BegunTurn { session_id, turn: LoggedTurn { turn_id, log }, repeated: false })
    }

    fn place(&self) -> Result<OwnedSemaphorePermit, BeginError> {
        if self.draining.is_cancelled() {
            return Err(BeginError::Draining);
        }
        let place = Arc::clone(&self.places).try_acquire_owned();
        place.map_err(|_| BeginError::Full(self.turns.len()))
    }

    /// The turn that the same request has begun before, by its key.
    fn repeated(&self, new: NewTurn) -> Option<Result<BegunTurn, BeginError>> {
        let (session_id, key) = (new.session_id?, new.idempotency_key?);
        Some(match self.sessions.find(&session_id)?.begun_by(&key)? {
            Found::Turn(turn) => Ok(BegunTurn { session_id, turn, repeated: true }),
            Found::Gone | Found::Unknown => Err(BeginError::TurnGone),
        })
    }

    fn upstream(&self, name: Option<&str>) -> Result<&Arc<Upstream>, BeginError> {
        let found = match name {
            None => self.upstreams.first(),
            Some(name) => self.upstreams.iter().find(|upstream| upstream.name() == name),
        };
        found.ok_or_else(|| BeginError::UnknownModel {
            name: name.unwrap_or_default().to_owned(),
            known: self.upstreams.iter().map(|upstream| upstream.name().to_owned()).collect(),
        })
    }

    fn briefing(&self, names: Option<&[String]>) -> Result<Arc<Briefing>, BeginError> {
        let Some(names) = names else { return Ok(Arc::clone(&self.briefing)) };
        let tools = self.tools().subset(names).map_err(|error| BeginError::UnknownTool {
            error,
            known: self.tools().specs().map(|spec| spec.name.clone()).collect(),
        })?;
        Ok(Arc::new(brief(&self.rules, tools)))
    }

    /// The session, if there is one.
    #[must_use]
    pub fn session(&self, id: &str) -> Option<Arc<Session>> {
        self.sessions.find(id)
    }

    /// Forgets a session and cancels what runs in it; false where there is none.
    pub fn forget(&self, id: &str) -> bool {
        self.sessions.forget(id)
    }

    /// All tools.
    #[must_use]
    pub fn tools(&self) -> &Registry {
        self.briefing.tools()
    }

    /// All upstreams, the default first.
    #[must_use]
    pub fn upstreams(&self) -> &[Arc<Upstream>] {
        &self.upstreams
    }

    /// Whether one of the upstreams can be reached now.
    ///
    /// # Errors
    /// Why the first of them cannot.
    pub async fn check_upstream(&self) -> Result<(), RoundFailure> {
        let mut first = None;
        for upstream in &self.upstreams {
            match upstream.check().await {
                Ok(()) => return Ok(()),
                Err(failure) => first = first.or(Some(failure)),
            }
        }
        first.map_or(Ok(()), Err)
    }

    /// How many turns run.
    #[must_use]
    pub fn running(&self) -> usize {
        self.turns.len()
    }

    /// Whether the gateway is about to stop.
    #[must_use]
    pub fn is_draining(&self) -> bool {
        self.draining.is_cancelled()
    }

    /// Forgets sessions that nobody has used for long.
    pub fn sweep(&self) {
        self.sessions.sweep();
    }

    /// Takes no new turns, lets those that run finish within `patience`, and
    /// cancels the rest. Returns whether all finished by themselves.
    pub async fn drain(&self, patience: Duration) -> bool {
        self.draining.cancel();
        self.turns.close();
        if tokio::time::timeout(patience, self.turns.wait()).await.is_ok() {
            return true;
        }
        self.cancel_all();
        self.turns.wait().await;
        false
    }

    /// Cancels all turns that run; each says so to its readers.
    pub fn cancel_all(&self) {
        self.sessions.cancel_all();
    }
}

fn brief(rules: &Rules, tools: Registry) -> Briefing {
    Briefing::new(&rules.system_prompt, &rules.parser.marker, tools)
}

fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}
