//! Recent turns in full, and which questions are closed: in this process, and in a store that outlives
//! it, where other nodes find them.
//!
//! ```text
//!   a turn ends ─────> cache and store
//!   a request ──> cache ──> what it lacks is asked of the store, and cached ──> the request again
//! ```
//! A turn that is not found is a miss, whatever the reason: see [`turn_cache`](super::turn_cache). But only
//! one turn may close a question, so that is decided in the store.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::timeout;
use tracing::debug;

use super::turn_cache::TurnCache;
use super::turn_keys::{self, QuestionKeys, TurnKeys};
use crate::conversation::Turn;
use crate::conversation::claimed::PrefixHash;
use crate::limits::session as limits;
use crate::session::record::turn as record;
use crate::session::store::{
    Entry, EntryClaim, EntryKey, EntryOwner, FoundEntries, Store, StoreError, StoreFuture,
};
use crate::session::{off_worker, patiently};

/// See the module docs.
#[derive(Debug)]
pub(crate) struct RecentTurns {
    cache: TurnCache,
    /// `None` if the store keeps no turns.
    store: Option<Arc<dyn Store>>,
}

/// A turn that has ended.
pub(super) struct FinishedTurn {
    pub(super) turn: Turn,
    pub(super) keys: TurnKeys,
    /// By its end, the client had seen one of these.
    pub(super) prefixes: Vec<PrefixHash>,
    /// The epoch of its session.
    pub(super) epoch: u64,
}

impl RecentTurns {
    pub(super) fn new(store: Arc<dyn Store>) -> Self {
        let ttl = store.entry_time();
        Self { cache: TurnCache::new(ttl), store: ttl.map(|_| store) }
    }

    /// The memory that the cached ones take.
    pub(super) fn bytes(&self) -> usize {
        self.cache.bytes()
    }

    /// Keeps a turn, and confirms the claim of its question. If the store does not take the turn, it is
    /// found on this node alone.
    pub(super) async fn keep(&self, ended: FinishedTurn, confirms: Option<EntryClaim>) {
        let FinishedTurn { turn, keys, prefixes, epoch } = ended;
        let owner = turn_keys::of_owner(&keys.owner);
        let keys = keys.of(&prefixes, &turn);
        let Some(store) = &self.store else { return self.cache.insert(owner, keys, turn) };
        let length = turn.bytes();
        let (turn, json) = off_worker(length, move || {
            let json = record::write(&turn);
            (turn, json)
        })
        .await;
        let entry = Entry { keys: keys.clone(), epoch, bytes: json.into() };
        // An answer to a question must not count twice. Any other turn ends at once: its client sends the conversation
        // again.
        let keep = || store.keep_entry(owner, entry.clone(), confirms);
        let kept = match confirms {
            Some(_) => patiently(store.wait(), keep).await,
            None => ask(store, |_| keep()).await,
        };
        match kept {
            // Another gateway has gone on with the turn.
            Ok(false) => return,
            Ok(true) => {}
            Err(error) => debug!(%error, "a recent turn was not stored"),
        }
        self.cache.insert(owner, keys, turn);
    }

    /// What a request of this owner finds.
    pub(super) fn lookup(self: &Arc<Self>, owner: &str) -> RecentLookup {
        RecentLookup {
            turns: Arc::clone(self),
            owner: owner.to_owned(),
            asked: HashSet::new(),
            missed: Vec::new(),
            closed: HashSet::new(),
            times: 0,
        }
    }

    /// Whether a question has been answered or dropped, or a running turn of any node is about to do so.
    ///
    /// # Errors
    /// If the store cannot tell.
    pub(super) async fn is_closed(&self, owner: &str, id: &str) -> Result<bool, StoreError> {
        let question = QuestionKeys::of(owner, id);
        if self.cache.is_closed(&question) {
            return Ok(true);
        }
        let Some(store) = &self.store else { return Ok(false) };
        let owner = turn_keys::of_owner(owner);
        let found = ask(store, |store| store.entries(owner, vec![question.claim])).await?;
        Ok(!found.claimed.is_empty())
    }

