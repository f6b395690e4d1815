//! Log lines that would come too often.

use std::time::Duration;

use tokio::time::Instant;

/// Lets one of many similar log lines through from time to time.
#[derive(Debug, Default)]
pub(crate) struct Seldom {
    last: Option<Instant>,
}

impl Seldom {
    /// Whether to log now, because nothing was logged for `interval`.
    pub(crate) fn is_due(&mut self, interval: Duration) -> bool {
        let now = Instant::now();
        let is_due = self.last.is_none_or(|last| now - last >= interval);
        if is_due {
            self.last = Some(now);
        }
        is_due
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_line_is_due_once_in_each_interval() {
        let (mut seldom, minute) = (Seldom::default(), Duration::from_secs(60));
        assert!(seldom.is_due(minute));
        assert!(!seldom.is_due(minute));
        advance(Duration::from_millis(59_999)).await;
        assert!(!seldom.is_due(minute));
        advance(Duration::from_millis(1)).await;
        assert!(seldom.is_due(minute));
        assert!(!seldom.is_due(minute));
    }
}
