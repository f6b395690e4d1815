//! The turns behind answers that clients know only as text.
//!
//! A client that keeps the conversation itself sends back what it could see: not our calls, nor what
//! they found. Without them, a model forgets what it has looked up. So each turn is remembered for a
//! while, under its id and under what its client had seen by its end. A miss is harmless: the
//! conversation then goes on with the words alone.

use std::borrow::Borrow;
use std::collections::{HashMap, VecDeque};
use std::hash::Hash;
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
    /// By the id of the question that they ended with.
    by_question: HashMap<String, Arc<Remembered>>,
    /// By the id of the question whose answer opened them.
    by_answer: HashMap<String, Arc<Remembered>>,
    /// The oldest first.
    all: VecDeque<Arc<Remembered>>,
    bytes: usize,
}

#[derive(Debug)]
struct Remembered {
    owner: String,
    past: Past,
    turn: Arc<Turn>,
    bytes: usize,
}

impl RememberedTurns {
    /// Remembers a turn of this owner, who has seen `past` by its end. The oldest make room for it.
    pub(crate) fn keep(&self, owner: String, past: Past, turn: Turn) {
        let bytes = turn.bytes() + size_of::<Remembered>();
        let remembered = Arc::new(Remembered { owner, past, turn: Arc::new(turn), bytes });
        let mut inner = self.0.lock();
        let id = remembered.turn.turn_id.clone();
        inner.by_id.insert(id, Arc::clone(&remembered));
        inner.by_past.insert(remembered.past, Arc::clone(&remembered));
        if let Some(id) = remembered.asks() {
            inner.by_question.insert(id.to_owned(), Arc::clone(&remembered));
        }
        if let Some(id) = remembered.answers() {
            inner.by_answer.insert(id.to_owned(), Arc::clone(&remembered));
        }
        inner.all.push_back(remembered);
        inner.bytes += bytes;
        while inner.bytes > REMEMBERED_BYTES_MAX {
            inner.forget_oldest();
        }
    }

    /// The turn with this id, if it is this owner's.
    pub(crate) fn by_id(&self, owner: &str, turn_id: &str) -> Option<Arc<Turn>> {
        find(&self.0.lock().by_id, owner, turn_id)
    }

    /// The turn that ended with this question, if it is this owner's.
    pub(crate) fn by_question(&self, owner: &str, clarification_id: &str) -> Option<Arc<Turn>> {
        find(&self.0.lock().by_question, owner, clarification_id)
    }

    /// The turn that an answer to this question opened, if it is this owner's.
    pub(crate) fn by_answer(&self, owner: &str, clarification_id: &str) -> Option<Arc<Turn>> {
        find(&self.0.lock().by_answer, owner, clarification_id)
    }

    /// The turn at whose end its client had seen this, which includes whose it is.
    pub(crate) fn by_past(&self, past: &Past) -> Option<Arc<Turn>> {
        Some(Arc::clone(&self.0.lock().by_past.get(past)?.turn))
    }
}

impl Remembered {
    fn asks(&self) -> Option<&str> {
        self.turn.questions.first().map(|question| &*question.clarification_id)
    }

    fn answers(&self) -> Option<&str> {
        self.turn.answer.as_deref().map(|answer| &*answer.clarification_id)
    }
}

fn find(turns: &HashMap<String, Arc<Remembered>>, owner: &str, id: &str) -> Option<Arc<Turn>> {
    let found = turns.get(id).filter(|found| found.owner == owner)?;
    Some(Arc::clone(&found.turn))
}

impl Inner {
    fn forget_oldest(&mut self) {
        let Some(oldest) = self.all.pop_front() else { return };
        self.bytes -= oldest.bytes;
        self.by_id.remove(&oldest.turn.turn_id);
        // Later turns may have the same past, and the same question: asked and answered again.
        remove(&mut self.by_past, &oldest.past, &oldest);
        if let Some(id) = oldest.asks() {
            remove(&mut self.by_question, id, &oldest);
        }
        if let Some(id) = oldest.answers() {
            remove(&mut self.by_answer, id, &oldest);
        }
    }
}

