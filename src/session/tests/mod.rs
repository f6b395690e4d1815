mod cancelled;
mod deleted;
mod interrupted;
mod schedules;

use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use futures::FutureExt as _;

use super::*;
use crate::conversation::{Choice, ClientInput, Ending};
use crate::event::{Event, Summary, TurnFinish, Usage};
use crate::limits::session as limits;
use running::Claimed;
use store::{
    Appended, Artifact, Batch, Lease, ListedSession, LogEnd, LogNews, MemoryStore, MemoryUsage,
    NodeId, SessionCopy, Store, StoreError, StoreFuture, StoredLog, StoredRecord,
};

fn memory() -> Arc<dyn Store> {
    Arc::new(MemoryStore::new(limits::TTL))
}

fn of(store: Arc<dyn Store>) -> Sessions {
    Sessions::new(store, Durability::BeforeSend)
}

fn sessions() -> Sessions {
    of(memory())
}

fn turn(turn_id: &str) -> conversation::Turn {
    conversation::Turn {
        turn_id: turn_id.to_owned(),
        prompt: "?".to_owned(),
        ending: Some(Ending::Completed(TurnFinish::Stop)),
        ..conversation::Turn::default()
    }
}

const fn beginning<'a>(
    turn_id: &'a str,
    key: Option<&'a str>,
    input: &'a ClientInput,
) -> Beginning<'a> {
    Beginning {
        session_id: "s",
        turn_id,
        key,
        input,
        client_history: None,
        follows: None,
        is_new: false,
        is_passing: false,
        supersedes: false,
        head: None,
    }
}

async fn ask(
    sessions: &Sessions,
    turn_id: &str,
    key: Option<&str>,
) -> Result<Box<Begun>, NotBegun> {
    sessions.begin(beginning(turn_id, key, &ClientInput::default()), |_| false).await
}

async fn begin(sessions: &Sessions, turn_id: &str, key: Option<&str>) -> (TurnGuard, Writer) {
    let begun = ask(sessions, turn_id, key).await.unwrap();
    (begun.guard, begun.writer)
}

/// Plays a turn that says `text`.
async fn play(sessions: &Sessions, turn_id: &str, key: Option<&str>, text: &str) {
    let (guard, mut writer) = begin(sessions, turn_id, key).await;
    writer.push(&Event::text(text));
    writer.publish();
    let summary = Summary { loops: 1, tool_calls: 0, usage: Usage::NONE, text };
    writer.push(&Event::TurnCompleted {
        finish_reason: TurnFinish::Stop,
        stop_text: None,
        summary,
    });
    writer.seal();
    guard.finish(Some(turn(turn_id))).await;
}

/// Everything that a log has after `seen`, as epochs, sequences and lines.
fn read(log: &Arc<TurnLog>, seen: u64) -> Vec<(u64, u64, String)> {
    let (mut reader, mut lines) = (log.read_after(seen), Vec::new());
    let mut keep = |record: Record<'_>| {
        let line = String::from_utf8(record.data.to_vec()).unwrap();
        lines.push((record.epoch, record.sequence, line));
    };
    let mut cx = Context::from_waker(Waker::noop());
    while let Poll::Ready(Some(())) = reader.poll_read(&mut cx, &mut keep) {}
    lines
}

#[tokio::test]
async fn a_session_has_one_turn_at_a_time() {
    let sessions = sessions();
    let (guard, mut writer) = begin(&sessions, "one", None).await;
    assert!(matches!(ask(&sessions, "two", None).await, Err(NotBegun::Busy)));
    writer.seal();
    guard.finish(Some(turn("one"))).await;
    // The place is free, although the last event is not visible yet.
    begin(&sessions, "two", None).await;
    drop(writer);
    let snapshot = sessions.snapshot("s").await.unwrap().unwrap();
    assert_eq!(snapshot.conversation.turns().len(), 1);
}

#[tokio::test]
async fn a_turn_whose_driver_dies_frees_its_place_and_leaves_its_log() {
    let sessions = sessions();
    play(&sessions, "one", None, "Hi.").await;
    let (guard, writer) = begin(&sessions, "two", Some("key")).await;
    drop(writer);
    guard.finish(None).await;
    let FoundTurn::Turn(found) = sessions.find_turn("s", None, 0).await.unwrap() else {
        panic!("no turn")
    };
    assert_eq!(found.turn_id, "two");
    assert!(read(&found.log, 0).last().unwrap().2.contains("turn_failed"));
    assert!(matches!(ask(&sessions, "three", Some("key")).await, Err(NotBegun::Repeated(_))));
    assert_eq!(sessions.snapshot("s").await.unwrap().unwrap().conversation.turns().len(), 1);
    begin(&sessions, "three", None).await;
}

