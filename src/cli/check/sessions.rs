//! `tether check --probe`: tries the store of sessions.

use crate::app::{self, StoreFinding};
use crate::cli::tools::settle;
use crate::cli::{CliError, print_diagnostic};
use crate::config::Config;

/// Tries it, and writes what it finds to standard error.
///
/// # Errors
/// If there is no runtime for it.
pub(super) fn probe(config: &Config) -> Result<(), CliError> {
    for finding in settle::runtime()?.block_on(app::probe_store(&config.sessions)) {
        match finding {
            StoreFinding::Note(finding) => print_diagnostic("note", format!("sessions: {finding}")),
            StoreFinding::Fault(finding) => {
                print_diagnostic("warning", format!("sessions: {finding}"));
            }
        }
    }
    Ok(())
}
