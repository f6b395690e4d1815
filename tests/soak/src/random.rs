//! Random numbers that are the same in each run with the same seed (splitmix64).

use std::time::Duration;

#[derive(Debug)]
pub(crate) struct Random(u64);

impl Random {
    /// The numbers of one of many clients.
    pub(crate) fn new(seed: u64, client: u64) -> Self {
        Self(seed ^ client.wrapping_mul(0xd134_2543_de82_ef95))
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A fraction below one.
    fn fraction(&mut self) -> f64 {
        f64::from(u32::try_from(self.next() >> 32).unwrap_or(0)) / (f64::from(u32::MAX) + 1.0)
    }

    /// True once in `count` times.
    pub(crate) fn once_in(&mut self, count: u64) -> bool {
        self.next().is_multiple_of(count)
    }

    /// A time between the two.
    pub(crate) fn between(&mut self, least: Duration, most: Duration) -> Duration {
        least + most.saturating_sub(least).mul_f64(self.fraction())
    }

    /// The time to the next of many events that happen every `mean` on average, independently.
    pub(crate) fn wait(&mut self, mean: Duration) -> Duration {
        mean.mul_f64(-(1.0 - self.fraction()).ln())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_have_their_mean() {
        let mut random = Random::new(7, 1);
        let mean = Duration::from_secs(100);
        let sum: Duration = (0..10_000).map(|_| random.wait(mean)).sum();
        assert!((95..105).contains(&(sum.as_secs() / 10_000)), "{sum:?}");
    }
}
