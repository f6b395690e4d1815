//! The list of sessions that are leased: if a gateway dies, the others find its turns there.
//!
//! It is one key, in any slot of a cluster, and so it is written after the session: it may lag behind. Whoever
//! looks for interrupted turns asks the sessions themselves, and corrects it.

use std::sync::Arc;

use redis::Value;
use tokio::time::Instant;
use tracing::warn;

use super::super::StoreError;
use super::reply::plain;
use super::request::{Command, Commands};
use super::scripts::Call;
use super::{RedisStore, whole};

impl RedisStore {
    /// Lists the session as running, and makes its files last. If that fails, the next renewal lists it.
    pub(super) fn note_running(
        &self,
        session_id: &str,
        deadline: u64,
        files: &[String],
    ) -> impl Future<Output = ()> + Send + use<> {
        let mut commands = Commands::default();
        commands.add("ZADD", self.keys.running()).arg(deadline).arg(session_id);
        commands.add("PEXPIRE", self.keys.running()).arg(self.ttl_leased());
        self.add_expiries(&mut commands, files);
        let servers = Arc::clone(&self.servers);
        async move {
            let _ = servers.commands(&commands).await;
        }
    }

    /// Extends the expiry of the files that a script found due, in the background. If that fails, the script finds them
    /// due again after half the TTL, and they last twice as long.
    pub(super) fn extend(&self, files: Value) -> Result<(), StoreError> {
        let files: Vec<String> = plain(files)?;
        if !files.is_empty() {
            let mut commands = Commands::default();
            self.add_expiries(&mut commands, &files);
            let servers = Arc::clone(&self.servers);
            tokio::spawn(async move {
                let _ = servers.commands(&commands).await;
            });
        }
        Ok(())
    }

    fn add_expiries(&self, commands: &mut Commands, files: &[String]) {
        for file in files {
            let key = self.keys.artifact(whole::id_of_file(file));
            commands.add("PEXPIRE", key).arg(2 * self.ttl_leased());
        }
    }

    /// Lists a session whose lease was given back as interrupted if a turn of it is left, or else takes it off the
    /// list. `deadline` is when the lease would have lapsed. If this fails, whoever looks for interrupted turns finds
    /// out.
    pub(super) fn list_given_back(
        &self,
        session_id: &str,
        deadline: u64,
        is_left: bool,
    ) -> impl Future<Output = ()> + Send + use<> {
        let (servers, scripts) = (Arc::clone(&self.servers), Arc::clone(&self.scripts));
        let (running, session_id) = (self.keys.running(), session_id.to_owned());
        async move {
            if is_left {
                let mut command = Command::new("ZADD", running);
                let _ = servers.command::<Value>(command.arg(0).arg(&session_id)).await;
            } else {
                let call = Call::new(&scripts.unlist, &[&running]);
                let _ = servers.call::<Value>(&call.text(&session_id).number(deadline)).await;
            }
        }
    }

    pub(super) async fn interrupted_now(&self, count: usize) -> Result<Vec<String>, StoreError> {
        let running = self.keys.running();
        let call = Call::new(&self.scripts.lapsed, &[&running]).number(count as u64);
        let asked_at = Instant::now();
        let (now, lapsed): (u64, Vec<String>) = self.servers.call(&call).await?;
        self.clock.note(now, asked_at);
        let mut interrupted = Vec::new();
        for id in lapsed {
            let keys = self.keys.of_session(&id);
            let call = Call::new(&self.scripts.state, &[&keys.session, &keys.log, &keys.journal]);
            let (deadline, is_left): (u64, bool) = match self.servers.call(&call).await {
                // Nobody goes on with it, and the others must not wait for it.
                Err(StoreError::Damaged(cause)) => {
                    warn!(session = id, cause, "a session that was running cannot be read");
                    (0, false)
                }
                state => state?,
            };
            if deadline > 0 {
                self.note_running(&id, deadline, &[]).await;
            } else if is_left {
                interrupted.push(id);
            } else {
                // Another node may have taken a lease since.
                let call = Call::new(&self.scripts.unlist, &[&running]);
                self.servers.call::<Value>(&call.text(&id).number(now)).await?;
            }
        }
        Ok(interrupted)
    }
}
