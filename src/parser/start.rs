//! The start of an answer, in formats whose calls have no opener: what is written there may be a call,
//! or an answer that looks like one.
//!
//! ```text
//!   {"name": "now", "parameters": {}}         [now(zone='UTC')]         ```json  [{"name": "now" ...
//!   '- held -----' an offered tool: a call    '-held'                   '- held ---------------'
//! ```
//!
//! It is a call if it names an offered tool where a call would. Anything else is text, and once there is
//! text, such calls are no longer looked for. The bytes so far are in the stream's buffer, and few enough
//! to judge again with each chunk.

use std::ops::Range;

use super::examined;
use super::segment::Segment;
use super::stream::Stream;
use super::transition::{Flow, Next, Opened};
use super::types::Tools;
use crate::call_format::{Bare, Body, JsonKeys, Row};
use crate::limits::parser::{GAP_BYTES_MAX, LABEL_BYTES_MAX, START_BYTES_MAX};

/// What the bytes so far are.
#[derive(Debug, PartialEq, Eq)]
enum Verdict {
    /// More of them are needed.
    Open,
    Text,
    /// A call. White space comes before it, and then what opens its payload.
    Call {
        space: usize,
        payload: usize,
        fence: bool,
    },
}

pub(super) fn read(
    stream: &mut Stream,
    bytes: &[u8],
    at: usize,
    sink: &mut impl FnMut(Segment<'_>),
) -> Flow {
    let taken = (bytes.len() - at).min(START_BYTES_MAX - stream.buffer.len());
    stream.keep(&bytes[at..at + taken], START_BYTES_MAX);
    let verdict = judge(stream);
    match verdict {
        Verdict::Open if stream.buffer.len() < START_BYTES_MAX => Flow::Stay,
        verdict => leave(&verdict, at + taken, stream, sink),
    }
}

pub(super) fn finish(stream: &mut Stream, sink: &mut impl FnMut(Segment<'_>)) -> Flow {
    leave(&Verdict::Text, 0, stream, sink)
}

/// Reads what is held again, as a call or as text. It ends before `at`.
fn leave(
    verdict: &Verdict,
    at: usize,
    stream: &mut Stream,
    sink: &mut impl FnMut(Segment<'_>),
) -> Flow {
    let held = std::mem::take(&mut stream.buffer);
    let Verdict::Call { space, payload, fence } = *verdict else {
        return Flow::again(Next::prose(), held, at);
    };
    let start = stream.position(at) - held.len() as u64;
    // What separates two calls is not for the user.
    let space = if stream.calls > 0 { 0 } else { space };
    stream.say_before(&held[..space], start, sink);
    stream.begin_head(&held[space..payload]);
    let at_line_start = stream.last == b'\n';
    let opened = Opened { at_line_start, ..Opened::at(start + space as u64) };
    let next = Next::Payload { opened, fence, repaired: Vec::new() };
    Flow::again(next, held[payload..].to_vec(), at)
}

/// What an answer is that begins with the stream's buffer, or goes on with it after a call.
fn judge(stream: &Stream) -> Verdict {
    let (bytes, row) = (&*stream.buffer, stream.row());
    let Some(bare) = &row.bare else { return Verdict::Text };
    examined::note(bytes.len());
    let mut reader =
        Reader { bytes, at: 0, separators: if stream.calls > 0 { b",;" } else { b"" } };
    reader.read_start(bare, row, &stream.settings().tools).unwrap_or_else(|verdict| verdict)
}

/// Whether the object that begins these bytes, or the array whose first element it is, names an offered tool
/// as a call would. `None` if more bytes are needed.
pub(super) fn names_tool(bytes: &[u8], keys: &JsonKeys, tools: &Tools) -> Option<bool> {
    examined::note(bytes.len());
    let mut reader = Reader { bytes, at: 0, separators: b"" };
    match reader.read_name(keys, tools) {
        Ok(is_offered) => Some(is_offered),
        Err(Verdict::Open) => None,
        Err(Verdict::Text | Verdict::Call { .. }) => Some(false),
    }
}

struct Reader<'b> {
    bytes: &'b [u8],
    at: usize,
    /// What may come before a call, besides white space.
    separators: &'static [u8],
}

/// What was read, or why it cannot be.
type Read<T> = Result<T, Verdict>;

impl Reader<'_> {
    fn read_start(&mut self, bare: &Bare, row: &Row, tools: &Tools) -> Read<Verdict> {
        self.skip_space()?;
        while self.separators.contains(&self.peek()?) {
            self.at += 1;
            self.skip_space()?;
        }
        let space = self.at;
        self.expect_word(bare.word)?;
        let fence = row.fence.is_read() && self.fence()?;
        self.skip_space()?;
        let payload = self.at;
        self.expect(bare.bracket)?;
        self.skip_space()?;
        let name = if let Body::Json(keys) = &row.body {
            if bare.bracket == b'[' {
                self.expect(b'{')?;
                self.skip_space()?;
            }
            let name = self.name_in_json(keys)?;
            self.expect_arguments(keys)?;
            name
        } else {
            let name = self.name_before_bracket()?;
            self.expect_keyword()?;
            name
        };
        let name = std::str::from_utf8(&self.bytes[name]).unwrap_or_default();
        let is_offered = !name.is_empty() && tools.may_have(name);
        Ok(if is_offered { Verdict::Call { space, payload, fence } } else { Verdict::Text })
    }

    fn read_name(&mut self, keys: &JsonKeys, tools: &Tools) -> Read<bool> {
        if self.peek()? == b'[' {
            self.at += 1;
            self.skip_space()?;
        }
        self.expect(b'{')?;
        self.skip_space()?;
        let name = self.name_in_json(keys)?;
        let name = std::str::from_utf8(&self.bytes[name]).unwrap_or_default();
        Ok(!name.is_empty() && tools.may_have(name))
    }

    /// The end of the object, or a key that calls have: other objects have names, too.
    fn expect_arguments(&mut self, keys: &JsonKeys) -> Read<()> {
        self.skip_space()?;
        if self.peek()? == b'}' {
            return Ok(());
        }
        self.expect(b',')?;
        self.skip_space()?;
        let key = self.string()?;
        let key = &self.bytes[key];
        let is_known = keys.arguments.iter().any(|known| known.as_bytes() == key);
        if is_known || key == b"id" || key == b"type" { Ok(()) } else { Err(Verdict::Text) }
    }

    /// The end of the arguments, or a keyword: links look like calls, too.
    fn expect_keyword(&mut self) -> Read<()> {
        self.expect(b'(')?;
        self.skip_space()?;
        if self.peek()? == b')' {
            return Ok(());
        }
        self.name()?;
        self.skip_space()?;
        self.expect(b'=')
    }

    fn peek(&self) -> Read<u8> {
        self.bytes.get(self.at).copied().ok_or(Verdict::Open)
    }

    fn skip_space(&mut self) -> Read<()> {
        let start = self.at;
        while self.peek()?.is_ascii_whitespace() {
            self.at += 1;
            if self.at - start > GAP_BYTES_MAX {
                return Err(Verdict::Text);
            }
        }
        Ok(())
    }

    fn expect(&mut self, byte: u8) -> Read<()> {
        if self.peek()? != byte {
            return Err(Verdict::Text);
        }
        self.at += 1;
        Ok(())
    }

    /// Takes this word.
    fn expect_word(&mut self, word: &str) -> Read<()> {
        for byte in word.bytes() {
            self.expect(byte)?;
        }
        Ok(())
    }

    /// Takes a code fence with the name of a language, if one comes.
    fn fence(&mut self) -> Read<bool> {
        if self.peek()? != b'`' {
            return Ok(false);
        }
        self.expect_word("```")?;
        while self.peek()?.is_ascii_alphanumeric() {
            self.at += 1;
        }
        Ok(true)
    }

    /// The name in an object, where it comes first, or second after a type.
    fn name_in_json(&mut self, keys: &JsonKeys) -> Read<Range<usize>> {
        for _ in 0..2 {
            let key = self.string()?;
            let key = &self.bytes[key];
            let is_name = keys.name.iter().any(|name| name.as_bytes() == key);
            let is_type = key == b"type";
            self.skip_space()?;
            self.expect(b':')?;
            self.skip_space()?;
            if is_name {
                return self.string();
            }
            if !is_type {
                break;
            }
            self.string()?;
            self.skip_space()?;
            self.expect(b',')?;
            self.skip_space()?;
        }
        Err(Verdict::Text)
    }

    /// A short string without escapes.
    fn string(&mut self) -> Read<Range<usize>> {
        self.expect(b'"')?;
        let start = self.at;
        loop {
            match self.peek()? {
                b'"' => break,
                b'\\' | b'\n' => return Err(Verdict::Text),
                _ if self.at - start >= LABEL_BYTES_MAX => return Err(Verdict::Text),
                _ => self.at += 1,
            }
        }
        self.at += 1;
        Ok(start..self.at - 1)
    }

    /// The name before a round bracket.
    fn name_before_bracket(&mut self) -> Read<Range<usize>> {
        let name = self.name()?;
        if self.peek()? == b'(' { Ok(name) } else { Err(Verdict::Text) }
    }

    /// A name, which may be dotted.
    fn name(&mut self) -> Read<Range<usize>> {
        let start = self.at;
        let is_part = |byte: u8| byte.is_ascii_alphanumeric() || b"_.-".contains(&byte);
        while is_part(self.peek()?) {
            if self.at - start >= LABEL_BYTES_MAX {
                return Err(Verdict::Text);
            }
            self.at += 1;
        }
        Ok(start..self.at)
    }
}
