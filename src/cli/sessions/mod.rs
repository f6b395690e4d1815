//! `tether sessions`: what a store of sessions holds, for those who own the data. No gateway may use a file
//! meanwhile.

mod args;
mod export;
mod import;
mod list;
mod show;

use std::io::Write;
use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Runtime;

use super::{CliError, print_diagnostic};
use crate::app::{self, SessionsError};
use crate::cli::runtime::runtime;
use crate::config::{self, Overrides};
use crate::session::store::{ListedSession, Store};

use args::{Action, ForgetArgs, StoreArgs};

pub(super) use args::SessionsArgs;

/// Does what the arguments say. Results go to `out`, messages to standard error.
///
/// # Errors
/// [`CliError::Config`] or [`CliError::Usage`] if no file of sessions is configured,
/// [`CliError::Failed`] if it cannot be used, [`CliError::Silent`] if some sessions could not be.
pub(super) fn run(args: &SessionsArgs, out: &mut impl Write) -> Result<(), CliError> {
    let runtime = runtime()?;
    match &args.action {
        Action::List(args) => {
            let Opened { store, .. } = open(&runtime, &args.store, false)?;
            runtime.block_on(list::run(&*store, args.json, out))
        }
        Action::Show(args) => {
            let Opened { store, .. } = open(&runtime, &args.store, false)?;
            runtime.block_on(show::run(&*store, &args.id, args.json, out))
        }
        Action::Export(args) => {
            let Opened { store, .. } = open(&runtime, &args.store, false)?;
            runtime.block_on(export::run(&*store, &args.ids, out))
        }
        Action::Import(args) => {
            let input = import::input(args.file.as_deref())?;
            let Opened { store, ttl } = open(&runtime, &args.store, true)?;
            runtime.block_on(import::run(&*store, input, args.replace, ttl))
        }
        Action::Forget(args) => {
            let Opened { store, .. } = open(&runtime, &args.store, false)?;
            runtime.block_on(forget(&*store, args))
        }
    }
}

/// The sessions after this id, up to as many as are asked for at a time. None after the last one.
async fn page(store: &dyn Store, after: Option<&str>) -> Result<Vec<ListedSession>, CliError> {
    const PAGE: usize = 256;
    store.list(after, PAGE).await.map_err(failed)
}

/// A store, and how long it keeps unused sessions.
struct Opened {
    store: Arc<dyn Store>,
    ttl: Duration,
}

fn open(runtime: &Runtime, args: &StoreArgs, create: bool) -> Result<Opened, CliError> {
    let overrides = Overrides { state: args.state.clone(), ..Overrides::default() };
    let config = config::load(args.config.config.as_deref(), &overrides)?;
    let opened = runtime.block_on(app::open_sessions(&config.sessions, create));
    let store = opened.map_err(|error| match error {
        SessionsError::InMemory => CliError::usage(error),
        SessionsError::Open(ref open) if open.is_mistake() => CliError::usage(error),
        error => CliError::Failed(error.to_string()),
    })?;
    Ok(Opened { store, ttl: config.sessions.ttl })
}

async fn forget(store: &dyn Store, args: &ForgetArgs) -> Result<(), CliError> {
    let mut failures = Failures::default();
    for id in &args.ids {
        match store.forget(id).await {
            Ok(true) => {}
            Ok(false) => failures.report(NoSuch(id)),
            Err(error) => failures.report(format_args!("{id}: {error}")),
        }
    }
    for owner in &args.owners {
        match app::forget_recent_turns(store, owner).await {
            Ok(0) => {
                failures.report(format_args!("there are no recent turns of the owner {owner:?}"));
            }
            Ok(_) => {}
            Err(error) => failures.report(format_args!("{owner}: {error}")),
        }
    }
    failures.end()
}

/// What went wrong with some sessions, while the others were done.
#[derive(Default)]
struct Failures {
    any: bool,
}

impl Failures {
    fn report(&mut self, message: impl std::fmt::Display) {
        self.any = true;
        print_diagnostic("error", message);
    }

    fn end(self) -> Result<(), CliError> {
        if self.any { Err(CliError::Silent) } else { Ok(()) }
    }
}

/// There is no session with this id.
#[derive(Debug, thiserror::Error)]
#[error("there is no session {0:?}; `tether sessions list` names them")]
struct NoSuch<'a>(&'a str);

fn failed(error: impl std::fmt::Display) -> CliError {
    CliError::Failed(error.to_string())
}
