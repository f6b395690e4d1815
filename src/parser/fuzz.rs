//! The bodies of the fuzz targets, and the helpers that they share with the unit tests. Not part of
//! a release build.
//!
//! An input begins with a few bytes that choose settings and cuts, so that a fuzzer explores those
//! too. Any input is valid.

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use super::{ErrorCode, Parser, Place, Repair, Segment, Settings, Span, Syntax, Tools};
use crate::call_format::{CallFormat, ROWS};

/// What came out of a parser, owned, with adjacent text merged.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Record {
    /// The segments other than spans, names and deltas.
    pub events: Vec<Event>,
    /// Where each byte went, with adjacent spans of text or of reasoning merged.
    pub spans: Vec<Span>,
    /// The name reported for each call.
    pub names: BTreeMap<u32, String>,
    /// The argument deltas reported for each call, merged.
    pub deltas: BTreeMap<u32, String>,
}

/// A segment, owned. Messages are left out: they are for people.
#[derive(Debug, Clone, PartialEq)]
#[expect(missing_docs, reason = "the fields are those of `Segment`")]
pub enum Event {
    Text(String),
    Reasoning(String),
    Started { index: u32, offset: u64 },
    Completed { index: u32, name: String, arguments: String, repaired: Vec<Repair> },
    Error { code: ErrorCode, offset: u64, index: Option<u32>, raw: String, at_line_start: bool },
}

impl Record {
    /// Adds a segment.
    ///
    /// # Panics
    ///
    /// If no parser may produce such a segment.
    pub fn take(&mut self, segment: Segment<'_>) {
        let event = match segment {
            Segment::Text(text) => {
                assert!(!text.is_empty(), "empty text");
                if let Some(Event::Text(before)) = self.events.last_mut() {
                    return before.push_str(text);
                }
                Event::Text(text.to_owned())
            }
            Segment::Reasoning(text) => {
                assert!(!text.is_empty(), "empty reasoning");
                if let Some(Event::Reasoning(before)) = self.events.last_mut() {
                    return before.push_str(text);
                }
                Event::Reasoning(text.to_owned())
            }
            Segment::CallStarted { index, offset } => Event::Started { index, offset },
            Segment::CallNamed { index, name } => {
                assert!(self.names.insert(index, name.to_owned()).is_none(), "named twice");
                return;
            }
            Segment::ArgumentsDelta { index, json } => {
                return self.deltas.entry(index).or_default().push_str(json);
            }
            Segment::CallCompleted(call) => {
                assert!(call.arguments.to_value().is_object());
                Event::Completed {
                    index: call.index,
                    name: call.name,
                    arguments: call.arguments.as_str().to_owned(),
                    repaired: call.repaired,
                }
            }
            Segment::Error(error) => {
                assert!(error.raw.len() <= crate::limits::parser::ERROR_RAW_BYTES_MAX);
                Event::Error {
                    code: error.code,
                    offset: error.offset,
                    index: error.index,
                    raw: error.raw,
                    at_line_start: error.at_line_start,
                }
            }
            Segment::Span(span) => return self.take_span(span),
        };
        self.events.push(event);
    }

    fn take_span(&mut self, span: Span) {
        let end = self.spans.last().map_or(0, |last| last.range.end);
        assert_eq!(span.range.start, end, "a gap or an overlap in front of {span:?}");
        match self.spans.last_mut() {
            Some(last) if last.place == span.place && is_prose(span.place) => {
                last.range.end = span.range.end;
            }
            _ => self.spans.push(span),
        }
    }
}

fn is_prose(place: Place) -> bool {
    matches!(place, Place::Text | Place::Reasoning)
}

/// How chunks are handed to the parser.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum How {
    /// As bytes.
    Bytes,
    /// As text if the chunk is UTF-8, as bytes if not.
    Text,
}

