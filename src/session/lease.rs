//! A lease, from its acquisition to its release.

use std::sync::Arc;

use tokio::runtime::Handle;
use tracing::debug;

use super::store::{Lease, NodeId, Store, StoreError};

/// A lease that is released when it is dropped, at the latest.
#[derive(Debug)]
pub(super) struct OwnedLease {
    store: Arc<dyn Store>,
    lease: Lease,
    is_released: bool,
}

impl OwnedLease {
    /// Takes the lease of a session; `None` if another node has it.
    pub(super) async fn acquire(
        store: &Arc<dyn Store>,
        session_id: &str,
        node: NodeId,
    ) -> Result<Option<Self>, StoreError> {
        let lease = store.acquire(session_id, node).await?;
        Ok(lease.map(|lease| Self { store: Arc::clone(store), lease, is_released: false }))
    }

    pub(super) const fn get(&self) -> &Lease {
        &self.lease
    }

    /// Releases the lease. If that fails, the store will let it expire.
    pub(super) async fn release(mut self) {
        release(&*self.store, &self.lease).await;
        self.is_released = true;
    }
}

/// A request or a turn was dropped. Whoever comes next has another lease, so that it does not
/// matter when this one is released.
impl Drop for OwnedLease {
    fn drop(&mut self) {
        let Ok(runtime) = Handle::try_current() else { return };
        if !self.is_released {
            let (store, lease) = (Arc::clone(&self.store), self.lease.clone());
            runtime.spawn(async move { release(&*store, &lease).await });
        }
    }
}

async fn release(store: &dyn Store, lease: &Lease) {
    if let Err(error) = store.release(lease).await {
        debug!(session = lease.session_id, %error, "the lease was not released");
    }
}
