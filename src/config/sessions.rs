//! `sessions`: where conversations are kept.

use std::path::PathBuf;
use std::time::Duration;

use serde::Serialize;

use super::reader::{Keys, text, wait};
use super::seconds;
use super::values::choice;
use crate::limits;
use crate::limits::config as bounds;

/// `sessions`: where conversations are kept.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SessionsConfig {
    /// The store.
    pub store: Store,
    /// How long an unused session is kept.
    #[serde(rename = "ttl_sec", serialize_with = "seconds")]
    pub ttl: Duration,
    /// The store in a file.
    pub embedded: EmbeddedStoreConfig,
}

/// `sessions.embedded`: a store in a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct EmbeddedStoreConfig {
    /// The file.
    pub path: PathBuf,
    /// How far a write goes before it counts.
    pub sync: StoreSync,
}

/// `sessions.embedded.sync`: what a write survives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum StoreSync {
    /// A killed process.
    Normal,
    /// A power cut, too.
    Full,
}

/// `sessions.store`: where conversations are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Store {
    /// In this process, and gone with it.
    Memory,
    /// In a file.
    Embedded,
}

impl Store {
    /// Each with its name.
    pub(crate) const ALL: [(&'static str, Self); 2] =
        [("memory", Self::Memory), ("embedded", Self::Embedded)];
}

impl StoreSync {
    /// Each with its name.
    pub(crate) const ALL: [(&'static str, Self); 2] =
        [("normal", Self::Normal), ("full", Self::Full)];
}

/// The name of the store's file.
pub(crate) const STORE_FILE: &str = "tether.db";

impl Default for SessionsConfig {
    fn default() -> Self {
        let embedded =
            EmbeddedStoreConfig { path: PathBuf::from(STORE_FILE), sync: StoreSync::Normal };
        Self { store: Store::Memory, ttl: limits::session::TTL, embedded }
    }
}

/// Reads `sessions`.
pub(super) fn read(mut keys: Keys<'_, '_>) -> SessionsConfig {
    let default = SessionsConfig::default();
    let (embedded, has_path) = embedded_store(keys.section("embedded"), default.embedded);
    // Whoever names a file wants it to be used.
    let store = if has_path { Store::Embedded } else { default.store };
    let sessions = SessionsConfig {
        store: keys.read("store", store, choice("store", &Store::ALL)),
        ttl: keys.read("ttl_sec", default.ttl, wait(bounds::WAIT_MIN..=bounds::TTL_MAX)),
        embedded,
    };
    keys.finish();
    sessions
}

/// The store in a file, and whether the file is named.
fn embedded_store(
    mut keys: Keys<'_, '_>,
    default: EmbeddedStoreConfig,
) -> (EmbeddedStoreConfig, bool) {
    let path = keys.read("path", None, |node| Ok(Some(PathBuf::from(text(node)?))));
    let sync = keys.read("sync", default.sync, choice("sync", &StoreSync::ALL));
    keys.finish();
    let has_path = path.is_some();
    (EmbeddedStoreConfig { path: path.unwrap_or(default.path), sync }, has_path)
}