/// As when the runtime stops and drops the turn's task.
#[tokio::test]
async fn a_turn_that_is_dropped_frees_its_place() {
    let sessions = sessions();
    drop(begin(&sessions, "one", None).await);
    begin(&sessions, "two", None).await;
}

/// A client that has read the last event may come back at once, and finds the whole log.
#[tokio::test]
async fn a_log_is_stored_before_its_end_is_seen() {
    let sessions = sessions();
    let (guard, mut writer) = begin(&sessions, "one", None).await;
    let live = Arc::clone(writer.log());
    for n in 0..200 {
        let text = "x".repeat(n);
        writer.push(&Event::text(&text));
        writer.publish();
    }
    writer.seal();
    assert_eq!(live.last_sequence(), 200, "the end is not visible");
    guard.finish(None).await;
    assert!(!live.has_ended());
    let FoundTurn::Turn(stored) = sessions.find_turn("s", None, 0).await.unwrap() else {
        panic!("no log")
    };
    drop(writer);
    let events = read(&live, 0);
    assert_eq!(events.len(), 201);
    assert_eq!(read(&stored.log, 0), events);
    assert!(stored.log.has_ended());
    // From every position.
    for seen in 0..=201 {
        let found = sessions.find_turn("s", Some("one"), seen).await.unwrap();
        let FoundTurn::Turn(found) = found else { panic!("no log") };
        assert_eq!(found.log.last_sequence(), 201);
        assert_eq!(read(&found.log, seen), events[usize::try_from(seen).unwrap()..]);
    }
}

#[tokio::test]
async fn logs_are_kept_up_to_their_number_and_then_gone() {
    let sessions = sessions();
    let ids: Vec<_> = (0..=limits::TURN_LOGS_MAX).map(|n| format!("turn-{n}")).collect();
    for id in &ids {
        play(&sessions, id, None, "Hi.").await;
    }
    let find = async |id: Option<&str>| sessions.find_turn("s", id, 0).await.unwrap();
    assert!(matches!(find(Some(&ids[0])).await, FoundTurn::Gone));
    for id in &ids[1..] {
        assert!(matches!(find(Some(id)).await, FoundTurn::Turn(_)), "{id}");
    }
    assert!(matches!(find(Some("never")).await, FoundTurn::NoTurn));
    let FoundTurn::Turn(latest) = find(None).await else { panic!("no latest turn") };
    assert_eq!(latest.turn_id, *ids.last().unwrap());
    assert!(matches!(sessions.find_turn("other", None, 0).await.unwrap(), FoundTurn::NoSession));
}

#[tokio::test]
async fn keys_are_remembered_up_to_their_number() {
    let sessions = sessions();
    for n in 0..=limits::IDEMPOTENCY_KEYS_MAX {
        play(&sessions, &format!("turn-{n}"), Some(&format!("key-{n}")), "Hi.").await;
    }
    let newest = format!("key-{}", limits::IDEMPOTENCY_KEYS_MAX);
    assert!(matches!(ask(&sessions, "again", Some(&newest)).await, Err(NotBegun::Repeated(_))));
    assert!(matches!(ask(&sessions, "again", Some("key-1")).await, Err(NotBegun::Gone)));
    let _running = begin(&sessions, "again", Some("key-0")).await;
    let running = ask(&sessions, "once more", Some("key-0")).await;
    assert!(matches!(running, Err(NotBegun::Repeated(turn)) if turn.turn_id == "again"));
}

/// From the running turn, and then from how the latest one ended.
#[tokio::test]
async fn a_session_knows_where_its_turn_is() {
    let sessions = sessions();
    let state = async || sessions.snapshot("s").await.unwrap().and_then(|snapshot| snapshot.state);
    assert_eq!(state().await, None);
    let (guard, mut writer) = begin(&sessions, "one", None).await;
    assert_eq!(state().await, Some(TurnState::Planning));
    writer.log().set_turn_state(TurnState::Executing);
    assert_eq!(state().await, Some(TurnState::Executing));
    writer.seal();
    guard.finish(Some(turn("one"))).await;
    assert_eq!(state().await, Some(TurnState::Completed));
}

