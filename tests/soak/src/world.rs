//! What the clients of a phase share: whom they ask, what they do, and what they count.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::time::Instant;

use crate::tally::Tally;

/// One client in so many stops reading once in each turn.
const STALLED_ONE_IN: u64 = 10;

/// How a phase loads the gateway.
#[derive(Debug, Clone)]
pub(crate) struct Load {
    pub(crate) clients: u64,
    /// Connections that send a byte a second.
    pub(crate) loris: u64,
    /// How long the clients take to arrive.
    pub(crate) ramp: Duration,
    /// When no turn begins any more.
    pub(crate) lasts: Duration,
    /// The time from one token of a stream to the next.
    pub(crate) interval: Duration,
    /// The shortest and the longest turn. `None`: each turn lasts until the end.
    pub(crate) turns: Option<(Duration, Duration)>,
    /// How often a client cuts its connection, on average.
    pub(crate) cut_every: Duration,
    /// How long a stall that the gateway does not accept takes, if there is time for it.
    pub(crate) long_stall: Option<Duration>,
    /// There is no room for half of the clients, who come last.
    pub(crate) is_overload: bool,
    pub(crate) seed: u64,
}

/// What a client does to its stream, besides cutting it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Habit {
    Reads,
    /// Stops reading once, and goes on.
    Pauses,
    /// The same for longer than the gateway accepts.
    Stalls,
    /// Stops reading and never comes back.
    Leaves,
}

/// Numbers turns: the model has one memory for all phases.
static TURNS: AtomicU64 = AtomicU64::new(0);

/// A number for a new turn.
pub(crate) fn number_turn() -> u64 {
    TURNS.fetch_add(1, Ordering::Relaxed)
}

#[derive(Debug)]
pub(crate) struct World {
    pub(crate) gateway: SocketAddr,
    pub(crate) load: Load,
    pub(crate) tally: Tally,
    began: Instant,
}

impl World {
    pub(crate) fn new(gateway: SocketAddr, load: Load) -> Self {
        let (tally, began) = (Tally::default(), Instant::now());
        Self { gateway, load, tally, began }
    }

    /// When a client arrives.
    pub(crate) fn arrival(&self, client: u64) -> Instant {
        let ramp = self.load.ramp;
        let after = if self.comes_late(client) {
            // With all others like it.
            ramp + ramp / 4
        } else {
            self.share_of_ramp(client)
        };
        self.began + after
    }

    /// When a client's last turn ends: they do not leave all at once either.
    pub(crate) fn departure(&self, client: u64) -> Instant {
        let early = if self.comes_late(client) {
            Duration::ZERO
        } else {
            self.load.ramp.saturating_sub(self.share_of_ramp(client))
        };
        self.stops_at() - early
    }

    /// Whether there is no room for a client.
    fn comes_late(&self, client: u64) -> bool {
        self.load.is_overload && client >= self.load.clients / 2
    }

    fn share_of_ramp(&self, client: u64) -> Duration {
        let Load { clients, ramp, is_overload, .. } = self.load;
        let clients = if is_overload { clients / 2 } else { clients };
        let [client, clients] =
            [client, clients.max(1)].map(|it| u32::try_from(it).unwrap_or(u32::MAX));
        ramp * client / clients
    }

    /// When the last turns end.
    pub(crate) fn stops_at(&self) -> Instant {
        self.began + self.load.lasts
    }

    pub(crate) fn habit(&self, client: u64) -> Habit {
        if self.load.is_overload || !client.is_multiple_of(STALLED_ONE_IN) {
            return Habit::Reads;
        }
        match client / STALLED_ONE_IN % 10 {
            0 => Habit::Leaves,
            1..=4 if self.load.long_stall.is_some() => Habit::Stalls,
            _ => Habit::Pauses,
        }
    }
}
