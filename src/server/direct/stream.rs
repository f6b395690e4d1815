//! A stream's reader, its encoder and its socket: read, framed and sent in one go.
//!
//! ```text
//!   the thread's buffer:  |  spare  5f CR LF | frame frame frame | CR LF |
//!                            '------ 10 -----' '-- 0x5f bytes ---'
//!                                    '------------- sent ---------------'
//! ```
//! A chunk's size (RFC 9112, section 7.1) is known only after its frames, so room for it is left before
//! them. What the socket does not take is kept, and nothing more is read until the socket has taken it:
//! a slow client costs one batch and its position in the log, however far behind it is.

use std::cell::RefCell;
use std::io::{self, IoSlice};
use std::panic::{self, AssertUnwindSafe};
use std::task::{Context, Poll};

use bytes::{Buf as _, BufMut as _, Bytes, BytesMut};
use parking_lot::{Mutex, MutexGuard};
use tokio::time::Instant;

use super::Ended;
use crate::limits::stream as limits;
use crate::server::body::Events;
use crate::server::socket::Socket;
use crate::session::log::{Outlet, Parked, Published};
use crate::thread_buffer;

/// The longest size of a chunk, in hexadecimal, with its CR LF.
const SIZE_BYTES_MAX: usize = 10;
const CRLF: &[u8] = b"\r\n";
const LAST_CHUNK: &[u8] = b"0\r\n\r\n";

thread_local! {
    static BUFFER: RefCell<BytesMut> = RefCell::new(BytesMut::new());
}

/// A stream, shared between its task and whoever publishes.
#[derive(Debug)]
pub(super) struct Stream(Mutex<State>);

/// The stream itself, under the lock.
#[derive(Debug)]
pub(super) struct State {
    socket: Socket,
    events: Events,
    /// Bytes that the socket has not taken yet: at first, the head.
    unsent: Bytes,
    /// Since when the socket has taken nothing; `None` while it takes bytes.
    blocked_at: Option<Instant>,
    /// When something was last sent to the client.
    pub(super) sent_at: Instant,
    ended: Option<Ended>,
}

/// How far a stream has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Pumped {
    /// All there is was sent. The stream is parked at the end of its log.
    Idle,
    /// The socket takes nothing more for now.
    Blocked { since: Instant },
    /// There is more, but other tasks should run first.
    Busy,
    /// Everything was sent, or nothing more can be.
    Ended(Ended),
}

impl Stream {
    /// A stream whose response has this head.
    pub(super) fn new(socket: Socket, head: Bytes, events: Events) -> Self {
        let (unsent, sent_at) = (head, Instant::now());
        Self(Mutex::new(State { socket, events, unsent, blocked_at: None, sent_at, ended: None }))
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock()
    }
}

impl Outlet for Stream {
    fn pass_on(&self, new: &Published<'_>, now: Instant) -> bool {
        let mut state = self.lock();
        // Whoever publishes must not fail with one of its readers.
        let passed_on = panic::catch_unwind(AssertUnwindSafe(|| state.pass_on(new, now)));
        passed_on.unwrap_or_else(|_| {
            state.end(Ended::Cut);
            false
        })
    }
}

impl State {
    /// Reads, encodes and sends until there is nothing more, or the socket takes nothing more. Takes
    /// `parked` if the stream waits at the end of its log.
    pub(super) fn pump(&mut self, now: Instant, parked: &mut Option<Parked>) -> Pumped {
        for _ in 0..limits::BATCHES_MAX {
            if let Some(blocked) = self.blocked(now) {
                return blocked;
            }
            if let Some(ended) = self.ended {
                return Pumped::Ended(ended);
            }
            let is_idle = with_buffer(|buffer| self.read_and_send(now, parked, buffer));
            if is_idle {
                // The head, if there are no events yet.
                self.send(now, &[]);
                return self.blocked(now).unwrap_or(Pumped::Idle);
            }
        }
        Pumped::Busy
    }

    /// Encodes and sends what has just been published. False if the stream's task has to go on.
    fn pass_on(&mut self, new: &Published<'_>, now: Instant) -> bool {
        let is_idle = self.unsent.is_empty() && self.ended.is_none();
        is_idle && with_buffer(|buffer| self.encode_and_send(new, now, buffer))
    }

    fn encode_and_send(
        &mut self,
        new: &Published<'_>,
        now: Instant,
        buffer: &mut BytesMut,
    ) -> bool {
        buffer.put_bytes(0, SIZE_BYTES_MAX);
        let Events { reader, encoder, .. } = &mut self.events;
        if !reader.take_published(new, |record| encoder.encode(&record, buffer)) {
            return false;
        }
        self.send_chunk(now, buffer, &[]);
        self.blocked_at.is_none() && self.ended.is_none()
    }