/// A refused answer leaves things as if it had never been sent.
#[tokio::test]
async fn a_refused_answer_leaves_no_key_and_no_session() {
    let sessions = sessions();
    let choice = Choice::Text("?".to_owned());
    let answer = ClientInput::Answer { clarification_id: "q".to_owned(), choice, beside: None };
    let refused = async || sessions.begin(beginning("one", Some("key"), &answer), |_| false).await;
    assert!(matches!(refused().await, Err(NotBegun::Refused(_))));
    assert!(sessions.snapshot("s").await.unwrap().is_none());
    assert_eq!(sessions.memory_usage(), MemoryUsage::default());
    play(&sessions, "one", None, "Hi.").await;
    assert!(matches!(refused().await, Err(NotBegun::Refused(_))));
    assert!(sessions.begun_by("s", "key").await.unwrap().is_none());
    begin(&sessions, "two", Some("key")).await;
}

/// Two gateways on one store can each continue what the other began.
#[tokio::test]
async fn a_session_continues_on_another_node() {
    let store = memory();
    let (a, b) = (of(Arc::clone(&store)), of(store));
    let (guard, mut writer) = begin(&a, "one", Some("key")).await;
    let nonce = guard.nonce().to_owned();
    assert!(matches!(ask(&b, "two", None).await, Err(NotBegun::Busy)), "it runs on the other");
    assert_eq!(b.cancel("s").await.unwrap(), Cancel::NothingRuns);
    writer.push(&Event::text("Hi."));
    writer.seal();
    guard.finish(Some(turn("one"))).await;

    assert!(matches!(ask(&b, "two", Some("key")).await, Err(NotBegun::Repeated(_))));
    let begun = ask(&b, "two", None).await.unwrap();
    assert_eq!(begun.guard.nonce(), nonce);
    assert_eq!(begun.history.turns().len(), 1);
    let epochs = [&writer, &begun.writer].map(|writer| writer.log().epochs().last());
    assert_eq!(epochs, [1, 2]);
    let (guard, mut writer) = (begun.guard, begun.writer);
    writer.seal();
    guard.finish(Some(turn("two"))).await;

    // The log of each turn keeps the epoch in which it was written.
    for (turn_id, epoch) in [("one", 1), ("two", 2)] {
        let found = a.find_turn("s", Some(turn_id), 0).await.unwrap();
        let FoundTurn::Turn(found) = found else { panic!() };
        assert!(read(&found.log, 0).iter().all(|(written, ..)| *written == epoch));
    }
    assert_eq!(a.snapshot("s").await.unwrap().unwrap().conversation.turns().len(), 2);
}

/// A store that answers only when a test allows it, or not at all.
#[derive(Debug)]
pub(crate) struct Slow {
    store: MemoryStore,
    gate: tokio::sync::Semaphore,
    is_down: bool,
}

impl Slow {
    pub(crate) fn new(is_down: bool) -> Arc<Self> {
        let gate = tokio::sync::Semaphore::new(0);
        Arc::new(Self { store: MemoryStore::new(limits::TTL), gate, is_down })
    }

    /// From now on, it answers at once.
    pub(crate) fn open(&self) {
        self.gate.add_permits(100);
    }

    async fn pass(&self) -> Result<&MemoryStore, StoreError> {
        if self.is_down {
            return Err(StoreError::Unavailable("connection refused".to_owned()));
        }
        self.gate.acquire().await.unwrap().forget();
        Ok(&self.store)
    }
}

impl Store for Slow {
    fn was_forgotten<'a>(&'a self, session_id: &'a str) -> StoreFuture<'a, bool> {
        self.store.was_forgotten(session_id)
    }

    fn acquire<'a>(&'a self, session_id: &'a str, node: NodeId) -> StoreFuture<'a, Option<Lease>> {
        Box::pin(async move { self.pass().await?.acquire(session_id, node).await })
    }

    fn release<'a>(&'a self, lease: &'a Lease) -> StoreFuture<'a, ()> {
        Box::pin(async move { self.pass().await?.release(lease).await })
    }

    fn load<'a>(&'a self, session_id: &'a str) -> StoreFuture<'a, Option<StoredRecord>> {
        Box::pin(async move { self.pass().await?.load(session_id).await })
    }

