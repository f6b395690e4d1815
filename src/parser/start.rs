//! The start of an answer, in formats whose calls have no opener: what is written there may be a call,
//! or an answer that looks like one.
//!
//! ```text
//!   {"name": "now", "parameters": {}}         [now(zone='UTC')]         ```json  [{"name": "now" ...
//!   '- held -----' an offered tool: a call    '-held'                   '- held ---------------'
//! ```
//!
//! It is a call if an offered tool's name stands where a call has it. Anything else is text, and so is
//! whatever comes after text: in the middle of an answer, such a call is only shown. What has been read is in
//! the stream's buffer. It is short, and judged anew with each chunk.

use super::examined;
use super::segment::Segment;
use super::stream::Stream;
use super::transition::{Flow, Next, Opened};
use super::types::Tools;
use crate::call_format::{Bare, Body, Fence, JsonKeys, Row};
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
    let verdict = judge(&stream.buffer, stream.row(), &stream.settings().tools);
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
    stream.say_before(&held[..space], start, sink);
    stream.begin_head(&held[space..payload]);
    let at_line_start = stream.last == b'\n';
    let opened = Opened { at_line_start, ..Opened::inside(start + space as u64) };
    let next = Next::Payload { opened, fence, repaired: Vec::new() };
    Flow::again(next, held[payload..].to_vec(), at)
}

/// What an answer is that begins with these bytes.
fn judge(bytes: &[u8], row: &Row, tools: &Tools) -> Verdict {
    let Some(bare) = &row.bare else { return Verdict::Text };
    let mut reader = Reader { bytes, at: 0 };
    examined::note(bytes.len());
    reader.read_start(bare, row, tools).unwrap_or_else(|verdict| verdict)
}

struct Reader<'b> {
    bytes: &'b [u8],
    at: usize,
}

/// What was read, or why it cannot be.
type Read<T> = Result<T, Verdict>;

impl Reader<'_> {
    fn read_start(&mut self, bare: &Bare, row: &Row, tools: &Tools) -> Read<Verdict> {
        self.space()?;
        let space = self.at;
        self.word(bare.word)?;
        let fence = row.fence != Fence::None && self.fence()?;
        self.space()?;
        let payload = self.at;
        self.byte(bare.bracket)?;
        self.space()?;
        let name = match &row.body {
            Body::Json(keys) => {
                if bare.bracket == b'[' {
                    self.byte(b'{')?;
                    self.space()?;
                }
                self.name_in_json(keys)?
            }
            _ => self.name_before_bracket()?,
        };
        let name = std::str::from_utf8(name).unwrap_or_default();
        let is_offered = !name.is_empty() && tools.may_have(name);
        Ok(if is_offered { Verdict::Call { space, payload, fence } } else { Verdict::Text })
    }

    fn next(&self) -> Read<u8> {
        self.bytes.get(self.at).copied().ok_or(Verdict::Open)
    }

    fn space(&mut self) -> Read<()> {
        let start = self.at;
        while self.next()?.is_ascii_whitespace() {
            self.at += 1;
            if self.at - start > GAP_BYTES_MAX {
                return Err(Verdict::Text);
            }
        }
        Ok(())
    }

    fn byte(&mut self, byte: u8) -> Read<()> {
        if self.next()? != byte {
            return Err(Verdict::Text);
        }
        self.at += 1;
        Ok(())
    }

    /// Takes this word.
    fn word(&mut self, word: &str) -> Read<()> {
        for byte in word.bytes() {
            self.byte(byte)?;
        }
        Ok(())
    }

    /// Takes a code fence with the name of a language, if one comes.
    fn fence(&mut self) -> Read<bool> {
        if self.next()? != b'`' {
            return Ok(false);
        }
        self.word("```")?;
        while self.next()?.is_ascii_alphanumeric() {
            self.at += 1;
        }
        Ok(true)
    }

    /// The name in an object, where it comes first, or second after a type.
    fn name_in_json(&mut self, keys: &JsonKeys) -> Read<&[u8]> {
        for _ in 0..2 {
            let key = self.string()?;
            let is_name = keys.name.iter().any(|name| name.as_bytes() == key);
            let is_type = key == b"type";
            self.space()?;
            self.byte(b':')?;
            self.space()?;
            if is_name {
                return self.string();
            }
            if !is_type {
                break;
            }
            self.string()?;
            self.space()?;
            self.byte(b',')?;
            self.space()?;
        }
        Err(Verdict::Text)
    }

    /// A short string without escapes.
    fn string(&mut self) -> Read<&[u8]> {
        self.byte(b'"')?;
        let start = self.at;
        loop {
            match self.next()? {
                b'"' => break,
                b'\\' | b'\n' => return Err(Verdict::Text),
                _ if self.at - start >= LABEL_BYTES_MAX => return Err(Verdict::Text),
                _ => self.at += 1,
            }
        }
        self.at += 1;
        Ok(&self.bytes[start..self.at - 1])
    }

    /// The name before a round bracket.
    fn name_before_bracket(&mut self) -> Read<&[u8]> {
        let start = self.at;
        while self.next()? != b'(' {
            let is_part = |byte: u8| byte.is_ascii_alphanumeric() || b"_.-".contains(&byte);
            if !is_part(self.next()?) || self.at - start >= LABEL_BYTES_MAX {
                return Err(Verdict::Text);
            }
            self.at += 1;
        }
        Ok(&self.bytes[start..self.at])
    }
}
