//! Sessions in Redis or Valkey, for several gateways.
//!
//! ```text
//!   callers ──> one connection, the commands of all turns one after another ──> scripts
//!   watches <── one connection for what is published                       <──────'
//! ```
//!
//! In a cluster, there are two connections to each primary.
//!
//! Each call is one script, which Redis runs in one step. What it writes, it checks against the lease and its
//! time by the server's clock, so a gateway that was held up for longer than its lease writes nothing. A
//! request can be repeated: what it has done already, it finds done.
//!
//! All keys of a session are in one slot of a cluster (see [`keys`]), and all of them expire.
//!
//! Sources: Redis, "Scripting with Lua", "Cluster specification" (hash tags), "Streams".

mod address;
mod cause;
mod clock;
#[cfg(test)]
pub(super) mod cluster_tests;
#[cfg(test)]
mod cost_tests;
mod entries;
mod examination;
#[cfg(any(test, fuzzing))]
pub(super) mod fuzz;
mod keys;
#[cfg(test)]
mod lease_tests;
mod leasing;
mod link;
mod node;
mod reply;
mod request;
mod running;
mod scripts;
mod sentinel;
#[cfg(test)]
mod sentinel_tests;
mod servers;
mod slots;
#[cfg(test)]
pub(in crate::session) mod tests;
#[cfg(test)]
mod tls_tests;
mod watches;
mod whole;
mod writing;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::time::Duration;

use bytes::Bytes;
use redis::Value;
use uuid::Uuid;

use super::{
    Appended, Artifact, Entered, Entry, EntryClaim, EntryKey, EntryOwner, FoundEntries, Lease,
    ListedSession, LogEnd, LogNews, NodeId, Renewed, SessionCopy, Store, StoreError, StoreFuture,
    StoredLog, StoredRecord, Version, Watch, Watched, cancels,
};
use crate::telemetry::millis;

pub use address::{RedisAddress, RedisTls};
use clock::ServerClock;
pub use examination::ServerReport;
use keys::{Keys, SessionKeys};
use reply::{parts, plain};
use request::Commands;
use scripts::{Call, Scripts};
use servers::Servers;
use watches::Watches;
use writing::Write;

/// What an operator can choose.
#[derive(Debug, Clone)]
pub struct RedisOptions {
    /// The server.
    pub address: RedisAddress,
    /// What all keys begin with.
    pub prefix: String,
    /// How long connecting may take.
    pub connect_timeout: Duration,
    /// How long a lease lasts that is not renewed.
    pub lease: Duration,
    /// How long a running turn waits for a server that does not answer.
    pub wait: Duration,
    /// How long an unused session is kept.
    pub ttl: Duration,
}

/// Keeps sessions in Redis. It connects when it is first asked for something.
#[derive(Debug)]
pub struct RedisStore {
    servers: Arc<Servers>,
    watches: Watches,
    scripts: Arc<Scripts>,
    keys: Keys,
    lease: Duration,
    wait: Duration,
    /// How long an unused session is kept.
    ttl: u64,
    /// Orders what was asked for: leases and writes.
    asked: AtomicU64,
    is_examined: AtomicBool,
    clock: ServerClock,
    ids: whole::Ids,
}

impl RedisStore {
    /// A store there.
    #[must_use]
    pub fn new(options: RedisOptions) -> Self {
        let RedisOptions { address, prefix, connect_timeout, lease, wait, ttl } = options;
        // A running turn asks twice at least before it gives up.
        let servers = Arc::new(Servers::new(address, connect_timeout, wait / 2));
        Self {
            watches: Watches::new(Arc::clone(&servers)),
            servers,
            scripts: Arc::new(Scripts::new()),
            keys: Keys::new(prefix),
            lease,
            wait,
            ttl: millis(ttl),
            asked: AtomicU64::new(1),
            is_examined: AtomicBool::new(false),
            clock: ServerClock::default(),
            ids: whole::Ids::default(),
        }
    }

    /// How long a session lasts after the last renewal of its lease.
    fn ttl_leased(&self) -> u64 {
        self.ttl + millis(self.lease)
    }

    async fn renew_now(&self, lease: &Lease) -> Result<Renewed, StoreError> {
        let keys = self.keys.of_session(&lease.session_id);
        let holder = lease.node.0.simple().to_string();
        let call = Call::new(&self.scripts.renew, &keys.all())
            .number(lease.grant)
            .number(millis(self.lease))
            .number(self.ttl)
            .number(lease.epoch)
            .text(&holder);
        let [deadline, cancel, is_read, files] = match self.servers.call(&call).await? {
            Value::Int(loss) => return Err(lost_lease(loss)),
            renewed => parts(renewed)?.ok_or(StoreError::Superseded)?,
        };
        let files: Vec<String> = plain(files)?;
        self.note_running(&lease.session_id, plain(deadline)?, &files).await;
        Ok(Renewed { cancel: plain(cancel)?, is_read: plain(is_read)? })
    }

