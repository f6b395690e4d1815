//! Turns that have ended, before and after the tables have them.

use std::collections::BTreeMap;
use std::fs;
use std::task::{Context, Waker};

use proptest::prelude::*;

use super::ended::EndedTurn;
use super::redo_tests::{
    Place, append_inline, assert_running, copy_of, event, news, text_of, text_up_to,
};
use super::*;

/// A turn that ends without a word.
async fn end_turn(place: &Place, session: &str) {
    let (lease, version) = place.begin(session).await;
    let end = LogEnd::new("t", vec![event(1)]);
    place.store.finish(&lease, Some(version), "over".into(), end).await.unwrap();
}

#[tokio::test]
async fn many_ends_share_a_commit() {
    let place = Place::new(SyncMode::Normal);
    for session in 0..limits::ENDED_TURNS_PER_COMMIT - 1 {
        end_turn(&place, &session.to_string()).await;
    }
    assert_eq!(place.store.ended.all().len(), limits::ENDED_TURNS_PER_COMMIT - 1);
    let commits = || place.store.worker.lock().commits();
    let before = commits();
    end_turn(&place, "one more").await;
    while place.store.ended.has(None) {
        tokio::task::yield_now().await;
    }
    assert_eq!(commits(), before + 1);
    assert!(!place.store.redo.has(None), "the tables have all of it");
    let listed = place.store.list(None, usize::MAX).await.unwrap();
    assert_eq!(listed.len(), limits::ENDED_TURNS_PER_COMMIT);
}

#[tokio::test(start_paused = true)]
async fn an_end_does_not_wait_long_for_others() {
    let place = Place::new(SyncMode::Normal);
    end_turn(&place, "s").await;
    let instant = Duration::from_millis(1);
    tokio::time::sleep(limits::ENDED_TURNS_WAIT.checked_sub(instant).unwrap()).await;
    assert!(place.store.ended.has(Some("s")));
    // From then on, it is up to the thread, which knows no paused clock.
    tokio::time::sleep(2 * instant).await;
    tokio::time::resume();
    while place.store.ended.has(None) {
        tokio::task::yield_now().await;
    }
}

/// It was last used when it ended, whatever the tables know.
#[tokio::test]
async fn a_session_whose_turn_has_just_ended_is_not_swept() {
    let place = Place::new(SyncMode::Normal);
    let (lease, version) = place.begin("s").await;
    place.store.append(&lease, "t", news(1)).await.unwrap();
    place.read("s", "t").await.unwrap();
    assert_eq!(place.store.run(true, unused_for_long).await.unwrap(), 1);
    let end = LogEnd::new("t", vec![event(1), event(2)]);
    place.store.finish(&lease, Some(version), "over".into(), end).await.unwrap();
    place.store.sweep();
    // On the thread, after the sweep.
    place.store.list(None, 1).await.unwrap();
    for place in [&place, &place.killed()] {
        assert_eq!(place.store.load("s").await.unwrap().unwrap().bytes, "over");
        assert_eq!(place.read("s", "t").await.unwrap().last, 2);
    }
}

pub(super) fn unused_for_long(connection: &Connection) -> Result<usize, StoreError> {
    statements::execute(connection, "UPDATE sessions SET used_at = 0", [])
}

/// Whoever has just been told that a turn is over, and asks at once.
#[tokio::test]
async fn the_next_turn_finds_what_the_last_one_left() {
    let place = Place::new(SyncMode::Normal);
    end_turn(&place, "s").await;
    let entered = place.store.enter("s", place.node).await.unwrap().unwrap();
    assert_eq!(entered.record.unwrap().bytes, "over");
    assert!(!entered.is_interrupted);
    assert_eq!(entered.lease.epoch, 1, "it has not changed hands");
}

/// It would be written twice.
#[tokio::test]
async fn reading_what_a_turn_has_left_moves_no_running_turn() {
    let place = Place::new(SyncMode::Normal);
    let (running, _) = place.begin("running").await;
    place.store.append(&running, "t", news(1)).await.unwrap();
    end_turn(&place, "over").await;
    place.store.load("over").await.unwrap();
    assert!(place.store.redo.has(Some("running")));
}

/// Or else they would be written twice: once from the file.
#[tokio::test]
async fn ended_turns_move_before_running_ones() {
    let place = Place::new(SyncMode::Normal);
    let (running, _) = place.begin("running").await;
    place.store.append(&running, "t", news(1)).await.unwrap();
    end_turn(&place, "over").await;
    place.read("running", "t").await.unwrap();
    assert!(!place.store.ended.has(None));
}

