//! Decodes the bytes of a `text/event-stream` into frames, by the rules of WHATWG HTML section
//! 9.2.6.
//!
//! Does not support reconnecting: `retry` is ignored, and an `id` is passed on with its frame
//! but not remembered, because a model's stream cannot be resumed.
//!
//! **Give every chunk to [`Decoder::next_frame`] until it returns `None`**, then give it the
//! next one. Frames never depend on where the chunks were cut. Each byte is searched once. It
//! is copied only if its frame spans chunks or has several lines of data, and then once, into a
//! buffer that is reused.
//!
//! ```
//! use tether::upstream::sse::Decoder;
//!
//! let mut decoder = Decoder::new();
//! let mut chunk = b"data: {\"a\":1}\n\ndata: [DO".as_slice();
//! while let Some(frame) = decoder.next_frame(&mut chunk)? {
//!     assert_eq!(frame.data, b"{\"a\":1}");
//! }
//! assert!(decoder.is_mid_frame());
//! # Ok::<(), tether::upstream::sse::FrameTooLarge>(())
//! ```

#[doc(hidden)]
pub mod fuzz;
#[cfg(test)]
mod tests;

use memchr::{memchr, memchr2};

use crate::limits::upstream::FRAME_BYTES_MAX;

const BYTE_ORDER_MARK: &[u8] = b"\xEF\xBB\xBF";

/// One frame: the lines between two blank lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Frame<'a> {
    /// The field that `data` came from.
    pub field: Field,
    /// The field's lines, joined with LF. Borrowed from the chunk if it is a single line that
    /// lies within it.
    pub data: &'a [u8],
    /// The event's type; empty means `message`.
    pub event: &'a [u8],
    /// The frame's `id`, if it has one.
    pub id: Option<&'a [u8]>,
}

/// The field that a frame's data came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Field {
    /// `data`.
    Data,
    /// `error`, in a frame without `data`. Not in the standard, but older llama.cpp servers
    /// report a failed stream this way.
    Error,
}

/// A frame or a line exceeded the limit. The decoder stays ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a frame of the event stream is longer than {bytes_max} bytes")]
pub struct FrameTooLarge {
    /// The limit, in bytes.
    pub(crate) bytes_max: usize,
}

/// Decodes one stream.
#[derive(Debug)]
pub struct Decoder {
    frame_bytes_max: usize,
    /// How many bytes of a leading byte order mark have been seen; `None` once past the start
    /// of the stream.
    byte_order_mark: Option<usize>,
    /// The previous line ended in CR, so an LF that comes next belongs to it.
    after_carriage_return: bool,
    /// The start of a line that is not complete yet.
    line: Vec<u8>,
    block: Block,
    ended: bool,
}

/// The frame so far, before its blank line arrives.
#[derive(Debug, Default)]
struct Block {
    /// Bytes of its lines that are kept, without line endings.
    bytes: usize,
    /// Holds the data, from `data_start` on, unless it lies in the chunk.
    data: Vec<u8>,
    data_start: usize,
    /// The field that its data comes from, once there is any.
    field: Option<Field>,
    /// It has been handed out; the next call clears it first.
    complete: bool,
    /// What it has beside data. `None` as long as no frame has had any, which few model servers send: what every token
    /// touches stays small.
    beside: Option<Box<Beside>>,
}

/// The fields of a frame other than its data.
#[derive(Debug, Default)]
struct Beside {
    event: Vec<u8>,
    id: Vec<u8>,
    has_id: bool,
    error: Vec<u8>,
}

