//! A gateway: sessions and turns, on a runtime of its own.
//!
//! Its clock is paused, and moves as the schedule lets it: not at all while the node is stopped, and a little
//! faster or slower than the store's. Its tasks end with it, at once and without a word.

use std::future::poll_fn;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::{Semaphore, mpsc};
use tokio::task::AbortHandle;
use tokio::time::{advance, sleep};

use super::driving::{self, Script};
use super::network::{Link, Shared};
use super::rules::{Seen, Standing};
use super::{Flaw, LEASE_MS};
use crate::conversation::ClientInput;
use crate::limits::session::{STORE_RETRY_INTERVAL, TAKEN_OVER_MAX};
use crate::session::store::{NodeId, Store};
use crate::session::{
    Beginning, Cancel, Durability, FoundTurn, LoggedTurn, NotBegun, Record, Sessions, TurnLog,
};

/// What nodes tell clients.
pub(super) type Inbox = Arc<Mutex<Vec<News>>>;

#[derive(Debug)]
pub(super) enum News {
    /// To a request for a turn.
    Answered {
        client: usize,
        request: u64,
        answer: Begins,
    },
    /// To the reader of a stream.
    Read {
        stream: u64,
        events: Vec<Seen>,
    },
    Ended {
        stream: u64,
        end: StreamEnd,
    },
    Cancelling {
        session: String,
        node: NodeId,
    },
}

#[derive(Debug)]
pub(super) enum Begins {
    Begun(String),
    Repeated(String),
    Gone,
    Later,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum StreamEnd {
    /// The response ended.
    Ended,
    /// There is nothing after what the reader has seen: it stops.
    NoContent,
    /// What the reader has seen is not known.
    EventGone(String),
    NotFound,
    Failed,
}

/// A request for a turn.
#[derive(Debug, Clone)]
pub(super) struct Wish {
    pub(super) session: String,
    pub(super) turn: String,
    pub(super) key: String,
    pub(super) script: Script,
    pub(super) supersedes: bool,
}

#[derive(Debug)]
pub(super) struct Node {
    runtime: Runtime,
    pub(super) id: NodeId,
    sessions: Sessions,
    shared: Shared,
    inbox: Inbox,
    /// How fast its clock runs, in percent.
    rate: u64,
    /// Until when it is stopped.
    pub(super) stopped_until: Option<u64>,
    /// How much time it has missed.
    behind_ms: u64,
}

/// Lets time pass on this node.
pub(super) async fn pass(ms: u64) {
    sleep(Duration::from_millis(ms)).await;
}

impl Node {
    pub(super) fn start(shared: &Shared, inbox: &Inbox) -> Self {
        let runtime = Builder::new_current_thread().enable_time().start_paused(true).build();
        let runtime = runtime.expect("a runtime without I/O needs nothing");
        let link = Link::new(shared);
        let mut net = shared.lock();
        let is_lazy = net.server.flaw == Flaw::ShownBeforeStored;
        let durability = if is_lazy { Durability::Lazy } else { Durability::BeforeSend };
        let sessions = Sessions::new(Arc::clone(&link) as Arc<dyn Store>, durability);
        let id = sessions.node;
        link.belongs_to(id);
        net.rules.stands(id, Standing::Lives);
        let rate = 95 + net.dice.roll(11);
        let name = net.rules.name_of(id);
        net.note(&format!("{name} starts, its clock at {rate} %"));
        drop(net);
        let (successor, mut taken_over) = mpsc::channel(TAKEN_OVER_MAX);
        sessions.resume_with(successor, Arc::new(Semaphore::new(PLACES)));
        let for_turns = Arc::clone(shared);
        runtime.spawn(async move {
            while let Some(taken_over) = taken_over.recv().await {
                tokio::spawn(driving::resume(Arc::clone(&for_turns), taken_over));
            }
        });
        let sweeper = sessions.clone();
        runtime.spawn(async move {
            loop {
                let _ = sweeper.settle_all().await;
                sleep(sweeper.settle_interval().expect("the store is shared")).await;
            }
        });
        let ending = sessions.clone();
        runtime.spawn(async move {
            let mut ends = ending.unstored_ends();
            while ends.wait_for(|count| *count > 0).await.is_ok() {
                ending.store_ends().await;
                sleep(STORE_RETRY_INTERVAL).await;
            }
        });
        let (shared, inbox) = (Arc::clone(shared), Arc::clone(inbox));
        Self { runtime, id, sessions, shared, inbox, rate, stopped_until: None, behind_ms: 0 }
    }

    /// Lets so much time pass.
    pub(super) fn run(&mut self, now: u64, ms: u64) {
        if let Some(until) = self.stopped_until {
            self.behind_ms += ms;
            if now < until {
                return;
            }
            self.stopped_until = None;
            let mut net = self.shared.lock();
            net.rules.stands(self.id, Standing::CameBack);
            let name = net.rules.name_of(self.id);
            net.note(&format!("{name} comes back"));
        }
        let missed = std::mem::take(&mut self.behind_ms);
        let ms = (ms * self.rate / 100).max(1);
        self.runtime.block_on(async {
            if missed > 0 {
                advance(Duration::from_millis(missed)).await;
            }
            sleep(Duration::from_millis(ms)).await;
        });
    }

    pub(super) const fn is_up(&self) -> bool {
        self.stopped_until.is_none()
    }

