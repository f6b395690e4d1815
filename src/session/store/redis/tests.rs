//! What only this store does. `store/tests.rs` has what every store must do.

#[path = "../../../../tests/support/redis_server.rs"]
pub(super) mod redis_server;

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::super::{Batch, ClaimTerm};
use super::*;
use crate::limits::session as limits;
pub(crate) use redis_server::RedisServer;

/// A store on this server.
pub(crate) fn open(server: &RedisServer) -> RedisStore {
    open_with(server, |_| ())
}

pub(crate) fn open_with(
    server: &RedisServer,
    change: impl FnOnce(&mut RedisOptions),
) -> RedisStore {
    open_at(&server.url(), change)
}

pub(super) fn open_at(url: &str, change: impl FnOnce(&mut RedisOptions)) -> RedisStore {
    let mut options = RedisOptions {
        address: RedisAddress::new(url, "", None).unwrap(),
        prefix: "tether:".to_owned(),
        connect_timeout: limits::STORE_CONNECT_TIMEOUT,
        lease: limits::LEASE,
        wait: limits::STORE_WAIT,
        ttl: limits::TTL,
    };
    change(&mut options);
    RedisStore::new(options)
}

pub(super) fn batch(first: u64, last: u64) -> Batch {
    Batch { first, last, bytes: Bytes::from("x".repeat(usize::try_from(last).unwrap())) }
}

pub(super) const RECORD: Bytes = Bytes::from_static(b"record");

/// As if the time of a session's lease had passed.
fn let_lapse(server: &RedisServer, session: &str) {
    let key = format!("tether:{{{session}}}:session");
    server.command(&["HSET", &key, "deadline", "1"]);
    server.command(&["ZADD", "tether:running", "1", session]);
}

#[tokio::test]
async fn a_lapsed_lease_is_lost_even_if_nobody_took_it() {
    let server = RedisServer::start();
    let store = open(&server);
    let lease = store.acquire("s", NodeId::random()).await.unwrap().unwrap();
    let version = store.save(&lease, None, RECORD).await.unwrap();
    store.append(&lease, "t", vec![batch(1, 1)].into()).await.unwrap();
    store.renew(&lease).await.unwrap();
    let_lapse(&server, "s");
    let superseded = StoreError::Superseded;
    assert_eq!(store.renew(&lease).await, Err(superseded.clone()));
    assert_eq!(store.append(&lease, "t", vec![batch(2, 2)].into()).await, Err(superseded.clone()));
    assert_eq!(store.save(&lease, Some(version), RECORD).await, Err(superseded));
    let next = store.acquire("s", NodeId::random()).await.unwrap().unwrap();
    assert_eq!(next.epoch, 2);
    store.append(&next, "t", vec![batch(2, 2)].into()).await.unwrap();
    assert_eq!(store.read("s", Some("t"), 0).await.unwrap().unwrap().last, 2);
}

/// A gateway that got no answer asks again, and does not know whether it was done.
#[tokio::test]
async fn what_is_asked_twice_is_done_once() {
    let server = RedisServer::start();
    let store = open(&server);
    let node = NodeId::random();
    let lease = store.acquire("s", node).await.unwrap().unwrap();
    let first = store.save(&lease, None, RECORD).await.unwrap();
    assert_eq!(store.save(&lease, None, RECORD).await, Ok(first));
    let other = Bytes::from_static(b"other");
    assert_eq!(store.save(&lease, None, other.clone()).await, Err(StoreError::Superseded));
    for _ in 0..2 {
        store.append(&lease, "t", vec![batch(1, 2), batch(3, 3)].into()).await.unwrap();
    }
    store.append(&lease, "t", vec![batch(3, 3), batch(4, 4)].into()).await.unwrap();
    let end = || LogEnd::new("t", vec![batch(5, 5)]);
    let last = store.finish(&lease, Some(first), other.clone(), end()).await.unwrap();
    assert_eq!(store.finish(&lease, Some(first), other, end()).await, Ok(last));
    let log = store.read("s", Some("t"), 0).await.unwrap().unwrap();
    assert_eq!(log.batches, [batch(1, 2), batch(3, 3), batch(4, 4), batch(5, 5)]);
    for _ in 0..2 {
        store.release(&lease).await.unwrap();
    }
}

