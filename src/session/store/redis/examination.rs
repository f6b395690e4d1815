//! Whether a server can be used: its version, its role, the rights of its user, and its format.

use std::collections::{BTreeSet, HashMap};
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use redis::{Value, cmd};
use tokio::time::{Instant, sleep};
use tracing::warn;
use uuid::Uuid;

use super::super::{Artifact, Batch, LogEnd, LogNews, NodeId, Store as _, StoreError, Watched};
use super::RedisStore;
use super::node::Node;
use super::reply::plain;
use super::request::Command;
use super::slots::SLOTS;
use crate::limits::session as limits;

/// The format of what is stored. A gateway refuses a newer one.
const FORMAT: u64 = 1;

/// The lowest version of a server that has all that the scripts use.
const MAJOR_MIN: u64 = 7;

/// What was found out about a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerReport {
    /// Its name and version.
    pub server: String,
    /// How long a write takes, from the request to the answer.
    pub write: Duration,
    /// If it is a cluster, how many servers have keys.
    pub primaries: Option<usize>,
    /// The settings of each server, as far as it tells them: from `CONFIG GET` or `INFO`.
    pub settings: Vec<HashMap<String, String>>,
}

impl RedisStore {
    pub(super) async fn wait_until_loaded_now(&self) {
        let until = Instant::now() + limits::STORE_LOAD_WAIT;
        let mut is_logged = false;
        while self.servers.is_loading().await && Instant::now() < until {
            if !is_logged {
                is_logged = true;
                let store = &self.servers.address;
                warn!(%store, "the session store is loading its data; the gateway waits for it");
            }
            sleep(limits::STORE_RETRY_INTERVAL).await;
        }
    }

    /// Tries everything that the gateway will do, in a session of its own, which it removes. After that, it
    /// only asks whether the server takes writes.
    pub(super) async fn check_now(&self) -> Result<(), StoreError> {
        if self.is_examined.load(Ordering::Relaxed) {
            self.write_something().await?;
            return self.servers.check_cluster().await;
        }
        self.greet().await?;
        self.agree_on_format().await?;
        self.try_out().await?;
        self.is_examined.store(true, Ordering::Relaxed);
        self.servers.check_cluster().await
    }

    /// The name and version of the servers. Fails if they cannot be used.
    async fn greet(&self) -> Result<String, StoreError> {
        let mut servers = BTreeSet::new();
        for node in self.servers.primaries().await? {
            servers.insert(self.greet_one(node.as_ref()).await?);
        }
        if self.servers.address.cluster().is_some() {
            let covered = self.servers.slots().await?.covered();
            if covered < SLOTS {
                return Err(StoreError::Unavailable(format!(
                    "only {covered} of its cluster's {SLOTS} slots have a primary; start the servers that \
                     are down, or assign the other slots (`redis-cli --cluster check` lists them)"
                )));
            }
        }
        Ok(servers.into_iter().collect::<Vec<_>>().join(", "))
    }

    async fn greet_one(&self, node: Option<&Node>) -> Result<String, StoreError> {
        let told: HashMap<String, Value> = self.servers.at(node, &cmd("HELLO")).await?;
        let text = |key: &str| told.get(key).cloned().and_then(|it| plain::<String>(it).ok());
        let (name, version) = (text("server"), text("version").unwrap_or_default());
        let server = format!("{} {version}", name.as_deref().unwrap_or("redis"));
        let major = version.split('.').next().and_then(|major| major.parse().ok());
        if major.is_none_or(|major: u64| major < MAJOR_MIN) {
            return Err(StoreError::Unavailable(format!(
                "it is {server}, which is too old; use Redis {MAJOR_MIN} or later, or Valkey"
            )));
        }
        if node.is_none() && text("mode").as_deref() == Some("cluster") {
            return Err(StoreError::Unavailable(
                "it is one server of a cluster; write `redis+cluster://` in `sessions.redis.url`"
                    .to_owned(),
            ));
        }
        match text("role").as_deref() {
            Some("master" | "primary") | None => Ok(server),
            Some(role) => Err(StoreError::Unavailable(format!(
                "it is a read-only replica (its role is {role}); use its primary instead"
            ))),
        }
    }

    /// Notes the format of what is stored, unless that is done.
    async fn agree_on_format(&self) -> Result<(), StoreError> {
        let mut command = Command::new("SET", self.keys.version());
        command.arg(FORMAT).arg("NX").arg("GET");
        let found: Option<u64> = self.servers.command(&command).await?;
        check_format(found)
    }

    /// Whether what is there can be read, even if nothing can be written.
    pub(super) async fn check_reading_now(&self) -> Result<(), StoreError> {
        self.greet().await?;
        let command = Command::new("GET", self.keys.version());
        check_format(self.servers.command(&command).await?)
    }

