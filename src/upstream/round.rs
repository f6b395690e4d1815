//! A running round: feeds the bytes of an answer through the decoders, up to its end.

use std::fmt;
use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};

use tokio::time::Instant;
use tracing::debug;

use super::client::{AnswerBody, Progress};
use super::dialect::{self, Decode};
use super::frame_error::FrameError;
use super::local::LocalAnswer;
use super::patience::{Patience, TimedOut};
use super::prelude::Prelude;
use super::sse;
use super::timeouts::{Timeouts, words_bytes};
use super::{Delta, RoundFailure};
use crate::call_format::CallContract;
use crate::hidden_key::HiddenKey;
use crate::limits::upstream as limits;

/// A model's answer as it arrives.
///
/// Dropping it closes the connection, which ends the generation. What every token needs comes first: see
/// [`Driver`](crate::orchestrator::Driver).
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Round {
    /// `None` once the round has ended.
    source: Option<Source>,
    frames: sse::Decoder,
    /// What arrived before the answer began.
    prelude: Option<Box<Prelude>>,
    events: Box<dyn Decode>,
    timeouts: Timeouts,
    // Each token needs the fields above.
    /// How the model that answers makes calls.
    contract: CallContract,
    starts_in_reasoning: bool,
    /// Whether the model goes on with a message that it was shown.
    is_prefilled: bool,
    /// Whether the server has ever said why a model finished.
    gives_reasons: Option<Arc<AtomicBool>>,
    /// Taken out of errors in the stream.
    hidden_key: Option<HiddenKey>,
}

/// Where the bytes come from.
enum Source {
    Http(AnswerBody),
    Local(LocalAnswer),
}

impl fmt::Debug for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Http(_) => "Http",
            Self::Local(_) => "Local",
        })
    }
}

impl Round {
    /// Creates a round answered by a server. It fails when `patience` with the server is over.
    pub(super) fn http(
        answer: AnswerBody,
        contract: CallContract,
        events: Box<dyn Decode>,
        patience: &Arc<Patience>,
    ) -> Self {
        Self::new(Source::Http(answer), contract, events, patience)
    }

    /// Creates a round answered by a model inside this process.
    #[must_use]
    pub(crate) fn local(answer: LocalAnswer, contract: CallContract) -> Self {
        let decoder = dialect::local_decoder();
        Self::new(
            Source::Local(answer),
            contract,
            decoder,
            &Arc::new(Patience::new(limits::IDLE_TIMEOUT)),
        )
    }

    fn new(
        source: Source,
        contract: CallContract,
        events: Box<dyn Decode>,
        patience: &Arc<Patience>,
    ) -> Self {
        Self {
            contract,
            starts_in_reasoning: false,
            is_prefilled: false,
            source: Some(source),
            frames: sse::Decoder::default(),
            events,
            timeouts: Timeouts::new(patience),
            prelude: None,
            gives_reasons: None,
            hidden_key: None,
        }
    }

    /// How the model that answers makes calls.
    #[must_use]
    pub(crate) const fn contract(&self) -> CallContract {
        self.contract
    }

    /// Notes that the prompt has begun the model's reasoning.
    pub(super) const fn begun_in_reasoning(mut self, starts_in_reasoning: bool) -> Self {
        self.starts_in_reasoning = starts_in_reasoning;
        self
    }

    /// Whether the prompt has begun the model's reasoning.
    #[must_use]
    pub(crate) const fn starts_in_reasoning(&self) -> bool {
        self.starts_in_reasoning
    }

    /// Notes whether the model goes on with a message that it was shown.
    pub(super) const fn prefilled(mut self, is_prefilled: bool) -> Self {
        self.is_prefilled = is_prefilled;
        self
    }

    /// Whether the model goes on with a message that it was shown.
    #[must_use]
    pub(crate) const fn is_prefilled(&self) -> bool {
        self.is_prefilled
    }

    /// The model that answers, by the name that the server has for it, if the server says so.
    #[must_use]
    pub(crate) fn model(&self) -> Option<&str> {
        self.events.model()
    }

    /// Shares what is known about whether the server gives finish reasons.
    pub(super) fn with_reasons(mut self, gives_reasons: Arc<AtomicBool>) -> Self {
        self.gives_reasons = Some(gives_reasons);
        self
    }

    /// Hides this key in the errors that the server reports in its stream.
    pub(super) fn hiding(mut self, key: Option<HiddenKey>) -> Self {
        self.hidden_key = key;
        self
    }

    /// Waits until the model begins to answer, or ends successfully without saying anything.
    /// The next poll delivers what has arrived by then.
    ///
    /// # Errors
    /// If the round breaks off first. None of it has been passed on.
    pub(super) async fn begin(&mut self) -> Result<(), RoundFailure> {
        let mut prelude = Prelude::default();
        poll_fn(|cx| {
            let mut more = false;
            match self.poll(cx, Instant::now(), &mut more, |delta| prelude.keep(delta)) {
                Poll::Ready(Err(failure)) if !prelude.has_begun() => {
                    return Poll::Ready(Err(failure));
                }
                Poll::Ready(end) => prelude.end(end),
                Poll::Pending if prelude.has_begun() => {}
                Poll::Pending => {
                    if more {
                        cx.waker().wake_by_ref();
                    }
                    return Poll::Pending;
                }
            }
            Poll::Ready(Ok(()))
        })
        .await?;
        self.prelude = Some(Box::new(prelude));
        Ok(())
    }

    /// Whether the model had said anything when the answer began.
    pub(super) fn has_words(&self) -> bool {
        self.prelude.as_ref().is_some_and(|prelude| prelude.has_begun())
    }