#[tokio::test]
async fn a_gap_in_a_log_is_a_failure() {
    let server = RedisServer::start();
    let store = open(&server);
    let lease = store.acquire("s", NodeId::random()).await.unwrap().unwrap();
    store.append(&lease, "t", vec![batch(1, 2)].into()).await.unwrap();
    for wrong in [batch(4, 5), batch(2, 3)] {
        let refused = store.append(&lease, "t", vec![wrong].into()).await;
        assert_eq!(refused, Err(StoreError::DataLoss));
    }
    assert_eq!(store.read("s", Some("t"), 0).await.unwrap().unwrap().last, 2);
}

/// What was confirmed to the first of two leases, and then lost in this way.
async fn after_loss(loses: impl AsyncFn(&RedisServer, &RedisStore)) -> [StoreError; 2] {
    let server = RedisServer::start();
    let store = open(&server);
    let lease = store.acquire("s", NodeId::random()).await.unwrap().unwrap();
    let version = store.save(&lease, None, RECORD).await.unwrap();
    store.append(&lease, "t", vec![batch(1, 1)].into()).await.unwrap();
    loses(&server, &store).await;
    let renewed = store.renew(&lease).await.unwrap_err();
    let appended = store.append(&lease, "t", vec![batch(2, 2)].into()).await.unwrap_err();
    let end = LogEnd::new("t", vec![batch(2, 2)]);
    let finished = store.finish(&lease, Some(version), RECORD, end).await.unwrap_err();
    assert_eq!(appended, finished);
    [renewed, appended]
}

/// Somebody else's lease, or a deletion, is no loss.
#[tokio::test]
async fn a_lease_that_the_server_has_lost_is_told_from_one_that_it_refuses() {
    let lost = [StoreError::DataLoss, StoreError::DataLoss];
    let superseded = [StoreError::Superseded, StoreError::Superseded];
    let flushes = async |server: &RedisServer, _: &RedisStore| {
        server.command(&["FLUSHALL"]);
    };
    assert_eq!(after_loss(flushes).await, lost);
    let begins_again = async |server: &RedisServer, store: &RedisStore| {
        server.command(&["FLUSHALL"]);
        store.acquire("s", NodeId::random()).await.unwrap().unwrap();
    };
    assert_eq!(after_loss(begins_again).await, lost);
    let to_an_earlier_epoch = async |server: &RedisServer, _: &RedisStore| {
        server.command(&["HSET", "tether:{s}:session", "epoch", "0", "grant", "1"]);
    };
    assert_eq!(after_loss(to_an_earlier_epoch).await, lost);
    let to_the_end_of_the_turn_before = async |server: &RedisServer, _: &RedisStore| {
        server.command(&["HDEL", "tether:{s}:session", "grant", "deadline"]);
        server.command(&["HSET", "tether:{s}:session", "given_back", "1"]);
    };
    assert_eq!(after_loss(to_the_end_of_the_turn_before).await, lost);
    let gives_it_back = async |server: &RedisServer, _: &RedisStore| {
        let grant = server.command(&["HGET", "tether:{s}:session", "grant"]);
        let grant = grant.lines().nth(1).unwrap();
        server.command(&["HDEL", "tether:{s}:session", "grant", "deadline"]);
        server.command(&["HSET", "tether:{s}:session", "given_back", grant]);
    };
    assert_eq!(after_loss(gives_it_back).await, superseded);
    let goes_on_elsewhere = async |server: &RedisServer, store: &RedisStore| {
        let_lapse(server, "s");
        store.acquire("s", NodeId::random()).await.unwrap().unwrap();
    };
    assert_eq!(after_loss(goes_on_elsewhere).await, superseded);
    let forgets = async |_: &RedisServer, store: &RedisStore| {
        assert_eq!(store.forget("s").await, Ok(true));
        assert_eq!(store.was_forgotten("s").await, Ok(true));
    };
    assert_eq!(after_loss(forgets).await, superseded);
    let begins_anew = async |_: &RedisServer, store: &RedisStore| {
        store.forget("s").await.unwrap();
        store.acquire("s", NodeId::random()).await.unwrap().unwrap();
    };
    assert_eq!(after_loss(begins_anew).await, superseded);
}

