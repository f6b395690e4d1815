//! The sessions whose turn is starting or running in this process.
//!
//! ```text
//!   free ── claim ──> loading ── run ──> running ── dropped ──> free
//!     ^                │   ^                │
//!     '── dropped ─────'   '─── evicted ────'    evicted from loading: loading, under a new claim
//! ```
//!
//! A session is claimed before it is loaded from the store, so that of two requests for the same
//! session, one waits for the outcome of the other.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

use super::RunningSession;

/// The sessions with a running turn, and those that are loaded for one.
#[derive(Debug, Default)]
pub(super) struct RunningSessions {
    slots: Mutex<Slots>,
}

#[derive(Debug, Default)]
struct Slots {
    by_id: HashMap<String, Slot>,
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
}

/// What a claim finds.
#[derive(Debug)]
pub(super) enum Claimed {
    /// The session is ours.
    Free(Claim),
    /// Another request is loading it. Claim again when this is cancelled.
    Loading(CancellationToken),
    /// A turn runs in it.
    Running(Arc<RunningSession>),
}

/// A session's slot, free again when this is dropped.
#[derive(Debug)]
pub(super) struct Claim {
    running: Arc<RunningSessions>,
    id: String,
    number: u64,
    settled: CancellationToken,
}

impl RunningSessions {
    pub(super) fn claim(self: &Arc<Self>, id: &str) -> Claimed {
        let mut slots = self.slots.lock();
        match slots.by_id.get(id).map(|slot| &slot.state) {
            Some(State::Loading(settled)) => Claimed::Loading(settled.clone()),
            Some(State::Running(session)) => Claimed::Running(Arc::clone(session)),
            None => Claimed::Free(self.enter(&mut slots, id).0),
        }
    }

    /// Puts a new claim into a slot, and returns what was there.
    fn enter(self: &Arc<Self>, slots: &mut Slots, id: &str) -> (Claim, Option<Slot>) {
        slots.claims += 1;
        let (number, settled) = (slots.claims, CancellationToken::new());
        let slot = Slot { claim: number, state: State::Loading(settled.clone()) };
        let before = slots.by_id.insert(id.to_owned(), slot);
        (Claim { running: Arc::clone(self), id: id.to_owned(), number, settled }, before)
    }

    /// The session, if a turn runs in it.
    pub(super) fn get(&self, id: &str) -> Option<Arc<RunningSession>> {
        self.slots.lock().by_id.get(id)?.session()
    }

    /// Gives the slot to a new claim, so that the turn of the old one stores nothing. Returns the
    /// session if a turn was running in it. Other requests wait until the new claim is dropped.
    pub(super) fn evict(self: &Arc<Self>, id: &str) -> (Claim, Option<Arc<RunningSession>>) {
        let (claim, before) = self.enter(&mut self.slots.lock(), id);
        match before.map(|slot| slot.state) {
            Some(State::Loading(settled)) => {
                settled.cancel();
                (claim, None)
            }
            Some(State::Running(session)) => (claim, Some(session)),
            None => (claim, None),
        }
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
            State::Running(session) => Some(Arc::clone(session)),
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
        let mut slots = self.running.slots.lock();
        let Some(slot) = slots.slot_of(self) else { return false };
        slot.state = State::Running(session);
        self.settled.cancel();
        true
    }

    /// Whether the session is still ours and was not forgotten.
    pub(super) fn is_current(&self) -> bool {
        self.running.slots.lock().slot_of(self).is_some()
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        let mut slots = self.running.slots.lock();
        if slots.slot_of(self).is_some() {
            slots.by_id.remove(&self.id);
        }
        drop(slots);
        self.settled.cancel();
    }
}
