//! How many notifications are looked at.

use std::time::Duration;

use tokio::time::Instant;

use crate::limits::mcp::NOTIFICATIONS_PER_SEC_MAX;

/// The notifications that may still come in this second.
#[derive(Debug)]
pub(super) struct Budget {
    since: Instant,
    left: u32,
}

impl Default for Budget {
    fn default() -> Self {
        Self { since: Instant::now(), left: NOTIFICATIONS_PER_SEC_MAX }
    }
}

impl Budget {
    /// Takes one, if there is one.
    pub(super) fn spend(&mut self) -> bool {
        if self.renewed_at() <= Instant::now() {
            *self = Self::default();
        }
        let is_left = self.left > 0;
        self.left = self.left.saturating_sub(1);
        is_left
    }

    /// When there are as many as at first again.
    pub(super) fn renewed_at(&self) -> Instant {
        self.since + Duration::from_secs(1)
    }
}
