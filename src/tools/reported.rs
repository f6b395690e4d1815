//! Progress reports of a running tool, and when clients see them: the latest, at most once per
//! [`PROGRESS_INTERVAL`](crate::limits::tools::PROGRESS_INTERVAL), and always the last.

use super::Progress;

/// The reports of one call.
#[derive(Debug, Default)]
pub(crate) struct Reported {
    /// The attempt that reports. Each attempt starts over.
    attempt: u32,
    /// The highest value so far.
    highest: Option<f64>,
    /// The latest report, until it is sent.
    pending: Option<Progress>,
    /// When the next report may be sent, in milliseconds since the Unix epoch.
    next_ms: u64,
}

impl Reported {
    /// Takes a report. Drops it if its value is no higher than the highest so far.
    pub(crate) fn take(&mut self, progress: Progress, attempt: u32) {
        if attempt != self.attempt {
            (self.attempt, self.highest) = (attempt, None);
        }
        if self.highest.is_none_or(|highest| progress.progress > highest) {
            self.highest = Some(progress.progress);
            self.pending = Some(progress);
        }
    }

    /// When a report is due, in milliseconds since the Unix epoch.
    pub(crate) fn due_ms(&self) -> Option<u64> {
        self.pending.as_ref().map(|_| self.next_ms)
    }

    /// The report to send now. Later ones wait until `next_ms`.
    pub(crate) fn take_due(&mut self, now_ms: u64, next_ms: u64) -> Option<Progress> {
        if now_ms < self.next_ms {
            return None;
        }
        let progress = self.pending.take()?;
        self.next_ms = next_ms;
        Some(progress)
    }

    /// The last unsent report. The tool is about to end, so this ignores the interval.
    pub(crate) const fn take_last(&mut self) -> Option<Progress> {
        self.pending.take()
    }
}
