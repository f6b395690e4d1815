//! A payload that looks like code: `[f(a='x', n=1)]`, or `{key:<|"|>text<|"|>,n:1}`.
//!
//! ```text
//!    [ write ( path = 'a.txt' , text = 'it\'s a lon
//!      '---'   '------------'   '----' '----------'
//!      name    whole argument   key    text so far
//! ```
//!
//! An argument is converted to JSON when its end has come. A text is converted as it arrives, except for the
//! escapes at its end: more bytes can change those.

use super::super::text::whole_characters;
use super::{Segment, Told, push_escaped};
use crate::parser::{examined, find, literal};

/// The position in a payload.
#[derive(Debug)]
pub(super) struct Tracker {
    /// What texts stand between, if not between quotes.
    delimiter: Option<&'static str>,
    /// `payload[..seen]` has been read.
    seen: usize,
    part: Part,
    /// What is reported next. It is kept to save an allocation for each chunk.
    json: String,
    /// How many arguments have been reported.
    arguments: usize,
}

/// What the next byte is part of. Positions are in the payload.
#[derive(Debug, Clone, Copy)]
enum Part {
    /// What comes before the arguments: a name, or nothing but the bracket.
    Before,
    /// The key of an argument that begins here.
    Key(usize),
    /// White space before a value. The argument begins here.
    BeforeValue(usize),
    /// A value in brackets or without, this deep. The argument begins here.
    Value { start: usize, depth: usize },
    /// A text within a key or a value.
    Quoted { within: Within, quote: Quote },
    /// A text that is a value.
    Text(Text),
    /// A text that was a value is over.
    AfterText,
    /// The call is over, or it is none.
    Over,
}

/// Where a text stands that is not reported by itself.
#[derive(Debug, Clone, Copy)]
enum Within {
    Key(usize),
    Value { start: usize, depth: usize },
}

/// A text, reported up to a position.
#[derive(Debug, Clone, Copy)]
struct Text {
    quote: Quote,
    told: usize,
    /// The last escapes in it.
    escapes: Option<Escapes>,
}

/// Escapes that follow each other closely, so that two may be the halves of one character.
#[derive(Debug, Clone, Copy)]
struct Escapes {
    /// Where the first one begins.
    first: usize,
    last: usize,
}

/// How much of a text has been skipped.
enum Skipped {
    /// Nothing: more bytes are needed.
    Wait,
    Text,
    /// Text, and two bytes of an escape.
    Escape,
    /// Text, and what ends it.
    End,
}

/// More bytes are needed to tell.
struct NeedsMore;

/// What ends a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Quote {
    Byte(u8),
    Delimiter(&'static str),
}

/// The longest escape: `\U0001F980`.
const ESCAPE_BYTES: usize = 10;

impl Tracker {
    pub(super) const fn python() -> Self {
        Self::new(None)
    }

    pub(super) const fn loose(delimiter: &'static str) -> Self {
        Self::new(Some(delimiter))
    }

    const fn new(delimiter: Option<&'static str>) -> Self {
        Self { delimiter, seen: 0, part: Part::Before, json: String::new(), arguments: 0 }
    }

