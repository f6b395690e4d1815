//! `tether check`: prints the effective configuration, or all mistakes in it.

use std::io::Write;

use super::{CliError, ConfigArgs, print_diagnostic};
use crate::config::{self, Overrides};

/// Writes the effective configuration as YAML, with secrets redacted. Warns on standard error
/// about settings that are allowed but probably unintended.
///
/// # Errors
/// [`CliError::Config`] with all mistakes; [`CliError::Io`] if `out` fails.
pub(super) fn run(args: &ConfigArgs, out: &mut impl Write) -> Result<(), CliError> {
    let config = config::load(args.config.as_deref(), &Overrides::default())?;
    for warning in config.warnings() {
        print_diagnostic("warning", warning);
    }
    let yaml = config.to_yaml().map_err(|error| CliError::Failed(error.to_string()))?;
    out.write_all(yaml.as_bytes())?;
    out.flush()?;
    Ok(())
}
