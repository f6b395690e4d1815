//! The claim of a question: only the turn that has it may answer or drop the question, on any node.
//!
//! ```text
//!   acquire, take_over ──> claimed ── begin ──> begun ── leave ──> left to the entry of the ended turn, or
//!                             │                   │                to the gateway that goes on with the turn
//!                           drop                drop
//!                             v                   v
//!                          released    released (Lease), or still claimed (Lasting)
//! ```
//! A call that was approved once must not run twice. So the claim of an answer that runs a call is lasting: once
//! the turn has begun, nobody knows what the call has done. Any other claim has to be renewed: it lapses with its
//! node, and the question can be answered again. A claim that was not renewed in time is lost, because another
//! turn may have it.

use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::time::{Instant, sleep, timeout_at};
use tokio_util::task::AbortOnDropHandle;
use tracing::{debug, warn};
use uuid::Uuid;

use super::recent_turns::RecentTurns;
use super::turn_keys::{self, QuestionKeys};
use crate::conversation::{Answer, Question};
use crate::session::TurnLog;
use crate::session::store::{ClaimTerm, EntryClaim, EntryOwner, StoreError};
use crate::tools::Continuation;

/// See the module docs.
#[derive(Debug)]
pub(super) struct QuestionClaim {
    turns: Arc<RecentTurns>,
    owner: EntryOwner,
    claim: EntryClaim,
    /// Ends when the claim is lost. `None` if it cannot be.
    renewal: Option<AbortOnDropHandle<()>>,
    /// Whether dropping this releases it.
    releases_on_drop: bool,
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
        if !turns.claim_here(&question) {
            return Ok(None);
        }
        let holder = Uuid::new_v4().as_u64_pair().1 >> 1;
        let claim = EntryClaim { key: question.claim, holder, term };
        Self::of(turns, owner, claim).acquire_in_store().await
    }

    /// Takes over the claim of a turn that another gateway has left; `None` if another turn has it by now.
    ///
    /// # Errors
    /// If the store cannot tell.
    pub(super) async fn take_over(
        turns: &Arc<RecentTurns>,
        owner: &str,
        claim: EntryClaim,
    ) -> Result<Option<Self>, StoreError> {
        let mut taken_over = Self::of(turns, owner, claim);
        // The call may have begun there.
        taken_over.begin();
        taken_over.acquire_in_store().await
    }

    fn of(turns: &Arc<RecentTurns>, owner: &str, claim: EntryClaim) -> Self {
        let owner = turn_keys::of_owner(owner);
        Self { turns: Arc::clone(turns), owner, claim, renewal: None, releases_on_drop: true }
    }

    /// Acquires the claim in the store, and renews it from now on if it would lapse.
    async fn acquire_in_store(mut self) -> Result<Option<Self>, StoreError> {
        let asked_at = Instant::now();
        if !self.turns.acquire_claim(self.owner, self.claim).await? {
            self.leave();
            return Ok(None);
        }
        let lasts_for = match self.claim.term {
            ClaimTerm::Lease => self.turns.claim_time(),
            ClaimTerm::Lasting => None,
        };
        if let Some(time) = lasts_for {
            let turns = Arc::clone(&self.turns);
            let renewal = renew_until_lost(turns, self.owner, self.claim, asked_at, time);
            self.renewal = Some(AbortOnDropHandle::new(tokio::spawn(renewal)));
        }
        Ok(Some(self))
    }

    /// The claim in the store; `None` if the store keeps none.
    pub(super) fn stored(&self) -> Option<EntryClaim> {
        self.turns.is_stored().then_some(self.claim)
    }

    /// Notes that the turn begins, and the call with it.
    pub(super) fn begin(&mut self) {
        self.releases_on_drop = self.claim.term == ClaimTerm::Lease;
    }

    /// Cancels the turn that writes this log once the claim is lost.
    pub(super) fn cancel_when_lost(&mut self, log: &Arc<TurnLog>) {
        let Some(lost) = self.renewal.take() else { return };
        let log = Arc::clone(log);
        self.renewal = Some(AbortOnDropHandle::new(tokio::spawn(async move {
            if lost.await.is_ok() {
                warn!("another turn may answer the same question; this one is cancelled");
                log.cancel();
            }
        })));
    }

    /// Whether another turn may have the claim.
    pub(super) fn is_lost(&self) -> bool {
        self.renewal.as_ref().is_some_and(AbortOnDropHandle::is_finished)
    }

    /// Leaves the claim to whoever goes on with the turn, or to the turn's end.
    pub(super) fn leave(&mut self) {
        self.releases_on_drop = false;
    }
}

