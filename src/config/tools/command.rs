//! `tools.command[]`: tools that are programs.

use std::path::PathBuf;
use std::time::Duration;

use serde::{Serialize, Serializer};
use serde_json::{Value, json};

use super::policy::policy;
use super::sandbox::{self, SandboxConfig};
use super::script::scripts;
use super::shown::{Shown, shown_as_written};
use super::values::{as_map, parameters, path, scalar, some_seconds, tool_name, words};
use crate::config::Secret;
use crate::config::raw::{self, Node};
use crate::config::reader::{Keys, Refused, integer, text, wait};
use crate::config::values::{choice, secret_text};
use crate::limits::config as bounds;
use crate::tools::PolicyPatch;
use crate::tools::command::{Element, Input, Output, ProgressFrom, Template, has_placeholder};

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
    /// Whether the model fills in a part of a script.
    pub(in crate::config) fn has_filled_script(&self) -> bool {
        let texts = self.command.reveal().iter().flat_map(Element::texts).map(String::as_str);
        scripts(texts).into_iter().any(has_placeholder)
    }

    /// Whether the operator says that the program gets this variable.
    #[must_use]
    pub fn names_variable(&self, name: &str) -> bool {
        self.env.iter().any(|(set, _)| set == name) || self.env_inherit.iter().any(|it| it == name)
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
        env: keys.pairs("env", secret_text),
        env_inherit: keys.list("env_inherit", Vec::new(), |node| text(node).map(str::to_owned)),
        sandbox: sandbox::read(keys.section("sandbox")),
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
        let name = keys.node("stdin").map_or(&**name, |node| node.written(name));
        keys.refuse("stdin", format!("`{name}` is not one of the parameters"));
    }
    keys.finish();
    config
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

fn input<S: Serializer>(input: &Input, serializer: S) -> Result<S::Ok, S::Error> {
    match input {
        Input::None => serializer.serialize_str("none"),
        Input::Arguments => serializer.serialize_str("arguments"),
        Input::Parameter(name) => serializer.serialize_str(&format!("{{{name}}}")),
    }
}
