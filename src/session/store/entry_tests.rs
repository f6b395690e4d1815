//! What every store that outlives its process must do with entries and claims.

use super::ClaimTerm::{Lasting, Lease};
use super::redis::tests::RedisServer;
use super::*;
use crate::limits::session::{ENTRIES_FOUND_BYTES_MAX, ENTRY_BYTES_MAX, SAME_PROMPT_MAX};

const TTL: Duration = Duration::from_secs(60);

/// Far longer than any of this takes.
const PATIENCE: Duration = Duration::from_secs(30);

/// Checks a rule for every such store. Add new stores here.
async fn check<F: Future<Output = ()>>(rule: impl Fn(Box<dyn Store>) -> F) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("tether.db");
    rule(Box::new(SqliteStore::open(&path, SyncMode::Normal, TTL).unwrap())).await;
    let server = RedisServer::start();
    rule(Box::new(redis::tests::open(&server))).await;
    let cluster = redis::cluster_tests::shared();
    rule(Box::new(redis::cluster_tests::open(&cluster))).await;
}

fn key(text: &str) -> EntryKey {
    EntryKey::of(&[text])
}

fn entry(keys: &[&str], content: &'static str) -> Entry {
    let keys = keys.iter().map(|text| key(text)).collect();
    Entry { keys, epoch: 1, bytes: Bytes::from_static(content.as_bytes()) }
}

/// A new owner, because the cluster is shared.
fn owner() -> EntryOwner {
    EntryOwner::of(&[&Uuid::new_v4().to_string()])
}

async fn keep(store: &dyn Store, owner: EntryOwner, entry: Entry) -> bool {
    store.keep_entry(owner, entry, None).await.unwrap()
}

/// The contents of what is found under these keys.
async fn find(store: &dyn Store, owner: EntryOwner, keys: &[&str]) -> Vec<Bytes> {
    let keys = keys.iter().map(|text| key(text)).collect();
    let found = store.entries(owner, keys).await.unwrap();
    found.entries.into_iter().map(|entry| entry.bytes).collect()
}

fn claim(holder: u64, term: ClaimTerm) -> EntryClaim {
    EntryClaim { key: key("question"), holder, term }
}

async fn is_claimed(store: &dyn Store, owner: EntryOwner) -> bool {
    let keys = vec![key("other"), key("question")];
    let found = store.entries(owner, keys).await.unwrap();
    found.claimed == [key("question")]
}

/// Waits until this holds.
#[track_caller]
fn until(holds: impl AsyncFn() -> bool) -> impl Future<Output = ()> {
    let caller = std::panic::Location::caller();
    async move {
        let wait = async {
            while !holds().await {
                tokio::task::yield_now().await;
            }
        };
        let waited = tokio::time::timeout(PATIENCE, wait).await;
        assert!(waited.is_ok(), "{caller}: nothing has happened for {PATIENCE:?}");
    }
}

#[tokio::test]
async fn a_store_that_ends_with_its_process_keeps_no_entries() {
    let store = MemoryStore::new(TTL);
    assert_eq!(store.entry_time(), None);
    assert!(keep(&store, owner(), entry(&["a"], "1")).await);
    assert!(find(&store, owner(), &["a"]).await.is_empty());
}

#[tokio::test]
async fn an_entry_is_found_by_any_of_its_keys_and_by_its_owner_alone() {
    check(async |store| {
        let (mine, theirs) = (owner(), owner());
        let kept = entry(&["a", "b", "c"], "1");
        keep(&*store, mine, kept.clone()).await;
        for asked in [&["a"][..], &["c"], &["nothing", "b"], &["a", "b", "c"]] {
            assert_eq!(find(&*store, mine, asked).await, ["1"], "{asked:?}");
        }
        let found = store.entries(mine, vec![key("b")]).await.unwrap().entries.remove(0);
        assert_eq!((found.keys[0], found.keys.len()), (kept.keys[0], 3), "its own key is first");
        assert_eq!((found.epoch, found.bytes), (1, kept.bytes));
        assert!(find(&*store, theirs, &["a", "b"]).await.is_empty());
        assert!(find(&*store, mine, &[]).await.is_empty());
    })
    .await;
}

