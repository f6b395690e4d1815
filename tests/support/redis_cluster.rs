//! A real Redis cluster of three primaries on loopback.

use std::net::TcpListener;
use std::ops::Index;
use std::thread::yield_now;

use super::redis_server::RedisServer;

/// A cluster that runs until it is dropped.
#[derive(Debug)]
pub(crate) struct RedisCluster {
    servers: Vec<(u16, RedisServer)>,
}

/// First and last slot of each server.
const RANGES: [(u16, u16); 3] = [(0, 5460), (5461, 10922), (10923, 16383)];

/// Ports that were free a moment ago.
pub(crate) fn free_ports<const N: usize>() -> [u16; N] {
    let listeners = [(); N].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
    listeners.map(|listener| listener.local_addr().unwrap().port())
}

impl RedisCluster {
    /// Starts the servers and waits until they agree.
    pub(crate) fn start() -> Self {
        let ports: [u16; 6] = free_ports();
        let mut servers = Vec::new();
        for (number, (first, last)) in RANGES.iter().enumerate() {
            let (port, bus) = (ports[number], ports[number + 3]);
            let server = RedisServer::start_with(&[
                "--port",
                &port.to_string(),
                "--cluster-enabled",
                "yes",
                "--cluster-port",
                &bus.to_string(),
                "--cluster-node-timeout",
                "2000",
            ]);
            server.command(&["CLUSTER", "SET-CONFIG-EPOCH", &(number + 1).to_string()]);
            server.command(&["CLUSTER", "ADDSLOTSRANGE", &first.to_string(), &last.to_string()]);
            servers.push((port, server));
        }
        for (number, (port, _)) in servers.iter().enumerate().skip(1) {
            let [port, bus] = [*port, ports[number + 3]].map(|port| port.to_string());
            servers[0].1.command(&["CLUSTER", "MEET", "127.0.0.1", &port, &bus]);
        }
        let cluster = Self { servers };
        for (_, server) in &cluster.servers {
            while !server.command(&["CLUSTER", "INFO"]).contains("cluster_state:ok") {
                yield_now();
            }
        }
        cluster
    }

    /// The address of one of them, which knows the others.
    pub(crate) fn url(&self) -> String {
        format!("redis+cluster://127.0.0.1:{}", self.servers[0].0)
    }

    pub(crate) fn len(&self) -> usize {
        self.servers.len()
    }

    pub(crate) fn kill(&mut self, at: usize) {
        self.servers[at].1.kill();
    }

    /// Starts a server again that was killed.
    pub(crate) fn run(&mut self, at: usize) {
        self.servers[at].1.run();
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
        self.servers.iter().position(|(its, _)| Some(*its) == port).unwrap()
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
        let port = self.cluster.servers[self.to].0.to_string();
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
        &self.servers[at].1
    }
}
