//! Bytes of a `text/event-stream` in, frames out, by the rules of WHATWG HTML
//! section 9.2.6.
//!
//! Not for re-joining: `retry` is not kept, and an `id` is handed on with its
//! frame and not remembered, since a model's stream cannot be asked for again.
//!
//! **Give every chunk to [`Decoder::next_frame`] until it returns `None`**, then
//! the next chunk. What the chunks are cut at never shows in the frames. Each
//! byte is searched once and, only where its frame lies across chunks or in
//! several lines, copied once into a buffer that is kept for the next.
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

/// One frame: what stood between two blank lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Frame<'a> {
    /// Which field `data` was in.
    pub field: Field,
    /// The field's lines, joined with LF. Borrowed from the chunk where it is
    /// one line that lies whole in it.
    pub data: &'a [u8],
    /// The event's type; empty means `message`.
    pub event: &'a [u8],
    /// The `id` that stood in this frame.
    pub id: Option<&'a [u8]>,
}

/// Where a frame's data stood.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Field {
    /// `data`.
    Data,
    /// `error`, in a frame without `data`: no field of the standard, but how
    /// older llama.cpp servers report that a stream has failed.
    Error,
}

/// A frame, or one line, passed the limit. The decoder stays ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a frame of the event stream is longer than {bytes_max} bytes")]
pub struct FrameTooLarge {
    /// The limit, in bytes.
    pub bytes_max: usize,
}

/// Decodes one stream.
#[derive(Debug)]
pub struct Decoder {
    frame_bytes_max: usize,
    /// Bytes of the leading byte order mark that were seen; `None` once the
    /// beginning of the stream is behind us.
    byte_order_mark: Option<usize>,
    /// The line before ended in CR: an LF right here belongs to it.
    after_carriage_return: bool,
    /// What has arrived of the line that is not complete.
    line: Vec<u8>,
    block: Block,
    ended: bool,
}

/// What is known of the frame whose blank line has not come.
#[derive(Debug, Default)]
struct Block {
    /// Bytes of its lines that are kept, without their line ends.
    bytes: usize,
    /// Holds the data from `data_start` on, where it does not lie in the chunk.
    data: Vec<u8>,
    data_start: usize,
    /// Where its data stands, once there is some.
    field: Option<Field>,
    event: Vec<u8>,
    id: Vec<u8>,
    has_id: bool,
    error: Vec<u8>,
    /// It was handed out, and is cleared before anything else is done.
    complete: bool,
}

/// A line, taken apart.
#[derive(Debug, Clone, Copy)]
enum Line<'a> {
    Data(&'a [u8]),
    Event(&'a [u8]),
    Id(&'a [u8]),
    Error(&'a [u8]),
    /// A comment, a field that means nothing here, or an `id` with a NUL.
    Ignored,
}

impl Default for Decoder {
    fn default() -> Self {
        Self::new()
    }
}

impl Decoder {
    /// A decoder at the beginning of a stream.
    #[must_use]
    pub fn new() -> Self {
        Self::with_frame_bytes_max(FRAME_BYTES_MAX)
    }

    /// As [`new`](Self::new), with another limit: the lines of a frame that are
    /// kept, and any line at all, in bytes.
    #[must_use]
    pub fn with_frame_bytes_max(frame_bytes_max: usize) -> Self {
        Self {
            frame_bytes_max,
            byte_order_mark: Some(0),
            after_carriage_return: false,
            line: Vec::new(),
            block: Block::default(),
            ended: false,
        }
    }

    /// The next frame that `chunk` completes; `chunk` moves behind it.
    ///
    /// `None` means that the chunk is used up and its rest, if any, is kept.
    /// Frames without data are no frames: they are skipped.
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

        // The first line of data, as long as it is the only one and in `chunk`.
        let mut in_chunk: Option<&'c [u8]> = None;
        loop {
            if self.after_carriage_return && !chunk.is_empty() {
                self.after_carriage_return = false;
                *chunk = chunk.strip_prefix(b"\n").unwrap_or(chunk);
            }
            let Some(end) = memchr2(b'\n', b'\r', chunk) else {
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

    /// Whether the stream, if it ended here, would end inside a frame. What is
    /// there of it is discarded, as the standard asks.
    #[must_use]
    pub fn is_mid_frame(&self) -> bool {
        !self.line.is_empty()
            || self.byte_order_mark.is_some_and(|seen| seen > 0)
            || (self.block.bytes > 0 && !self.block.complete)
    }

    /// Takes the byte order mark off the stream's first bytes, however they are
    /// cut. What looked like one and was none is the beginning of a line.
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

    /// Reads the line that came in pieces. Where it is the frame's first data,
    /// its buffer becomes the data's, so that it is not copied a second time.
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

impl Block {
    /// Copies the data that lies in the chunk, before the chunk goes or more
    /// data comes.
    fn keep_data(&mut self, in_chunk: &mut Option<&[u8]>) {
        if let Some(data) = in_chunk.take() {
            self.data.extend_from_slice(data);
        }
    }

    /// Adds a line that is not the first of the data.
    fn push_line(&mut self, line: Line<'_>, line_bytes: usize) {
        match line {
            Line::Data(value) => {
                self.data.push(b'\n');
                self.data.extend_from_slice(value);
            }
            Line::Event(value) => replace(&mut self.event, value),
            Line::Id(value) => {
                self.has_id = true;
                replace(&mut self.id, value);
            }
            Line::Error(value) => {
                self.field = self.field.or(Some(Field::Error));
                replace(&mut self.error, value);
            }
            Line::Ignored => return,
        }
        self.bytes += line_bytes;
    }

    fn frame<'f>(&'f self, in_chunk: Option<&'f [u8]>) -> Frame<'f> {
        let (field, data) = match self.field {
            Some(Field::Data) => {
                (Field::Data, in_chunk.unwrap_or_else(|| &self.data[self.data_start..]))
            }
            _ => (Field::Error, self.error.as_slice()),
        };
        Frame { field, data, event: &self.event, id: self.has_id.then_some(&self.id) }
    }

    fn clear(&mut self) {
        self.bytes = 0;
        self.data.clear();
        self.data_start = 0;
        self.field = None;
        self.event.clear();
        self.id.clear();
        self.has_id = false;
        self.error.clear();
        self.complete = false;
    }
}

impl<'a> Line<'a> {
    fn parse(line: &'a [u8]) -> Self {
        // What nearly every line of a model's stream begins with.
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
