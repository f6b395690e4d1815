//! What a front end can ask for: begin a turn, find it again, cancel it, read and forget sessions.
//! It knows nothing of HTTP.

mod asked;
mod begin;
mod begin_error;
mod client_address;
mod counts;
mod ids;
mod new_turn;
mod offer;
mod question_claim;
mod question_end;
mod recent_turn_draft;
mod recent_turns;
mod resume;
mod room;
mod run;
mod shares;
#[cfg(test)]
mod tests;
mod turn_cache;
mod turn_keys;
mod unstored_ends;

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tokio::sync::{Semaphore, watch};
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::warn;

use crate::limits;
use crate::orchestrator::{ParkedCalls, Rules};
use crate::parser::SettingsError;
use crate::session::store::{Artifact, MemoryStore, MemoryUsage, Store, StoreError};
use crate::session::{
    AnswerSerializers, Cancel, Chain, DeletedAnswer, Durability, FoundTurn, LoggedTurn,
    RemoteUsage, SessionError, Sessions, Snapshot, StoredAnswer,
};
use crate::tools::{Registry, SourceReport, Toolset};
use crate::upstream::{RoundFailure, Route, Upstream};
use offer::Offer;

pub use crate::orchestrator::{ResponseFormat, ResponseFormatError};
pub(crate) use crate::upstream::Detected;
pub use begin::BegunTurn;
pub use begin_error::BeginError;
pub use client_address::ClientAddress;
pub(crate) use counts::Counts;
pub use new_turn::{ClientHistory, NewTurn};
pub(crate) use recent_turns::RecentLookup;
use recent_turns::RecentTurns;
use shares::Shares;
pub use shares::{OverLimit, TurnLimits};
pub(crate) use turn_keys::of_owner;

/// What a gateway is made of.
#[derive(Debug, Clone)]
pub struct Options {
    /// The rules of turns.
    pub rules: Rules,
    /// The longest run of a tool without a limit of its own.
    pub tool_timeout: Duration,
    /// How many turns may run at the same time.
    pub max_concurrent_turns: usize,
    /// How many of them one client may run.
    pub turn_limits: TurnLimits,
    /// Where sessions are kept.
    pub store: Arc<dyn Store>,
    /// When readers see events, if that outlives the process.
    pub durability: Durability,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            rules: Rules::default(),
            tool_timeout: limits::turn::TOOL_TIMEOUT,
            max_concurrent_turns: limits::server::CONCURRENT_TURNS_MAX,
            turn_limits: TurnLimits::default(),
            store: Arc::new(MemoryStore::new(limits::session::TTL)),
            durability: Durability::default(),
        }
    }
}

/// The gateway.
#[derive(Debug)]
pub struct Gateway {
    rules: Arc<Rules>,
    tool_timeout: Duration,
    upstreams: Vec<Arc<Upstream>>,
    offer: watch::Sender<Offer>,
    sessions: Sessions,
    parked: ParkedCalls,
    recent_turns: Arc<RecentTurns>,
    places: Arc<Semaphore>,
    shares: Shares,
    turns: TaskTracker,
    draining: CancellationToken,
    /// How many times `cancel_all` was called.
    cancellations: AtomicU64,
    /// Writes the answers of turns that other gateways have begun.
    serializers: OnceLock<Arc<dyn AnswerSerializers>>,
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
    /// Its id among the gateways that share its store.
    #[must_use]
    pub fn node(&self) -> impl fmt::Display {
        self.sessions.node()
    }

    /// A gateway in front of `upstreams`, the first of which is the default.
    ///
    /// # Errors
    /// See [`OptionsError`]. Turns cannot fail because of the options later.
    pub fn new(
        options: Options,
        upstreams: Vec<Arc<Upstream>>,
        tools: impl Into<Toolset>,
    ) -> Result<Self, OptionsError> {
        options.rules.check()?;
        if upstreams.is_empty() {
            return Err(OptionsError::NoUpstream);
        }
        let rules = Arc::new(options.rules);
        let (offer, _) = watch::channel(Offer::all(&rules, tools.into()));
        Ok(Self {
            rules,
            tool_timeout: options.tool_timeout,
            upstreams,
            offer,
            recent_turns: Arc::new(RecentTurns::new(Arc::clone(&options.store))),
            sessions: Sessions::new(options.store, options.durability),
            parked: ParkedCalls::default(),
            places: Arc::new(Semaphore::new(options.max_concurrent_turns)),
            shares: Shares::new(options.turn_limits, options.max_concurrent_turns),
            turns: TaskTracker::new(),
            draining: CancellationToken::new(),
            cancellations: AtomicU64::new(0),
            serializers: OnceLock::new(),
        })
    }

