//! What only this store does. `store/tests.rs` has what every store must do.

#[path = "../../../../tests/support/redis_server.rs"]
pub(super) mod redis_server;

use std::sync::Arc;

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
pub(crate) fn let_lapse(server: &RedisServer, session: &str) {
    let key = format!("tether:{{{session}}}:session");
    server.command(&["HSET", &key, "deadline", "1"]);
    server.command(&["ZADD", "tether:running", "1", session]);
}

/// How often a server was asked to run a script.
pub(crate) fn scripts_run(server: &RedisServer) -> u64 {
    let stats = server.command(&["INFO", "commandstats"]);
    let calls = stats.split_once("cmdstat_evalsha:calls=").map_or("0", |(_, calls)| calls);
    calls.split(',').next().unwrap().parse().unwrap()
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
    // An owner that has slept learns of it before it does anything else.
    let first = LogNews { batches: vec![batch(1, 1)], journal: Some(RECORD) };
    assert!(owner.append(&lease, "t", first).await.unwrap().is_cancelled);
    let end = LogEnd::new("t", vec![batch(2, 2)]);
    let version = owner.load("s").await.unwrap().map(|stored| stored.version);
    owner.finish(&lease, version, RECORD, end).await.unwrap();
    assert_eq!(other.request_cancel("s", None).await, Ok(false));
    let lease = owner.acquire("s", NodeId::random()).await.unwrap().unwrap();
    assert_eq!(owner.renew(&lease).await.unwrap().cancel, None, "it was for the turn before");
    // Whoever goes on with a turn ends it, if that was asked of its owner or of nobody.
    let news = LogNews { batches: vec![batch(1, 1)], journal: Some(RECORD) };
    assert!(!owner.append(&lease, "u", news).await.unwrap().is_cancelled);
    owner.release(&lease).await.unwrap();
    assert_eq!(other.request_cancel("s", Some("u")).await, Ok(true));
    let lease = other.acquire("s", NodeId::random()).await.unwrap().unwrap();
    assert!(other.renew(&lease).await.unwrap().cancels("u"));
    other.forget("s").await.unwrap();
    watch.changed().await;
    assert_eq!(owner.renew(&lease).await, Err(StoreError::NoSession), "it was deleted");
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
    let fields = server.command(&["HKEYS", "tether:{s}:session"]);
    assert_eq!(
        fields,
        "*4\r\n$9\r\nforgotten\r\n$15\r\nforgotten_until\r\n$7\r\nrequest\r\n$6\r\nanswer\r\n"
    );
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

/// Something of another type under the name of a session's key.
fn write_foreign(server: &RedisServer, name: &str) {
    let key = format!("tether:{{m}}:{name}");
    // One key is a set already.
    let command = if name == "files" { "SET" } else { "SADD" };
    server.command(&["DEL", &key]);
    server.command(&[command, &key, "x"]);
}

/// A session whose lease has lapsed while a turn ran.
async fn interrupt(server: &RedisServer, store: &RedisStore, id: &str) {
    let lease = store.acquire(id, NodeId::random()).await.unwrap().unwrap();
    store.save(&lease, None, RECORD).await.unwrap();
    store.append(&lease, "t", vec![batch(1, 1)].into()).await.unwrap();
    let_lapse(server, id);
}

/// What another program has written under the name of one session is nobody else's trouble.
#[tokio::test]
async fn a_foreign_key_harms_one_session_only() {
    let server = RedisServer::start();
    let store = open(&server);
    interrupt(&server, &store, "a").await;
    interrupt(&server, &store, "z").await;
    // The key, and what cannot be read then: the record, the log, all of it.
    for (name, unreadable) in [
        ("session", [true, true, true]),
        ("log", [false, true, true]),
        ("journal", [false, true, true]),
        ("record", [true, false, true]),
        ("files", [false, false, true]),
    ] {
        interrupt(&server, &store, "m").await;
        write_foreign(&server, name);
        server.command(&["ZADD", "tether:running", "1", "m"]);
        let errors = [
            store.load("m").await.err(),
            store.read("m", None, 0).await.err(),
            store.copy("m").await.err(),
        ];
        let damaged = errors.map(|error| matches!(error, Some(StoreError::Damaged(_))));
        assert_eq!(damaged, unreadable, "{name}");
        let listed = store.list(None, 10).await.unwrap();
        let ids: Vec<_> = listed.iter().map(|session| &*session.id).collect();
        assert_eq!(ids, ["a", "m", "z"], "{name}");
        assert_eq!(store.interrupted(10).await, Ok(Vec::new()), "{name}");
        assert_eq!(store.forget("m").await, Ok(true), "{name}");
        let left = server.command(&["KEYS", "tether:{m}:*"]);
        assert!(!left.contains("record"), "{name}: {left}");
    }
}

/// A file, whose key is `tether:artifact:f`.
fn file() -> Artifact {
    let (owner, id, mime_type) = (String::new(), "f".to_owned(), String::new());
    Artifact { owner, id, name: None, mime_type, bytes: RECORD }
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
    store.keep_artifact("s", file()).await.unwrap();
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

/// Their keys are in other slots.
#[tokio::test]
async fn files_last_as_long_as_their_session_is_read_or_leased() {
    let server = RedisServer::start();
    let store = open_with(&server, |options| options.ttl = Duration::from_secs(100));
    let lease = store.acquire("s", NodeId::random()).await.unwrap().unwrap();
    store.save(&lease, None, RECORD).await.unwrap();
    store.append(&lease, "t", vec![batch(1, 1)].into()).await.unwrap();
    store.keep_artifact("s", file()).await.unwrap();
    let file = "tether:artifact:f";
    for used_by in ["load", "read", "renew"] {
        server.command(&["HSET", "tether:{s}:session", "used", "1", "files_extended", "1"]);
        server.command(&["PEXPIRE", file, "5000"]);
        match used_by {
            "load" => store.load("s").await.map(drop).unwrap(),
            "read" => store.read("s", None, 0).await.map(drop).unwrap(),
            _ => store.renew(&lease).await.map(drop).unwrap(),
        }
        let lasts = || server.command(&["PTTL", file]).trim_matches([':', '\r', '\n']).len() >= 6;
        while !lasts() {
            tokio::task::yield_now().await;
        }
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
        cause.starts_with("its sessions have format 2, and this release reads only up to format 1"),
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
    // Of several commands, too.
    let mut commands = Commands::default();
    for key in ["tether:a", "tether:b"] {
        commands.add("INCR", key.to_owned());
    }
    let failed = open(&server).servers.commands(&commands).await;
    let Err(StoreError::Unavailable(cause)) = failed else { panic!("{failed:?}") };
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

/// A request with many arguments is refused in other words than a short one.
#[tokio::test]
async fn a_server_that_begins_to_want_a_password_is_said_to_do_so() {
    let server = RedisServer::start();
    let store = open(&server);
    let lease = store.acquire("s", NodeId::random()).await.unwrap().unwrap();
    store.save(&lease, None, RECORD).await.unwrap();
    server.command(&["CLIENT", "KILL", "TYPE", "normal"]);
    server.command(&["CONFIG", "SET", "requirepass", "secret"]);
    let news = LogNews { batches: vec![batch(1, 1)], journal: Some(RECORD) };
    for failed in [store.append(&lease, "t", news).await.map(drop), store.check().await] {
        let Err(StoreError::Unavailable(cause)) = failed else { panic!("{failed:?}") };
        assert!(cause.starts_with("it wants a password"), "{cause}");
    }
}