#[tokio::test]
async fn a_request_of_before_does_not_take_a_lease_back() {
    let server = RedisServer::start();
    let store = open(&server);
    let node = NodeId::random();
    let lease = store.acquire("s", node).await.unwrap().unwrap();
    store.asked.store(0, Ordering::Relaxed);
    assert_eq!(store.acquire("s", node).await, Ok(None));
    store.renew(&lease).await.unwrap();
}

/// Or else a turn that is over would be ended again.
#[tokio::test]
async fn a_request_of_before_does_not_bring_a_journal_back() {
    let server = RedisServer::start();
    let store = open(&server);
    let lease = store.acquire("s", NodeId::random()).await.unwrap().unwrap();
    let version = store.save(&lease, None, RECORD).await.unwrap();
    let first = || LogNews { batches: vec![batch(1, 1)], journal: Some(RECORD) };
    let asked = store.asked.load(Ordering::Relaxed);
    store.append(&lease, "t", first()).await.unwrap();
    store.finish(&lease, Some(version), RECORD, LogEnd::new("t", vec![batch(2, 2)])).await.unwrap();
    store.asked.store(asked, Ordering::Relaxed);
    assert_eq!(store.append(&lease, "t", first()).await, Err(StoreError::Superseded));
    let log = store.read("s", Some("t"), 0).await.unwrap().unwrap();
    assert_eq!((log.last, log.journal), (2, None));
}

#[tokio::test]
async fn interrupted_turns_are_found() {
    let server = RedisServer::start();
    let store = open(&server);
    for (session, journal) in [("runs", true), ("died", true), ("idle", false)] {
        let lease = store.acquire(session, NodeId::random()).await.unwrap().unwrap();
        store.save(&lease, None, RECORD).await.unwrap();
        let journal = journal.then_some(RECORD);
        store.append(&lease, "t", LogNews { batches: vec![batch(1, 1)], journal }).await.unwrap();
    }
    assert!(store.interrupted(10).await.unwrap().is_empty());
    let_lapse(&server, "died");
    let_lapse(&server, "idle");
    // Its lease was renewed, but the list does not know yet.
    server.command(&["ZADD", "tether:running", "1", "runs"]);
    assert_eq!(store.interrupted(10).await.unwrap(), ["died"]);
    assert_eq!(server.command(&["ZCARD", "tether:running"]), ":2\r\n");
    let lease = store.acquire("died", NodeId::random()).await.unwrap().unwrap();
    assert!(store.interrupted(10).await.unwrap().is_empty());
    // Released without having ended the turn.
    store.release(&lease).await.unwrap();
    assert_eq!(store.interrupted(10).await.unwrap(), ["died"]);
    let lease = store.acquire("died", NodeId::random()).await.unwrap().unwrap();
    let version = store.load("died").await.unwrap().unwrap().version;
    store.finish(&lease, Some(version), RECORD, LogEnd::new("t", vec![batch(2, 2)])).await.unwrap();
    store.release(&lease).await.unwrap();
    assert!(store.interrupted(10).await.unwrap().is_empty());
}

/// Or else nobody would find its turn if its gateway dies before the next renewal.
#[tokio::test]
async fn a_lease_that_is_given_back_late_unlists_no_later_one() {
    let server = RedisServer::start();
    let store = open(&server);
    let lease = store.acquire("s", NodeId::random()).await.unwrap().unwrap();
    let listed = server.command(&["ZSCORE", "tether:running", "s"]);
    let deadline = listed.lines().nth(1).unwrap().parse().unwrap();
    let version = store.save(&lease, None, RECORD).await.unwrap();
    store.finish(&lease, Some(version), RECORD, LogEnd::new("t", vec![batch(1, 1)])).await.unwrap();
    while server.command(&["ZCARD", "tether:running"]) != ":0\r\n" {
        tokio::task::yield_now().await;
    }
    store.acquire("s", NodeId::random()).await.unwrap().unwrap();
    store.list_given_back("s", deadline, false).await;
    assert_eq!(server.command(&["ZCARD", "tether:running"]), ":1\r\n");
}