    /// Claims a question for a turn of this process. False if it is closed, as far as this process knows.
    pub(super) fn claim_here(&self, question: &QuestionKeys) -> bool {
        self.cache.claim(question)
    }

    /// Releases what [`claim_here`](Self::claim_here) claimed.
    pub(super) fn release_here(&self, claim: &EntryKey) {
        self.cache.release(claim);
    }

    /// Acquires or renews a claim in the store, if that keeps claims. False if somebody else has it.
    ///
    /// # Errors
    /// If the store cannot tell. It may have the claim.
    pub(super) async fn acquire_claim(
        &self,
        owner: EntryOwner,
        claim: EntryClaim,
    ) -> Result<bool, StoreError> {
        let Some(store) = &self.store else { return Ok(true) };
        ask(store, |store| store.acquire_claim(owner, claim)).await
    }

    /// Releases a claim in the store.
    pub(super) async fn release_claim(&self, owner: EntryOwner, claim: EntryClaim) {
        let Some(store) = &self.store else { return };
        let release = || store.release_claim(owner, claim);
        if let Err(error) = patiently(store.wait(), release).await {
            debug!(%error, "the claim of a question was not released");
        }
    }

    /// How long a claim lasts unless it is renewed; `None` if claims need no renewal.
    pub(super) fn claim_time(&self) -> Option<Duration> {
        self.store.as_ref()?.lease_time()
    }

    /// Whether the store keeps turns and claims.
    pub(super) const fn is_stored(&self) -> bool {
        self.store.is_some()
    }

    /// Asks the store, and caches the turns that it has. Those that cannot be read are not found.
    async fn recall(&self, owner: &str, keys: Vec<EntryKey>) -> Result<Recalled, StoreError> {
        let Some(store) = &self.store else { return Ok(Recalled::default()) };
        let owner = turn_keys::of_owner(owner);
        let FoundEntries { entries, claimed } =
            ask(store, |store| store.entries(owner, keys)).await?;
        let mut turns = 0;
        for Entry { keys, bytes, .. } in entries {
            match off_worker(bytes.len(), move || record::read(&bytes)).await {
                Ok(turn) => {
                    self.cache.insert_recalled(owner, keys, turn);
                    turns += 1;
                }
                // A newer gateway has written it. This one knows only what the client tells.
                Err(error) => debug!(%error, "a recent turn cannot be read"),
            }
        }
        Ok(Recalled { turns, claimed })
    }
}

/// What the store knew.
#[derive(Debug, Default)]
struct Recalled {
    /// How many turns, which are now cached.
    turns: usize,
    /// Which of the keys are claimed.
    claimed: Vec<EntryKey>,
}

/// Asks the store, and gives up after the time for which a running turn waits.
async fn ask<'s, T>(
    store: &'s Arc<dyn Store>,
    request: impl FnOnce(&'s dyn Store) -> StoreFuture<'s, T>,
) -> Result<T, StoreError> {
    match timeout(store.wait(), request(&**store)).await {
        Ok(answer) => answer,
        Err(_) => Err(StoreError::Unavailable("no answer in time".to_owned())),
    }
}

/// Finds the recent turns of one owner for one request, and notes what only the store may know.
#[derive(Debug)]
pub(crate) struct RecentLookup {
    turns: Arc<RecentTurns>,
    owner: String,
    /// What the store was asked for.
    asked: HashSet<EntryKey>,
    /// What to ask the store for, in the order of the lookups.
    missed: Vec<EntryKey>,
    /// The questions that are closed on any node.
    closed: HashSet<EntryKey>,
    /// How often the store was asked.
    times: u32,
}

impl RecentLookup {
    /// The turn with this id.
    pub(crate) fn by_id(&mut self, turn_id: &str) -> Option<Arc<Turn>> {
        self.find(turn_keys::by_id(&self.owner, turn_id))
    }

