//! `tether check --probe`: tries the store of sessions.

use crate::app::{self, StoreFinding};
use crate::cli::runtime::runtime;
use crate::cli::{CliError, print_diagnostic};
use crate::config::Config;

/// Tries it, and writes what it finds to standard error. Whether it can be used: no gateway starts without it.
///
/// # Errors
/// If there is no runtime for it.
pub(super) fn probe(config: &Config) -> Result<bool, CliError> {
    let mut is_usable = true;
    for finding in runtime()?.block_on(app::probe_store(&config.sessions)) {
        match finding {
            StoreFinding::Note(finding) => print_diagnostic("note", format!("sessions: {finding}")),
            StoreFinding::Warning(finding) => {
                print_diagnostic("warning", format!("sessions: {finding}"));
            }
            StoreFinding::Fault(finding) => {
                print_diagnostic("error", format!("sessions: {finding}"));
                is_usable = false;
            }
        }
    }
    Ok(is_usable)
}
