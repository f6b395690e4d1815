//! A cache of recent turns in full, for clients that keep the conversation themselves.
//!
//! Such a client sends back only what it saw: neither the calls to server tools nor their results.
//! Without those, the model forgets what it has looked up. So each turn is cached for a while, under
//! its id and under the hash of everything its client had seen by its end. A miss is harmless: the
//! conversation then goes on with the visible text alone.
//!
//! It ends with the process. With a store that does not, it stands before that: see
//! [`recent_turns`](super::recent_turns).

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use super::turn_keys::QuestionKeys;
use crate::conversation::Turn;
use crate::limits::session::{SAME_PROMPT_MAX, TURN_CACHE_BYTES_MAX};
use crate::session::store::{EntryKey, EntryOwner};

/// See the module docs.
#[derive(Debug, Default)]
pub(crate) struct TurnCache {
    inner: Mutex<Inner>,
    /// How long a turn is cached, if there is a bound.
    ttl: Option<Duration>,
}

#[derive(Debug, Default)]
struct Inner {
    /// Under each key, the oldest first. Only prompts lead to several that matter.
    by_key: HashMap<EntryKey, VecDeque<Arc<CachedTurn>>>,
    /// The questions that running turns answer or drop.
    claimed: HashSet<EntryKey>,
    owners: HashMap<EntryOwner, Share>,
    bytes: usize,
}

/// The turns of an owner.
#[derive(Debug, Default)]
struct Share {
    /// The oldest first.
    turns: VecDeque<Arc<CachedTurn>>,
    bytes: usize,
}

#[derive(Debug)]
struct CachedTurn {
    owner: EntryOwner,
    /// What it is found by. The first is its id's.
    keys: Vec<EntryKey>,
    turn: Arc<Turn>,
    bytes: usize,
    cached_at: Instant,
}

impl TurnCache {
    /// A cache that forgets turns after this time.
    pub(super) fn new(ttl: Option<Duration>) -> Self {
        Self { inner: Mutex::default(), ttl }
    }

    /// Caches a turn of an owner, under keys of [`TurnKeys`](super::turn_keys::TurnKeys), in place of the one with
    /// the same id. The oldest turns of the owner who has the most are evicted to make room for it.
    pub(super) fn insert(&self, owner: EntryOwner, keys: Vec<EntryKey>, turn: Turn) {
        self.insert_before(owner, keys, turn, |_| false);
    }

    /// The same for a turn from the store, which may be older than those that are here.
    pub(super) fn insert_recalled(&self, owner: EntryOwner, keys: Vec<EntryKey>, turn: Turn) {
        let began_at = turn.started_at_ms;
        self.insert_before(owner, keys, turn, |other| other.started_at_ms > began_at);
    }

    /// The same. Under each key, the turn comes before these.
    fn insert_before(
        &self,
        owner: EntryOwner,
        keys: Vec<EntryKey>,
        turn: Turn,
        is_newer: impl Fn(&Turn) -> bool,
    ) {
        let bytes = turn.bytes() + keys.len() * size_of::<EntryKey>() + size_of::<CachedTurn>();
        let turn = Arc::new(turn);
        let cached = CachedTurn { owner, keys, turn, bytes, cached_at: Instant::now() };
        let cached = Arc::new(cached);
        let mut inner = self.inner.lock();
        inner.replace(&cached);
        for key in &cached.keys {
            let turns = inner.by_key.entry(*key).or_default();
            let newer = turns.iter().rev().take_while(|other| is_newer(&other.turn)).count();
            turns.insert(turns.len() - newer, Arc::clone(&cached));
        }
        let share = inner.owners.entry(owner).or_default();
        share.turns.push_back(cached);
        share.bytes += bytes;
        inner.bytes += bytes;
        while inner.bytes > TURN_CACHE_BYTES_MAX {
            inner.evict();
        }
    }

    /// The memory that they take.
    pub(super) fn bytes(&self) -> usize {
        self.inner.lock().bytes
    }

    /// The latest turn under this key.
    pub(super) fn find(&self, key: &EntryKey) -> Option<Arc<Turn>> {
        let inner = self.inner.lock();
        let found = inner.by_key.get(key)?.back().filter(|turn| self.is_kept(turn))?;
        Some(Arc::clone(&found.turn))
    }

