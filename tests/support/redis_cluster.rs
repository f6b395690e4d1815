//! A real Redis cluster of three primaries on loopback.

use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::net::TcpListener;
use std::ops::{Deref, Index};
use std::thread::yield_now;

use super::redis_server::RedisServer;

/// A cluster that runs until it is dropped.
#[derive(Debug)]
pub(crate) struct RedisCluster {
    /// The primaries, and then their replicas.
    servers: Vec<Member>,
}

/// One of its servers, and the ports of its clients and of the others.
#[derive(Debug)]
struct Member {
    server: RedisServer,
    port: u16,
    bus: u16,
}

impl Member {
    fn start() -> Self {
        let [port, bus]: [u16; 2] = free_ports();
        let [its, others] = [port, bus].map(|port| port.to_string());
        let ports = ["--port", &its, "--cluster-port", &others];
        let cluster = ["--cluster-enabled", "yes", "--cluster-node-timeout", "2000"];
        // Otherwise it waits for more replicas before it sends its data.
        let delay = ["--repl-diskless-sync-delay", "0"];
        let server = RedisServer::start_with(&[&ports[..], &cluster, &delay].concat());
        Self { server, port, bus }
    }

    /// Waits until it says this of its cluster.
    fn wait_to_hear(&self, about: &str, text: &str) {
        while !self.command(&["CLUSTER", about]).contains(text) {
            yield_now();
        }
    }
}

impl Deref for Member {
    type Target = RedisServer;

    fn deref(&self) -> &RedisServer {
        &self.server
    }
}

/// First and last slot of each server.
const RANGES: [(u16, u16); 3] = [(0, 5460), (5461, 10922), (10923, 16383)];

/// Ports that were free a moment ago. The system gives others to whoever asks for any (on Linux, those from 32768 on), so
/// nobody gets one of these by chance before the server has it.
pub(crate) fn free_ports<const N: usize>() -> [u16; N] {
    let listen = |()| loop {
        let random = RandomState::new().build_hasher().finish();
        let port = 10_000 + u16::try_from(random % 20_000).unwrap();
        if let Ok(listener) = TcpListener::bind(("127.0.0.1", port)) {
            break listener;
        }
    };
    let listeners = [(); N].map(listen);
    listeners.map(|listener| listener.local_addr().unwrap().port())
}

impl RedisCluster {
    /// How many servers have keys.
    pub(crate) const PRIMARIES: usize = RANGES.len();

    /// Starts the servers and waits until they agree.
    pub(crate) fn start() -> Self {
        let servers = RANGES.iter().enumerate().map(|(number, (first, last))| {
            let server = Member::start();
            server.command(&["CLUSTER", "SET-CONFIG-EPOCH", &(number + 1).to_string()]);
            server.command(&["CLUSTER", "ADDSLOTSRANGE", &first.to_string(), &last.to_string()]);
            server
        });
        let cluster = Self { servers: servers.collect() };
        for server in &cluster.servers[1..] {
            cluster.meet(server);
        }
        for server in &cluster.servers {
            server.wait_to_hear("INFO", "cluster_state:ok");
        }
        cluster
    }

    fn meet(&self, member: &Member) {
        let [port, bus] = [member.port, member.bus].map(|port| port.to_string());
        self.servers[0].command(&["CLUSTER", "MEET", "127.0.0.1", &port, &bus]);
    }

    /// Gives a server a replica, which takes its place if it dies.
    pub(crate) fn replicate(&mut self, at: usize) {
        let replica = Member::start();
        self.meet(&replica);
        let id = self.id(at);
        while replica.command(&["CLUSTER", "REPLICATE", &id]).starts_with('-') {
            yield_now();
        }
        let is_known = format!("slave {id}");
        for server in &self.servers {
            server.wait_to_hear("NODES", &is_known);
        }
        self.servers[at].wait_for_replica();
        self.servers.push(replica);
    }

    /// Waits until all that is on a server is on its replica too.
    pub(crate) fn wait_for_replica(&self, at: usize) {
        self.servers[at].wait_for_replica();
    }

    /// The address of one of them, which knows the others.
    pub(crate) fn url(&self) -> String {
        format!("redis+cluster://127.0.0.1:{}", self.servers[0].port)
    }

    pub(crate) fn kill(&mut self, at: usize) {
        self.servers[at].server.kill();
    }

    /// Starts a server again that was killed.
    pub(crate) fn run(&mut self, at: usize) {
        self.servers[at].server.run();
    }

    /// Which server has this key.
    pub(crate) fn owner(&self, key: &str) -> usize {
        let slot = self.slot(key);
        let told = self[0].command(&["CLUSTER", "SLOTS"]);
        // Ranges come with numbers and their primary: `:0 :5460 *4 $9 127.0.0.1 :7000 ...`.
        let words: Vec<&str> = told.split("\r\n").collect();
        let number = |at: usize| words[at].strip_prefix(':')?.parse::<u16>().ok();
        let port = (0..words.len() - 6).find_map(|at| {
            let (first, last) = (number(at)?, number(at + 1)?);
            (first..=last).contains(&slot).then(|| number(at + 5)).flatten()
        });
        self.servers.iter().position(|its| Some(its.port) == port).unwrap()
    }

    fn slot(&self, key: &str) -> u16 {
        let slot = self[0].command(&["CLUSTER", "KEYSLOT", key]);
        slot.trim_matches([':', '\r', '\n']).parse().unwrap()
    }

    /// Begins to move the slot of a key to another server. None of its keys moves yet.
    pub(crate) fn begin_move(&self, key: &str, to: usize) -> Move<'_> {
        let (from, slot) = (self.owner(key), self.slot(key).to_string());
        let [its, others] = [from, to].map(|at| self.id(at));
        self[to].command(&["CLUSTER", "SETSLOT", &slot, "IMPORTING", &its]);
        self[from].command(&["CLUSTER", "SETSLOT", &slot, "MIGRATING", &others]);
        Move { cluster: self, from, to, slot }
    }

    fn id(&self, at: usize) -> String {
        self[at].command(&["CLUSTER", "MYID"]).lines().nth(1).unwrap().to_owned()
    }
}

/// A slot between two servers.
#[derive(Debug)]
pub(crate) struct Move<'c> {
    cluster: &'c RedisCluster,
    from: usize,
    to: usize,
    slot: String,
}

impl Move<'_> {
    /// Moves up to `count` keys.
    pub(crate) fn keys(&self, count: usize) {
        let from = &self.cluster[self.from];
        let found = from.command(&["CLUSTER", "GETKEYSINSLOT", &self.slot, &count.to_string()]);
        let port = self.cluster.servers[self.to].port.to_string();
        for key in found.lines().skip(2).step_by(2) {
            let moved = from.command(&["MIGRATE", "127.0.0.1", &port, key, "0", "5000"]);
            assert!(!moved.starts_with('-'), "{moved}");
        }
    }

    /// Moves all keys that are left, and ends the move.
    pub(crate) fn finish(self) {
        self.keys(1000);
        let id = self.cluster.id(self.to);
        for at in [self.to, self.from] {
            self.cluster[at].command(&["CLUSTER", "SETSLOT", &self.slot, "NODE", &id]);
        }
    }
}

impl Index<usize> for RedisCluster {
    type Output = RedisServer;

    fn index(&self, at: usize) -> &RedisServer {
        &self.servers[at]
    }
}
