//! Tools that are programs of this machine: a script, `grep`, anything that takes arguments and
//! prints an answer.

mod output;
mod progress;
mod run;
mod template;

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;

use serde::Serialize;
use serde_json::{Value, json};

use super::keys::Keys;
use super::process::{Confinement, Launcher, Options as ProcessOptions};
use super::{CallContext, Settled, Tool, ToolFuture, ToolSpec, digest};

pub(crate) use template::has_placeholder;
pub use template::{Element, Template, TemplateError};

/// How a program is called.
#[derive(Debug, Clone)]
pub struct Options {
    /// The program's file, with an absolute path.
    pub program: PathBuf,
    /// Its arguments.
    pub arguments: Vec<Element>,
    /// All of its environment.
    pub environment: Vec<(OsString, OsString)>,
    /// Where it runs; a fresh directory for each call if absent.
    pub directory: Option<PathBuf>,
    /// What it reads.
    pub stdin: Input,
    /// What it prints.
    pub output: Output,
    /// The exit statuses that mean success.
    pub ok_exit_codes: Vec<i32>,
    /// Where it reports progress.
    pub progress: ProgressFrom,
    /// How it is restricted.
    pub confinement: Confinement,
    /// What starts it; without a launcher, nothing restricts it.
    pub launcher: Option<Arc<Launcher>>,
}

/// What a program reads on its standard input.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Input {
    /// Nothing.
    None,
    /// All arguments of the call, as one line of JSON.
    Arguments,
    /// The value of one parameter, strings as they are.
    Parameter(String),
}

/// What a program prints on its standard output.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Output {
    /// A JSON object, or else text.
    #[default]
    Auto,
    /// JSON; anything else is an error.
    Json,
    /// Text, whatever it looks like.
    Text,
}

/// Where a program reports progress.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ProgressFrom {
    /// Nowhere.
    #[default]
    None,
    /// On its standard error: `12/40 text`, `30% text`, or any other line.
    Stderr,
}

/// A tool that runs a program for each call.
#[derive(Debug)]
pub struct CommandTool {
    spec: Arc<ToolSpec>,
    shared: Arc<Shared>,
}

/// What all runs share.
#[derive(Debug)]
struct Shared {
    process: ProcessOptions,
    template: Template,
    stdin: Input,
    output: Output,
    ok_exit_codes: Vec<i32>,
    progress: ProgressFrom,
    /// Keys in its environment.
    keys: Keys,
}

impl CommandTool {
    /// A tool that calls the program with these options.
    ///
    /// # Errors
    /// If the template does not fit the tool's parameters.
    pub fn new(mut spec: Arc<ToolSpec>, options: Options) -> Result<Self, TemplateError> {
        let template = Template::new(&options.arguments, &spec.parameters)?;
        if let Input::Parameter(name) = &options.stdin {
            // As in an argument, it has to be a parameter.
            Template::new(&[Element::One(format!("{{{name}}}"))], &spec.parameters)?;
        }
        let Options { program, arguments, directory, .. } = &options;
        let command = json!([program.to_string_lossy(), arguments, directory]);
        Arc::make_mut(&mut spec).implementation = digest::of(&command);
        let process = ProcessOptions {
            program: options.program,
            arguments: Vec::new(),
            environment: options.environment,
            directory: options.directory,
            has_input: options.stdin != Input::None,
            session: None,
            confinement: options.confinement,
            launcher: options.launcher,
        };
        let mut keys = Keys::default();
        keys.note_environment(&process.environment);
        let shared = Shared {
            process,
            template,
            stdin: options.stdin,
            output: options.output,
            ok_exit_codes: options.ok_exit_codes,
            progress: options.progress,
            keys,
        };
        Ok(Self { spec, shared: Arc::new(shared) })
    }
}

impl Tool for CommandTool {
    fn spec(&self) -> &Arc<ToolSpec> {
        &self.spec
    }

    fn call(&self, arguments: Value, context: CallContext) -> ToolFuture {
        let shared = Arc::clone(&self.shared);
        let context = context.hiding(&shared.keys);
        Box::pin(async move { shared.keys.hide(run::run(&shared, arguments, context).await) })
    }

    fn settled<'a>(&'a self, session: &'a str) -> Settled<'a> {
        Box::pin(async move {
            if let Some(launcher) = &self.shared.process.launcher {
                launcher.settled(session).await;
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tools::Reporter;
    use crate::tools::report::Report;

    fn options(program: &str, arguments: &[&str]) -> Options {
        let one = |argument: &&str| Element::One((*argument).to_owned());
        Options {
            program: program.into(),
            arguments: arguments.iter().map(one).collect(),
            environment: Vec::new(),
            directory: None,
            stdin: Input::None,
            output: Output::Auto,
            ok_exit_codes: vec![0],
            progress: ProgressFrom::None,
            confinement: Confinement::default(),
            launcher: None,
        }
    }

    fn tool(options: Options) -> CommandTool {
        let parameters = json!({ "type": "object" });
        let spec = ToolSpec { name: "search".into(), parameters, ..ToolSpec::default() };
        CommandTool::new(Arc::new(spec), options).unwrap()
    }

    #[tokio::test]
    async fn a_programs_key_is_hidden_in_its_progress() {
        let options = Options {
            environment: vec![("API_TOKEN".into(), "s3cr3t-key".into())],
            progress: ProgressFrom::Stderr,
            ..options("/bin/sh", &["-c", "echo \"with $API_TOKEN\" >&2"])
        };
        let (reporter, reports) = Reporter::new();
        let context = CallContext { reporter, attempt: 0, ..CallContext::first("call") };
        assert!(tool(options).call(json!({}), context).await.unwrap().success);
        let Some(Report::Progress { progress, .. }) = reports.take() else { panic!("no progress") };
        assert_eq!(progress.message.as_deref(), Some("with [the key]"));
    }

    #[test]
    fn another_command_is_another_tool() {
        let digest =
            |program: &str, argument: &str| tool(options(program, &[argument])).spec().digest();
        let own = digest("/bin/grep", "-r");
        assert_eq!(digest("/bin/grep", "-r"), own);
        assert_ne!(digest("/bin/rm", "-r"), own);
        assert_ne!(digest("/bin/grep", "-c"), own);
    }
}
