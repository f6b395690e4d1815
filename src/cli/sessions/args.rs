//! The arguments of `tether sessions`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use crate::cli::ConfigArgs;

/// Options of `tether sessions`.
#[derive(Debug, Clone, Args)]
pub(crate) struct SessionsArgs {
    /// What to do.
    #[command(subcommand)]
    pub(super) action: Action,
}

/// What `tether sessions` does.
#[derive(Debug, Clone, Subcommand)]
pub(super) enum Action {
    /// List the sessions, the one last used first
    List(ListArgs),
    /// Print the transcript of a session
    Show(ShowArgs),
    /// Print sessions as lines of JSON, with their logs and files
    Export(IdsArgs),
    /// Read sessions that `export` has written
    Import(ImportArgs),
    /// Delete sessions with their logs and files, or an owner's recent turns
    Forget(ForgetArgs),
}

/// Where the sessions are.
#[derive(Debug, Clone, Args)]
pub(super) struct StoreArgs {
    /// The configuration file.
    #[command(flatten)]
    pub(super) config: ConfigArgs,
    /// Folder in which `tether --state` keeps the sessions
    #[arg(long, value_name = "DIR")]
    pub(super) state: Option<PathBuf>,
}

/// Options of `tether sessions list`.
#[derive(Debug, Clone, Args)]
pub(super) struct ListArgs {
    /// Print a JSON object per line instead of a table
    #[arg(long)]
    pub(super) json: bool,
    /// Where they are.
    #[command(flatten)]
    pub(super) store: StoreArgs,
}

/// Options of `tether sessions show`.
#[derive(Debug, Clone, Args)]
pub(super) struct ShowArgs {
    /// Session, as `tether sessions list` names it
    pub(super) id: String,
    /// Print what GET /api/v1/sessions/{id} returns
    #[arg(long)]
    pub(super) json: bool,
    /// Where it is.
    #[command(flatten)]
    pub(super) store: StoreArgs,
}

/// Options of `tether sessions export`.
#[derive(Debug, Clone, Args)]
pub(super) struct IdsArgs {
    /// Sessions, as `tether sessions list` names them; all if there are none
    #[arg(value_name = "ID")]
    pub(super) ids: Vec<String>,
    /// Where they are.
    #[command(flatten)]
    pub(super) store: StoreArgs,
}

/// Options of `tether sessions forget`.
#[derive(Debug, Clone, Args)]
pub(super) struct ForgetArgs {
    /// Sessions, as `tether sessions list` names them
    #[arg(value_name = "ID", required_unless_present = "owners")]
    pub(super) ids: Vec<String>,
    /// Delete the recent turns that this owner's clients keep themselves: what follows `@` in the ids of
    /// the owner's sessions, or "" without API keys
    #[arg(long = "owner", value_name = "OWNER")]
    pub(super) owners: Vec<String>,
    /// Where they are.
    #[command(flatten)]
    pub(super) store: StoreArgs,
}

/// Options of `tether sessions import`.
#[derive(Debug, Clone, Args)]
pub(super) struct ImportArgs {
    /// File to read; standard input by default
    #[arg(value_name = "FILE")]
    pub(super) file: Option<PathBuf>,
    /// Overwrite sessions that exist already
    #[arg(long)]
    pub(super) replace: bool,
    /// Where they go.
    #[command(flatten)]
    pub(super) store: StoreArgs,
}
