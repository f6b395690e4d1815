//! The way between the nodes and the store: late, lossy, and at times it says things twice.

use std::collections::BTreeMap;
use std::future::pending;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::sync::{oneshot, watch};
use tokio::time::timeout;

use super::coverage::Coverage;
use super::dice::Dice;
use super::rules::Rules;
use super::server::{Answer, NewRecord, Request, Server};
use super::{Flaw, LEASE_MS, WAIT_MS};
use crate::session::store::recovery::Recovery;
use crate::session::store::{
    Appended, Artifact, Lease, ListedSession, LogEnd, LogNews, NodeId, Renewed, SessionCopy, Store,
    StoreError, StoreFuture, StoredLog, StoredRecord, Version, Watch, Watched,
};

/// What all nodes share.
pub(super) type Shared = Arc<Mutex<Net>>;

type Reply = oneshot::Sender<Result<Answer, StoreError>>;

/// What is under way.
#[derive(Debug)]
enum Flight {
    /// The answer is lost if there is no reply.
    Request {
        request: Request,
        reply: Option<Reply>,
        answers_in: u64,
    },
    Answer {
        reply: Reply,
        answer: Result<Answer, StoreError>,
    },
    WakeUp(watch::Sender<()>),
}

#[derive(Debug)]
pub(super) struct Net {
    pub(super) server: Server,
    pub(super) dice: Dice,
    pub(super) seen: Coverage,
    pub(super) rules: Rules,
    /// How many of a hundred requests have trouble.
    pub(super) trouble: u64,
    down_until: u64,
    flights: BTreeMap<(u64, u64), Flight>,
    sent: u64,
    watches: Vec<(String, Watched, watch::Sender<()>)>,
}

impl Net {
    pub(super) fn new(seed: u64, flaw: Flaw) -> Shared {
        Arc::new(Mutex::new(Self {
            server: Server::new(LEASE_MS, flaw),
            dice: Dice(seed),
            seen: Coverage::default(),
            rules: Rules::default(),
            trouble: 0,
            down_until: 0,
            flights: BTreeMap::new(),
            sent: 0,
            watches: Vec::new(),
        }))
    }

    /// Lets time pass, and delivers what is due.
    pub(super) fn advance(&mut self, now: u64) {
        let was_down = self.is_down();
        while let Some(entry) = self.flights.first_entry()
            && entry.key().0 <= now
        {
            let ((at, _), flight) = entry.remove_entry();
            self.server.now = self.server.now.max(at);
            self.deliver(flight);
        }
        self.server.now = now;
        if was_down && !self.is_down() {
            self.note("the store is back");
            // Every node subscribes again.
            for (.., wakes) in &self.watches {
                wakes.send_replace(());
            }
        }
    }

    /// Takes the store down for so long.
    pub(super) fn take_down(&mut self, ms: u64) {
        self.note(&format!("the store is down for {ms} ms"));
        self.down_until = self.server.now + ms;
        self.seen.saw("store: restarted");
        if ms > WAIT_MS {
            self.seen.saw("store: down for longer than the wait");
        }
        // What was under way is lost with the connections, except what others still hold back.
        let is_answer = |flight: &Flight| matches!(flight, Flight::Answer { .. });
        self.flights.retain(|_, flight| !is_answer(flight));
    }

    pub(super) fn calm_down(&mut self) {
        self.trouble = 0;
        self.down_until = self.server.now;
    }

    pub(super) const fn is_down(&self) -> bool {
        self.down_until > self.server.now
    }

    pub(super) fn note(&mut self, what: &str) {
        self.rules.note(self.server.now, what);
    }

    fn launch(&mut self, after: u64, flight: Flight) {
        self.sent += 1;
        self.flights.insert((self.server.now + after, self.sent), flight);
    }

    /// A delay of up to so many milliseconds; mostly a small one.
    fn delay(&mut self, most: u64) -> u64 {
        let most = if self.dice.once_in(3) { most } else { most / 20 };
        1 + self.dice.roll(most)
    }

