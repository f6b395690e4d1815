//! A running round: an answer's bytes through the decoders, until its end.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use tokio::time::{Instant, Sleep, sleep};
use tokio_stream::Stream;

use super::client::Answer;
use super::openai_chat::{self, FrameError};
use super::sse;
use super::{Delta, RoundFailure};
use crate::limits::upstream as limits;

/// A model's answer, arriving.
///
/// Dropping it drops the connection, and with it the generation.
#[derive(Debug)]
pub struct Round {
    /// Gone once the round has ended.
    source: Option<Source>,
    frames: sse::Decoder,
    chat: openai_chat::Decoder,
    silence: Silence,
}

/// Where the bytes come from.
enum Source {
    Http(Box<Answer>),
    Embedded(Pin<Box<dyn Stream<Item = Bytes> + Send>>),
}

impl fmt::Debug for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Http(_) => "Http",
            Self::Embedded(_) => "Embedded",
        })
    }
}

impl Round {
    /// A round that a server answers. It fails after `idle_timeout` of silence.
    #[must_use]
    pub fn http(answer: Answer, idle_timeout: Duration) -> Self {
        Self::new(Source::Http(Box::new(answer)), idle_timeout)
    }

    /// A round of the rehearsal model.
    #[must_use]
    pub fn embedded(stream: impl Stream<Item = Bytes> + Send + 'static) -> Self {
        Self::new(Source::Embedded(Box::pin(stream)), limits::IDLE_TIMEOUT)
    }

    fn new(source: Source, idle_timeout: Duration) -> Self {
        Self {
            source: Some(source),
            frames: sse::Decoder::default(),
            chat: openai_chat::Decoder::default(),
            silence: Silence::new(idle_timeout),
        }
    }

    /// Hands on all that has arrived, up to [`limits::BATCH_BYTES_MAX`].
    ///
    /// `Ready` is the end of the round; `Pending` with `more` set to true means
    /// that there may be more right now, and nobody will wake the task for it.
    ///
    /// # Errors
    /// The round broke off; see [`RoundFailure`]. It is not to be polled again.
    pub fn poll(
        &mut self,
        cx: &mut Context<'_>,
        more: &mut bool,
        mut sink: impl FnMut(Delta<'_>),
    ) -> Poll<Result<(), RoundFailure>> {
        let mut taken = 0;
        while taken < limits::BATCH_BYTES_MAX {
            let chunk = match self.poll_chunk(cx) {
                Poll::Ready(chunk) => chunk?,
                Poll::Pending if taken > 0 => {
                    self.silence.broken();
                    return Poll::Pending;
                }
                Poll::Pending => return self.silence.poll(cx).map(Err),
            };
            let Some(chunk) = chunk else {
                return Poll::Ready(self.end_of_body());
            };
            taken += chunk.len();
            self.decode(&chunk, &mut sink)?;
            if self.chat.is_done() {
                self.finish();
                return Poll::Ready(Ok(()));
            }
        }
        self.silence.broken();
        *more = true;
        Poll::Pending
    }

    fn poll_chunk(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Bytes>, RoundFailure>> {
        match &mut self.source {
            None => Poll::Ready(Ok(None)),
            Some(Source::Embedded(stream)) => stream.as_mut().poll_next(cx).map(Ok),
            Some(Source::Http(answer)) => answer
                .poll_chunk(cx)
                .map(|chunk| chunk.transpose().map_err(|error| RoundFailure::broken(&error))),
        }
    }

    fn decode(
        &mut self,
        chunk: &[u8],
        sink: &mut impl FnMut(Delta<'_>),
    ) -> Result<(), RoundFailure> {
        let mut rest = chunk;
        while let Some(frame) = self.frames.next_frame(&mut rest).map_err(RoundFailure::garbage)? {
            match self.chat.decode(&frame, &mut *sink) {
                Ok(()) => {}
                Err(FrameError::Server(error)) => return Err(RoundFailure::reported(&error)),
                Err(error @ FrameError::Malformed) => return Err(RoundFailure::garbage(error)),
            }
            if self.chat.is_done() {
                break;
            }
        }
        Ok(())
    }

    /// A body may end without `[DONE]`, but not before the model has finished.
    fn end_of_body(&mut self) -> Result<(), RoundFailure> {
        self.source = None;
        if self.chat.is_finished() { Ok(()) } else { Err(RoundFailure::ended_early()) }
    }

    fn finish(&mut self) {
        if let Some(Source::Http(answer)) = self.source.take() {
            answer.finish();
        }
    }
}

/// How long nothing has come. The timer is not moved with every chunk: when it
/// fires, it looks at when the last one came, and sleeps on.
#[derive(Debug)]
struct Silence {
    longest: Duration,
    since: Instant,
    timer: Pin<Box<Sleep>>,
}

impl Silence {
    fn new(longest: Duration) -> Self {
        Self { longest, since: Instant::now(), timer: Box::pin(sleep(longest)) }
    }

    fn broken(&mut self) {
        self.since = Instant::now();
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<RoundFailure> {
        while self.timer.as_mut().poll(cx).is_ready() {
            let end = self.since + self.longest;
            if end <= Instant::now() {
                return Poll::Ready(RoundFailure::silent(self.longest));
            }
            self.timer.as_mut().reset(end);
        }
        Poll::Pending
    }
}
