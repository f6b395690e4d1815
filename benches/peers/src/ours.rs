//! Tether's own parser.

use std::hint::black_box;

use crate::call_format::{CallFormat, HERMES};
use crate::measure::Run;
use crate::output::Output;
use crate::parser::{Parser, Segment, Settings, Tools};
use crate::stream::{Stream, tool_schemas};

struct Tether {
    parser: Parser,
    has_deltas: bool,
}

pub(crate) fn marker_line(_: &Stream) -> Box<dyn Run> {
    tether(CallFormat::default(), false)
}

pub(crate) fn marker_line_deltas(_: &Stream) -> Box<dyn Run> {
    tether(CallFormat::default(), true)
}

pub(crate) fn hermes_deltas(_: &Stream) -> Box<dyn Run> {
    tether(CallFormat::of(&HERMES), true)
}

fn tether(format: CallFormat, argument_deltas: bool) -> Box<dyn Run> {
    let schemas = tool_schemas();
    let settings = Settings {
        format,
        tools: Tools::of(schemas.iter().map(|(name, schema)| (*name, schema))),
        argument_deltas,
        // The largest call exceeds the default limit on purpose.
        max_payload_bytes: 1 << 21,
        ..Settings::default()
    };
    let parser = Parser::new(settings).expect("a format of the table");
    Box::new(Tether { parser, has_deltas: argument_deltas })
}

impl Run for Tether {
    fn run(mut self: Box<Self>, chunks: &[&str], output: &mut Output) {
        for chunk in chunks {
            output.fed += 1;
            self.parser
                .push_str(black_box(chunk), |segment| take(segment, self.has_deltas, output));
        }
        self.parser.finish(|segment| take(segment, self.has_deltas, output));
    }
}

#[expect(
    clippy::inline_always,
    reason = "or every piece of text pays for a call that only this program makes"
)]
#[inline(always)]
fn take(segment: Segment<'_>, has_deltas: bool, output: &mut Output) {
    match segment {
        Segment::Text(text) => output.text(text),
        Segment::ArgumentsDelta { index, json } => output.call(index as usize, None, json),
        other => take_other(other, has_deltas, output),
    }
}

/// What is rare: apart, so that what comes with every token is compiled into the parser's loop.
#[inline(never)]
fn take_other(segment: Segment<'_>, has_deltas: bool, output: &mut Output) {
    match segment {
        Segment::CallNamed { index, name } => output.call(index as usize, Some(name), ""),
        Segment::CallCompleted(call) if !has_deltas => {
            output.call(call.index as usize, Some(&call.name), call.arguments.as_str());
        }
        Segment::Error(error) => output.error = Some(error.to_string()),
        _ => {}
    }
}
