//! `tether check`: prints the effective configuration, or all mistakes in it.

mod names;
mod sessions;
mod tools;
mod upstreams;

use std::io::Write;

use super::{CheckArgs, CliError, print_diagnostic};
use crate::app::{self, Finding};
use crate::config::{self, Config, Overrides};
use crate::tools::{SourceReport, Toolset};

/// Writes the effective configuration as YAML, with secrets redacted. On standard error, warns
/// about settings that are allowed but probably unintended, and says which tools there are on
/// this machine. With `--probe`, tries the store of sessions, and asks the sources of tools
/// and the model servers.
///
/// # Errors
/// [`CliError::Config`] with all mistakes; [`CliError::Usage`] if this machine cannot do what the
/// file requires; [`CliError::Io`] if `out` fails; [`CliError::Silent`] if the store of sessions, a required source of
/// tools or a model server cannot be used.
pub(super) fn run(args: &CheckArgs, out: &mut impl Write) -> Result<(), CliError> {
    let config = config::load(args.config.config.as_deref(), &Overrides::default())?;
    for warning in config.warnings() {
        print_diagnostic("warning", warning);
    }
    if let Some(warning) = app::check_tls(&config).map_err(CliError::usage)? {
        print_diagnostic("warning", warning);
    }
    app::check_sessions(&config.sessions).map_err(CliError::usage)?;
    let toolset = app::tools(&config).map_err(CliError::usage)?.toolset();
    toolset.sources.iter().for_each(note);
    if args.probe {
        // Probes everything, even after something has failed.
        let usable =
            [sessions::probe(&config)?, tools::probe(&config)?, upstreams::probe(&config)?];
        if usable.contains(&false) {
            return Err(CliError::Silent);
        }
    } else {
        // A probe says this of what it has found.
        toolset.sources.iter().for_each(warn);
        warn_of_names(&config, &toolset);
    }
    let yaml = config.to_yaml().map_err(|error| CliError::Failed(error.to_string()))?;
    out.write_all(yaml.as_bytes())?;
    out.flush()?;
    Ok(())
}

/// Prints a finding. Returns whether its subject can be used.
fn report(what: &str, finding: Finding) -> bool {
    let (kind, finding, is_usable) = match finding {
        Finding::Note(finding) => ("note", finding, true),
        Finding::Warning(finding) => ("warning", finding, true),
        Finding::Fault(finding) => ("error", finding, false),
    };
    print_diagnostic(kind, format!("{what}: {finding}"));
    is_usable
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

/// Says which tools the configuration names, but nothing offers.
fn warn_of_names(config: &Config, toolset: &Toolset) {
    for warning in names::warnings(config, toolset) {
        print_diagnostic("warning", warning);
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
