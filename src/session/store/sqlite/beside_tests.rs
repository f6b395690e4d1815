//! What is written beside the database, and does not count, or must not be emptied.

use super::super::Batch;
use super::redo_tests::{Place, assert_running, copy_of, event, news};
use super::*;

/// Whether or not anything else in it counts: the tables have yet to follow.
#[tokio::test]
async fn a_file_with_a_deletion_is_not_emptied() {
    for is_older in [false, true] {
        let place = Place::new(SyncMode::Normal);
        let (lease, version) = place.begin("s").await;
        place.store.release(&lease).await.unwrap();
        let redo = &place.store.redo;
        redo.forget("s", version).unwrap();
        if is_older {
            redo.change_files();
        } else {
            let bytes = vec![b'x'; usize::try_from(limits::REDO_BYTES_KEPT).unwrap()].into();
            let long = vec![Batch { first: 1, last: 1, bytes }];
            redo.append(|| true, &lease, "long", &long.into()).unwrap();
            redo.settle([("s", "long")].into_iter());
        }
        redo.empty_unneeded();
        assert_eq!(place.killed().store.load("s").await.unwrap(), None, "{is_older}");
    }
}

/// And keeps nobody from it.
#[tokio::test]
async fn a_turn_that_cannot_be_written_does_not_begin() {
    let place = Place::new(SyncMode::Normal);
    let (lease, _) = place.begin("s").await;
    place.store.release(&lease).await.unwrap();
    place.store.redo.fail_next_write();
    let refused = place.store.enter("s", place.node).await;
    assert!(matches!(refused, Err(StoreError::Unavailable(_))));
    assert!(place.store.enter("s", NodeId::random()).await.unwrap().is_some());
}

#[tokio::test]
async fn what_comes_after_a_gap_does_not_count() {
    let place = Place::new(SyncMode::Normal);
    let (lease, _) = place.begin("s").await;
    for sequence in [1, 3] {
        place.store.append(&lease, "t", news(sequence)).await.unwrap();
    }
    assert_running(place.killed().read("s", "t").await, 1);
}

/// The tables have its end, but the file does not say so, because that could not be written.
#[tokio::test]
async fn a_turn_that_is_over_gets_no_journal_back() {
    let place = Place::new(SyncMode::Normal);
    let (lease, version) = place.begin("s").await;
    place.store.append(&lease, "t", news(1)).await.unwrap();
    place.store.redo.fail_next_write();
    let record = vec![b'x'; limits::INLINE_RECORD_BYTES_MAX];
    let end = LogEnd::new("t", vec![event(1), event(2)]);
    place.store.finish(&lease, Some(version), record.into(), end).await.unwrap();
    let next = place.killed();
    assert!(next.store.interrupted(9).await.unwrap().is_empty());
    let log = next.read("s", "t").await.unwrap();
    assert_eq!((log.last, log.journal), (2, None));
}

/// If it could not be folded at the start, because the disk was full. The older file is folded alone, once there is room.
#[tokio::test]
async fn folding_the_older_file_leaves_the_other_one_live() {
    let place = Place::new(SyncMode::Normal);
    let (lease, _) = place.begin("s").await;
    place.store.append(&lease, "t", news(1)).await.unwrap();
    let left = copy_of(&place.directory);
    let redo = Redo::open(&left.path().join("tether.db"), SyncMode::Normal).unwrap();
    redo.note_unfolded().unwrap();
    let older = redo.begin_fold(redo::Extent::OlderFile).unwrap().unwrap();
    redo.end_fold(&older).unwrap();
    assert!(redo.has(Some("s")));
}