    fn save<'a>(
        &'a self,
        lease: &'a Lease,
        expected: Option<Version>,
        record: bytes::Bytes,
    ) -> StoreFuture<'a, Version> {
        Box::pin(async move { self.pass().await?.save(lease, expected, record).await })
    }

    fn append<'a>(
        &'a self,
        lease: &'a Lease,
        turn_id: &'a str,
        news: LogNews,
    ) -> StoreFuture<'a, Appended> {
        Box::pin(async move { self.pass().await?.append(lease, turn_id, news).await })
    }

    fn finish<'a>(
        &'a self,
        lease: &'a Lease,
        expected: Option<Version>,
        record: bytes::Bytes,
        end: LogEnd<'a>,
    ) -> StoreFuture<'a, Version> {
        Box::pin(async move { self.pass().await?.finish(lease, expected, record, end).await })
    }

    fn is_durable(&self) -> bool {
        self.store.is_durable()
    }

    fn read<'a>(
        &'a self,
        session_id: &'a str,
        turn_id: Option<&'a str>,
        seen: u64,
    ) -> StoreFuture<'a, Option<StoredLog>> {
        Box::pin(async move { self.pass().await?.read(session_id, turn_id, seen).await })
    }

    fn keep_artifact<'a>(&'a self, session_id: &'a str, artifact: Artifact) -> StoreFuture<'a, ()> {
        Box::pin(async move { self.pass().await?.keep_artifact(session_id, artifact).await })
    }

    fn artifact<'a>(&'a self, id: &'a str) -> StoreFuture<'a, Option<Artifact>> {
        Box::pin(async move { self.pass().await?.artifact(id).await })
    }

    fn forget<'a>(&'a self, session_id: &'a str) -> StoreFuture<'a, bool> {
        Box::pin(async move { self.pass().await?.forget(session_id).await })
    }

    fn discard<'a>(&'a self, lease: &'a Lease) -> StoreFuture<'a, ()> {
        Box::pin(async move { self.pass().await?.discard(lease).await })
    }

    fn list<'a>(
        &'a self,
        after: Option<&'a str>,
        count: usize,
    ) -> StoreFuture<'a, Vec<ListedSession>> {
        Box::pin(async move { self.pass().await?.list(after, count).await })
    }

    fn copy<'a>(&'a self, session_id: &'a str) -> StoreFuture<'a, Option<SessionCopy>> {
        Box::pin(async move { self.pass().await?.copy(session_id).await })
    }

    fn restore(&self, copy: SessionCopy, replace: bool) -> StoreFuture<'_, bool> {
        Box::pin(async move { self.pass().await?.restore(copy, replace).await })
    }

    fn memory_usage(&self) -> MemoryUsage {
        self.store.memory_usage()
    }
}

/// Sessions of a store that answers when it is let.
fn gated() -> (Arc<Slow>, Sessions) {
    let store = Slow::new(false);
    let sessions = of(Arc::clone(&store) as Arc<dyn Store>);
    (store, sessions)
}

/// The second request waits for the outcome of the first. With the same key, it gets the same turn.
#[tokio::test(start_paused = true)]
async fn of_two_requests_at_once_one_begins() {
    for (key, repeated) in [(None, false), (Some("key"), true)] {
        let (store, sessions) = gated();
        let open = async {
            tokio::time::sleep(Duration::from_secs(1)).await;
            store.open();
        };
        let (first, second, ()) =
            tokio::join!(ask(&sessions, "one", key), ask(&sessions, "two", key), open);
        assert!(first.is_ok());
        assert_eq!(matches!(second, Err(NotBegun::Repeated(_))), repeated);
        assert_eq!(matches!(second, Err(NotBegun::Busy)), !repeated);
    }
}

/// A client that leaves while the store is working leaves nothing behind.
#[tokio::test(start_paused = true)]
async fn a_request_that_is_dropped_frees_the_session() {
    for answers in 0..3 {
        let (store, sessions) = gated();
        store.gate.add_permits(answers);
        let gone = tokio::time::timeout(Duration::from_secs(1), ask(&sessions, "one", None));
        assert!(gone.await.is_err(), "{answers}");
        store.open();
        begin(&sessions, "two", None).await;
    }
}

/// What it held does not come back, and the request that was opening it begins another one.
#[tokio::test(start_paused = true)]
async fn a_session_that_is_forgotten_while_it_is_opened_begins_anew() {
    for answers in 0..3 {
        let (store, sessions) = gated();
        store.gate.add_permits(answers);
        let forget = async {
            tokio::time::sleep(Duration::from_secs(1)).await;
            store.store.forget("s").await.unwrap();
            assert!(sessions.running.evict("s").1.is_none());
            store.open();
        };
        let (begun, ()) = tokio::join!(ask(&sessions, "one", None), forget);
        let begun = begun.unwrap_or_else(|reason| panic!("{answers}: {reason:?}"));
        assert_eq!(begun.history.turns().count(), 0);
    }
}

