//! A cache of recent turns in full, for clients that keep the conversation themselves.
//!
//! Such a client sends back only what it saw: neither the calls to server tools nor their results.
//! Without those, the model forgets what it has looked up. So each turn is cached for a while, under
//! its id and under the hash of everything its client had seen by its end. A miss is harmless: the
//! conversation then goes on with the visible text alone.

use std::borrow::Borrow;
use std::collections::{HashMap, HashSet, VecDeque};
use std::hash::Hash;
use std::sync::Arc;

use parking_lot::Mutex;
use sha2::{Digest as _, Sha256};

use crate::conversation::Turn;
use crate::conversation::claimed::PrefixHash;
use crate::limits::session::{SAME_PROMPT_MAX, TURN_CACHE_BYTES_MAX};

/// See the module docs.
#[derive(Debug, Default)]
pub(crate) struct TurnCache(Mutex<Inner>);

#[derive(Debug, Default)]
struct Inner {
    by_id: HashMap<String, Arc<CachedTurn>>,
    by_prefix: HashMap<PrefixHash, Arc<CachedTurn>>,
    /// By the id of the question that they ended with.
    by_question: HashMap<String, Arc<CachedTurn>>,
    /// By the id of the question whose answer opened them.
    by_answer: HashMap<String, Arc<CachedTurn>>,
    /// By the id of the question that they have dropped.
    by_drop: HashMap<String, Arc<CachedTurn>>,
    /// The questions that running turns answer or drop, with their owners.
    being_closed: HashSet<(String, String)>,
    /// The turns of conversations that their clients name, the oldest first.
    by_prompt: HashMap<PromptKey, VecDeque<Arc<CachedTurn>>>,
    owners: HashMap<String, Share>,
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
    owner: String,
    prefixes: Vec<PrefixHash>,
    /// The key of its prompt, if its conversation has a name.
    prompt_key: Option<PromptKey>,
    /// The question that it has dropped.
    drops: Option<String>,
    turn: Arc<Turn>,
    bytes: usize,
}

impl TurnCache {
    /// Caches a turn of this owner. By its end, the client had seen one of `prefixes`. The oldest
    /// turns of the owner who has the most are evicted to make room for it.
    pub(crate) fn insert(&self, keys: TurnKeys, prefixes: Vec<PrefixHash>, turn: Turn) {
        let TurnKeys { owner, conversation, prompt, drops } = keys;
        let prompt_key = conversation.map(|name| PromptKey::of(&owner, &name, &prompt));
        let texts = owner.len() + drops.as_deref().map_or(0, str::len);
        let bytes = turn.bytes() + texts + size_of::<CachedTurn>();
        let turn = Arc::new(turn);
        let cached = Arc::new(CachedTurn { owner, prefixes, prompt_key, drops, turn, bytes });
        let mut inner = self.0.lock();
        let id = cached.turn.turn_id.clone();
        inner.by_id.insert(id, Arc::clone(&cached));
        for prefix in &cached.prefixes {
            inner.by_prefix.insert(*prefix, Arc::clone(&cached));
        }
        if let Some(id) = cached.asks() {
            inner.by_question.insert(id.to_owned(), Arc::clone(&cached));
        }
        if let Some(id) = cached.answers() {
            inner.by_answer.insert(id.to_owned(), Arc::clone(&cached));
        }
        if let Some(id) = &cached.drops {
            inner.by_drop.insert(id.clone(), Arc::clone(&cached));
        }
        if let Some(key) = cached.prompt_key {
            inner.by_prompt.entry(key).or_default().push_back(Arc::clone(&cached));
        }
        let share = inner.owners.entry(cached.owner.clone()).or_default();
        share.turns.push_back(cached);
        share.bytes += bytes;
        inner.bytes += bytes;
        while inner.bytes > TURN_CACHE_BYTES_MAX {
            inner.evict();
        }
    }