#[tokio::test]
async fn a_cancellation_reaches_whoever_holds_the_lease() {
    let server = RedisServer::start();
    let [owner, other] = [open(&server), open(&server)];
    assert_eq!(other.request_cancel("s", None).await, Ok(false));
    let lease = owner.acquire("s", NodeId::random()).await.unwrap().unwrap();
    owner.save(&lease, None, RECORD).await.unwrap();
    let mut watch = owner.watch("s", Watched::Owner).await.unwrap();
    assert_eq!(owner.renew(&lease).await.unwrap().cancel, None);
    assert_eq!(other.request_cancel("s", Some("t")).await, Ok(true));
    watch.changed().await;
    assert_eq!(owner.renew(&lease).await.unwrap().cancel.as_deref(), Some("t"));
    owner.release(&lease).await.unwrap();
    assert_eq!(other.request_cancel("s", None).await, Ok(false));
    let lease = owner.acquire("s", NodeId::random()).await.unwrap().unwrap();
    assert_eq!(owner.renew(&lease).await.unwrap().cancel, None, "it was for the turn before");
    // Whoever goes on with a turn ends it, if that was asked of its owner or of nobody.
    let news = LogNews { batches: vec![batch(1, 1)], journal: Some(RECORD) };
    owner.append(&lease, "t", news).await.unwrap();
    owner.release(&lease).await.unwrap();
    assert_eq!(other.request_cancel("s", Some("t")).await, Ok(true));
    let lease = other.acquire("s", NodeId::random()).await.unwrap().unwrap();
    assert!(other.renew(&lease).await.unwrap().cancels("t"));
    other.forget("s").await.unwrap();
    watch.changed().await;
    assert_eq!(owner.renew(&lease).await, Err(StoreError::Superseded));
}

#[tokio::test]
async fn readers_elsewhere_wake_when_a_log_grows() {
    let server = RedisServer::start();
    let [owner, other] = [open(&server), open(&server)];
    let lease = owner.acquire("s", NodeId::random()).await.unwrap().unwrap();
    owner.save(&lease, None, RECORD).await.unwrap();
    let mut watches = Vec::new();
    for _ in 0..3 {
        watches.push(other.watch("s", Watched::Log).await.unwrap());
    }
    let dropped = watches.pop();
    drop(dropped);
    for last in 1..=3 {
        owner.append(&lease, "t", vec![batch(last, last)].into()).await.unwrap();
        for watch in &mut watches {
            watch.changed().await;
        }
        assert_eq!(other.read("s", None, 0).await.unwrap().unwrap().last, last);
    }
    let channels = || server.command(&["PUBSUB", "SHARDCHANNELS"]);
    assert_eq!(channels(), "*1\r\n$14\r\ntether:{s}:log\r\n");
    drop(watches);
    let mut last = other.watch("other", Watched::Log).await.unwrap();
    while channels().contains("{s}") {
        tokio::task::yield_now().await;
    }
    drop(owner);
    server.command(&["SPUBLISH", "tether:{other}:log", ""]);
    last.changed().await;
}

/// What was published meanwhile is lost.
#[tokio::test]
async fn all_watches_wake_when_the_connection_is_back() {
    let server = RedisServer::start();
    let store = open(&server);
    let mut one = store.watch("one", Watched::Log).await.unwrap();
    let mut two = store.watch("two", Watched::Owner).await.unwrap();
    server.command(&["CLIENT", "KILL", "TYPE", "pubsub"]);
    one.changed().await;
    two.changed().await;
    server.command(&["SPUBLISH", "tether:{one}:log", ""]);
    one.changed().await;
}