/// Renews a claim, which was acquired at this time and lasts this long unless it is renewed. Ends when somebody
/// else has it, or may have it.
async fn renew_until_lost(
    turns: Arc<RecentTurns>,
    owner: EntryOwner,
    claim: EntryClaim,
    mut acquired_at: Instant,
    time: Duration,
) {
    let renew = async || {
        loop {
            sleep(time / 3).await;
            let asked_at = Instant::now();
            match turns.acquire_claim(owner, claim).await {
                Ok(is_ours) => return is_ours.then_some(asked_at),
                Err(error) => debug!(%error, "the claim of a question was not renewed"),
            }
        }
    };
    while let Ok(Some(renewed_at)) = timeout_at(acquired_at + time, renew()).await {
        acquired_at = renewed_at;
    }
}

impl Drop for QuestionClaim {
    fn drop(&mut self) {
        self.turns.release_here(&self.claim.key);
        if !self.releases_on_drop {
            return;
        }
        let (turns, owner, claim) = (Arc::clone(&self.turns), self.owner, self.claim);
        let Ok(runtime) = Handle::try_current() else { return };
        runtime.spawn(async move { turns.release_claim(owner, claim).await });
    }
}

/// How long the claim of a question lasts that is answered like this: for good if the answer lets a call run.
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
    use std::time::Duration;

    use serde_json::json;

    use super::super::tests::claim_store::ClaimStore;
    use super::*;
    use crate::limits::session::TTL;
    use crate::session::Writer;
    use crate::session::store::{
        MemoryStore, RedisAddress, RedisOptions, RedisStore, SqliteStore, Store, SyncMode,
    };
    use crate::tools::{Clarification, Given, Source};

    #[test]
    fn a_question_whose_answer_lets_a_call_run_is_claimed_for_good() {
        let approval = || Continuation::Approval { definition: String::new() };
        let again = || Continuation::Again { state: json!(1) };
        for (continuation, given, expected) in [
            (Continuation::Model, Given::Text("a".to_owned()), ClaimTerm::Lease),
            (approval(), Given::Refused(None), ClaimTerm::Lease),
            (approval(), Given::Approved { for_session: false }, ClaimTerm::Lasting),
            (again(), Given::Declined, ClaimTerm::Lasting),
            (again(), Given::Content(json!({})), ClaimTerm::Lasting),
            (Continuation::Open, Given::Declined, ClaimTerm::Lasting),
        ] {
            let asked = Question {
                clarification_id: "q".to_owned(),
                call_id: "call_1".to_owned(),
                tool_name: "look".to_owned(),
                source: Source::builtin(),
                clarification: Clarification::default(),
                arguments: None,
                continuation,
            };
            let answer = Answer {
                clarification_id: "q".to_owned(),
                question: "Which?".to_owned(),
                given,
                not_chosen: Vec::new(),
                beside: None,
            };
            assert_eq!(term(&asked, &answer), expected, "{asked:?} {answer:?}");
        }
    }

    async fn acquire(turns: &Arc<RecentTurns>, owner: &str) -> Option<QuestionClaim> {
        QuestionClaim::acquire(turns, owner, "q", ClaimTerm::Lasting).await.unwrap()
    }

    async fn acquire_lease(turns: &Arc<RecentTurns>) -> QuestionClaim {
        QuestionClaim::acquire(turns, "a", "q", ClaimTerm::Lease).await.unwrap().unwrap()
    }

    /// Waits until the claim of a question is released.
    async fn acquired(turns: &Arc<RecentTurns>) -> QuestionClaim {
        for _ in 0..10_000 {
            if let Some(claim) = acquire(turns, "a").await {
                return claim;
            }
            tokio::task::yield_now().await;
        }
        panic!("it was not released");
    }

    /// A node with a store that several share.
    fn node(store: &Arc<ClaimStore>) -> Arc<RecentTurns> {
        Arc::new(RecentTurns::new(Arc::clone(store) as Arc<dyn Store>))
    }

    #[tokio::test]
    async fn a_question_is_claimed_by_one_turn_at_a_time() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("tether.db");
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

    /// Nobody knows what it has done.
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
        let mut lookup = turns.lookup("a");
        assert!(lookup.by_id("t").is_none() && !lookup.recall().await, "a lookup is harmless");
    }

    #[tokio::test(start_paused = true)]
    async fn a_claim_is_renewed_until_it_is_released() {
        let store = Arc::new(ClaimStore::default());
        let (turns, (log, writer)) = (node(&store), Writer::new(1));
        let mut claim = acquire_lease(&turns).await;
        let key = claim.claim.key;
        claim.begin();
        claim.cancel_when_lost(&log);
        sleep(10 * ClaimStore::LEASE).await;
        assert!(!claim.is_lost() && !is_cancelled(&log));
        drop((claim, writer));
        tokio::task::yield_now().await;
        assert_eq!(store.holder(&key), None);
    }

    /// The other may have begun what follows from the answer.
    #[tokio::test(start_paused = true)]
    async fn a_turn_that_has_lost_its_claim_is_cancelled() {
        let store = Arc::new(ClaimStore::default());
        let (turns, (log, _writer)) = (node(&store), Writer::new(1));
        let mut claim = acquire_lease(&turns).await;
        let key = claim.claim.key;
        claim.begin();
        claim.cancel_when_lost(&log);
        store.give(key, 1);
        sleep(ClaimStore::LEASE / 2).await;
        assert!(claim.is_lost() && is_cancelled(&log));
        drop(claim);
        tokio::task::yield_now().await;
        assert_eq!(store.holder(&key), Some(1), "the other one keeps it");
    }

    #[tokio::test(start_paused = true)]
    async fn a_claim_that_cannot_be_renewed_is_lost_when_it_lapses() {
        let store = Arc::new(ClaimStore::default());
        let (turns, (log, _writer)) = (node(&store), Writer::new(1));
        let mut claim = acquire_lease(&turns).await;
        claim.begin();
        claim.cancel_when_lost(&log);
        store.hang();
        sleep(ClaimStore::LEASE * 9 / 10).await;
        assert!(!is_cancelled(&log));
        sleep(ClaimStore::LEASE / 5).await;
        assert!(claim.is_lost() && is_cancelled(&log));
    }

    #[tokio::test(start_paused = true)]
    async fn the_claim_of_a_turn_that_was_left_goes_with_the_turn() {
        for term in [ClaimTerm::Lease, ClaimTerm::Lasting] {
            let store = Arc::new(ClaimStore::default());
            let [one, other] = [node(&store), node(&store)];
            let claim = QuestionClaim::acquire(&one, "a", "q", term).await.unwrap();
            let mut claim = claim.unwrap();
            let stored = claim.stored().unwrap();
            claim.begin();
            claim.leave();
            drop(claim);
            let taken_over = QuestionClaim::take_over(&other, "a", stored).await.unwrap().unwrap();
            sleep(2 * ClaimStore::LEASE).await;
            assert!(!taken_over.is_lost() && acquire(&one, "a").await.is_none(), "{term:?}");
            drop(taken_over);
            tokio::task::yield_now().await;
            let stays = (term == ClaimTerm::Lasting).then_some(stored.holder);
            assert_eq!(store.holder(&stored.key), stays, "{term:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_turn_that_was_left_does_not_get_a_claim_that_another_has() {
        let store = Arc::new(ClaimStore::default());
        let turns = node(&store);
        let mut claim = acquire_lease(&turns).await;
        let stored = claim.stored().unwrap();
        claim.leave();
        drop(claim);
        store.give(stored.key, 1);
        assert!(QuestionClaim::take_over(&turns, "a", stored).await.unwrap().is_none());
        store.hang();
        QuestionClaim::take_over(&turns, "a", stored).await.unwrap_err();
        assert_eq!(store.holder(&stored.key), Some(1));
    }

    fn is_cancelled(log: &TurnLog) -> bool {
        let noop = std::task::Waker::noop();
        log.watch_audience(&std::task::Context::from_waker(noop)).cancelled
    }
}
