//! Whole sessions: listed, copied out, written back and forgotten, and their files.
//!
//! A file has a key of its own, which its id alone leads to, in any slot of a cluster. It counts as long as
//! its session lists it.

use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;
use redis::{Value, cmd};
use tokio::time::Instant;

use super::super::{
    Artifact, Batch, EpochStart, Lease, ListedSession, SessionCopy, StoreError, StoredLog,
};
use super::reply::{self, bytes, list, parts, plain};
use super::request::{Command, Commands};
use super::scripts::Call;
use super::{RedisStore, random};
use crate::limits::session as limits;
use crate::telemetry::millis;

/// The ids of all sessions in order, as one list of them found them. The pages after its first use it, because
/// finding them means looking at all keys.
#[derive(Debug, Default)]
pub(super) struct Ids(Mutex<Option<(Instant, Arc<[String]>)>>);

/// Writes a file and its expiry in one step: a gateway that was killed between two would leave the file for ever.
const ADD_FILE: &str =
    "redis.call('HSET', KEYS[1], unpack(ARGV, 2)) redis.call('PEXPIRE', KEYS[1], ARGV[1])";

/// A file in the list of its session.
fn listed_file(id: &str, bytes: usize) -> String {
    format!("{id} {bytes}")
}

pub(super) fn id_of_file(listed: &str) -> &str {
    listed.split_once(' ').map_or(listed, |(id, _)| id)
}

impl RedisStore {
    pub(super) async fn keep_artifact_now(
        &self,
        session_id: &str,
        artifact: Artifact,
    ) -> Result<(), StoreError> {
        let keys = self.keys.of_session(session_id);
        let file = listed_file(&artifact.id, artifact.bytes.len());
        let call = Call::new(
            &self.scripts.keep_file,
            &[&keys.session, &keys.log, &keys.journal, &keys.record, &keys.files],
        )
        .text(&file)
        .number(artifact.bytes.len() as u64)
        .number(limits::ARTIFACT_BYTES_MAX as u64);
        let gone: Option<Vec<String>> = self.servers.call(&call).await?;
        let gone = gone.ok_or(StoreError::NoSession)?;
        let mut commands = Commands::default();
        self.add_file(&mut commands, session_id, &artifact);
        for file in &gone {
            commands.add("UNLINK", self.keys.artifact(id_of_file(file)));
        }
        self.servers.commands(&commands).await
    }

    fn add_file(&self, commands: &mut Commands, session_id: &str, artifact: &Artifact) {
        let Artifact { owner, id, name, mime_type, bytes } = artifact;
        let command = commands.push(Command::script(ADD_FILE, self.keys.artifact(id)));
        // Those that a session still lists are made to last when it is used.
        command.arg(2 * self.ttl_leased());
        command.arg("session").arg(session_id).arg("owner").arg(owner);
        command.arg("mime_type").arg(mime_type).arg("bytes").arg(&bytes[..]);
        if let Some(name) = name {
            command.arg("name").arg(name);
        }
    }

    fn file(&self, id: &str) -> Command {
        let mut command = Command::new("HMGET", self.keys.artifact(id));
        command.arg(&["session", "owner", "name", "mime_type", "bytes"]);
        command
    }

    pub(super) async fn artifact_now(&self, id: &str) -> Result<Option<Artifact>, StoreError> {
        let found: Value = self.servers.command(&self.file(id)).await?;
        let Some((session_id, artifact)) = read_file(id, found)? else { return Ok(None) };
        let files = self.keys.of_session(&session_id).files;
        let mut score = Command::new("ZSCORE", files);
        score.arg(listed_file(id, artifact.bytes.len()));
        let listed: Option<Value> = self.servers.command(&score).await?;
        Ok(listed.map(|_| artifact))
    }

    pub(super) async fn forget_now(&self, session_id: &str) -> Result<bool, StoreError> {
        let keys = self.keys.of_session(session_id);
        self.forget_by(&self.forgetting(&keys.all()), session_id)
            .await
            .map(Option::unwrap_or_default)
    }

    pub(super) async fn discard_now(&self, lease: &Lease) -> Result<(), StoreError> {
        let keys = self.keys.of_session(&lease.session_id);
        let call = self.forgetting(&keys.all()).number(lease.grant);
        let forgotten = self.forget_by(&call, &lease.session_id).await?;
        forgotten.map(drop).ok_or(StoreError::Superseded)
    }