/// Or else it would release the lease of the next one, which is the same.
#[tokio::test(start_paused = true)]
async fn a_refused_request_keeps_the_session_until_its_lease_is_released() {
    let (store, sessions) = gated();
    let choice = Choice::Text("?".to_owned());
    let answer = ClientInput::Answer { clarification_id: "q".to_owned(), choice, beside: None };
    // Acquired and loaded; the release waits.
    store.gate.add_permits(2);
    let release = async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert!(matches!(sessions.running.claim("s"), Claimed::Later(_)));
        store.open();
    };
    let (refused, ()) =
        tokio::join!(sessions.begin(beginning("one", None, &answer), |_| false), release);
    assert!(matches!(refused, Err(NotBegun::Refused(_))));
    assert!(matches!(sessions.running.claim("s"), Claimed::Free(_)));
}

/// The client of a turn may have left before, and it does not know how long storing takes.
#[tokio::test(start_paused = true)]
async fn a_request_waits_for_a_turn_that_is_only_being_stored() {
    let (store, sessions) = gated();
    store.open();
    let (first, mut writer) = begin(&sessions, "one", None).await;
    assert!(matches!(ask(&sessions, "two", None).await, Err(NotBegun::Busy)), "it still runs");
    writer.seal();
    store.gate.forget_permits(usize::MAX);
    let open = async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert!(matches!(sessions.running.claim("s"), Claimed::Later(_)));
        store.open();
    };
    let first = first.finish(Some(turn("one")));
    let (second, (), ()) = tokio::join!(ask(&sessions, "two", None), first, open);
    assert!(matches!(second, Err(NotBegun::Busy)), "asked before it was over");
    let (first, mut writer) = begin(&sessions, "three", None).await;
    writer.seal();
    store.gate.forget_permits(usize::MAX);
    let open = async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        store.open();
    };
    let first = first.finish(Some(turn("three")));
    let ((), fourth, ()) = tokio::join!(first, ask(&sessions, "four", None), open);
    let history = fourth.unwrap().history;
    assert_eq!(history.turns().len(), 2, "it continues after the turn that was stored");
}

#[tokio::test]
async fn a_turn_that_supersedes_cancels_the_one_before_it_and_waits_for_its_end() {
    let sessions = sessions();
    let (guard, mut writer) = begin(&sessions, "one", None).await;
    let first = sessions.running.get("s").unwrap();
    let words = ClientInput::default();
    let next = Beginning { supersedes: true, ..beginning("two", None, &words) };
    let mut second = pin!(sessions.begin(next, |_| false));
    assert!(second.as_mut().now_or_never().is_none(), "the first has not ended");
    assert!(!first.turn.log.has_ended());
    let text = "Hi.";
    let summary = Summary { loops: 1, tool_calls: 0, usage: Usage::NONE, text };
    writer.push(&Event::TurnCompleted {
        finish_reason: TurnFinish::Cancelled,
        stop_text: None,
        summary,
    });
    writer.seal();
    guard.finish(Some(turn("one"))).await;
    drop(writer);
    let begun = second.await.unwrap();
    assert_eq!(begun.history.turns().len(), 1, "it continues after what the first has said");
}

#[test]
fn owners_do_not_share_sessions() {
    let ids = ["", "a", "b"].map(|owner| id_of(owner, "s"));
    assert_eq!(ids, ["s", "s@a", "s@b"]);
}

/// Between two steps of a turn's end, its session is forgotten and begun again.
#[tokio::test(start_paused = true)]
async fn a_forgotten_turn_writes_nothing_into_the_session_that_follows() {
    for steps in 0..3 {
        let (store, sessions) = gated();
        store.open();
        let (old, mut writer) = begin(&sessions, "old", None).await;
        writer.seal();
        store.gate.forget_permits(usize::MAX);
        store.gate.add_permits(steps);
        let follow = async {
            tokio::time::sleep(Duration::from_secs(1)).await;
            store.store.forget("s").await.unwrap();
            drop(sessions.running.evict("s"));
            store.open();
            play(&sessions, "new", None, "Hi.").await;
        };
        tokio::join!(old.finish(Some(turn("old"))), follow);
        let FoundTurn::Turn(latest) = sessions.find_turn("s", None, 0).await.unwrap() else {
            panic!("{steps}: no log")
        };
        assert_eq!(latest.turn_id, "new", "{steps}");
        let snapshot = sessions.snapshot("s").await.unwrap().unwrap();
        let turns: Vec<_> = snapshot.conversation.turns().map(|turn| &*turn.turn_id).collect();
        assert_eq!(turns, ["new"], "{steps}");
        assert!(matches!(
            sessions.find_turn("s", Some("old"), 0).await.unwrap(),
            FoundTurn::NoTurn
        ));
    }
}

