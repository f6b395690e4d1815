//! `tether check --probe`: asks the model servers, and suggests settings.

use crate::app;
use crate::cli::runtime::runtime;
use crate::cli::{CliError, print_diagnostic};
use crate::config::Config;

/// Asks them, and writes what it finds to standard error.
///
/// # Errors
/// [`CliError::Usage`] if one cannot be used.
pub(super) fn probe(config: &Config) -> Result<(), CliError> {
    let report =
        |upstream: &str, finding| print_diagnostic("note", format!("{upstream}: {finding}"));
    runtime()?.block_on(app::probe(config, report)).map_err(CliError::usage)
}
