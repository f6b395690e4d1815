//! One schedule: nodes, clients and readers, and what happens to them.

use tokio::task::AbortHandle;

use super::coverage::Coverage;
use super::dice::Dice;
use super::driving::Script;
use super::network::{Net, Shared};
use super::node::{Begins, Inbox, News, Node, STOP_MS_MAX, StreamEnd, Wish};
use super::rules::{Seen, Told};
use super::{Flaw, LEASE_MS, WAIT_MS};
use crate::event::Kind;

/// How much time passes in a step.
const STEP_MS: u64 = 20;
/// How long it may take, once all is well again, until all turns have ended.
const END_MS: u64 = 60_000;

/// Someone who sends turns to a session.
#[derive(Debug)]
struct Client {
    session: String,
    /// How many turns it still wants.
    left: u64,
    wish: Option<Wish>,
    /// The request that waits for an answer, and its node.
    request: Option<(u64, usize)>,
    again_at: u64,
    /// The reader of its latest turn.
    reads: Option<usize>,
}

/// A reader that behaves like an `EventSource`.
#[derive(Debug, Default)]
struct Reader {
    session: String,
    turn: String,
    last: Option<(u64, u64)>,
    words: u64,
    stream: Option<Stream>,
    again_at: u64,
    is_done: bool,
    has_left: bool,
}

#[derive(Debug)]
struct Stream {
    number: u64,
    node: usize,
    handle: AbortHandle,
    is_first: bool,
}

pub(super) struct World {
    now: u64,
    net: Shared,
    inbox: Inbox,
    dice: Dice,
    nodes: Vec<Option<Node>>,
    clients: Vec<Client>,
    readers: Vec<Reader>,
    numbers: u64,
    is_quiet: bool,
    /// How often something happens to a node, once in so many steps.
    mischief: u64,
    /// Decides when sessions are deleted, in the schedules in which that happens: all others stay as they were before there
    /// were deletions, and so do those that have [found](super::FOUND) something.
    deletions: Option<Dice>,
}

impl World {
    pub(super) fn new(seed: u64, flaw: Flaw, is_traced: bool) -> Self {
        let net = Net::new(seed, flaw);
        let mut dice = Dice(!seed);
        if is_traced {
            net.lock().rules.trace = Some(Vec::new());
        }
        let inbox = Inbox::default();
        let nodes = (0..2 + dice.roll(4)).map(|_| Some(Node::start(&net, &inbox))).collect();
        let clients = (0..=dice.roll(2)).map(|at| Client {
            session: format!("s{at}"),
            left: 1 + dice.roll(3),
            wish: None,
            request: None,
            again_at: dice.roll(2000),
            reads: None,
        });
        let clients = clients.collect();
        net.lock().trouble = [0, 4, 15, 35][usize::try_from(dice.roll(4)).unwrap_or(0)];
        let mischief = [30, 100, 400][usize::try_from(dice.roll(3)).unwrap_or(0)];
        let (readers, now, numbers, is_quiet) = (Vec::new(), 0, 0, false);
        let deletions = (seed % 5 == 3).then_some(Dice(seed << 32));
        Self {
            now,
            net,
            inbox,
            dice,
            nodes,
            clients,
            readers,
            numbers,
            is_quiet,
            mischief,
            deletions,
        }
    }

    /// Plays it to its end. Returns what it has covered, or what was broken.
    pub(super) fn play(mut self) -> (Result<Coverage, String>, Option<Vec<String>>) {
        let steps = 300 + self.dice.roll(1200);
        for _ in 0..steps {
            if !self.step() {
                return self.outcome();
            }
        }
        self.be_quiet();
        let until = self.now + END_MS;
        let mut settled = 0;
        while settled < 2 * LEASE_MS {
            if !self.step() {
                return self.outcome();
            }
            settled = if self.is_settled() { settled + STEP_MS } else { 0 };
            if self.now > until {
                let open: Vec<_> = self.readers.iter().filter(|reader| !reader.is_done).collect();
                let clients: Vec<_> = self.clients.iter().filter(|it| it.wish.is_some()).collect();
                let what = format!("it does not end: {open:?}, {clients:?}");
                self.net.lock().rules.fail(what);
                return self.outcome();
            }
        }
        {
            let mut guard = self.net.lock();
            let net = &mut *guard;
            net.rules.check_end(&net.server);
        }
        self.outcome()
    }

