//! Who runs how many turns, and who may begin another.
//!
//! A key and an address can each have a limit. Apart from that, the last places are reserved for keys that
//! use less than their fair share. A running turn is never ended to make room for another, so a place has to
//! be free when such a key asks for one:
//!
//! ```text
//!   |<-------------------------- places ------------------------------>|
//!   | running turns                     | free        | reserved       |
//!   |                                   | anyone      | keys below their share alone
//! ```

use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::OwnedSemaphorePermit;

use super::client_address::ClientAddress;
use super::counts::Counts;
use crate::telemetry::metrics;

/// How many turns one client may run at a time. `None` is no limit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TurnLimits {
    /// With one key.
    pub per_key: Option<usize>,
    /// From one address.
    pub per_address: Option<usize>,
    /// How many places are reserved for keys that use less than their share.
    pub reserved: usize,
}

/// Why a client may not begin another turn although a place is free. Each variant has the number of turns that
/// it runs.
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
    /// Only reserved places are free, and its key uses its share.
    #[error(
        "the gateway is nearly full, and this key already runs {0} turns, its share \
         (server.limits.reserved_turns_percent); try again when one has ended"
    )]
    Share(usize),
}

impl OverLimit {
    /// One of each kind.
    pub(crate) const ALL: [Self; 3] = [Self::Key(0), Self::Address(0), Self::Share(0)];

    /// The limit's name in metrics.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Key(_) => "turns_per_key",
            Self::Address(_) => "turns_per_address",
            Self::Share(_) => "share",
        }
    }
}

/// The running turns of each client.
#[derive(Debug, Clone)]
pub(super) struct Shares {
    limits: TurnLimits,
    /// How many turns may run.
    places: usize,
    running: Arc<Mutex<Running>>,
}

#[derive(Debug, Default)]
struct Running {
    by_key: Counts<String>,
    by_address: Counts<ClientAddress>,
}

impl Running {
    fn add(&mut self, owner: &str, address: Option<ClientAddress>) {
        metrics::key_turns(owner, self.by_key.add(owner.to_owned()));
        if let Some(address) = address {
            self.by_address.add(address);
        }
    }
}

impl Shares {
    pub(super) fn new(limits: TurnLimits, places: usize) -> Self {
        Self { limits, places, running: Arc::default() }
    }

    /// Counts a turn that has taken a place, if its client may run another one. `free` places are left.
    ///
    /// # Errors
    /// If the client is over a limit. Nothing is counted then.
    pub(super) fn admit(
        &self,
        owner: &str,
        address: Option<ClientAddress>,
        free: usize,
    ) -> Result<CountedTurn, OverLimit> {
        // Held until the turn is counted: two turns that are checked at once must not both take what is left.
        let mut running = self.running.lock();
        let of_key = running.by_key.of(owner);
        if self.limits.per_key.is_some_and(|max| of_key >= max) {
            return Err(OverLimit::Key(of_key));
        }
        let of_address = address.map_or(0, |address| running.by_address.of(&address));
        if self.limits.per_address.is_some_and(|max| of_address >= max) {
            return Err(OverLimit::Address(of_address));
        }
        let keys = running.by_key.clients() + usize::from(of_key == 0);
        // Two at least: the reserve is for others, even if none of them has come yet.
        let share = (self.places / keys.max(2)).max(1);
        if free < self.limits.reserved && of_key >= share {
            return Err(OverLimit::Share(of_key));
        }
        running.add(owner, address);
        drop(running);
        Ok(self.counted(owner, address))
    }

    /// Counts a turn that has to go on, whatever the limits say.
    pub(super) fn count(&self, owner: &str, address: Option<ClientAddress>) -> CountedTurn {
        self.running.lock().add(owner, address);
        self.counted(owner, address)
    }

    fn counted(&self, owner: &str, address: Option<ClientAddress>) -> CountedTurn {
        CountedTurn { running: Arc::clone(&self.running), owner: owner.into(), address }
    }
}

/// A turn that counts as running until this is dropped.
#[derive(Debug)]
pub(super) struct CountedTurn {
    running: Arc<Mutex<Running>>,
    owner: Box<str>,
    address: Option<ClientAddress>,
}

impl Drop for CountedTurn {
    fn drop(&mut self) {
        let mut running = self.running.lock();
        metrics::key_turns(&self.owner, running.by_key.remove(&*self.owner));
        if let Some(address) = &self.address {
            running.by_address.remove(address);
        }
    }
}

/// What a turn holds while it runs: a place, and its part in the counts. Dropping it returns both.
#[derive(Debug)]
pub(super) struct TurnPermit {
    pub(super) _place: OwnedSemaphorePermit,
    pub(super) _counted: CountedTurn,
}

#[cfg(test)]
mod tests {
    use ::metrics::with_local_recorder;
    use metrics_exporter_prometheus::PrometheusBuilder;

