//! What a turn costs a server: scripts, bytes and memory.

use super::super::Batch;
use super::tests::{RECORD, RedisServer, batch, let_lapse, open, scripts_run};
use super::*;

/// A number that `INFO` shows.
fn info(server: &RedisServer, name: &str) -> u64 {
    let text = server.command(&["INFO", "everything"]);
    let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    value.unwrap_or_else(|| panic!("no {name}")).parse().unwrap()
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