    fn outcome(self) -> (Result<Coverage, String>, Option<Vec<String>>) {
        self.take_news();
        let mut net = self.net.lock();
        let trace = net.rules.trace.take();
        let broken = std::mem::take(&mut net.rules.broken);
        let outcome = match broken.first() {
            None => Ok(net.seen.clone()),
            Some(_) => Err(broken.join("\n")),
        };
        (outcome, trace)
    }

    fn take_news(&self) {
        let mut net = self.net.lock();
        for what in std::mem::take(&mut net.rules.news) {
            net.seen.saw(what);
        }
    }

    /// False if something is broken.
    fn step(&mut self) -> bool {
        self.now += STEP_MS;
        self.net.lock().advance(self.now);
        let first = usize::try_from(self.dice.roll(8)).unwrap_or(0);
        let count = self.nodes.len();
        for at in 0..count {
            if let Some(node) = &mut self.nodes[(first + at) % count] {
                node.run(self.now, STEP_MS);
            }
        }
        self.hear();
        if !self.is_quiet {
            self.misbehave();
        }
        self.ask();
        self.read();
        self.take_news();
        self.net.lock().rules.broken.is_empty()
    }

    fn be_quiet(&mut self) {
        self.is_quiet = true;
        let mut net = self.net.lock();
        net.note("all is well from here on");
        net.calm_down();
        drop(net);
        for node in self.nodes.iter_mut().flatten() {
            if let Some(until) = &mut node.stopped_until {
                *until = (*until).min(self.now + LEASE_MS);
            }
        }
        for client in &mut self.clients {
            client.left = 0;
        }
        if self.nodes.iter().all(Option::is_none) {
            self.nodes[0] = Some(Node::start(&self.net, &self.inbox));
        }
    }

    fn is_settled(&self) -> bool {
        let net = self.net.lock();
        let mut logs = net.server.sessions.values().flat_map(|kept| &kept.logs);
        let are_over = logs.all(|log| log.journal.is_none());
        let are_read = self.readers.iter().all(|reader| reader.is_done);
        let is_up = self.nodes.iter().flatten().all(Node::is_up);
        are_over && are_read && is_up && self.clients.iter().all(|client| client.wish.is_none())
    }

    fn number(&mut self) -> u64 {
        self.numbers += 1;
        self.numbers
    }

    /// A node that clients can reach.
    fn any_node(&mut self) -> Option<usize> {
        let up = |at: &usize| self.nodes[*at].as_ref().is_some_and(Node::is_up);
        let up: Vec<_> = (0..self.nodes.len()).filter(up).collect();
        self.dice.pick(&up).copied()
    }

    /// Whether a node holds a session.
    fn is_busy(&self, node: &Node) -> bool {
        let net = self.net.lock();
        net.server.sessions.keys().any(|session| {
            let is_running = net.server.log(session, None).is_some_and(|log| log.journal.is_some());
            is_running && net.server.holder(session) == Some(node.id)
        })
    }

    fn misbehave(&mut self) {
        if self.dice.once_in(self.mischief) {
            let at = usize::try_from(self.dice.roll(self.nodes.len() as u64)).unwrap_or(0);
            self.trouble_node(at);
        }
        if self.dice.once_in(20 * self.mischief) {
            let ms = 1 + self.dice.roll(3 * WAIT_MS);
            self.net.lock().take_down(ms);
        }
        if self.dice.once_in(300) {
            self.net.lock().trouble = self.dice.roll(40);
        }
        if self.dice.once_in(300) {
            self.cancel();
        }
        self.delete();
        if self.dice.once_in(100) && !self.readers.is_empty() {
            let at = usize::try_from(self.dice.roll(self.readers.len() as u64)).unwrap_or(0);
            if self.dice.once_in(3) {
                let Reader { session, turn, .. } = &self.readers[at];
                let (session, turn) = (session.clone(), turn.clone());
                self.readers.push(Reader { session, turn, ..Reader::default() });
            } else {
                self.readers[at].leave(self.now + self.dice.roll(3000));
            }
        }
    }