#[tokio::test]
async fn a_lost_connection_is_made_again() {
    let mut server = RedisServer::start_with(&["--appendonly", "yes", "--appendfsync", "always"]);
    let store = open(&server);
    let lease = store.acquire("s", NodeId::random()).await.unwrap().unwrap();
    store.save(&lease, None, RECORD).await.unwrap();
    server.command(&["CLIENT", "KILL", "TYPE", "normal"]);
    assert!(store.load("s").await.unwrap().is_some(), "it is asked again");
    server.kill();
    let failed = store.load("s").await;
    let Err(StoreError::Unavailable(cause)) = failed else { panic!("{failed:?}") };
    assert!(cause.starts_with("nothing listens at its address"), "{cause}");
    server.run();
    while store.load("s").await.is_err() {
        tokio::task::yield_now().await;
    }
    store.append(&lease, "t", vec![batch(1, 1)].into()).await.unwrap();
}

#[tokio::test]
async fn each_session_keeps_its_newest_logs_and_files() {
    let server = RedisServer::start();
    let store = open(&server);
    let lease = store.acquire("s", NodeId::random()).await.unwrap().unwrap();
    store.save(&lease, None, RECORD).await.unwrap();
    for turn in 0..=limits::TURN_LOGS_MAX {
        store.append(&lease, &turn.to_string(), vec![batch(1, 1)].into()).await.unwrap();
    }
    assert_eq!(store.read("s", Some("0"), 0).await, Ok(None));
    assert!(store.read("s", Some("1"), 0).await.unwrap().is_some());
    assert_eq!(server.command(&["XLEN", "tether:{s}:log"]), ":4\r\n");
    let long = Batch { first: 2, last: 2, bytes: vec![0; limits::TURN_LOG_BYTES_MAX].into() };
    store.append(&lease, "4", vec![long].into()).await.unwrap();
    store.append(&lease, "5", vec![batch(1, 1)].into()).await.unwrap();
    assert_eq!(server.command(&["XLEN", "tether:{s}:log"]), ":1\r\n");

    let half = limits::ARTIFACT_BYTES_MAX / 2;
    for (id, bytes) in [("a", half), ("b", half), ("c", 1)] {
        let artifact = Artifact {
            owner: String::new(),
            id: id.to_owned(),
            name: None,
            mime_type: String::new(),
            bytes: vec![0; bytes].into(),
        };
        store.keep_artifact("s", artifact).await.unwrap();
    }
    assert_eq!(store.artifact("a").await, Ok(None));
    assert!(store.artifact("b").await.unwrap().is_some());
    store.forget("s").await.unwrap();
    // The note, for the turn whose lease is held.
    assert_eq!(server.command(&["KEYS", "*"]), "*1\r\n$18\r\ntether:{s}:session\r\n");
    assert_eq!(server.command(&["HKEYS", "tether:{s}:session"]), "*1\r\n$9\r\nforgotten\r\n");
    assert_ne!(server.command(&["PTTL", "tether:{s}:session"]), ":-1\r\n");
    let artifact = Artifact {
        owner: String::new(),
        id: "d".to_owned(),
        name: None,
        mime_type: String::new(),
        bytes: RECORD,
    };
    assert_eq!(store.keep_artifact("s", artifact).await, Err(StoreError::NoSession));
}

