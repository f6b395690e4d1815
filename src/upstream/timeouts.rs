//! How long, and for how many bytes, to wait for an answer.
//!
//! There are two clocks. Any byte counts as a sign of life, since servers send comments while
//! they read a long prompt; but a server that never sends any words is stuck, too. Bytes
//! without words are counted as well, so that a server cannot send gigabytes of them. Before
//! the first words, what a server says to others is also a sign of life: see [`Patience`].

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use tokio::task::coop;
use tokio::time::{Instant, Sleep, sleep_until};

use super::Delta;
use super::patience::{Patience, Signs, TimedOut};
use crate::limits::upstream as limits;

/// The most bytes that JSON uses for one byte of text: `\u0001`.
const ESCAPED_BYTES_MAX: usize = 6;

/// How long a round waits for its server.
#[derive(Debug)]
pub(super) struct Timeouts {
    patience: Arc<Patience>,
    signs: Signs,
    /// When to tell waiting requests again that the server is alive.
    next_note: Instant,
    /// Whether words have arrived since the time of the last ones was noted.
    has_spoken: bool,
    /// Bytes so far that no words account for.
    wordless_bytes: usize,
    /// Not reset for every chunk: when it fires, it checks the clocks and sleeps again if need
    /// be.
    timer: Pin<Box<Sleep>>,
    /// When the timer wakes the task, if it has the task's waker.
    armed_for: Option<Instant>,
}

impl Timeouts {
    pub(super) fn new(patience: &Arc<Patience>) -> Self {
        let now = Instant::now();
        let signs = Signs::none(now);
        Self {
            timer: Box::pin(sleep_until(patience.until(&signs))),
            patience: Arc::clone(patience),
            signs,
            next_note: now,
            has_spoken: false,
            wordless_bytes: 0,
            armed_for: None,
        }
    }

    /// Accounts for a chunk, read now. Its words take up to `words_bytes` of it on the wire: the sum
    /// of [`words_bytes`] over its deltas.
    pub(super) fn took(
        &mut self,
        now: Instant,
        chunk_bytes: usize,
        words_bytes: usize,
    ) -> Result<(), TimedOut> {
        if now >= self.next_note {
            self.patience.note_heard(now);
            self.next_note = now + limits::LAST_HEARD_STEP;
        }
        self.has_spoken |= words_bytes > 0;
        self.wordless_bytes = (self.wordless_bytes + chunk_bytes).saturating_sub(words_bytes);
        if self.wordless_bytes > limits::WORDLESS_BYTES_MAX {
            return Err(TimedOut::WordlessBytes(limits::WORDLESS_BYTES_MAX));
        }
        Ok(())
    }

    /// Waits for a timeout. `heard`: the time, if anything has arrived since the last call.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>, heard: Option<Instant>) -> Poll<TimedOut> {
        if let Some(now) = heard {
            self.signs.heard = now;
            if std::mem::take(&mut self.has_spoken) {
                self.signs.spoke = now;
                self.signs.has_begun = true;
            }
            // No wait ends before the timer does. Once it has fired, it wakes nobody until it is reset.
            if self.armed_for.is_some_and(|at| now < at) {
                return Poll::Pending;
            }
            if let Some(end) = self.patience.end(&self.signs, now) {
                return Poll::Ready(end);
            }
        }
        loop {
            // Without budget, the timer does not keep the waker, and the task is polled again at once.
            self.armed_for = coop::has_budget_remaining().then(|| self.timer.deadline());
            ready!(self.timer.as_mut().poll(cx));
            if let Some(end) = self.patience.end(&self.signs, Instant::now()) {
                return Poll::Ready(end);
            }
            self.timer.as_mut().reset(self.patience.until(&self.signs));
        }
    }
}