    fn trouble_node(&mut self, at: usize) {
        let Some(node) = &self.nodes[at] else {
            self.nodes[at] = Some(Node::start(&self.net, &self.inbox));
            return;
        };
        let is_busy = self.is_busy(node);
        // Those that run a turn more often.
        if !is_busy && self.dice.once_in(2) {
            return;
        }
        if self.dice.once_in(2) {
            if is_busy {
                self.net.lock().seen.saw("node: killed while it ran a turn");
            }
            if let Some(node) = self.nodes[at].take() {
                node.kill();
            }
            self.lose(at);
        } else if let Some(node) = &mut self.nodes[at]
            && node.is_up()
        {
            let ms = self.dice.roll(STOP_MS_MAX);
            node.stop(self.now, ms);
            if is_busy {
                self.net.lock().seen.saw("node: stopped while it ran a turn");
            }
        }
    }

    /// Clients of a dead node notice it.
    fn lose(&mut self, node: usize) {
        for client in &mut self.clients {
            if client.request.is_some_and(|(_, at)| at == node) {
                client.request = None;
                client.again_at = self.now + 100;
            }
        }
        for reader in &mut self.readers {
            if reader.stream.as_ref().is_some_and(|stream| stream.node == node) {
                reader.leave(self.now + 100);
            }
        }
    }

    fn cancel(&mut self) {
        let sessions: Vec<_> = self.clients.iter().map(|client| client.session.clone()).collect();
        let Some(session) = self.dice.pick(&sessions).cloned() else { return };
        if let Some(at) = self.any_node()
            && let Some(node) = &self.nodes[at]
        {
            node.cancel(session);
        }
    }

    fn delete(&mut self) {
        let Some(dice) = &mut self.deletions else { return };
        if !dice.once_in(150) {
            return;
        }
        let up: Vec<_> = self.nodes.iter().flatten().filter(|node| node.is_up()).collect();
        if let Some(client) = dice.pick(&self.clients)
            && let Some(node) = dice.pick(&up)
        {
            node.delete(client.session.clone());
        }
    }

    /// Lets clients ask for turns.
    fn ask(&mut self) {
        // Nobody waits for a turn without an end.
        if self.is_quiet && self.now.is_multiple_of(2000) {
            self.cancel();
        }
        for at in 0..self.clients.len() {
            let client = &self.clients[at];
            if let Some((_, node)) = client.request {
                let is_stopped = self.nodes[node].as_ref().is_none_or(|node| !node.is_up());
                if is_stopped && self.dice.once_in(50) {
                    self.clients[at].request = None;
                }
                continue;
            }
            if client.again_at > self.now {
                continue;
            }
            let wish = match &client.wish {
                Some(wish) => Some(wish.clone()),
                None => self.next_wish(at),
            };
            let (Some(mut wish), Some(node)) = (wish, self.any_node()) else { continue };
            let number = self.number();
            wish.turn = format!("{}-t{number}", wish.session);
            if let Some(node) = &self.nodes[node] {
                node.begin(at, number, wish.clone());
            }
            self.clients[at].wish = Some(wish);
            self.clients[at].request = Some((number, node));
        }
    }

