//! Leases: those that lapse, those that the server has lost, and requests that come late or twice.

use std::future::pending;
use std::sync::atomic::Ordering;

use tokio::time::timeout;

use super::tests::{RECORD, RedisServer, batch, let_lapse, open, open_with};
use super::*;

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
    let keys = store.keys.of_session("s");
    let all = keys.all();
    let forgetting = store.forgetting(&all);
    for is_anew in [false, true] {
        assert_eq!(store.forget_by(&forgetting, "s").await, Ok(Some(true)));
        if !is_anew {
            store.acquire("s", node).await.unwrap().unwrap();
        }
    }
    assert_eq!(store.acquire("s", NodeId::random()).await, Ok(None), "it has begun anew since");
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

/// Somebody else's lease is no loss, and neither is a deletion.
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
    let deleted = [StoreError::NoSession, StoreError::NoSession];
    assert_eq!(after_loss(forgets).await, deleted);
    let forgets_twice = async |_: &RedisServer, store: &RedisStore| {
        assert_eq!(store.forget("s").await, Ok(true));
        assert_eq!(store.forget("s").await, Ok(false));
        assert_eq!(store.was_forgotten("s").await, Ok(true));
    };
    assert_eq!(after_loss(forgets_twice).await, deleted);
    let forgets_after_a_takeover = async |server: &RedisServer, store: &RedisStore| {
        let_lapse(server, "s");
        store.acquire("s", NodeId::random()).await.unwrap().unwrap();
        store.forget("s").await.unwrap();
    };
    assert_eq!(after_loss(forgets_after_a_takeover).await, deleted);
    let is_looked_for = async |_: &RedisServer, store: &RedisStore| {
        store.forget("s").await.unwrap();
        // As a node does that meant to take the turn over.
        let lease = store.acquire("s", NodeId::random()).await.unwrap().unwrap();
        store.release(&lease).await.unwrap();
        assert_eq!(store.was_forgotten("s").await, Ok(true));
    };
    assert_eq!(after_loss(is_looked_for).await, deleted);
    let begins_anew = async |_: &RedisServer, store: &RedisStore| {
        store.forget("s").await.unwrap();
        store.acquire("s", NodeId::random()).await.unwrap().unwrap();
    };
    assert_eq!(after_loss(begins_anew).await, deleted);
    let begins_anew_after_a_takeover = async |server: &RedisServer, store: &RedisStore| {
        let_lapse(server, "s");
        store.acquire("s", NodeId::random()).await.unwrap().unwrap();
        begins_anew(server, store).await;
    };
    assert_eq!(after_loss(begins_anew_after_a_takeover).await, superseded);
    // By then, no turn of the session that was forgotten can run.
    let begins_anew_long_ago = async |server: &RedisServer, store: &RedisStore| {
        begins_anew(server, store).await;
        server.command(&["HSET", "tether:{s}:session", "forgotten_until", "1"]);
        assert_eq!(store.was_forgotten("s").await, Ok(false));
    };
    assert_eq!(after_loss(begins_anew_long_ago).await, lost);
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

/// Once it wakes up, a server runs the requests that arrived while it was stopped, even if nobody waits for them any more.
#[tokio::test]
async fn a_lease_that_was_given_up_is_not_taken_later() {
    let server = RedisServer::start();
    let options = |options: &mut RedisOptions| {
        (options.lease, options.wait) = (Duration::from_secs(1), Duration::from_millis(600));
    };
    let [one, two] = [open_with(&server, options), open_with(&server, options)];
    assert!(one.interrupted(1).await.unwrap().is_empty(), "now it knows the server's clock");
    server.signal("STOP");
    let given_up = one.acquire("s", NodeId::random()).await;
    assert!(matches!(given_up, Err(StoreError::Unavailable(_))), "{given_up:?}");
    // Nothing happens, for more than half of a lease.
    let _ = timeout(Duration::from_millis(600), pending::<()>()).await;
    server.signal("CONT");
    let lease = two.acquire("s", NodeId::random()).await.unwrap().unwrap();
    assert_eq!(lease.epoch, 1, "nobody had it before");
}

/// Its clock was set, or it is another server than before.
#[tokio::test]
async fn a_server_whose_clock_is_ahead_gives_leases_to_those_who_wait() {
    let server = RedisServer::start();
    let store = open(&server);
    store.clock.note(1, tokio::time::Instant::now());
    store.acquire("s", NodeId::random()).await.unwrap().unwrap();
}
