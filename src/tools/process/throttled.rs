//! The output of a program, read at a bounded rate.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, ReadBuf};
use tokio::time::{Instant, Sleep, sleep};

use crate::limits::process::{OUTPUT_AT_ONCE, OUTPUT_PAUSE, OUTPUT_PER_PAUSE};

/// A program's output. A program that prints without end has to wait, so it keeps no processor busy: neither ours nor
/// its own.
///
/// ```text
///   room   [################    ]   bytes that are read without a pause, OUTPUT_AT_ONCE at most
///           read <-'      '-> OUTPUT_PER_PAUSE are added in each OUTPUT_PAUSE
/// ```
#[derive(Debug)]
pub struct Throttled<R> {
    pipe: R,
    room: usize,
    /// When room was last added.
    filled: Instant,
    pause: Option<Pin<Box<Sleep>>>,
}

impl<R> Throttled<R> {
    pub(super) fn new(pipe: R) -> Self {
        Self { pipe, room: OUTPUT_AT_ONCE, filled: Instant::now(), pause: None }
    }

    /// Adds the room of the pauses that have passed.
    fn fill(&mut self) {
        let pauses = self.filled.elapsed().as_nanos() / OUTPUT_PAUSE.as_nanos();
        let pauses = u32::try_from(pauses).unwrap_or(u32::MAX);
        if pauses > 0 {
            let more = OUTPUT_PER_PAUSE.saturating_mul(pauses as usize);
            self.room = self.room.saturating_add(more).min(OUTPUT_AT_ONCE);
            self.filled = Instant::now();
        }
    }
}

impl<R: AsyncRead + Unpin> AsyncRead for Throttled<R> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        while this.room == 0 {
            this.fill();
            if this.room == 0 {
                let pause = this.pause.get_or_insert_with(|| Box::pin(sleep(OUTPUT_PAUSE)));
                ready!(pause.as_mut().poll(cx));
                this.pause = None;
            }
        }
        let most = buf.remaining().min(this.room);
        let mut part = ReadBuf::new(buf.initialize_unfilled_to(most));
        ready!(Pin::new(&mut this.pipe).poll_read(cx, &mut part))?;
        let read = part.filled().len();
        buf.advance(read);
        this.room -= read;
        Poll::Ready(Ok(()))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::io::{AsyncReadExt as _, repeat};

    use super::*;

    async fn time_to_read(bytes: usize) -> Duration {
        let begun = Instant::now();
        let mut output = Throttled::new(repeat(b'x'));
        let mut left = bytes;
        while left > 0 {
            let mut chunk = Vec::with_capacity(left.min(8192));
            left -= output.read_buf(&mut chunk).await.unwrap().min(left);
        }
        begun.elapsed()
    }

    #[tokio::test(start_paused = true)]
    async fn much_is_read_at_once_and_the_rest_with_pauses() {
        assert_eq!(time_to_read(OUTPUT_AT_ONCE).await, Duration::ZERO);
        assert_eq!(time_to_read(OUTPUT_AT_ONCE + 1).await, OUTPUT_PAUSE);
        let more = OUTPUT_AT_ONCE + 100 * OUTPUT_PER_PAUSE;
        assert_eq!(time_to_read(more).await, 100 * OUTPUT_PAUSE);
    }

    #[tokio::test(start_paused = true)]
    async fn a_program_that_prints_now_and_then_never_waits() {
        let mut output = Throttled::new(repeat(b'x'));
        let mut chunk = vec![0; OUTPUT_PER_PAUSE];
        let begun = Instant::now();
        for _ in 0..2 * OUTPUT_AT_ONCE / OUTPUT_PER_PAUSE {
            output.read_exact(&mut chunk).await.unwrap();
            tokio::time::advance(OUTPUT_PAUSE).await;
        }
        let pauses = u32::try_from(2 * OUTPUT_AT_ONCE / OUTPUT_PER_PAUSE).unwrap();
        assert_eq!(begun.elapsed(), pauses * OUTPUT_PAUSE);
    }
}
