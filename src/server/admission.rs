//! Which connections and which requests are let in, by the address and the key that they come from.
//!
//! ```text
//!   accept ── entry ──> a connection, counted for its address; or one that only hears that it is one too many
//!   head   ── head  ──> counted for the address of its client, then ── key_head ──> for its key
//! ```
//! Turns are counted where they begin, in the gateway.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use hyper::http::request::Parts;
use parking_lot::Mutex;
use tokio::time::Instant;

use super::client::Proxies;
use super::rate::Rates;
use super::refusal::{Limit, Refusal};
use crate::gateway::{ClientAddress, one_less};
use crate::limits::server::RATED_ADDRESSES_MAX;
use crate::telemetry::metrics;
use crate::tools::outbound::Cidr;

/// Limits on connections and requests, by whose they are.
#[derive(Debug, Clone, Default)]
pub(crate) struct ClientLimits {
    /// Open connections of one address.
    pub(crate) connections_per_address: Option<usize>,
    /// Requests of one address in a second.
    pub(crate) head_rate_per_address: Option<u32>,
    /// Requests with one key in a second.
    pub(crate) head_rate_per_key: Option<u32>,
    /// Addresses without limits.
    pub(crate) exempt: Vec<Cidr>,
    /// Which proxies say whom they ask for.
    pub(crate) proxies: Proxies,
}

/// How many connections each address has.
type Connections = Arc<Mutex<HashMap<ClientAddress, usize>>>;

/// Lets clients in, and remembers what they have.
#[derive(Debug)]
pub(super) struct Admission {
    limits: ClientLimits,
    connections: Connections,
    began: Instant,
    heads: Option<Mutex<Rates<ClientAddress>>>,
    key_heads: Option<Mutex<Rates<String>>>,
}

/// A connection that was accepted, as long as it is open.
#[derive(Debug)]
pub(super) struct Entry {
    peer: IpAddr,
    /// Where it counts; a trusted proxy's connections are those of many clients.
    counted: Option<(ClientAddress, Connections)>,
    /// How many connections its address had already, if that was too many.
    over: Option<usize>,
}

impl Admission {
    pub(super) fn new(limits: ClientLimits) -> Self {
        let heads = limits.head_rate_per_address;
        let key_heads = limits.head_rate_per_key;
        Self {
            connections: Arc::default(),
            began: Instant::now(),
            heads: heads.map(|rate| Mutex::new(Rates::new(rate, RATED_ADDRESSES_MAX))),
            // There are only so many keys.
            key_heads: key_heads.map(|rate| Mutex::new(Rates::new(rate, usize::MAX))),
            limits,
        }
    }

    /// Counts a connection from this address.
    pub(super) fn entry(&self, peer: IpAddr) -> Entry {
        let mut entry = Entry { peer, counted: None, over: None };
        let Some(max) = self.limits.connections_per_address else { return entry };
        if self.limits.proxies.trust(peer) || self.is_exempt(peer) {
            return entry;
        }
        let address = ClientAddress::from(peer);
        let mut connections = self.connections.lock();
        let open = connections.entry(address).or_default();
        if *open >= max {
            entry.over = Some(*open);
        } else {
            *open += 1;
            entry.counted = Some((address, Arc::clone(&self.connections)));
        }
        entry
    }

    /// The client of a request, if limits by address apply to it.
    pub(super) fn client(&self, request: &Parts) -> Option<ClientAddress> {
        let entry = request.extensions.get::<Arc<Entry>>()?;
        let address = self.limits.proxies.client(entry.peer, &request.headers)?;
        (!self.is_exempt(address)).then(|| address.into())
    }

    fn is_exempt(&self, address: IpAddr) -> bool {
        self.limits.exempt.iter().any(|range| range.contains(address))
    }

    /// Counts a request of its client.
    pub(super) fn head(&self, request: &Parts) -> Result<(), Refusal> {
        let entry = request.extensions.get::<Arc<Entry>>();
        if let Some(open) = entry.and_then(|entry| entry.over) {
            return Err(refuse(Limit::Connections(open), Duration::ZERO));
        }
        let Some(heads) = &self.heads else { return Ok(()) };
        let Some(client) = self.client(request) else { return Ok(()) };
        let taken = heads.lock().take(client, self.began.elapsed());
        taken.map_err(|wait| refuse(Limit::Heads, wait))
    }

    /// Counts a request with a key, which has been checked. `owner` is asked only if it is needed.
    pub(super) fn key_head(&self, owner: impl FnOnce() -> String) -> Result<(), Refusal> {
        let Some(heads) = &self.key_heads else { return Ok(()) };
        let owner = owner();
        if owner.is_empty() {
            return Ok(());
        }
        let taken = heads.lock().take(owner, self.began.elapsed());
        taken.map_err(|wait| refuse(Limit::KeyHeads, wait))
    }
}

fn refuse(limit: Limit, wait: Duration) -> Refusal {
    metrics::over_limit(limit.name());
    Refusal::OverLimit { limit, wait }
}

impl Entry {
    /// The other end.
    pub(super) const fn peer(&self) -> IpAddr {
        self.peer
    }

    /// Whether its address has too many connections already.
    pub(super) const fn is_over(&self) -> bool {
        self.over.is_some()
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        let Some((address, connections)) = self.counted.take() else { return };
        one_less(&mut connections.lock(), &address);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_are_counted_by_address_and_forgotten() {
        let limits = ClientLimits { connections_per_address: Some(2), ..ClientLimits::default() };
        let admission = Admission::new(limits);
        let entry = |address: &str| admission.entry(address.parse().unwrap());
        let first = entry("2001:db8::1");
        let second = entry("2001:db8::2");
        let third = entry("2001:db8::3");
        assert_eq!([&first, &second, &third].map(Entry::is_over), [false, false, true]);
        let other = entry("2001:db8:0:1::3");
        assert!(!other.is_over());
        // One that was too many was not counted.
        drop(third);
        assert!(entry("2001:db8::3").is_over());
        drop(first);
        assert!(!entry("2001:db8::3").is_over());
        drop((second, other));
        assert!(admission.connections.lock().is_empty());
    }

    #[test]
    fn connections_of_proxies_and_exempt_addresses_are_not_counted() {
        let range = |range: &str| vec![range.parse().unwrap()];
        let admission = Admission::new(ClientLimits {
            connections_per_address: Some(1),
            exempt: range("127.0.0.0/8"),
            proxies: Proxies { trusted: range("192.0.2.0/24"), ..Proxies::default() },
            ..ClientLimits::default()
        });
        let second =
            |address: [u8; 4]| [address; 2].map(|it| admission.entry(it.into()))[1].is_over();
        assert!(!second([192, 0, 2, 1]));
        assert!(!second([127, 0, 0, 1]));
        assert!(second([198, 51, 100, 1]));
    }
}
