//! What a program printed, and how it ended, as a result.

use std::process::ExitStatus;

use serde_json::{Value, json};

use super::Output;
use crate::limits::command::{LAST_BYTES_MAX, LAST_LINES_MAX, OUTPUT_BYTES_MAX};
use crate::text;
use crate::tools::process::{Stderr, describe, last_lines};
use crate::tools::{ToolResult, half_characters};

/// A program's standard output, as much of it as was kept.
#[derive(Debug, Default)]
pub(super) struct Stdout {
    pub(super) bytes: Vec<u8>,
    /// Whether there was more.
    pub(super) is_cut: bool,
}

impl Stdout {
    /// Adds bytes, up to [`OUTPUT_BYTES_MAX`].
    pub(super) fn push(&mut self, bytes: &[u8]) {
        let room = OUTPUT_BYTES_MAX - self.bytes.len();
        self.is_cut |= bytes.len() > room;
        self.bytes.extend_from_slice(&bytes[..bytes.len().min(room)]);
    }
}

/// The result of a program that has ended.
pub(super) fn result(
    status: ExitStatus,
    ok_exit_codes: &[i32],
    stdout: &Stdout,
    stderr: &Stderr,
    output: Output,
) -> ToolResult {
    if !status.code().is_some_and(|code| ok_exit_codes.contains(&code)) {
        return failure(status, stdout, stderr);
    }
    let text = String::from_utf8_lossy(&stdout.bytes);
    let parsed = || half_characters::read::<Value>(&text);
    match output {
        Output::Text => text_result(&text, stdout.is_cut),
        Output::Auto if stdout.is_cut => text_result(&text, true),
        Output::Auto => match parsed() {
            Ok(object @ Value::Object(_)) => ToolResult::from_value(object),
            _ => text_result(&text, false),
        },
        Output::Json if stdout.is_cut => {
            ToolResult::unread(format!("the program printed more than {OUTPUT_BYTES_MAX} bytes"))
                .with_instruction("Ask for less.")
        }
        Output::Json => match parsed() {
            Ok(array @ Value::Array(_)) => ToolResult::data(json!({ "items": array })),
            Ok(object @ Value::Object(_)) => ToolResult::from_value(object),
            Ok(other) => ToolResult::data(json!({ "value": other })),
            Err(error) => ToolResult::unread(format!("the program printed invalid JSON: {error}")),
        },
    }
}

fn text_result(text: &str, is_cut: bool) -> ToolResult {
    let result = ToolResult::data(json!({ "text": text.trim_end() }));
    if is_cut {
        return result.with_instruction(format!(
            "The output was cut after {OUTPUT_BYTES_MAX} bytes. Ask for the rest in parts."
        ));
    }
    result
}