/// What another program has written under the name of one session is nobody else's trouble.
#[tokio::test]
async fn a_foreign_key_harms_one_session_only() {
    const NAMES: [&str; 5] = ["session", "log", "journal", "record", "files"];
    let server = RedisServer::start();
    let store = open(&server);
    for id in ["a", "m", "z"] {
        let lease = store.acquire(id, NodeId::random()).await.unwrap().unwrap();
        store.save(&lease, None, RECORD).await.unwrap();
        store.append(&lease, "t", vec![batch(1, 1)].into()).await.unwrap();
        let_lapse(&server, id);
    }
    for name in NAMES {
        let key = format!("tether:{{m}}:{name}");
        let wrong = if name == "files" { ["SET", &key, "x"] } else { ["SADD", &key, "x"] };
        server.command(&["DEL", &key]);
        server.command(&wrong);
        server.command(&["ZADD", "tether:running", "1", "m"]);
        let read = store.read("m", None, 0).await.err().or(store.load("m").await.err());
        let copied = store.copy("m").await.err();
        let is_damaged = |error: &Option<StoreError>| matches!(error, Some(StoreError::Damaged(_)));
        assert!(
            is_damaged(&read) || is_damaged(&copied) || name == "journal",
            "{name}: {copied:?}"
        );
        let listed = store.list(None, 10).await.unwrap();
        let ids: Vec<_> = listed.iter().map(|session| &*session.id).collect();
        assert_eq!(ids, ["a", "m", "z"], "{name}");
        assert_eq!(store.interrupted(10).await, Ok(Vec::new()), "{name}");
        assert_eq!(store.forget("m").await, Ok(true), "{name}");
        assert_eq!(
            server.command(&["KEYS", "tether:{m}:*"]).matches("record").count(),
            0,
            "{name}"
        );
        let lease = store.acquire("m", NodeId::random()).await.unwrap().unwrap();
        store.save(&lease, None, RECORD).await.unwrap();
        store.append(&lease, "t", vec![batch(1, 1)].into()).await.unwrap();
        let_lapse(&server, "m");
    }
}

/// All keys expire: those of a session together, some time after it was last used.
#[tokio::test]
async fn all_that_is_kept_expires() {
    let server = RedisServer::start();
    let store = open_with(&server, |options| options.ttl = Duration::from_secs(100));
    let lease = store.acquire("s", NodeId::random()).await.unwrap().unwrap();
    store.save(&lease, None, RECORD).await.unwrap();
    let news = LogNews { batches: vec![batch(1, 1)], journal: Some(RECORD) };
    store.append(&lease, "t", news).await.unwrap();
    let artifact = Artifact {
        owner: String::new(),
        id: "f".to_owned(),
        name: None,
        mime_type: String::new(),
        bytes: RECORD,
    };
    store.keep_artifact("s", artifact).await.unwrap();
    let expiry = |key: &str| -> i64 {
        server.command(&["PTTL", key]).trim_start_matches(':').trim_end().parse().unwrap()
    };
    let keys =
        ["session", "log", "journal", "record", "files"].map(|key| format!("tether:{{s}}:{key}"));
    for key in &keys {
        assert!((100_001..=110_000).contains(&expiry(key)), "{key}: {}", expiry(key));
        server.command(&["PEXPIRE", key, "5000"]);
    }
    assert!(expiry("tether:artifact:f") > 200_000 && expiry("tether:running") > 100_000);
    store.renew(&lease).await.unwrap();
    for key in &keys {
        assert!(expiry(key) > 100_000, "{key}");
        server.command(&["PEXPIRE", key, "5000"]);
    }
    let session = &keys[0];
    server.command(&["HSET", session, "used", "1"]);
    store.read("s", None, 0).await.unwrap();
    for key in &keys {
        assert!(expiry(key) > 100_000, "{key}");
    }
    store.release(&lease).await.unwrap();
    for key in &keys {
        assert!(expiry(key) <= 100_000, "{key}: no turn runs");
    }
}

#[tokio::test]
async fn a_server_is_examined_once() {
    let server = RedisServer::start();
    let store = open(&server);
    store.check().await.unwrap();
    assert_eq!(server.command(&["KEYS", "*"]), "*1\r\n$14\r\ntether:version\r\n");
    store.check().await.unwrap();
    let report = store.examine().await.unwrap();
    assert!(
        report.server.starts_with("redis 7") || report.server.starts_with("valkey"),
        "{report:?}"
    );
    assert_eq!(report.settings[0]["appendonly"], "no");
    server.command(&["SET", "tether:version", "2"]);
    let refused = open(&server).check().await;
    let Err(StoreError::Unavailable(cause)) = refused else { panic!("{refused:?}") };
    assert!(
        cause.starts_with("its sessions have format 2, and this release reads up to 1"),
        "{cause}"
    );
}

