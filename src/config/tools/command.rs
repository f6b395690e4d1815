//! `tools.command[]`: tools that are programs.

use std::path::PathBuf;
use std::time::Duration;

use serde::{Serialize, Serializer};
use serde_json::{Value, json};

use super::policy::policy;
use super::shown::{Shown, shown_as_written};
use crate::config::raw::{self, Node};
use crate::config::reader::{Keys, Refused, boolean, integer, json, text, wait};
use crate::config::values::choice;
use crate::config::{Secret, seconds};
use crate::limits::config as bounds;
use crate::tools::command::{Element, Input, Output, ProgressFrom, Template};
use crate::tools::{PolicyPatch, check_parameters, is_tool_name};

/// A tool that runs a program.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CommandConfig {
    /// The tool's name.
    pub name: String,
    /// What it does, for the model.
    pub description: String,
    /// The program and its arguments; at least the program.
    pub command: Shown<Vec<Element>>,
    /// A JSON Schema of the call's arguments.
    pub parameters: Value,
    /// What the program reads.
    #[serde(serialize_with = "input")]
    pub stdin: Input,
    /// What it prints.
    pub output: Output,
    /// The exit statuses that mean success.
    pub ok_exit_codes: Vec<i32>,
    /// Where it reports progress.
    pub progress: ProgressFrom,
    /// The longest run, if not `limits.tool_timeout_sec`.
    #[serde(
        rename = "timeout_sec",
        skip_serializing_if = "Option::is_none",
        serialize_with = "some_seconds"
    )]
    pub timeout: Option<Duration>,
    /// Where it runs; a fresh directory if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cwd: Option<PathBuf>,
    /// Variables that are set for it.
    #[serde(serialize_with = "as_map")]
    pub env: Vec<(String, Secret)>,
    /// The gateway's own variables that it gets too.
    pub env_inherit: Vec<String>,
    /// How it is restricted.
    pub sandbox: SandboxConfig,
    /// Changes to its policy: it mutates unless this says otherwise.
    pub policy: PolicyPatch,
}

impl CommandConfig {
    /// Whether the operator says that the program gets this variable.
    #[must_use]
    pub fn names_variable(&self, name: &str) -> bool {
        self.env.iter().any(|(set, _)| set == name) || self.env_inherit.iter().any(|it| it == name)
    }
}

/// How a program is restricted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SandboxConfig {
    /// Whether there is a sandbox.
    pub mode: SandboxMode,
    /// Files and directories that can be read, besides the system's.
    pub read: Vec<PathBuf>,
    /// Directories that can be written.
    pub write: Vec<PathBuf>,
    /// Whether it may open connections.
    pub network: bool,
}

/// Whether there is a sandbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum SandboxMode {
    /// As much of one as this machine supports.
    Auto,
    /// Without one, the gateway does not start.
    Require,
    /// None.
    Off,
}

impl Default for SandboxConfig {
    fn default() -> Self {
        Self { mode: SandboxMode::Auto, read: Vec::new(), write: Vec::new(), network: false }
    }
}

/// Reads an entry.
pub(super) fn read(mut keys: Keys<'_, '_>) -> CommandConfig {
    let outputs = &[("auto", Output::Auto), ("json", Output::Json), ("text", Output::Text)];
    let progresses = &[("none", ProgressFrom::None), ("stderr", ProgressFrom::Stderr)];
    let timeout = wait(bounds::WAIT_MIN..=bounds::WAIT_MAX);
    let no_parameters = json!({ "type": "object", "properties": {} });
    let config = CommandConfig {
        name: keys.required("name", String::new(), tool_name),
        description: keys.required("description", String::new(), words),
        command: shown_as_written(&mut keys, "command", |keys| {
            keys.list("command", Vec::new(), element)
        }),
        parameters: keys.read("parameters", no_parameters, parameters),
        stdin: keys.read("stdin", Input::None, stdin),
        output: keys.read("output", Output::Auto, choice("output", outputs)),
        ok_exit_codes: keys.list("ok_exit_codes", vec![0], integer(0..=255, "")),
        progress: keys.read("progress", ProgressFrom::None, choice("progress", progresses)),
        timeout: keys.read("timeout_sec", None, |node| timeout(node).map(Some)),
        cwd: keys.read("cwd", None, |node| path(node).map(Some)),
        env: keys.pairs("env", |node| Ok(Secret::new(text(node)?.to_owned()))),
        env_inherit: keys.list("env_inherit", Vec::new(), |node| text(node).map(str::to_owned)),
        sandbox: sandbox(keys.section("sandbox")),
        policy: policy(keys.section("policy")),
    };
    match config.command.reveal().split_first() {
        None => keys.refuse("command", "expected a list: the program and its arguments".to_owned()),
        Some((Element::Group(_), _)) => {
            keys.refuse("command", "the program itself cannot be optional".to_owned());
        }
        Some((Element::One(_), arguments)) => {
            if let Err(error) = Template::new(arguments, &config.parameters) {
                keys.refuse("command", error.to_string());
            }
        }
    }
    if let Input::Parameter(name) = &config.stdin
        && config.parameters["properties"].get(name).is_none()
    {
        keys.refuse("stdin", format!("`{name}` is not one of the parameters"));
    }
    keys.finish();
    config
}