#[tokio::test]
#[expect(clippy::await_holding_lock, reason = "whoever has the worker is late")]
async fn a_thread_that_is_late_does_not_let_ends_pile_up() {
    let place = Place::new(SyncMode::Normal);
    let late = Arc::clone(&place.store.worker);
    let late = late.lock();
    for session in 0..limits::ENDED_TURNS_MAX {
        let lease = place.store.leases.grant(&session.to_string(), place.node, 1, None);
        place
            .store
            .finish(&lease, None, "over".into(), LogEnd::new("t", vec![event(1)]))
            .await
            .unwrap();
    }
    let lease = place.store.leases.grant("one more", place.node, 1, None);
    let mut end = place.store.finish(&lease, None, "over".into(), LogEnd::new("t", vec![event(1)]));
    let mut cx = Context::from_waker(Waker::noop());
    assert!(end.as_mut().poll(&mut cx).is_pending());
    drop(late);
    end.await.unwrap();
    let listed = place.store.list(None, usize::MAX).await.unwrap();
    assert_eq!(listed.len(), limits::ENDED_TURNS_MAX + 1);
}

/// The session was deleted meanwhile, and begun again.
#[test]
fn an_end_that_the_tables_lack_stays() {
    let ended = EndedTurns::default();
    let end = |version| {
        let lease = Lease { session_id: "s".into(), node: NodeId::random(), epoch: 1, grant: 1 };
        let (turn_id, version) = ("t".to_owned(), Version(version));
        let record = Bytes::from_static(b"record");
        let turn = EndedTurn { lease, turn_id, version, at: 0, record, batches: Vec::new() };
        ended.end(|| Ok(((), turn))).unwrap();
    };
    end(1);
    let first = ended.all();
    end(2);
    ended.remove(&first);
    assert_eq!(ended.all()[0].version, Version(2));
}

#[tokio::test]
async fn a_long_end_does_not_wait() {
    let place = Place::new(SyncMode::Normal);
    for (bytes, waits) in
        [(limits::INLINE_RECORD_BYTES_MAX, true), (limits::INLINE_RECORD_BYTES_MAX + 1, false)]
    {
        let (lease, version) = place.begin("s").await;
        let record = vec![b'x'; bytes - event(1).bytes.len()];
        let end = LogEnd::new("t", vec![event(1)]);
        place.store.finish(&lease, Some(version), record.into(), end).await.unwrap();
        assert_eq!(place.store.ended.has(Some("s")), waits);
        assert_eq!(place.store.redo.has(Some("s")), waits, "the tables have all of it");
        place.store.forget("s").await.unwrap();
    }
}

#[tokio::test]
async fn a_turn_that_is_over_does_not_come_back() {
    let place = Place::new(SyncMode::Normal);
    let (lease, version) = place.begin("s").await;
    // Another turn runs, so that the file is not emptied.
    let (other, _) = place.begin("other").await;
    place.store.append(&other, "o", news(1)).await.unwrap();
    place.store.append(&lease, "t", news(1)).await.unwrap();
    let end = LogEnd::new("t", vec![event(1), event(2)]);
    place.store.finish(&lease, Some(version), "over".into(), end).await.unwrap();
    let ended = copy_of(&place.directory);
    // This brings it into the tables.
    place.read("s", "t").await.unwrap();
    let between = copy_of(&place.directory);
    for name in ["tether.db-redo1", "tether.db-redo2", "tether.db-redo-buffer"] {
        fs::copy(ended.path().join(name), between.path().join(name)).unwrap();
    }
    let settled = copy_of(&place.directory);
    // Killed before the tables have it; before the file says that they have it; and after that.
    for left in [ended, between, settled] {
        let next = Place::of(left, SyncMode::Normal);
        let log = next.read("s", "t").await.unwrap();
        assert_eq!((log.last, text_of(&log), log.journal), (2, text_up_to(2), None));
        assert_eq!(next.store.load("s").await.unwrap().unwrap().bytes, "over");
        assert_eq!(next.store.interrupted(9).await.unwrap(), ["other"]);
        assert_running(next.read("other", "o").await, 1);
    }
}

/// What its turn had begun with is still in the file then.
#[tokio::test]
async fn a_session_that_was_deleted_after_its_turn_does_not_come_back() {
    let place = Place::new(SyncMode::Normal);
    let (lease, version) = place.begin("s").await;
    place.store.append(&lease, "t", news(1)).await.unwrap();
    let end = LogEnd::new("t", vec![event(1), event(2)]);
    place.store.finish(&lease, Some(version), "over".into(), end).await.unwrap();
    place.store.release(&lease).await.unwrap();
    assert!(place.store.forget("s").await.unwrap());
    assert_eq!(place.killed().store.load("s").await.unwrap(), None);

    // And not if the file does not say that the tables have it, because that could not be written.
    let place = Place::new(SyncMode::Normal);
    let (lease, version) = place.begin("s").await;
    place
        .store
        .finish(&lease, Some(version), "over".into(), LogEnd::new("t", vec![event(1)]))
        .await
        .unwrap();
    place.store.redo.fail_next_write();
    assert_eq!(place.store.load("s").await.unwrap().unwrap().bytes, "over");
    assert_eq!(place.killed().store.load("s").await.unwrap().unwrap().bytes, "over");
    assert!(place.store.forget("s").await.unwrap());
    assert_eq!(place.killed().store.load("s").await.unwrap(), None);
}

