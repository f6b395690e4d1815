//! Idle connections, kept for the next request.
//!
//! They are not driven while they are idle. A connection that the server has closed in the
//! meantime is noticed when it is taken out.

use std::time::Duration;

use hyper::HeaderMap;
use parking_lot::Mutex;
use tokio::time::Instant;

use super::connection::Connection;
use crate::limits::upstream as limits;

/// The idle connections of one client.
#[derive(Debug, Default)]
pub(super) struct Pool {
    /// Most recently used last.
    idle: Mutex<Vec<Idle>>,
}

#[derive(Debug)]
struct Idle {
    connection: Connection,
    /// When it becomes too old to use.
    end: Instant,
}

impl Pool {
    /// Takes the most recently used connection that is still open.
    pub(super) fn take(&self) -> Option<Connection> {
        loop {
            let Idle { mut connection, end } = self.idle.lock().pop()?;
            if Instant::now() < end && connection.is_usable() {
                return Some(connection);
            }
        }
    }

    /// Keeps a connection for reuse, so long, if it is still usable.
    pub(super) fn give_back(&self, mut connection: Connection, keep_alive: Duration) {
        if !connection.is_usable() {
            return;
        }
        let now = Instant::now();
        let mut idle = self.idle.lock();
        idle.retain(|idle| now < idle.end);
        if idle.len() < limits::IDLE_CONNECTIONS_MAX {
            idle.push(Idle { connection, end: now + keep_alive });
        }
    }
}

/// How long a connection may sit idle after an answer with these headers: one second less than the server announces in
/// `Keep-Alive: timeout=5`, because its close and our next request could cross, and at most
/// [`limits::IDLE_CONNECTION_AGE`].
pub(super) fn keep_alive(headers: &HeaderMap) -> Duration {
    let header = headers.get("keep-alive").and_then(|value| value.to_str().ok());
    let timeout = header.and_then(|value| {
        let mut parameters = value.split(',').map(str::trim);
        parameters.find_map(|parameter| parameter.strip_prefix("timeout="))
    });
    let seconds: Option<u64> = timeout.and_then(|seconds| seconds.parse().ok());
    let theirs = seconds.map(|seconds| Duration::from_secs(seconds.saturating_sub(1)));
    theirs.map_or(limits::IDLE_CONNECTION_AGE, |theirs| theirs.min(limits::IDLE_CONNECTION_AGE))
}

#[cfg(test)]
mod tests {
    use tokio::net::{TcpListener, TcpStream};
    use tokio::time;

    use super::super::plain;
    use super::*;

    #[track_caller]
    fn check(header: Option<&str>, expected: Duration) {
        let mut headers = HeaderMap::new();
        if let Some(header) = header {
            headers.insert("keep-alive", header.parse().unwrap());
        }
        assert_eq!(keep_alive(&headers), expected, "{header:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_is_used_again_until_it_is_too_old() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (ours, theirs) = tokio::join!(TcpStream::connect(address), listener.accept());
        let _open = theirs.unwrap();
        let age = Duration::from_secs(4);
        let pool = Pool::default();
        pool.give_back(Connection::Plain(plain::Connection::new(ours.unwrap())), age);
        time::advance(Duration::from_millis(3_999)).await;
        let connection = pool.take().expect("it is young enough");
        assert!(pool.take().is_none(), "it is in use");
        pool.give_back(connection, age);
        time::advance(age).await;
        assert!(pool.take().is_none(), "a firewall may have forgotten it");
    }

    #[test]
    fn idle_time_is_less_than_the_server_says() {
        check(Some("timeout=5"), Duration::from_secs(4));
        check(Some("timeout=5, max=100"), Duration::from_secs(4));
        check(Some("max=100, timeout=5"), Duration::from_secs(4));
        check(Some("timeout=1"), Duration::ZERO);
        check(Some("timeout=0"), Duration::ZERO);
    }

    #[test]
    fn idle_time_is_capped_by_our_own_limit() {
        for header in [None, Some("timeout=86400"), Some("timeout=-1"), Some("max=3"), Some("")] {
            check(header, limits::IDLE_CONNECTION_AGE);
        }
    }
}