#[tokio::test]
async fn of_many_entries_under_a_key_the_newest_are_found_in_their_order() {
    check(async |store| {
        let owner = owner();
        let contents = ["0", "1", "2", "3", "4", "5", "6", "7", "8", "9", "10"];
        for content in contents {
            keep(&*store, owner, entry(&[content, "prompt"], content)).await;
        }
        let newest = &contents[contents.len() - SAME_PROMPT_MAX..];
        assert_eq!(find(&*store, owner, &["prompt"]).await, newest);
        assert_eq!(find(&*store, owner, &["prompt", "0"]).await.len(), SAME_PROMPT_MAX + 1);
    })
    .await;
}

/// Whoever lost the turn to another node does not overwrite what that has written.
#[tokio::test]
async fn an_entry_replaces_the_one_of_an_earlier_epoch() {
    check(async |store| {
        let owner = owner();
        keep(&*store, owner, Entry { epoch: 2, ..entry(&["id", "a"], "two") }).await;
        assert!(!keep(&*store, owner, Entry { epoch: 1, ..entry(&["id", "b"], "one") }).await);
        assert_eq!(find(&*store, owner, &["id", "a", "b"]).await, ["two"]);
        assert!(keep(&*store, owner, Entry { epoch: 2, ..entry(&["id", "b"], "again") }).await);
        assert!(keep(&*store, owner, Entry { epoch: 3, ..entry(&["id", "c"], "three") }).await);
        assert_eq!(find(&*store, owner, &["id", "a", "b", "c"]).await, ["three"]);
        assert!(find(&*store, owner, &["a", "b"]).await.is_empty(), "old keys lead nowhere");
    })
    .await;
}

#[tokio::test]
async fn the_oldest_entries_of_an_owner_make_room() {
    check(async |store| {
        let (mine, theirs) = (owner(), owner());
        keep(&*store, theirs, entry(&["a"], "theirs")).await;
        let long = Bytes::from(vec![b'x'; ENTRY_BYTES_MAX / 3]);
        for id in ["a", "b", "c"] {
            keep(&*store, mine, Entry { bytes: long.clone(), ..entry(&[id], "") }).await;
        }
        assert!(find(&*store, mine, &["a"]).await.is_empty());
        for id in ["b", "c"] {
            assert_eq!(find(&*store, mine, &[id]).await.len(), 1, "{id}");
        }
        assert_eq!(find(&*store, theirs, &["a"]).await, ["theirs"]);
        // Those of the first keys count.
        assert!(long.len() > ENTRIES_FOUND_BYTES_MAX);
        let found = store.entries(mine, vec![key("c"), key("b")]).await.unwrap().entries;
        assert_eq!(found.iter().map(|it| it.keys[0]).collect::<Vec<_>>(), [key("c")]);
    })
    .await;
}

#[tokio::test]
async fn only_one_has_a_claim() {
    check(async |store| {
        let (mine, theirs) = (owner(), owner());
        assert!(!is_claimed(&*store, mine).await);
        assert!(store.acquire_claim(mine, claim(1, Lasting)).await.unwrap());
        assert!(is_claimed(&*store, mine).await && !is_claimed(&*store, theirs).await);
        assert!(!store.acquire_claim(mine, claim(2, Lasting)).await.unwrap());
        assert!(
            store.acquire_claim(mine, claim(1, Lasting)).await.unwrap(),
            "a request may be repeated"
        );
        assert!(store.acquire_claim(theirs, claim(2, Lasting)).await.unwrap());
        store.release_claim(mine, claim(2, Lasting)).await.unwrap();
        assert!(
            !store.acquire_claim(mine, claim(2, Lasting)).await.unwrap(),
            "it was not the other's"
        );
        store.release_claim(mine, claim(1, Lasting)).await.unwrap();
        assert!(!is_claimed(&*store, mine).await);
        assert!(store.acquire_claim(mine, claim(2, Lease)).await.unwrap());
    })
    .await;
}

#[tokio::test]
async fn of_many_who_claim_the_same_at_once_one_wins() {
    check(async |store| {
        let owner = owner();
        let claims = (1..=20).map(|holder| {
            let term = if holder % 2 == 0 { Lease } else { Lasting };
            store.acquire_claim(owner, claim(holder, term))
        });
        let won = futures::future::try_join_all(claims).await.unwrap();
        assert_eq!(won.iter().filter(|won| **won).count(), 1);
    })
    .await;
}

