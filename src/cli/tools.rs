//! `tether tools`: prints the tools as they are described to the model.

use std::io::Write;

use serde_json::json;

use super::CliError;
use crate::tools::ToolSpec;

/// Writes `{"tools":[...]}`, indented, in the order of the configuration.
///
/// # Errors
/// [`CliError::Io`] if `out` fails.
pub(super) fn run<'a>(
    specs: impl IntoIterator<Item = &'a ToolSpec>,
    out: &mut impl Write,
) -> Result<(), CliError> {
    let tools: Vec<_> = specs.into_iter().collect();
    let json = serde_json::to_string_pretty(&json!({ "tools": tools }))
        .map_err(|error| CliError::Failed(error.to_string()))?;
    writeln!(out, "{json}")?;
    out.flush()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::Value;

    use super::*;
    use crate::tools::Policy;

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
            policy,
            ..ToolSpec::default()
        };
        let mut out = Vec::new();
        run([&spec], &mut out).unwrap();
        let listed: Value = serde_json::from_slice(&out).unwrap();
        let expected = json!({"tools": [{
            "name": "send",
            "description": "Sends.",
            "parameters": {"type": "object"},
            "waiting_hint": "sending",
            "policy": {"may_clarify": false, "mutates": true, "destructive": false,
                       "sequential": false, "idempotent": false, "repeatable": false,
                       "open_world": false, "timeout_sec": 1.5},
            "source": {"kind": "rust"},
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