    fn send(
        &mut self,
        node: NodeId,
        request: Request,
    ) -> oneshot::Receiver<Result<Answer, StoreError>> {
        let (reply, answer) = oneshot::channel();
        let name = request.name();
        self.rules.asks(&self.server, node, &request);
        if let Request::Forget(session) = &request {
            self.seen.saw(match self.server.holder(session) {
                Some(holder) if holder == node => "delete: where it runs",
                Some(_) => "delete: from another node",
                None => "delete: nobody had the session",
            });
        }
        if self.is_down() {
            if self.dice.once_in(2) {
                let refused = StoreError::Unavailable("connection refused".to_owned());
                // Whoever asked waits for it.
                let _ = reply.send(Err(refused));
            }
            return answer;
        }
        if self.dice.roll(100) >= self.trouble {
            let served = self.serve(request);
            let _ = reply.send(served);
            return answer;
        }
        match self.dice.roll(5) {
            0 => self.seen.saw("store: lost a request"),
            1 => {
                self.saw_of("lost the answer to", name);
                let after = self.delay(WAIT_MS);
                self.launch(after, Flight::Request { request, reply: None, answers_in: 0 });
            }
            2 => {
                let (after, again) = (self.delay(100), self.delay(2 * LEASE_MS));
                self.saw_of("asked twice to", name);
                let first =
                    Flight::Request { request: request.clone(), reply: Some(reply), answers_in: 1 };
                self.launch(after, first);
                let second = Flight::Request { request, reply: None, answers_in: 0 };
                self.launch(after + again, second);
            }
            _ => {
                let (after, answers_in) = (self.delay(LEASE_MS), self.delay(LEASE_MS));
                if after + answers_in > WAIT_MS {
                    self.seen.saw("store: an answer came too late");
                }
                self.launch(after, Flight::Request { request, reply: Some(reply), answers_in });
            }
        }
        answer
    }

    fn saw_of(&mut self, what: &str, name: &str) {
        if matches!(name, "acquire" | "append" | "finish" | "release" | "renew" | "save")
            && !(name == "release" && what.starts_with("lost"))
        {
            self.seen.saw(format!("store: {what} {name}"));
        }
    }

    fn deliver(&mut self, flight: Flight) {
        match flight {
            Flight::Request { request, reply, answers_in } => {
                if self.is_down() {
                    return;
                }
                let answer = self.serve(request);
                if let Some(reply) = reply {
                    self.launch(answers_in, Flight::Answer { reply, answer });
                }
            }
            // Whoever asked may have given up.
            Flight::Answer { reply, answer } => drop(reply.send(answer)),
            Flight::WakeUp(wakes) => {
                wakes.send_replace(());
            }
        }
    }

    fn serve(&mut self, request: Request) -> Result<Answer, StoreError> {
        let (name, kept) = (request.name(), request.clone());
        let served = self.server.serve(request);
        self.rules.served(&self.server, &kept, &served);
        if matches!(served, Err(StoreError::NoSession)) {
            self.seen.saw(format!("delete: its owner hears of it, by {name}"));
        }
        let is_refused = matches!(served, Err(StoreError::Superseded));
        if is_refused || matches!((&served, name), (Ok(Answer::Lease(None)), _)) {
            self.seen.saw(format!("fenced: {name}"));
        }
        for (session, whom) in std::mem::take(&mut self.server.published) {
            self.wake(&session, whom);
        }
        served
    }

    fn wake(&mut self, session: &str, whom: Watched) {
        self.watches.retain(|(.., wakes)| wakes.receiver_count() > 0);
        let watches = self.watches.iter().filter(|(id, which, _)| id == session && *which == whom);
        let woken: Vec<_> = watches.map(|(.., wakes)| wakes.clone()).collect();
        for wakes in woken {
            if self.dice.roll(100) >= self.trouble {
                wakes.send_replace(());
            } else if self.dice.once_in(2) {
                self.seen.saw("wake-up: lost");
            } else {
                self.seen.saw("wake-up: late");
                let after = self.delay(LEASE_MS);
                self.launch(after, Flight::WakeUp(wakes));
            }
        }
    }
}

