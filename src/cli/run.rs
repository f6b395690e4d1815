//! From the arguments to the exit status.

use std::fs;
use std::io::{self, BufWriter, Write as _};
use std::process::ExitCode;

use clap::Parser as _;
use tracing::level_filters::LevelFilter;

use super::{
    Cli, CliError, Command, ConfigArgs, ParseArgs, ServeArgs, ToolsAction, chat, check,
    completions, exit, parse, print_diagnostic, sessions, tools,
};
use crate::app::{self, Parts, PartsError, RunError};
use crate::call_format::CallContract;
use crate::config::{self, Config, Overrides};
use crate::parser::Parser;
use crate::telemetry::{self, LogFormat};
use crate::tools::process;

/// Runs the command that this process was started with.
#[must_use]
pub fn main() -> ExitCode {
    // Before anything that takes time: this happens for every call of a program.
    if process::is_launch() {
        return process::launch();
    }
    match Cli::try_parse() {
        Ok(cli) => exit(&run(cli)),
        Err(error) if error.use_stderr() => {
            // If standard error fails, the failure cannot be reported anywhere.
            let _ = error.print();
            ExitCode::from(2)
        }
        Err(help) => exit(&print(&help)),
    }
}

/// Prints help or the version, which clap returns as errors.
fn print(help: &clap::Error) -> Result<(), CliError> {
    help.print()?;
    Ok(io::stdout().flush()?)
}

fn run(cli: Cli) -> Result<(), CliError> {
    let mut out = BufWriter::new(io::stdout().lock());
    match cli.command.unwrap_or(Command::Serve(cli.serve)) {
        Command::Serve(args) => {
            app::survive_full_files().map_err(RunError::System)?;
            serve(&args, &mut out)
        }
        Command::Check(args) => {
            telemetry::check_filter()?;
            check::run(&args, &mut out)
        }
        Command::Parse(args) => parse(&args, &mut out),
        Command::Tools(args) => {
            telemetry::check_filter()?;
            let config = match &args.action {
                None => &args.config,
                Some(ToolsAction::Call(args)) => &args.config,
                Some(ToolsAction::Pin(args)) => args,
            };
            tools::run(&load(config)?, args.action.as_ref(), &mut out)
        }
        Command::Chat(args) => {
            // It writes by itself, on several threads.
            drop(out);
            chat::run(args)
        }
        Command::Sessions(args) => {
            app::survive_full_files().map_err(RunError::System)?;
            // What is damaged is found when a file is opened.
            let _logs = telemetry::init(LogFormat::Text, LevelFilter::WARN)?;
            sessions::run(&args, &mut out)
        }
        Command::Completions { shell } => completions::run(shell, &mut out),
    }
}

fn parse(args: &ParseArgs, out: &mut impl io::Write) -> Result<(), CliError> {
    let config = config::load(args.config.config.as_deref(), &Overrides::default())?;
    let contract =
        args.format.map_or_else(|| config.tools.call_contract.or_taught(), CallContract::InText);
    let mut settings = config.stream.parser_settings();
    settings.format = contract.format(&config.stream.parser.marker);
    settings.starts_in_reasoning |= args.in_reasoning;
    if let Some(file) = &args.tools {
        let wrong = |why: String| CliError::Usage(format!("{}: {why}", file.display()));
        let text = fs::read_to_string(file).map_err(|error| wrong(error.to_string()))?;
        let tools = serde_json::from_str(&text).map_err(|error| wrong(error.to_string()))?;
        settings.tools = parse::given_tools(&tools).map_err(wrong)?;
    }
    if args.batch {
        return parse::run_batch(io::stdin().lock(), out, &settings, args.chunk_size);
    }
    let parser = Parser::new(settings).map_err(CliError::usage)?;
    Ok(parse::run(io::stdin().lock(), out, args.chunk_size, parser)?)
}

fn serve(args: &ServeArgs, out: &mut impl io::Write) -> Result<(), CliError> {
    let _logs = telemetry::init(args.log_format, LevelFilter::INFO)?;
    let config = config::load(args.config.config.as_deref(), &args.overrides())?;
    for warning in config.warnings() {
        tracing::warn!("{warning}");
    }
    let parts = Parts::of(&config).map_err(|error| match error {
        PartsError::Tools(error) => CliError::usage(error),
        PartsError::Store(ref store) if store.is_mistake() => CliError::usage(error),
        PartsError::Store(_) => CliError::Failed(error.to_string()),
    })?;
    Ok(app::run(&config, parts, out)?)
}

fn load(args: &ConfigArgs) -> Result<Config, CliError> {
    let config = config::load(args.config.as_deref(), &Overrides::default())?;
    for warning in &config.tools.import_warnings {
        print_diagnostic("warning", warning);
    }
    Ok(config)
}
