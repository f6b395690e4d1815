//! A running program and its group.

use std::ffi::OsString;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::process::{self, ChildStdin, ChildStdout, Command};
use tokio::runtime::Handle;
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout};

use super::directory::Fresh;
use super::launcher::{Guarded, Launcher};
use super::running::RunningProgram;
use super::sandbox::Confinement;
use super::stderr::{OnLine, Stderr};
use super::stragglers::{self, Mark, Search};
use super::throttled::Throttled;
use crate::limits::process::{CLOSE_WAIT, KILL_WAIT, SHORT_LIFE, TERM_WAIT};

/// How a program is started.
#[derive(Debug, Clone)]
pub struct Options {
    /// Its file, with an absolute path.
    pub program: PathBuf,
    /// Its arguments.
    pub arguments: Vec<OsString>,
    /// All of its environment. It gets a `TMPDIR` if it has none here and, in a sandbox, a fresh `HOME`.
    pub environment: Vec<(OsString, OsString)>,
    /// Where it runs; a fresh directory if absent, which is deleted afterwards.
    pub directory: Option<PathBuf>,
    /// Whether something is written to its standard input.
    pub has_input: bool,
    /// The session whose call it runs for, if it is for one call.
    pub session: Option<Arc<str>>,
    /// How it is restricted. It can always write the directory where it runs.
    pub confinement: Confinement,
    /// What starts it; without a launcher, nothing restricts it.
    pub launcher: Option<Arc<Launcher>>,
}

/// What is wrong with the directory that a program is to run in, if it is not there now. It may come later: a file
/// system that is mounted after the gateway has started.
#[must_use]
pub fn missing_directory(directory: Option<&Path>) -> Option<String> {
    let missing = directory.filter(|directory| !directory.is_dir())?;
    Some(format!("there is no directory {} to run in (`cwd`)", missing.display()))
}

/// Why a program cannot be started.
#[derive(Debug, thiserror::Error)]
pub enum ProcessError {
    /// There is no room for its directory.
    #[error("cannot make a directory for the program: {0}")]
    Directory(io::Error),
    /// There is no directory for it to run in.
    #[error("{0}")]
    NoDirectory(String),
    /// The system refuses to start it.
    #[error("cannot start {}: {error}", program.display())]
    Start {
        /// The program.
        program: PathBuf,
        /// The error from the system.
        #[source]
        error: io::Error,
    },
}

/// A running program. **Dropping it ends the program and everything that it has started**; that
/// takes a few seconds if the program does not want to end, and goes on in the background.
pub struct Child {
    /// Its standard input, if it has one.
    pub stdin: Option<ChildStdin>,
    /// Its standard output.
    pub stdout: Option<Throttled<ChildStdout>>,
    /// The end of its standard error.
    pub stderr: Stderr,
    group: Option<Group>,
}

impl fmt::Debug for Child {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Child")
            .field("group", &self.group.as_ref().map(|it| it.id))
            .finish_non_exhaustive()
    }
}

/// A program and all that it has started.
struct Group {
    leader: process::Child,
    id: Option<Pid>,
    mark: Mark,
    started: Instant,
    guarded: Option<Guarded>,
    running: Option<RunningProgram>,
    stderr: JoinHandle<()>,
    directory: Fresh,
}

impl Child {
    /// Starts a program. Lines of its standard error go to `on_line`.
    ///
    /// **Call it where the thread lives as long as the gateway**: on Linux, the program ends with
    /// the thread that started it.
    ///
    /// # Errors
    /// See [`ProcessError`].
    pub(crate) fn start(options: &Options, on_line: Option<OnLine>) -> Result<Self, ProcessError> {
        let is_set = |name: &str| options.environment.iter().any(|(set, _)| set == name);
        let needs_home = options.confinement.sandbox.is_some() && !is_set("HOME");
        let fresh = Fresh::new().map_err(ProcessError::Directory)?;
        let directory = options.directory.as_deref().unwrap_or_else(|| fresh.path());
        let mut confinement = options.confinement.clone();
        if let Some(sandbox) = &mut confinement.sandbox {
            sandbox.write.extend([directory, fresh.path()].map(Path::to_owned));
        }
        let mark = Mark::new();
        let mut command = command(options, &confinement);
        command.envs([mark.variable()]);
        if needs_home {
            // Never the operator's directory: strangers may have written what is in it, and
            // settings in a `HOME` name programs to run (`core.fsmonitor` of a `.gitconfig`).
            command.env("HOME", fresh.path());
        }
        command.current_dir(directory);
        if !is_set("TMPDIR") {
            // A sandbox does not let the gateway's own be written to.
            command.env("TMPDIR", fresh.path());
        }
        let guarded = options.launcher.as_ref().map(|it| it.guard(&mark, fresh.path()));
        let session = options.launcher.as_ref().zip(options.session.clone());
        let running = session.map(|(launcher, session)| launcher.begin_program(session));
        let mut leader = match command.spawn() {
            Ok(leader) => leader,
            Err(error) => {
                guarded.into_iter().for_each(Guarded::ended);
                return Err(not_started(options, error));
            }
        };
        let id = leader.id().and_then(|id| Pid::from_raw(i32::try_from(id).ok()?));
        if let (Some(guarded), Some(id)) = (&guarded, id) {
            guarded.began(id);
        }
        let stderr = Stderr::default();
        let pipe = leader.stderr.take();
        let reading = stderr.clone();
        let reading = tokio::spawn(async move {
            if let Some(pipe) = pipe {
                reading.read(Throttled::new(pipe), on_line).await;
            }
        });
        Ok(Self {
            stdin: leader.stdin.take(),
            stdout: leader.stdout.take().map(Throttled::new),
            stderr,
            group: Some(Group {
                leader,
                id,
                mark,
                started: Instant::now(),
                guarded,
                running,
                stderr: reading,
                directory: fresh,
            }),
        })
    }