    /// The turns under this key: the newest first, at most [`SAME_PROMPT_MAX`].
    pub(super) fn find_all(&self, key: &EntryKey) -> Vec<Arc<Turn>> {
        let inner = self.inner.lock();
        let found = inner.by_key.get(key).into_iter().flat_map(|turns| turns.iter().rev());
        let found = found.filter(|turn| self.is_kept(turn)).take(SAME_PROMPT_MAX);
        found.map(|cached| Arc::clone(&cached.turn)).collect()
    }

    fn is_kept(&self, cached: &CachedTurn) -> bool {
        self.ttl.is_none_or(|ttl| cached.cached_at.elapsed() < ttl)
    }

    /// Whether a question has been answered or dropped, or a running turn does so.
    pub(super) fn is_closed(&self, question: &QuestionKeys) -> bool {
        let inner = self.inner.lock();
        inner.has_closed(question) || inner.claimed.contains(&question.claim)
    }

    /// Notes that a running turn answers or drops a question. False if the question
    /// [is closed](Self::is_closed).
    pub(super) fn claim(&self, question: &QuestionKeys) -> bool {
        let mut inner = self.inner.lock();
        !inner.has_closed(question) && inner.claimed.insert(question.claim)
    }

    /// Notes that no running turn does so any more.
    pub(super) fn release(&self, claim: &EntryKey) {
        self.inner.lock().claimed.remove(claim);
    }
}

impl Inner {
    fn has_closed(&self, question: &QuestionKeys) -> bool {
        [question.answer, question.drop].iter().any(|key| self.by_key.contains_key(key))
    }

    /// Removes the turn with the same id, if there is one.
    fn replace(&mut self, cached: &CachedTurn) {
        let before = cached.keys.first().and_then(|id| self.by_key.get(id)?.back().cloned());
        let Some(before) = before else { return };
        if let Some(share) = self.owners.get_mut(&before.owner) {
            share.turns.retain(|turn| !Arc::ptr_eq(turn, &before));
            share.bytes -= before.bytes;
        }
        self.remove(&before);
    }

    /// Forgets the oldest turn of the owner whose turns take the most.
    fn evict(&mut self) {
        let most = self.owners.values_mut().max_by_key(|share| share.bytes);
        let Some((share, oldest)) = most.and_then(|it| it.turns.pop_front().map(|old| (it, old)))
        else {
            return;
        };
        share.bytes -= oldest.bytes;
        if share.turns.is_empty() {
            self.owners.remove(&oldest.owner);
        }
        self.remove(&oldest);
    }

