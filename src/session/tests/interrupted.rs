//! Turns that were interrupted, and the next process.

use super::*;
use store::{SqliteStore, SyncMode};

/// More than are looked for at a time.
#[tokio::test]
async fn all_interrupted_turns_are_settled_at_start() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("tether.db");
    let store: Arc<dyn Store> =
        Arc::new(SqliteStore::open(&path, SyncMode::Normal, limits::TTL).unwrap());
    let sessions = of(Arc::clone(&store));
    let input = ClientInput::default();
    for number in 0..=limits::INTERRUPTED_MAX {
        let session_id = number.to_string();
        let beginning = Beginning { session_id: &session_id, ..beginning("t", None, &input) };
        let begun = sessions.begin(beginning, |_| false).await.unwrap();
        let Begun { mut guard, mut writer, .. } = *begun;
        guard
            .store_while(async {
                writer.note_journal(&Arc::new(turn("t")), conversation::Tally::default(), None);
                writer.publish();
            })
            .await;
        guard.leave().await;
        writer.leave();
    }
    assert_eq!(store.interrupted(usize::MAX).await.unwrap().len(), limits::INTERRUPTED_MAX + 1);
    of(Arc::clone(&store)).settle_all().await.unwrap();
    assert!(store.interrupted(usize::MAX).await.unwrap().is_empty());
}