/// A node's way to the store.
#[derive(Debug)]
pub(super) struct Link {
    net: Shared,
    node: OnceLock<NodeId>,
    asked: AtomicU64,
    recovery: Recovery,
}

impl Link {
    pub(super) fn new(net: &Shared) -> Arc<Self> {
        let net = Arc::clone(net);
        let (asked, recovery) = (AtomicU64::new(1), Recovery::new(Duration::from_millis(WAIT_MS)));
        Arc::new(Self { net, node: OnceLock::new(), asked, recovery })
    }

    pub(super) fn belongs_to(&self, node: NodeId) {
        let _ = self.node.set(node);
    }

    async fn ask(&self, request: Request) -> Result<Answer, StoreError> {
        let node = *self.node.get().expect("a node asks once it is made");
        let reply = self.net.lock().send(node, request);
        let answer = async {
            match reply.await {
                Ok(answer) => answer,
                // It is lost.
                Err(_) => pending().await,
            }
        };
        if let Ok(answer) = timeout(Duration::from_millis(WAIT_MS / 2), answer).await {
            self.recovery.note_write();
            return answer;
        }
        self.recovery.note_failure();
        Err(StoreError::Unavailable("no answer".to_owned()))
    }

    async fn write(
        &self,
        lease: &Lease,
        record: Option<(Option<Version>, Bytes)>,
        log: Option<(&str, LogNews)>,
        ends: bool,
    ) -> Result<Option<Version>, StoreError> {
        let version = Version(self.net.lock().dice.next() >> 1);
        let asked = self.asked.fetch_add(1, Ordering::Relaxed);
        let record = record.map(|(expected, bytes)| NewRecord { expected, version, bytes });
        let log = log.map(|(turn, news)| (turn.to_owned(), news));
        let request = Request::Write { lease: lease.clone(), record, log, ends, asked };
        Ok(match self.ask(request).await? {
            Answer::Written(version) => version,
            other => unreachable!("{other:?}"),
        })
    }
}

/// Asks, and takes an answer of the kind that belongs to the request.
macro_rules! ask {
    ($self:ident, $request:expr, $answer:pat => $value:expr) => {
        Box::pin(async move {
            match $self.ask($request).await? {
                $answer => Ok($value),
                other => unreachable!("{other:?}"),
            }
        })
    };
}

impl Store for Link {
    fn acquire<'a>(&'a self, session_id: &'a str, node: NodeId) -> StoreFuture<'a, Option<Lease>> {
        let asked = self.asked.fetch_add(1, Ordering::Relaxed);
        let grant = self.net.lock().dice.next() >> 1;
        let session = session_id.to_owned();
        let request = Request::Acquire { session, node, asked, grant };
        ask!(self, request, Answer::Lease(lease) => lease)
    }

    fn lease_time(&self) -> Option<Duration> {
        Some(Duration::from_millis(LEASE_MS))
    }

    fn wait(&self) -> Duration {
        Duration::from_millis(WAIT_MS)
    }

    fn is_recovering(&self) -> bool {
        self.recovery.is_under_way()
    }