    /// Turns that other gateways have begun get their serializers from here.
    pub fn serialize_with(&self, serializers: Arc<dyn AnswerSerializers>) {
        let _ = self.serializers.set(serializers);
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
    ) -> Result<FoundTurn, SessionError> {
        self.sessions.find_turn(session_id, turn_id, seen).await
    }

    /// The answer of a turn that is kept in the client's own form.
    ///
    /// # Errors
    /// See [`SessionError`].
    pub(crate) async fn answer(
        &self,
        session_id: &str,
        turn_id: &str,
    ) -> Result<Option<StoredAnswer>, SessionError> {
        self.sessions.answer(session_id, turn_id).await
    }

    /// The conversation that ends with such an answer.
    ///
    /// # Errors
    /// See [`SessionError`].
    pub(crate) async fn chain(
        &self,
        session_id: &str,
        turn_id: &str,
    ) -> Result<Option<Chain>, SessionError> {
        self.sessions.chain(session_id, turn_id).await
    }

    /// Whether a turn was begun in a session with this idempotency key.
    ///
    /// # Errors
    /// See [`SessionError`].
    pub(crate) async fn has_begun(
        &self,
        session_id: &str,
        key: &str,
    ) -> Result<bool, SessionError> {
        Ok(self.sessions.begun_by(session_id, key).await?.is_some())
    }

    /// Cancels the turn of such an answer, and waits for its end.
    ///
    /// # Errors
    /// See [`SessionError`].
    pub(crate) async fn cancel_to_end(
        &self,
        session_id: &str,
        turn: &LoggedTurn,
    ) -> Result<(), SessionError> {
        self.sessions.cancel_to_end(session_id, turn).await
    }

    /// Deletes such an answer, and its session if it was the only one there.
    ///
    /// # Errors
    /// See [`SessionError`].
    pub(crate) async fn delete_answer(
        &self,
        session_id: &str,
        turn_id: &str,
    ) -> Result<DeletedAnswer, SessionError> {
        let deleted = self.sessions.delete_answer(session_id, turn_id).await?;
        if deleted == DeletedAnswer::WasLast {
            self.forget(session_id).await?;
        }
        Ok(deleted)
    }

    /// A file that a tool returned in a turn of this owner, if it is still kept.
    ///
    /// # Errors
    /// See [`SessionError`].
    pub async fn artifact(&self, owner: &str, id: &str) -> Result<Option<Artifact>, SessionError> {
        Ok(self.sessions.artifacts(owner).get(id).await?)
    }

    /// Cancels the turn of a session, wherever it runs.
    ///
    /// # Errors
    /// See [`SessionError`].
    pub async fn cancel(&self, session_id: &str) -> Result<Cancel, SessionError> {
        self.sessions.cancel(session_id).await
    }

    /// Forgets a session, and cancels its turn if that runs on this node; false if there is no such
    /// session.
    ///
    /// # Errors
    /// See [`SessionError`].
    pub async fn forget(&self, session_id: &str) -> Result<bool, SessionError> {
        self.parked.forget(session_id);
        let forgotten = self.sessions.forget(session_id).await;
        // Its turn has been cancelled, and can no longer bring anything back. It may have ended with a question meanwhile.
        self.parked.forget(session_id);
        self.tools().forget(session_id);
        forgotten
    }

    /// Whether models see images.
    #[must_use]
    pub(crate) fn shows_images(&self) -> bool {
        self.rules.images
    }

    /// Finds an owner's recent turns in full, for clients that keep the conversation themselves.
    #[must_use]
    pub(crate) fn recent_turns(&self, owner: &str) -> RecentLookup {
        self.recent_turns.lookup(owner)
    }

    /// The tools that new turns get.
    #[must_use]
    pub fn tools(&self) -> Arc<Registry> {
        Arc::clone(&self.offer.borrow().tools)
    }

    /// Replaces the tools of new turns. Running turns keep theirs.
    pub fn replace_tools(&self, tools: impl Into<Toolset>) {
        // Built before taking the lock: a prompt with hundreds of tools takes a while.
        let offer = Offer::all(&self.rules, tools.into());
        self.offer.send_replace(offer);
    }