    /// Stops it for so long.
    pub(super) fn stop(&mut self, now: u64, ms: u64) {
        self.stopped_until = Some(now + ms);
        let mut net = self.shared.lock();
        net.rules.stands(self.id, Standing::Stopped);
        let name = net.rules.name_of(self.id);
        net.note(&format!("{name} is stopped for {ms} ms"));
    }

    pub(super) fn kill(self) {
        {
            let mut net = self.shared.lock();
            let name = net.rules.name_of(self.id);
            net.note(&format!("{name} is killed"));
            net.rules.stands(self.id, Standing::Killed);
        }
        drop(self.runtime);
    }

    /// Whether the turn runs here.
    pub(super) fn runs(&self, turn: &str) -> bool {
        self.sessions.running.all().iter().any(|session| session.turn.turn_id == turn)
    }

    pub(super) fn begin(&self, client: usize, request: u64, wish: Wish) {
        let (sessions, shared, inbox) =
            (self.sessions.clone(), Arc::clone(&self.shared), Arc::clone(&self.inbox));
        self.runtime.spawn(async move {
            let Wish { session, turn, key, script, supersedes } = wish;
            let input = ClientInput::default();
            let beginning = Beginning {
                session_id: &session,
                turn_id: &turn,
                key: Some(&key),
                input: &input,
                client_history: None,
                follows: None,
                is_new: false,
                is_passing: false,
                supersedes,
                head: None,
            };
            let begun = sessions.begin(beginning, |_| false).await;
            let saw = |what: &str| shared.lock().seen.saw(what);
            let (answer, begun) = match begun {
                Ok(begun) => (Begins::Begun(turn.clone()), Some(begun)),
                Err(NotBegun::Repeated(LoggedTurn { turn_id, log })) => {
                    saw(if log.has_ended() {
                        "begin: its key began a turn that is over"
                    } else {
                        "begin: its key began a turn that runs elsewhere"
                    });
                    (Begins::Repeated(turn_id), None)
                }
                Err(NotBegun::Gone) => (Begins::Gone, None),
                Err(NotBegun::Busy | NotBegun::Overtaken) => {
                    saw("begin: busy");
                    (Begins::Later, None)
                }
                Err(NotBegun::Refused(_) | NotBegun::Failed(_)) => (Begins::Later, None),
            };
            inbox.lock().push(News::Answered { client, request, answer });
            if let Some(begun) = begun {
                shared.lock().note(&format!("{turn} begins"));
                driving::begin(shared, session, turn, script, *begun).await;
            }
        });
    }

    /// Reads a turn on, as the server lets clients do.
    pub(super) fn read(
        &self,
        stream: u64,
        (session, turn): (String, String),
        last: Option<(u64, u64)>,
    ) -> AbortHandle {
        let (sessions, inbox) = (self.sessions.clone(), Arc::clone(&self.inbox));
        let reading = self.runtime.spawn(async move {
            let seen = last.map_or(0, |(_, sequence)| sequence);
            let end = match sessions.find_turn(&session, Some(&turn), seen).await {
                Ok(FoundTurn::Turn(turn)) => stream_from(&turn.log, last, &inbox, stream).await,
                Ok(FoundTurn::Gone | FoundTurn::NoTurn | FoundTurn::NoSession) => {
                    StreamEnd::NotFound
                }
                Err(_) => StreamEnd::Failed,
            };
            inbox.lock().push(News::Ended { stream, end });
        });
        reading.abort_handle()
    }

    pub(super) fn delete(&self, session: String) {
        let sessions = self.sessions.clone();
        self.runtime.spawn(async move {
            // Whoever is not told that it is done may try again; here, chance does.
            let _ = sessions.forget(&session).await;
        });
    }

    pub(super) fn cancel(&self, session: String) {
        let (sessions, inbox, node) = (self.sessions.clone(), Arc::clone(&self.inbox), self.id);
        self.runtime.spawn(async move {
            if let Ok(Cancel::Cancelling) = sessions.cancel(&session).await {
                inbox.lock().push(News::Cancelling { session, node });
            }
        });
    }
}

/// As `server/stream.rs` does it.
async fn stream_from(
    log: &Arc<TurnLog>,
    last: Option<(u64, u64)>,
    inbox: &Inbox,
    stream: u64,
) -> StreamEnd {
    let (has_ended, at) = (log.has_ended(), log.last_sequence());
    let seen = match last {
        None => 0,
        Some((epoch, seen)) if seen <= at && epoch == log.epochs().at(seen) => seen,
        Some(seen) => {
            return StreamEnd::EventGone(format!("{seen:?}, of {at} in {:?}", log.epochs()));
        }
    };
    if has_ended && seen == at {
        return StreamEnd::NoContent;
    }
    let mut reader = log.read_after(seen);
    loop {
        let mut events = Vec::new();
        let read = poll_fn(|cx| {
            reader.poll_read(cx, |Record { epoch, sequence, kind, data, .. }| {
                let data = String::from_utf8_lossy(data).into_owned();
                events.push(Seen { epoch, sequence, kind, data });
            })
        })
        .await;
        if read.is_none() {
            return StreamEnd::Ended;
        }
        inbox.lock().push(News::Read { stream, events });
    }
}

/// How many turns of other nodes a node goes on with at the same time.
const PLACES: usize = 100;

/// The longest that a schedule lets a node be stopped.
pub(super) const STOP_MS_MAX: u64 = 3 * LEASE_MS;
