//! A lease on its way to whoever asked for it.

use std::sync::Arc;

use super::leases::Leases;
use crate::session::store::Entered;

/// A lease that has been granted. **Dropping it gives the lease back**: whoever asked may be gone, or the store may have
/// failed in the meantime.
#[derive(Debug)]
pub(super) struct Offer {
    entered: Option<Entered>,
    leases: Arc<Leases>,
}

impl Offer {
    pub(super) const fn new(entered: Entered, leases: Arc<Leases>) -> Self {
        Self { entered: Some(entered), leases }
    }

    /// Whether the session has a record.
    pub(super) fn has_record(&self) -> bool {
        self.entered.as_ref().is_some_and(|entered| entered.record.is_some())
    }

    /// Takes the lease.
    pub(super) fn take(mut self) -> Option<Entered> {
        self.entered.take()
    }
}

impl Drop for Offer {
    fn drop(&mut self) {
        if let Some(Entered { lease, .. }) = &self.entered {
            self.leases.release(lease);
        }
    }
}
