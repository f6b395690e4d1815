//! Sessions that have expired, or seem to have, as far as this store differs from others.

use super::ended_tests::unused_for_long;
use super::redo_tests::{Place, assert_running, event, news};
use super::*;

async fn age(place: &Place) {
    assert_eq!(place.store.run(true, unused_for_long).await.unwrap(), 1);
}

/// It was used as long as its turn ran, whatever the tables know.
#[tokio::test]
async fn a_session_whose_turn_was_interrupted_or_left_is_kept() {
    let place = Place::new(SyncMode::Normal);
    let (lease, _) = place.begin("s").await;
    place.store.append(&lease, "t", news(1)).await.unwrap();
    place.read("s", "t").await.unwrap();
    age(&place).await;
    let next = place.killed();
    assert_eq!(next.store.interrupted(9).await.unwrap(), ["s"]);
    assert_running(next.read("s", "t").await, 1);

    place.store.release(&lease).await.unwrap();
    assert_running(place.read("s", "t").await, 1);
}

/// The tables do not know yet that it has ended.
#[tokio::test]
async fn a_session_whose_turn_ends_during_a_sweep_is_kept() {
    let place = Place::new(SyncMode::Normal);
    let (lease, version) = place.begin("s").await;
    place.store.append(&lease, "t", news(1)).await.unwrap();
    place.read("s", "t").await.unwrap();
    age(&place).await;
    let end = LogEnd::new("t", vec![event(1), event(2)]);
    place.store.finish(&lease, Some(version), "over".into(), end).await.unwrap();
    let expiry = Arc::clone(&place.store.expiry);
    let sweep = move |connection: &Connection| expiry.delete(connection, None);
    assert!(place.store.run(true, sweep).await.unwrap().is_empty());
}

/// It is deleted later.
#[tokio::test]
async fn an_expired_session_is_gone_even_if_nothing_can_be_written() {
    let place = Place::new(SyncMode::Normal);
    let (lease, _) = place.begin("s").await;
    place.store.release(&lease).await.unwrap();
    age(&place).await;
    place.store.redo.fail_next_write();
    assert_eq!(place.store.load("s").await.unwrap(), None);
    let count = |connection: &Connection| Ok(schema::count(connection).unwrap());
    assert_eq!(place.store.run(true, count).await.unwrap(), 1);
    assert_eq!(place.store.load("s").await.unwrap(), None);
    assert_eq!(place.store.run(true, count).await.unwrap(), 0);
    assert!(!place.store.redo.has(None), "nothing is left to be done");
}

/// The tables do not know yet that its session is used.
#[tokio::test]
async fn a_file_of_a_session_that_was_just_saved_is_found() {
    let place = Place::new(SyncMode::Normal);
    let (lease, version) = place.begin("s").await;
    let artifact = Artifact {
        owner: String::new(),
        id: "f".to_owned(),
        name: None,
        mime_type: String::new(),
        bytes: Bytes::new(),
    };
    place.store.keep_artifact("s", artifact).await.unwrap();
    place.read("s", "t").await;
    age(&place).await;
    place.store.save(&lease, Some(version), "record".into()).await.unwrap();
    place.store.leases.release(&lease);
    assert!(place.store.artifact("f").await.unwrap().is_some());
}
