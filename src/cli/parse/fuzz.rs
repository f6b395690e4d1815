//! The body of the fuzz target `parse_batch`; an ordinary test replays its corpus.

use std::num::NonZeroUsize;

use serde_json::{Value, json};

use super::{run, run_batch};
use crate::call_format::{CallFormat, ROWS};
use crate::parser::{Parser, Settings};

/// What separates the outputs in the input.
const END: u8 = 0;

/// Target `parse_batch`: each of many outputs gives the same events as it does alone, however it is chunked, and
/// the error for a malformed line has the line's number.
///
/// ```text
///   data:  | kind | format | chunk size | text | 0 | kind | ...
///            '- `!`: the text is a line of input as it is; otherwise, it is a model's output
/// ```
///
/// # Panics
/// If that does not hold.
pub fn parse_batch(data: &[u8]) {
    let (mut lines, mut expected, mut is_whole) = (Vec::new(), Vec::new(), true);
    for case in data.split(|byte| *byte == END) {
        let Some((&[kind, format, chunk], text)) = case.split_first_chunk() else { continue };
        if kind == b'!' {
            // It may be no line at all, or several.
            is_whole = false;
            lines.extend_from_slice(&text.iter().map(|byte| byte & 0x7f).collect::<Vec<_>>());
            lines.push(b'\n');
            continue;
        }
        let text = String::from_utf8_lossy(text);
        let row = ROWS[usize::from(format) % ROWS.len()];
        let size = NonZeroUsize::new(usize::from(chunk % 16));
        let line = json!({
            "text": text,
            "format": row.name,
            "in_reasoning": kind & 1 == 1,
            "chunk_size": size,
        });
        lines.extend_from_slice(line.to_string().as_bytes());
        lines.push(b'\n');
        let settings = Settings {
            format: CallFormat::of(row),
            starts_in_reasoning: kind & 1 == 1,
            ..Settings::default()
        };
        let mut alone = Vec::new();
        let parser = Parser::new(settings).expect("a format of ours");
        run(text.as_bytes(), &mut alone, None, parser).expect("memory takes it");
        expected.push(alone);
    }
    let mut output = Vec::new();
    match run_batch(&lines[..], &mut output, &Settings::default(), None) {
        Ok(()) if is_whole => check_output(&output, &expected),
        Ok(()) => {}
        Err(error) => {
            assert!(!is_whole, "{error}");
            let error = error.to_string();
            let number = error.strip_prefix("line ").and_then(|rest| rest.split_once(':'));
            let number: usize = number.and_then(|it| it.0.parse().ok()).expect("a line");
            assert!((1..=lines.split(|byte| *byte == b'\n').count()).contains(&number), "{error}");
        }
    }
}

/// Each line of the output is the list of the events that `tether parse` prints for the same case alone.
fn check_output(output: &[u8], expected: &[Vec<u8>]) {
    let lines: Vec<&[u8]> = output.split_inclusive(|byte| *byte == b'\n').collect();
    assert_eq!(lines.len(), expected.len(), "a line for each");
    for (line, expected) in lines.into_iter().zip(expected) {
        let events: Vec<Value> = serde_json::from_slice(line).expect("a list");
        let alone: Vec<Value> = expected
            .split(|byte| *byte == b'\n')
            .filter(|line| !line.is_empty())
            .map(|line| serde_json::from_slice(line).expect("an event"))
            .collect();
        assert_eq!(events, alone);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn corpus_of_parse_batch() {
        crate::corpus::replay("parse_batch", parse_batch);
    }
}