    /// Removes a turn that has left its owner's share. Others may have the same prefix, the same
    /// prompt, or the same question: asked and answered again.
    fn remove(&mut self, old: &Arc<CachedTurn>) {
        self.bytes -= old.bytes;
        for key in &old.keys {
            if let Some(turns) = self.by_key.get_mut(key) {
                turns.retain(|turn| !Arc::ptr_eq(turn, old));
                if turns.is_empty() {
                    self.by_key.remove(key);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::turn_keys::{
        TurnKeys, by_answer, by_id, by_prefix, by_prompt, by_question, of_owner,
    };
    use super::*;
    use crate::conversation::claimed::PrefixHash;
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

    fn keys(prompt: &str) -> TurnKeys {
        let prompt = Some(by_prompt("a", "c", prompt));
        TurnKeys { owner: "a".to_owned(), prompt, drops: None }
    }

    fn prefix(owner: &str, said: &str) -> PrefixHash {
        PrefixHash::begin(owner).then("assistant", said)
    }

    impl TurnCache {
        fn put(&self, keys: TurnKeys, seen: PrefixHash, turn: Turn) {
            let owner = of_owner(&keys.owner);
            self.insert(owner, keys.of(&[seen], &turn), turn);
        }

        fn by_id(&self, owner: &str, id: &str) -> Option<Arc<Turn>> {
            self.find(&by_id(owner, id))
        }

        fn by_prefix(&self, prefix: &PrefixHash) -> Option<Arc<Turn>> {
            self.find(&by_prefix(prefix))
        }
    }

    #[test]
    fn a_turn_is_found_by_its_id_and_by_what_was_seen() {
        let turns = TurnCache::default();
        turns.put(keys("1"), prefix("a", "Hi."), turn("t", 1));
        assert_eq!(turns.by_id("a", "t").unwrap().turn_id, "t");
        assert_eq!(turns.by_prefix(&prefix("a", "Hi.")).unwrap().turn_id, "t");
        assert!(turns.by_id("b", "t").is_none(), "another key's");
        assert!(turns.by_prefix(&prefix("b", "Hi.")).is_none(), "another key's");
        assert!(turns.by_prefix(&prefix("a", "Ho.")).is_none());
    }

    /// A turn that answers a question.
    fn answering(id: &str) -> Turn {
        let answer = Answer {
            clarification_id: "q".to_owned(),
            question: "Which?".to_owned(),
            given: Given::Declined,
            not_chosen: Vec::new(),
            beside: None,
        };
        Turn { answer: Some(Box::new(answer)), ..turn(id, 1) }
    }

    #[test]
    fn a_question_leads_to_the_turn_that_asked_and_to_the_one_that_answered() {
        let turns = TurnCache::default();
        let question = Question { clarification_id: "q".to_owned(), ..question() };
        let asked = Turn { questions: vec![question], ..turn("1", 1) };
        turns.put(keys("?"), prefix("a", "1"), asked);
        turns.put(keys("?"), prefix("a", "2"), answering("2"));
        let asking = |owner| turns.find(&by_question(owner, "q"));
        let answering = |owner| turns.find(&by_answer(owner, "q"));
        assert_eq!(asking("a").unwrap().turn_id, "1");
        assert_eq!(answering("a").unwrap().turn_id, "2");
        assert!(asking("b").is_none() && answering("b").is_none(), "another key's");
        turns.put(keys("?"), prefix("a", "3"), turn("3", TURN_CACHE_BYTES_MAX));
        assert!(asking("a").is_none() && answering("a").is_none());
    }

    /// In two sessions at the same time, too.
    #[test]
    fn a_question_is_answered_by_one_turn_at_a_time() {
        let turns = TurnCache::default();
        let question = QuestionKeys::of("a", "q");
        assert!(turns.claim(&question) && !turns.claim(&question));
        assert!(turns.claim(&QuestionKeys::of("b", "q")), "another key's");
        turns.release(&question.claim);
        assert!(turns.claim(&question), "it came to nothing");
        turns.put(keys("?"), prefix("a", "2"), answering("2"));
        turns.release(&question.claim);
        assert!(!turns.claim(&question));
    }

    #[test]
    fn a_question_that_was_dropped_is_closed() {
        let turns = TurnCache::default();
        let [question, theirs] = ["a", "b"].map(|owner| QuestionKeys::of(owner, "q"));
        assert!(turns.claim(&question));
        assert!(turns.is_closed(&question) && !turns.is_closed(&theirs));
        let drops = Some("q".to_owned());
        turns.put(TurnKeys { drops, ..keys("No.") }, prefix("a", "1"), turn("1", 1));
        turns.release(&question.claim);
        assert!(turns.is_closed(&question) && !turns.claim(&question));
        assert!(turns.find(&by_answer("a", "q")).is_none(), "nobody has answered it");
        assert!(turns.claim(&theirs), "another key's");
        turns.put(keys("?"), prefix("a", "2"), turn("2", TURN_CACHE_BYTES_MAX));
        assert!(!turns.is_closed(&question), "it is forgotten with its turn");
    }

    #[test]
    fn the_oldest_make_room() {
        let turns = TurnCache::default();
        let third = TURN_CACHE_BYTES_MAX / 3;
        for id in ["1", "2", "3"] {
            turns.put(keys("1"), prefix("a", id), turn(id, third));
        }
        assert!(turns.by_id("a", "1").is_none() && turns.by_prefix(&prefix("a", "1")).is_none());
        assert!(turns.by_id("a", "2").is_some() && turns.by_id("a", "3").is_some());
    }

    #[test]
    fn an_owner_with_many_turns_does_not_push_out_those_of_others() {
        let turns = TurnCache::default();
        let theirs = TurnKeys { owner: "b".to_owned(), ..keys("1") };
        turns.put(theirs, prefix("b", "0"), turn("theirs", 1));
        let third = TURN_CACHE_BYTES_MAX / 3;
        for id in ["1", "2", "3", "4"] {
            turns.put(keys("1"), prefix("a", id), turn(id, third));
            assert!(turns.bytes() <= TURN_CACHE_BYTES_MAX);
        }
        assert!(turns.by_id("b", "theirs").is_some());
        assert!(turns.by_id("a", "2").is_none() && turns.by_id("a", "4").is_some());
    }

    #[test]
    fn the_same_answer_again_is_kept_when_the_first_goes() {
        let turns = TurnCache::default();
        let third = TURN_CACHE_BYTES_MAX / 3;
        for id in ["1", "2", "3"] {
            turns.put(keys("1"), prefix("a", "Hi."), turn(id, third));
        }
        assert_eq!(turns.by_prefix(&prefix("a", "Hi.")).unwrap().turn_id, "3");
    }

    #[test]
    fn a_turn_is_found_by_its_prompt_in_a_conversation_that_has_a_name() {
        let turns = TurnCache::default();
        for (id, prompt) in [("1", "Hi."), ("2", "Ho."), ("3", "Hi.\n")] {
            turns.put(keys(prompt), prefix("a", id), turn(id, 1));
        }
        let found = |owner: &str, name: &str, prompt: &str| {
            let found = turns.find_all(&by_prompt(owner, name, prompt));
            found.iter().map(|turn| turn.turn_id.clone()).collect::<Vec<_>>()
        };
        assert_eq!(found("a", "c", "Hi."), ["3", "1"]);
        assert_eq!(found("a", "c", " Ho. "), ["2"]);
        for (owner, name) in [("b", "c"), ("a", "d")] {
            assert!(found(owner, name, "Hi.").is_empty(), "{owner} {name}");
        }
        for at in 0..=SAME_PROMPT_MAX {
            turns.put(keys("Hi."), prefix("a", &at.to_string()), turn(&format!("n{at}"), 1));
        }
        assert_eq!(found("a", "c", "Hi.").len(), SAME_PROMPT_MAX);
    }

    #[test]
    fn forgotten_turns_are_not_found_by_their_prompt() {
        let turns = TurnCache::default();
        let third = TURN_CACHE_BYTES_MAX / 3;
        for id in ["1", "2", "3", "4"] {
            turns.put(keys(id), prefix("a", id), turn(id, third));
        }
        for (id, is_kept) in [("1", false), ("2", false), ("3", true), ("4", true)] {
            let found = turns.find_all(&by_prompt("a", "c", id));
            assert_eq!(found.len(), usize::from(is_kept), "{id}");
        }
        assert_eq!(turns.inner.lock().by_key.len(), 6, "two turns have three keys each");
    }

    /// A store may return a turn that is older than those that are here, or one that is here.
    #[test]
    fn turns_are_in_the_order_in_which_they_began_and_each_is_there_once() {
        let turns = TurnCache::default();
        for (id, started_at_ms) in [("2", 2), ("3", 3), ("1", 1), ("3", 3)] {
            let turn = Turn { started_at_ms, ..turn(id, 1) };
            let keys = keys("Hi.").of(&[prefix("a", id)], &turn);
            turns.insert_recalled(of_owner("a"), keys, turn);
        }
        let found = turns.find_all(&by_prompt("a", "c", "Hi."));
        let ids: Vec<_> = found.iter().map(|turn| &*turn.turn_id).collect();
        assert_eq!(ids, ["3", "2", "1"]);
        let one = turns.inner.lock().owners[&of_owner("a")].turns[0].bytes;
        assert_eq!(turns.bytes(), 3 * one);
    }

    #[tokio::test(start_paused = true)]
    async fn turns_are_forgotten_in_time() {
        let turns = TurnCache::new(Some(Duration::from_secs(60)));
        turns.put(keys("Hi."), prefix("a", "1"), turn("1", 1));
        tokio::time::advance(Duration::from_secs(59)).await;
        assert!(turns.by_id("a", "1").is_some());
        tokio::time::advance(Duration::from_secs(1)).await;
        assert!(turns.by_id("a", "1").is_none());
        assert!(turns.find_all(&by_prompt("a", "c", "Hi.")).is_empty());
    }
}
