//! Limits on connections and requests, by the client's address and by its key.
//!
//! ```text
//!   accepted ── count_connection ──> served; beyond the limit, only answered with 429
//!   request  ── count_request, by address ── authentication ── count_key_request, by key ──> handled
//! ```
//! The limits on turns are the gateway's (`gateway/shares.rs`).

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use hyper::http::request::Parts;
use parking_lot::Mutex;
use tokio::time::Instant;

use super::forwarded::{Proxies, Sender};
use super::rate::RateLimiter;
use super::refusal::{Limit, Refusal};
use crate::gateway::{ClientAddress, Counts};
use crate::limits::server::RATED_ADDRESSES_MAX;
use crate::telemetry::metrics;
use crate::tools::outbound::Cidr;

/// How many connections and requests one client may have. `None` is no limit.
#[derive(Debug, Clone, Default)]
pub(crate) struct ClientLimits {
    /// Open connections of one address.
    pub(crate) connections_per_address: Option<usize>,
    /// Requests per second of one address.
    pub(crate) head_rate_per_address: Option<u32>,
    /// Requests per second with one key.
    pub(crate) head_rate_per_key: Option<u32>,
    /// Addresses to which the limits by address do not apply.
    pub(crate) exempt: Vec<Cidr>,
    /// The proxies that are believed when they name their clients.
    pub(crate) proxies: Proxies,
}

/// How many connections each address has.
type Connections = Arc<Mutex<Counts<ClientAddress>>>;

/// Counts the connections and requests of each client, and refuses those beyond a limit.
#[derive(Debug)]
pub(super) struct Admission {
    limits: ClientLimits,
    connections: Connections,
    /// The origin of the times that the rate limiters are given.
    began: Instant,
    request_rates: Option<Mutex<RateLimiter<ClientAddress>>>,
    key_request_rates: Option<Mutex<RateLimiter<String>>>,
}

/// Held by an open connection, which counts until this is dropped.
#[derive(Debug)]
pub(super) struct ConnectionGuard {
    peer: IpAddr,
    /// The address for which it counts, if there is a limit that applies to it.
    counted: Option<(ClientAddress, Connections)>,
    /// How many connections its address had already, if it is one too many.
    over: Option<usize>,
}

impl Admission {
    pub(super) fn new(limits: ClientLimits) -> Self {
        let (of_address, of_key) = (limits.head_rate_per_address, limits.head_rate_per_key);
        Self {
            connections: Arc::default(),
            began: Instant::now(),
            request_rates: of_address
                .map(|rate| Mutex::new(RateLimiter::new(rate, RATED_ADDRESSES_MAX))),
            // The configuration bounds the number of keys.
            key_request_rates: of_key.map(|rate| Mutex::new(RateLimiter::new(rate, usize::MAX))),
            limits,
        }
    }

    /// Counts a connection from this address. A trusted proxy's connections do not count: they are those
    /// of many clients.
    pub(super) fn count_connection(&self, peer: IpAddr) -> ConnectionGuard {
        let mut guard = ConnectionGuard { peer, counted: None, over: None };
        let Some(max) = self.limits.connections_per_address else { return guard };
        if self.limits.proxies.trusts(peer) || self.is_exempt(peer) {
            return guard;
        }
        let address = ClientAddress::from(peer);
        let mut connections = self.connections.lock();
        let open = connections.of(&address);
        if open >= max {
            guard.over = Some(open);
        } else {
            connections.add(address);
            guard.counted = Some((address, Arc::clone(&self.connections)));
        }
        guard
    }

    /// The client of a request, if limits by address apply to it.
    pub(super) fn client(&self, request: &Parts) -> Option<ClientAddress> {
        let connection = request.extensions.get::<Arc<ConnectionGuard>>()?;
        match self.limits.proxies.client(connection.peer, &request.headers)? {
            Sender::Client(address) => (!self.is_exempt(address)).then(|| address.into()),
            // The proxy may be exempt, but its client is not known to be.
            Sender::HiddenBy(proxy) => Some(proxy.into()),
        }
    }

    fn is_exempt(&self, address: IpAddr) -> bool {
        self.limits.exempt.iter().any(|range| range.contains(address))
    }

    /// Counts a request for its client's address.
    ///
    /// # Errors
    /// If the client asks too often, or on a connection beyond its limit.
    pub(super) fn count_request(&self, request: &Parts) -> Result<(), Refusal> {
        let connection = request.extensions.get::<Arc<ConnectionGuard>>();
        if let Some(open) = connection.and_then(|connection| connection.over) {
            // It was counted when it was accepted.
            let limit = Limit::Connections(open);
            return Err(Refusal::OverLimit { limit, wait: Duration::ZERO });
        }
        let Some(rates) = &self.request_rates else { return Ok(()) };
        let Some(client) = self.client(request) else { return Ok(()) };
        let taken = rates.lock().take(client, self.began.elapsed());
        taken.map_err(|wait| refuse(Limit::Requests, wait))
    }