    async fn note_reader_now(&self, session_id: &str) -> Result<(), StoreError> {
        let keys = self.keys.of_session(session_id);
        let call = Call::new(&self.scripts.note_reader, &[&keys.session]);
        self.servers.call(&call.number(millis(self.lease))).await.map(|_: bool| ())
    }

    async fn release_now(&self, lease: &Lease) -> Result<(), StoreError> {
        let keys = self.keys.of_session(&lease.session_id);
        let call = Call::new(&self.scripts.release, &keys.all())
            .number(lease.grant)
            .number(self.ttl)
            .number(self.note_ms());
        let Some([files, deadline, is_left]) = parts(self.servers.call(&call).await?)? else {
            return Ok(());
        };
        self.list_given_back(&lease.session_id, plain(deadline)?, plain(is_left)?).await;
        let mut commands = Commands::default();
        for file in &plain::<Vec<String>>(files)? {
            commands.add("UNLINK", self.keys.artifact(whole::id_of_file(file)));
        }
        self.servers.commands(&commands).await
    }

    async fn read_now(
        &self,
        session_id: &str,
        turn_id: Option<&str>,
        seen: u64,
    ) -> Result<Option<StoredLog>, StoreError> {
        let keys = self.keys.of_session(session_id);
        let call = Call::new(&self.scripts.read, &keys.all())
            .number(self.ttl)
            .text(turn_id.unwrap_or_default())
            .number(seen);
        let Some([turn, text, journal, batches, files]) = parts(self.servers.call(&call).await?)?
        else {
            return Ok(None);
        };
        self.extend(files)?;
        reply::log([turn, text, journal, batches]).map(Some)
    }

    async fn request_cancel_now(
        &self,
        session_id: &str,
        turn_id: Option<&str>,
    ) -> Result<bool, StoreError> {
        let keys = self.keys.of_session(session_id);
        let written = [&*keys.session, &keys.log, &keys.journal];
        let call = Call::new(&self.scripts.cancel, &written);
        self.servers.call(&call.text(turn_id.unwrap_or_default())).await
    }
}

/// A number that no other lease or write has.
fn random() -> u64 {
    Uuid::new_v4().as_u64_pair().1 >> 1
}

/// Why a script refuses a lease.
const fn lost_lease(answer: i64) -> StoreError {
    match answer {
        0 => StoreError::Superseded,
        -2 => StoreError::NoSession,
        _ => StoreError::DataLoss,
    }
}

impl Store for RedisStore {
    fn acquire<'a>(&'a self, session_id: &'a str, node: NodeId) -> StoreFuture<'a, Option<Lease>> {
        Box::pin(self.acquire_now(session_id, node))
    }

    fn enter<'a>(&'a self, session_id: &'a str, node: NodeId) -> StoreFuture<'a, Option<Entered>> {
        Box::pin(self.enter_now(session_id, node))
    }

