//! What running turns have written beside the database, after whatever has happened to their process.

use std::fs;
use std::path::PathBuf;

use super::super::{Batch, LogNewsRef, Run};
use super::*;

pub(super) const TTL: Duration = Duration::from_secs(60);

/// A store in a folder of its own, and the node that uses it.
pub(super) struct Place {
    pub(super) directory: tempfile::TempDir,
    pub(super) store: SqliteStore,
    pub(super) node: NodeId,
}

impl Place {
    pub(super) fn new(sync: SyncMode) -> Self {
        Self::of(tempfile::tempdir().unwrap(), sync)
    }

    pub(super) fn of(directory: tempfile::TempDir, sync: SyncMode) -> Self {
        let store = SqliteStore::open(&directory.path().join("tether.db"), sync, TTL).unwrap();
        Self { directory, store, node: NodeId::random() }
    }

    /// What a process that is killed now leaves, opened by the next.
    pub(super) fn killed(&self) -> Self {
        Self::of(copy_of(&self.directory), SyncMode::Normal)
    }

    /// The files of running turns, with all that is in them.
    fn redo(&self) -> [PathBuf; 2] {
        self.store.redo.flush();
        redo::paths(&self.directory.path().join("tether.db"))
    }

    /// The copies of damaged files.
    pub(super) fn damaged(&self) -> Vec<String> {
        let names = fs::read_dir(self.directory.path()).unwrap();
        let names = names.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        names.filter(|name| name.ends_with(".damaged")).collect()
    }

    async fn lease(&self, session: &str) -> Lease {
        self.store.acquire(session, self.node).await.unwrap().unwrap()
    }

    /// Begins a session with a running turn.
    pub(super) async fn begin(&self, session: &str) -> (Lease, Version) {
        let lease = self.lease(session).await;
        let version = self.store.save(&lease, None, "record".into()).await.unwrap();
        (lease, version)
    }

    pub(super) async fn read(&self, session: &str, turn: &str) -> Option<StoredLog> {
        self.store.read(session, Some(turn), 0).await.unwrap()
    }
}

/// A copy of what is in a directory. The store's thread may be at work: what it moves from one file to another is
/// copied from the first of them, or from both.
pub(super) fn copy_of(directory: &tempfile::TempDir) -> tempfile::TempDir {
    let copy = tempfile::tempdir().unwrap();
    let names = fs::read_dir(directory.path()).unwrap().map(|entry| entry.unwrap().file_name());
    let mut names: Vec<_> = names.collect();
    // The buffer, the redo files, the log, and the database.
    names.sort_by_key(|name| (name == "tether.db", name.clone()));
    for name in names {
        fs::copy(directory.path().join(&name), copy.path().join(&name)).unwrap();
    }
    copy
}

/// Appends as the writer of a running turn's log does.
pub(super) fn append_inline(appender: &dyn Appender, news: &LogNews) -> bool {
    let LogNews { batches, journal } = news;
    let run = |batch: &Batch| Run { first: batch.first, bytes: batch.bytes.clone() };
    let runs: Vec<_> = batches.iter().map(run).collect();
    let first = batches.first().map_or(0, |batch| batch.first);
    let last = batches.last().map_or(0, |batch| batch.last);
    appender.append(&LogNewsRef { first, last, runs: &runs, journal: journal.as_deref() })
}

pub(super) fn event(sequence: u64) -> Batch {
    Batch { first: sequence, last: sequence, bytes: format!("event {sequence}\n").into() }
}

pub(super) fn news(sequence: u64) -> LogNews {
    LogNews { batches: vec![event(sequence)], journal: Some(format!("after {sequence}").into()) }
}

/// All events up to this one, as a log has them whose batches may have been joined.
pub(super) fn text_up_to(last: u64) -> String {
    (1..=last)
        .flat_map(|sequence| ["event ".to_owned(), sequence.to_string(), "\n".to_owned()])
        .collect()
}

pub(super) fn text_of(log: &StoredLog) -> String {
    let batches = log.batches.iter().map(|batch| String::from_utf8(batch.bytes.to_vec()).unwrap());
    batches.collect()
}

