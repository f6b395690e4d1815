//! `tether parse`: reads a model's raw output, prints the parser's events as JSON lines.
//!
//! Adjacent text is a single line, however long. The line is written piece by piece, so memory
//! stays bounded and someone who types the input sees each piece at once.

mod batch;
#[cfg(any(test, fuzzing))]
pub mod fuzz;

use std::io::{self, Read, Write};
use std::mem;
use std::num::NonZeroUsize;

use serde::Serialize;
use serde_json::Value;

use crate::limits::KIB;
use crate::parser::{Arguments, Parser, Repair, Segment, Tools};

pub(super) use batch::run_batch;

/// The number of bytes to read at a time without `--chunk-size`.
const CHUNK_BYTES: usize = 64 * KIB;

/// Reads `input` to its end in chunks of `chunk_size` bytes and writes the parser's events. The
/// lines are the same for every chunk size.
///
/// # Errors
///
/// If reading or writing fails.
pub(super) fn run(
    mut input: impl Read,
    output: impl Write,
    chunk_size: Option<NonZeroUsize>,
    mut parser: Parser,
) -> io::Result<()> {
    let mut lines = Lines { output, open: None, scratch: Vec::new(), written: Ok(()) };
    let mut chunk = Vec::new();
    while read_chunk(&mut input, chunk_size, &mut chunk)? {
        parser.push(&chunk, |segment| lines.take(segment));
        lines.flush()?;
    }
    parser.finish(|segment| lines.take(segment));
    lines.end()
}

/// Reads tools: an array of objects with a name and parameters, each bare or in `function`, as
/// `OpenAI` has it.
///
/// # Errors
/// What is wrong with it.
pub(super) fn given_tools(tools: &Value) -> Result<Tools, String> {
    let tools = tools.as_array().ok_or("tools must be an array")?;
    let tools = tools.iter().enumerate().map(|(at, tool)| {
        let tool = tool.get("function").unwrap_or(tool);
        let name = tool["name"].as_str().ok_or_else(|| format!("tools[{at}] has no name"))?;
        Ok((name, &tool["parameters"]))
    });
    Ok(Tools::of(tools.collect::<Result<Vec<_>, String>>()?))
}

/// Reads the next chunk; returns whether there was one.
fn read_chunk(
    input: &mut impl Read,
    chunk_size: Option<NonZeroUsize>,
    chunk: &mut Vec<u8>,
) -> io::Result<bool> {
    if let Some(size) = chunk_size {
        // A pipe may return fewer bytes, but the size is a promise. Memory is allocated as
        // bytes arrive, so a size larger than the input is no problem.
        chunk.clear();
        input.by_ref().take(size.get() as u64).read_to_end(chunk)?;
        return Ok(!chunk.is_empty());
    }
    chunk.resize(CHUNK_BYTES, 0);
    let read = loop {
        match input.read(chunk) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            result => break result?,
        }
    };
    chunk.truncate(read);
    Ok(read > 0)
}

/// Writes the lines of one stream.
struct Lines<W> {
    output: W,
    /// The kind of text whose line is still open.
    open: Option<&'static str>,
    scratch: Vec<u8>,
    /// The first failure; nothing is written after it.
    written: io::Result<()>,
}

/// A line that is written in one piece.
#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Line<'a> {
    ToolStarted {
        index: u32,
        offset: u64,
    },
    ToolCompleted {
        index: u32,
        name: &'a str,
        arguments: &'a Arguments,
        #[serde(skip_serializing_if = "<[_]>::is_empty")]
        repaired: &'a [Repair],
    },
    Error {
        code: &'a str,
        message: &'a str,
        raw: &'a str,
    },
}

impl<W: Write> Lines<W> {
    fn take(&mut self, segment: Segment<'_>) {
        if self.written.is_ok() {
            self.written = self.write(segment);
        }
    }

    /// Flushes the output, or returns the first failure.
    fn flush(&mut self) -> io::Result<()> {
        mem::replace(&mut self.written, Ok(()))?;
        self.output.flush()
    }

    fn end(mut self) -> io::Result<()> {
        mem::replace(&mut self.written, Ok(()))?;
        self.end_text()?;
        self.output.flush()
    }

    fn write(&mut self, segment: Segment<'_>) -> io::Result<()> {
        match segment {
            Segment::Text(text) => self.text("text", text),
            Segment::Reasoning(text) => self.text("reasoning", text),
            Segment::CallStarted { index, offset } => {
                self.line(&Line::ToolStarted { index, offset })
            }
            Segment::CallCompleted(call) => self.line(&Line::ToolCompleted {
                index: call.index,
                name: &call.name,
                arguments: &call.arguments,
                repaired: &call.repaired,
            }),
            Segment::Error(error) => self.line(&Line::Error {
                code: error.code.name(),
                message: &error.message,
                raw: &error.raw,
            }),
            // Chunks determine where these are cut, and the lines must not depend on chunks.
            Segment::CallNamed { .. } | Segment::ArgumentsDelta { .. } | Segment::Span(_) => Ok(()),
        }
    }

