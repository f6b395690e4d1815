//! A rate limiter. Pure: the time is an argument.

use std::collections::HashMap;
use std::hash::Hash;
use std::time::Duration;

/// Lets each of many clients do `per_sec` things a second, at once or spread out. This is the generic cell
/// rate algorithm (GCRA), which keeps one time for each client, its theoretical arrival time:
///
/// ```text
///             arrival                    now + BURST
///   time  --|----o--------------------------|------->
///          now   '-- interval --'-- interval --'
///                     allowed       refused: it would end after now + BURST
/// ```
/// Whatever is allowed moves the arrival time on by one interval. A client whose arrival time is past has its
/// whole burst again, so it need not be remembered.
#[derive(Debug)]
pub(super) struct RateLimiter<K> {
    interval: Duration,
    clients_max: usize,
    /// When each client's next thing would arrive if it came at exactly the permitted rate.
    arrivals: HashMap<K, Duration>,
}

/// How far ahead of `now` an arrival time may be: a client may do a second's worth at once.
const BURST: Duration = Duration::from_secs(1);

impl<K: Hash + Eq> RateLimiter<K> {
    /// Creates a limiter that remembers at most `clients_max` clients.
    pub(super) fn new(per_sec: u32, clients_max: usize) -> Self {
        let interval = BURST / per_sec.max(1);
        Self { interval, clients_max, arrivals: HashMap::new() }
    }

    /// Counts one thing that a client does at `now`, a time since any fixed origin.
    ///
    /// # Errors
    /// If it comes too early: how long the client has to wait. It is not counted then.
    pub(super) fn take(&mut self, client: K, now: Duration) -> Result<(), Duration> {
        if self.arrivals.len() >= self.clients_max && !self.arrivals.contains_key(&client) {
            self.make_room(now);
        }
        let arrival = self.arrivals.entry(client).or_insert(now);
        let next = (*arrival).max(now) + self.interval;
        let wait = next.saturating_sub(now + BURST);
        if !wait.is_zero() {
            return Err(wait);
        }
        *arrival = next;
        Ok(())
    }

    fn make_room(&mut self, now: Duration) {
        self.arrivals.retain(|_, at| *at > now);
        // More clients came within a second than there is room for. Forget them all: memory has a bound, and
        // each gains no more than one burst.
        if self.arrivals.len() >= self.clients_max {
            self.arrivals.clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: Duration = Duration::from_secs(1000);

    fn ms(milliseconds: u64) -> Duration {
        START + Duration::from_millis(milliseconds)
    }

    #[test]
    fn a_burst_is_as_much_as_a_second_allows() {
        for per_sec in [1, 3, 7, 1000, 1_000_000] {
            let mut rates = RateLimiter::new(per_sec, 10);
            for at in 0..per_sec {
                assert_eq!(rates.take('a', START), Ok(()), "{at} of {per_sec}");
            }
            assert!(rates.take('a', START).is_err(), "{per_sec}");
            assert_eq!(rates.take('b', START), Ok(()));
        }
    }

    #[test]
    fn a_client_is_told_how_long_to_wait() {
        let mut rates = RateLimiter::new(4, 10);
        (0..4).for_each(|_| rates.take('a', START).unwrap());
        assert_eq!(rates.take('a', START), Err(Duration::from_millis(250)));
        // Refusals are not counted.
        assert_eq!(rates.take('a', ms(100)), Err(Duration::from_millis(150)));
        assert_eq!(rates.take('a', ms(250)), Ok(()));
        assert_eq!(rates.take('a', ms(499)), Err(Duration::from_millis(1)));
    }

    #[test]
    fn unused_time_is_not_saved_up() {
        let mut rates = RateLimiter::new(2, 10);
        rates.take('a', START).unwrap();
        (0..2).for_each(|_| rates.take('a', ms(60_000)).unwrap());
        assert!(rates.take('a', ms(60_000)).is_err());
    }

    #[test]
    fn clients_with_a_whole_burst_are_forgotten_first() {
        let mut rates = RateLimiter::new(1, 2);
        rates.take('a', START).unwrap();
        rates.take('b', ms(500)).unwrap();
        rates.take('c', ms(1000)).unwrap();
        assert!(rates.take('b', ms(1000)).is_err(), "b is still known");
        // None has, so all are forgotten.
        rates.take('d', ms(1001)).unwrap();
        assert_eq!(rates.arrivals.len(), 1);
    }
}