    /// Counts a request for its key, which has been checked by now. `owner` is called only if there is a
    /// limit.
    ///
    /// # Errors
    /// If requests come too often with this key.
    pub(super) fn count_key_request(&self, owner: impl FnOnce() -> String) -> Result<(), Refusal> {
        let Some(rates) = &self.key_request_rates else { return Ok(()) };
        let owner = owner();
        if owner.is_empty() {
            return Ok(());
        }
        let taken = rates.lock().take(owner, self.began.elapsed());
        taken.map_err(|wait| refuse(Limit::KeyRequests, wait))
    }
}

fn refuse(limit: Limit, wait: Duration) -> Refusal {
    metrics::over_limit(limit.name());
    Refusal::OverLimit { limit, wait }
}

impl ConnectionGuard {
    /// The address at the other end: the client's or a proxy's.
    pub(super) const fn peer(&self) -> IpAddr {
        self.peer
    }

    /// Whether its address had too many connections already.
    pub(super) const fn is_over(&self) -> bool {
        self.over.is_some()
    }
}

impl Drop for ConnectionGuard {
    fn drop(&mut self) {
        let Some((address, connections)) = self.counted.take() else { return };
        connections.lock().remove(&address);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_count_for_their_address_until_they_end() {
        let limits = ClientLimits { connections_per_address: Some(2), ..ClientLimits::default() };
        let admission = Admission::new(limits);
        let connect = |address: &str| admission.count_connection(address.parse().unwrap());
        let first = connect("2001:db8::1");
        let second = connect("2001:db8::2");
        let third = connect("2001:db8::3");
        assert_eq!([&first, &second, &third].map(ConnectionGuard::is_over), [false, false, true]);
        let other_network = connect("2001:db8:0:1::3");
        assert!(!other_network.is_over());
        // The third was not counted, so its end makes no room.
        drop(third);
        assert!(connect("2001:db8::3").is_over());
        drop(first);
        assert!(!connect("2001:db8::3").is_over());
        drop((second, other_network));
        assert_eq!(admission.connections.lock().clients(), 0);
    }

    #[test]
    fn connections_of_proxies_and_exempt_addresses_do_not_count() {
        let range = |range: &str| vec![range.parse().unwrap()];
        let admission = Admission::new(ClientLimits {
            connections_per_address: Some(1),
            exempt: range("127.0.0.0/8"),
            proxies: Proxies { trusted: range("192.0.2.0/24"), ..Proxies::default() },
            ..ClientLimits::default()
        });
        let is_second_over = |address: [u8; 4]| {
            let [_first, second] = [address; 2].map(|it| admission.count_connection(it.into()));
            second.is_over()
        };
        assert!(!is_second_over([192, 0, 2, 1]));
        assert!(!is_second_over([127, 0, 0, 1]));
        assert!(is_second_over([198, 51, 100, 1]));
    }

    /// Whether the second of two requests at once, from this address and with this header, is refused.
    #[track_caller]
    fn is_second_refused(admission: &Admission, peer: &str, forwarded: &str) -> bool {
        let guard = Arc::new(admission.count_connection(peer.parse().unwrap()));
        let [first, second] = [(); 2].map(|()| {
            let mut request = hyper::Request::new(());
            request.extensions_mut().insert(Arc::clone(&guard));
            if !forwarded.is_empty() {
                request.headers_mut().insert("x-forwarded-for", forwarded.parse().unwrap());
            }
            admission.count_request(&request.into_parts().0).is_err()
        });
        assert!(!first, "one request is allowed");
        second
    }

    #[test]
    fn requests_count_for_the_client_and_not_for_its_proxy() {
        let range = |range: &str| vec![range.parse().unwrap()];
        let proxies = Proxies { trusted: range("192.0.2.0/24"), ..Proxies::default() };
        // Proxies are exempt, too: their own requests, but not those of clients that they hide.
        let exempt = ["192.0.2.0/24", "203.0.113.7"].map(|it| it.parse().unwrap()).to_vec();
        let head_rate_per_address = Some(1);
        let limits =
            ClientLimits { head_rate_per_address, exempt, proxies, ..ClientLimits::default() };
        let admission = Admission::new(limits);
        assert!(is_second_refused(&admission, "198.51.100.1", ""));
        assert!(is_second_refused(&admission, "192.0.2.1", "198.51.100.2"));
        assert!(is_second_refused(&admission, "192.0.2.1", "unknown"));
        assert!(!is_second_refused(&admission, "192.0.2.1", ""));
        assert!(!is_second_refused(&admission, "192.0.2.1", "203.0.113.7"));
        assert!(!is_second_refused(&admission, "203.0.113.7", ""));
    }
}
