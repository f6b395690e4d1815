//! Histograms of measurements, cumulative from the start of the process.

use std::collections::BTreeMap;

use crate::limits::telemetry::SERIES_MAX;

/// A histogram metric of the semantic conventions.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Instrument {
    pub(crate) name: &'static str,
    pub(crate) unit: &'static str,
    pub(crate) buckets: Buckets,
}

/// What an instrument measures, which decides the bounds of its buckets. Those are the ones that the conventions advise.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Buckets {
    Seconds,
    Tokens,
    Calls,
}

impl Buckets {
    /// The upper bounds, inclusive. One more bucket is for everything above the last.
    pub(crate) const fn bounds(self) -> &'static [f64] {
        match self {
            Self::Seconds => &[
                0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96,
                81.92,
            ],
            Self::Tokens => &[
                1.0,
                4.0,
                16.0,
                64.0,
                256.0,
                1024.0,
                4096.0,
                16384.0,
                65536.0,
                262_144.0,
                1_048_576.0,
                4_194_304.0,
                16_777_216.0,
                67_108_864.0,
            ],
            Self::Calls => &[0.0, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0],
        }
    }
}

/// The attributes that tell the series of an instrument apart: names with values.
pub(crate) type Labels = Vec<(&'static str, String)>;

/// All series.
#[derive(Debug, Default, Clone)]
pub(crate) struct Histograms {
    series: BTreeMap<(&'static Instrument, Labels), Histogram>,
}

/// One series, or measurements that are to be added to one.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Histogram {
    buckets: Buckets,
    /// Measurements by bucket: one more than there are bounds.
    pub(crate) counts: Vec<u64>,
    pub(crate) sum: f64,
}

impl Histogram {
    /// A histogram of what this instrument measures, still empty.
    pub(crate) fn new(instrument: &Instrument) -> Self {
        let buckets = instrument.buckets;
        Self { buckets, counts: vec![0; buckets.bounds().len() + 1], sum: 0.0 }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.counts.iter().all(|count| *count == 0)
    }

    /// Adds a measurement.
    pub(crate) fn record(&mut self, value: f64) {
        // A bound is the last value of its bucket.
        self.counts[self.buckets.bounds().partition_point(|bound| *bound < value)] += 1;
        self.sum += value;
    }

    fn add(&mut self, other: &Self) {
        for (count, more) in self.counts.iter_mut().zip(&other.counts) {
            *count += more;
        }
        self.sum += other.sum;
    }
}

impl Histograms {
    /// Records a measurement.
    pub(crate) fn record(&mut self, instrument: &'static Instrument, labels: Labels, value: f64) {
        self.series(instrument, labels).record(value);
    }

    /// Records all measurements of a histogram.
    pub(crate) fn record_all(
        &mut self,
        instrument: &'static Instrument,
        labels: Labels,
        measured: &Histogram,
    ) {
        self.series(instrument, labels).add(measured);
    }

    /// A series. Those beyond [`SERIES_MAX`] share one overflow series, as the specification of metrics SDKs
    /// demands.
    fn series(&mut self, instrument: &'static Instrument, labels: Labels) -> &mut Histogram {
        let mut key = (instrument, labels);
        if self.series.len() >= SERIES_MAX && !self.series.contains_key(&key) {
            key.1 = vec![("otel.metric.overflow", "true".to_owned())];
        }
        self.series.entry(key).or_insert_with(|| Histogram::new(instrument))
    }

    /// All series, those of an instrument together.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&'static Instrument, &Labels, &Histogram)> {
        self.series.iter().map(|((instrument, labels), histogram)| (*instrument, labels, histogram))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    static CALLS: Instrument =
        Instrument { name: "calls", unit: "{call}", buckets: Buckets::Calls };

    #[test]
    fn a_bound_is_the_last_value_of_its_bucket() {
        let mut histograms = Histograms::default();
        for value in [0.0, 1.0, 1.5, 2.0, 128.0, 129.0] {
            histograms.record(&CALLS, Vec::new(), value);
        }
        let (_, _, histogram) = histograms.iter().next().unwrap();
        assert_eq!(histogram.counts, [1, 1, 2, 0, 0, 0, 0, 0, 1, 1]);
        assert!((histogram.sum - 261.5).abs() < 1e-9, "{histogram:?}");
    }

    #[test]
    fn measurements_that_come_together_count_as_if_they_came_alone() {
        let (mut alone, mut together) = (Histograms::default(), Histograms::default());
        for values in [[0.0, 1.5, 129.0], [2.0, 2.0, 3.0]] {
            let mut measured = Histogram::new(&CALLS);
            assert!(measured.is_empty());
            for value in values {
                alone.record(&CALLS, Vec::new(), value);
                measured.record(value);
            }
            assert!(!measured.is_empty());
            together.record_all(&CALLS, Vec::new(), &measured);
        }
        assert!(alone.iter().eq(together.iter()));
    }

    #[test]
    fn series_beyond_the_limit_share_one() {
        let mut histograms = Histograms::default();
        for tool in 0..SERIES_MAX + 5 {
            histograms.record(&CALLS, vec![("tool", tool.to_string())], 1.0);
        }
        assert_eq!(histograms.iter().count(), SERIES_MAX + 1);
        let rest = histograms.iter().find(|(_, labels, _)| labels[0].0 == "otel.metric.overflow");
        assert_eq!(rest.unwrap().2.counts.iter().sum::<u64>(), 5);
        // A known series goes on.
        histograms.record(&CALLS, vec![("tool", "0".to_owned())], 1.0);
        assert_eq!(histograms.iter().count(), SERIES_MAX + 1);
    }
}
