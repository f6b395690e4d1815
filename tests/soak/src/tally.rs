//! What all clients count together.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::histogram::Histogram;

/// A number that only grows.
#[derive(Debug, Default)]
pub(crate) struct Count(AtomicU64);

impl Count {
    pub(crate) fn add(&self, count: u64) {
        self.0.fetch_add(count, Ordering::Relaxed);
    }

    pub(crate) fn one(&self) {
        self.add(1);
    }

    pub(crate) fn value(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Times, in microseconds.
#[derive(Debug, Default)]
pub(crate) struct Times(Mutex<Histogram>);

impl Times {
    pub(crate) fn record(&self, us: u64) {
        self.lock().record(us);
    }

    pub(crate) fn snapshot(&self) -> Histogram {
        self.lock().clone()
    }

    fn lock(&self) -> MutexGuard<'_, Histogram> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The counts of one phase.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    /// Turns of which there was an event.
    pub(crate) begun: Count,
    pub(crate) completed: Count,
    /// Left by their client on purpose.
    pub(crate) abandoned: Count,
    /// Cancelled by the gateway, since their client could not re-join in time.
    pub(crate) cancelled: Count,
    /// `turn_failed`, or a stream that ended in the wrong way.
    pub(crate) failed: Count,
    /// Nothing came any more.
    pub(crate) hung: Count,
    pub(crate) tokens: Count,
    pub(crate) lost: Count,
    pub(crate) doubled: Count,
    /// Events whose number is not the next one.
    pub(crate) misnumbered: Count,
    pub(crate) tools: Count,
    pub(crate) tools_missing: Count,
    pub(crate) cuts: Count,
    pub(crate) stalls: Count,
    /// Streams that the gateway cut since their client had taken nothing for too long.
    pub(crate) cut_stalled: Count,
    /// Streams that the gateway cut without such a reason.
    pub(crate) cut_others: Count,
    /// Requests that were refused for lack of room.
    pub(crate) refused: Count,
    /// Of these, those without `Retry-After`.
    pub(crate) refused_without_time: Count,
    /// Requests that got another answer than they should, or none.
    pub(crate) strange: Count,
    /// Connections that the system did not make.
    pub(crate) unconnected: Count,
    pub(crate) deleted: Count,
    pub(crate) loris: Count,
    /// Slow senders that were not closed in time.
    pub(crate) loris_kept: Count,
    /// From the writing of a token to its reading, if its client was there to read it.
    pub(crate) lag: Times,
    /// From a request to the first event of its turn.
    pub(crate) first_event: Times,
    /// From a request, with its connection, to the whole refusal.
    pub(crate) refusal: Times,
    /// How late the clients' own timers are.
    pub(crate) own_delay: Times,
    sample: Mutex<Option<String>>,
}

impl Tally {
    /// Keeps the first strange thing, as an example.
    pub(crate) fn keep_sample(&self, what: impl FnOnce() -> String) {
        let mut sample = self.sample.lock().unwrap_or_else(PoisonError::into_inner);
        sample.get_or_insert_with(what);
    }

    pub(crate) fn sample(&self) -> Option<String> {
        self.sample.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