    /// The status of each source of tools.
    #[must_use]
    pub fn sources(&self) -> Arc<[SourceReport]> {
        Arc::clone(&self.offer.borrow().sources)
    }

    /// The required source of tools that turns wait for, and why it is not ready; `None` if there
    /// is none.
    #[must_use]
    pub fn awaited_source(&self) -> Option<Arc<str>> {
        self.offer.borrow().awaited.as_ref().map(|source| Arc::clone(&source.why))
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

    /// Whether the default upstream can be reached now, or another that may stand in for it. As in turns, upstreams
    /// in cool-down are asked last.
    ///
    /// # Errors
    /// Why the first one that was asked cannot be reached.
    pub async fn check_upstream(&self) -> Result<(), RoundFailure> {
        Route::new(&self.upstreams[0], &self.upstreams, false).check().await
    }

    /// Whether the session store can be used now.
    ///
    /// # Errors
    /// Why not.
    pub async fn check_store(&self) -> Result<(), StoreError> {
        self.sessions.check_store().await
    }

    /// How many turns are running.
    #[must_use]
    pub fn running(&self) -> usize {
        self.turns.len()
    }

    /// How many calls wait for the user's answer in this process.
    #[must_use]
    pub fn parked_calls(&self) -> usize {
        self.parked.len()
    }

    /// Whether the gateway is about to stop.
    #[must_use]
    pub fn is_draining(&self) -> bool {
        self.draining.is_cancelled()
    }

    /// What is read here of turns that run on other gateways; `None` if there are no others.
    #[must_use]
    pub fn remote_usage(&self) -> Option<RemoteUsage> {
        self.sessions.remote_usage()
    }

    /// What the session store holds.
    #[must_use]
    pub fn memory_usage(&self) -> MemoryUsage {
        self.sessions.memory_usage()
    }

    /// The memory that cached turns take.
    #[must_use]
    pub fn turn_cache_bytes(&self) -> usize {
        self.recent_turns.bytes()
    }

    /// Forgets sessions that have not been used for a long time.
    pub fn sweep(&self) {
        self.sessions.sweep();
    }

    /// Accepts no new turns, and gives running turns this long to finish. Other gateways that share the
    /// store go on with the rest; turns that cannot be left to others are cancelled, and get at most
    /// [`limits::turn::CANCEL_TIMEOUT`] to end. Returns whether all turns finished by themselves.
    pub async fn drain(&self, within: Duration) -> bool {
        self.accept_no_more();
        // No turn can answer them any more.
        self.parked.stop_all();
        let deadline = Instant::now() + within;
        let have_ended = self.end_turns(within).await;
        // The running turns may have ended with questions too.
        self.parked.stop_all();
        // Those that were cancelled just now have not had any time yet.
        self.ends_are_stored(deadline.max(Instant::now() + limits::turn::CANCEL_TIMEOUT)).await;
        have_ended
    }

    /// Waits for the running turns, and leaves or cancels those that take too long. Returns whether
    /// there were none.
    async fn end_turns(&self, within: Duration) -> bool {
        if timeout(within, self.turns.wait()).await.is_ok() {
            return true;
        }
        self.sessions.leave_all();
        self.end_cancelled().await;
        false
    }

    /// Accepts no new turns, and cancels the running ones: they get at most [`limits::turn::CANCEL_TIMEOUT`] to end,
    /// and so does the store to take their ends.
    pub async fn stop(&self) {
        self.accept_no_more();
        self.end_cancelled().await;
        self.ends_are_stored(Instant::now() + limits::turn::CANCEL_TIMEOUT).await;
    }

    fn accept_no_more(&self) {
        self.draining.cancel();
        self.sessions.take_over_no_more();
        self.turns.close();
    }

    /// Cancels all turns, and waits for their ends.
    async fn end_cancelled(&self) {
        self.cancel_all();
        if timeout(limits::turn::CANCEL_TIMEOUT, self.turns.wait()).await.is_err() {
            warn!(running = self.running(), "cancelled turns did not end");
        }
    }

    /// Cancels all turns that run or are about to begin. Their readers see how they end.
    pub fn cancel_all(&self) {
        // Increment first: a turn that is beginning is then either among the running ones below, or
        // sees the new count.
        self.cancellations.fetch_add(1, Ordering::SeqCst);
        self.sessions.cancel_all();
        self.parked.stop_all();
    }
}