/// It says what was appended up to this event.
#[track_caller]
pub(super) fn assert_running(log: Option<StoredLog>, last: u64) {
    let log = log.unwrap();
    assert_eq!((log.last, text_of(&log)), (last, text_up_to(last)));
    assert_eq!(log.journal.unwrap(), format!("after {last}"));
}

#[tokio::test]
async fn a_killed_process_leaves_what_its_turns_have_appended() {
    for sync in [SyncMode::Normal, SyncMode::Full] {
        let place = Place::new(sync);
        let (a, _) = place.begin("a").await;
        let (b, _) = place.begin("b").await;
        for sequence in 1..=3 {
            place.store.append(&a, "one", news(sequence)).await.unwrap();
            place.store.append(&b, "two", news(sequence)).await.unwrap();
        }
        let next = place.killed();
        assert_eq!(next.store.interrupted(9).await.unwrap(), ["a", "b"]);
        assert_running(next.read("a", "one").await, 3);
        assert_running(next.read("b", "two").await, 3);
        assert_eq!(next.lease("a").await.epoch, 2);
    }
}

/// Before its turn has appended anything.
#[tokio::test]
async fn a_killed_process_leaves_what_it_has_saved() {
    let place = Place::new(SyncMode::Normal);
    let (lease, first) = place.begin("s").await;
    let second = place.store.save(&lease, Some(first), "second".into()).await.unwrap();
    let refused = place.store.save(&lease, Some(first), "third".into()).await;
    assert_eq!(refused, Err(StoreError::Superseded));
    let next = place.killed();
    let stored = StoredRecord { version: second, bytes: "second".into() };
    assert_eq!(next.store.load("s").await.unwrap(), Some(stored.clone()));
    let entered = next.store.enter("s", next.node).await.unwrap().unwrap();
    assert_eq!(
        (entered.record, entered.is_interrupted, entered.lease.epoch),
        (Some(stored), false, 2)
    );
    let third = next.store.save(&entered.lease, Some(second), "third".into()).await.unwrap();
    assert!(third.0 > second.0, "{third:?}");
}

/// Although the tables have nothing else of the session yet.
#[tokio::test]
async fn a_file_that_a_first_turn_has_kept_outlives_a_kill() {
    let place = Place::new(SyncMode::Normal);
    place.begin("s").await;
    let artifact = Artifact {
        owner: String::new(),
        id: "file".to_owned(),
        name: None,
        mime_type: "text/plain".to_owned(),
        bytes: "text".into(),
    };
    place.store.keep_artifact("s", artifact.clone()).await.unwrap();
    assert_eq!(place.killed().store.artifact("file").await.unwrap(), Some(artifact.clone()));

    // Of a session that was never saved, nothing is left.
    let place = Place::new(SyncMode::Normal);
    let _lease = place.lease("s").await;
    place.store.keep_artifact("s", artifact).await.unwrap();
    assert_eq!(place.killed().store.artifact("file").await.unwrap(), None);
}

/// By a power cut, at any byte: a part of the log is left, without a gap, and nothing else.
#[tokio::test]
async fn a_cut_file_costs_the_last_appends_alone() {
    let place = Place::new(SyncMode::Normal);
    let (lease, _) = place.begin("s").await;
    let appender = place.store.appender(&lease, "t").unwrap();
    let length = || fs::metadata(&place.redo()[0]).unwrap().len();
    let mut lengths = vec![length()];
    place.store.append(&lease, "t", news(1)).await.unwrap();
    lengths.push(length());
    for sequence in 2..=3 {
        assert!(append_inline(&*appender, &news(sequence)));
        lengths.push(length());
    }
    let whole = fs::read(&place.redo()[0]).unwrap();
    for cut in 0..=whole.len() {
        let copy = copy_of(&place.directory);
        fs::write(copy.path().join("tether.db-redo1"), &whole[..cut]).unwrap();
        let next = Place::of(copy, SyncMode::Normal);
        let kept = lengths.iter().filter(|length| **length <= cut as u64).count().max(1) - 1;
        match next.read("s", "t").await {
            None => assert_eq!(kept, 0, "cut at {cut}"),
            log => assert_running(log, kept as u64),
        }
    }
}