    /// The memory that they take.
    pub(crate) fn bytes(&self) -> usize {
        self.0.lock().bytes
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

    /// Whether this owner's question has been answered or dropped, or a running turn does so.
    pub(crate) fn is_closed(&self, owner: &str, clarification_id: &str) -> bool {
        let inner = self.0.lock();
        inner.has_closed(owner, clarification_id)
            || inner.being_closed.contains(&(owner.to_owned(), clarification_id.to_owned()))
    }

    /// The right to answer or drop this owner's question, which only one turn gets. `None` if the
    /// question [is closed](Self::is_closed).
    pub(crate) fn close(
        cache: &Arc<Self>,
        owner: &str,
        clarification_id: &str,
    ) -> Option<ClosingQuestion> {
        let mut inner = cache.0.lock();
        let question = (owner.to_owned(), clarification_id.to_owned());
        if inner.has_closed(owner, clarification_id) || !inner.being_closed.insert(question.clone())
        {
            return None;
        }
        Some(ClosingQuestion { cache: Arc::clone(cache), question })
    }

    /// The turns that began with this prompt, in the conversation that this owner calls so: the
    /// newest first, at most [`SAME_PROMPT_MAX`].
    pub(crate) fn by_prompt(&self, owner: &str, name: &str, prompt: &str) -> Vec<Arc<Turn>> {
        let inner = self.0.lock();
        let Some(turns) = inner.by_prompt.get(&PromptKey::of(owner, name, prompt)) else {
            return Vec::new();
        };
        turns.iter().rev().take(SAME_PROMPT_MAX).map(|it| Arc::clone(&it.turn)).collect()
    }

    /// The turn at whose end its client had seen exactly this. The hash includes the owner.
    pub(crate) fn by_prefix(&self, prefix: &PrefixHash) -> Option<Arc<Turn>> {
        Some(Arc::clone(&self.0.lock().by_prefix.get(prefix)?.turn))
    }
}

/// A hash of an owner, the name of a conversation, and the prompt of a turn in it. A history of
/// thousands of prompts costs one look each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct PromptKey([u8; 32]);

impl PromptKey {
    /// White space around the prompt does not count.
    fn of(owner: &str, name: &str, prompt: &str) -> Self {
        let mut hash = Sha256::new();
        for text in [owner, name, prompt.trim()] {
            hash.update(text.len().to_be_bytes());
            hash.update(text);
        }
        Self(hash.finalize().into())
    }
}

/// The right to answer or drop a question. Dropping this returns it.
#[derive(Debug)]
pub(crate) struct ClosingQuestion {
    cache: Arc<TurnCache>,
    question: (String, String),
}

impl Drop for ClosingQuestion {
    fn drop(&mut self) {
        self.cache.0.lock().being_closed.remove(&self.question);
    }
}

/// What a turn can be found by, apart from its id and its prefix hashes.
#[derive(Debug)]
pub(crate) struct TurnKeys {
    /// Whose it is.
    pub(crate) owner: String,
    /// The name that the client gives to the conversation.
    pub(crate) conversation: Option<String>,
    /// What the client said to begin the turn.
    pub(crate) prompt: String,
    /// The question that the turn has dropped, if its client asked for that.
    pub(crate) drops: Option<String>,
}

impl CachedTurn {
    fn asks(&self) -> Option<&str> {
        self.turn.questions.first().map(|question| &*question.clarification_id)
    }

    fn answers(&self) -> Option<&str> {
        self.turn.answer.as_deref().map(|answer| &*answer.clarification_id)
    }
}

fn find(turns: &HashMap<String, Arc<CachedTurn>>, owner: &str, id: &str) -> Option<Arc<Turn>> {
    let found = turns.get(id).filter(|found| found.owner == owner)?;
    Some(Arc::clone(&found.turn))
}

impl Inner {
    fn has_closed(&self, owner: &str, clarification_id: &str) -> bool {
        let mut closing = [&self.by_answer, &self.by_drop].into_iter();
        closing.any(|turns| find(turns, owner, clarification_id).is_some())
    }

