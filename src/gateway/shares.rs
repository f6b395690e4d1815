//! How many of the running turns are whose, and who may begin another.
//!
//! Keys and addresses have limits of their own. Beyond these, the last places are kept for keys that use less
//! than their share: running turns are never ended for others, so a place has to be free when such a key asks.

use std::borrow::Borrow;
use std::collections::HashMap;
use std::hash::Hash;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::OwnedSemaphorePermit;

use super::client_address::ClientAddress;
use crate::telemetry::metrics;

/// Limits on running turns, by whose they are.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TurnLimits {
    /// Of one key.
    pub per_key: Option<usize>,
    /// Of one address.
    pub per_address: Option<usize>,
    /// The places that are kept for keys that use less than their share.
    pub reserved: usize,
}

/// Why a client may not begin another turn, though there is a place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum OverLimit {
    /// Its key runs as many as it may.
    #[error(
        "{0} turns of this key are already running (server.limits.turns_per_key); try again when \
         one has ended"
    )]
    Key(usize),
    /// Its address runs as many as it may.
    #[error(
        "{0} turns from this address are already running (server.limits.turns_per_address); try \
         again when one has ended"
    )]
    Address(usize),
    /// The gateway is nearly full, and its key uses its share.
    #[error(
        "the gateway is nearly full, and this key already runs {0} turns, its share \
         (server.limits.reserved_turns_percent); try again when one has ended"
    )]
    Share(usize),
}

impl OverLimit {
    /// The limit, for metrics.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Key(_) => "turns_per_key",
            Self::Address(_) => "turns_per_address",
            Self::Share(_) => "share",
        }
    }
}

/// The running turns, by whose they are.
#[derive(Debug, Clone)]
pub(super) struct Shares {
    limits: TurnLimits,
    /// How many turns may run.
    places: usize,
    running: Arc<Mutex<Running>>,
}

#[derive(Debug, Default)]
struct Running {
    by_key: HashMap<String, usize>,
    by_address: HashMap<ClientAddress, usize>,
}

impl Running {
    fn add(&mut self, owner: &str, address: Option<ClientAddress>) {
        let of_key = self.by_key.entry(owner.to_owned()).or_default();
        *of_key += 1;
        metrics::key_turns(owner, *of_key);
        if let Some(address) = address {
            *self.by_address.entry(address).or_default() += 1;
        }
    }
}

impl Shares {
    pub(super) fn new(limits: TurnLimits, places: usize) -> Self {
        Self { limits, places, running: Arc::default() }
    }

    /// Counts a turn that has taken a place, if its client may begin another. `free` places are left.
    pub(super) fn take(
        &self,
        owner: &str,
        address: Option<ClientAddress>,
        free: usize,
    ) -> Result<Share, OverLimit> {
        // Locked up to the end: otherwise two that are looked at together would both be let in.
        let mut running = self.running.lock();
        let of_key = running.by_key.get(owner).copied().unwrap_or(0);
        if self.limits.per_key.is_some_and(|max| of_key >= max) {
            return Err(OverLimit::Key(of_key));
        }
        let of_address = address.and_then(|address| running.by_address.get(&address)).copied();
        let of_address = of_address.unwrap_or(0);
        if self.limits.per_address.is_some_and(|max| of_address >= max) {
            return Err(OverLimit::Address(of_address));
        }
        let keys = running.by_key.len() + usize::from(of_key == 0);
        // What is kept is for others, even if none of them is here yet.
        if free < self.limits.reserved && of_key >= (self.places / keys.max(2)).max(1) {
            return Err(OverLimit::Share(of_key));
        }
        running.add(owner, address);
        drop(running);
        Ok(self.share(owner, address))
    }

    /// Counts a turn, whatever the limits say.
    pub(super) fn count(&self, owner: &str, address: Option<ClientAddress>) -> Share {
        self.running.lock().add(owner, address);
        self.share(owner, address)
    }

    fn share(&self, owner: &str, address: Option<ClientAddress>) -> Share {
        Share { running: Arc::clone(&self.running), owner: owner.to_owned(), address }
    }
}

/// A running turn, as long as it is counted.
#[derive(Debug)]
pub(super) struct Share {
    running: Arc<Mutex<Running>>,
    owner: String,
    address: Option<ClientAddress>,
}

impl Drop for Share {
    fn drop(&mut self) {
        let mut running = self.running.lock();
        metrics::key_turns(&self.owner, one_less(&mut running.by_key, &self.owner));
        if let Some(address) = &self.address {
            one_less(&mut running.by_address, address);
        }
    }
}

/// A turn's place among those that run, as long as it has it.
#[derive(Debug)]
pub(super) struct TurnPermit {
    pub(super) _permit: OwnedSemaphorePermit,
    pub(super) _share: Share,
}

