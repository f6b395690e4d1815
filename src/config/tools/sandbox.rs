//! `sandbox`: how a program is restricted.

use std::path::PathBuf;

use serde::Serialize;

use super::values::path;
use crate::config::reader::{Keys, boolean};
use crate::config::values::choice;

/// How a program is restricted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SandboxConfig {
    /// Whether there is a sandbox.
    pub mode: SandboxMode,
    /// Files and directories that can be read, besides the system's.
    pub read: Vec<PathBuf>,
    /// Directories that can be written.
    pub write: Vec<PathBuf>,
    /// Whether it may open connections.
    pub network: bool,
}

/// Whether there is a sandbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum SandboxMode {
    /// As much of one as this machine supports.
    Auto,
    /// Without one, the gateway does not start.
    Require,
    /// None.
    Off,
}

impl Default for SandboxConfig {
    fn default() -> Self {
        Self { mode: SandboxMode::Auto, read: Vec::new(), write: Vec::new(), network: false }
    }
}

/// Reads how a program is restricted.
pub(super) fn read(mut keys: Keys<'_, '_>) -> SandboxConfig {
    let default = SandboxConfig::default();
    let modes = &[
        ("auto", SandboxMode::Auto),
        ("require", SandboxMode::Require),
        ("off", SandboxMode::Off),
    ];
    let sandbox = SandboxConfig {
        mode: keys.read("mode", default.mode, choice("mode", modes)),
        read: keys.list("read", default.read, path),
        write: keys.list("write", default.write, path),
        network: keys.read("network", default.network, boolean),
    };
    keys.finish();
    sandbox
}