    /// Forgets the oldest turn of the owner whose turns take the most.
    fn evict(&mut self) {
        let most = self.owners.values_mut().max_by_key(|share| share.bytes);
        let Some((share, oldest)) = most.and_then(|it| it.turns.pop_front().map(|old| (it, old)))
        else {
            return;
        };
        share.bytes -= oldest.bytes;
        self.bytes -= oldest.bytes;
        if share.turns.is_empty() {
            self.owners.remove(&oldest.owner);
        }
        self.by_id.remove(&oldest.turn.turn_id);
        // Later turns may have the same prefix, and the same question: asked and answered again.
        for prefix in &oldest.prefixes {
            remove(&mut self.by_prefix, prefix, &oldest);
        }
        if let Some(id) = oldest.asks() {
            remove(&mut self.by_question, id, &oldest);
        }
        if let Some(id) = oldest.answers() {
            remove(&mut self.by_answer, id, &oldest);
        }
        if let Some(id) = &oldest.drops {
            remove(&mut self.by_drop, id, &oldest);
        }
        // Those with one prompt are evicted in the order in which they came.
        let Some(key) = oldest.prompt_key else { return };
        if let Some(turns) = self.by_prompt.get_mut(&key) {
            turns.pop_front();
            if turns.is_empty() {
                self.by_prompt.remove(&key);
            }
        }
    }
}

/// Removes a turn, unless a later one has taken its place.
fn remove<K, Q>(turns: &mut HashMap<K, Arc<CachedTurn>>, key: &Q, oldest: &Arc<CachedTurn>)
where
    K: Borrow<Q> + Eq + Hash,
    Q: Eq + Hash + ?Sized,
{
    if turns.get(key).is_some_and(|current| Arc::ptr_eq(current, oldest)) {
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

    fn keys(prompt: &str) -> TurnKeys {
        let conversation = Some("c".to_owned());
        TurnKeys { owner: "a".to_owned(), conversation, prompt: prompt.to_owned(), drops: None }
    }

    fn prefix(owner: &str, said: &str) -> PrefixHash {
        PrefixHash::begin(owner).then("assistant", said)
    }

    #[test]
    fn a_turn_is_found_by_its_id_and_by_what_was_seen() {
        let turns = TurnCache::default();
        turns.insert(keys("1"), vec![prefix("a", "Hi.")], turn("t", 1));
        assert_eq!(turns.by_id("a", "t").unwrap().turn_id, "t");
        assert_eq!(turns.by_prefix(&prefix("a", "Hi.")).unwrap().turn_id, "t");
        assert!(turns.by_id("b", "t").is_none(), "another key's");
        assert!(turns.by_prefix(&prefix("b", "Hi.")).is_none(), "another key's");
        assert!(turns.by_prefix(&prefix("a", "Ho.")).is_none());
    }

    #[test]
    fn a_question_leads_to_the_turn_that_asked_and_to_the_one_that_answered() {
        let turns = TurnCache::default();
        let question = Question { clarification_id: "q".to_owned(), ..question() };
        let asked = Turn { questions: vec![question], ..turn("1", 1) };
        let answer = Answer {
            clarification_id: "q".to_owned(),
            question: "Which?".to_owned(),
            given: Given::Declined,
            not_chosen: Vec::new(),
            beside: None,
        };
        let answered = Turn { answer: Some(Box::new(answer)), ..turn("2", 1) };
        turns.insert(keys("?"), vec![prefix("a", "1")], asked);
        turns.insert(keys("?"), vec![prefix("a", "2")], answered);
        assert_eq!(turns.by_question("a", "q").unwrap().turn_id, "1");
        assert_eq!(turns.by_answer("a", "q").unwrap().turn_id, "2");
        assert!(turns.by_question("b", "q").is_none(), "another key's");
        assert!(turns.by_answer("b", "q").is_none(), "another key's");
        turns.insert(keys("?"), vec![prefix("a", "3")], turn("3", TURN_CACHE_BYTES_MAX));
        assert!(turns.by_question("a", "q").is_none() && turns.by_answer("a", "q").is_none());
    }

    /// In two sessions at the same time, too.
    #[test]
    fn a_question_is_answered_by_one_turn_at_a_time() {
        let turns = Arc::new(TurnCache::default());
        let answer = |owner| TurnCache::close(&turns, owner, "q");
        let first = answer("a");
        assert!(first.is_some() && answer("a").is_none());
        assert!(answer("b").is_some(), "another key's");
        drop(first);
        assert!(answer("a").is_some(), "it came to nothing");
        let given = Answer {
            clarification_id: "q".to_owned(),
            question: "Which?".to_owned(),
            given: Given::Declined,
            not_chosen: Vec::new(),
            beside: None,
        };
        let answered = Turn { answer: Some(Box::new(given)), ..turn("2", 1) };
        turns.insert(keys("?"), vec![prefix("a", "2")], answered);
        assert!(answer("a").is_none());
    }

    #[test]
    fn a_question_that_was_dropped_is_closed() {
        let turns = Arc::new(TurnCache::default());
        let close = |owner| TurnCache::close(&turns, owner, "q");
        let dropping = close("a");
        assert!(turns.is_closed("a", "q") && !turns.is_closed("b", "q"));
        let drops = Some("q".to_owned());
        turns.insert(TurnKeys { drops, ..keys("No.") }, vec![prefix("a", "1")], turn("1", 1));
        drop(dropping);
        assert!(turns.is_closed("a", "q") && close("a").is_none());
        assert!(turns.by_answer("a", "q").is_none(), "nobody has answered it");
        assert!(close("b").is_some(), "another key's");
        turns.insert(keys("?"), vec![prefix("a", "2")], turn("2", TURN_CACHE_BYTES_MAX));
        assert!(!turns.is_closed("a", "q"), "it is forgotten with its turn");
    }

    #[test]
    fn the_oldest_make_room() {
        let turns = TurnCache::default();
        let third = TURN_CACHE_BYTES_MAX / 3;
        for id in ["1", "2", "3"] {
            turns.insert(keys("1"), vec![prefix("a", id)], turn(id, third));
        }
        assert!(turns.by_id("a", "1").is_none() && turns.by_prefix(&prefix("a", "1")).is_none());
        assert!(turns.by_id("a", "2").is_some() && turns.by_id("a", "3").is_some());
    }

    #[test]
    fn an_owner_with_many_turns_does_not_push_out_those_of_others() {
        let turns = TurnCache::default();
        let theirs = TurnKeys { owner: "b".to_owned(), ..keys("1") };
        turns.insert(theirs, vec![prefix("b", "0")], turn("theirs", 1));
        let third = TURN_CACHE_BYTES_MAX / 3;
        for id in ["1", "2", "3", "4"] {
            turns.insert(keys("1"), vec![prefix("a", id)], turn(id, third));
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
            turns.insert(keys("1"), vec![prefix("a", "Hi.")], turn(id, third));
        }
        assert_eq!(turns.by_prefix(&prefix("a", "Hi.")).unwrap().turn_id, "3");
    }

    #[test]
    fn a_turn_is_found_by_its_prompt_in_a_conversation_that_has_a_name() {
        let turns = TurnCache::default();
        for (id, prompt) in [("1", "Hi."), ("2", "Ho."), ("3", "Hi.\n")] {
            turns.insert(keys(prompt), vec![prefix("a", id)], turn(id, 1));
        }
        let found = |owner: &str, name: &str, prompt: &str| {
            let found = turns.by_prompt(owner, name, prompt);
            found.iter().map(|turn| turn.turn_id.clone()).collect::<Vec<_>>()
        };
        assert_eq!(found("a", "c", "Hi."), ["3", "1"]);
        assert_eq!(found("a", "c", " Ho. "), ["2"]);
        for (owner, name) in [("b", "c"), ("a", "d")] {
            assert!(found(owner, name, "Hi.").is_empty(), "{owner} {name}");
        }
        for at in 0..=SAME_PROMPT_MAX {
            turns.insert(
                keys("Hi."),
                vec![prefix("a", &at.to_string())],
                turn(&format!("n{at}"), 1),
            );
        }
        assert_eq!(found("a", "c", "Hi.").len(), SAME_PROMPT_MAX);
    }

    #[test]
    fn forgotten_turns_are_not_found_by_their_prompt() {
        let turns = TurnCache::default();
        let third = TURN_CACHE_BYTES_MAX / 3;
        for id in ["1", "2", "3", "4"] {
            turns.insert(keys(id), vec![prefix("a", id)], turn(id, third));
        }
        for (id, is_kept) in [("1", false), ("2", false), ("3", true), ("4", true)] {
            assert_eq!(turns.by_prompt("a", "c", id).len(), usize::from(is_kept), "{id}");
        }
        assert_eq!(turns.0.lock().by_prompt.values().map(VecDeque::len).sum::<usize>(), 2);
    }
}