    /// Waits for the program to end. What it has started may go on.
    ///
    /// # Errors
    /// If the system cannot tell.
    pub async fn wait(&mut self) -> io::Result<ExitStatus> {
        match &mut self.group {
            Some(group) => group.leader.wait().await,
            None => Err(io::Error::other("the program has been ended")),
        }
    }

    /// Waits, at most this long, until all of standard error has been read. Once the program has
    /// ended, only what it has started can still hold it.
    pub(crate) async fn drain_stderr(&mut self, most: Duration) {
        if let Some(group) = &mut self.group {
            group.drain_stderr(most).await;
        }
    }

    /// Ends at once whatever is left of the group after the program itself has ended.
    pub async fn finish(mut self) -> Stderr {
        if let Some(group) = &mut self.group {
            group.kill();
            // If the caller gives up here, `Drop` cleans up.
            group.drain_stderr(KILL_WAIT).await;
        }
        if let Some(group) = self.group.take() {
            group.clean_up();
        }
        self.stderr.clone()
    }

    /// Ends the program: first by closing its input, then by asking, then by force. Returns how it
    /// ended, if that can be told.
    pub async fn end(mut self) -> Option<ExitStatus> {
        let had_input = self.stdin.take().is_some();
        // In its own task, so that it finishes even if the caller gives up.
        tokio::spawn(self.group.take()?.end(had_input)).await.ok()?
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        let Some(group) = self.group.take() else { return };
        let had_input = self.stdin.take().is_some();
        if let Ok(runtime) = Handle::try_current() {
            runtime.spawn(group.end(had_input));
        } else {
            group.kill();
            group.remains().clean_up();
        }
    }
}

impl Group {
    /// ```text
    ///   input closed ── 2 s ──> TERM ── 2 s ──> KILL ── 1 s ──> given up
    /// ```
    async fn end(mut self, had_input: bool) -> Option<ExitStatus> {
        let mut ended = None;
        if had_input {
            ended = timeout(CLOSE_WAIT, self.leader.wait()).await.ok();
        }
        if ended.is_none() {
            self.signal(Signal::TERM);
            ended = timeout(TERM_WAIT, self.leader.wait()).await.ok();
        }
        self.kill();
        if ended.is_none() {
            ended = timeout(KILL_WAIT, self.leader.wait()).await.ok();
        }
        self.clean_up();
        ended?.ok()
    }

    /// A process that has left the group may hold the pipe.
    async fn drain_stderr(&mut self, most: Duration) {
        if !self.stderr.is_finished() {
            let _ = timeout(most, &mut self.stderr).await;
        }
    }

    /// Kills the whole group.
    fn kill(&self) {
        self.signal(Signal::KILL);
    }

    fn signal(&self, signal: Signal) {
        if let Some(id) = self.id {
            // Nobody may be left in it.
            let _ = kill_process_group(id, signal);
        }
    }

    /// Ends what has left the group. That blocks, so it goes on in the background.
    fn clean_up(self) {
        let remains = self.remains();
        drop(tokio::task::spawn_blocking(move || remains.clean_up()));
    }

    fn remains(self) -> Remains {
        self.stderr.abort();
        let search = match self.id {
            Some(id) if self.started.elapsed() < SHORT_LIFE => {
                Search::Since(id.as_raw_nonzero().get())
            }
            _ => Search::All,
        };
        let Self { mark, guarded, running, directory, .. } = self;
        Remains { mark, search, guarded, running, directory }
    }
}

/// What a group leaves when it has been killed.
struct Remains {
    mark: Mark,
    search: Search,
    guarded: Option<Guarded>,
    running: Option<RunningProgram>,
    directory: Fresh,
}

impl Remains {
    /// Kills the processes that have left the group, and removes the directory, which may hold as
    /// many files as the program liked. Blocks.
    fn clean_up(self) {
        stragglers::kill(&self.mark, self.search);
        drop(self.running);
        drop(self.directory);
        // Until here, the guard would have done it.
        self.guarded.into_iter().for_each(Guarded::ended);
    }
}

fn not_started(options: &Options, error: io::Error) -> ProcessError {
    let program = options.program.clone();
    match missing_directory(options.directory.as_deref()) {
        Some(missing) => ProcessError::NoDirectory(missing),
        None => ProcessError::Start { program, error },
    }
}

fn command(options: &Options, confinement: &Confinement) -> Command {
    let mut command = match &options.launcher {
        Some(launcher) => {
            let mut command = Command::new(launcher.path());
            command.args(Launcher::orders(confinement)).arg(&options.program);
            command
        }
        None => Command::new(&options.program),
    };
    command
        .args(&options.arguments)
        .env_clear()
        .envs(options.environment.iter().map(|(name, value)| (name, value)))
        .process_group(0)
        .stdin(if options.has_input { Stdio::piped() } else { Stdio::null() })
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}
