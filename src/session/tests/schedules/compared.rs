//! The model of the store's server beside a real one: both are asked the same, and answer the same.
//!
//! What only the clock or the network does is left out: requests that come late, notes that lapse, and the list of
//! running turns, which the store writes in its own time.

use bytes::Bytes;

use super::dice::Dice;
use super::server::{Answer, NewRecord, Request, Server};
use super::{Flaw, LEASE_MS};
use crate::session::store::redis_tests::{RedisServer, let_lapse, open};
use crate::session::store::{
    Batch, Lease, LogEnd, LogNews, NodeId, RedisStore, Store, StoreError, StoredLog, Version,
};

const SESSION: &str = "s";
const NODES: usize = 3;
const SEQUENCES: u64 = 150;
const REQUESTS: usize = 60;

/// The same thing on both sides, where chance makes them different.
#[derive(Debug, Clone)]
struct Pair<T> {
    model: T,
    real: T,
}

/// Both servers, and what was learned of them.
struct Compared {
    dice: Dice,
    model: Server,
    server: RedisServer,
    nodes: Vec<(NodeId, RedisStore)>,
    leases: Vec<Pair<Lease>>,
    versions: Vec<Pair<Version>>,
    asked: u64,
    /// How many turns the session has had. Only the latest is written.
    turns: u64,
    /// What was asked, for whoever has to find a difference.
    trace: Vec<String>,
}

/// What both have answered, as far as chance does not decide.
type Outcome = Result<String, StoreError>;

impl Compared {
    fn new() -> Self {
        let server = RedisServer::start();
        let nodes = (0..NODES).map(|_| (NodeId::random(), open(&server))).collect();
        let (model, dice) = (Server::new(LEASE_MS, Flaw::None), Dice(0));
        let (leases, versions, trace) = (Vec::new(), Vec::new(), Vec::new());
        Self { dice, model, server, nodes, leases, versions, asked: 0, turns: 1, trace }
    }

    async fn play(&mut self, seed: u64) {
        self.dice = Dice(seed);
        self.model = Server::new(LEASE_MS, Flaw::None);
        self.server.command(&["FLUSHALL"]);
        self.leases.clear();
        self.versions.clear();
        self.turns = 1;
        self.trace.clear();
        for _ in 0..REQUESTS {
            self.step(seed).await;
        }
    }

    async fn step(&mut self, seed: u64) {
        let (model, real) = match self.dice.roll(12) {
            _ if self.leases.is_empty() => self.acquire().await,
            0 | 1 => self.acquire().await,
            2 => self.renew().await,
            3 => self.release().await,
            4 => self.cancel().await,
            5 => self.load().await,
            6..=8 => self.write().await,
            9 => self.read().await,
            10 => self.forget().await,
            _ => return self.let_lapse(),
        };
        assert_eq!(model, real, "seed {seed}:\n{}", self.trace.join("\n"));
    }

    fn ask(&mut self, request: Request) -> Result<Answer, StoreError> {
        self.trace.push(format!("{request:?}"));
        self.model.serve(request)
    }

    fn node(&mut self) -> usize {
        usize::try_from(self.dice.roll(NODES as u64)).unwrap()
    }

    /// A lease that was given at some time, usually the latest.
    fn lease(&mut self) -> Pair<Lease> {
        if self.dice.once_in(4) {
            return self.dice.pick(&self.leases).unwrap().clone();
        }
        self.leases.last().unwrap().clone()
    }

    fn store_of(&self, lease: &Lease) -> &RedisStore {
        &self.nodes.iter().find(|(id, _)| *id == lease.node).unwrap().1
    }

    async fn acquire(&mut self) -> (Outcome, Outcome) {
        let (at, grant) = (self.node(), self.dice.next() >> 1);
        let (node, asked) = (self.nodes[at].0, self.next());
        let session = SESSION.to_owned();
        let asked = Request::Acquire { session, node, asked, grant };
        let Ok(Answer::Lease(model)) = self.ask(asked) else { unreachable!() };
        let real = self.nodes[at].1.acquire(SESSION, node).await.unwrap();
        let told =
            [&model, &real].map(|lease| Ok(format!("{:?}", lease.as_ref().map(|it| it.epoch))));
        if let (Some(model), Some(real)) = (model, real) {
            self.leases.push(Pair { model, real });
        }
        told.into()
    }

