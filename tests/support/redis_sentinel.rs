//! A primary, its replica, and a Sentinel that watches over them, all real.

use std::thread::yield_now;

use super::redis_cluster::free_ports;
use super::redis_server::RedisServer;

/// Servers that run until this is dropped.
#[derive(Debug)]
pub(crate) struct RedisSentinel {
    primary: Option<RedisServer>,
    replica: RedisServer,
    sentinel: RedisServer,
    port: u16,
}

impl RedisSentinel {
    /// Starts the servers and waits until the Sentinel knows them.
    pub(crate) fn start() -> Self {
        let [first, second, port]: [u16; 3] = free_ports();
        let [first, second] = [first, second].map(|port| port.to_string());
        // It would wait for more replicas before it sends its data.
        let delay = ["--repl-diskless-sync-delay", "0"];
        let primary = RedisServer::start_with(&[&["--port", &first][..], &delay].concat());
        let replicates = ["--port", &second, "--replicaof", "127.0.0.1", &first];
        let replica = RedisServer::start_with(&[&replicates[..], &delay].concat());
        let sentinel = RedisServer::start_sentinel(&format!(
            "port {port}\nsentinel monitor main 127.0.0.1 {first} 1\n\
             sentinel down-after-milliseconds main 500\nsentinel failover-timeout main 2000\n"
        ));
        let servers = Self { primary: Some(primary), replica, sentinel, port };
        servers.wait_for_replica();
        while !servers.sentinel.command(&["INFO", "sentinel"]).contains("status=ok")
            || !servers.sentinel.command(&["INFO", "sentinel"]).contains("slaves=1")
        {
            yield_now();
        }
        servers
    }

    /// From now on, the Sentinel answers only this user.
    pub(crate) fn require_login(&self, user: &str, password: &str) {
        let password = format!(">{password}");
        let rights = ["+@connection", "+sentinel|get-master-addr-by-name"];
        let login = ["ACL", "SETUSER", user, "reset", "on", &password];
        assert_eq!(self.sentinel.command(&[&login[..], &rights].concat()), "+OK\r\n");
        if user != "default" {
            assert_eq!(self.sentinel.command(&["ACL", "SETUSER", "default", "off"]), "+OK\r\n");
        }
    }

    pub(crate) fn url(&self) -> String {
        format!("redis+sentinel://127.0.0.1:{}/main", self.port)
    }

    /// Waits until the replica has all that the primary has.
    pub(crate) fn wait_for_replica(&self) {
        self.primary.as_ref().expect("it runs").wait_for_replica();
    }

    /// Kills the primary, as a crash would.
    pub(crate) fn kill_primary(&mut self) {
        self.primary = None;
    }

    /// Lets the replica become the primary, and the primary its replica.
    pub(crate) fn fail_over(&self) {
        assert_eq!(self.sentinel.command(&["SENTINEL", "FAILOVER", "main"]), "+OK\r\n");
    }

    /// Waits until the replica is the primary.
    pub(crate) fn wait_for_failover(&self) {
        while !self.replica.command(&["ROLE"]).contains("master") {
            yield_now();
        }
    }
}