    /// The turn at whose end its client had seen exactly this.
    pub(crate) fn by_prefix(&mut self, prefix: &PrefixHash) -> Option<Arc<Turn>> {
        self.find(turn_keys::by_prefix(prefix))
    }

    /// The turn that ended with this question.
    pub(crate) fn by_question(&mut self, clarification_id: &str) -> Option<Arc<Turn>> {
        self.find(turn_keys::by_question(&self.owner, clarification_id))
    }

    /// The turn that an answer to this question opened.
    pub(crate) fn by_answer(&mut self, clarification_id: &str) -> Option<Arc<Turn>> {
        self.find(turn_keys::by_answer(&self.owner, clarification_id))
    }

    /// The turns that began with this prompt, in the owner's conversation of this name: a few, the newest first.
    pub(crate) fn by_prompt(&mut self, name: &str, prompt: &str) -> Vec<Arc<Turn>> {
        let key = turn_keys::by_prompt(&self.owner, name, prompt);
        // Other nodes may know more of them. A request comes to this only after it has missed something
        // else, so the store is not asked for this alone.
        self.note_missed(key);
        self.turns.cache.find_all(&key)
    }

    /// Whether a question has been answered or dropped, or a running turn does so.
    pub(crate) fn is_closed(&mut self, clarification_id: &str) -> bool {
        let question = QuestionKeys::of(&self.owner, clarification_id);
        if self.closed.contains(&question.claim) || self.turns.cache.is_closed(&question) {
            return true;
        }
        self.note_missed(question.claim);
        false
    }

    fn find(&mut self, key: EntryKey) -> Option<Arc<Turn>> {
        let found = self.turns.cache.find(&key);
        if found.is_none() {
            self.note_missed(key);
        }
        found
    }

    fn note_missed(&mut self, key: EntryKey) {
        if self.turns.is_stored() && self.asked.insert(key) {
            self.missed.push(key);
        }
    }

