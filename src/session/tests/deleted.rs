//! Answers that are deleted in sessions whose turn was interrupted.

use super::interrupted::{embedded, next, say};
use super::*;
use answers::DeletedAnswer;
use serde_json::value::RawValue;
use store::redis_tests;

/// Begins a turn whose answer is kept.
async fn begin_kept(sessions: &Sessions, turn_id: &str) -> (TurnGuard, Writer) {
    let head = RawValue::from_string("{}".to_owned()).unwrap();
    let input = ClientInput::default();
    let beginning = Beginning { head: Some(head.into()), ..beginning(turn_id, None, &input) };
    let begun = sessions.begin(beginning, |_| false).await.unwrap();
    (begun.guard, begun.writer)
}

/// Turn `one` has ended, and turn `two` is running.
async fn one_and_two(sessions: &Sessions) -> (TurnGuard, Writer) {
    let (guard, mut writer) = begin_kept(sessions, "one").await;
    writer.seal();
    guard.finish(Some(turn("one"))).await;
    drop(writer);
    let (mut guard, mut writer) = begin_kept(sessions, "two").await;
    say(&mut guard, &mut writer, "Hi.").await;
    (guard, writer)
}

/// The gateway of turn `two` is gone when another one deletes an answer of the session.
async fn delete_once_gone(store: &Arc<dyn Store>, deleted: &str) {
    let (guard, writer) = one_and_two(&of(Arc::clone(store))).await;
    guard.leave().await;
    writer.leave();
    let outcome = of(Arc::clone(store)).delete_answer("s", deleted).await.unwrap();
    assert_eq!(outcome, DeletedAnswer::Deleted);
}

#[tokio::test]
async fn an_interrupted_turn_whose_answer_is_deleted_is_cancelled() {
    for deleted in ["one", "two"] {
        let (_directory, store) = embedded();
        delete_once_gone(&store, deleted).await;
        let taken_over = next(&store).await.unwrap();
        let audience = taken_over.writer.log().watch_audience(&Context::from_waker(Waker::noop()));
        assert_eq!(audience.cancelled, deleted == "two");
    }
}

#[tokio::test]
async fn the_same_is_known_to_every_node_that_shares_the_store() {
    for deleted in ["one", "two"] {
        let server = redis_tests::RedisServer::start();
        let store: Arc<dyn Store> = Arc::new(redis_tests::open(&server));
        delete_once_gone(&store, deleted).await;
        let lease = store.acquire("s", NodeId::random()).await.unwrap().unwrap();
        assert_eq!(store.renew(&lease).await.unwrap().cancels("two"), deleted == "two");
    }
}

/// The turn is ended and not resumed; its end must not bring the deleted answer back.
#[tokio::test]
async fn an_answer_stays_deleted_if_the_turn_beside_it_is_ended() {
    let (_directory, store) = embedded();
    let sessions = of(Arc::clone(&store));
    let (guard, writer) = one_and_two(&sessions).await;
    assert_eq!(sessions.delete_answer("s", "one").await.unwrap(), DeletedAnswer::Deleted);
    guard.leave().await;
    writer.leave();
    let next = of(store);
    next.settle("s").await.unwrap();
    for (turn_id, is_there) in [("one", false), ("two", true)] {
        let answer = next.answer("s", turn_id).await.unwrap();
        assert_eq!(answer.is_some(), is_there, "{turn_id}");
    }
}
