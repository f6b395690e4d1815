//! The command line: its arguments, and what each command does.
//!
//! Only results go to standard output; messages and logs go to standard error. Exit status: 0
//! for success, 1 for a failure while running, 2 for bad arguments or configuration.

mod chat;
mod check;
mod completions;
mod parse;
mod run;
mod runtime;
mod sessions;
mod tools;

#[cfg(any(test, fuzzing))]
pub use parse::fuzz;
pub use run::main;

use std::io::{self, Write};
use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{Args, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;
use hyper::Uri;

use crate::app::{RunError, StartError};
use crate::call_format::{ROWS, Row};
use crate::config::{self, ConfigError, Overrides};
use crate::telemetry::{LogFormat, TelemetryError};
use crate::{terminal, version};

use chat::ChatArgs;
use sessions::SessionsArgs;

/// A gateway for local model servers that makes tool calls work.
/// Runs the gateway if no command is given.
#[derive(Debug, Parser)]
#[command(name = "tether", version = version::LINE, args_conflicts_with_subcommands = true, after_help = AFTER_HELP)]
pub struct Cli {
    /// The command; `serve` if there is none.
    #[command(subcommand)]
    pub(crate) command: Option<Command>,
    /// Options of `serve`, which also work without its name.
    #[command(flatten)]
    pub(crate) serve: ServeArgs,
}

const AFTER_HELP: &str = "\
Examples:
  tether                                        run with the embedded model, to try it out
  tether --upstream http://127.0.0.1:8081/v1    run in front of llama.cpp, vLLM, Ollama ...
  tether chat                                   talk to a running gateway
  tether check --config tether.yml              show the effective configuration

Environment:
  TETHER_LOG  Log filter: `info` (default), `debug`, `warn,tether=trace`

Exit status: 0 success, 1 runtime failure, 2 bad arguments or configuration";

/// What `tether` does.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run the gateway
    Serve(ServeArgs),
    /// Check a configuration and print the effective one, with secrets redacted
    Check(CheckArgs),
    /// Parse a model's raw output from standard input and print the events as JSON lines
    Parse(ParseArgs),
    /// List the tools offered to the model, with their schemas, or run one of them
    Tools(ToolsArgs),
    /// Talk to a running gateway
    Chat(ChatArgs),
    /// List, show, export, import or delete the sessions of a store
    Sessions(SessionsArgs),
    /// Print a shell completion script
    Completions {
        /// Shell to generate the script for
        shell: Shell,
    },
}

/// Options of `tether serve`.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct ServeArgs {
    /// The configuration file.
    #[command(flatten)]
    pub(crate) config: ConfigArgs,
    /// Address and port to listen on [default: 127.0.0.1:8080]
    #[arg(long, value_name = "ADDR", value_parser = listen_address)]
    pub(crate) listen: Option<SocketAddr>,
    /// Model server to use.
    #[arg(
        long,
        value_name = "URL",
        value_parser = upstream_url,
        help = "Base URL of a Chat Completions server, such as http://127.0.0.1:8081/v1"
    )]
    pub(crate) upstream: Option<Uri>,
    /// Name of the model on that server
    #[arg(long, value_name = "NAME")]
    pub(crate) model: Option<String>,
    /// Folder to keep conversations in, so that they outlive the process
    #[arg(long, value_name = "DIR")]
    pub(crate) state: Option<PathBuf>,
    /// Log format: text, or one JSON object per line
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t)]
    pub(crate) log_format: LogFormat,
}

/// The option that most commands share.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct ConfigArgs {
    /// Configuration file; without it, the built-in defaults apply
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
}

/// Options of `tether check`.
#[derive(Debug, Clone, Args)]
pub(crate) struct CheckArgs {
    /// Also try the store of sessions, start or contact every source of tools and every model server,
    /// and suggest settings
    #[arg(long)]
    pub(crate) probe: bool,
    /// The configuration file.
    #[command(flatten)]
    pub(crate) config: ConfigArgs,
}

/// Options of `tether parse`.
#[derive(Debug, Clone, Args)]
pub(crate) struct ParseArgs {
    /// Call format that the model uses [default: the configured one]
    #[arg(long, value_name = "NAME", value_parser = call_format())]
    pub(crate) format: Option<&'static Row>,
    /// Tools, a JSON array: their schemas say what text values mean
    #[arg(long, value_name = "FILE")]
    pub(crate) tools: Option<PathBuf>,
    /// The prompt has already opened reasoning
    #[arg(long)]
    pub(crate) in_reasoning: bool,
    /// Many outputs at once.
    #[arg(
        long,
        help = "Read lines of JSON with \"text\" and, where they differ, \"format\", \"tools\", \
                \"in_reasoning\" and \"chunk_size\"; print an array of events for each"
    )]
    pub(crate) batch: bool,
    /// Feed the parser N bytes at a time; the output is the same for every N
    #[arg(long, value_name = "N", value_parser = |text: &str| positive(text, "bytes"))]
    pub(crate) chunk_size: Option<NonZeroUsize>,
    /// The configuration file.
    #[command(flatten)]
    pub(crate) config: ConfigArgs,
}

/// Options of `tether tools`.
#[derive(Debug, Clone, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct ToolsArgs {
    /// What to do; list the tools if absent.
    #[command(subcommand)]
    pub(crate) action: Option<ToolsAction>,
    /// The configuration file.
    #[command(flatten)]
    pub(crate) config: ConfigArgs,
}

/// What `tether tools` does.
#[derive(Debug, Clone, Subcommand)]
pub(crate) enum ToolsAction {
    /// Run one tool as the gateway would, without a model, and print its result
    Call(CallArgs),
    /// Print the hash of each MCP server's list of tools, for `pin` in its entry
    Pin(ConfigArgs),
}