    fn turn(&self) -> String {
        format!("turn {}", self.turns)
    }

    fn next(&mut self) -> u64 {
        self.asked += 1;
        self.asked
    }

    async fn renew(&mut self) -> (Outcome, Outcome) {
        let Pair { model, real } = self.lease();
        let told = self.ask(Request::Renew(model)).map(|answer| match answer {
            Answer::Renewed(renewed) => format!("{:?}", renewed.cancel),
            _ => unreachable!(),
        });
        let renewed = self.store_of(&real).renew(&real).await;
        (told, renewed.map(|renewed| format!("{:?}", renewed.cancel)))
    }

    async fn release(&mut self) -> (Outcome, Outcome) {
        let Pair { model, real } = self.lease();
        let told = self.ask(Request::Release(model)).map(|_| String::new());
        (told, self.store_of(&real).release(&real).await.map(|()| String::new()))
    }

    async fn cancel(&mut self) -> (Outcome, Outcome) {
        let (at, turn) = (self.node(), self.turn());
        let asked = Request::Cancel { session: SESSION.to_owned(), turn: turn.clone() };
        let Ok(Answer::Flag(told)) = self.ask(asked) else { unreachable!() };
        let done = self.nodes[at].1.request_cancel(SESSION, Some(&turn)).await;
        (Ok(told.to_string()), done.map(|done| done.to_string()))
    }

    async fn load(&mut self) -> (Outcome, Outcome) {
        let at = self.node();
        let Ok(Answer::Record(told)) = self.ask(Request::Load(SESSION.to_owned())) else {
            unreachable!()
        };
        let loaded = self.nodes[at].1.load(SESSION).await.unwrap();
        let is_known = match (&told, &loaded) {
            (Some(told), Some(loaded)) => self
                .versions
                .iter()
                .any(|pair| (pair.model, pair.real) == (told.version, loaded.version)),
            (told, loaded) => told.is_none() && loaded.is_none(),
        };
        assert!(is_known, "{told:?} {loaded:?}:\n{}", self.trace.join("\n"));
        let bytes = |record: Option<crate::session::store::StoredRecord>| {
            Ok(format!("{:?}", record.map(|record| record.bytes)))
        };
        (bytes(told), bytes(loaded))
    }

    /// Saves a record, appends to a log, or ends a turn; now and then twice.
    async fn write(&mut self) -> (Outcome, Outcome) {
        let Pair { model, real } = self.lease();
        self.turns += u64::from(self.dice.once_in(8));
        let (kind, turn) = (self.dice.roll(4), self.turn());
        let (saves, ends) = (kind == 0 || kind == 1, kind == 1);
        let expected = self.expected();
        let record = Bytes::from(format!("record {}", self.dice.roll(2)));
        let news = self.news(&turn);
        let times = 1 + usize::from(self.dice.once_in(4));
        let mut told = (Ok(String::new()), Ok(String::new()));
        for _ in 0..times {
            let version = Version(self.dice.next() >> 1);
            let new = saves.then(|| NewRecord {
                expected: expected.as_ref().map(|pair| pair.model),
                version,
                bytes: record.clone(),
            });
            let log = (!saves || ends).then(|| (turn.clone(), news.clone()));
            let asked = self.next();
            let asked = Request::Write { lease: model.clone(), record: new, log, ends, asked };
            let written = self.ask(asked).map(|answer| match answer {
                Answer::Written(version) => version,
                _ => unreachable!(),
            });
            let store = self.store_of(&real);
            let over = expected.as_ref().map(|pair| pair.real);
            let done = if ends {
                let end = LogEnd::new(&turn, news.batches.clone());
                store.finish(&real, over, record.clone(), end).await.map(Some)
            } else if saves {
                store.save(&real, over, record.clone()).await.map(Some)
            } else {
                store.append(&real, &turn, news.clone()).await.map(|_| None)
            };
            if let (Ok(Some(model)), Ok(Some(real))) = (&written, &done) {
                self.versions.push(Pair { model: *model, real: *real });
            }
            let brief = |done: Result<Option<Version>, StoreError>| {
                done.map(|version| version.is_some().to_string())
            };
            told = (brief(written), brief(done));
            if told.0 != told.1 {
                break;
            }
        }
        told
    }