    fn next_wish(&mut self, client: usize) -> Option<Wish> {
        let Client { left, reads, session, .. } = &self.clients[client];
        if *left == 0 {
            return None;
        }
        let runs = reads.is_some_and(|reader| !self.readers[reader].is_done);
        // Seldom, it does not wait for the end of the turn before.
        if runs && !self.dice.once_in(300) {
            return None;
        }
        let (session, left) = (session.clone(), *left);
        let is_endless = self.dice.once_in(8);
        let words = if is_endless { 100_000 } else { 1 + self.dice.roll(25) };
        let pace_ms = [5, 60, 300][usize::try_from(self.dice.roll(3)).unwrap_or(0)];
        let script = Script {
            words,
            tools: (0..self.dice.roll(4)).map(|_| self.dice.roll(12)).collect(),
            pace_ms: if is_endless { 300 } else { pace_ms },
            round: 2 + self.dice.roll(15),
        };
        self.clients[client].left -= 1;
        let (key, turn) = (format!("{session}-k{left}"), String::new());
        let supersedes = runs && self.dice.once_in(2);
        Some(Wish { session, turn, key, script, supersedes })
    }

    /// Lets readers join.
    fn read(&mut self) {
        for at in 0..self.readers.len() {
            let reader = &self.readers[at];
            if reader.is_done || reader.again_at > self.now {
                continue;
            }
            if let Some(stream) = &reader.stream {
                // One that hears nothing goes elsewhere.
                let is_stopped = self.nodes[stream.node].as_ref().is_some_and(|node| !node.is_up());
                if is_stopped && self.dice.once_in(50) {
                    self.readers[at].leave(self.now);
                }
                continue;
            }
            let Some(node) = self.any_node() else { return };
            let number = self.number();
            let reader = &mut self.readers[at];
            let of = (reader.session.clone(), reader.turn.clone());
            if let Some(live) = &self.nodes[node] {
                let handle = live.read(number, of, reader.last);
                reader.stream = Some(Stream { number, node, handle, is_first: true });
            }
        }
    }

    /// Takes what the nodes have said.
    fn hear(&mut self) {
        let all = std::mem::take(&mut *self.inbox.lock());
        for news in all {
            match news {
                News::Answered { client, request, answer } => {
                    self.answered(client, request, answer);
                }
                News::Read { stream, events } => {
                    if let Some(at) = self.reader_of(stream) {
                        for event in events {
                            self.got(at, &event);
                        }
                    }
                }
                News::Ended { stream, end } => {
                    if let Some(at) = self.reader_of(stream) {
                        self.ended(at, end);
                    }
                }
                News::Cancelling { session, node } => {
                    let mut net = self.net.lock();
                    let is_its = net.server.holder(&session) == Some(node);
                    net.note(&format!("{session} is to be cancelled"));
                    net.seen.saw(if is_its {
                        "cancel: where it runs"
                    } else {
                        "cancel: from another node"
                    });
                }
            }
        }
    }

    fn reader_of(&self, stream: u64) -> Option<usize> {
        let is_its = |open: &Stream| open.number == stream;
        self.readers.iter().position(|reader| reader.stream.as_ref().is_some_and(is_its))
    }

    fn answered(&mut self, at: usize, request: u64, answer: Begins) {
        let client = &mut self.clients[at];
        let is_its = client.request.is_some_and(|(number, _)| number == request);
        if !is_its {
            // It has given up waiting, and asks again.
            return;
        }
        client.request = None;
        client.again_at = self.now + 200;
        match answer {
            Begins::Begun(turn) | Begins::Repeated(turn) => {
                let supersedes = client.wish.as_ref().is_some_and(|wish| wish.supersedes);
                client.reads = Some(self.readers.len());
                client.again_at += self.dice.roll(1500);
                // At times, it repeats a request that was answered.
                client.wish = client.wish.take().filter(|_| self.dice.once_in(4));
                if let Some(wish) = &mut client.wish {
                    wish.supersedes = false;
                }
                let session = client.session.clone();
                self.readers.push(Reader { session, turn, ..Reader::default() });
                if supersedes {
                    self.net.lock().seen.saw("begin: a running turn makes way");
                }
            }
            // It was deleted in between.
            Begins::Gone if self.net.lock().server.deletions.contains_key(&client.session) => {}
            Begins::Gone => {
                let what = format!("{}: its key began a turn that left nothing", client.session);
                self.net.lock().rules.fail(what);
            }
            Begins::Later => {}
        }
    }

