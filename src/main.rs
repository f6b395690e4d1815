//! The `tether` binary: arguments in, exit status out.

use std::io::{self, BufWriter};
use std::process::ExitCode;

use clap::Parser as _;
use tether::cli::{
    Cli, CliError, Command, ParseArgs, ServeArgs, check, completions, exit, parse, tools,
};
use tether::config::{self, CallContract, Config, Overrides};
use tether::parser::SettingsError;
use tether::tools::Registry;
use tether::{app, telemetry};

/// Returns freed memory to the system, unlike the default allocator (`Cargo.toml` has figures).
#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    match Cli::try_parse() {
        Ok(cli) => exit(&run(cli)),
        Err(error) => {
            // A closed pipe is not a failure when printing help.
            let _ = error.print();
            ExitCode::from(if error.use_stderr() { 2 } else { 0 })
        }
    }
}

fn run(cli: Cli) -> Result<(), CliError> {
    let mut out = BufWriter::new(io::stdout().lock());
    match cli.command.unwrap_or(Command::Serve(cli.serve)) {
        Command::Serve(args) => serve(&args, &mut out),
        Command::Check(args) => {
            telemetry::check_filter()?;
            check::run(&args, &mut out)
        }
        Command::Parse(args) => parse(&args, &mut out),
        Command::Tools(args) => {
            telemetry::check_filter()?;
            let config = config::load(args.config.as_deref(), &Overrides::default())?;
            tools::run(registry(&config)?.catalog().specs(), &mut out)
        }
        Command::Completions { shell } => completions::run(shell, &mut out),
    }
}

fn parse(args: &ParseArgs, out: &mut impl io::Write) -> Result<(), CliError> {
    let config = config::load(args.config.config.as_deref(), &Overrides::default())?;
    let usage = |error: SettingsError| CliError::Usage(error.to_string());
    let contract = args.format.map_or(config.tools.call_contract, CallContract::InText);
    let settings = config.stream.parser_settings(contract);
    let parser = tether::parser::Parser::new(settings).map_err(usage)?;
    Ok(parse::run(io::stdin().lock(), out, args.chunk_size, parser)?)
}

fn serve(args: &ServeArgs, out: &mut impl io::Write) -> Result<(), CliError> {
    let _logs = telemetry::init(args.log_format)?;
    let config = config::load(args.config.config.as_deref(), &args.overrides())?;
    for warning in config.warnings() {
        tracing::warn!("{warning}");
    }
    Ok(app::run(&config, registry(&config)?, out)?)
}

/// The tools that the configuration names.
fn registry(config: &Config) -> Result<Registry, CliError> {
    app::tools(config).map_err(|error| CliError::Usage(error.to_string()))
}