#[tokio::test]
async fn a_damaged_byte_costs_what_comes_after_it() {
    let place = Place::new(SyncMode::Normal);
    let (lease, _) = place.begin("s").await;
    let appender = place.store.appender(&lease, "t").unwrap();
    place.store.append(&lease, "t", news(1)).await.unwrap();
    for sequence in 2..=3 {
        assert!(append_inline(&*appender, &news(sequence)));
    }
    let [file, _] = place.redo();
    let whole = fs::read(&file).unwrap();
    for at in usize::try_from(redo_record::HEADER_BYTES).unwrap()..whole.len() {
        let mut damaged = whole.clone();
        damaged[at] ^= 0x41;
        let copy = copy_of(&place.directory);
        fs::write(copy.path().join("tether.db-redo1"), &damaged).unwrap();
        let next = Place::of(copy, SyncMode::Normal);
        if let Some(log) = next.read("s", "t").await {
            let last = log.last;
            assert!(last < 3, "byte {at}");
            assert_running(Some(log), last);
        }
    }
}

/// By a fault of the disk, or by hand. Somebody may want to look.
#[tokio::test]
async fn a_damaged_file_is_kept_as_a_copy() {
    let place = Place::new(SyncMode::Normal);
    let (lease, _) = place.begin("s").await;
    place.store.append(&lease, "t", news(1)).await.unwrap();
    assert!(place.killed().damaged().is_empty());
    place.store.redo.flush();
    let copy = copy_of(&place.directory);
    let file = copy.path().join("tether.db-redo1");
    let mut damaged = fs::read(&file).unwrap();
    *damaged.last_mut().unwrap() ^= 0x41;
    fs::write(&file, &damaged).unwrap();
    let next = Place::of(copy, SyncMode::Normal);
    assert_eq!(next.damaged(), ["tether.db-redo1.damaged"]);
    assert_eq!(fs::read(next.directory.path().join("tether.db-redo1.damaged")).unwrap(), damaged);
}

/// A record of which a part was written must not hide those after it.
#[tokio::test]
async fn what_a_failed_write_left_is_taken_back() {
    let place = Place::new(SyncMode::Normal);
    let (lease, _) = place.begin("s").await;
    place.store.append(&lease, "t", news(1)).await.unwrap();
    place.store.redo.fail_next_write();
    let failed = place.store.append(&lease, "t", news(2)).await;
    assert!(matches!(failed, Err(StoreError::Unavailable(_))), "{failed:?}");
    place.store.append(&lease, "t", news(2)).await.unwrap();
    assert_running(place.killed().read("s", "t").await, 2);
}

#[tokio::test]
async fn a_file_that_cannot_be_written_is_not_ready() {
    let place = Place::new(SyncMode::Normal);
    place.store.check().await.unwrap();
    place.store.redo.fail_next_write();
    assert!(matches!(place.store.check().await, Err(StoreError::Unavailable(_))));
    place.store.check().await.unwrap();
}

/// A process that is killed after it has moved a file into the database, but before it has emptied it.
#[tokio::test]
async fn what_was_folded_is_not_folded_twice() {
    let place = Place::new(SyncMode::Normal);
    let (lease, _) = place.begin("s").await;
    for sequence in 1..=2 {
        place.store.append(&lease, "t", news(sequence)).await.unwrap();
    }
    let files = place.redo().map(|path| fs::read(path).unwrap());
    assert_running(place.read("s", "t").await, 2);
    for path in place.redo() {
        assert_eq!(fs::metadata(path).unwrap().len(), redo_record::HEADER_BYTES, "it is empty");
    }
    let copy = copy_of(&place.directory);
    for (name, bytes) in ["tether.db-redo1", "tether.db-redo2"].iter().zip(&files) {
        fs::write(copy.path().join(name), bytes).unwrap();
    }
    let next = Place::of(copy, SyncMode::Normal);
    assert_running(next.read("s", "t").await, 2);

    // The turn goes on in the other file.
    place.store.append(&lease, "t", news(3)).await.unwrap();
    assert_running(place.killed().read("s", "t").await, 3);
}