    /// Sends the chunk in `buffer`, and what follows it. The dialect may have no words for its events.
    fn send_chunk(&mut self, now: Instant, buffer: &mut BytesMut, following: &[u8]) {
        let mut start = SIZE_BYTES_MAX;
        if buffer.len() > SIZE_BYTES_MAX {
            start = close_chunk(buffer);
            (self.sent_at, self.events.greets) = (now, false);
        }
        buffer.put_slice(following);
        if start < buffer.len() {
            self.send(now, &buffer[start..]);
        }
    }

    /// Whether the socket still takes nothing.
    fn blocked(&mut self, now: Instant) -> Option<Pumped> {
        if self.blocked_at.is_some() {
            self.send(now, &[]);
        }
        self.blocked_at.map(|since| Pumped::Blocked { since })
    }

    /// Sends the next batch of records, with the last chunk if nothing will follow. Returns true if there is
    /// nothing to send yet.
    fn read_and_send(
        &mut self,
        now: Instant,
        parked: &mut Option<Parked>,
        buffer: &mut BytesMut,
    ) -> bool {
        buffer.put_bytes(0, SIZE_BYTES_MAX);
        let Events { reader, encoder, .. } = &mut self.events;
        if reader.read_or_park(parked, |record| encoder.encode(&record, buffer)).is_pending() {
            return true;
        }
        match (reader.is_at_end(), encoder.is_cut()) {
            (false, _) => self.send_chunk(now, buffer, &[]),
            (true, false) => {
                self.send_chunk(now, buffer, LAST_CHUNK);
                self.end(Ended::Properly);
            }
            (true, true) => {
                self.send_chunk(now, buffer, &[]);
                self.send(now, &[]);
                self.end(Ended::Cut);
            }
        }
        false
    }

    /// Says something at once if the stream has said nothing yet, and should have.
    pub(super) fn greet(&mut self) -> bool {
        let greets = std::mem::take(&mut self.events.greets);
        if greets {
            self.sent_at = Instant::now();
            self.keep_alive();
        }
        greets
    }

    /// Sends a keep-alive.
    pub(super) fn keep_alive(&mut self) {
        let bytes = self.events.encoder.keep_alive();
        with_buffer(|buffer| {
            buffer.put_bytes(0, SIZE_BYTES_MAX);
            buffer.put_slice(&bytes);
            self.send_chunk(self.sent_at, buffer, &[]);
        });
    }

    /// Sends what is left over, then `bytes`. What the socket does not take is left over.
    fn send(&mut self, now: Instant, mut bytes: &[u8]) {
        while !self.unsent.is_empty() || !bytes.is_empty() {
            match self.socket.try_write([IoSlice::new(&self.unsent), IoSlice::new(bytes)]) {
                Ok(sent) => {
                    self.blocked_at = None;
                    let left_over = sent.min(self.unsent.len());
                    self.unsent.advance(left_over);
                    if self.unsent.is_empty() {
                        // An empty part would keep the memory of what was sent.
                        self.unsent = Bytes::new();
                    }
                    bytes = &bytes[sent - left_over..];
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.blocked_at.get_or_insert(now);
                    if !bytes.is_empty() {
                        self.unsent = [&self.unsent, bytes].concat().into();
                    }
                    return;
                }
                Err(_) => {
                    (self.unsent, self.blocked_at) = (Bytes::new(), None);
                    self.end(Ended::Left);
                    return;
                }
            }
        }
    }

    /// Notes the end, unless it was noted before.
    fn end(&mut self, ended: Ended) {
        self.ended.get_or_insert(ended);
    }

    /// Waits until the socket may take more.
    pub(super) fn poll_writable(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.socket.poll_writable(cx)
    }
}

/// Turns the frames in `buffer` into a chunk: writes its size before them and CR LF after them. Returns
/// where the chunk starts.
fn close_chunk(buffer: &mut BytesMut) -> usize {
    const HEX: &[u8; 16] = b"0123456789ABCDEF";
    let mut left = buffer.len() - SIZE_BYTES_MAX;
    buffer.put_slice(CRLF);
    let mut start = SIZE_BYTES_MAX - CRLF.len();
    buffer[start..SIZE_BYTES_MAX].copy_from_slice(CRLF);
    while left > 0 {
        start -= 1;
        buffer[start] = HEX[left % HEX.len()];
        left /= HEX.len();
    }
    start
}

/// Lends out this thread's buffer, empty.
fn with_buffer<R>(use_it: impl FnOnce(&mut BytesMut) -> R) -> R {
    thread_buffer::lend(&BUFFER, |buffer| {
        // A use that panicked has left something of another stream.
        buffer.clear();
        let result = use_it(buffer);
        // A batch that was much larger than usual must not pin its memory.
        if buffer.capacity() > 2 * limits::WRITE_BYTES_MAX {
            *buffer = BytesMut::new();
        }
        result
    })
}
