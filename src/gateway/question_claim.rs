//! The claim of a question: only the turn that has it may answer or drop the question, on any node.
//!
//! A call that was approved once must not run twice. So a claim outlives its node once such a call may have
//! begun: nobody knows what that call has done. Otherwise it lapses with its node, and the question can be
//! answered again.

use std::sync::Arc;

use tokio::runtime::Handle;
use tokio::task::JoinHandle;
use tokio::time::sleep;
use tracing::debug;
use uuid::Uuid;

use super::recent_turns::RecentTurns;
use super::turn_cache::{self, QuestionKeys};
use crate::conversation::{Answer, Question};
use crate::session::store::{ClaimTerm, EntryClaim, EntryOwner, StoreError};
use crate::tools::Continuation;

/// See the module docs. Dropping this releases the claim, unless the turn has [begun](Self::begin) and the
/// question's call may have run.
#[derive(Debug)]
pub(super) struct QuestionClaim {
    turns: Arc<RecentTurns>,
    owner: EntryOwner,
    claim: EntryClaim,
    /// Renews it again and again, if it would lapse otherwise.
    renewal: Option<JoinHandle<()>>,
    /// Whether it is released when this is dropped.
    is_released: bool,
}

impl QuestionClaim {
    /// Claims a question; `None` if it is closed.
    ///
    /// # Errors
    /// If the store cannot tell. The question is not claimed then.
    pub(super) async fn acquire(
        turns: &Arc<RecentTurns>,
        owner: &str,
        clarification_id: &str,
        term: ClaimTerm,
    ) -> Result<Option<Self>, StoreError> {
        let question = QuestionKeys::of(owner, clarification_id);
        if !turns.cache.claim(&question) {
            return Ok(None);
        }
        let holder = Uuid::new_v4().as_u64_pair().1 >> 1;
        let claim = EntryClaim { key: question.claim, holder, term };
        let mut acquired = Self::of(turns, owner, claim);
        if turns.is_stored && !turns.store.acquire_claim(acquired.owner, claim).await? {
            // It is somebody else's there.
            return Ok(None);
        }
        acquired.renew(false);
        Ok(Some(acquired))
    }

    /// Goes on with a claim that another node had, for a turn that it has left.
    pub(super) fn take_over(turns: &Arc<RecentTurns>, owner: &str, claim: EntryClaim) -> Self {
        let mut taken_over = Self::of(turns, owner, claim);
        taken_over.renew(true);
        taken_over.begin();
        taken_over
    }

    fn of(turns: &Arc<RecentTurns>, owner: &str, claim: EntryClaim) -> Self {
        let owner = turn_cache::of_owner(owner);
        Self { turns: Arc::clone(turns), owner, claim, renewal: None, is_released: true }
    }

    /// What the store knows of it; `None` if it keeps nothing.
    pub(super) fn stored(&self) -> Option<EntryClaim> {
        self.turns.is_stored.then_some(self.claim)
    }

    /// The turn begins, and the call with it.
    pub(super) fn begin(&mut self) {
        self.is_released = self.claim.term == ClaimTerm::Lease;
    }

    /// Leaves the claim to whoever goes on with the turn, or to the turn's end.
    pub(super) fn leave(&mut self) {
        self.is_released = false;
    }

    fn renew(&mut self, at_once: bool) {
        let store = &self.turns.store;
        let is_renewed = self.claim.term == ClaimTerm::Lease && self.turns.is_stored;
        let Some(time) = store.lease_time().filter(|_| is_renewed) else { return };
        let (store, owner, claim) = (Arc::clone(store), self.owner, self.claim);
        self.renewal = Some(tokio::spawn(async move {
            if !at_once {
                sleep(time / 3).await;
            }
            loop {
                if let Err(error) = store.acquire_claim(owner, claim).await {
                    debug!(%error, "the claim of a question was not renewed");
                }
                sleep(time / 3).await;
            }
        }));
    }
}

