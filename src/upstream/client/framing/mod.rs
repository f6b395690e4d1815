//! Where the body of an answer ends, and which of its bytes are the body (RFC 9112, sections 6
//! and 7).
//!
//! Pure: bytes go in as they arrived, and the pieces of the body come out as slices of them.
//! Nothing is copied or kept, and the body itself is not scanned. The states of [`At`], by the byte
//! that comes next:
//!
//! ```text
//!   f2    ;x=y CR    LF     | data: {"choices":[... | CR      LF     |   the chunks
//!   Size  Extension  SizeLf | Data                  | DataCr  DataLf |
//!
//!   0     CR  LF     | X            : y CR    LF        | CR            LF     |   the end
//!   Size      SizeLf | TrailerStart Trailer   TrailerLf | TrailerStart  LastLf |
//! ```

#[cfg(any(test, fuzzing))]
pub(crate) mod fuzz;
#[cfg(test)]
mod tests;

use memchr::memchr2;

use crate::limits::upstream::{CHUNK_OVERHEAD_BYTES_MAX, CHUNK_SIZE_BYTES_MAX};

/// The framing of one answer, as far as it has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Framing {
    /// This many bytes are still to come.
    Length(u64),
    /// It comes in chunks.
    Chunked(Chunked),
    /// It ends when the server closes the connection.
    UntilClose,
    /// All of it has arrived.
    Complete,
    /// It was malformed.
    Failed(FramingError),
}

/// How far a chunked body has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Chunked {
    at: At,
    /// Bytes of extensions and trailers so far.
    overhead: usize,
}

/// What the next byte of a chunked body is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum At {
    /// A digit of a chunk's size, which is `bytes` so far. After the first of the `digits`, also anything
    /// that may follow them.
    Size { bytes: u64, digits: u8 },
    /// White space after a size, with which some servers pad it.
    SizePadding { bytes: u64, length: u8 },
    /// A chunk's extension, which is ignored.
    Extension { bytes: u64 },
    /// The LF after a chunk's size.
    SizeLf { bytes: u64 },
    /// The chunk itself, of which this many bytes are left.
    Data { left: u64 },
    /// The CR after a chunk.
    DataCr,
    /// The LF after a chunk.
    DataLf,
    /// The first byte of a line after the last chunk: a trailer, or the end.
    TrailerStart,
    /// A trailer, which is ignored.
    Trailer,
    /// The LF after a trailer.
    TrailerLf,
    /// The LF that ends the body.
    LastLf,
}

/// Why the framing of an answer cannot be read. The connection must be closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum FramingError {
    /// There is no hexadecimal number where a chunk's size belongs.
    #[error("a chunk has no size")]
    NoSize,
    /// A chunk's size does not fit into 64 bits, or is padded without end.
    #[error("a chunk's size is too large")]
    SizeTooLarge,
    /// A line ends in something other than CR LF.
    #[error("a line of the chunked encoding does not end in CR LF")]
    NoLineEnd,
    /// There are more bytes of extensions and trailers than the limit allows.
    #[error(
        "the chunked encoding has more than {CHUNK_OVERHEAD_BYTES_MAX} bytes of extensions and trailers"
    )]
    TooMuchOverhead,
}

impl Framing {
    /// A body in chunks, at its start.
    pub(crate) const CHUNKED: Self = Self::Chunked(Chunked { at: At::SIZE, overhead: 0 });

    /// A body of this many bytes.
    #[must_use]
    pub(crate) const fn length(bytes: u64) -> Self {
        if bytes == 0 { Self::Complete } else { Self::Length(bytes) }
    }

    /// Whether all of the body has arrived.
    #[must_use]
    pub(crate) fn is_complete(&self) -> bool {
        *self == Self::Complete
    }

    /// Takes the bytes that have arrived and passes the pieces of the body in them to `sink`.
    /// Returns how many of the bytes belong to the answer: all of them, unless it is complete.
    ///
    /// # Errors
    /// If the framing is malformed, in these bytes or in earlier ones. What was passed on precedes
    /// the fault.
    pub(crate) fn push<'b>(
        &mut self,
        bytes: &'b [u8],
        mut sink: impl FnMut(&'b [u8]),
    ) -> Result<usize, FramingError> {
        match self {
            Self::UntilClose => {
                if !bytes.is_empty() {
                    sink(bytes);
                }
                Ok(bytes.len())
            }
            Self::Length(left) => {
                let taken = take(left, bytes, &mut sink);
                if *left == 0 {
                    *self = Self::Complete;
                }
                Ok(taken)
            }
            Self::Chunked(chunked) => match chunked.push(bytes, &mut sink) {
                Ok(Pushed::All) => Ok(bytes.len()),
                Ok(Pushed::Complete { taken }) => {
                    *self = Self::Complete;
                    Ok(taken)
                }
                Err(error) => {
                    *self = Self::Failed(error);
                    Err(error)
                }
            },
            Self::Complete => Ok(0),
            Self::Failed(error) => Err(*error),
        }
    }

    /// Whether the answer is complete if the server closes the connection now.
    #[must_use]
    pub(crate) fn may_end_here(&self) -> bool {
        matches!(self, Self::Complete | Self::UntilClose)
    }
}

/// Passes on at most `left` bytes; returns how many.
fn take<'b>(left: &mut u64, bytes: &'b [u8], sink: &mut impl FnMut(&'b [u8])) -> usize {
    let taken = usize::try_from(*left).map_or(bytes.len(), |left| left.min(bytes.len()));
    if taken > 0 {
        sink(&bytes[..taken]);
    }
    *left -= taken as u64;
    taken
}