#[tokio::test]
async fn a_session_that_was_deleted_does_not_come_back() {
    let place = Place::new(SyncMode::Normal);
    let (lease, _) = place.begin("s").await;
    let (other, _) = place.begin("other").await;
    place.store.append(&other, "o", news(1)).await.unwrap();
    place.store.append(&lease, "t", news(1)).await.unwrap();
    assert!(place.store.forget("s").await.unwrap());
    let (_, version) = place.begin("s").await;
    let next = place.killed();
    assert_eq!(next.read("s", "t").await, None, "not in the session that has its id now");
    assert_eq!(next.store.load("s").await.unwrap().unwrap().version, version);
    assert_running(next.read("other", "o").await, 1);
}

/// The older file has a turn, and the newer one that its session was deleted. Another has its id now.
#[tokio::test]
async fn what_is_over_in_the_newer_file_is_not_folded_from_the_older_one() {
    let place = Place::new(SyncMode::Normal);
    let (lease, _) = place.begin("s").await;
    let (other, _) = place.begin("other").await;
    place.store.append(&lease, "t", news(1)).await.unwrap();
    place.store.append(&other, "o", news(1)).await.unwrap();
    place.store.redo.change_files();
    place.store.append(&other, "o", news(2)).await.unwrap();
    assert!(place.store.forget("s").await.unwrap());
    place.begin("s").await;
    for place in [&place.killed(), &place] {
        assert_running(place.read("other", "o").await, 2);
        assert_eq!(place.read("s", "t").await, None);
        assert_eq!(place.read("s", "t").await, None);
    }
}

/// Also in the older file, if turns have gone on in the other one meanwhile. What need not reach the disk is not
/// waited for.
#[tokio::test]
async fn what_counts_only_on_the_disk_is_brought_there() {
    for sync in [SyncMode::Normal, SyncMode::Full] {
        let place = Place::new(sync);
        let (lease, _) = place.begin("s").await;
        place.store.redo.append(|| true, &lease, "t", &news(1)).unwrap();
        place.store.redo.change_files();
        place.store.append(&lease, "t", news(2)).await.unwrap();
        // On the thread, whatever the mode.
        place.store.copy("other").await.unwrap();
        assert_eq!(place.store.redo.is_dirty(), sync == SyncMode::Normal);
    }
}

/// Of a turn that runs for long, what is in the older file moves into the database once both are long.
#[tokio::test]
async fn a_turn_that_runs_for_long_moves_into_the_database() {
    run_for_long(false).await;
    run_for_long(true).await;
}

async fn run_for_long(at_once: bool) {
    const MIB: u64 = 1 << 20;
    let place = Place::new(SyncMode::Normal);
    let (lease, version) = place.begin("s").await;
    let appender = place.store.appender(&lease, "t").unwrap();
    let text = "x".repeat(1 << 20);
    let batch = |sequence| Batch {
        first: sequence,
        last: sequence,
        bytes: format!("{sequence} {text}\n").into(),
    };
    let count = 2 * limits::REDO_BYTES_MAX / MIB + 8;
    for sequence in 1..=count {
        let news = LogNews { batches: vec![batch(sequence)], journal: Some("running".into()) };
        if at_once {
            assert!(append_inline(&*appender, &news));
        } else {
            place.store.append(&lease, "t", news).await.unwrap();
        }
    }
    let bytes = || place.redo().iter().map(|path| fs::metadata(path).unwrap().len()).sum::<u64>();
    while bytes() > limits::REDO_BYTES_MAX + 9 * MIB {
        tokio::task::yield_now().await;
    }
    let log = place.killed().read("s", "t").await.unwrap();
    assert_eq!((log.last, log.journal), (count, Some("running".into())));
    let all: Vec<_> = (1..=count).map(batch).collect();
    place.store.finish(&lease, Some(version), "over".into(), LogEnd::new("t", all)).await.unwrap();
    let log = place.read("s", "t").await.unwrap();
    assert_eq!((log.last, log.journal), (count, None));
    let bytes: usize = log.batches.iter().map(|batch| batch.bytes.len()).sum();
    assert_eq!(bytes as u64, (1..=count).map(|it| batch(it).bytes.len() as u64).sum::<u64>());
}