impl Drop for QuestionClaim {
    fn drop(&mut self) {
        if let Some(renewal) = self.renewal.take() {
            renewal.abort();
        }
        self.turns.cache.release(&self.claim.key);
        let Some(claim) = self.stored().filter(|_| self.is_released) else { return };
        let (turns, owner) = (Arc::clone(&self.turns), self.owner);
        let Ok(runtime) = Handle::try_current() else { return };
        runtime.spawn(async move {
            if let Err(error) = turns.store.release_claim(owner, claim).await {
                debug!(%error, "the claim of a question was not released");
            }
        });
    }
}

/// How long the claim for this answer to a question lasts: an answer that runs the question's call is the last
/// one.
pub(super) fn term(asked: &Question, answer: &Answer) -> ClaimTerm {
    match asked.continuation {
        Continuation::Approval { .. } if answer.given.is_no() => ClaimTerm::Lease,
        Continuation::Model => ClaimTerm::Lease,
        Continuation::Approval { .. } | Continuation::Again { .. } | Continuation::Open => {
            ClaimTerm::Lasting
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;
    use std::time::Duration;

    use super::*;
    use crate::limits::session::TTL;
    use crate::session::store::{
        MemoryStore, RedisAddress, RedisOptions, RedisStore, SqliteStore, Store, SyncMode,
    };

    async fn acquire(turns: &Arc<RecentTurns>, owner: &str) -> Option<QuestionClaim> {
        QuestionClaim::acquire(turns, owner, "q", ClaimTerm::Lasting).await.unwrap()
    }

    /// Waits until the claim of a question is released.
    async fn acquired(turns: &Arc<RecentTurns>) -> QuestionClaim {
        loop {
            if let Some(claim) = acquire(turns, "a").await {
                return claim;
            }
            tokio::task::yield_now().await;
        }
    }

    #[tokio::test]
    async fn a_question_is_closed_by_one_turn_at_a_time() {
        let directory = tempfile::tempdir().unwrap();
        let path: PathBuf = directory.path().join("tether.db");
        let stores: [Arc<dyn Store>; 2] = [
            Arc::new(MemoryStore::new(TTL)),
            Arc::new(SqliteStore::open(&path, SyncMode::Normal, TTL).unwrap()),
        ];
        for store in stores {
            let turns = Arc::new(RecentTurns::new(store));
            let first = acquire(&turns, "a").await;
            assert!(first.is_some() && acquire(&turns, "a").await.is_none());
            assert!(turns.is_closed("a", "q").await.unwrap());
            assert!(acquire(&turns, "b").await.is_some(), "another key's");
            drop(first);
            drop(acquired(&turns).await);
        }
    }

    /// What it has done is unknown.
    #[tokio::test]
    async fn a_call_that_may_have_run_is_not_approved_again() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("tether.db");
        let store = Arc::new(SqliteStore::open(&path, SyncMode::Normal, TTL).unwrap());
        let turns = Arc::new(RecentTurns::new(store));
        let mut claim = acquired(&turns).await;
        claim.begin();
        drop(claim);
        tokio::task::yield_now().await;
        assert!(acquire(&turns, "a").await.is_none());
        assert!(turns.is_closed("a", "q").await.unwrap());
    }

    #[tokio::test]
    async fn nobody_closes_a_question_without_the_store() {
        let store = RedisStore::new(RedisOptions {
            address: RedisAddress::new("unix:///nowhere", "", None).unwrap(),
            prefix: String::new(),
            connect_timeout: Duration::from_millis(10),
            lease: TTL,
            wait: Duration::from_millis(10),
            ttl: TTL,
        });
        let turns = Arc::new(RecentTurns::new(Arc::new(store)));
        for _ in 0..2 {
            QuestionClaim::acquire(&turns, "a", "q", ClaimTerm::Lease).await.unwrap_err();
        }
        turns.is_closed("a", "q").await.unwrap_err();
        assert!(!turns.lookup("a").recall().await, "a lookup is harmless");
    }
}