/// A parsed line.
#[derive(Debug, Clone, Copy)]
enum Line<'a> {
    Data(&'a [u8]),
    Event(&'a [u8]),
    Id(&'a [u8]),
    Error(&'a [u8]),
    /// A comment, an unknown field, or an `id` with a NUL.
    Ignored,
}

impl Default for Decoder {
    fn default() -> Self {
        Self::new()
    }
}

impl Decoder {
    /// Creates a decoder at the start of a stream.
    #[must_use]
    pub fn new() -> Self {
        Self::with_frame_bytes_max(FRAME_BYTES_MAX)
    }

    /// Like [`new`](Self::new), with another limit in bytes. It bounds the kept lines of a
    /// frame together, and every single line.
    #[must_use]
    pub(crate) fn with_frame_bytes_max(frame_bytes_max: usize) -> Self {
        Self {
            frame_bytes_max,
            byte_order_mark: Some(0),
            after_carriage_return: false,
            line: Vec::new(),
            block: Block::default(),
            ended: false,
        }
    }

    /// The next frame that `chunk` completes; advances `chunk` past it.
    ///
    /// `None` means that the chunk is used up and any incomplete rest is kept. Frames without
    /// data are skipped.
    pub fn next_frame<'f, 'c: 'f>(
        &'f mut self,
        chunk: &mut &'c [u8],
    ) -> Result<Option<Frame<'f>>, FrameTooLarge> {
        if self.ended {
            return Err(self.too_large());
        }
        if self.block.complete {
            self.block.clear();
        }
        if self.byte_order_mark.is_some() {
            self.skip_byte_order_mark(chunk);
        }

        // The first line of data, while it is the only one and lies in `chunk`.
        let mut in_chunk: Option<&'c [u8]> = None;
        loop {
            if self.after_carriage_return && !chunk.is_empty() {
                self.after_carriage_return = false;
                *chunk = chunk.strip_prefix(b"\n").unwrap_or(chunk);
            }
            let Some(end) = line_end(chunk) else {
                self.block.keep_data(&mut in_chunk);
                self.line.extend_from_slice(chunk);
                *chunk = &[];
                self.check_size(self.line.len())?;
                return Ok(None);
            };
            let (line, rest) = chunk.split_at(end);
            self.after_carriage_return = rest[0] == b'\r';
            *chunk = &rest[1..];

            if !self.line.is_empty() {
                self.line.extend_from_slice(line);
                self.check_size(self.line.len())?;
                self.push_kept_line(&mut in_chunk);
            } else if line.is_empty() {
                if self.block.field.is_some() {
                    break;
                }
                self.block.clear();
            } else {
                self.check_size(line.len())?;
                match Line::parse(line) {
                    Line::Data(value) if self.block.field != Some(Field::Data) => {
                        in_chunk = Some(value);
                        self.block.field = Some(Field::Data);
                        self.block.bytes += line.len();
                    }
                    parsed => {
                        self.block.keep_data(&mut in_chunk);
                        self.block.push_line(parsed, line.len());
                    }
                }
            }
        }
        self.block.complete = true;
        Ok(Some(self.block.frame(in_chunk)))
    }

    /// Whether the stream would end inside a frame if it ended now. The standard discards such
    /// a frame.
    #[must_use]
    pub fn is_mid_frame(&self) -> bool {
        !self.line.is_empty()
            || self.byte_order_mark.is_some_and(|seen| seen > 0)
            || (self.block.bytes > 0 && !self.block.complete)
    }

    /// Strips a byte order mark from the start of the stream, however it is cut. Bytes that
    /// only looked like one start the first line.
    fn skip_byte_order_mark(&mut self, chunk: &mut &[u8]) {
        while let (Some(seen), [first, rest @ ..]) = (self.byte_order_mark, *chunk) {
            if *first == BYTE_ORDER_MARK[seen] {
                *chunk = rest;
                self.byte_order_mark = Some(seen + 1).filter(|seen| *seen < BYTE_ORDER_MARK.len());
            } else {
                self.line.extend_from_slice(&BYTE_ORDER_MARK[..seen]);
                self.byte_order_mark = None;
            }
        }
    }

    /// Parses a line that came in pieces. If it is the frame's first data, its buffer becomes
    /// the data buffer, which saves a copy.
    fn push_kept_line(&mut self, in_chunk: &mut Option<&[u8]>) {
        let line_bytes = self.line.len();
        match Line::parse(&self.line) {
            Line::Data(value) if self.block.field != Some(Field::Data) => {
                self.block.data_start = line_bytes - value.len();
                self.block.field = Some(Field::Data);
                self.block.bytes += line_bytes;
                std::mem::swap(&mut self.line, &mut self.block.data);
            }
            line => {
                self.block.keep_data(in_chunk);
                self.block.push_line(line, line_bytes);
            }
        }
        self.line.clear();
    }

    fn check_size(&mut self, line_bytes: usize) -> Result<(), FrameTooLarge> {
        if self.block.bytes + line_bytes > self.frame_bytes_max {
            self.ended = true;
            return Err(self.too_large());
        }
        Ok(())
    }

    const fn too_large(&self) -> FrameTooLarge {
        FrameTooLarge { bytes_max: self.frame_bytes_max }
    }
}

/// Where the first line ends. Every other one is empty, and most chunks end with it: no search is set up for that.
fn line_end(chunk: &[u8]) -> Option<usize> {
    match chunk {
        [] => None,
        [b'\n', ..] => Some(0),
        _ => memchr2(b'\n', b'\r', chunk),
    }
}

impl Block {
    /// Copies data that lies in the chunk, before the chunk goes away or more data comes.
    fn keep_data(&mut self, in_chunk: &mut Option<&[u8]>) {
        if let Some(data) = in_chunk.take() {
            self.data.extend_from_slice(data);
        }
    }

    /// Adds a line that is not the first line of data.
    fn push_line(&mut self, line: Line<'_>, line_bytes: usize) {
        match line {
            Line::Data(value) => {
                self.data.push(b'\n');
                self.data.extend_from_slice(value);
            }
            Line::Event(value) => replace(&mut self.beside().event, value),
            Line::Id(value) => {
                let beside = self.beside();
                beside.has_id = true;
                replace(&mut beside.id, value);
            }
            Line::Error(value) => {
                self.field = self.field.or(Some(Field::Error));
                replace(&mut self.beside().error, value);
            }
            Line::Ignored => return,
        }
        self.bytes += line_bytes;
    }

    fn beside(&mut self) -> &mut Beside {
        self.beside.get_or_insert_default()
    }

    fn frame<'f>(&'f self, in_chunk: Option<&'f [u8]>) -> Frame<'f> {
        let beside = self.beside.as_deref();
        let (field, data) = match self.field {
            Some(Field::Data) => {
                (Field::Data, in_chunk.unwrap_or_else(|| &self.data[self.data_start..]))
            }
            _ => (Field::Error, beside.map_or(&[][..], |beside| &beside.error)),
        };
        let event = beside.map_or(&[][..], |beside| &beside.event);
        let id = beside.filter(|beside| beside.has_id).map(|beside| &*beside.id);
        Frame { field, data, event, id }
    }

    fn clear(&mut self) {
        self.bytes = 0;
        self.data.clear();
        self.data_start = 0;
        self.field = None;
        self.complete = false;
        if let Some(beside) = &mut self.beside {
            beside.clear();
        }
    }
}

impl Beside {
    fn clear(&mut self) {
        self.event.clear();
        self.id.clear();
        self.has_id = false;
        self.error.clear();
    }
}

impl<'a> Line<'a> {
    fn parse(line: &'a [u8]) -> Self {
        // Nearly every line of a model's stream starts like this.
        if let Some(value) = line.strip_prefix(b"data: ") {
            return Self::Data(value);
        }
        let (name, value) = match memchr(b':', line) {
            Some(colon) => (&line[..colon], &line[colon + 1..]),
            None => (line, &[][..]),
        };
        let value = value.strip_prefix(b" ").unwrap_or(value);
        match name {
            b"data" => Self::Data(value),
            b"event" => Self::Event(value),
            b"id" if memchr(0, value).is_none() => Self::Id(value),
            b"error" => Self::Error(value),
            _ => Self::Ignored,
        }
    }
}

fn replace(kept: &mut Vec<u8>, value: &[u8]) {
    kept.clear();
    kept.extend_from_slice(value);
}
