//! The launcher: this binary, started again to restrict itself and become a tool's program.
//!
//! ```text
//! tether exec-tool {"parent":71,"confinement":{...}} /usr/bin/grep -rn ...
//! tether exec-tool --guard
//! tether exec-tool --layers
//! ```
//! Its arguments are not an interface: nothing but the gateway starts it.

use std::ffi::OsString;
use std::io::{self, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::sync::Arc;

use rustix::process::Pid;
use serde::{Deserialize, Serialize};
use tokio::sync::watch;
use tokio::time::timeout;

use super::guard::{self, Guard};
use super::running::{RunningProgram, RunningPrograms};
use super::sandbox::{Confinement, Layers};
use super::stragglers::Mark;
use crate::limits::process::STOP_TIMEOUT;

/// The hidden subcommand.
const SUBCOMMAND: &str = "exec-tool";
/// Makes the launcher report which layers work.
const LAYERS: &str = "--layers";
/// The exit status if the program could not be started; 126, as in shells.
const NOT_STARTED: u8 = 126;

/// Starts programs through the launcher.
#[derive(Debug)]
pub struct Launcher {
    path: PathBuf,
    guard: Guard,
    /// How many programs have not ended.
    running: watch::Sender<usize>,
    /// How many of them run for each session. Directories that are still being removed do not count.
    by_session: RunningPrograms,
}

/// A program that must not outlive this process. If it is dropped, as when a runtime ends, the guard
/// goes on watching.
pub(super) struct Guarded {
    launcher: Arc<Launcher>,
    mark: Mark,
}

impl Guarded {
    /// It has begun, as this group.
    pub(super) fn began(&self, group: Pid) {
        self.launcher.guard.began(&self.mark, group);
    }

    /// It has ended, and all that it has started.
    pub(super) fn ended(self) {
        self.launcher.guard.end(&self.mark);
        self.launcher.running.send_modify(|running| *running -= 1);
    }
}

/// What the launcher is told.
#[derive(Serialize, Deserialize)]
struct Orders {
    /// The gateway's process. If it is no longer the parent, it has been killed.
    parent: u32,
    confinement: Confinement,
}

impl Launcher {
    /// The launcher of this binary.
    #[must_use]
    pub fn own() -> Self {
        // Still valid after the file was replaced, unlike its name.
        let path = Path::new("/proc/self/exe");
        if path.exists() {
            return Self::at(path.to_owned());
        }
        Self::at(std::env::current_exe().unwrap_or_default())
    }

    /// A launcher at another path.
    #[must_use]
    pub fn at(path: PathBuf) -> Self {
        let (running, by_session) = (watch::Sender::default(), RunningPrograms::default());
        Self { path, guard: Guard::default(), running, by_session }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// A program with this mark is about to begin, which must not outlive this process. `directory`
    /// was made for it.
    pub(super) fn guard(self: &Arc<Self>, mark: &Mark, directory: &Path) -> Guarded {
        self.running.send_modify(|running| *running += 1);
        let command = || {
            let mut command = Command::new(&self.path);
            command.arg(SUBCOMMAND);
            command
        };
        self.guard.begin(command, mark, directory);
        Guarded { launcher: self.clone(), mark: mark.clone() }
    }

    /// A program is about to begin for a call of this session.
    pub(super) fn begin_program(&self, session: Arc<str>) -> RunningProgram {
        self.by_session.begin(session)
    }

    /// Waits until no program of this session's calls is left, for a few seconds at most.
    pub(in crate::tools) async fn settled(&self, session: &str) {
        self.by_session.settled(session).await;
    }

    /// Waits until no program is left, for at most [`STOP_TIMEOUT`]. What is left then is killed when this process ends.
    pub(in crate::tools) async fn all_ended(&self) {
        let mut running = self.running.subscribe();
        let _ = timeout(STOP_TIMEOUT, running.wait_for(|running| *running == 0)).await;
    }

    /// The arguments with which the launcher becomes a program.
    pub(super) fn orders(confinement: &Confinement) -> [OsString; 2] {
        let (parent, confinement) = (std::process::id(), confinement.clone());
        let orders = serde_json::to_string(&Orders { parent, confinement });
        [SUBCOMMAND.into(), orders.expect("paths are UTF-8, and nothing else can fail").into()]
    }

    /// Finds out which layers of a sandbox work on this machine, by trying them in a process.
    ///
    /// # Errors
    /// If the launcher cannot be started, or is not one.
    pub fn layers(&self) -> io::Result<Layers> {
        let output = Command::new(&self.path).arg(SUBCOMMAND).arg(LAYERS).env_clear().output()?;
        serde_json::from_slice(&output.stdout).map_err(io::Error::other)
    }
}

/// Whether this process was started as a launcher.
#[must_use]
pub fn is_launch() -> bool {
    std::env::args_os().nth(1).is_some_and(|argument| argument == SUBCOMMAND)
}

/// Does the work of a launcher. Returns an exit status unless it has become a program.
#[must_use]
pub fn launch() -> ExitCode {
    let mut arguments = std::env::args_os().skip(2);
    let first = arguments.next().unwrap_or_default();
    if first == guard::ARGUMENT {
        guard::watch(io::stdin().lock());
        return ExitCode::SUCCESS;
    }
    if first == LAYERS {
        let layers = serde_json::to_string(&Layers::find_out()).unwrap_or_default();
        let written = writeln!(io::stdout(), "{layers}");
        return if written.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE };
    }
    let error = become_program(&first, &arguments.collect::<Vec<_>>());
    let _ = writeln!(io::stderr(), "tether: {error}");
    ExitCode::from(NOT_STARTED)
}

fn become_program(orders: &OsString, arguments: &[OsString]) -> io::Error {
    let orders = orders.to_str().unwrap_or_default();
    let Ok(Orders { parent, confinement }) = serde_json::from_str(orders) else {
        return io::Error::other("exec-tool is for the gateway's own use");
    };
    let [program, arguments @ ..] = arguments else {
        return io::Error::other("exec-tool was given no program");
    };
    if let Err(error) = restrict(&confinement, Path::new(program), parent) {
        return error;
    }
    let error = Command::new(program).args(arguments).exec();
    io::Error::new(error.kind(), format!("cannot run {}: {error}", Path::new(program).display()))
}

fn restrict(confinement: &Confinement, program: &Path, parent: u32) -> io::Result<()> {
    end_with(parent)?;
    if let Some(limits) = &confinement.limits {
        limits.apply().map_err(|error| told("cannot limit the program", &error))?;
    }
    if let Some(sandbox) = &confinement.sandbox {
        sandbox.apply(program).map_err(|error| told("cannot apply the sandbox", &error))?;
    }
    Ok(())
}

fn told(what: &str, error: &io::Error) -> io::Error {
    io::Error::other(format!("{what}: {error}"))
}

/// Ends this process when its parent does. The guard does the same for its children.
#[cfg(target_os = "linux")]
fn end_with(parent: u32) -> io::Result<()> {
    use rustix::process::{Signal, getppid, set_parent_process_death_signal};

    set_parent_process_death_signal(Some(Signal::KILL))?;
    // It may have ended before that.
    let is_there =
        getppid().is_some_and(|pid| u32::try_from(pid.as_raw_nonzero().get()) == Ok(parent));
    if is_there { Ok(()) } else { Err(io::Error::other("the gateway is gone")) }
}

#[cfg(not(target_os = "linux"))]
fn end_with(_parent: u32) -> io::Result<()> {
    Ok(())
}