/// Counts one less, and forgets who has none. Returns how many are left.
pub(crate) fn one_less<K, Q>(counts: &mut HashMap<K, usize>, key: &Q) -> usize
where
    K: Hash + Eq + Borrow<Q>,
    Q: Hash + Eq + ?Sized,
{
    let Some(count) = counts.get_mut(key) else { return 0 };
    *count -= 1;
    let left = *count;
    if left == 0 {
        counts.remove(key);
    }
    left
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLACES: usize = 20;

    /// Shares of [`PLACES`], and what their keys have taken.
    struct Scene {
        shares: Shares,
        taken: Vec<Share>,
    }

    impl Scene {
        fn new(limits: TurnLimits) -> Self {
            Self { shares: Shares::new(limits, PLACES), taken: Vec::new() }
        }

        /// Begins as many turns of this key as it may, up to `most`. Returns how many.
        fn begin(&mut self, owner: &str, most: usize) -> usize {
            let before = self.taken.len();
            while self.taken.len() - before < most && self.taken.len() < PLACES {
                let free = PLACES - self.taken.len() - 1;
                match self.shares.take(owner, None, free) {
                    Ok(share) => self.taken.push(share),
                    Err(OverLimit::Share(_)) => break,
                    Err(other) => panic!("{other:?}"),
                }
            }
            self.taken.len() - before
        }

        /// Ends a turn of this key.
        fn end(&mut self, owner: &str) {
            let at = self.taken.iter().position(|share| share.owner == owner).unwrap();
            self.taken.remove(at);
        }

        fn of(&self, owner: &str) -> usize {
            self.taken.iter().filter(|share| share.owner == owner).count()
        }
    }

    #[test]
    fn a_key_alone_leaves_the_reserve_and_others_find_it() {
        let mut scene = Scene::new(TurnLimits { reserved: 3, ..TurnLimits::default() });
        assert_eq!(scene.begin("greedy", 100), 17);
        assert_eq!(scene.begin("modest", 2), 2);
        assert_eq!(scene.begin("greedy", 1), 0);
        assert_eq!(scene.begin("third", 100), 1);
    }

    /// Places that become free go to the key that uses less, until both have their share.
    #[test]
    fn two_keys_that_want_everything_end_up_with_half_each() {
        let mut scene = Scene::new(TurnLimits { reserved: 2, ..TurnLimits::default() });
        scene.begin("early", 100);
        scene.begin("late", 100);
        for _ in 0..PLACES {
            let early = scene.of("early");
            scene.end("early");
            if early <= PLACES / 2 {
                assert_eq!(scene.begin("early", 1), 1);
            } else {
                scene.begin("early", 1);
            }
            scene.begin("late", 100);
        }
        assert_eq!((scene.of("early"), scene.of("late")), (10, 10));
    }

    /// Everybody gets one turn, however many keys there are.
    #[test]
    fn a_share_is_a_turn_at_least() {
        let mut scene = Scene::new(TurnLimits { reserved: PLACES, ..TurnLimits::default() });
        for owner in 0..PLACES {
            assert_eq!(scene.begin(&owner.to_string(), 1), 1, "{owner}");
        }
    }

    #[test]
    fn a_key_and_an_address_have_limits_of_their_own() {
        let limits = TurnLimits { per_key: Some(2), per_address: Some(3), reserved: 0 };
        let shares = Shares::new(limits, PLACES);
        let address = |last: u8| Some(std::net::IpAddr::from([192, 0, 2, last]).into());
        let [here, there] = [address(1), address(2)];
        let first = shares.take("a", here, 9).unwrap();
        let _second = shares.take("a", here, 8).unwrap();
        assert_eq!(shares.take("a", there, 7).unwrap_err(), OverLimit::Key(2));
        let _third = shares.take("b", here, 7).unwrap();
        assert_eq!(shares.take("b", here, 6).unwrap_err(), OverLimit::Address(3));
        let _fourth = shares.take("b", there, 6).unwrap();
        drop(first);
        let _fifth = shares.take("a", here, 6).unwrap();
        assert_eq!(shares.take("c", here, 5).unwrap_err(), OverLimit::Address(3));
    }

    #[test]
    fn no_more_than_the_limit_are_let_in_at_the_same_moment() {
        let limits = TurnLimits { per_key: Some(1), ..TurnLimits::default() };
        let shares = Shares::new(limits, PLACES);
        for _ in 0..500 {
            let begin = std::sync::Barrier::new(2);
            let ask = || {
                begin.wait();
                shares.take("a", None, 9)
            };
            let (one, other) = std::thread::scope(|scope| {
                let one = scope.spawn(ask);
                (ask(), one.join().unwrap())
            });
            assert!(one.is_ok() != other.is_ok(), "{one:?} {other:?}");
        }
    }

    #[test]
    fn nothing_is_remembered_of_those_who_run_nothing() {
        let shares = Shares::new(TurnLimits::default(), PLACES);
        let address = std::net::IpAddr::from([192, 0, 2, 1]).into();
        drop([shares.take("a", Some(address), 1).unwrap(), shares.count("b", None)]);
        let running = shares.running.lock();
        assert!(running.by_key.is_empty() && running.by_address.is_empty(), "{running:?}");
    }
}