#[tokio::test]
async fn a_server_that_cannot_be_used_says_why() {
    let server = RedisServer::start();
    let fails = async |store: RedisStore| {
        let failed = store.check().await;
        let Err(StoreError::Unavailable(cause)) = failed else { panic!("{failed:?}") };
        cause
    };
    server.command(&[
        "ACL",
        "SETUSER",
        "limited",
        "on",
        ">secret",
        "~tether:*",
        "&tether:*",
        "+@all",
        "-set",
    ]);
    let login = |user, password| RedisAddress::new(&server.url(), user, Some(password)).unwrap();
    let cause = fails(open_with(&server, |it| it.address = login("limited", "wrong"))).await;
    assert!(cause.starts_with("the user or the password is wrong"), "{cause}");
    let cause = fails(open_with(&server, |it| it.address = login("limited", "secret"))).await;
    assert!(cause.starts_with("the user lacks a right") && cause.contains("'set'"), "{cause}");
    server.command(&["ACL", "SETUSER", "limited", "+set", "-xadd"]);
    let cause = fails(open_with(&server, |it| it.address = login("limited", "secret"))).await;
    assert!(cause.starts_with("the user lacks a right"), "{cause}");
    server.command(&["ACL", "SETUSER", "limited", "+xadd", "resetchannels"]);
    let cause = fails(open_with(&server, |it| it.address = login("limited", "secret"))).await;
    assert!(cause.starts_with("the user lacks a right") && cause.contains("channel"), "{cause}");

    server.command(&["CONFIG", "SET", "maxmemory", "1"]);
    let cause = fails(open(&server)).await;
    assert!(cause.starts_with("its memory is full"), "{cause}");
    server.command(&["CONFIG", "SET", "maxmemory", "0"]);
    server.command(&["CONFIG", "SET", "min-replicas-to-write", "1"]);
    let cause = fails(open(&server)).await;
    assert!(cause.starts_with("too few replicas"), "{cause}");
    server.command(&["REPLICAOF", "127.0.0.1", "1"]);
    let cause = fails(open(&server)).await;
    assert!(cause.starts_with("it is a read-only replica"), "{cause}");
}

/// The command in docs/configuration.md that makes a user.
pub(super) fn documented_user() -> Vec<&'static str> {
    const DOCS: &str = include_str!("../../../../docs/configuration.md");
    let line = DOCS.lines().find(|line| line.starts_with("ACL SETUSER tether ")).unwrap();
    line.split(' ').collect()
}

#[tokio::test]
async fn a_user_with_the_documented_rights_can_do_everything() {
    let server = RedisServer::start();
    server.command(&documented_user());
    let address = RedisAddress::new(&server.url(), "tether", Some("PASSWORD")).unwrap();
    let store = open_with(&server, |options| options.address = address);
    store.check().await.unwrap();
    let lease = store.acquire("s", NodeId::random()).await.unwrap().unwrap();
    store.save(&lease, None, RECORD).await.unwrap();
    store.release(&lease).await.unwrap();
    assert_eq!(store.list(None, 10).await.unwrap().len(), 1);
    let copy = store.copy("s").await.unwrap().unwrap();
    assert!(store.restore(copy, true).await.unwrap());
    let (owner, key) = (EntryOwner::of(&["a"]), EntryKey::of(&["a"]));
    let claim = EntryClaim { key, holder: 1, term: ClaimTerm::Lease };
    assert!(store.acquire_claim(owner, claim).await.unwrap());
    let entry = Entry { keys: vec![key], epoch: 1, bytes: RECORD };
    assert!(store.keep_entry(owner, entry, Some(claim)).await.unwrap());
    assert_eq!(store.entries(owner, vec![key]).await.unwrap().entries.len(), 1);
    store.release_claim(owner, claim).await.unwrap();
}