/// Options of `tether tools call`.
#[derive(Debug, Clone, Args)]
pub(crate) struct CallArgs {
    /// Name of the tool, as `tether tools` lists it
    pub(crate) name: String,
    /// The arguments, a JSON object; `-` reads it from standard input
    #[arg(value_name = "ARGS", default_value = "{}", hide_default_value = true)]
    pub(crate) arguments: String,
    /// Answer to the tool's questions: JSON (an object fills in a form, a string is an option's id
    /// or text), `accept` (with the form's defaults), `decline` or `cancel`
    #[arg(long, value_name = "ANSWER")]
    pub(crate) answer: Option<String>,
    /// Longest time to wait for the tool and its source, in seconds
    #[arg(long, value_name = "SEC", value_parser = |text: &str| positive(text, "seconds"))]
    pub(crate) timeout: Option<NonZeroUsize>,
    /// Print events as lines of JSON, as a turn would send them
    #[arg(long)]
    pub(crate) events: bool,
    /// The configuration file.
    #[command(flatten)]
    pub(crate) config: ConfigArgs,
}

/// Parses the name of a format; the names are the possible values.
fn call_format() -> impl TypedValueParser<Value = &'static Row> {
    PossibleValuesParser::new(ROWS.iter().map(|row| row.name))
        .map(|name| Row::named(&name).expect("clap only accepts the names of rows"))
}

impl ValueEnum for LogFormat {
    fn value_variants<'a>() -> &'a [Self] {
        &[Self::Text, Self::Json]
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        Some(PossibleValue::new(match self {
            Self::Text => "text",
            Self::Json => "json",
        }))
    }
}

impl ServeArgs {
    /// The settings that override the file.
    #[must_use]
    pub(crate) fn overrides(&self) -> Overrides {
        Overrides {
            listen: self.listen,
            upstream: self.upstream.clone(),
            model: self.model.clone(),
            state: self.state.clone(),
        }
    }
}

/// Why a command ended without its result.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CliError {
    /// The configuration cannot be used.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// An argument cannot be used.
    #[error("{0}")]
    Usage(String),
    /// The command's output says what failed.
    #[error("")]
    Silent,
    /// Something failed on the way.
    #[error("{0}")]
    Failed(String),
    /// Standard input or output failed.
    #[error("standard input or output: {0}")]
    Io(#[from] io::Error),
}

impl CliError {
    /// The configuration or the arguments are at fault.
    pub(crate) fn usage(error: impl std::error::Error) -> Self {
        Self::Usage(error.to_string())
    }
}

impl From<RunError> for CliError {
    fn from(error: RunError) -> Self {
        match error {
            RunError::Start(error @ (StartError::Assembly(_) | StartError::Otlp(_))) => {
                Self::Usage(error.to_string())
            }
            error => Self::Failed(error.to_string()),
        }
    }
}

impl From<TelemetryError> for CliError {
    fn from(error: TelemetryError) -> Self {
        Self::Usage(error.to_string())
    }
}

/// Reports a failed command on standard error and returns the exit status.
///
/// If the reader of standard output has closed its end, as `head` does, it has all it wanted,
/// so that is not a failure.
#[must_use]
pub(crate) fn exit(result: &Result<(), CliError>) -> ExitCode {
    let status = match result {
        Ok(()) => 0,
        Err(CliError::Io(error)) if error.kind() == io::ErrorKind::BrokenPipe => 0,
        Err(CliError::Io(_) | CliError::Failed(_) | CliError::Silent) => 1,
        Err(CliError::Config(_) | CliError::Usage(_)) => 2,
    };
    if let (Err(error), true) = (result, status != 0)
        && !matches!(error, CliError::Silent)
    {
        print_diagnostic("error", error);
    }
    ExitCode::from(status)
}

/// Writes a message to standard error, if it is open.
pub(crate) fn print_diagnostic(level: &str, message: impl std::fmt::Display) {
    // If standard error fails, the failure cannot be reported anywhere.
    let _ = writeln!(io::stderr().lock(), "{}", diagnostic(level, &message.to_string()));
}

/// A message as it is written. Strangers write the names of tools and what servers say: their text must not command the
/// terminal, and no line of it may look like a message of its own.
fn diagnostic(level: &str, message: &str) -> String {
    let message = terminal::spelled_out(message, &['\n', '\t']);
    let mut lines = message.split('\n');
    let mut written = format!("{level}: {}", lines.next().unwrap_or_default());
    for line in lines {
        let indent = if line.is_empty() || line.starts_with("  ") { "" } else { "  " };
        written.extend(["\n", indent, line]);
    }
    written
}

fn listen_address(text: &str) -> Result<SocketAddr, String> {
    let expected = "expected an IP address and a port, such as 127.0.0.1:8080 or [::1]:8080";
    text.parse().map_err(|_| expected.to_owned())
}

fn positive(text: &str, unit: &str) -> Result<NonZeroUsize, String> {
    text.parse().map_err(|_| format!("expected a whole number of {unit}, at least 1"))
}

fn upstream_url(text: &str) -> Result<Uri, String> {
    config::base_url_with_version(text).map_err(|expected| format!("expected {expected}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_line_from_outside_looks_like_a_diagnostic() {
        for (message, written) in [
            ("a", "error: a"),
            ("a\nerror: b", "error: a\n  error: b"),
            ("a\n error: b", "error: a\n   error: b"),
            ("2 mistakes\n  t.yml:1:1: a\n\n  b", "error: 2 mistakes\n  t.yml:1:1: a\n\n  b"),
            ("a\u{1b}[2J\r\tb", "error: a\\u001b[2J\\r\tb"),
        ] {
            assert_eq!(diagnostic("error", message), written);
        }
    }
}
