//! Expiry of sessions: those in which no turn runs, and which have been unused for the store's time to live. A sweep
//! deletes them. Whoever asks for one before the next sweep deletes it first, and so does not find it.

use std::sync::Arc;
use std::time::Duration;

use rusqlite::Connection;

use super::super::Version;
use super::cause::unavailable_beside;
use super::ended::EndedTurns;
use super::leases::Leases;
use super::now;
use super::redo::Redo;
use super::statements::{self, Done};

/// Finds and deletes expired sessions.
#[derive(Debug)]
pub(super) struct Expiry {
    ttl: i64,
    leases: Arc<Leases>,
    redo: Arc<Redo>,
    ended: Arc<EndedTurns>,
}

/// A session that was deleted, up to this version of its record.
#[derive(Debug)]
pub(super) struct Deleted {
    session_id: String,
    latest: Version,
}

impl Expiry {
    /// Sessions are kept for `ttl` after their last use.
    pub(super) fn new(
        ttl: Duration,
        leases: Arc<Leases>,
        redo: Arc<Redo>,
        ended: Arc<EndedTurns>,
    ) -> Self {
        let ttl = i64::try_from(ttl.as_millis()).unwrap_or(i64::MAX);
        Self { ttl, leases, redo, ended }
    }

    /// How long sessions are kept, in milliseconds.
    pub(super) const fn ttl(&self) -> i64 {
        self.ttl
    }

    /// Deletes this session, or every session, if it has expired. Call [`settle`](Self::settle) once that is committed.
    pub(super) fn delete(
        &self,
        connection: &Connection,
        session_id: Option<&str>,
    ) -> Done<Vec<Deleted>> {
        let mut deleted = Vec::new();
        for session_id in self.expired(connection, session_id)? {
            let latest = self.leases.latest_version();
            let marked = self.redo.forget(&session_id, latest);
            marked.map_err(|error| unavailable_beside(&error))?;
            statements::forget(connection, &session_id, latest)?;
            deleted.push(Deleted { session_id, latest });
        }
        Ok(deleted)
    }

    /// Notes that these deletions have been committed.
    pub(super) fn settle(&self, deleted: &[Deleted]) {
        for Deleted { session_id, latest } in deleted {
            self.redo.settle_deleted(session_id, *latest);
        }
    }

    /// Deletes the same sessions in a transaction that will be rolled back.
    pub(super) fn hide(&self, connection: &Connection, session_id: Option<&str>) -> Done<()> {
        for session_id in self.expired(connection, session_id)? {
            statements::forget(connection, &session_id, self.leases.latest_version())?;
        }
        Ok(())
    }

    /// Whether this session has expired, even if the tables have yet to be completed.
    pub(super) fn has_expired(&self, connection: &Connection, session_id: &str) -> Done<bool> {
        Ok(self.may_be_swept(session_id) && self.is_old(connection, session_id)?)
    }

    /// Whether the session has been unused for that long, by the tables alone.
    pub(super) fn is_old(&self, connection: &Connection, session_id: &str) -> Done<bool> {
        let old = statements::unused_since(connection, self.oldest(), Some(session_id))?;
        Ok(!old.is_empty())
    }

    /// Whether no turn runs in the session, and none has just ended.
    pub(super) fn may_expire(&self, session_id: &str) -> bool {
        // In this order: whoever has ended a turn holds the session until it is there.
        !self.leases.is_held(session_id) && !self.ended.has(Some(session_id))
    }

    /// The same if the tables are to say when it was used: what they do not have yet is newer.
    fn may_be_swept(&self, session_id: &str) -> bool {
        self.may_expire(session_id) && !self.redo.has(Some(session_id))
    }

    fn expired(&self, connection: &Connection, session_id: Option<&str>) -> Done<Vec<String>> {
        if session_id.is_some_and(|session_id| !self.may_expire(session_id)) {
            return Ok(Vec::new());
        }
        let mut expired = statements::unused_since(connection, self.oldest(), session_id)?;
        expired.retain(|session_id| self.may_be_swept(session_id));
        Ok(expired)
    }

    /// Sessions that were last used at this time or before have expired.
    fn oldest(&self) -> i64 {
        now().saturating_sub(self.ttl)
    }
}
