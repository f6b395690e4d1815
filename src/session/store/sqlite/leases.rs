//! Who holds which session, and which version of its record is the latest. The file belongs to one process,
//! and only the holder of a session writes its record, so this is in memory: whatever a process held is free
//! when it ends.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use parking_lot::Mutex;
use uuid::Uuid;

use super::super::{Lease, NodeId, StoreError, Version};
use super::appender::SqliteAppender;

/// The leases that are held.
#[derive(Debug)]
pub(super) struct Leases(Mutex<Held>);

#[derive(Debug)]
struct Held {
    by_session: HashMap<Arc<str>, Holding>,
    last_grant: u64,
    last_version: u64,
    /// Held sessions that have files, but may not have been saved.
    unsaved: HashSet<String>,
}

/// A session that is held.
#[derive(Debug)]
struct Holding {
    lease: Lease,
    /// Of its record, wherever that was written.
    version: Option<Version>,
    /// What appends under the lease without asking here.
    appender: Option<Arc<SqliteAppender>>,
}

impl Drop for Holding {
    fn drop(&mut self) {
        if let Some(appender) = &self.appender {
            appender.stop();
        }
    }
}

/// What becomes of a lease that is given back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Released {
    /// Somebody else has the session, or it was forgotten.
    Superseded,
    /// The session has files, but may not have been saved.
    Unsaved,
    Done,
}

impl Leases {
    /// None is held, and no record has a later version than this. The first grant is one that no earlier
    /// process has given.
    pub(super) fn new(last_version: u64) -> Self {
        let last_grant = Uuid::new_v4().as_u64_pair().0 >> 1;
        let (by_session, unsaved) = Default::default();
        Self(Mutex::new(Held { by_session, last_grant, last_version, unsaved }))
    }

    /// Who holds a session, and in which epoch.
    pub(super) fn holder(&self, session_id: &str) -> Option<(NodeId, u64)> {
        self.0.lock().by_session.get(session_id).map(|it| (it.lease.node, it.lease.epoch))
    }

    pub(super) fn is_held(&self, session_id: &str) -> bool {
        self.0.lock().by_session.contains_key(session_id)
    }

    /// Gives a session to a node, in this epoch. A lease that the node had before is lost. The `version` is
    /// that of the session's record.
    pub(super) fn grant(
        &self,
        session_id: &str,
        node: NodeId,
        epoch: u64,
        version: Option<Version>,
    ) -> Lease {
        let mut held = self.0.lock();
        held.last_grant += 1;
        let session_id: Arc<str> = session_id.into();
        let lease =
            Lease { session_id: Arc::clone(&session_id), node, epoch, grant: held.last_grant };
        let holding = Holding { lease: lease.clone(), version, appender: None };
        held.by_session.insert(session_id, holding);
        lease
    }

    /// Stops this appender when the lease ends, or now if it has ended. Stops the one that it replaces.
    pub(super) fn attach(&self, lease: &Lease, appender: &Arc<SqliteAppender>) {
        let mut held = self.0.lock();
        let Some(holding) = held.holding(lease) else { return appender.stop() };
        if let Some(replaced) = holding.appender.replace(Arc::clone(appender)) {
            replaced.stop();
        }
    }

    /// Stops all appenders: the files are about to be closed.
    pub(super) fn stop_appenders(&self) {
        let held = self.0.lock();
        held.by_session.values().filter_map(|it| it.appender.as_ref()).for_each(|it| it.stop());
    }

    /// Whether a lease is held.
    pub(super) fn holds(&self, lease: &Lease) -> bool {
        self.0.lock().holding(lease).is_some()
    }

    /// A version for a record that is to be written over the version `expected`. Once it is written,
    /// [note](Self::note_version) that.
    ///
    /// # Errors
    /// [`StoreError::Superseded`] if the lease is lost or the version is another one.
    pub(super) fn next_version(
        &self,
        lease: &Lease,
        expected: Option<Version>,
    ) -> Result<Version, StoreError> {
        let mut held = self.0.lock();
        if held.holding(lease).is_none_or(|it| it.version != expected) {
            return Err(StoreError::Superseded);
        }
        Ok(held.next_version())
    }

    /// A version for a session that nobody holds.
    pub(super) fn free_version(&self) -> Version {
        self.0.lock().next_version()
    }

    /// The session's record has this version now.
    pub(super) fn note_version(&self, lease: &Lease, version: Version) {
        let mut held = self.0.lock();
        if let Some(holding) = held.holding(lease) {
            holding.version = Some(version);
        }
    }

    /// Notes that a session has files, and returns who holds it, and in which epoch.
    pub(super) fn note_file(&self, session_id: &str) -> Option<(NodeId, u64)> {
        let mut held = self.0.lock();
        let Lease { node, epoch, .. } = held.by_session.get(session_id)?.lease;
        held.unsaved.insert(session_id.to_owned());
        Some((node, epoch))
    }

    /// Gives a lease back.
    pub(super) fn release(&self, lease: &Lease) -> Released {
        let mut held = self.0.lock();
        if held.holding(lease).is_none() {
            return Released::Superseded;
        }
        held.by_session.remove(&lease.session_id);
        if held.unsaved.remove(&*lease.session_id) { Released::Unsaved } else { Released::Done }
    }

    /// The latest version that a record can have.
    pub(super) fn latest_version(&self) -> Version {
        Version(self.0.lock().last_version)
    }

    /// Takes a session from whoever holds it. Returns the latest version that its record can have.
    pub(super) fn forget(&self, session_id: &str) -> Version {
        let mut held = self.0.lock();
        held.by_session.remove(session_id);
        Version(held.last_version)
    }
}

impl Held {
    /// The session of this lease, if the lease is held.
    fn holding(&mut self, lease: &Lease) -> Option<&mut Holding> {
        let holding = self.by_session.get_mut(&lease.session_id);
        holding.filter(|it| it.lease.grant == lease.grant)
    }

    fn next_version(&mut self) -> Version {
        self.last_version += 1;
        Version(self.last_version)
    }
}
