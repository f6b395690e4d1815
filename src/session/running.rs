//! The sessions whose turn is starting or running in this process, or is being stored.
//!
//! ```text
//!   free ── claim ──> loading ── run ──> running ── store ──> storing
//!     ^                  │                  │                    │
//!     '──────────────────┴───── dropped ────┴────────────────────'
//!                        evict: loading, under a new claim
//! ```
//!
//! A session is claimed before it is loaded from the store, so that of two requests for the same
//! session, one waits for the outcome of the other. A request also waits for a turn that is over
//! and only has to be stored: its client may have left before.

use std::collections::HashMap;
use std::mem;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

use super::RunningSession;
use super::unstored_ends::UnstoredEnds;

/// The sessions with a running turn, and those that are loaded for one.
#[derive(Debug, Default)]
pub(super) struct RunningSessions {
    slots: Mutex<Slots>,
    pub(super) unstored_ends: UnstoredEnds,
}

#[derive(Debug, Default)]
struct Slots {
    by_id: HashMap<Arc<str>, Slot>,
    claims: u64,
}

#[derive(Debug)]
struct Slot {
    /// The claim that it belongs to.
    claim: u64,
    state: State,
}

#[derive(Debug)]
enum State {
    /// A request is loading the session; the token is cancelled when the outcome is known.
    Loading(CancellationToken),
    Running(Arc<RunningSession>),
    /// The turn is over; the token is cancelled once it is stored.
    Storing(Arc<RunningSession>, CancellationToken),
}

/// What a claim finds.
#[derive(Debug)]
pub(super) enum Claimed {
    /// The session is ours.
    Free(Claim),
    /// Another request is loading it, or its turn is being stored. Claim again when this is
    /// cancelled.
    Later(CancellationToken),
    /// A turn runs in it.
    Running(Arc<RunningSession>),
}

/// A session's slot, free again when this is dropped.
#[derive(Debug)]
pub(super) struct Claim {
    running: Arc<RunningSessions>,
    id: Arc<str>,
    number: u64,
}

impl RunningSessions {
    pub(super) fn claim(self: &Arc<Self>, id: &str) -> Claimed {
        let mut slots = self.slots.lock();
        match slots.by_id.get(id).map(|slot| &slot.state) {
            Some(State::Loading(over) | State::Storing(_, over)) => Claimed::Later(over.clone()),
            Some(State::Running(session)) => Claimed::Running(Arc::clone(session)),
            None => Claimed::Free(self.enter(&mut slots, id).0),
        }
    }

    /// Puts a new claim into a slot, and returns what was there.
    fn enter(self: &Arc<Self>, slots: &mut Slots, id: &str) -> (Claim, Option<Slot>) {
        slots.claims += 1;
        let number = slots.claims;
        let slot = Slot { claim: number, state: State::Loading(CancellationToken::new()) };
        let id = Arc::from(id);
        let before = slots.by_id.insert(Arc::clone(&id), slot);
        (Claim { running: Arc::clone(self), id, number }, before)
    }

    /// The session, if a turn runs in it.
    pub(super) fn get(&self, id: &str) -> Option<Arc<RunningSession>> {
        self.slots.lock().by_id.get(id)?.session()
    }

    /// Is cancelled once the session's turn, which is over, is stored; `None` if there is none.
    pub(super) fn storing(&self, id: &str) -> Option<CancellationToken> {
        match &self.slots.lock().by_id.get(id)?.state {
            State::Storing(_, over) => Some(over.clone()),
            State::Loading(_) | State::Running(_) => None,
        }
    }

    /// Gives the slot to a new claim, so that the turn of the old one stores nothing. Returns the
    /// session if a turn was running in it. Other requests wait until the new claim is dropped.
    pub(super) fn evict(self: &Arc<Self>, id: &str) -> (Claim, Option<Arc<RunningSession>>) {
        self.replace(&mut self.slots.lock(), id)
    }

    fn replace(
        self: &Arc<Self>,
        slots: &mut Slots,
        id: &str,
    ) -> (Claim, Option<Arc<RunningSession>>) {
        let (claim, before) = self.enter(slots, id);
        let session = before.as_ref().and_then(Slot::session);
        if let Some(slot) = before {
            slot.state.let_others_claim();
        }
        (claim, session)
    }

    /// [Evicts](Self::evict) this turn; `None` if another one has its slot by now.
    pub(super) fn evict_turn(
        self: &Arc<Self>,
        id: &str,
        session: &Arc<RunningSession>,
    ) -> Option<Claim> {
        let mut slots = self.slots.lock();
        let current = slots.by_id.get(id).and_then(Slot::session);
        if !current.is_some_and(|current| Arc::ptr_eq(&current, session)) {
            return None;
        }
        Some(self.replace(&mut slots, id).0)
    }

    /// All sessions in which a turn runs.
    pub(super) fn all(&self) -> Vec<Arc<RunningSession>> {
        self.slots.lock().by_id.values().filter_map(Slot::session).collect()
    }
}

impl Slot {
    fn session(&self) -> Option<Arc<RunningSession>> {
        match &self.state {
            State::Loading(_) => None,
            State::Running(session) | State::Storing(session, _) => Some(Arc::clone(session)),
        }
    }
}

impl State {
    fn let_others_claim(self) {
        match self {
            Self::Loading(over) | Self::Storing(_, over) => over.cancel(),
            Self::Running(_) => {}
        }
    }
}

impl Slots {
    /// The slot of a claim, unless it was evicted.
    fn slot_of(&mut self, claim: &Claim) -> Option<&mut Slot> {
        self.by_id.get_mut(&claim.id).filter(|slot| slot.claim == claim.number)
    }
}

impl Claim {
    /// Marks the session's turn as running; false if the claim was evicted.
    pub(super) fn run(&self, session: Arc<RunningSession>) -> bool {
        self.enter(State::Running(session))
    }

    /// Marks the session's turn as over; false if the claim was evicted. It is free once the claim
    /// is dropped.
    pub(super) fn store(&self, session: Arc<RunningSession>) -> bool {
        self.enter(State::Storing(session, CancellationToken::new()))
    }

    /// Notes that the session's turn, which had this epoch, has ended here, but not in the store.
    pub(super) fn note_end_unstored(&self, turn_id: &str, epoch: u64) {
        self.running.unstored_ends.add(&self.id, turn_id, epoch);
    }

    fn enter(&self, state: State) -> bool {
        let mut slots = self.running.slots.lock();
        let Some(slot) = slots.slot_of(self) else { return false };
        let before = mem::replace(&mut slot.state, state);
        drop(slots);
        before.let_others_claim();
        true
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        let mut slots = self.running.slots.lock();
        let is_ours = slots.slot_of(self).is_some();
        let slot = is_ours.then(|| slots.by_id.remove(&self.id)).flatten();
        drop(slots);
        if let Some(slot) = slot {
            slot.state.let_others_claim();
        }
    }
}