    fn check(&self) -> StoreFuture<'_, ()> {
        ask!(self, Request::Check, Answer::Done => ())
    }

    fn renew<'a>(&'a self, lease: &'a Lease) -> StoreFuture<'a, Renewed> {
        ask!(self, Request::Renew(lease.clone()), Answer::Renewed(renewed) => renewed)
    }

    fn release<'a>(&'a self, lease: &'a Lease) -> StoreFuture<'a, ()> {
        ask!(self, Request::Release(lease.clone()), Answer::Done => ())
    }

    fn request_cancel<'a>(
        &'a self,
        session_id: &'a str,
        turn_id: Option<&'a str>,
    ) -> StoreFuture<'a, bool> {
        let (session, turn) = (session_id.to_owned(), turn_id.unwrap_or_default().to_owned());
        ask!(self, Request::Cancel { session, turn }, Answer::Flag(done) => done)
    }

    fn was_forgotten<'a>(&'a self, session_id: &'a str) -> StoreFuture<'a, bool> {
        ask!(self, Request::WasForgotten(session_id.to_owned()), Answer::Flag(was) => was)
    }

    fn watch<'a>(&'a self, session_id: &'a str, whom: Watched) -> StoreFuture<'a, Watch> {
        Box::pin(async move {
            self.ask(Request::Check).await?;
            let (wakes, changes) = watch::channel(());
            self.net.lock().watches.push((session_id.to_owned(), whom, wakes));
            Ok(Watch::new(changes, ()))
        })
    }

    fn interrupted(&self, _: usize) -> StoreFuture<'_, Vec<String>> {
        ask!(self, Request::Interrupted, Answer::Ids(ids) => ids)
    }

    fn load<'a>(&'a self, session_id: &'a str) -> StoreFuture<'a, Option<StoredRecord>> {
        ask!(self, Request::Load(session_id.to_owned()), Answer::Record(record) => record)
    }

    fn save<'a>(
        &'a self,
        lease: &'a Lease,
        expected: Option<Version>,
        record: Bytes,
    ) -> StoreFuture<'a, Version> {
        Box::pin(async move {
            let version = self.write(lease, Some((expected, record)), None, false).await?;
            Ok(version.expect("a record has a version"))
        })
    }

    fn append<'a>(
        &'a self,
        lease: &'a Lease,
        turn_id: &'a str,
        news: LogNews,
    ) -> StoreFuture<'a, Appended> {
        Box::pin(async move {
            self.write(lease, None, Some((turn_id, news)), false).await?;
            Ok(Appended::default())
        })
    }

    fn finish<'a>(
        &'a self,
        lease: &'a Lease,
        expected: Option<Version>,
        record: Bytes,
        LogEnd { turn_id, batches }: LogEnd<'a>,
    ) -> StoreFuture<'a, Version> {
        Box::pin(async move {
            let end = (turn_id, LogNews::from(batches));
            let version = self.write(lease, Some((expected, record)), Some(end), true).await?;
            Ok(version.expect("a record has a version"))
        })
    }

    fn read<'a>(
        &'a self,
        session_id: &'a str,
        turn_id: Option<&'a str>,
        seen: u64,
    ) -> StoreFuture<'a, Option<StoredLog>> {
        let (session, turn) = (session_id.to_owned(), turn_id.map(str::to_owned));
        ask!(self, Request::Read { session, turn, seen }, Answer::Log(log) => log)
    }

    fn forget<'a>(&'a self, session_id: &'a str) -> StoreFuture<'a, bool> {
        ask!(self, Request::Forget(session_id.to_owned()), Answer::Flag(had) => had)
    }

    fn discard<'a>(&'a self, _: &'a Lease) -> StoreFuture<'a, ()> {
        unreachable!("no schedule has clients that keep the conversation")
    }

    fn keep_artifact<'a>(&'a self, _: &'a str, _: Artifact) -> StoreFuture<'a, ()> {
        unreachable!("no schedule has files")
    }

    fn artifact<'a>(&'a self, _: &'a str) -> StoreFuture<'a, Option<Artifact>> {
        unreachable!("no schedule has files")
    }

    fn list<'a>(&'a self, _: Option<&'a str>, _: usize) -> StoreFuture<'a, Vec<ListedSession>> {
        unreachable!("no schedule lists sessions")
    }

    fn copy<'a>(&'a self, _: &'a str) -> StoreFuture<'a, Option<SessionCopy>> {
        unreachable!("no schedule copies sessions")
    }

    fn restore(&self, _: SessionCopy, _: bool) -> StoreFuture<'_, bool> {
        unreachable!("no schedule restores sessions")
    }
}