    /// The version that is there, or another one.
    fn expected(&mut self) -> Option<Pair<Version>> {
        if self.dice.once_in(5) {
            return self.dice.pick(&self.versions).cloned();
        }
        let Ok(Answer::Record(record)) = self.model.serve(Request::Load(SESSION.to_owned())) else {
            unreachable!()
        };
        let version = record?.version;
        self.versions.iter().rev().find(|pair| pair.model == version).cloned()
    }

    /// News that follows what is there, repeats it, or leaves a gap.
    fn news(&mut self, turn: &str) -> LogNews {
        let last = self.model.log(SESSION, Some(turn)).map_or(0, |log| log.last);
        let first = match self.dice.roll(8) {
            0 => last.max(1),
            1 => last + 2,
            _ => last + 1,
        };
        let batch = |sequence: u64| Batch {
            first: sequence,
            last: sequence,
            bytes: format!("event {sequence}\n").into(),
        };
        // A turn begins with an event.
        let count = self.dice.roll(3) + u64::from(last == 0);
        let batches = (first..first + count).map(batch).collect();
        let journal = self.dice.once_in(2).then(|| Bytes::from(format!("journal {last}")));
        LogNews { batches, journal }
    }

    async fn read(&mut self) -> (Outcome, Outcome) {
        let at = self.node();
        let turn = if self.dice.once_in(2) { None } else { Some(self.turn()) };
        let seen = self.dice.roll(3);
        let session = SESSION.to_owned();
        let asked = Request::Read { session, turn: turn.clone(), seen };
        let Ok(Answer::Log(told)) = self.ask(asked) else { unreachable!() };
        let read = self.nodes[at].1.read(SESSION, turn.as_deref(), seen).await.unwrap();
        let brief = |log: Option<StoredLog>| {
            Ok(format!(
                "{:?}",
                log.map(|log| {
                    // The whole journal is for whoever reads the whole log.
                    let journal =
                        log.journal.map(|json| if seen == 0 { json } else { Bytes::new() });
                    let bytes: Vec<u8> =
                        log.batches.iter().flat_map(|batch| batch.bytes.to_vec()).collect();
                    let epochs: Vec<_> = log.epochs.starts().collect();
                    (log.turn_id, epochs, log.last, Bytes::from(bytes), journal)
                })
            ))
        };
        (brief(told), brief(read))
    }

    async fn forget(&mut self) -> (Outcome, Outcome) {
        let at = self.node();
        let session = SESSION.to_owned();
        let asked = if self.dice.once_in(2) {
            Request::Forget(session)
        } else {
            Request::WasForgotten(session)
        };
        let forgets = matches!(asked, Request::Forget(_));
        let Ok(Answer::Flag(told)) = self.ask(asked) else { unreachable!() };
        let store = &self.nodes[at].1;
        let done =
            if forgets { store.forget(SESSION).await } else { store.was_forgotten(SESSION).await };
        (Ok(told.to_string()), done.map(|done| done.to_string()))
    }

    fn let_lapse(&mut self) {
        if self.model.let_lapse(SESSION) {
            self.trace.push("its lease lapses".to_owned());
            let_lapse(&self.server, SESSION);
        }
    }
}

#[tokio::test]
async fn the_model_answers_as_a_real_server_does() {
    let mut compared = Compared::new();
    for seed in 0..SEQUENCES {
        compared.play(seed).await;
    }
}
