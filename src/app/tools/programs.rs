//! What all programs share: the launcher, and the sandbox layers that work on this machine.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::ToolsError;
use crate::config::{Config, SandboxConfig, SandboxMode};
use crate::tools::process::{Confinement, Launcher, Layers, Sandbox, find_program};

/// What all programs share.
#[derive(Debug)]
pub(super) struct Programs {
    launcher: Arc<Launcher>,
    /// The sandbox layers that work here; probed only if there are programs.
    layers: Layers,
}

impl Programs {
    pub(super) fn new(config: &Config) -> Self {
        let launcher = Arc::new(Launcher::own());
        let is_needed = !config.tools.command.is_empty() || !config.tools.mcp.is_empty();
        // A machine without a launcher has no sandbox.
        let layers = is_needed.then(|| launcher.layers().ok()).flatten().unwrap_or_default();
        Self { launcher, layers }
    }

    pub(super) const fn launcher(&self) -> &Arc<Launcher> {
        &self.launcher
    }

    /// Whether a sandbox can restrict files here.
    pub(super) const fn restrict_files(&self) -> bool {
        self.layers.files
    }

    /// The layers of a confinement that are enforced.
    pub(super) fn held(&self, confinement: &Confinement) -> Vec<&'static str> {
        confinement.held(&self.layers)
    }

    /// Checks that a required sandbox can be enforced.
    pub(super) fn check(&self, entry: &str, sandbox: Option<&Sandbox>) -> Result<(), ToolsError> {
        let is_required = sandbox.is_some_and(|sandbox| sandbox.is_required);
        let missing = self.layers.missing();
        if !is_required || missing.is_empty() {
            return Ok(());
        }
        Err(ToolsError::Sandbox { tool: entry.to_owned(), missing: missing.join(", ") })
    }
}

/// The file of a program, looked up in the `PATH` of its own environment.
///
/// # Errors
/// If there is none that can be run.
pub(super) fn found(
    program: &str,
    environment: &[(OsString, OsString)],
    directory: Option<&Path>,
) -> Result<PathBuf, String> {
    let path = environment.iter().find(|(name, _)| name == "PATH").map(|(_, value)| &**value);
    find_program(program.as_ref(), path, directory)
        .ok_or_else(|| format!("there is no executable program {program}"))
}

/// The sandbox that a configuration describes, unless it is off.
pub(super) fn sandbox(config: &SandboxConfig) -> Option<Sandbox> {
    let SandboxConfig { mode, read, write, network } = config;
    (*mode != SandboxMode::Off).then(|| Sandbox {
        is_required: *mode == SandboxMode::Require,
        read: read.clone(),
        write: write.clone(),
        network: *network,
    })
}

/// Takes the gateway's own `HOME` from an environment if the program can read nothing in it: not by
/// its sandbox, and not because it runs in `directory`. Many programs, `git` for one, give up if
/// they cannot read their settings there, and do without if there are none.
pub(super) fn hide_unreadable_home(
    environment: &mut Vec<(OsString, OsString)>,
    sandbox: &Sandbox,
    directory: Option<&Path>,
) {
    environment.retain(|(name, value)| {
        let home = Path::new(value);
        let is_readable = sandbox.can_read_in(home)
            || directory.is_some_and(|directory| home.starts_with(directory));
        name != "HOME" || home.is_absolute() && is_readable
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: Layers =
        Layers { limits: true, no_new_privileges: true, files: true, tcp: true, seccomp: true };

    fn check(mode: SandboxMode, layers: Layers) -> Result<(), String> {
        let programs = Programs { launcher: Arc::new(Launcher::own()), layers };
        let sandbox = sandbox(&SandboxConfig { mode, ..SandboxConfig::default() });
        programs.check("run", sandbox.as_ref()).map_err(|error| error.to_string())
    }

    #[test]
    fn a_sandbox_that_is_required_has_all_its_layers() {
        let less = Layers { no_new_privileges: false, seccomp: false, ..ALL };
        for (mode, layers) in [
            (SandboxMode::Require, ALL),
            // Older systems cannot restrict connections to TCP ports.
            (SandboxMode::Require, Layers { tcp: false, ..ALL }),
            (SandboxMode::Auto, less),
            (SandboxMode::Off, less),
        ] {
            assert_eq!(check(mode, layers), Ok(()), "{mode:?}");
        }
        assert_eq!(
            check(SandboxMode::Require, less).unwrap_err(),
            "run: sandbox.mode is `require`, but this machine cannot enforce no_new_privs, system calls (seccomp, \
             on x86-64, aarch64 and riscv64); use `auto` to run it with what is available"
        );
    }
}