    /// Passes on everything that has arrived, up to [`limits::BATCH_BYTES_MAX`].
    ///
    /// `Ready` is the end of the round. `Pending` with `more` set to true means that more may
    /// be available now, and that the task will not be woken for it.
    ///
    /// # Errors
    /// If the round broke off; see [`RoundFailure`]. Do not poll it again.
    pub(crate) fn poll(
        &mut self,
        cx: &mut Context<'_>,
        now: Instant,
        more: &mut bool,
        mut sink: impl FnMut(Delta<'_>),
    ) -> Poll<Result<(), RoundFailure>> {
        if let Some(prelude) = self.prelude.take()
            && let Some(end) = prelude.hand_on(&mut sink)
        {
            return Poll::Ready(end);
        }
        let mut taken = 0;
        while taken < limits::BATCH_BYTES_MAX {
            let read = match self.read(cx, &mut sink) {
                Poll::Ready(read) => read?,
                Poll::Pending => return self.wait(cx, (taken > 0).then_some(now)),
            };
            taken += read.bytes;
            if let Err(end) = self.timeouts.took(now, read.bytes, read.words) {
                return Poll::Ready(self.give_up(end));
            }
            if self.events.is_done() {
                self.finish();
                return Poll::Ready(self.end_as_announced());
            }
            if read.progress == Progress::End {
                return Poll::Ready(self.end_of_body());
            }
        }
        *more = true;
        self.wait(cx, Some(now))
    }

    /// Waits for more. `heard`: the time of this poll, if it read anything.
    fn wait(
        &mut self,
        cx: &mut Context<'_>,
        heard: Option<Instant>,
    ) -> Poll<Result<(), RoundFailure>> {
        self.timeouts.poll(cx, heard).map(|end| self.give_up(end))
    }

    /// Once the model has finished, the round succeeds whatever the server does next.
    fn give_up(&mut self, end: TimedOut) -> Result<(), RoundFailure> {
        self.source = None;
        if self.events.is_finished() { Ok(()) } else { Err(RoundFailure::timed_out(end)) }
    }

    /// Reads once what has arrived, and decodes it.
    fn read(
        &mut self,
        cx: &mut Context<'_>,
        sink: &mut impl FnMut(Delta<'_>),
    ) -> Poll<Result<Read, RoundFailure>> {
        let Self { source, frames, events, hidden_key, .. } = self;
        let (mut bytes, mut words, mut decoded) = (0, 0, Ok(()));
        let mut decode = |piece: &[u8]| {
            bytes += piece.len();
            if decoded.is_ok() {
                decoded = decode(frames, events.as_mut(), piece, &mut |delta| {
                    words += words_bytes(&delta);
                    sink(delta);
                });
            }
        };
        let read = match source {
            None => Ok(Progress::End),
            Some(Source::Local(stream)) => match ready!(stream.as_mut().poll_next(cx)) {
                None => Ok(Progress::End),
                Some(chunk) => {
                    decode(&chunk);
                    Ok(Progress::More)
                }
            },
            Some(Source::Http(answer)) => ready!(answer.poll_read(cx, decode)),
        };
        Poll::Ready(match (decoded, read) {
            // The model has finished: what follows can be anything.
            (Err(failure), _) if events.is_finished() => {
                debug!(reason = %failure.message, "ignored what came after the model had finished");
                Ok(Read { bytes, words, progress: Progress::End })
            }
            (Err(failure), _) => Err(match hidden_key {
                Some(key) => failure.hidden(|said| key.hide(said)),
                None => failure,
            }),
            (Ok(()), Ok(progress)) => Ok(Read { bytes, words, progress }),
            // The model has finished; only its connection broke.
            (Ok(()), Err(_)) if events.is_finished() => {
                Ok(Read { bytes, words, progress: Progress::End })
            }
            (Ok(()), Err(error)) => Err(RoundFailure::broken(&error)),
        })
    }

    /// The server says that nothing follows. Some servers never say why their models finish; where one does, an answer
    /// without a reason was cut off: llama-cpp-python ends one in the middle if another request comes.
    fn end_as_announced(&self) -> Result<(), RoundFailure> {
        let Some(gives_reasons) = &self.gives_reasons else { return Ok(()) };
        if self.events.is_finished() {
            gives_reasons.store(true, Ordering::Relaxed);
            return Ok(());
        }
        if gives_reasons.load(Ordering::Relaxed) {
            Err(RoundFailure::ended_early())
        } else {
            Ok(())
        }
    }

    /// A body may end without its last frame, or break off there, but not before the model has finished.
    fn end_of_body(&mut self) -> Result<(), RoundFailure> {
        self.source = None;
        if self.events.is_finished() { Ok(()) } else { Err(RoundFailure::ended_early()) }
    }

    fn finish(&mut self) {
        if let Some(Source::Http(answer)) = self.source.take() {
            answer.finish();
        }
    }
}

/// What one read returned.
struct Read {
    /// Bytes of the body.
    bytes: usize,
    /// How many of them can be words at most: see [`words_bytes`].
    words: usize,
    progress: Progress,
}

/// Decodes a piece of the body, up to the last event.
fn decode(
    frames: &mut sse::Decoder,
    events: &mut dyn Decode,
    mut piece: &[u8],
    sink: &mut dyn FnMut(Delta<'_>),
) -> Result<(), RoundFailure> {
    while !events.is_done()
        && let Some(frame) = frames.next_frame(&mut piece).map_err(RoundFailure::unreadable)?
    {
        match events.decode(&frame, sink) {
            Ok(()) => {}
            Err(FrameError::Server(error)) => return Err(RoundFailure::reported(error)),
            Err(error) => return Err(RoundFailure::unreadable(error)),
        }
    }
    Ok(())
}