/// A key that is claimed may belong to the entry that confirms the claim.
#[tokio::test]
async fn an_entry_confirms_a_claim_that_would_lapse() {
    let server = RedisServer::start();
    let store = redis::tests::open_with(&server, |options| {
        options.lease = Duration::from_millis(1);
    });
    let owner = owner();
    assert!(store.acquire_claim(owner, claim(1, Lease)).await.unwrap());
    until(async || !is_claimed(&store, owner).await).await;
    assert!(store.acquire_claim(owner, claim(2, Lease)).await.unwrap(), "it has lapsed");
    assert!(store.keep_entry(owner, entry(&["a"], "1"), Some(claim(2, Lease))).await.unwrap());
    assert!(is_claimed(&store, owner).await);
    assert!(store.acquire_claim(owner, claim(2, Lease)).await.unwrap());
    assert!(is_claimed(&store, owner).await, "it does not lapse again");
    assert!(!store.acquire_claim(owner, claim(3, Lease)).await.unwrap());
}

#[tokio::test]
async fn entries_and_claims_outlive_their_process_and_expire() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("tether.db");
    let open = |ttl| SqliteStore::open(&path, SyncMode::Normal, ttl).unwrap();
    let (one, two) = (owner(), owner());
    let store = open(TTL);
    keep(&store, one, entry(&["a"], "1")).await;
    assert!(store.acquire_claim(one, claim(1, Lasting)).await.unwrap());
    assert!(store.acquire_claim(two, claim(1, Lease)).await.unwrap());
    drop(store);
    let store = open(TTL);
    assert_eq!(find(&store, one, &["a"]).await, ["1"]);
    assert!(is_claimed(&store, one).await);
    assert!(!is_claimed(&store, two).await, "its turn ended with the process");
    store.sweep();
    assert_eq!(find(&store, one, &["a"]).await, ["1"]);
    drop(store);
    let store = open(Duration::ZERO);
    store.sweep();
    until(async || find(&store, one, &["a"]).await.is_empty()).await;
    assert!(!is_claimed(&store, one).await);
    // What they took is free again.
    let third = Bytes::from(vec![b'x'; ENTRY_BYTES_MAX / 3]);
    for id in ["a", "b"] {
        keep(&store, one, Entry { bytes: third.clone(), ..entry(&[id], "") }).await;
    }
    assert_eq!(find(&store, one, &["a"]).await.len(), 1);
}

/// On a server, they expire by themselves.
#[tokio::test]
async fn all_keys_of_an_owner_expire() {
    let server = RedisServer::start();
    let store = redis::tests::open(&server);
    let owner = owner();
    keep(&store, owner, entry(&["a", "b"], "1")).await;
    assert!(store.acquire_claim(owner, claim(1, Lasting)).await.unwrap());
    let script = "local all = 0; for _, key in ipairs(redis.call('KEYS', '*:owner:*')) do \
                  assert(redis.call('PTTL', key) > 0); all = all + 1 end return all";
    assert_eq!(server.command(&["EVAL", script, "0"]), ":5\r\n");
}

/// What was claimed is not done again, even if a gateway still has the entry in memory.
#[tokio::test]
async fn an_owners_entries_are_forgotten_and_the_claims_stay() {
    check(async |store| {
        let (mine, theirs) = (owner(), owner());
        for owner in [mine, theirs] {
            keep(&*store, owner, entry(&["a", "prompt"], "1")).await;
            keep(&*store, owner, entry(&["b", "prompt"], "2")).await;
            assert!(store.acquire_claim(owner, claim(1, Lasting)).await.unwrap());
        }
        assert_eq!(store.forget_entries(mine).await.unwrap(), 2);
        assert!(find(&*store, mine, &["a", "b", "prompt"]).await.is_empty());
        assert!(is_claimed(&*store, mine).await);
        assert_eq!(find(&*store, theirs, &["prompt"]).await, ["1", "2"]);
        assert_eq!(store.forget_entries(mine).await.unwrap(), 0);
        keep(&*store, mine, entry(&["c", "prompt"], "3")).await;
        assert_eq!(find(&*store, mine, &["a", "prompt"]).await, ["3"]);
    })
    .await;
}