    fn got(&mut self, at: usize, event: &Seen) {
        let reader = &mut self.readers[at];
        let mut guard = self.net.lock();
        let net = &mut *guard;
        let after = reader.last.map_or(0, |(_, sequence)| sequence);
        if event.sequence != after + 1 {
            let what = format!("{}: a reader gets {event:?} after {after}", reader.turn);
            return net.rules.fail(what);
        }
        let of = (&*reader.session, &*reader.turn);
        let node = reader.stream.as_ref().and_then(|it| self.nodes[it.node].as_ref());
        match net.rules.reads(&net.server, of, event) {
            Told::Event => {}
            Told::Begun => {
                reader.last = Some((event.epoch, event.sequence));
                return;
            }
            Told::StoreFails => {
                net.seen.saw("reader: was told that the store does not answer");
                reader.is_done = true;
                return;
            }
            Told::Deleted => {
                let holder = net.server.deletions.get(&reader.session).copied().flatten();
                let is_owner = node.is_some_and(|node| holder == Some(node.id));
                net.seen.saw(if is_owner {
                    "delete: a reader is told that the turn was cancelled, where it ran"
                } else {
                    "delete: a reader is told that the turn was cancelled, elsewhere"
                });
                reader.is_done = true;
                return;
            }
        }
        let is_first = reader.stream.as_mut().is_some_and(|it| std::mem::take(&mut it.is_first));
        if reader.last.is_some_and(|(epoch, _)| epoch != event.epoch) {
            net.seen.saw(if is_first {
                "reader: joined again after a takeover"
            } else {
                "reader: followed across a takeover without joining again"
            });
        } else if is_first && std::mem::take(&mut reader.has_left) {
            net.seen.saw("reader: left and came back");
        }
        reader.last = Some((event.epoch, event.sequence));
        if event.data.starts_with("{\"type\":\"text_delta\"") {
            reader.words += 1;
            if !event.data.contains(&format!("\"{} \"", reader.words)) {
                let what = format!("{}: {event:?} is word {}", reader.turn, reader.words);
                net.rules.fail(what);
            }
        }
        reader.is_done |= matches!(event.kind, Kind::TurnCompleted | Kind::TurnFailed);
    }

    fn ended(&mut self, at: usize, end: StreamEnd) {
        let turn_runs = self.nodes.iter().flatten().any(|node| node.runs(&self.readers[at].turn));
        let reader = &mut self.readers[at];
        let stream = reader.stream.take();
        reader.again_at = self.now + 100;
        if reader.is_done {
            return;
        }
        let mut guard = self.net.lock();
        let net = &mut *guard;
        net.note(&format!("a stream of {} ends: {end:?} after {:?}", reader.turn, reader.last));
        match end {
            StreamEnd::Ended => {
                let node = stream.and_then(|stream| self.nodes[stream.node].as_ref());
                if let Some(node) = node {
                    let of = (&*reader.session, &*reader.turn);
                    net.rules.stream_ends(&net.server, of, node.id);
                }
            }
            StreamEnd::Failed => {}
            StreamEnd::NotFound if net.server.deleted.contains_key(&reader.turn) => {
                net.seen.saw("delete: a reader is refused");
                reader.is_done = true;
            }
            StreamEnd::NotFound if reader.last.is_none() => {
                // Nothing of it was ever stored.
                let is_lost =
                    !turn_runs && net.server.log(&reader.session, Some(&reader.turn)).is_none();
                reader.is_done = is_lost && self.is_quiet;
            }
            end => {
                let (turn, last) = (reader.turn.clone(), reader.last);
                net.rules.fail(format!("{turn}: a reader after {last:?} is told {end:?}"));
            }
        }
    }
}

impl Reader {
    fn leave(&mut self, again_at: u64) {
        if let Some(stream) = self.stream.take() {
            stream.handle.abort();
        }
        self.has_left = true;
        self.again_at = again_at;
    }
}
