//! `tether check --probe`: asks the model servers, and suggests settings.

use super::report;
use crate::app;
use crate::cli::CliError;
use crate::cli::runtime::runtime;
use crate::config::Config;

/// Asks them, and writes what it finds to standard error. Returns whether all of them can be used.
///
/// # Errors
/// [`CliError::Usage`] if one is wrongly configured.
pub(super) fn probe(config: &Config) -> Result<bool, CliError> {
    let mut are_usable = true;
    let found = |upstream: &str, finding| are_usable &= report(upstream, finding);
    runtime()?.block_on(app::probe_upstreams(config, found)).map_err(CliError::usage)?;
    Ok(are_usable)
}