/// Removes a turn, unless a later one has taken its place.
fn remove<K, Q>(turns: &mut HashMap<K, Arc<Remembered>>, key: &Q, oldest: &Arc<Remembered>)
where
    K: Borrow<Q> + Eq + Hash,
    Q: Eq + Hash + ?Sized,
{
    if turns.get(key).is_some_and(|kept| Arc::ptr_eq(kept, oldest)) {
        turns.remove(key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conversation::{Answer, Given, Question};
    use crate::tools::{Clarification, Continuation, Source};

    fn question() -> Question {
        Question {
            clarification_id: String::new(),
            call_id: "call_1".to_owned(),
            tool_name: "look".to_owned(),
            source: Source::builtin(),
            clarification: Clarification::default(),
            arguments: None,
            continuation: Continuation::Model,
        }
    }

    fn turn(id: &str, bytes: usize) -> Turn {
        Turn { turn_id: id.to_owned(), prompt: "x".repeat(bytes), ..Turn::default() }
    }

    fn past(owner: &str, said: &str) -> Past {
        Past::begin(owner).then("assistant", said)
    }

    #[test]
    fn a_turn_is_found_by_its_id_and_by_what_was_seen() {
        let turns = RememberedTurns::default();
        turns.keep("a".into(), past("a", "Hi."), turn("t", 1));
        assert_eq!(turns.by_id("a", "t").unwrap().turn_id, "t");
        assert_eq!(turns.by_past(&past("a", "Hi.")).unwrap().turn_id, "t");
        assert!(turns.by_id("b", "t").is_none(), "another key's");
        assert!(turns.by_past(&past("b", "Hi.")).is_none(), "another key's");
        assert!(turns.by_past(&past("a", "Ho.")).is_none());
    }

    #[test]
    fn a_question_leads_to_the_turn_that_asked_and_to_the_one_that_answered() {
        let turns = RememberedTurns::default();
        let question = Question { clarification_id: "q".to_owned(), ..question() };
        let asked = Turn { questions: vec![question], ..turn("1", 1) };
        let answer = Answer {
            clarification_id: "q".to_owned(),
            question: "Which?".to_owned(),
            given: Given::Declined,
            not_chosen: Vec::new(),
        };
        let answered = Turn { answer: Some(Box::new(answer)), ..turn("2", 1) };
        turns.keep("a".into(), past("a", "1"), asked);
        turns.keep("a".into(), past("a", "2"), answered);
        assert_eq!(turns.by_question("a", "q").unwrap().turn_id, "1");
        assert_eq!(turns.by_answer("a", "q").unwrap().turn_id, "2");
        assert!(turns.by_question("b", "q").is_none(), "another key's");
        assert!(turns.by_answer("b", "q").is_none(), "another key's");
        turns.keep("a".into(), past("a", "3"), turn("3", REMEMBERED_BYTES_MAX));
        assert!(turns.by_question("a", "q").is_none() && turns.by_answer("a", "q").is_none());
    }

    #[test]
    fn the_oldest_make_room() {
        let turns = RememberedTurns::default();
        let third = REMEMBERED_BYTES_MAX / 3;
        for id in ["1", "2", "3"] {
            turns.keep("a".into(), past("a", id), turn(id, third));
        }
        assert!(turns.by_id("a", "1").is_none() && turns.by_past(&past("a", "1")).is_none());
        assert!(turns.by_id("a", "2").is_some() && turns.by_id("a", "3").is_some());
    }

    #[test]
    fn the_same_answer_again_is_kept_when_the_first_goes() {
        let turns = RememberedTurns::default();
        let third = REMEMBERED_BYTES_MAX / 3;
        for id in ["1", "2", "3"] {
            turns.keep("a".into(), past("a", "Hi."), turn(id, third));
        }
        assert_eq!(turns.by_past(&past("a", "Hi.")).unwrap().turn_id, "3");
    }
}
