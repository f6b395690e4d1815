//! `tether check --probe`: asks the model servers, and suggests settings.

use super::told;
use crate::app;
use crate::cli::CliError;
use crate::cli::runtime::runtime;
use crate::config::Config;

/// Asks them, and writes what it finds to standard error. Whether all of them can be used.
///
/// # Errors
/// [`CliError::Usage`] if one is wrongly configured.
pub(super) fn probe(config: &Config) -> Result<bool, CliError> {
    let mut are_usable = true;
    let tell = |upstream: &str, finding| are_usable &= told(upstream, finding);
    runtime()?.block_on(app::probe_upstreams(config, tell)).map_err(CliError::usage)?;
    Ok(are_usable)
}
