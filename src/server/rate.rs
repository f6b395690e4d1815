//! How often clients may ask. Pure: the time is an argument.

use std::collections::HashMap;
use std::hash::Hash;
use std::time::Duration;

/// Rates of many clients, each of which may do `per_sec` things a second, at once or spread out (GCRA).
///
/// Of a client, only the time is kept at which it will have made up for what it has done. Those who have are
/// forgotten when there are `clients_max`.
#[derive(Debug)]
pub(super) struct Rates<K> {
    interval: Duration,
    clients_max: usize,
    made_up_at: HashMap<K, Duration>,
}

/// What a client may do at once, as the time it then takes to make up for it.
const BURST: Duration = Duration::from_secs(1);

impl<K: Hash + Eq> Rates<K> {
    pub(super) fn new(per_sec: u32, clients_max: usize) -> Self {
        let interval = BURST / per_sec.max(1);
        Self { interval, clients_max, made_up_at: HashMap::new() }
    }

    /// Counts one more, at this time since some origin.
    ///
    /// # Errors
    /// If it is too early: how long the client has to wait. Nothing is counted then.
    pub(super) fn take(&mut self, client: K, now: Duration) -> Result<(), Duration> {
        if self.made_up_at.len() >= self.clients_max && !self.made_up_at.contains_key(&client) {
            self.make_room(now);
        }
        let made_up_at = self.made_up_at.entry(client).or_insert(now);
        let next = (*made_up_at).max(now) + self.interval;
        match next.checked_sub(now + BURST) {
            Some(wait) if !wait.is_zero() => Err(wait),
            _ => {
                *made_up_at = next;
                Ok(())
            }
        }
    }

    fn make_room(&mut self, now: Duration) {
        self.made_up_at.retain(|_, at| *at > now);
        // Within a second, more clients than there is room for. All of them begin anew: memory has a bound, and
        // a client gains a second's worth.
        if self.made_up_at.len() >= self.clients_max {
            self.made_up_at.clear();
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
    fn as_many_as_a_second_has_and_no_more() {
        for per_sec in [1, 3, 7, 1000, 1_000_000] {
            let mut rates = Rates::new(per_sec, 10);
            for at in 0..per_sec {
                assert_eq!(rates.take('a', START), Ok(()), "{at} of {per_sec}");
            }
            assert!(rates.take('a', START).is_err(), "{per_sec}");
            assert_eq!(rates.take('b', START), Ok(()));
        }
    }

    #[test]
    fn a_client_is_told_how_long_to_wait() {
        let mut rates = Rates::new(4, 10);
        (0..4).for_each(|_| rates.take('a', START).unwrap());
        assert_eq!(rates.take('a', START), Err(Duration::from_millis(250)));
        // Refusals are not counted.
        assert_eq!(rates.take('a', ms(100)), Err(Duration::from_millis(150)));
        assert_eq!(rates.take('a', ms(250)), Ok(()));
        assert_eq!(rates.take('a', ms(499)), Err(Duration::from_millis(1)));
    }

    #[test]
    fn unused_time_is_not_saved_up() {
        let mut rates = Rates::new(2, 10);
        rates.take('a', START).unwrap();
        (0..2).for_each(|_| rates.take('a', ms(60_000)).unwrap());
        assert!(rates.take('a', ms(60_000)).is_err());
    }

    #[test]
    fn clients_that_have_made_up_are_forgotten_first() {
        let mut rates = Rates::new(1, 2);
        rates.take('a', START).unwrap();
        rates.take('b', ms(500)).unwrap();
        rates.take('c', ms(1000)).unwrap();
        assert!(rates.take('b', ms(1000)).is_err(), "b is still known");
        // None has, so all are forgotten.
        rates.take('d', ms(1001)).unwrap();
        assert_eq!(rates.made_up_at.len(), 1);
    }
}
