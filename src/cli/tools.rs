//! `tether tools`: the tools as the model is told of them.

use std::io::Write;

use serde::Serialize;
use serde_json::Value;

use super::CliError;
use crate::tools::{Policy, ToolSpec};

/// Writes `{"tools":[...]}`, indented, in the order of the configuration.
///
/// # Errors
/// [`CliError::Io`] where `out` fails.
pub fn run<'a>(
    specs: impl IntoIterator<Item = &'a ToolSpec>,
    out: &mut impl Write,
) -> Result<(), CliError> {
    let list = List { tools: specs.into_iter().map(Listed::from).collect() };
    let json =
        serde_json::to_string_pretty(&list).map_err(|error| CliError::Failed(error.to_string()))?;
    writeln!(out, "{json}")?;
    out.flush()?;
    Ok(())
}

#[derive(Serialize)]
struct List<'a> {
    tools: Vec<Listed<'a>>,
}

#[derive(Serialize)]
struct Listed<'a> {
    name: &'a str,
    description: &'a str,
    parameters: &'a Value,
    waiting_hint: &'a str,
    policy: ListedPolicy,
}

#[derive(Serialize)]
#[expect(clippy::struct_excessive_bools, reason = "the four flags of a policy")]
struct ListedPolicy {
    may_clarify: bool,
    mutates: bool,
    sequential: bool,
    idempotent: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    timeout_sec: Option<f64>,
}

impl<'a> From<&'a ToolSpec> for Listed<'a> {
    fn from(spec: &'a ToolSpec) -> Self {
        let ToolSpec { name, description, parameters, waiting_hint, policy, examples: _ } = spec;
        Self { name, description, parameters, waiting_hint, policy: ListedPolicy::from(*policy) }
    }
}

impl From<Policy> for ListedPolicy {
    fn from(policy: Policy) -> Self {
        let Policy { may_clarify, mutates, sequential, idempotent, timeout } = policy;
        let timeout_sec = timeout.map(|timeout| timeout.as_secs_f64());
        Self { may_clarify, mutates, sequential, idempotent, timeout_sec }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::json;

    use super::*;

    #[test]
    fn a_tool_is_listed_with_schema_and_policy() {
        let policy = Policy {
            mutates: true,
            timeout: Some(Duration::from_millis(1500)),
            ..Policy::default()
        };
        let spec = ToolSpec {
            name: "send".to_owned(),
            description: "Sends.".to_owned(),
            parameters: json!({"type": "object"}),
            waiting_hint: "sending".to_owned(),
            examples: Vec::new(),
            policy,
        };
        let mut out = Vec::new();
        run([&spec], &mut out).unwrap();
        let listed: Value = serde_json::from_slice(&out).unwrap();
        let expected = json!({"tools": [{
            "name": "send",
            "description": "Sends.",
            "parameters": {"type": "object"},
            "waiting_hint": "sending",
            "policy": {"may_clarify": false, "mutates": true, "sequential": false,
                       "idempotent": false, "timeout_sec": 1.5},
        }]});
        assert_eq!(listed, expected);
        assert_eq!(out.last(), Some(&b'\n'));
    }

    #[test]
    fn no_tools_are_an_empty_list() {
        let mut out = Vec::new();
        run([], &mut out).unwrap();
        assert_eq!(serde_json::from_slice::<Value>(&out).unwrap(), json!({"tools": []}));
    }
}
