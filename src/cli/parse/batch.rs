//! `tether parse --batch`: many outputs of models, a line of JSON for each.

use std::io::{BufRead, ErrorKind, Write};
use std::num::NonZeroUsize;

use serde::Deserialize;
use serde_json::Value;

use super::{given_tools, run};
use crate::call_format::{CallFormat, ROWS, Row};
use crate::cli::CliError;
use crate::parser::{Parser, Settings};

/// A line of the input.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    /// The model's output.
    text: String,
    /// What the options say, unless these are given.
    format: Option<String>,
    tools: Option<Value>,
    in_reasoning: Option<bool>,
    chunk_size: Option<NonZeroUsize>,
}

/// Reads a case from each line of `input`, and writes the events of each as an array. `defaults` and
/// `chunk_size` hold for cases that say nothing else.
///
/// # Errors
/// If a line is no case, with its number; if reading or writing fails.
pub(in crate::cli) fn run_batch(
    input: impl BufRead,
    mut output: impl Write,
    defaults: &Settings,
    chunk_size: Option<NonZeroUsize>,
) -> Result<(), CliError> {
    for (number, line) in (1..).zip(input.lines()) {
        let wrong = |why: String| CliError::Usage(format!("line {number}: {why}"));
        let line = line.map_err(|error| match error.kind() {
            ErrorKind::InvalidData => wrong("not UTF-8".to_owned()),
            _ => error.into(),
        })?;
        if line.trim().is_empty() {
            continue;
        }
        let case: Case = serde_json::from_str(&line).map_err(|error| wrong(error.to_string()))?;
        let settings = settings(&case, defaults).map_err(wrong)?;
        let parser = Parser::new(settings).map_err(CliError::usage)?;
        let mut events = Vec::new();
        run(case.text.as_bytes(), &mut events, case.chunk_size.or(chunk_size), parser)?;
        let events = events.trim_ascii_end().split(|byte| *byte == b'\n').collect::<Vec<_>>();
        output.write_all(b"[")?;
        output.write_all(&events.join(&b','))?;
        output.write_all(b"]\n")?;
        // Its reader may wait for it before it writes the next.
        output.flush()?;
    }
    Ok(())
}

fn settings(case: &Case, defaults: &Settings) -> Result<Settings, String> {
    let mut settings = defaults.clone();
    if let Some(name) = &case.format {
        let row = Row::named(name).ok_or_else(|| {
            let known: Vec<&str> = ROWS.iter().map(|row| row.name).collect();
            format!("there is no format called {name:?}; known: {}", known.join(", "))
        })?;
        settings.format = CallFormat::of(row);
    }
    if let Some(tools) = &case.tools {
        settings.tools = given_tools(tools)?;
    }
    settings.starts_in_reasoning = case.in_reasoning.unwrap_or(settings.starts_in_reasoning);
    Ok(settings)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(input: &str) -> Result<String, String> {
        let mut output = Vec::new();
        let ran = run_batch(input.as_bytes(), &mut output, &Settings::default(), None);
        ran.map_err(|error| error.to_string())?;
        Ok(String::from_utf8(output).unwrap())
    }

    #[test]
    fn each_case_is_read_as_it_says() {
        let tools = r#"[{"name":"f","parameters":{"properties":{"n":{"type":"integer"}}}}]"#;
        let call = r"<tool_call>f<arg_key>n</arg_key><arg_value>7</arg_value></tool_call>";
        let input = format!(
            "{{\"text\":\"Hi.\"}}\n\n{{\"text\":\"{call}\",\"format\":\"glm47\",\"tools\":{tools},\"chunk_size\":1}}\n\
             {{\"text\":\"a</think>b\",\"in_reasoning\":true}}\n{{\"text\":\"\"}}\n"
        );
        let expected = [
            r#"[{"type":"text","text":"Hi."}]"#,
            r#"[{"type":"tool_started","index":0,"offset":0},{"type":"tool_completed","index":0,"name":"f","arguments":{"n":7}}]"#,
            r#"[{"type":"reasoning","text":"a"},{"type":"text","text":"b"}]"#,
            "[]",
        ];
        assert_eq!(lines(&input).unwrap(), expected.join("\n") + "\n");
    }

    #[test]
    fn a_line_that_is_no_case_is_named() {
        for (input, expected) in [
            ("{\"text\":\"a\"}\n{}", "line 2: missing field `text` at line 1 column 2"),
            (
                "{\"text\":\"a\",\"format\":\"x\"}",
                "line 1: there is no format called \"x\"; known:",
            ),
            ("{\"text\":\"a\",\"tools\":7}", "line 1: tools must be an array"),
        ] {
            let error = lines(input).unwrap_err();
            assert!(error.contains(expected), "{error}");
        }
    }
}
