//! What a running tool has reported, and when the user is told of it: the newest, at most one
//! in [`PROGRESS_INTERVAL`](crate::limits::tools::PROGRESS_INTERVAL), and always the last.

use crate::tools::Progress;

/// The reports of one call.
#[derive(Debug, Default)]
pub(in crate::orchestrator) struct Reported {
    /// The attempt that reports. Each begins anew.
    attempt: u32,
    /// The highest so far.
    highest: Option<f64>,
    /// The newest, until it is told.
    untold: Option<Progress>,
    /// When the next may be told, in milliseconds since the Unix epoch.
    next_ms: u64,
}

impl Reported {
    /// Takes a report. One that is no higher than those before it is dropped.
    pub(in crate::orchestrator) fn take(&mut self, progress: Progress, attempt: u32) {
        if attempt != self.attempt {
            (self.attempt, self.highest) = (attempt, None);
        }
        if self.highest.is_none_or(|highest| progress.progress > highest) {
            self.highest = Some(progress.progress);
            self.untold = Some(progress);
        }
    }

    /// When there is something to tell, in milliseconds since the Unix epoch.
    pub(in crate::orchestrator) fn due_ms(&self) -> Option<u64> {
        self.untold.as_ref().map(|_| self.next_ms)
    }

    /// What is to be told now. What comes after it waits until `next_ms`.
    pub(in crate::orchestrator) fn tell(&mut self, now_ms: u64, next_ms: u64) -> Option<Progress> {
        if now_ms < self.next_ms {
            return None;
        }
        let progress = self.untold.take()?;
        self.next_ms = next_ms;
        Some(progress)
    }

    /// What has not been told. The tool is about to end, so it is told whatever the time.
    pub(in crate::orchestrator) const fn tell_last(&mut self) -> Option<Progress> {
        self.untold.take()
    }
}