/// Parses an input in chunks of the given lengths, repeated as needed, and records the output.
///
/// # Panics
///
/// If the settings are rejected.
#[must_use]
pub fn record(settings: &Settings, input: &[u8], lengths: &[usize], how: How) -> Record {
    let mut parser = Parser::of(syntax_of(settings));
    let mut record = Record::default();
    let mut lengths = lengths.iter().copied().cycle();
    let mut rest = input;
    while !rest.is_empty() {
        let length = lengths.next().unwrap_or(rest.len()).clamp(1, rest.len());
        let (chunk, behind) = rest.split_at(length);
        match std::str::from_utf8(chunk) {
            Ok(text) if how == How::Text => parser.push_str(text, |s| record.take(s)),
            _ => parser.push(chunk, |s| record.take(s)),
        }
        rest = behind;
    }
    parser.finish(|s| record.take(s));
    record
}

/// The tables for these settings. Making them takes longer than most tests and nearly all executions of a fuzzer, and
/// most of those have the settings of one that came before.
fn syntax_of(settings: &Settings) -> Arc<Syntax> {
    /// Of a few kilobytes each.
    const KEPT_MAX: usize = 8192;
    thread_local!(static KEPT: RefCell<HashMap<String, Arc<Syntax>>> = RefCell::default());
    KEPT.with_borrow_mut(|kept| {
        if kept.len() == KEPT_MAX {
            kept.clear();
        }
        let make = || {
            let syntax = Syntax::new(settings.clone());
            Arc::new(syntax.expect("settings are checked by the caller"))
        };
        Arc::clone(kept.entry(format!("{settings:?}")).or_insert_with(make))
    })
}

/// Checks what must hold for every record that was made with `spans`.
///
/// # Panics
///
/// If it does not hold.
pub fn check_conservation(settings: &Settings, input: &[u8], record: &Record) {
    let end = record.spans.last().map_or(0, |last| last.range.end);
    assert_eq!(end, input.len() as u64, "the spans end before the input");
    for place in [Place::Text, Place::Reasoning] {
        let spans = record.spans.iter().filter(|span| span.place == place);
        let expected: String = spans.map(|span| lossy(input, span)).collect();
        let said: String = record
            .events
            .iter()
            .filter_map(|event| match (event, place) {
                (Event::Text(text), Place::Text) | (Event::Reasoning(text), Place::Reasoning) => {
                    Some(text.as_str())
                }
                _ => None,
            })
            .collect();
        assert_eq!(said, expected, "{place:?} is not what its spans hold");
    }
    check_calls(settings, record);
}

#[expect(clippy::cast_possible_truncation, reason = "positions in a slice")]
fn lossy(input: &[u8], span: &Span) -> String {
    let bytes = &input[span.range.start as usize..span.range.end as usize];
    String::from_utf8_lossy(bytes).into_owned()
}

/// Each call that starts ends once, in order, and its deltas agree with its end.
pub(super) fn check_calls(settings: &Settings, record: &Record) {
    let (mut started, mut ended) = (0, 0);
    for event in &record.events {
        match event {
            Event::Started { index, .. } => {
                assert_eq!((*index, started), (started, ended), "a call starts inside another");
                started += 1;
            }
            Event::Error { index: Some(index), .. } => {
                assert_eq!((*index, ended + 1), (ended, started), "an error of no call");
                ended += 1;
            }
            Event::Completed { index, name, arguments, .. } => {
                assert_eq!((*index, ended + 1), (ended, started), "a call that did not start");
                ended += 1;
                if settings.argument_deltas {
                    assert_eq!(record.names.get(index), Some(name));
                    assert_eq!(record.deltas.get(index), Some(arguments));
                }
            }
            _ => {}
        }
    }
    assert_eq!(started, ended, "a call did not end");
}

