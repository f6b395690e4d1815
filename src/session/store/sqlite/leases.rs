//! Who holds which session. The file belongs to one process, so this is in its memory: whatever a process held
//! is free when it ends.

use std::collections::{HashMap, HashSet};

use parking_lot::Mutex;
use uuid::Uuid;

use super::super::{Lease, NodeId, StoreError};

/// The leases that are held.
#[derive(Debug)]
pub(super) struct Leases(Mutex<Held>);

#[derive(Debug)]
struct Held {
    by_session: HashMap<String, Lease>,
    /// Their grants, which are looked up for each token.
    grants: HashSet<u64>,
    last_grant: u64,
    /// Held sessions that have files, but may not have been saved.
    unsaved: HashSet<String>,
}

/// What becomes of a lease that is given back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Released {
    /// It was lost already.
    Lost,
    /// The session has files, but may not have been saved.
    Unsaved,
    Done,
}

impl Leases {
    /// None is held. Its first grant is one that no earlier process has given.
    pub(super) fn new() -> Self {
        let last_grant = Uuid::new_v4().as_u64_pair().0 >> 1;
        let (by_session, grants, unsaved) = Default::default();
        Self(Mutex::new(Held { by_session, grants, last_grant, unsaved }))
    }

    /// Who holds a session, and in which epoch.
    pub(super) fn holder(&self, session_id: &str) -> Option<(NodeId, u64)> {
        self.0.lock().by_session.get(session_id).map(|lease| (lease.node, lease.epoch))
    }

    pub(super) fn is_held(&self, session_id: &str) -> bool {
        self.0.lock().by_session.contains_key(session_id)
    }

    /// Gives a session to a node, in this epoch. A lease that the node had before is lost.
    pub(super) fn grant(&self, session_id: String, node: NodeId, epoch: u64) -> Lease {
        let mut held = self.0.lock();
        held.last_grant += 1;
        let lease = Lease { session_id: session_id.clone(), node, epoch, grant: held.last_grant };
        held.grants.insert(lease.grant);
        if let Some(before) = held.by_session.insert(session_id, lease.clone()) {
            held.grants.remove(&before.grant);
        }
        lease
    }

    /// # Errors
    /// [`StoreError::Superseded`] if the lease is lost.
    pub(super) fn check(&self, lease: &Lease) -> Result<(), StoreError> {
        let is_held = self.0.lock().grants.contains(&lease.grant);
        if is_held { Ok(()) } else { Err(StoreError::Superseded) }
    }

    /// Notes that a session has files, and returns who holds it, and in which epoch.
    pub(super) fn note_file(&self, session_id: &str) -> Option<(NodeId, u64)> {
        let mut held = self.0.lock();
        let Lease { node, epoch, .. } = *held.by_session.get(session_id)?;
        held.unsaved.insert(session_id.to_owned());
        Some((node, epoch))
    }

    /// Gives a lease back.
    pub(super) fn release(&self, lease: &Lease) -> Released {
        let mut held = self.0.lock();
        if !held.grants.remove(&lease.grant) {
            return Released::Lost;
        }
        held.by_session.remove(&lease.session_id);
        if held.unsaved.remove(&lease.session_id) { Released::Unsaved } else { Released::Done }
    }

    /// Takes a session from whoever holds it.
    pub(super) fn forget(&self, session_id: &str) {
        let mut held = self.0.lock();
        if let Some(lease) = held.by_session.remove(session_id) {
            held.grants.remove(&lease.grant);
        }
    }
}