    /// How long the note stays that a session was forgotten: until no turn runs there any more, and each of its readers
    /// has looked.
    pub(super) fn note_ms(&self) -> u64 {
        millis(2 * self.lease)
    }

    pub(super) async fn was_forgotten_now(&self, session_id: &str) -> Result<bool, StoreError> {
        let keys = self.keys.of_session(session_id);
        let call = Call::new(&self.scripts.was_forgotten, &[&keys.session]);
        plain(self.servers.call(&call).await?)
    }

    /// If it is repeated after its connection was cut, it gets the same answer.
    pub(super) fn forgetting<'a>(&'a self, keys: &[&'a str]) -> Call<'a> {
        Call::new(&self.scripts.forget, keys).number(self.note_ms()).number(random())
    }

    /// Forgets a session by this call of the script. Whether it had a record; `None` if the call was refused.
    pub(super) async fn forget_by(
        &self,
        call: &Call<'_>,
        session_id: &str,
    ) -> Result<Option<bool>, StoreError> {
        let answer = self.servers.call(call).await?;
        let Some([had_record, files]) = parts(answer)? else { return Ok(None) };
        let files: Vec<String> = plain(files)?;
        let mut commands = Commands::default();
        commands.add("ZREM", self.keys.running()).arg(session_id);
        for file in &files {
            commands.add("UNLINK", self.keys.artifact(id_of_file(file)));
        }
        self.servers.commands(&commands).await?;
        plain(had_record).map(Some)
    }

    pub(super) async fn list_now(
        &self,
        after: Option<&str>,
        count: usize,
    ) -> Result<Vec<ListedSession>, StoreError> {
        let ids = self.ids(after.is_some()).await?;
        let from = after.map_or(0, |after| ids.partition_point(|id| id.as_str() <= after));
        let (mut listed, mut record_bytes) = (Vec::new(), 0);
        for id in &ids[from..] {
            if listed.len() >= count || record_bytes > limits::LIST_RECORD_BYTES_MAX {
                break;
            }
            let session = match self.listed(id).await {
                // Whoever reads its record finds out.
                Err(StoreError::Damaged(_)) => Some(ListedSession {
                    id: id.clone(),
                    used_at_ms: 0,
                    bytes: 0,
                    record: Bytes::new(),
                }),
                session => session?,
            };
            record_bytes += session.as_ref().map_or(0, |session| session.record.len());
            listed.extend(session);
        }
        Ok(listed)
    }

    async fn listed(&self, id: &str) -> Result<Option<ListedSession>, StoreError> {
        let keys = self.keys.of_session(id);
        let answer = self.servers.call(&Call::new(&self.scripts.list, &keys.all())).await?;
        let Some([used, length, record]) = parts(answer)? else { return Ok(None) };
        let (used_at_ms, bytes) = (plain(used)?, plain(length)?);
        let record = reply::bytes(record)?.unwrap_or_default();
        Ok(Some(ListedSession { id: id.to_owned(), used_at_ms, bytes, record }))
    }

    /// The ids of all sessions that have a record, in order: as they were a moment ago if `may_be_old`.
    async fn ids(&self, may_be_old: bool) -> Result<Arc<[String]>, StoreError> {
        if may_be_old
            && let Some((at, ids)) = &*self.ids.0.lock()
            && at.elapsed() < limits::STORE_LIST_AGE_MAX
        {
            return Ok(Arc::clone(ids));
        }
        let (pattern, mut ids) = (self.keys.records(), Vec::new());
        for node in self.servers.primaries().await? {
            let mut cursor = 0_u64;
            loop {
                let mut scan = cmd("SCAN");
                scan.arg(cursor).arg("MATCH").arg(&pattern).arg("COUNT").arg(limits::STORE_SCANNED);
                let (next, found): (u64, Vec<String>) =
                    self.servers.at(node.as_ref(), &scan).await?;
                ids.extend(found.iter().filter_map(|key| self.keys.session_of_record(key)));
                cursor = next;
                if cursor == 0 {
                    break;
                }
            }
        }
        // A scan may return a key twice, and so may two servers that move it.
        ids.sort_unstable();
        ids.dedup();
        let ids: Arc<[String]> = ids.into();
        *self.ids.0.lock() = Some((Instant::now(), Arc::clone(&ids)));
        Ok(ids)
    }

    pub(super) async fn copy_now(
        &self,
        session_id: &str,
    ) -> Result<Option<SessionCopy>, StoreError> {
        let keys = self.keys.of_session(session_id);
        let answer = self.servers.call(&Call::new(&self.scripts.copy, &keys.all())).await?;
        let Some([epoch, used, record, logs, files]) = parts(answer)? else { return Ok(None) };
        let log = |value| reply::log(parts(value)?.ok_or_else(|| reply::unreadable("no log"))?);
        let mut logs: Vec<StoredLog> =
            list(logs)?.into_iter().map(log).collect::<Result<_, _>>()?;
        logs.reverse();
        let files: Vec<String> = plain(files)?;
        let mut artifacts = Vec::with_capacity(files.len());
        for file in &files {
            let id = id_of_file(file);
            let found: Value = self.servers.command(&self.file(id)).await?;
            artifacts.extend(read_file(id, found)?.map(|(_, artifact)| artifact));
        }
        Ok(Some(SessionCopy {
            id: session_id.to_owned(),
            epoch: plain(epoch)?,
            used_at_ms: plain(used)?,
            record: bytes(record)?.unwrap_or_default(),
            logs,
            artifacts,
        }))
    }

    pub(super) async fn restore_now(
        &self,
        copy: SessionCopy,
        replace: bool,
    ) -> Result<bool, StoreError> {
        let SessionCopy { id, epoch, used_at_ms, record, logs, artifacts } = &copy;
        let keys = self.keys.of_session(id);
        // Before the session lists them, nobody can read them.
        for artifact in artifacts {
            let mut commands = Commands::default();
            self.add_file(&mut commands, id, artifact);
            self.servers.commands(&commands).await?;
        }
        let described: Vec<String> = logs.iter().map(described).collect();
        let files: Vec<_> =
            artifacts.iter().map(|file| listed_file(&file.id, file.bytes.len())).collect();
        let mut call = Call::new(&self.scripts.restore, &keys.all())
            .number(u64::from(replace))
            .number(*epoch)
            .number(*used_at_ms)
            .number(random())
            .bytes(record)
            .number(self.ttl)
            .number(logs.len() as u64);
        for (StoredLog { turn_id, batches, journal, .. }, described) in logs.iter().zip(&described)
        {
            call = call.text(turn_id).text(described);
            call = call.bytes(journal.as_deref().unwrap_or_default()).number(batches.len() as u64);
            for Batch { first, last, bytes } in batches {
                call = call.number(*first).number(*last).bytes(bytes);
            }
        }
        for file in &files {
            call = call.text(file);
        }
        let old: Option<Vec<String>> = self.servers.call(&call).await?;
        let Some(old) = old else { return Ok(false) };
        let mut commands = Commands::default();
        for file in old.iter().filter(|file| !files.contains(file)) {
            commands.add("UNLINK", self.keys.artifact(id_of_file(file)));
        }
        self.servers.commands(&commands).await?;
        Ok(true)
    }
}

/// What a log is, without its number.
pub(super) fn described(log: &StoredLog) -> String {
    let bytes: usize = log.batches.iter().map(|batch| batch.bytes.len()).sum();
    let starts = log.epochs.starts().map(|EpochStart { first, epoch }| format!(" {first}:{epoch}"));
    format!("{} {bytes}{}", log.last, starts.collect::<String>())
}

/// A file, and the session that lists it.
fn read_file(id: &str, found: Value) -> Result<Option<(String, Artifact)>, StoreError> {
    let Some([session, owner, name, mime_type, content]) = parts(found)? else { return Ok(None) };
    let (session, content): (Option<String>, Option<Bytes>) = (plain(session)?, bytes(content)?);
    let Some((session, bytes)) = session.zip(content) else { return Ok(None) };
    let (owner, name, mime_type) = (plain(owner)?, plain(name)?, plain(mime_type)?);
    Ok(Some((session, Artifact { owner, id: id.to_owned(), name, mime_type, bytes })))
}