/// What became of pushed bytes.
enum Pushed {
    All,
    /// The body ended after this many of them.
    Complete {
        taken: usize,
    },
}

impl At {
    const SIZE: Self = Self::Size { bytes: 0, digits: 0 };
}

impl Chunked {
    fn push<'b>(
        &mut self,
        bytes: &'b [u8],
        sink: &mut impl FnMut(&'b [u8]),
    ) -> Result<Pushed, FramingError> {
        let mut next = 0;
        while let Some(byte) = bytes.get(next) {
            let rest = &bytes[next..];
            if let Some((after, taken)) = self.at.skip_line(rest) {
                (self.at, next) = (after, next + taken);
                continue;
            }
            match &mut self.at {
                At::Data { left } => {
                    next += take(left, rest, sink);
                    if *left == 0 {
                        self.at = At::DataCr;
                    }
                }
                // Both may be long; both end at the next CR.
                At::Extension { .. } | At::Trailer if *byte != b'\r' => {
                    next += self.ignore(rest)?;
                }
                At::LastLf => {
                    expect(b'\n', *byte)?;
                    return Ok(Pushed::Complete { taken: next + 1 });
                }
                // Its first byte counts with the rest.
                At::TrailerStart if !matches!(byte, b'\r' | b'\n') => self.at = At::Trailer,
                at => {
                    self.at = at.after(*byte)?;
                    next += 1;
                }
            }
        }
        Ok(Pushed::All)
    }

    /// Skips an extension or a trailer up to the next CR; returns how many bytes that is.
    fn ignore(&mut self, rest: &[u8]) -> Result<usize, FramingError> {
        let ignored = memchr2(b'\r', b'\n', rest).unwrap_or(rest.len());
        // Other readers of the same bytes might end the line at a bare LF.
        if rest.get(ignored) == Some(&b'\n') {
            return Err(FramingError::NoLineEnd);
        }
        self.overhead += ignored;
        if self.overhead > CHUNK_OVERHEAD_BYTES_MAX {
            return Err(FramingError::TooMuchOverhead);
        }
        Ok(ignored)
    }
}

impl At {
    /// The fast path for the two lines between chunks. If `rest` begins with such a line as all
    /// servers write it, returns the state after the line and the line's length; otherwise `None`.
    fn skip_line(self, rest: &[u8]) -> Option<(Self, usize)> {
        match self {
            Self::DataCr => rest.starts_with(b"\r\n").then_some((Self::SIZE, 2)),
            Self::SIZE => {
                let mut bytes = 0;
                // So few digits cannot overflow.
                for (at, byte) in rest.iter().enumerate().take(8) {
                    match hex(*byte) {
                        Some(digit) => bytes = bytes * 16 + u64::from(digit),
                        None if *byte == b'\r' && bytes > 0 && rest.get(at + 1) == Some(&b'\n') => {
                            return Some((Self::Data { left: bytes }, at + 2));
                        }
                        None => return None,
                    }
                }
                None
            }
            _ => None,
        }
    }

    /// The state after `byte`, which is neither part of a chunk's data nor the last byte of the body.
    fn after(self, byte: u8) -> Result<Self, FramingError> {
        Ok(match self {
            Self::Size { bytes, digits } => match hex(byte) {
                Some(digit) => {
                    let bytes = bytes.checked_mul(16).ok_or(FramingError::SizeTooLarge)?;
                    let digits = one_more(digits)?;
                    Self::Size { bytes: bytes + u64::from(digit), digits }
                }
                None if digits > 0 => Self::after_size(bytes, 0, byte)?,
                None => return Err(FramingError::NoSize),
            },
            Self::SizePadding { bytes, length } => Self::after_size(bytes, length, byte)?,
            Self::Extension { bytes } => Self::SizeLf { bytes },
            Self::SizeLf { bytes } => {
                expect(b'\n', byte)?;
                if bytes == 0 { Self::TrailerStart } else { Self::Data { left: bytes } }
            }
            Self::DataCr => {
                expect(b'\r', byte)?;
                Self::DataLf
            }
            Self::DataLf => {
                expect(b'\n', byte)?;
                Self::SIZE
            }
            Self::TrailerStart => {
                expect(b'\r', byte)?;
                Self::LastLf
            }
            Self::Trailer => Self::TrailerLf,
            Self::TrailerLf => {
                expect(b'\n', byte)?;
                Self::TrailerStart
            }
            Self::Data { .. } | Self::LastLf => unreachable!("`Chunked::push` handles these"),
        })
    }

    fn after_size(bytes: u64, padding: u8, byte: u8) -> Result<Self, FramingError> {
        match byte {
            b' ' | b'\t' => Ok(Self::SizePadding { bytes, length: one_more(padding)? }),
            b';' => Ok(Self::Extension { bytes }),
            b'\r' => Ok(Self::SizeLf { bytes }),
            b'\n' => Err(FramingError::NoLineEnd),
            _ => Err(FramingError::NoSize),
        }
    }
}

/// Counts the digits of a size, or what pads it.
fn one_more(length: u8) -> Result<u8, FramingError> {
    if length == CHUNK_SIZE_BYTES_MAX { Err(FramingError::SizeTooLarge) } else { Ok(length + 1) }
}

const fn hex(byte: u8) -> Option<u8> {
    match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        b'A'..=b'F' => Some(byte - b'A' + 10),
        _ => None,
    }
}

fn expect(expected: u8, byte: u8) -> Result<(), FramingError> {
    if byte == expected { Ok(()) } else { Err(FramingError::NoLineEnd) }
}
