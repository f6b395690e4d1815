//! The output of a program, read at a bounded rate.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, ReadBuf};
use tokio::time::{Sleep, sleep};

use crate::limits::tools::READ_PAUSE;
use crate::tools::throttle::Throttle;

/// A program's output.
#[derive(Debug)]
pub struct Throttled<R> {
    pipe: R,
    throttle: Throttle,
    pause: Option<Pin<Box<Sleep>>>,
}

impl<R> Throttled<R> {
    pub(super) fn new(pipe: R) -> Self {
        Self { pipe, throttle: Throttle::default(), pause: None }
    }
}

impl<R: AsyncRead + Unpin> AsyncRead for Throttled<R> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        let room = loop {
            match this.throttle.room() {
                0 => {
                    let pause = this.pause.get_or_insert_with(|| Box::pin(sleep(READ_PAUSE)));
                    ready!(pause.as_mut().poll(cx));
                    this.pause = None;
                }
                room => break room,
            }
        };
        let most = buf.remaining().min(room);
        let mut part = ReadBuf::new(buf.initialize_unfilled_to(most));
        ready!(Pin::new(&mut this.pipe).poll_read(cx, &mut part))?;
        let read = part.filled().len();
        buf.advance(read);
        this.throttle.take(read);
        Poll::Ready(Ok(()))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::io::{AsyncReadExt as _, repeat};
    use tokio::time::Instant;

    use super::*;
    use crate::limits::tools::{READ_AT_ONCE, READ_PER_PAUSE};

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
        assert_eq!(time_to_read(READ_AT_ONCE).await, Duration::ZERO);
        assert_eq!(time_to_read(READ_AT_ONCE + 1).await, READ_PAUSE);
        let more = READ_AT_ONCE + 100 * READ_PER_PAUSE;
        assert_eq!(time_to_read(more).await, 100 * READ_PAUSE);
    }

    #[tokio::test(start_paused = true)]
    async fn a_program_that_prints_now_and_then_never_waits() {
        let mut output = Throttled::new(repeat(b'x'));
        let mut chunk = vec![0; READ_PER_PAUSE];
        let begun = Instant::now();
        for _ in 0..2 * READ_AT_ONCE / READ_PER_PAUSE {
            output.read_exact(&mut chunk).await.unwrap();
            tokio::time::advance(READ_PAUSE).await;
        }
        let pauses = u32::try_from(2 * READ_AT_ONCE / READ_PER_PAUSE).unwrap();
        assert_eq!(begun.elapsed(), pauses * READ_PAUSE);
    }
}
