//! The turns behind answers that clients know only as text.
//!
//! A client that keeps the conversation itself sends back what it could see: not our calls, nor what
//! they found. Without them, a model forgets what it has looked up. So each turn is remembered for a
//! while, under its id and under what its client had seen by its end. A miss is harmless: the
//! conversation then goes on with the words alone.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use parking_lot::Mutex;

use crate::conversation::Turn;
use crate::conversation::claimed::Past;
use crate::limits::session::REMEMBERED_BYTES_MAX;

/// See the module docs.
#[derive(Debug, Default)]
pub(crate) struct RememberedTurns(Mutex<Inner>);

#[derive(Debug, Default)]
struct Inner {
    by_id: HashMap<String, Arc<Remembered>>,
    by_past: HashMap<Past, Arc<Remembered>>,
    /// The oldest first.
    all: VecDeque<Arc<Remembered>>,
    bytes: usize,
}

#[derive(Debug)]
struct Remembered {
    owner: String,
    pasts: Vec<Past>,
    turn: Arc<Turn>,
    bytes: usize,
}

impl RememberedTurns {
    /// Remembers a turn of this owner, who may say that one of `pasts` has been said by its end. The
    /// oldest make room for it.
    pub(crate) fn keep(&self, owner: String, pasts: Vec<Past>, turn: Turn) {
        let bytes = turn.bytes() + size_of::<Remembered>();
        let remembered = Arc::new(Remembered { owner, pasts, turn: Arc::new(turn), bytes });
        let mut inner = self.0.lock();
        let id = remembered.turn.turn_id.clone();
        inner.by_id.insert(id, Arc::clone(&remembered));
        for past in &remembered.pasts {
            inner.by_past.insert(*past, Arc::clone(&remembered));
        }
        inner.all.push_back(remembered);
        inner.bytes += bytes;
        while inner.bytes > REMEMBERED_BYTES_MAX {
            inner.forget_oldest();
        }
    }

    /// The turn with this id, if it is this owner's.
    pub(crate) fn by_id(&self, owner: &str, turn_id: &str) -> Option<Arc<Turn>> {
        let inner = self.0.lock();
        let found = inner.by_id.get(turn_id).filter(|found| found.owner == owner)?;
        Some(Arc::clone(&found.turn))
    }

    /// The turn at whose end its client had seen this, which includes whose it is.
    pub(crate) fn by_past(&self, past: &Past) -> Option<Arc<Turn>> {
        Some(Arc::clone(&self.0.lock().by_past.get(past)?.turn))
    }
}

impl Inner {
    fn forget_oldest(&mut self) {
        let Some(oldest) = self.all.pop_front() else { return };
        self.bytes -= oldest.bytes;
        self.by_id.remove(&oldest.turn.turn_id);
        // A later turn may have the same past: the same question, asked and answered again.
        for past in &oldest.pasts {
            if self.by_past.get(past).is_some_and(|kept| Arc::ptr_eq(kept, &oldest)) {
                self.by_past.remove(past);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn turn(id: &str, bytes: usize) -> Turn {
        Turn { turn_id: id.to_owned(), prompt: "x".repeat(bytes), ..Turn::default() }
    }

    fn past(owner: &str, said: &str) -> Past {
        Past::begin(owner).then("assistant", said)
    }

    #[test]
    fn a_turn_is_found_by_its_id_and_by_what_was_seen() {
        let turns = RememberedTurns::default();
        turns.keep("a".into(), vec![past("a", "Hi.")], turn("t", 1));
        assert_eq!(turns.by_id("a", "t").unwrap().turn_id, "t");
        assert_eq!(turns.by_past(&past("a", "Hi.")).unwrap().turn_id, "t");
        assert!(turns.by_id("b", "t").is_none(), "another key's");
        assert!(turns.by_past(&past("b", "Hi.")).is_none(), "another key's");
        assert!(turns.by_past(&past("a", "Ho.")).is_none());
    }

    #[test]
    fn the_oldest_make_room() {
        let turns = RememberedTurns::default();
        let third = REMEMBERED_BYTES_MAX / 3;
        for id in ["1", "2", "3"] {
            turns.keep("a".into(), vec![past("a", id)], turn(id, third));
        }
        assert!(turns.by_id("a", "1").is_none() && turns.by_past(&past("a", "1")).is_none());
        assert!(turns.by_id("a", "2").is_some() && turns.by_id("a", "3").is_some());
    }

    #[test]
    fn the_same_answer_again_is_kept_when_the_first_goes() {
        let turns = RememberedTurns::default();
        let third = REMEMBERED_BYTES_MAX / 3;
        for id in ["1", "2", "3"] {
            turns.keep("a".into(), vec![past("a", "Hi.")], turn(id, third));
        }
        assert_eq!(turns.by_past(&past("a", "Hi.")).unwrap().turn_id, "3");
    }
}
