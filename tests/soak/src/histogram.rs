//! How long things took: buckets that are an eighth of a power of two wide.

/// Buckets in each power of two, as a power of two itself.
const STEPS_LOG2: u32 = 3;
const STEPS: usize = 1 << STEPS_LOG2;
const BUCKETS: usize = STEPS * (64 - STEPS_LOG2 as usize + 1);

/// Times in microseconds.
#[derive(Debug, Clone)]
pub(crate) struct Histogram {
    buckets: Vec<u64>,
    count: u64,
    max: u64,
}

impl Default for Histogram {
    fn default() -> Self {
        Self { buckets: vec![0; BUCKETS], count: 0, max: 0 }
    }
}

impl Histogram {
    pub(crate) fn record(&mut self, us: u64) {
        self.buckets[bucket(us)] += 1;
        self.count += 1;
        self.max = self.max.max(us);
    }

    pub(crate) const fn count(&self) -> u64 {
        self.count
    }

    pub(crate) const fn max(&self) -> u64 {
        self.max
    }

    /// What so many in a thousand do not exceed: the upper end of their bucket.
    pub(crate) fn per_mille(&self, per_mille: u64) -> u64 {
        let rank = (self.count * per_mille).div_ceil(1000);
        let mut seen = 0;
        for (index, count) in self.buckets.iter().enumerate() {
            seen += count;
            if seen >= rank && *count > 0 {
                return upper_end(index).min(self.max);
            }
        }
        self.max
    }
}

fn bucket(us: u64) -> usize {
    let steps = STEPS as u64;
    if us < steps {
        return usize::try_from(us).unwrap_or(0);
    }
    let shift = us.ilog2() - STEPS_LOG2;
    let step = usize::try_from((us >> shift) - steps).unwrap_or(0);
    (shift as usize + 1) * STEPS + step
}

fn upper_end(bucket: usize) -> u64 {
    if bucket < STEPS {
        return bucket as u64;
    }
    let shift = bucket / STEPS - 1;
    let step = (bucket % STEPS + STEPS + 1) as u64;
    (step << shift) - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_in_its_bucket() {
        for us in (0..100_000).chain([u64::from(u32::MAX), 1 << 40]) {
            let end = upper_end(bucket(us));
            assert!(us <= end && end <= us + us / STEPS as u64, "{us}: {end}");
            assert!(us == 0 || upper_end(bucket(us - 1)) <= end);
        }
    }

    #[test]
    fn ranks_are_counted() {
        let mut histogram = Histogram::default();
        (1..=1000).for_each(|us| histogram.record(us));
        assert_eq!(histogram.count(), 1000);
        assert!((500..563).contains(&histogram.per_mille(500)));
        assert!((990..=1000).contains(&histogram.per_mille(990)));
        assert_eq!(histogram.per_mille(1000), 1000);
    }
}