    async fn write_something(&self) -> Result<(), StoreError> {
        let mut command = Command::new("SET", self.keys.version());
        self.servers.command::<()>(command.arg(FORMAT)).await?;
        self.servers.note_written();
        Ok(())
    }

    /// Does in a session of its own what turns do.
    async fn try_out(&self) -> Result<(), StoreError> {
        let id = format!("tether-check-{}", Uuid::new_v4().simple());
        let tried = self.try_out_in(&id).await;
        let forgotten = self.forget(&id).await;
        tried?;
        forgotten.map(drop)
    }

    async fn try_out_in(&self, id: &str) -> Result<(), StoreError> {
        let not_kept = || {
            StoreError::Unavailable(
                "it lost data right after it was written; set `maxmemory-policy` to `noeviction`, \
                 and make sure that nothing else deletes the gateway's keys"
                    .to_owned(),
            )
        };
        let lease = self.acquire(id, NodeId::random()).await?.ok_or_else(not_kept)?;
        let content = Bytes::from_static(b"{}");
        let version = self.save(&lease, None, content.clone()).await?;
        let batch = Batch { first: 1, last: 1, bytes: content.clone() };
        let news = LogNews { batches: vec![batch], journal: Some(content.clone()) };
        self.append(&lease, "turn", news).await?;
        self.renew(&lease).await?;
        let watch = self.watch(id, Watched::Owner).await?;
        self.request_cancel(id, None).await?;
        drop(watch);
        let artifact = Artifact {
            owner: String::new(),
            id: Uuid::new_v4().simple().to_string(),
            name: None,
            mime_type: "text/plain".to_owned(),
            bytes: content.clone(),
        };
        let file = artifact.id.clone();
        self.keep_artifact(id, artifact).await?;
        self.artifact(&file).await?.ok_or_else(not_kept)?;
        self.finish(&lease, Some(version), content, LogEnd::new("turn", Vec::new())).await?;
        self.read(id, None, 0).await?.ok_or_else(not_kept)?;
        self.load(id).await?.ok_or_else(not_kept)?;
        self.interrupted(0).await?;
        // The end of the turn has given the first one back.
        let lease = self.acquire(id, NodeId::random()).await?.ok_or_else(not_kept)?;
        self.release(&lease).await?;
        // To forget a session without its lease would leave a note for its readers, and it has none.
        let lease = self.acquire(id, NodeId::random()).await?.ok_or_else(not_kept)?;
        self.discard(&lease).await
    }

    /// Examines the server for a person. Changes nothing but what a gateway would.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`] if it cannot be used.
    pub async fn examine(&self) -> Result<ServerReport, StoreError> {
        let server = self.greet().await?;
        self.check_now().await?;
        let begun_at = Instant::now();
        self.write_something().await?;
        let write = begun_at.elapsed();
        let nodes = self.servers.primaries().await?;
        let mut settings = Vec::with_capacity(nodes.len());
        for node in &nodes {
            settings.push(self.settings_of(node.as_ref()).await);
        }
        let primaries = self.servers.address.cluster().map(|_| nodes.len());
        Ok(ServerReport { server, write, primaries, settings })
    }

    async fn settings_of(&self, node: Option<&Node>) -> HashMap<String, String> {
        let mut settings = HashMap::new();
        // Users are seldom allowed to see them.
        let mut command = cmd("CONFIG");
        command.arg("GET").arg(&[
            "appendonly",
            "appendfsync",
            "maxmemory",
            "maxmemory-policy",
            "min-replicas-to-write",
        ]);
        if let Ok(told) = self.servers.quietly_at::<HashMap<String, String>>(node, &command).await {
            settings = told;
        }
        if let Ok(told) = self.servers.quietly_at::<String>(node, cmd("INFO").arg("all")).await {
            for line in told.lines() {
                let Some((key, value)) = line.split_once(':') else { continue };
                let known = match key {
                    "connected_slaves" | "used_memory" | "maxmemory" => key,
                    "maxmemory_policy" => "maxmemory-policy",
                    _ => continue,
                };
                settings.entry(known.to_owned()).or_insert_with(|| value.to_owned());
            }
        }
        settings
    }
}

/// Whether this release reads the format of what is stored.
fn check_format(found: Option<u64>) -> Result<(), StoreError> {
    match found {
        Some(found) if found > FORMAT => Err(StoreError::Unavailable(format!(
            "its sessions have format {found}, and this release reads only up to format {FORMAT}; use a newer \
             Tether, or set another `sessions.redis.prefix`"
        ))),
        _ => Ok(()),
    }
}
