//! Keeps asking the store to take the ends of turns that it did not take.

use std::sync::{Arc, Weak};

use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout_at};
use tracing::warn;

use super::Gateway;
use crate::limits::session as limits;

impl Gateway {
    /// From now on, a turn that has ended here ends in the store, too, as soon as that takes it.
    pub fn store_unstored_ends(self: &Arc<Self>) {
        tokio::spawn(store_ends(Arc::downgrade(self), self.sessions.unstored_ends()));
    }

    /// Waits until the store has the ends of all turns.
    pub(super) async fn ends_are_stored(&self, deadline: Instant) {
        let mut ends = self.sessions.unstored_ends();
        if timeout_at(deadline, ends.wait_for(|count| *count == 0)).await.is_err() {
            let turns = *ends.borrow();
            warn!(turns, "the ends of turns were not stored; another gateway may go on with them");
        }
    }
}

async fn store_ends(gateway: Weak<Gateway>, mut ends: watch::Receiver<usize>) {
    // An error says that the gateway is gone.
    while ends.wait_for(|count| *count > 0).await.is_ok() {
        let Some(gateway) = gateway.upgrade() else { return };
        gateway.sessions.store_ends().await;
        drop(gateway);
        sleep(limits::STORE_RETRY_INTERVAL).await;
    }
}