/// A server that is busy for too long is given up, and used again when it answers.
#[tokio::test]
async fn a_server_that_stops_is_waited_for() {
    let server = RedisServer::start();
    let wait = Duration::from_millis(200);
    let store = Arc::new(open_with(&server, |options| options.wait = wait));
    let lease = store.acquire("s", NodeId::random()).await.unwrap().unwrap();
    server.signal("STOP");
    let failed = store.save(&lease, None, RECORD).await;
    assert_eq!(failed, Err(StoreError::Unavailable("no answer within 100ms".to_owned())));
    server.signal("CONT");
    store.save(&lease, None, RECORD).await.unwrap();
}

/// A number that `INFO` shows.
fn info(server: &RedisServer, name: &str) -> u64 {
    let text = server.command(&["INFO", "everything"]);
    let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    value.unwrap_or_else(|| panic!("no {name}")).parse().unwrap()
}

/// How often a server was asked to run a script.
fn scripts_run(server: &RedisServer) -> u64 {
    let stats = server.command(&["INFO", "commandstats"]);
    let calls = stats.split_once("cmdstat_evalsha:calls=").map_or("0", |(_, calls)| calls);
    calls.split(',').next().unwrap().parse().unwrap()
}

/// What a turn has to know comes with its lease.
#[tokio::test]
async fn a_turn_enters_with_one_script() {
    let server = RedisServer::start();
    let store = open(&server);
    let entered = store.enter("s", NodeId::random()).await.unwrap().unwrap();
    assert_eq!((entered.is_interrupted, entered.record), (false, None));
    let version = store.save(&entered.lease, None, RECORD).await.unwrap();
    let news = LogNews { batches: vec![batch(1, 1)], journal: Some(RECORD) };
    store.append(&entered.lease, "t", news).await.unwrap();
    assert_eq!(store.enter("s", NodeId::random()).await, Ok(None), "it is held");
    let_lapse(&server, "s");
    let before = scripts_run(&server);
    let node = NodeId::random();
    let entered = store.enter("s", node).await.unwrap().unwrap();
    assert_eq!(scripts_run(&server) - before, 1);
    let record = StoredRecord { version, bytes: RECORD };
    assert_eq!((entered.is_interrupted, entered.record), (true, Some(record)));
    assert_eq!((entered.lease.node, entered.lease.epoch), (node, 2));
    let listed_at = || server.command(&["ZSCORE", "tether:running", "s"]);
    while listed_at().contains("\r\n1\r\n") {
        tokio::task::yield_now().await;
    }
}

/// What a token costs: one command, and some hundred bytes beside its own on each way.
#[tokio::test]
async fn an_append_is_one_short_command() {
    const APPENDS: u64 = 200;
    let server = RedisServer::start();
    let store = open(&server);
    let lease = store.acquire("4f7c6c3e-8d0f-4c7e-9f7e-3c1f5d2b6a90", NodeId::random()).await;
    let lease = lease.unwrap().unwrap();
    store.save(&lease, None, RECORD).await.unwrap();
    let turn = "0b8e5f5e-7c1d-4a57-8a70-0d5a3d7a9e11";
    store.append(&lease, turn, vec![batch(1, 1)].into()).await.unwrap();
    let counts = || {
        let calls = server.command(&["INFO", "commandstats"]);
        let calls = calls.split_once("cmdstat_evalsha:calls=").unwrap().1;
        let calls: u64 = calls.split_once(',').unwrap().0.parse().unwrap();
        [calls, info(&server, "total_net_input_bytes"), info(&server, "total_net_output_bytes")]
    };
    let ways = counts();
    let memory = info(&server, "used_memory");
    let line = Bytes::from(format!("{}\n", "x".repeat(99)));
    for last in 2..2 + APPENDS {
        let token = Batch { first: last, last, bytes: line.clone() };
        store.append(&lease, turn, vec![token].into()).await.unwrap();
    }
    let kept = (info(&server, "used_memory") - memory) / APPENDS;
    let [calls, sent, answered] = counts();
    // Asking for the counts takes a few bytes more.
    let (sent, answered) = ((sent - ways[1]) / APPENDS, (answered - ways[2]) / APPENDS);
    assert_eq!(calls - ways[0], APPENDS);
    assert!(sent < 700 && answered < 200 && kept < 160, "{sent} {answered} {kept}");
}