    use super::*;

    const PLACES: usize = 20;

    /// A gateway with [`PLACES`], and its running turns.
    struct Scene {
        shares: Shares,
        taken: Vec<CountedTurn>,
    }

    impl Scene {
        fn new(limits: TurnLimits) -> Self {
            Self { shares: Shares::new(limits, PLACES), taken: Vec::new() }
        }

        /// Begins up to `most` turns with this key, as many as it may. Returns how many.
        fn begin(&mut self, owner: &str, most: usize) -> usize {
            let before = self.taken.len();
            while self.taken.len() - before < most && self.taken.len() < PLACES {
                let free = PLACES - self.taken.len() - 1;
                match self.shares.admit(owner, None, free) {
                    Ok(turn) => self.taken.push(turn),
                    Err(OverLimit::Share(_)) => break,
                    Err(other) => panic!("{other:?}"),
                }
            }
            self.taken.len() - before
        }

        /// Ends a turn of this key.
        fn end(&mut self, owner: &str) {
            let at = self.taken.iter().position(|turn| *turn.owner == *owner).unwrap();
            self.taken.remove(at);
        }

        fn of(&self, owner: &str) -> usize {
            self.taken.iter().filter(|turn| *turn.owner == *owner).count()
        }
    }

    #[test]
    fn a_key_alone_leaves_the_reserve_to_others() {
        let mut scene = Scene::new(TurnLimits { reserved: 3, ..TurnLimits::default() });
        assert_eq!(scene.begin("greedy", 100), 17);
        assert_eq!(scene.begin("modest", 2), 2);
        assert_eq!(scene.begin("greedy", 1), 0);
        assert_eq!(scene.begin("third", 100), 1);
    }

    /// Places that become free go to the key that uses less, until both have their share.
    #[test]
    fn two_greedy_keys_end_up_with_half_each() {
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

    /// Each key gets a turn, however many keys there are.
    #[test]
    fn a_share_is_at_least_one_turn() {
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
        let first = shares.admit("a", here, 9).unwrap();
        let _second = shares.admit("a", here, 8).unwrap();
        assert_eq!(shares.admit("a", there, 7).unwrap_err(), OverLimit::Key(2));
        let _third = shares.admit("b", here, 7).unwrap();
        assert_eq!(shares.admit("b", here, 6).unwrap_err(), OverLimit::Address(3));
        let _fourth = shares.admit("b", there, 6).unwrap();
        drop(first);
        let _fifth = shares.admit("a", here, 6).unwrap();
        assert_eq!(shares.admit("c", here, 5).unwrap_err(), OverLimit::Address(3));
    }

    #[test]
    fn two_turns_at_once_cannot_both_take_the_last_place() {
        let limits = TurnLimits { per_key: Some(1), ..TurnLimits::default() };
        let shares = Shares::new(limits, PLACES);
        for _ in 0..500 {
            let begin = std::sync::Barrier::new(2);
            let ask = || {
                begin.wait();
                shares.admit("a", None, 9)
            };
            let (one, other) = std::thread::scope(|scope| {
                let one = scope.spawn(ask);
                (ask(), one.join().unwrap())
            });
            assert!(one.is_ok() != other.is_ok(), "{one:?} {other:?}");
        }
    }

    #[test]
    fn clients_that_run_nothing_are_forgotten() {
        let shares = Shares::new(TurnLimits::default(), PLACES);
        let address = std::net::IpAddr::from([192, 0, 2, 1]).into();
        drop([shares.admit("a", Some(address), 1).unwrap(), shares.count("b", None)]);
        let running = shares.running.lock();
        assert_eq!((running.by_key.clients(), running.by_address.clients()), (0, 0));
    }

    #[test]
    fn the_metrics_show_what_each_key_runs_under_the_start_of_its_digest() {
        let recorder = PrometheusBuilder::new().build_recorder();
        let shown = || {
            let text = recorder.handle().render();
            let lines = text.lines().filter(|line| line.starts_with("tether_key_turns_running"));
            lines.map(str::to_owned).collect::<Vec<_>>()
        };
        with_local_recorder(&recorder, || {
            let shares = Shares::new(TurnLimits::default(), PLACES);
            let owner = "0123456789abcdef";
            let first = shares.admit(owner, None, PLACES).unwrap();
            let second = shares.count(owner, None);
            assert_eq!(shown(), [r#"tether_key_turns_running{key="01234567"} 2"#]);
            drop(first);
            assert_eq!(shown(), [r#"tether_key_turns_running{key="01234567"} 1"#]);
            drop(second);
            assert_eq!(shown(), [r#"tether_key_turns_running{key="01234567"} 0"#]);
            // Turns without a key are not counted.
            drop(shares.count("", None));
            assert_eq!(shown().len(), 1);
        });
    }
}
