//! Tools that are programs, seen from outside: real programs, started by the real launcher.

#![expect(clippy::unwrap_used, reason = "a test that panics has failed, as it should")]

mod arguments;
mod ending;
mod output;
mod sandbox;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::{Value, json};
use tether::tools::command::{CommandTool, Element, Input, Options, Output, ProgressFrom};
use tether::tools::process::{Confinement, Launcher, environment, find_program};
use tether::tools::{CallContext, Tool, ToolFault, ToolResult, ToolSpec};

/// A tool that runs a program.
struct Program {
    options: Options,
    parameters: Value,
}

impl Program {
    /// `arguments[0]` is the program.
    fn new(arguments: &[&str]) -> Self {
        let path = own_environment().into_iter().find(|(name, _)| name == "PATH");
        let path = path.map(|(_, value)| value);
        let program = find_program(arguments[0].as_ref(), path.as_deref(), None).unwrap();
        let one = |text: &&str| Element::One((*text).to_owned());
        let options = Options {
            program,
            arguments: arguments[1..].iter().map(one).collect(),
            environment: environment(own_environment(), &[], &[]),
            directory: None,
            stdin: Input::None,
            output: Output::Auto,
            ok_exit_codes: vec![0],
            progress: ProgressFrom::None,
            confinement: Confinement::default(),
            launcher: Some(launcher()),
        };
        let text = json!({ "type": "string" });
        let parameters = json!({ "type": "object", "properties": { "x": text, "y": text } });
        Self { options, parameters }
    }

    /// A shell script; the call's `x` is its `$1`.
    fn script(script: &str) -> Self {
        Self::new(&["sh", "-c", script, "--", "{x}"])
    }

    fn with(mut self, change: impl FnOnce(&mut Options)) -> Self {
        change(&mut self.options);
        self
    }

    fn tool(self) -> CommandTool {
        let Self { options, parameters } = self;
        let spec = ToolSpec { name: "program".to_owned(), parameters, ..ToolSpec::default() };
        CommandTool::new(Arc::new(spec), options).unwrap()
    }

    async fn run(self, arguments: Value) -> Result<ToolResult, ToolFault> {
        self.tool().call(arguments, CallContext::first("call")).await
    }

    /// What it prints, if it succeeds.
    async fn prints(self, arguments: Value) -> String {
        let result = self.run(arguments).await.unwrap();
        assert!(result.success, "{result:?}");
        result.data.unwrap()["text"].as_str().unwrap().to_owned()
    }

    /// How it fails.
    async fn fails(self, arguments: Value) -> String {
        let result = self.run(arguments).await.unwrap();
        result.error.unwrap_or_else(|| panic!("it succeeded: {:?}", result.data))
    }
}

#[expect(clippy::disallowed_methods, reason = "stands in for the configuration")]
fn own_environment() -> Vec<(std::ffi::OsString, std::ffi::OsString)> {
    std::env::vars_os().collect()
}

fn launcher() -> Arc<Launcher> {
    Arc::new(Launcher::at(PathBuf::from(env!("CARGO_BIN_EXE_tether"))))
}

fn text_of(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap()
}
