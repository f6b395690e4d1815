//! The right to answer or drop a question, which only one turn gets, on any node.
//!
//! A call that was approved once must not run twice. So the right outlives its node once such a call may
//! have begun: nobody knows what that call has done. Otherwise it lapses with its node, and the question can
//! be answered again.

use std::sync::Arc;

use tokio::runtime::Handle;
use tokio::task::JoinHandle;
use tokio::time::sleep;
use tracing::debug;
use uuid::Uuid;

use super::recent_turns::RecentTurns;
use super::turn_cache::{self, QuestionKeys};
use crate::conversation::{Answer, Question};
use crate::session::store::{EntryClaim, EntryKey, StoreError};
use crate::tools::Continuation;

/// See the module docs. Dropping this gives the right back, unless the turn has [begun](Self::begin) and
/// the question's call may have run.
#[derive(Debug)]
pub(super) struct ClosingQuestion {
    turns: Arc<RecentTurns>,
    owner: EntryKey,
    claim: EntryClaim,
    /// Claims it again and again, if it would lapse otherwise.
    renewal: Option<JoinHandle<()>>,
    /// Whether it is given back when this is dropped.
    is_returned: bool,
}

impl ClosingQuestion {
    /// Takes the right; `None` if the question is closed.
    ///
    /// # Errors
    /// If the store cannot tell. The right is not given then.
    pub(super) async fn take(
        turns: &Arc<RecentTurns>,
        owner: &str,
        clarification_id: &str,
        lapses: bool,
    ) -> Result<Option<Self>, StoreError> {
        let question = QuestionKeys::of(owner, clarification_id);
        if !turns.cache.begin_closing(&question) {
            return Ok(None);
        }
        let holder = Uuid::new_v4().as_u64_pair().1 >> 1;
        let claim = EntryClaim { key: question.claim, holder, lapses };
        let mut closing = Self::of(turns, owner, claim);
        if turns.is_stored && !turns.store.claim(closing.owner, claim).await? {
            // It is somebody else's there.
            return Ok(None);
        }
        closing.renew(false);
        Ok(Some(closing))
    }

    /// Goes on with a right that another node had, for a turn that it has left.
    pub(super) fn take_over(turns: &Arc<RecentTurns>, owner: &str, claim: EntryClaim) -> Self {
        let mut closing = Self::of(turns, owner, claim);
        closing.renew(true);
        closing.begin();
        closing
    }

    fn of(turns: &Arc<RecentTurns>, owner: &str, claim: EntryClaim) -> Self {
        let owner = turn_cache::of_owner(owner);
        Self { turns: Arc::clone(turns), owner, claim, renewal: None, is_returned: true }
    }

    /// What the store knows of it; `None` if it keeps nothing.
    pub(super) fn stored(&self) -> Option<EntryClaim> {
        self.turns.is_stored.then_some(self.claim)
    }

    /// The turn begins, and the call with it.
    pub(super) fn begin(&mut self) {
        self.is_returned = self.claim.lapses;
    }

    /// Does not give the right back: it goes to whoever goes on with the turn, or ends with it.
    pub(super) fn leave(&mut self) {
        self.is_returned = false;
    }

    fn renew(&mut self, at_once: bool) {
        let store = &self.turns.store;
        let Some(time) = store.lease_time().filter(|_| self.claim.lapses && self.turns.is_stored)
        else {
            return;
        };
        let (store, owner, claim) = (Arc::clone(store), self.owner, self.claim);
        self.renewal = Some(tokio::spawn(async move {
            if !at_once {
                sleep(time / 3).await;
            }
            loop {
                if let Err(error) = store.claim(owner, claim).await {
                    debug!(%error, "the right to close a question was not renewed");
                }
                sleep(time / 3).await;
            }
        }));
    }
}

impl Drop for ClosingQuestion {
    fn drop(&mut self) {
        if let Some(renewal) = self.renewal.take() {
            renewal.abort();
        }
        self.turns.cache.end_closing(&self.claim.key);
        let Some(claim) = self.stored().filter(|_| self.is_returned) else { return };
        let (turns, owner) = (Arc::clone(&self.turns), self.owner);
        let Ok(runtime) = Handle::try_current() else { return };
        runtime.spawn(async move {
            if let Err(error) = turns.store.free(owner, claim).await {
                debug!(%error, "the right to close a question was not given back");
            }
        });
    }
}

/// Whether this answer to a question runs its call.
pub(super) fn runs_call(asked: &Question, answer: &Answer) -> bool {
    match asked.continuation {
        Continuation::Model => false,
        Continuation::Approval { .. } => !answer.given.is_no(),
        Continuation::Again { .. } | Continuation::Open => true,
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

    async fn take(turns: &Arc<RecentTurns>, owner: &str) -> Option<ClosingQuestion> {
        ClosingQuestion::take(turns, owner, "q", false).await.unwrap()
    }

    /// Waits until a question that was given back is open again.
    async fn taken(turns: &Arc<RecentTurns>) -> ClosingQuestion {
        loop {
            if let Some(closing) = take(turns, "a").await {
                return closing;
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
            let first = take(&turns, "a").await;
            assert!(first.is_some() && take(&turns, "a").await.is_none());
            assert!(turns.is_closed("a", "q").await.unwrap());
            assert!(take(&turns, "b").await.is_some(), "another key's");
            drop(first);
            drop(taken(&turns).await);
        }
    }

    /// What it has done is unknown.
    #[tokio::test]
    async fn a_call_that_may_have_run_is_not_approved_again() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("tether.db");
        let store = Arc::new(SqliteStore::open(&path, SyncMode::Normal, TTL).unwrap());
        let turns = Arc::new(RecentTurns::new(store));
        let mut closing = taken(&turns).await;
        closing.begin();
        drop(closing);
        tokio::task::yield_now().await;
        assert!(take(&turns, "a").await.is_none());
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
            ClosingQuestion::take(&turns, "a", "q", true).await.unwrap_err();
        }
        turns.is_closed("a", "q").await.unwrap_err();
        assert!(!turns.lookup("a").recall().await, "a lookup is harmless");
    }
}
