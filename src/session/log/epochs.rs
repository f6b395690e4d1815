//! The epochs in which a log was written.
//!
//! ```text
//!   events   1  2  3  4  5 | 6  7  8 | 9 ...
//!   epochs   1             | 2       | 5        each with the sequence of its first event
//! ```
//! Each gateway that takes a session over begins a new epoch, so no two of them give events the same id. A
//! turn that was taken over while it ran has events of several.

use std::sync::Arc;

/// An epoch, from its first event on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EpochStart {
    /// The sequence of its first event in the log.
    pub first: u64,
    /// The epoch.
    pub epoch: u64,
}

/// The epochs of a log, in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Epochs {
    earlier: Arc<[EpochStart]>,
    last: EpochStart,
}

impl Epochs {
    /// Those of a log that was begun in this epoch.
    #[must_use]
    pub fn begun_in(epoch: u64) -> Self {
        Self { earlier: Arc::default(), last: EpochStart { first: 1, epoch } }
    }

    /// These; `None` if there is none, or if they are not in order.
    #[must_use]
    pub fn of(starts: &[EpochStart]) -> Option<Self> {
        let is_ordered =
            starts.is_sorted_by(|one, next| one.first < next.first && one.epoch < next.epoch);
        let (last, earlier) = starts.split_last().filter(|_| is_ordered)?;
        Some(Self { earlier: earlier.into(), last: *last })
    }

    /// The same log, whose event `first` and those after it are written in this epoch.
    #[must_use]
    pub fn then(&self, first: u64, epoch: u64) -> Self {
        if self.last.epoch == epoch {
            return self.clone();
        }
        // An epoch without events leaves no trace.
        let earlier = self.starts().filter(|start| start.first < first);
        Self { earlier: earlier.collect(), last: EpochStart { first, epoch } }
    }

    /// Each with its first event.
    #[must_use]
    pub fn starts(&self) -> impl DoubleEndedIterator<Item = EpochStart> {
        self.earlier.iter().copied().chain([self.last])
    }

    /// The latest.
    #[must_use]
    pub const fn last(&self) -> u64 {
        self.last.epoch
    }

    /// The epoch in which this event was written, or will be if it comes next.
    #[must_use]
    pub fn at(&self, sequence: u64) -> u64 {
        let mut starts = self.starts();
        let first = starts.next().unwrap_or(self.last);
        starts.rfind(|start| start.first <= sequence).unwrap_or(first).epoch
    }
}

impl Default for Epochs {
    fn default() -> Self {
        Self::begun_in(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_event_has_the_epoch_in_which_it_was_written() {
        let epochs = Epochs::begun_in(1).then(6, 2).then(9, 5);
        let written: Vec<u64> = (0..=10).map(|sequence| epochs.at(sequence)).collect();
        assert_eq!(written, [1, 1, 1, 1, 1, 1, 2, 2, 2, 5, 5]);
        assert_eq!(epochs.last(), 5);
        assert_eq!(epochs.then(12, 5), epochs, "nobody has taken it over");
    }

    #[test]
    fn an_epoch_without_events_leaves_no_trace() {
        let epochs = Epochs::begun_in(1).then(6, 2).then(6, 3);
        assert_eq!(epochs, Epochs::begun_in(1).then(6, 3));
    }

    #[test]
    fn epochs_out_of_order_are_damaged() {
        let starts = |pairs: &[(u64, u64)]| {
            let starts = pairs.iter().map(|&(first, epoch)| EpochStart { first, epoch });
            Epochs::of(&starts.collect::<Vec<_>>())
        };
        assert_eq!(starts(&[(1, 1), (4, 2)]), Some(Epochs::begun_in(1).then(4, 2)));
        for damaged in [&[][..], &[(1, 2), (4, 2)], &[(4, 1), (4, 2)], &[(4, 1), (1, 2)]] {
            assert_eq!(starts(damaged), None, "{damaged:?}");
        }
    }
}
