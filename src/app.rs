//! The assembly: a checked configuration becomes running components.

use std::io::Write;

use crate::cli::{CliError, ParseArgs};
use crate::config::Config;
use crate::tools::ToolSpec;

/// Runs the gateway until it has drained.
///
/// # Errors
/// [`CliError::Failed`] where it cannot start or does not end well.
pub fn run(config: &Config) -> Result<(), CliError> {
    Err(CliError::Failed(format!("nothing listens on {} yet", config.server.listen)))
}

/// The tools that the model would be told of.
#[must_use]
pub fn tools(_config: &Config) -> Vec<ToolSpec> {
    Vec::new()
}

/// Parses standard input into JSON lines.
///
/// # Errors
/// [`CliError::Io`] where standard input or `out` fails.
pub fn parse(_args: &ParseArgs, _out: &mut impl Write) -> Result<(), CliError> {
    Err(CliError::Failed("the parser is not assembled yet".to_owned()))
}
