//! Turns that are cancelled, and sessions that are forgotten while they run.

use super::*;

#[tokio::test]
async fn a_turn_is_cancelled_where_it_runs() {
    let sessions = sessions();
    assert_eq!(sessions.cancel("s").await.unwrap(), Cancel::NoSession);
    let (guard, mut writer) = begin(&sessions, "one", None).await;
    assert_eq!(sessions.cancel("s").await.unwrap(), Cancel::Cancelling);
    assert!(writer.log().watch_audience(&Context::from_waker(Waker::noop())).cancelled);
    writer.seal();
    guard.finish(Some(turn("one"))).await;
    assert_eq!(sessions.cancel("s").await.unwrap(), Cancel::NothingRuns);
}

#[tokio::test]
async fn forgetting_a_session_cancels_its_turn() {
    let sessions = sessions();
    let (guard, mut writer) = begin(&sessions, "one", None).await;
    assert!(sessions.forget("s").await.unwrap());
    assert!(!sessions.forget("s").await.unwrap());
    assert!(writer.log().watch_audience(&Context::from_waker(Waker::noop())).cancelled);
    // A new session begins, and the old turn leaves nothing in it.
    let (_new, _) = begin(&sessions, "two", None).await;
    writer.seal();
    guard.finish(Some(turn("one"))).await;
    let snapshot = sessions.snapshot("s").await.unwrap().unwrap();
    assert_eq!(snapshot.running.unwrap().turn_id, "two");
    assert_eq!(snapshot.conversation.turns().len(), 0);
}

#[tokio::test]
async fn a_forgotten_session_stays_forgotten_when_its_turn_ends() {
    let sessions = sessions();
    let (guard, mut writer) = begin(&sessions, "one", None).await;
    assert!(sessions.forget("s").await.unwrap());
    writer.seal();
    guard.finish(Some(turn("one"))).await;
    assert!(sessions.snapshot("s").await.unwrap().is_none());
    assert_eq!(sessions.memory_usage(), MemoryUsage::default());
}
