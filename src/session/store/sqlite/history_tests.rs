//! A store in a file beside one in memory, through random histories.

use std::collections::HashMap;

use super::super::MemoryStore;
use super::redo_tests::{Place, TTL, event, news, text_of};
use super::*;

/// Chance, from a seed.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % sides
    }
}

/// A session as a test knows it.
#[derive(Default)]
struct Known {
    lease: Option<[Lease; 2]>,
    version: Option<[Version; 2]>,
    turn: u64,
    last: u64,
}

/// A store in a file, and one in memory beside it. Whatever is done, and wherever a process is killed, both
/// return the same.
#[tokio::test]
async fn what_is_read_after_any_history_is_what_memory_has() {
    for seed in 1..=60_u64 {
        let mut dice = Dice(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15));
        let memory = MemoryStore::new(TTL);
        let mut place = Place::new(SyncMode::Normal);
        let mut known: HashMap<&str, Known> = HashMap::new();
        for _ in 0..60 {
            let session = ["a", "b", "c"][usize::try_from(dice.roll(3)).unwrap()];
            let it = known.entry(session).or_default();
            let stores: [&dyn Store; 2] = [&place.store, &memory];
            let Some(leases) = &it.lease else {
                let mut taken = Vec::new();
                for store in stores {
                    taken.push(store.acquire(session, place.node).await.unwrap().unwrap());
                }
                assert_eq!(taken[0].epoch, taken[1].epoch, "seed {seed}");
                // An epoch in which nothing was written may be given out again.
                let before = it.version.map(|versions| versions.map(Some)).unwrap_or_default();
                let mut next = Vec::new();
                let record = Bytes::from(format!("turn {} begins", it.turn));
                for at in 0..2 {
                    let saved = stores[at].save(&taken[at], before[at], record.clone()).await;
                    next.push(saved.unwrap());
                }
                it.version = next.try_into().ok();
                it.lease = taken.try_into().ok();
                continue;
            };
            let turn = it.turn.to_string();
            match dice.roll(15) {
                0..=6 => {
                    it.last += 1;
                    for (store, lease) in stores.iter().zip(leases) {
                        store.append(lease, &turn, news(it.last)).await.unwrap();
                    }
                }
                7 | 8 => {
                    let versions = it.version.unwrap();
                    let [whole, rest] = [1, it.last + 1]
                        .map(|first| (first..=it.last + 1).map(event).collect::<Vec<_>>());
                    let mut next = Vec::new();
                    for (at, batches) in [whole, rest].into_iter().enumerate() {
                        let (expected, end) = (Some(versions[at]), LogEnd::new(&turn, batches));
                        let record = turn.clone().into();
                        next.push(
                            stores[at].finish(&leases[at], expected, record, end).await.unwrap(),
                        );
                        stores[at].release(&leases[at]).await.unwrap();
                    }
                    it.version = next.try_into().ok();
                    (it.lease, it.turn, it.last) = (None, it.turn + 1, 0);
                }
                9 => {
                    for store in stores {
                        store.forget(session).await.unwrap();
                    }
                    *it = Known { turn: it.turn + 1, ..Known::default() };
                }
                10 => {
                    // A step that changes the session.
                    let record = Bytes::from(format!("turn {turn} at {}", it.last));
                    let mut next = Vec::new();
                    for (at, version) in it.version.unwrap().into_iter().enumerate() {
                        let saved =
                            stores[at].save(&leases[at], Some(version), record.clone()).await;
                        next.push(saved.unwrap());
                    }
                    it.version = next.try_into().ok();
                }
                11 => {
                    // The turn is dropped.
                    for (store, lease) in stores.iter().zip(leases) {
                        store.release(lease).await.unwrap();
                    }
                    it.lease = None;
                }
                12 => place.store.redo.change_files(),
                13 => {
                    // Somebody else reads, while it runs.
                    check(&stores, session, it.turn, seed).await;
                }
                _ => {
                    for it in known.values_mut() {
                        if let Some([_, lease]) = it.lease.take() {
                            memory.release(&lease).await.unwrap();
                        }
                    }
                    place = place.killed();
                }
            }
        }
        let stores: [&dyn Store; 2] = [&place.store, &memory];
        for (session, it) in &known {
            check(&stores, session, it.turn, seed).await;
        }
    }
}

/// The last turns and the record are the same in both.
async fn check(stores: &[&dyn Store; 2], session: &str, turn: u64, seed: u64) {
    let record =
        async |store: &dyn Store| store.load(session).await.unwrap().map(|stored| stored.bytes);
    assert_eq!(record(stores[0]).await, record(stores[1]).await, "seed {seed}");
    for turn in [turn, turn.saturating_sub(1), turn.saturating_sub(3)] {
        let read = async |store: &dyn Store| {
            let log = store.read(session, Some(&turn.to_string()), 0).await.unwrap();
            log.map(|log| (text_of(&log), log.last, log.epochs, log.journal))
        };
        assert_eq!(read(stores[0]).await, read(stores[1]).await, "seed {seed}, turn {turn}");
    }
}