    /// Reads the new bytes of a payload, and reports what is certain.
    pub(super) fn advance(
        &mut self,
        payload: &[u8],
        told: &mut Told,
        sink: &mut impl FnMut(Segment<'_>),
    ) {
        while self.seen < payload.len() && self.step(payload, told, sink) {}
        if let Part::Text(text) = self.part {
            let told = text.push_settled(payload, self.seen, &mut self.json);
            self.part = Part::Text(Text { told, ..text });
        }
        told.arguments(&self.json, sink);
        self.json.clear();
    }

    /// Reads on, at least a byte. False if it needs more of them.
    fn step(
        &mut self,
        payload: &[u8],
        told: &mut Told,
        sink: &mut impl FnMut(Segment<'_>),
    ) -> bool {
        let at = self.seen;
        examined::note(1);
        match self.part {
            Part::Before => {
                self.before(payload, told, sink);
                self.seen += 1;
            }
            Part::Quoted { within, quote } => match self.skip_text(payload, quote) {
                Skipped::Wait => return false,
                Skipped::End => self.part = within.into(),
                Skipped::Text | Skipped::Escape => {}
            },
            Part::Text(text) => match self.skip_text(payload, text.quote) {
                Skipped::Wait => return false,
                Skipped::End => {
                    let end = self.seen - text.quote.length();
                    text.push_new(payload, end, &mut self.json);
                    self.json.push('"');
                    self.part = Part::AfterText;
                }
                Skipped::Escape => self.part = Part::Text(text.with_escape(self.seen - 2)),
                Skipped::Text => {}
            },
            Part::Over => self.seen = payload.len(),
            Part::Key(_) | Part::BeforeValue(_) | Part::Value { .. } | Part::AfterText => {
                match self.quote_at(&payload[at..]) {
                    Err(NeedsMore) => return false,
                    Ok(Some(quote)) => {
                        self.seen += quote.length();
                        self.open_text(quote, payload, at);
                    }
                    Ok(None) => {
                        self.part = self.after(payload[at], self.part, payload);
                        self.seen += 1;
                    }
                }
            }
        }
        true
    }

    /// Reads a byte before the arguments.
    fn before(&mut self, payload: &[u8], told: &mut Told, sink: &mut impl FnMut(Segment<'_>)) {
        let (at, is_python) = (self.seen, self.delimiter.is_none());
        match payload[at] {
            b'(' if is_python => {
                let name = whole_characters(&payload[..at]).trim();
                let name = name.strip_prefix('[').unwrap_or(name).trim();
                if literal::is_word(name) {
                    told.name(name, sink);
                    self.begin_arguments();
                } else {
                    self.part = Part::Over;
                }
            }
            b'{' if !is_python => self.begin_arguments(),
            // JSON, or nothing that is known.
            b'{' | b'"' | b'\'' | b',' | b']' => self.part = Part::Over,
            _ => {}
        }
    }

    fn begin_arguments(&mut self) {
        self.json.push('{');
        self.part = Part::Key(self.seen + 1);
    }

    /// What a byte leads to that begins no text.
    fn after(&mut self, byte: u8, part: Part, payload: &[u8]) -> Part {
        let at = self.seen;
        let is_end = byte == b',' || self.is_close(byte);
        match part {
            Part::Key(start) if byte == self.sign() => Part::BeforeValue(start),
            // Nothing is an argument only at the end, after a comma.
            Part::Key(_) if byte == b',' => Part::Over,
            Part::Key(start) if is_end => {
                self.end_argument(byte, payload[start..at].trim_ascii().is_empty())
            }
            Part::BeforeValue(_) if byte.is_ascii_whitespace() => part,
            Part::BeforeValue(start) => self.after(byte, Part::Value { start, depth: 0 }, payload),
            Part::Value { start, depth: 0 } if is_end => {
                let is_whole = self.push_argument(&payload[start..at]);
                self.end_argument(byte, is_whole)
            }
            Part::Value { start, depth } if self.is_open(byte) => {
                Part::Value { start, depth: depth + 1 }
            }
            Part::Value { start, depth } if self.is_close(byte) => {
                Part::Value { start, depth: depth - 1 }
            }
            Part::AfterText if is_end => self.end_argument(byte, true),
            part => part,
        }
    }

    /// What stands between a key and its value.
    const fn sign(&self) -> u8 {
        if self.delimiter.is_some() { b':' } else { b'=' }
    }

    /// Whether a byte opens a bracket. Only Python has round ones.
    const fn is_open(&self, byte: u8) -> bool {
        matches!(byte, b'[' | b'{') || byte == b'(' && self.delimiter.is_none()
    }

    const fn is_close(&self, byte: u8) -> bool {
        matches!(byte, b']' | b'}') || byte == b')' && self.delimiter.is_none()
    }

    /// What follows an argument that this byte ends.
    fn end_argument(&mut self, byte: u8, is_whole: bool) -> Part {
        match byte {
            _ if !is_whole => Part::Over,
            b',' => Part::Key(self.seen + 1),
            _ => {
                self.json.push('}');
                Part::Over
            }
        }
    }

    /// Adds an argument as JSON. False if it is none.
    fn push_argument(&mut self, argument: &[u8]) -> bool {
        examined::note(2 * argument.len());
        let argument = std::str::from_utf8(argument).ok();
        let member = argument.and_then(|it| literal::member(it, self.delimiter));
        if let Some(member) = &member {
            self.push_comma();
            self.json.push_str(member);
        }
        member.is_some()
    }

    fn push_comma(&mut self) {
        self.json.push_str(if self.arguments > 0 { "," } else { "" });
        self.arguments += 1;
    }

    /// Enters a text that opens at `at`.
    fn open_text(&mut self, quote: Quote, payload: &[u8], at: usize) {
        self.part = match self.part {
            Part::Key(start) => Part::Quoted { within: Within::Key(start), quote },
            Part::Value { start, depth } => {
                Part::Quoted { within: Within::Value { start, depth }, quote }
            }
            Part::BeforeValue(start) => {
                let key = std::str::from_utf8(&payload[start..at]).ok();
                match key.and_then(|key| literal::key(key, self.delimiter)) {
                    None => Part::Over,
                    Some(key) => {
                        self.push_comma();
                        self.json.push_str(&serde_json::Value::from(key).to_string());
                        self.json.push_str(":\"");
                        Part::Text(Text { quote, told: self.seen, escapes: None })
                    }
                }
            }
            _ => Part::Over,
        };
    }

    /// What opens a text here, if anything does. An error if more bytes are needed.
    fn quote_at(&self, rest: &[u8]) -> Result<Option<Quote>, NeedsMore> {
        let Some(delimiter) = self.delimiter else {
            return Ok(matches!(rest[0], b'"' | b'\'').then(|| Quote::Byte(rest[0])));
        };
        if rest.starts_with(delimiter.as_bytes()) {
            return Ok(Some(Quote::Delimiter(delimiter)));
        }
        if delimiter.as_bytes().starts_with(rest) {
            return Err(NeedsMore);
        }
        Ok((rest[0] == b'"').then_some(Quote::Byte(b'"')))
    }

    /// Skips to the end of this text, or past an escape in it, or over all there is.
    fn skip_text(&mut self, payload: &[u8], quote: Quote) -> Skipped {
        let rest = &payload[self.seen..];
        let found = match quote {
            Quote::Byte(quote) => find::either(quote, b'\\', rest),
            Quote::Delimiter(delimiter) => find::byte(delimiter.as_bytes()[0], rest),
        };
        examined::note(found.unwrap_or(rest.len()));
        let Some(found) = found else {
            self.seen = payload.len();
            return Skipped::Text;
        };
        let rest = &rest[found..];
        let (length, skipped) = match quote {
            Quote::Byte(quote) if rest[0] == quote => (1, Skipped::End),
            // What follows a backslash is part of the text, whatever it is.
            Quote::Byte(_) if rest.len() == 1 => (0, Skipped::Wait),
            Quote::Byte(_) => (2, Skipped::Escape),
            Quote::Delimiter(delimiter) if rest.starts_with(delimiter.as_bytes()) => {
                (delimiter.len(), Skipped::End)
            }
            Quote::Delimiter(delimiter) if delimiter.as_bytes().starts_with(rest) => {
                (0, Skipped::Wait)
            }
            Quote::Delimiter(_) => (1, Skipped::Text),
        };
        self.seen += found + length;
        skipped
    }
}

impl Text {
    /// The same text, in which an escape begins here.
    fn with_escape(self, at: usize) -> Self {
        let run = self.escapes.filter(|escapes| at < escapes.last + ESCAPE_BYTES);
        let first = run.map_or(at, |escapes| escapes.first);
        Self { escapes: Some(Escapes { first, last: at }), ..self }
    }

    /// Adds what can no longer change of the text up to here, and returns where that ends.
    fn push_settled(&self, payload: &[u8], end: usize, json: &mut String) -> usize {
        let escapes = self.escapes.filter(|escapes| end < escapes.last + ESCAPE_BYTES);
        self.push_new(payload, escapes.map_or(end, |escapes| escapes.first), json)
    }

    /// Adds the text up to here that has not been reported, and returns where that ends.
    fn push_new(&self, payload: &[u8], end: usize, json: &mut String) -> usize {
        let text = whole_characters(&payload[self.told..end]);
        examined::note(2 * text.len());
        match self.quote {
            Quote::Byte(_) => push_escaped(json, &literal::unescaped(text)),
            Quote::Delimiter(_) => push_escaped(json, text),
        }
        self.told + text.len()
    }
}

impl Quote {
    const fn length(self) -> usize {
        match self {
            Self::Byte(_) => 1,
            Self::Delimiter(delimiter) => delimiter.len(),
        }
    }
}

impl From<Within> for Part {
    fn from(within: Within) -> Self {
        match within {
            Within::Key(start) => Self::Key(start),
            Within::Value { start, depth } => Self::Value { start, depth },
        }
    }
}