    fn line(&mut self, line: &Line<'_>) -> io::Result<()> {
        self.end_text()?;
        self.scratch.clear();
        serde_json::to_writer(&mut self.scratch, line)?;
        // Arguments keep their text, in which line breaks are white space: in strings they are escaped.
        for byte in &mut self.scratch {
            if matches!(byte, b'\n' | b'\r') {
                *byte = b' ';
            }
        }
        self.scratch.push(b'\n');
        self.output.write_all(&self.scratch)
    }

    /// Writes a piece of text, continuing the open line if it is of the same kind.
    fn text(&mut self, kind: &'static str, text: &str) -> io::Result<()> {
        if self.open != Some(kind) {
            self.end_text()?;
            write!(self.output, r#"{{"type":"{kind}","text":""#)?;
            self.open = Some(kind);
        }
        self.scratch.clear();
        serde_json::to_writer(&mut self.scratch, text)?;
        // Without the quotes, which the line already has.
        self.output.write_all(&self.scratch[1..self.scratch.len() - 1])
    }

    fn end_text(&mut self) -> io::Result<()> {
        match self.open.take() {
            Some(_) => self.output.write_all(b"\"}\n"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parser::Settings;

    fn lines(input: &[u8], chunk_size: usize, settings: Settings) -> String {
        let mut output = Vec::new();
        let parser = Parser::new(settings).unwrap();
        run(input, &mut output, NonZeroUsize::new(chunk_size), parser).unwrap();
        String::from_utf8(output).unwrap()
    }

    #[track_caller]
    fn check(settings: &Settings, input: &[u8], expected: &[&str]) {
        let expected: String = expected.join("\n") + if expected.is_empty() { "" } else { "\n" };
        for chunk_size in 0..=input.len() {
            assert_eq!(lines(input, chunk_size, settings.clone()), expected, "{chunk_size}");
        }
    }

    #[test]
    fn lines_are_the_same_for_every_chunk_size() {
        check(
            &Settings::default(),
            "<think>hm\u{2028}</think>I \"see\".\n<<function_call>> {\"name\":\"f\",\"arguments\":{\"b\" : 1.0}}\nBye 🦀<<function_call>>{]".as_bytes(),
            &[
                "{\"type\":\"reasoning\",\"text\":\"hm\u{2028}\"}",
                r#"{"type":"text","text":"I \"see\".\n"}"#,
                r#"{"type":"tool_started","index":0,"offset":29}"#,
                r#"{"type":"tool_completed","index":0,"name":"f","arguments":{"b" : 1.0}}"#,
                r#"{"type":"text","text":"Bye 🦀"}"#,
                r#"{"type":"tool_started","index":1,"offset":92}"#,
                r#"{"type":"error","code":"unbalanced_payload","message":"a closing bracket does not match the open one","raw":"{]"}"#,
            ],
        );
    }

    #[test]
    fn arguments_on_several_lines_are_one_line() {
        check(
            &Settings::default(),
            b"<<function_call>>{\"name\":\"f\",\"arguments\":{\r\n\"a\"\n:1}}",
            &[
                r#"{"type":"tool_started","index":0,"offset":0}"#,
                r#"{"type":"tool_completed","index":0,"name":"f","arguments":{  "a" :1}}"#,
            ],
        );
    }

    #[test]
    fn repairs_are_listed() {
        check(
            &Settings { strict_balancing: false, argument_deltas: true, ..Settings::default() },
            b"<<function_call>>{'name':'f',}",
            &[
                r#"{"type":"tool_started","index":0,"offset":0}"#,
                r#"{"type":"tool_completed","index":0,"name":"f","arguments":{},"repaired":["single_quotes","trailing_comma"]}"#,
            ],
        );
    }

    #[test]
    fn empty_input_gives_no_lines() {
        check(&Settings::default(), b"", &[]);
    }

    #[test]
    fn a_chunk_size_larger_than_the_input_works() {
        for chunk_size in [usize::MAX, usize::MAX / 2] {
            let said = lines(b"text", chunk_size, Settings::default());
            assert_eq!(said, "{\"type\":\"text\",\"text\":\"text\"}\n");
        }
    }

    /// The input never ends, so only the failure can stop the run.
    #[test]
    fn a_failing_output_ends_the_run() {
        struct Full;
        impl Write for Full {
            fn write(&mut self, _: &[u8]) -> io::Result<usize> {
                Err(io::ErrorKind::StorageFull.into())
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let parser = Parser::new(Settings::default()).unwrap();
        let error = run(io::repeat(b'a'), Full, None, parser).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::StorageFull);
    }
}