/// Turns that overlap, none of which outlives a file.
#[tokio::test]
async fn a_file_whose_turns_are_over_is_emptied() {
    let place = Place::new(SyncMode::Normal);
    let text = Bytes::from("x".repeat(8 << 20));
    let mut before: Option<(Lease, Version)> = None;
    for turn in 0..12 {
        let (lease, version) = place.begin(&format!("s{turn}")).await;
        let events = Batch { first: 1, last: 1, bytes: text.clone() };
        let news = LogNews { batches: vec![events], journal: Some("running".into()) };
        place.store.append(&lease, "t", news).await.unwrap();
        if let Some((lease, version)) = before.replace((lease, version)) {
            let end = LogEnd::new("t", vec![event(1)]);
            place.store.finish(&lease, Some(version), "over".into(), end).await.unwrap();
        }
    }
    let bytes = || place.redo().iter().map(|path| fs::metadata(path).unwrap().len()).sum::<u64>();
    while bytes() >= 2 * limits::REDO_BYTES_MAX {
        tokio::task::yield_now().await;
    }
    let (lease, version) = before.unwrap();
    let end = LogEnd::new("t", vec![event(1)]);
    place.store.finish(&lease, Some(version), "over".into(), end).await.unwrap();
    place.store.load(&lease.session_id).await.unwrap();
    // Nothing counts any more.
    while bytes() >= limits::REDO_BYTES_KEPT {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_store_that_is_closed_leaves_one_file() {
    let place = Place::new(SyncMode::Normal);
    let (lease, _) = place.begin("s").await;
    place.store.append(&lease, "t", news(1)).await.unwrap();
    let Place { directory, store, .. } = place;
    drop(store);
    let names = fs::read_dir(directory.path()).unwrap().map(|entry| entry.unwrap().file_name());
    assert_eq!(names.collect::<Vec<_>>(), ["tether.db"]);
    assert_running(Place::of(directory, SyncMode::Normal).read("s", "t").await, 1);
}

/// The first had no records of sessions, the second no ends of turns, the third no buffer, and the fourth no numbers of
/// turns. Nothing is added to what is of an older format, because its release would misread that.
#[tokio::test]
async fn a_file_of_an_older_format_is_read_and_begun_anew() {
    let place = Place::new(SyncMode::Normal);
    let (lease, _) = place.begin("s").await;
    place.store.copy("s").await.unwrap();
    place.store.append(&lease, "t", news(1)).await.unwrap();
    place.store.redo.flush();
    for (format, is_empty) in [(1, false), (2, false), (3, false), (4, false), (4, true)] {
        let copy = copy_of(&place.directory);
        for name in ["tether.db-redo1", "tether.db-redo2"] {
            let mut file = fs::read(copy.path().join(name)).unwrap();
            file[12] = format;
            if is_empty {
                file.truncate(usize::try_from(redo_record::HEADER_BYTES).unwrap());
            }
            fs::write(copy.path().join(name), file).unwrap();
        }
        let next = Place::of(copy, SyncMode::Normal);
        if !is_empty {
            assert_running(next.read("s", "t").await, 1);
        }
        for path in next.redo() {
            assert_eq!(fs::read(path).unwrap()[12], 5, "format {format}");
        }
    }
}

#[test]
fn a_newer_file_and_one_of_another_program_are_left_alone() {
    for (bytes, is_newer) in
        [(&b"tether redo\n\x06\0\0\0\0\0\0\0\0\0\0\0"[..], true), (b"theirs", false)]
    {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("tether.db");
        drop(SqliteStore::open(&path, SyncMode::Normal, TTL).unwrap());
        let [_, redo] = redo::paths(&path);
        fs::write(&redo, bytes).unwrap();
        let refused = SqliteStore::open(&path, SyncMode::Normal, TTL).unwrap_err();
        assert_eq!(matches!(refused, OpenError::Newer { version: 6, .. }), is_newer, "{refused}");
        assert_eq!(matches!(refused, OpenError::Foreign(_)), !is_newer, "{refused}");
        assert_eq!(fs::read(&redo).unwrap(), bytes);
    }
}
