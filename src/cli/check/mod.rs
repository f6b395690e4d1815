//! `tether check`: prints the effective configuration, or all mistakes in it.

mod sessions;
mod tools;
mod upstreams;

use std::io::Write;

use super::{CheckArgs, CliError, print_diagnostic};
use crate::app;
use crate::config::{self, Overrides};
use crate::tools::SourceReport;

/// Writes the effective configuration as YAML, with secrets redacted. On standard error, warns
/// about settings that are allowed but probably unintended, and says which tools there are on
/// this machine. With `--probe`, tries the store of sessions, and asks the sources of tools
/// and the model servers.
///
/// # Errors
/// [`CliError::Config`] with all mistakes; [`CliError::Usage`] if this machine cannot do what the
/// file requires; [`CliError::Io`] if `out` fails; [`CliError::Silent`] if the store of sessions cannot be used.
pub(super) fn run(args: &CheckArgs, out: &mut impl Write) -> Result<(), CliError> {
    let config = config::load(args.config.config.as_deref(), &Overrides::default())?;
    for warning in config.warnings() {
        print_diagnostic("warning", warning);
    }
    if let Some(warning) = app::check_tls(&config).map_err(CliError::usage)? {
        print_diagnostic("warning", warning);
    }
    app::check_sessions(&config.sessions).map_err(CliError::usage)?;
    for source in &app::tools(&config).map_err(CliError::usage)?.toolset().sources {
        note(source);
        // After a probe, there may be more to report.
        if !args.probe {
            warn(source);
        }
    }
    if args.probe {
        let is_store_usable = sessions::probe(&config)?;
        tools::probe(&config)?;
        upstreams::probe(&config)?;
        if !is_store_usable {
            return Err(CliError::Silent);
        }
    }
    let yaml = config.to_yaml().map_err(|error| CliError::Failed(error.to_string()))?;
    out.write_all(yaml.as_bytes())?;
    out.flush()?;
    Ok(())
}

/// Says what an entry of `tools` runs, and what restricts it.
fn note(source: &SourceReport) {
    let SourceReport { source, program, sandbox, .. } = source;
    if let Some(program) = program {
        let layers = sandbox.as_deref().unwrap_or_default();
        let held = if layers.is_empty() { "nothing".to_owned() } else { layers.join(", ") };
        print_diagnostic(
            "note",
            format!("{source}: runs {}, restricted by: {held}", program.display()),
        );
    }
}

/// Says what is wrong with it and with its tools.
fn warn(source: &SourceReport) {
    if let Some(error) = &source.error {
        print_diagnostic("warning", format!("{}: {error}", source.source));
    }
    for warning in source.warnings() {
        print_diagnostic("warning", warning);
    }
}