/// Target `parser_chunks`: chunking never matters, no byte is lost, nothing panics.
///
/// # Panics
///
/// If that does not hold.
pub fn parser_chunks(data: &[u8]) {
    let Some((settings, lengths, input)) = choose(data) else { return };
    let quiet = Settings { spans: false, ..settings.clone() };
    let whole = record(&settings, input, &[], How::Bytes);
    check_conservation(&settings, input, &whole);
    for (lengths, how) in
        [(&lengths[..], How::Bytes), (&lengths[..], How::Text), (&[1][..], How::Text)]
    {
        let mut cut = record(&settings, input, lengths, how);
        check_conservation(&settings, input, &cut);
        // How much is reported of a call that fails depends on the cuts.
        cut.names.clone_from(&whole.names);
        cut.deltas.clone_from(&whole.deltas);
        assert_eq!(cut, whole, "cut into {lengths:?}, {how:?}");
        // Without spans, plain chunks take a shortcut.
        let quick = record(&quiet, input, lengths, how);
        assert_eq!(quick.events, whole.events, "without spans, cut into {lengths:?}, {how:?}");
    }
}

/// Target `parser_repair`: repairs leave JSON alone, give JSON if they complete a call, and are the
/// same for every cut.
///
/// # Panics
///
/// If that does not hold.
pub fn parser_repair(data: &[u8]) {
    let lenient = Settings { spans: true, strict_balancing: false, ..Settings::default() };
    let input = [lenient.format.opener().as_bytes(), data].concat();
    let mended = record(&lenient, &input, &[], How::Bytes);
    check_conservation(&lenient, &input, &mended);
    assert_eq!(record(&lenient, &input, &[1], How::Text), mended, "cut into bytes");
    if let Ok(text) = std::str::from_utf8(data) {
        check_mend(text);
    }
}

/// Repairs are idempotent, leave JSON alone, and are listed if they change something.
fn check_mend(text: &str) {
    let mut repaired = Vec::new();
    let mended = super::repair::mend(text, &mut repaired);
    assert_eq!(repaired.is_empty(), mended == text, "{text:?} became {mended:?}: {repaired:?}");
    if serde_json::from_str::<&serde_json::value::RawValue>(text).is_ok() {
        assert_eq!(mended, text, "JSON was changed");
    }
    let again = super::repair::mend(&mended, &mut Vec::new());
    assert_eq!(again, mended, "mending twice");
}

/// Markers worth trying: the default; some that overlap themselves; some that lie inside a tag,
/// contain one or share its beginning; some that JSON may contain.
const MARKERS: &[&str] = &[
    "<<function_call>>",
    "<<<function_call>>",
    "aab",
    "abab",
    "<",
    "think",
    "hi",
    "ink><",
    "<think>x",
    "<th",
    "[TOOL_CALLS]",
    "{",
    "→",
    "\"q\"",
    "call:",
    " \n",
];

/// A taught format with one of the markers, or one of the others.
fn format(choice: usize) -> CallFormat {
    match MARKERS.get(choice) {
        Some(marker) => CallFormat::marker(marker),
        None => CallFormat::of(ROWS[choice - MARKERS.len() + 1]),
    }
}

/// Takes settings and chunk lengths from the start of the data.
fn choose(data: &[u8]) -> Option<(Settings, Vec<usize>, &[u8])> {
    let (&[flags, marker, limit, cuts], rest) = data.split_first_chunk()?;
    let (lengths, input) = rest.split_at_checked(usize::from(cuts % 8))?;
    let flag = |bit: u8| flags & 1 << bit != 0;
    let settings = Settings {
        format: format(usize::from(marker) % (MARKERS.len() + ROWS.len() - 1)),
        tools: Tools::default(),
        calls: !flag(5),
        strict_balancing: !flag(0),
        max_payload_bytes: if limit < 128 { usize::from(limit) + 1 } else { 1 << 16 },
        tools_in_reasoning: flag(1),
        reasoning: !flag(2),
        starts_in_reasoning: flag(3),
        argument_deltas: flag(4),
        spans: true,
    };
    Some((settings, lengths.iter().map(|&n| usize::from(n % 32) + 1).collect(), input))
}
