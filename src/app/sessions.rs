//! The store of sessions for commands: a file that no gateway uses meanwhile, or a server.

use std::path::PathBuf;
use std::sync::Arc;

use super::assemble::{StoreOpenError, store, unusable};
use crate::config::{self, SessionsConfig};
use crate::gateway;
use crate::session::store::{OpenError, Store, StoreError};

/// Why a command cannot use the sessions.
#[derive(Debug, thiserror::Error)]
pub enum SessionsError {
    /// They end with the gateway's process.
    #[error(
        "this configuration keeps sessions in the gateway's memory, where only its HTTP API can \
         reach them; to use a file, name its folder with --state, or set `sessions.store: embedded`; \
         for a server, `sessions.store: redis`"
    )]
    InMemory,
    /// There is no file.
    #[error(
        "{} does not exist: no gateway has kept sessions there; check --state or \
         `sessions.embedded.path`",
        .0.display()
    )]
    NoFile(PathBuf),
    /// A gateway uses it.
    #[error(
        "{} is in use by a running gateway: stop it first, or use its HTTP API, such as GET and \
         DELETE /api/v1/sessions/ID",
        .0.display()
    )]
    InUse(PathBuf),
    /// The server cannot be used.
    #[error("sessions: {0}")]
    Server(String),
    /// It cannot be used.
    #[error("sessions: {0}")]
    Open(StoreOpenError),
}

/// Opens the store that a configuration names. A file that does not exist is only created if
/// `create` is set.
///
/// # Errors
/// See [`SessionsError`].
pub async fn open_sessions(
    config: &SessionsConfig,
    create: bool,
) -> Result<Arc<dyn Store>, SessionsError> {
    let path = &config.embedded.path;
    match config.store {
        config::Store::Memory => return Err(SessionsError::InMemory),
        config::Store::Embedded if !create && matches!(path.try_exists(), Ok(false)) => {
            return Err(SessionsError::NoFile(path.clone()));
        }
        config::Store::Embedded | config::Store::Redis => {}
    }
    let store = store(config).map_err(|error| match error {
        StoreOpenError::File(OpenError::InUse(path)) => SessionsError::InUse(path),
        error => SessionsError::Open(error),
    })?;
    // What is there can be read and forgotten, even if the disk or the memory is full.
    if store.is_shared() {
        let checked = if create { store.check().await } else { store.check_reading().await };
        checked.map_err(|error| SessionsError::Server(unusable(config, error)))?;
    }
    Ok(store)
}

/// Drops what a store has of an owner's recent turns, and says of how many.
///
/// # Errors
/// If the store cannot be used.
pub async fn forget_recent_turns(store: &dyn Store, owner: &str) -> Result<usize, StoreError> {
    store.forget_entries(gateway::of_owner(owner)).await
}
