//! The sessions with a turn that begins or runs in this process.
//!
//! ```text
//!   free ── claim ──> opening ── run ──> running ── dropped ──> free
//!                        '──────────── dropped ──────────────────^
//! ```
//!
//! A session is claimed before it is loaded from the store, so that of two requests for the same
//! session, one waits for the outcome of the other.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

use super::Session;

/// The table of these sessions.
#[derive(Debug, Default)]
pub(super) struct Running {
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
    /// A request is opening the session; the token is cancelled when the outcome is known.
    Opening(CancellationToken),
    Running(Arc<Session>),
}

/// What a claim finds.
#[derive(Debug)]
pub(super) enum Claimed {
    /// The session is ours.
    Free(Claim),
    /// Another request is opening it. Claim again when this is cancelled.
    Opening(CancellationToken),
    /// A turn runs in it.
    Running(Arc<Session>),
}

/// A session's slot, free again when this is dropped.
#[derive(Debug)]
pub(super) struct Claim {
    running: Arc<Running>,
    id: String,
    number: u64,
    opened: CancellationToken,
}

impl Running {
    pub(super) fn claim(self: &Arc<Self>, id: &str) -> Claimed {
        let mut slots = self.slots.lock();
        if let Some(slot) = slots.by_id.get(id) {
            return match &slot.state {
                State::Opening(opened) => Claimed::Opening(opened.clone()),
                State::Running(session) => Claimed::Running(Arc::clone(session)),
            };
        }
        slots.claims += 1;
        let (number, opened) = (slots.claims, CancellationToken::new());
        let slot = Slot { claim: number, state: State::Opening(opened.clone()) };
        slots.by_id.insert(id.to_owned(), slot);
        Claimed::Free(Claim { running: Arc::clone(self), id: id.to_owned(), number, opened })
    }

    /// The session, if a turn runs in it.
    pub(super) fn get(&self, id: &str) -> Option<Arc<Session>> {
        self.slots.lock().by_id.get(id)?.session()
    }

    /// Takes a slot away from its claim, whose turn then stores nothing. Returns the session if a
    /// turn runs in it.
    pub(super) fn evict(&self, id: &str) -> Option<Arc<Session>> {
        match self.slots.lock().by_id.remove(id)?.state {
            State::Opening(opened) => {
                opened.cancel();
                None
            }
            State::Running(session) => Some(session),
        }
    }

    /// All sessions in which a turn runs.
    pub(super) fn all(&self) -> Vec<Arc<Session>> {
        self.slots.lock().by_id.values().filter_map(Slot::session).collect()
    }
}

impl Slot {
    fn session(&self) -> Option<Arc<Session>> {
        match &self.state {
            State::Opening(_) => None,
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
    pub(super) fn run(&self, session: Arc<Session>) -> bool {
        let mut slots = self.running.slots.lock();
        let Some(slot) = slots.slot_of(self) else { return false };
        slot.state = State::Running(session);
        self.opened.cancel();
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
        self.opened.cancel();
    }
}
