//! One load, from a gateway at rest to a gateway at rest.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until, timeout_at};

use crate::Error;
use crate::client::Client;
use crate::clock::micros;
use crate::gateway::{Gateway, Process};
use crate::loris;
use crate::watcher::{Sample, Watched, Watcher, look};
use crate::world::{Load, World};

/// How much later than planned all clients must be done.
const OVERTIME: Duration = Duration::from_secs(120);
/// How often the clients look how late their timers are.
const DELAY_INTERVAL: Duration = Duration::from_millis(20);

/// What a phase was like.
#[derive(Debug)]
pub(crate) struct Measured {
    pub(crate) world: Arc<World>,
    pub(crate) before: Sample,
    pub(crate) watched: Watched,
    /// How many of the samples are of the load, before the first clients leave. There is one a second.
    pub(crate) seconds: usize,
    /// Some time after the last turn.
    pub(crate) after: Sample,
    /// Processor time of the clients and the model, in hundredths of a second.
    pub(crate) own_cpu_ticks: u64,
    /// Clients that did not come to an end.
    pub(crate) unfinished: usize,
}

/// Loads the gateway, and looks at it once more when it has been at rest for `rest`.
pub(crate) async fn run(gateway: &Gateway, load: Load, rest: Duration) -> Result<Measured, Error> {
    let before = look(gateway.address, gateway.process);
    let running = Watcher::start(gateway.address, gateway.process)?;
    let own_before = Process::this().cpu_ticks();
    // Up to the first departures.
    let lasts = load.lasts.saturating_sub(load.ramp);
    let world = Arc::new(World::new(gateway.address, load));
    let mut clients = JoinSet::new();
    for number in 0..world.load.clients {
        clients.spawn(Client::new(&world, number).run());
    }
    for number in 0..world.load.loris {
        clients.spawn(loris::run(Arc::clone(&world), number));
    }
    let delays = tokio::spawn(note_own_delay(Arc::clone(&world)));
    let latest = world.stops_at() + OVERTIME;
    let all = async { while clients.join_next().await.is_some() {} };
    let _ = timeout_at(latest, all).await;
    let unfinished = clients.len();
    clients.shutdown().await;
    delays.abort();
    let own_cpu_ticks = Process::this().cpu_ticks() - own_before;
    sleep_until(Instant::now() + rest).await;
    let watched = running.finish()?;
    let after = look(gateway.address, gateway.process);
    let seconds = usize::try_from(lasts.as_secs()).unwrap_or(0).min(watched.samples.len());
    Ok(Measured { world, before, watched, seconds, after, own_cpu_ticks, unfinished })
}

/// Notes how late timers of the clients' thread are: so much of the lag is not the gateway's.
async fn note_own_delay(world: Arc<World>) {
    let mut due = Instant::now();
    loop {
        due += DELAY_INTERVAL;
        sleep_until(due).await;
        world.tally.own_delay.record(micros(due.elapsed()));
    }
}

impl Measured {
    /// The samples of one fifth of the load: 0 to 4.
    pub(crate) fn fifth(&self, index: usize) -> &[Sample] {
        let length = self.seconds / 5;
        let start = (index * length).min(self.seconds);
        &self.watched.samples[start..(start + length).min(self.seconds)]
    }
}