/// Reads how a program is restricted.
pub(super) fn sandbox(mut keys: Keys<'_, '_>) -> SandboxConfig {
    let default = SandboxConfig::default();
    let modes = &[
        ("auto", SandboxMode::Auto),
        ("require", SandboxMode::Require),
        ("off", SandboxMode::Off),
    ];
    let sandbox = SandboxConfig {
        mode: keys.read("mode", default.mode, choice("mode", modes)),
        read: keys.list("read", default.read, path),
        write: keys.list("write", default.write, path),
        network: keys.read("network", default.network, boolean),
    };
    keys.finish();
    sandbox
}

pub(super) fn tool_name(node: &Node) -> Result<String, Refused> {
    let name = text(node)?;
    if is_tool_name(name) {
        return Ok(name.to_owned());
    }
    Err(Refused::new(node, "a tool's name: 1 to 64 of A-Z a-z 0-9 _ -"))
}

pub(super) fn words(node: &Node) -> Result<String, Refused> {
    let words = text(node)?;
    if words.trim().is_empty() {
        return Err(Refused::new(node, "a sentence that tells the model what the tool does"));
    }
    Ok(words.to_owned())
}

/// Reads an argument, or a list of arguments that are optional together.
fn element(node: &Node) -> Result<Element, Refused> {
    match &node.value {
        raw::Value::List(nodes) => {
            let texts = nodes.iter().map(scalar);
            Ok(Element::Group(texts.collect::<Result<_, _>>()?))
        }
        _ => Ok(Element::One(scalar(node)?)),
    }
}

/// Text, or a number as it would be written on a command line.
pub(super) fn scalar(node: &Node) -> Result<String, Refused> {
    match &node.value {
        raw::Value::Integer(number) => Ok(number.to_string()),
        _ => text(node).map(str::to_owned),
    }
}

/// Reads a schema that can be compiled.
pub(super) fn parameters(node: &Node) -> Result<Value, Refused> {
    let parameters = json(node)?;
    match check_parameters(&parameters) {
        Ok(()) => Ok(parameters),
        Err(error) => Err(Refused::new(node, format!("a JSON Schema that can be used: {error}"))),
    }
}

fn stdin(node: &Node) -> Result<Input, Refused> {
    match text(node)? {
        "none" => Ok(Input::None),
        "arguments" => Ok(Input::Arguments),
        other => {
            let name = other.strip_prefix('{').and_then(|rest| rest.strip_suffix('}'));
            let name = name.filter(|name| !name.is_empty());
            let expected = "`none`, `arguments` or the name of a parameter in braces";
            name.map(|name| Input::Parameter(name.to_owned()))
                .ok_or_else(|| Refused::new(node, expected))
        }
    }
}

pub(super) fn path(node: &Node) -> Result<PathBuf, Refused> {
    let path = PathBuf::from(text(node)?);
    if path.is_absolute() {
        return Ok(path);
    }
    Err(Refused::new(node, "an absolute path"))
}

fn input<S: Serializer>(input: &Input, serializer: S) -> Result<S::Ok, S::Error> {
    match input {
        Input::None => serializer.serialize_str("none"),
        Input::Arguments => serializer.serialize_str("arguments"),
        Input::Parameter(name) => serializer.serialize_str(&format!("{{{name}}}")),
    }
}

pub(super) fn as_map<S: Serializer, T: Serialize>(
    pairs: &[(String, T)],
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.collect_map(pairs.iter().map(|(name, value)| (name, value)))
}

#[expect(clippy::ref_option, reason = "serde passes a reference to the field")]
pub(super) fn some_seconds<S: Serializer>(
    duration: &Option<Duration>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    match duration {
        Some(duration) => seconds(duration, serializer),
        None => serializer.serialize_none(),
    }
}