/// How a program failed: its exit status or signal, and the last lines that it wrote.
fn failure(status: ExitStatus, stdout: &Stdout, stderr: &Stderr) -> ToolResult {
    let how = describe(status);
    let mut said = stderr.last_lines(LAST_LINES_MAX);
    if said.is_empty() {
        said = last_lines(&String::from_utf8_lossy(&stdout.bytes), LAST_LINES_MAX);
    }
    let said = text::cut_start(&said, LAST_BYTES_MAX);
    let separator = if said.is_empty() { "" } else { ": " };
    ToolResult::error(format!("{how}{separator}{said}"))
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt as _;

    use super::*;

    fn ended(code: i32) -> ExitStatus {
        ExitStatus::from_raw(code << 8)
    }

    #[track_caller]
    fn check(printed: &str, output: Output, expected: &ToolResult) {
        let mut stdout = Stdout::default();
        stdout.push(printed.as_bytes());
        assert_eq!(&result(ended(0), &[0], &stdout, &Stderr::default(), output), expected);
    }

    fn text(text: &str) -> ToolResult {
        ToolResult::data(json!({ "text": text }))
    }

    #[test]
    fn an_object_is_data_and_anything_else_is_text() {
        let object = "{\"n\": 1}\n";
        check(object, Output::Auto, &ToolResult::data(json!({ "n": 1 })));
        check(object, Output::Text, &text("{\"n\": 1}"));
        check("[1, 2]", Output::Auto, &text("[1, 2]"));
        check("17\n", Output::Auto, &text("17"));
        check("  two\nlines\n\n", Output::Auto, &text("  two\nlines"));
        check("", Output::Auto, &text(""));
    }

    #[test]
    fn json_may_be_asked_for() {
        check(
            r#"["cut \ud83d"]"#,
            Output::Json,
            &ToolResult::data(json!({ "items": ["cut \u{fffd}"] })),
        );
        check("[1]", Output::Json, &ToolResult::data(json!({ "items": [1] })));
        check("17", Output::Json, &ToolResult::data(json!({ "value": 17 })));
        let mut stdout = Stdout::default();
        stdout.push(b"oops");
        let found = result(ended(0), &[0], &stdout, &Stderr::default(), Output::Json);
        assert!(found.error.unwrap().starts_with("the program printed invalid JSON"));
    }

    /// Programs have fields of these names.
    #[test]
    fn an_object_in_another_shape_is_data() {
        for object in [
            json!({ "success": true, "deleted": 3 }),
            json!({ "success": false, "next_action": "retry" }),
            json!({ "success": "yes", "next_action": "continue" }),
        ] {
            for output in [Output::Auto, Output::Json] {
                check(&object.to_string(), output, &ToolResult::data(object.clone()));
            }
        }
    }

    #[test]
    fn a_program_may_answer_in_the_standard_shape() {
        check(
            r#"{"success": false, "next_action": "error", "error": "no such file"}"#,
            Output::Auto,
            &ToolResult::error("no such file"),
        );
    }

    #[test]
    fn other_exit_statuses_and_signals_are_errors_in_words() {
        let mut stdout = Stdout::default();
        stdout.push(b"a\nb\n");
        let told = |status, ok: &[i32]| {
            result(status, ok, &stdout, &Stderr::default(), Output::Auto).error
        };
        assert_eq!(told(ended(1), &[0, 1]), None);
        assert_eq!(told(ended(7), &[0, 1]).as_deref(), Some("exit status 7: a\nb"));
        let killed = told(ExitStatus::from_raw(9), &[0]).unwrap();
        assert!(killed.starts_with("ended by SIGKILL"), "{killed}");
        assert!(told(ExitStatus::from_raw(34), &[0]).unwrap().starts_with("ended by signal 34"));
    }

    #[test]
    fn of_a_long_line_before_a_failure_the_end_is_told() {
        for (bytes, is_cut) in [(LAST_BYTES_MAX, false), (LAST_BYTES_MAX + 1, true)] {
            let mut stdout = Stdout::default();
            stdout.push(&vec![b'x'; bytes]);
            let found = result(ended(1), &[0], &stdout, &Stderr::default(), Output::Auto);
            let error = found.error.unwrap();
            assert_eq!(error.starts_with("exit status 1: …"), is_cut, "{bytes}");
            assert!(error.len() <= "exit status 1: …".len() + LAST_BYTES_MAX);
        }
    }

    #[test]
    fn output_is_cut_at_its_limit() {
        for (bytes, is_cut) in [(OUTPUT_BYTES_MAX, false), (OUTPUT_BYTES_MAX + 1, true)] {
            let mut stdout = Stdout::default();
            stdout.push(&vec![b'x'; bytes]);
            assert_eq!((stdout.bytes.len(), stdout.is_cut), (OUTPUT_BYTES_MAX, is_cut));
            let found = result(ended(0), &[0], &stdout, &Stderr::default(), Output::Auto);
            assert_eq!(found.instruction_for_ai.is_some(), is_cut);
            let found = result(ended(0), &[0], &stdout, &Stderr::default(), Output::Json);
            assert_eq!(found.error.unwrap().contains("more than"), is_cut);
        }
    }
}