    /// Asks the store for what was missed. True if the same request would now find more.
    pub(crate) async fn recall(&mut self) -> bool {
        let mut keys = std::mem::take(&mut self.missed);
        if keys.is_empty() || self.times == limits::ENTRY_LOOKUPS_MAX {
            return false;
        }
        self.times += 1;
        // The end of a conversation matters most.
        keys.reverse();
        keys.truncate(limits::ENTRY_KEYS_ASKED_MAX);
        match self.turns.recall(&self.owner, keys).await {
            Ok(Recalled { turns, claimed }) => {
                let is_found = turns > 0 || !claimed.is_empty();
                self.closed.extend(claimed);
                is_found
            }
            Err(error) => {
                debug!(%error, "recent turns were not looked for");
                false
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::super::tests::claim_store::ClaimStore;
    use super::*;
    use crate::limits::session::TTL;
    use crate::session::store::{ClaimTerm, MemoryStore, SqliteStore, SyncMode};

    fn of_file(path: &Path) -> Arc<RecentTurns> {
        let store = SqliteStore::open(path, SyncMode::Normal, TTL).unwrap();
        Arc::new(RecentTurns::new(Arc::new(store)))
    }

    fn ended(id: &str, epoch: u64, prompt: &str) -> FinishedTurn {
        let turn = Turn { turn_id: id.to_owned(), prompt: prompt.to_owned(), ..Turn::default() };
        let prompt = Some(turn_keys::by_prompt("a", "c", "Hi."));
        let keys = TurnKeys { owner: "a".to_owned(), prompt, drops: Some("q".to_owned()) };
        FinishedTurn { turn, keys, prefixes: vec![prefix(id)], epoch }
    }

    fn prefix(id: &str) -> PrefixHash {
        PrefixHash::begin("a").then("assistant", id)
    }

    #[tokio::test]
    async fn the_store_is_not_asked_for_what_this_process_knows() {
        let directory = tempfile::tempdir().unwrap();
        let stored = of_file(&directory.path().join("tether.db"));
        let in_memory = Arc::new(RecentTurns::new(Arc::new(MemoryStore::new(TTL))));
        for turns in [&stored, &in_memory] {
            turns.keep(ended("t", 1, "Hi."), None).await;
            let mut lookup = turns.lookup("a");
            assert!(lookup.by_id("t").is_some() && lookup.by_prefix(&prefix("t")).is_some());
            assert!(lookup.is_closed("q"));
            assert!(lookup.missed.is_empty());
        }
        let mut lookup = in_memory.lookup("a");
        assert!(lookup.by_id("other").is_none() && lookup.by_prompt("c", "Ho.").is_empty());
        assert!(lookup.missed.is_empty(), "nobody else knows more");
    }

    #[tokio::test]
    async fn what_the_cache_lacks_is_asked_once_and_then_known() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("tether.db");
        let turns = of_file(&path);
        turns.keep(ended("t", 1, "Hi."), None).await;
        drop(turns);
        let turns = of_file(&path);
        let mut lookup = turns.lookup("a");
        assert!(lookup.by_prefix(&prefix("t")).is_none() && lookup.by_id("gone").is_none());
        assert!(lookup.recall().await);
        assert_eq!(lookup.by_prefix(&prefix("t")).unwrap().turn_id, "t");
        assert_eq!(lookup.by_id("t").unwrap().prompt, "Hi.");
        assert_eq!(lookup.by_prompt("c", "Hi.").len(), 1);
        assert!(lookup.by_id("gone").is_none(), "it is not asked for again");
        assert_eq!(lookup.missed.len(), 1, "other nodes may know more of that prompt");
        let mut theirs = turns.lookup("b");
        assert!(theirs.by_id("t").is_none() && !theirs.recall().await);
    }

    /// Whoever lost the turn to another gateway does not keep what became of it here.
    #[tokio::test]
    async fn a_turn_that_others_have_gone_on_with_is_theirs() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("tether.db");
        let turns = of_file(&path);
        turns.keep(ended("t", 2, "theirs"), None).await;
        drop(turns);
        let turns = of_file(&path);
        turns.keep(ended("t", 1, "ours"), None).await;
        let mut lookup = turns.lookup("a");
        assert!(lookup.by_id("t").is_none());
        assert!(lookup.recall().await);
        assert_eq!(lookup.by_id("t").unwrap().prompt, "theirs");
    }

    /// As in an upgrade, in which a newer gateway runs already.
    #[tokio::test]
    async fn a_turn_of_a_newer_format_is_a_miss() {
        let directory = tempfile::tempdir().unwrap();
        let turns = of_file(&directory.path().join("tether.db"));
        let key = turn_keys::by_id("a", "t");
        let json = record::write(&Turn::default()).replacen("\"version\":", "\"version\":9", 1);
        let entry = Entry { keys: vec![key], epoch: 1, bytes: json.into() };
        let store = turns.store.as_ref().unwrap();
        store.keep_entry(turn_keys::of_owner("a"), entry, None).await.unwrap();
        let mut lookup = turns.lookup("a");
        assert!(lookup.by_id("t").is_none());
        assert!(!lookup.recall().await, "the request would find no more");
        assert!(lookup.by_id("t").is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn a_store_that_hangs_is_given_up() {
        let store = Arc::new(ClaimStore::default());
        let turns = Arc::new(RecentTurns::new(Arc::clone(&store) as Arc<dyn Store>));
        store.hang();
        turns.is_closed("a", "q").await.unwrap_err();
        let mut lookup = turns.lookup("a");
        assert!(lookup.by_id("t").is_none() && !lookup.recall().await);
        let claim = EntryClaim { key: EntryKey::of(&["q"]), holder: 1, term: ClaimTerm::Lease };
        turns.acquire_claim(turn_keys::of_owner("a"), claim).await.unwrap_err();
        turns.keep(ended("t", 1, "Hi."), None).await;
        assert!(turns.lookup("a").by_id("t").is_some(), "it is found on this node");
    }
}