/// Its log was dropped since, because a session keeps so many of them. It must not come back as the latest.
#[tokio::test]
async fn a_turn_that_was_over_long_ago_does_not_come_back() {
    let place = Place::new(SyncMode::Normal);
    let (lease, mut version) = place.begin("s").await;
    let end = LogEnd::new("0", vec![event(1)]);
    version = place.store.finish(&lease, Some(version), "over".into(), end).await.unwrap();
    // So the file does not say that the tables have it.
    place.store.redo.fail_next_write();
    for turn in 1..=limits::TURN_LOGS_MAX {
        let lease = place.store.enter("s", place.node).await.unwrap().unwrap().lease;
        let (turn_id, batches) = (turn.to_string(), vec![event(1)]);
        let end = LogEnd::new(&turn_id, batches);
        version = place.store.finish(&lease, Some(version), "over".into(), end).await.unwrap();
    }
    for place in [&place, &place.killed()] {
        assert_eq!(place.read("s", "0").await, None);
        let latest = place.store.read("s", None, 0).await.unwrap().unwrap();
        assert_eq!(latest.turn_id, limits::TURN_LOGS_MAX.to_string());
    }
}

const SESSIONS: [&str; 3] = ["a", "b", "c"];

#[derive(Debug, Clone, Copy)]
enum Step {
    /// Begins a turn, or goes on with one that was interrupted.
    Begin(usize),
    /// Appends to a turn's log, at once or not.
    Append(usize, bool),
    /// Ends a turn, which may leave much.
    Finish(usize, bool),
    Forget(usize),
    Read(usize),
    List,
    ChangeFiles,
    /// The tables get the turns that have ended.
    PutEnded,
    /// The next write beside the database fails.
    FailWrite,
    Sweep,
    Kill,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let session = || 0..SESSIONS.len();
    let step = prop_oneof![
        6 => session().prop_map(Step::Begin),
        8 => (session(), any::<bool>()).prop_map(|(at, at_once)| Step::Append(at, at_once)),
        6 => (session(), prop::bool::weighted(0.1)).prop_map(|(at, long)| Step::Finish(at, long)),
        1 => session().prop_map(Step::Forget),
        2 => session().prop_map(Step::Read),
        1 => Just(Step::List),
        2 => Just(Step::ChangeFiles),
        1 => Just(Step::PutEnded),
        1 => Just(Step::FailWrite),
        1 => Just(Step::Sweep),
        2 => Just(Step::Kill),
    ];
    prop::collection::vec(step, 1..60)
}

/// What a session should have.
#[derive(Debug, Default)]
struct Model {
    record: String,
    /// How many turns it has had.
    turns: u64,
    /// How many events the latest has, and whether it runs, once it has any.
    events: u64,
    is_running: bool,
    /// Who runs it now.
    holder: Option<Holder>,
}

/// What a turn has that runs.
#[derive(Debug, Clone)]
struct Holder {
    lease: Lease,
    version: Option<Version>,
    appender: Arc<dyn Appender>,
}

impl Model {
    fn turn_id(&self) -> String {
        format!("turn {}", self.turns)
    }
}

/// What was done; `None` if a write has failed.
fn done<T>(result: Result<T, StoreError>) -> Option<T> {
    match result {
        Ok(done) => Some(done),
        Err(StoreError::Unavailable(_)) => None,
        Err(refused) => panic!("{refused}"),
    }
}

/// A store, and what it should have.
struct Run {
    place: Place,
    models: BTreeMap<&'static str, Model>,
}