/// The most bytes that a delta can take on the wire; 0 if it holds no words.
pub(super) const fn words_bytes(delta: &Delta<'_>) -> usize {
    match delta {
        Delta::Text(words) | Delta::Reasoning(words) | Delta::CallArguments { json: words, .. }
            if !words.is_empty() =>
        {
            limits::FRAME_OVERHEAD_BYTES + ESCAPED_BYTES_MAX * words.len()
        }
        Delta::CallStarted { .. } => limits::FRAME_OVERHEAD_BYTES,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::pin::pin;
    use std::time::Duration;

    use tokio::time::{advance, timeout};

    use super::*;

    const IDLE: Duration = Duration::from_secs(3);
    const SECOND: Duration = Duration::from_secs(1);

    /// Polls once; `None` if the wait has not ended.
    async fn poll(timeouts: &mut Timeouts, has_heard: bool) -> Option<TimedOut> {
        poll_fn(|cx| match timeouts.poll(cx, has_heard.then(Instant::now)) {
            Poll::Ready(end) => Poll::Ready(Some(end)),
            Poll::Pending => Poll::Ready(None),
        })
        .await
    }

    #[tokio::test(start_paused = true)]
    async fn silence_ends_the_round_on_time() {
        let begun = Instant::now();
        let mut timeouts = Timeouts::new(&Arc::new(Patience::new(IDLE)));
        let end = poll_fn(|cx| timeouts.poll(cx, None)).await;
        assert_eq!((end, begun.elapsed().as_secs()), (TimedOut::Silent(IDLE), 3));
    }

    /// Bytes may already be there on the first poll; the timer must be armed all the same.
    #[tokio::test(start_paused = true)]
    async fn silence_after_the_first_bytes_ends_the_round() {
        let begun = Instant::now();
        let mut timeouts = Timeouts::new(&Arc::new(Patience::new(IDLE)));
        let mut heard = Some(begun);
        let end = poll_fn(|cx| timeouts.poll(cx, heard.take()));
        // Without the timer, this one wakes the task.
        let end = timeout(IDLE * 2, end).await;
        assert_eq!((end, begun.elapsed()), (Ok(TimedOut::Silent(IDLE)), IDLE));
    }

    /// The timer fires, and bytes arrive before the task is polled: the timer must be armed again.
    #[tokio::test(start_paused = true)]
    async fn silence_after_bytes_that_came_with_the_timer_ends_the_round() {
        let begun = Instant::now();
        let mut timeouts = Timeouts::new(&Arc::new(Patience::new(IDLE)));
        let mut polls = 0;
        let end = poll_fn(|cx| {
            polls += 1;
            timeouts.poll(cx, (polls == 2).then(Instant::now))
        });
        let end = timeout(IDLE * 4, end).await;
        assert_eq!((end, begun.elapsed()), (Ok(TimedOut::Silent(IDLE)), IDLE * 2));
    }

    /// A task that has done much in one poll does not get to its timer, and is polled again instead.
    #[tokio::test(start_paused = true)]
    async fn silence_after_a_flood_of_bytes_ends_the_round() {
        let begun = Instant::now();
        let mut timeouts = Timeouts::new(&Arc::new(Patience::new(IDLE)));
        let mut polls = 0;
        let end = poll_fn(|cx| {
            polls += 1;
            while polls == 1 && pin!(coop::consume_budget()).poll(cx).is_ready() {}
            timeouts.poll(cx, (polls < 3).then_some(begun))
        });
        let end = timeout(IDLE * 2, end).await;
        assert_eq!((end, begun.elapsed()), (Ok(TimedOut::Silent(IDLE)), IDLE));
    }

    #[tokio::test(start_paused = true)]
    async fn bytes_without_words_keep_the_round_alive_only_so_long() {
        for is_polled_without in [true, false] {
            let begun = Instant::now();
            let mut timeouts = Timeouts::new(&Arc::new(Patience::new(IDLE)));
            let end = loop {
                advance(SECOND).await;
                timeouts.took(Instant::now(), 8, 0).unwrap();
                let mut end = poll(&mut timeouts, true).await;
                if is_polled_without && end.is_none() {
                    end = poll(&mut timeouts, false).await;
                }
                if let Some(end) = end {
                    break end;
                }
            };
            let longest = IDLE * limits::WORDLESS_IDLE_TIMEOUTS_MAX;
            assert_eq!(end, TimedOut::Wordless(longest));
            assert_eq!(begun.elapsed().as_secs(), longest.as_secs());
        }
    }

    #[tokio::test(start_paused = true)]
    async fn words_restart_both_waits() {
        let mut timeouts = Timeouts::new(&Arc::new(Patience::new(IDLE)));
        for _ in 0..100 {
            advance(SECOND).await;
            timeouts.took(Instant::now(), 200, words_bytes(&Delta::Text("a"))).unwrap();
            assert_eq!(poll(&mut timeouts, true).await, None);
        }
    }

    /// Only until the first words: an answer that has begun does not wait its turn.
    #[tokio::test(start_paused = true)]
    async fn a_busy_server_may_be_silent_before_the_first_words() {
        let patience = Arc::new(Patience::new(IDLE).while_busy());
        let (mut other, mut waits) = (Timeouts::new(&patience), Timeouts::new(&patience));
        let (mut ends, mut seconds) = (None, 0);
        while ends.is_none() {
            advance(SECOND).await;
            other.took(Instant::now(), 200, words_bytes(&Delta::Text("a"))).unwrap();
            assert_eq!(poll(&mut other, true).await, None);
            ends = poll(&mut waits, false).await;
            seconds += 1;
        }
        let longest = IDLE * limits::WORDLESS_IDLE_TIMEOUTS_MAX;
        assert_eq!((ends, seconds), (Some(TimedOut::Busy(longest)), longest.as_secs()));

        let mut begun = Timeouts::new(&patience);
        begun.took(Instant::now(), 200, words_bytes(&Delta::Text("a"))).unwrap();
        assert_eq!(poll(&mut begun, true).await, None);
        for _ in 0..2 {
            advance(SECOND).await;
            assert_eq!(poll(&mut other, true).await, None);
            assert_eq!(poll(&mut begun, false).await, None);
        }
        advance(SECOND).await;
        assert_eq!(poll(&mut other, true).await, None);
        assert_eq!(poll(&mut begun, false).await, Some(TimedOut::Silent(IDLE)));
    }

    #[tokio::test]
    async fn wordless_bytes_are_taken_up_to_the_limit() {
        let mut timeouts = Timeouts::new(&Arc::new(Patience::new(IDLE)));
        assert_eq!(timeouts.took(Instant::now(), limits::WORDLESS_BYTES_MAX, 0), Ok(()));
        let end = TimedOut::WordlessBytes(limits::WORDLESS_BYTES_MAX);
        assert_eq!(timeouts.took(Instant::now(), 1, 0), Err(end));
    }

    /// Words account for their own bytes, however long, heavily escaped or cut up they are.
    #[tokio::test]
    async fn words_of_any_length_are_not_wordless() {
        let mut timeouts = Timeouts::new(&Arc::new(Patience::new(IDLE)));
        for length in [1, 4, 1000, 100_000] {
            let words = "\u{1}".repeat(length);
            let frame = format!(r#"data: {{"choices":[{{"delta":{{"content":{words:?}}}}}]}}"#);
            let room = words_bytes(&Delta::Text(&words));
            for _ in 0..limits::WORDLESS_BYTES_MAX / length / 4 {
                timeouts.took(Instant::now(), frame.len() / 2, 0).unwrap();
                timeouts.took(Instant::now(), frame.len() - frame.len() / 2, room).unwrap();
            }
            assert_eq!(timeouts.wordless_bytes, 0);
        }
    }

    #[test]
    fn only_words_are_words() {
        assert_eq!(words_bytes(&Delta::Text("")), 0);
        assert_eq!(words_bytes(&Delta::Finish(crate::upstream::RoundFinish::Stop)), 0);
        assert_eq!(words_bytes(&Delta::Usage(crate::event::Usage::default())), 0);
        assert_eq!(words_bytes(&Delta::CallArguments { index: 0, json: "" }), 0);
        assert!(words_bytes(&Delta::Reasoning("a")) > 0);
        assert!(words_bytes(&Delta::CallArguments { index: 0, json: "{" }) > 0);
        assert!(words_bytes(&Delta::CallStarted { index: 0 }) > 0);
    }
}
