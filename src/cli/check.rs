//! `tether check`: the effective configuration, or everything wrong with it.

use std::io::Write;

use super::{CliError, ConfigArgs, complain};
use crate::config::{self, Overrides};

/// Writes the effective configuration as YAML, secrets redacted. What is allowed
/// and probably not meant goes to standard error.
///
/// # Errors
/// [`CliError::Config`] with every mistake, [`CliError::Io`] where `out` fails.
pub fn run(args: &ConfigArgs, out: &mut impl Write) -> Result<(), CliError> {
    let config = config::load(args.config.as_deref(), &Overrides::default())?;
    for warning in config.warnings() {
        complain("warning", warning);
    }
    let yaml = config.to_yaml().map_err(|error| CliError::Failed(error.to_string()))?;
    out.write_all(yaml.as_bytes())?;
    out.flush()?;
    Ok(())
}