/// A request that comes while a session is forgotten begins a new one.
#[tokio::test(start_paused = true)]
async fn a_request_waits_until_the_session_is_forgotten() {
    let (store, sessions) = gated();
    store.open();
    play(&sessions, "old", None, "Hi.").await;
    store.gate.forget_permits(usize::MAX);
    let open = async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        store.open();
    };
    let (forgotten, begun, ()) =
        tokio::join!(sessions.forget("s"), ask(&sessions, "new", None), open);
    assert!(forgotten.unwrap());
    let begun = begun.unwrap();
    assert_eq!(begun.history.turns().len(), 0);
    let (guard, mut writer) = (begun.guard, begun.writer);
    writer.seal();
    guard.finish(Some(turn("new"))).await;
    assert_eq!(sessions.snapshot("s").await.unwrap().unwrap().conversation.turns().len(), 1);
}

/// Another node can begin a turn then.
#[tokio::test]
async fn a_dropped_turn_releases_its_lease() {
    let store = memory();
    let (a, b) = (of(Arc::clone(&store)), of(store));
    drop(begin(&a, "one", None).await);
    tokio::task::yield_now().await;
    begin(&b, "two", None).await;
}

#[tokio::test]
async fn running_conversations_count() {
    let sessions = sessions();
    play(&sessions, "one", None, "Hi.").await;
    let idle = sessions.memory_usage().session_bytes;
    let running = begin(&sessions, "two", None).await;
    assert!(sessions.memory_usage().session_bytes > idle);
    drop(running);
    assert_eq!(sessions.memory_usage().session_bytes, idle);
}

#[tokio::test]
async fn a_store_that_is_down_begins_and_finds_nothing() {
    let sessions = of(Slow::new(true));
    let begun = ask(&sessions, "one", None).await.unwrap_err();
    assert!(matches!(begun, NotBegun::Failed(SessionError::Store(StoreError::Unavailable(_)))));
    assert!(sessions.snapshot("s").await.is_err());
    assert!(sessions.find_turn("s", None, 0).await.is_err());
    assert!(sessions.cancel("s").await.is_err());
    assert!(sessions.forget("s").await.is_err());
}

#[tokio::test]
async fn a_record_that_no_gateway_wrote_is_refused() {
    let store = memory();
    let lease = store.acquire("s", NodeId::random()).await.unwrap().unwrap();
    store.save(&lease, None, "{}".into()).await.unwrap();
    let batch = Batch { first: 1, last: 1, bytes: "{}\n".into() };
    store.append(&lease, "one", vec![batch].into()).await.unwrap();
    store.release(&lease).await.unwrap();
    let sessions = of(store);
    let begun = ask(&sessions, "one", None).await;
    assert!(matches!(begun, Err(NotBegun::Failed(SessionError::Record(_)))));
    assert!(matches!(sessions.snapshot("s").await, Err(SessionError::Record(_))));
    assert!(matches!(sessions.find_turn("s", None, 0).await, Err(SessionError::Record(_))));
    assert!(sessions.forget("s").await.unwrap());
    begin(&sessions, "one", None).await;
}

/// It is stored if the turn leaves something.
#[tokio::test]
async fn a_session_that_nobody_else_knows_is_not_stored_before_its_end() {
    let store = Arc::new(MemoryStore::new(crate::limits::session::TTL));
    let sessions = of(Arc::clone(&store) as Arc<dyn Store>);
    for is_kept in [false, true] {
        let input = ClientInput::default();
        let (history, first) = (Some(Conversation::default()), beginning("one", None, &input));
        let passing = Beginning { client_history: history, is_passing: true, ..first };
        let begun = sessions.begin(passing, |_| false).await.unwrap();
        assert!(store.load("s").await.unwrap().is_none());
        assert!(sessions.snapshot("s").await.unwrap().is_some(), "it runs");
        let Begun { guard, mut writer, .. } = *begun;
        writer.seal();
        if is_kept {
            guard.finish(Some(turn("one"))).await;
        } else {
            guard.discard().await;
        }
        assert_eq!(store.load("s").await.unwrap().is_some(), is_kept);
    }
}
