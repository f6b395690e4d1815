//! What the writer of a running turn's log appends at once.

use super::super::LogNewsRef;
use super::redo_tests::{
    Place, TTL, append_inline, assert_running, event, news, text_of, text_up_to,
};
use super::*;

/// A running turn, and its appender.
async fn running(place: &Place) -> (Lease, Version, Arc<dyn Appender>) {
    let (lease, version) = place.begin("s").await;
    let appender = place.store.appender(&lease, "t").unwrap();
    (lease, version, appender)
}

#[tokio::test]
async fn a_killed_process_leaves_what_was_appended_at_once() {
    let place = Place::new(SyncMode::Normal);
    let (_, _, appender) = running(&place).await;
    for sequence in 1..=3 {
        assert!(append_inline(&*appender, &news(sequence)));
        assert_running(place.killed().read("s", "t").await, sequence);
    }
    assert_running(place.read("s", "t").await, 3);
}

#[tokio::test]
async fn each_file_assigns_an_alias_of_its_own() {
    let place = Place::new(SyncMode::Normal);
    let (lease, version, appender) = running(&place).await;
    for sequence in 1..=4 {
        assert!(append_inline(&*appender, &news(sequence)));
        if sequence % 2 == 1 {
            place.store.redo.change_files();
        }
        assert_running(place.killed().read("s", "t").await, sequence);
    }
    // Which reads, and so empties, both.
    assert_running(place.read("s", "t").await, 4);
    assert!(append_inline(&*appender, &news(5)));
    assert_running(place.killed().read("s", "t").await, 5);
    let end = LogEnd::new("t", (1..=6).map(event).collect());
    place.store.finish(&lease, Some(version), "over".into(), end).await.unwrap();
    for place in [&place, &place.killed()] {
        assert_eq!(text_of(&place.read("s", "t").await.unwrap()), text_up_to(6));
    }
}

#[tokio::test]
async fn nothing_is_appended_without_the_lease() {
    let place = Place::new(SyncMode::Normal);
    for lose in 0..6 {
        let (lease, version, appender) = running(&place).await;
        assert!(append_inline(&*appender, &news(1)));
        match lose {
            0 => assert!(place.store.forget("s").await.unwrap()),
            1 => place.store.release(&lease).await.unwrap(),
            2 => drop(place.store.enter("s", place.node).await.unwrap().unwrap()),
            3 => place.store.discard(&lease).await.unwrap(),
            // Another appender takes its place.
            4 => assert!(place.store.appender(&lease, "t").is_some()),
            _ => {
                let end = LogEnd::new("t", vec![event(1)]);
                place.store.finish(&lease, Some(version), "over".into(), end).await.unwrap();
            }
        }
        assert!(!append_inline(&*appender, &news(2)), "{lose}");
        let late = place.store.appender(&lease, "t").unwrap();
        assert_eq!(append_inline(&*late, &news(2)), lose == 4, "{lose}");
        place.store.forget("s").await.unwrap();
    }
}

/// As on a full disk. The next append takes its place.
#[tokio::test]
async fn what_cannot_be_written_leaves_no_trace() {
    for fails_at in 1..=3 {
        let place = Place::new(SyncMode::Normal);
        let (lease, _, appender) = running(&place).await;
        for sequence in 1..=3 {
            if sequence == fails_at {
                place.store.redo.fail_next_write();
                assert!(!append_inline(&*appender, &news(sequence)));
                place.store.append(&lease, "t", news(sequence)).await.unwrap();
            } else {
                assert!(append_inline(&*appender, &news(sequence)));
            }
        }
        assert_running(place.killed().read("s", "t").await, 3);
    }
}

#[tokio::test]
async fn what_waits_for_the_disk_is_not_appended_at_once() {
    let place = Place::new(SyncMode::Full);
    let (lease, _) = place.begin("s").await;
    assert!(place.store.appender(&lease, "t").is_none());
}

/// A turn whose task is dropped late must not hold up the end of the process.
#[tokio::test]
async fn an_appender_stops_with_its_store() {
    let place = Place::new(SyncMode::Normal);
    let (_, _, appender) = running(&place).await;
    assert!(append_inline(&*appender, &news(1)));
    let Place { directory, store, .. } = place;
    drop(store);
    let next =
        SqliteStore::open(&directory.path().join("tether.db"), SyncMode::Normal, TTL).unwrap();
    assert!(!append_inline(&*appender, &news(2)), "not to files that are another's");
    assert_running(next.read("s", Some("t"), 0).await.unwrap(), 1);
}

#[test]
fn an_alias_means_the_turn_that_it_was_last_assigned_to() {
    let lease = |session: &str| Lease {
        session_id: session.into(),
        node: NodeId::random(),
        epoch: 1,
        grant: 1,
    };
    let append = |file: &mut Vec<u8>, number, first| {
        let news = LogNewsRef { first, last: first, runs: &[], journal: None };
        redo_record::alias_news(file, number, &news);
    };
    let mut file = redo_record::header(1);
    append(&mut file, 1, 1);
    redo_record::alias(&mut file, &lease("a"), "t", 1);
    redo_record::alias(&mut file, &lease("b"), "t", 2);
    append(&mut file, 1, 2);
    append(&mut file, 2, 3);
    redo_record::alias(&mut file, &lease("c"), "t", 1);
    append(&mut file, 1, 4);
    append(&mut file, 3, 5);
    append(&mut file, 2, 6);
    let read = redo_record::records(&file).map(|record| match record.body {
        redo_record::Body::News { news, .. } => (record.session_id, news.first),
        other => panic!("{other:?}"),
    });
    assert_eq!(read.collect::<Vec<_>>(), [("a", 2), ("b", 3), ("c", 4), ("b", 6)]);
}

/// As when the session is deleted between the check of the lease and the write.
#[tokio::test]
async fn what_comes_after_the_lease_is_lost_is_not_written() {
    let place = Place::new(SyncMode::Normal);
    let (lease, version) = place.begin("s").await;
    let redo = &place.store.redo;
    assert_eq!(redo.append(|| false, &lease, "t", &news(1)).unwrap(), None);
    let saved = (Version(version.0 + 1), 0);
    assert_eq!(redo.save(|| false, &lease, saved, b"{}").unwrap(), None);
    let next = place.killed();
    assert_eq!(next.read("s", "t").await, None);
    assert_eq!(next.store.load("s").await.unwrap().unwrap().version, version);
}
