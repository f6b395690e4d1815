//! `tether completions`: a script for the user's shell.

use std::io::Write;

use clap::CommandFactory as _;
use clap_complete::Shell;

use super::{Cli, CliError};

/// Writes the completion script of a shell.
///
/// # Errors
/// [`CliError::Io`] if `out` fails.
pub(super) fn run(shell: Shell, out: &mut impl Write) -> Result<(), CliError> {
    // The generator panics if its writer fails, so let it write to memory.
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "tether", &mut script);
    out.write_all(&script)?;
    out.flush()?;
    Ok(())
}
