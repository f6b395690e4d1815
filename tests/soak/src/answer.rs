//! Reads an answer of HTTP/1.1, with a length or in chunks, as it arrives.

use memchr::memmem;

use crate::token::decimal;

/// Bytes of a head; the gateway's has a few hundred.
const HEAD_BYTES_MAX: usize = 16 * 1024;

/// An answer. **After an error it reads nothing more.**
#[derive(Debug)]
pub(crate) struct Answer {
    state: State,
    status: u16,
    retry_after: bool,
    closes: bool,
}

#[derive(Debug)]
enum State {
    Head(Vec<u8>),
    /// Of a body with a length, or of a chunk (`is_chunk`), so many bytes are missing.
    Data {
        left: u64,
        is_chunk: bool,
    },
    /// Inside of the line with the size of a chunk.
    Size(u64),
    /// The line end after a chunk.
    ChunkEnd,
    /// The line end after the last chunk; no trailers are expected.
    LastEnd,
    Done,
}

/// It is not HTTP as the gateway writes it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Malformed;

impl Answer {
    pub(crate) const fn new() -> Self {
        Self { state: State::Head(Vec::new()), status: 0, retry_after: false, closes: false }
    }

    /// The status; 0 until the head is there.
    pub(crate) const fn status(&self) -> u16 {
        self.status
    }

    /// Whether it says when to try again.
    pub(crate) const fn has_retry_after(&self) -> bool {
        self.retry_after
    }

    pub(crate) const fn is_done(&self) -> bool {
        matches!(self.state, State::Done)
    }

    /// Whether the connection is closed after it.
    pub(crate) const fn closes(&self) -> bool {
        self.closes
    }

    /// Reads more; `on_body` gets the parts of the body.
    pub(crate) fn push(
        &mut self,
        mut bytes: &[u8],
        mut on_body: impl FnMut(&[u8]),
    ) -> Result<(), Malformed> {
        while !bytes.is_empty() {
            let taken = self.step(bytes, &mut on_body)?;
            bytes = &bytes[taken..];
        }
        Ok(())
    }

    /// Reads a part and returns its length.
    fn step(&mut self, bytes: &[u8], on_body: &mut impl FnMut(&[u8])) -> Result<usize, Malformed> {
        match &mut self.state {
            State::Head(head) => {
                let before = head.len();
                head.extend_from_slice(bytes);
                let Some(end) = memmem::find(head, b"\r\n\r\n") else {
                    return if head.len() > HEAD_BYTES_MAX {
                        Err(Malformed)
                    } else {
                        Ok(bytes.len())
                    };
                };
                head.truncate(end + 2);
                let head = std::mem::take(head);
                self.head(&head)?;
                Ok(end + 4 - before)
            }
            State::Data { left, is_chunk } => {
                let taken = bytes.len().min(usize::try_from(*left).unwrap_or(usize::MAX));
                on_body(&bytes[..taken]);
                *left -= taken as u64;
                if *left == 0 {
                    self.state = if *is_chunk { State::ChunkEnd } else { State::Done };
                }
                Ok(taken)
            }
            State::Size(size) => {
                match bytes[0] {
                    b'\r' => {}
                    b'\n' if *size == 0 => self.state = State::LastEnd,
                    b'\n' => self.state = State::Data { left: *size, is_chunk: true },
                    digit => {
                        let digit = char::from(digit).to_digit(16).ok_or(Malformed)?;
                        *size = *size * 16 + u64::from(digit);
                    }
                }
                Ok(1)
            }
            State::ChunkEnd => line_end(bytes[0], &mut self.state, State::Size(0)),
            State::LastEnd => line_end(bytes[0], &mut self.state, State::Done),
            State::Done => Err(Malformed),
        }
    }

    fn head(&mut self, head: &[u8]) -> Result<(), Malformed> {
        let head = str::from_utf8(head).map_err(|_| Malformed)?.to_ascii_lowercase();
        let status = head.strip_prefix("http/1.1 ").ok_or(Malformed)?;
        self.status = u16::try_from(decimal(status.as_bytes())).map_err(|_| Malformed)?;
        let field = |name: &str| head.lines().find_map(|line| line.strip_prefix(name));
        self.retry_after = field("retry-after: ").is_some();
        self.closes = field("connection: close").is_some();
        let length = field("content-length: ").map_or(0, |length| decimal(length.as_bytes()));
        self.state = match length {
            _ if field("transfer-encoding: chunked").is_some() => State::Size(0),
            0 => State::Done,
            left => State::Data { left, is_chunk: false },
        };
        Ok(())
    }
}

fn line_end(byte: u8, state: &mut State, next: State) -> Result<usize, Malformed> {
    match byte {
        b'\r' => {}
        b'\n' => *state = next,
        _ => return Err(Malformed),
    }
    Ok(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(bytes: &[u8], status: u16, body: &[u8]) {
        for at in 0..=bytes.len() {
            let (mut answer, mut read) = (Answer::new(), Vec::new());
            let (start, end) = bytes.split_at(at);
            answer.push(start, |part| read.extend_from_slice(part)).unwrap();
            answer.push(end, |part| read.extend_from_slice(part)).unwrap();
            assert!(answer.is_done());
            assert_eq!((answer.status(), read.as_slice()), (status, body));
        }
    }

    #[test]
    fn answers_are_read_wherever_they_are_cut() {
        check(b"HTTP/1.1 204 No Content\r\nDate: now\r\n\r\n", 204, b"");
        check(b"HTTP/1.1 503 No\r\ncontent-length: 3\r\nretry-after: 2\r\n\r\nabc", 503, b"abc");
        check(
            b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n1a\r\nabcdefghijklmnopqrstuvwxyz\r\n\
              1\r\n!\r\n0\r\n\r\n",
            200,
            b"abcdefghijklmnopqrstuvwxyz!",
        );
    }

    #[test]
    fn nothing_may_follow_an_answer() {
        let mut answer = Answer::new();
        let more = b"HTTP/1.1 204 No Content\r\n\r\nx";
        assert_eq!(answer.push(more, |_| ()), Err(Malformed));
    }
}