impl Run {
    async fn step(&mut self, step: Step) {
        match step {
            Step::Begin(at) => self.begin(SESSIONS[at]).await,
            Step::Append(at, at_once) => self.append(SESSIONS[at], at_once).await,
            Step::Finish(at, is_long) => self.finish(SESSIONS[at], is_long).await,
            Step::Forget(at) => {
                let session = SESSIONS[at];
                if let Some(forgotten) = done(self.place.store.forget(session).await) {
                    assert_eq!(forgotten, self.models.remove(session).is_some());
                } else if let Some(model) = self.models.get_mut(session) {
                    model.holder = None;
                }
            }
            Step::Read(at) => self.check(SESSIONS[at]).await,
            Step::List => {
                let listed = self.place.store.list(None, 9).await.unwrap();
                let listed = listed.iter().map(|session| &*session.id);
                assert!(listed.eq(self.models.keys().copied()));
            }
            Step::ChangeFiles => self.place.store.redo.change_files(),
            Step::PutEnded => self.place.store.worker.lock().put_ended().unwrap(),
            Step::FailWrite => self.place.store.redo.fail_next_write(),
            Step::Sweep => self.place.store.sweep(),
            Step::Kill => {
                self.place = self.place.killed();
                self.models.values_mut().for_each(|model| model.holder = None);
            }
        }
    }

    async fn begin(&mut self, session: &'static str) {
        let store = &self.place.store;
        if self.models.get(session).is_some_and(|model| model.holder.is_some()) {
            return;
        }
        let Some(entered) = done(store.enter(session, self.place.node).await) else { return };
        let entered = entered.unwrap();
        let Entered { lease, is_interrupted, record, .. } = entered;
        let was_running = self.models.get(session).is_some_and(|model| model.is_running);
        assert_eq!(is_interrupted, was_running, "{session}");
        let mut model = self.models.remove(session).unwrap_or_default();
        let found = record.as_ref().map(|record| &record.bytes[..]);
        assert_eq!(found.unwrap_or_default(), model.record.as_bytes());
        let mut version = record.map(|record| record.version);
        if !is_interrupted {
            let record = format!("turn {} begun", model.turns + 1);
            let saved = done(store.save(&lease, version, record.clone().into()).await);
            if saved.is_none() {
                store.release(&lease).await.unwrap();
                if version.is_some() {
                    self.models.insert(session, model);
                }
                return;
            }
            (model.turns, model.events, model.record, version) =
                (model.turns + 1, 0, record, saved);
        }
        let appender = store.appender(&lease, &model.turn_id()).unwrap();
        model.holder = Some(Holder { lease, version, appender });
        self.models.insert(session, model);
    }

    async fn append(&mut self, session: &'static str, at_once: bool) {
        let Some(model) = self.models.get_mut(session) else { return };
        let turn_id = model.turn_id();
        let Some(Holder { lease, appender, .. }) = &model.holder else { return };
        let news = news(model.events + 1);
        let is_done = if at_once {
            append_inline(&**appender, &news)
        } else {
            done(self.place.store.append(lease, &turn_id, news).await).is_some()
        };
        if is_done {
            (model.events, model.is_running) = (model.events + 1, true);
        }
    }

    async fn finish(&mut self, session: &'static str, is_long: bool) {
        let Some(model) = self.models.get_mut(session) else { return };
        let Some(Holder { lease, version, .. }) = model.holder.clone() else { return };
        let padding = if is_long { limits::INLINE_RECORD_BYTES_MAX } else { 0 };
        let (turn_id, events) = (model.turn_id(), model.events + 1);
        let record = format!("{turn_id} over{}", " ".repeat(padding));
        let end = LogEnd::new(&turn_id, (1..=events).map(event).collect());
        let ended = self.place.store.finish(&lease, version, record.clone().into(), end).await;
        if done(ended).is_some() {
            (model.events, model.is_running) = (events, false);
            (model.record, model.holder) = (record, None);
        }
    }

    async fn check(&self, session: &str) {
        let store = &self.place.store;
        let record = store.load(session).await.unwrap().map(|record| record.bytes);
        let Some(model) = self.models.get(session) else {
            assert_eq!((record, store.read(session, None, 0).await.unwrap()), (None, None));
            return;
        };
        assert_eq!(record.unwrap(), model.record);
        if model.events == 0 {
            return;
        }
        let log = store.read(session, None, 0).await.unwrap().unwrap();
        assert_eq!((log.turn_id.clone(), log.last), (model.turn_id(), model.events));
        assert_eq!(text_of(&log), text_up_to(model.events));
        let journal = model.is_running.then(|| format!("after {}", model.events).into());
        assert_eq!(log.journal, journal);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, failure_persistence: None, ..ProptestConfig::default() })]

    /// Whenever it is killed, and wherever its sessions are then: in the tables, beside them, or in both.
    #[test]
    fn a_store_has_what_a_plain_map_would_have(steps in steps()) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(async {
            let mut run = Run { place: Place::new(SyncMode::Normal), models: BTreeMap::new() };
            for step in steps {
                run.step(step).await;
            }
            run.step(Step::Kill).await;
            for session in SESSIONS {
                run.check(session).await;
            }
        });
    }
}