    fn enter_new<'a>(
        &'a self,
        session_id: &'a str,
        node: NodeId,
    ) -> StoreFuture<'a, Option<Entered>> {
        // To look for it in the same script costs next to nothing.
        self.enter(session_id, node)
    }

    fn lease_time(&self) -> Option<Duration> {
        Some(self.lease)
    }

    fn renew<'a>(&'a self, lease: &'a Lease) -> StoreFuture<'a, Renewed> {
        Box::pin(self.renew_now(lease))
    }

    fn release<'a>(&'a self, lease: &'a Lease) -> StoreFuture<'a, ()> {
        Box::pin(self.release_now(lease))
    }

    fn request_cancel<'a>(
        &'a self,
        session_id: &'a str,
        turn_id: Option<&'a str>,
    ) -> StoreFuture<'a, bool> {
        Box::pin(self.request_cancel_now(session_id, turn_id))
    }

    fn note_reader<'a>(&'a self, session_id: &'a str) -> StoreFuture<'a, ()> {
        Box::pin(self.note_reader_now(session_id))
    }

    fn was_forgotten<'a>(&'a self, session_id: &'a str) -> StoreFuture<'a, bool> {
        Box::pin(self.was_forgotten_now(session_id))
    }

    fn watch<'a>(&'a self, session_id: &'a str, whom: Watched) -> StoreFuture<'a, Watch> {
        let SessionKeys { session, log, .. } = self.keys.of_session(session_id);
        Box::pin(self.watches.watch(match whom {
            Watched::Log => log,
            Watched::Owner => session,
        }))
    }

    fn interrupted(&self, count: usize) -> StoreFuture<'_, Vec<String>> {
        Box::pin(self.interrupted_now(count))
    }

    fn is_recovering(&self) -> bool {
        self.servers.recovery.is_under_way()
    }

    fn check(&self) -> StoreFuture<'_, ()> {
        Box::pin(self.check_now())
    }

    fn check_reading(&self) -> StoreFuture<'_, ()> {
        Box::pin(self.check_reading_now())
    }

    fn wait_until_loaded(&self) -> StoreFuture<'_, ()> {
        Box::pin(async {
            self.wait_until_loaded_now().await;
            Ok(())
        })
    }

    fn wait(&self) -> Duration {
        self.wait
    }

    fn load<'a>(&'a self, session_id: &'a str) -> StoreFuture<'a, Option<StoredRecord>> {
        Box::pin(self.load_now(session_id))
    }

    fn save<'a>(
        &'a self,
        lease: &'a Lease,
        expected: Option<Version>,
        record: Bytes,
    ) -> StoreFuture<'a, Version> {
        Box::pin(async move {
            let write = Write::Record { expected, record: &record };
            self.write(lease, write).await?.version()
        })
    }

    fn append<'a>(
        &'a self,
        lease: &'a Lease,
        turn_id: &'a str,
        news: LogNews,
    ) -> StoreFuture<'a, Appended> {
        Box::pin(async move {
            let write = Write::News { turn_id, news: &news };
            let cancel = self.write(lease, write).await?.cancel;
            Ok(Appended { is_cancelled: cancels(cancel.as_deref(), turn_id) })
        })
    }

    fn finish<'a>(
        &'a self,
        lease: &'a Lease,
        expected: Option<Version>,
        record: Bytes,
        end: LogEnd<'a>,
    ) -> StoreFuture<'a, Version> {
        Box::pin(async move {
            let write = Write::End { expected, record: &record, end: &end };
            self.write(lease, write).await?.version()
        })
    }

    fn read<'a>(
        &'a self,
        session_id: &'a str,
        turn_id: Option<&'a str>,
        seen: u64,
    ) -> StoreFuture<'a, Option<StoredLog>> {
        Box::pin(self.read_now(session_id, turn_id, seen))
    }

    fn keep_artifact<'a>(&'a self, session_id: &'a str, artifact: Artifact) -> StoreFuture<'a, ()> {
        Box::pin(self.keep_artifact_now(session_id, artifact))
    }

    fn artifact<'a>(&'a self, id: &'a str) -> StoreFuture<'a, Option<Artifact>> {
        Box::pin(self.artifact_now(id))
    }

    fn forget<'a>(&'a self, session_id: &'a str) -> StoreFuture<'a, bool> {
        Box::pin(self.forget_now(session_id))
    }

    fn discard<'a>(&'a self, lease: &'a Lease) -> StoreFuture<'a, ()> {
        Box::pin(self.discard_now(lease))
    }

    fn list<'a>(
        &'a self,
        after: Option<&'a str>,
        count: usize,
    ) -> StoreFuture<'a, Vec<ListedSession>> {
        Box::pin(self.list_now(after, count))
    }

    fn copy<'a>(&'a self, session_id: &'a str) -> StoreFuture<'a, Option<SessionCopy>> {
        Box::pin(self.copy_now(session_id))
    }

    fn restore(&self, copy: SessionCopy, replace: bool) -> StoreFuture<'_, bool> {
        Box::pin(self.restore_now(copy, replace))
    }

    fn entry_time(&self) -> Option<Duration> {
        Some(Duration::from_millis(self.ttl))
    }

    fn keep_entry(
        &self,
        owner: EntryOwner,
        entry: Entry,
        confirms: Option<EntryClaim>,
    ) -> StoreFuture<'_, bool> {
        Box::pin(self.keep_entry_now(owner, entry, confirms))
    }

    fn entries(&self, owner: EntryOwner, keys: Vec<EntryKey>) -> StoreFuture<'_, FoundEntries> {
        Box::pin(self.entries_now(owner, keys))
    }

    fn acquire_claim(&self, owner: EntryOwner, claim: EntryClaim) -> StoreFuture<'_, bool> {
        Box::pin(self.acquire_claim_now(owner, claim))
    }

    fn release_claim(&self, owner: EntryOwner, claim: EntryClaim) -> StoreFuture<'_, ()> {
        Box::pin(self.release_claim_now(owner, claim))
    }

    fn forget_entries(&self, owner: EntryOwner) -> StoreFuture<'_, usize> {
        Box::pin(self.forget_entries_now(owner))
    }
}
