//! `tether check --probe`: tries the store of sessions.

use super::report;
use crate::app;
use crate::cli::CliError;
use crate::cli::runtime::runtime;
use crate::config::Config;

/// Tries it, and writes what it finds to standard error. Returns whether it can be used: no gateway
/// starts without it.
///
/// # Errors
/// If there is no runtime for it.
pub(super) fn probe(config: &Config) -> Result<bool, CliError> {
    let mut is_usable = true;
    for finding in runtime()?.block_on(app::probe_store(&config.sessions)) {
        is_usable &= report("sessions", finding);
    }
    Ok(is_usable)
}
