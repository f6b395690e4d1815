//! How long to wait for a server that says nothing.
//!
//! A server that answers so many requests at a time lets the others wait, without a word. While it
//! is heard on other connections, it is not dead but busy:
//!
//! ```text
//!   another request   w w w w w w w w w w w w w w w end
//!   this one          asked ............................ w w w w w w
//!                           |<-- longer than idle -->|
//! ```

use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::time::{Instant, timeout_at};

use crate::limits::upstream as limits;

/// How long to wait for a server that says nothing.
#[derive(Debug)]
pub(super) struct Patience {
    /// The longest silence.
    idle: Duration,
    /// The longest wait for words, whatever else arrives meanwhile.
    longest: Duration,
    /// When the server was last heard by any request; kept if a busy server is waited for.
    server: Option<LastHeard>,
}

/// Why the wait for a server ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TimedOut {
    /// No byte came for this long.
    Silent(Duration),
    /// The server answered others for this long, but not this request.
    Busy(Duration),
    /// Bytes came, but no words for this long.
    Wordless(Duration),
    /// More than this many bytes came without words.
    WordlessBytes(usize),
}

/// No head of an answer came in time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Unanswered {
    pub(super) after: Duration,
    /// Whether the server answered others meanwhile.
    pub(super) is_busy: bool,
}

/// What a request has heard of its server.
#[derive(Debug)]
pub(super) struct Signs {
    /// When the last words arrived, or the wait for them began.
    pub(super) spoke: Instant,
    /// When the last byte arrived.
    pub(super) heard: Instant,
    /// Whether words have arrived.
    pub(super) has_begun: bool,
}

impl Signs {
    /// A request that is made now.
    pub(super) const fn none(now: Instant) -> Self {
        Self { spoke: now, heard: now, has_begun: false }
    }
}

impl Patience {
    /// Gives a server up after a silence of this length, whatever it says to others.
    pub(super) fn new(idle: Duration) -> Self {
        Self { idle, longest: idle * limits::WORDLESS_IDLE_TIMEOUTS_MAX, server: None }
    }

    /// Until the first words, waits for the server while it answers other requests with this patience.
    pub(super) fn while_busy(self) -> Self {
        Self { server: Some(LastHeard::default()), ..self }
    }

    /// Waits for the head of an answer that is asked for now.
    pub(super) async fn wait<T>(&self, answer: impl Future<Output = T>) -> Result<T, Unanswered> {
        let signs = Signs::none(Instant::now());
        let mut answer = pin!(answer);
        loop {
            if let Ok(answer) = timeout_at(self.until(&signs), &mut answer).await {
                self.note_heard(Instant::now());
                return Ok(answer);
            }
            match self.end(&signs, Instant::now()) {
                None => {}
                Some(TimedOut::Silent(after)) => return Err(Unanswered { after, is_busy: false }),
                Some(_) => return Err(Unanswered { after: self.longest, is_busy: true }),
            }
        }
    }

    /// Notes that the server was heard.
    pub(super) fn note_heard(&self, now: Instant) {
        if let Some(server) = &self.server {
            server.note(now);
        }
    }

    /// When the wait will be over, as far as is known.
    pub(super) fn until(&self, signs: &Signs) -> Instant {
        (self.alive(signs) + self.idle).min(signs.spoke + self.longest)
    }

    /// Why the wait is over, if it is.
    pub(super) fn end(&self, signs: &Signs, now: Instant) -> Option<TimedOut> {
        if now >= self.alive(signs) + self.idle {
            Some(TimedOut::Silent(self.idle))
        } else if now < signs.spoke + self.longest {
            None
        } else if now >= signs.heard + self.idle {
            Some(TimedOut::Busy(self.longest))
        } else {
            Some(TimedOut::Wordless(self.longest))
        }
    }

    /// The server's last sign of life.
    fn alive(&self, signs: &Signs) -> Instant {
        match &self.server {
            Some(server) if !signs.has_begun => server.get().max(signs.heard),
            _ => signs.heard,
        }
    }
}

/// When a server was last heard, on any connection to it.
#[derive(Debug)]
pub(super) struct LastHeard {
    since: Instant,
    /// Milliseconds from `since`.
    after: AtomicU64,
}

impl Default for LastHeard {
    fn default() -> Self {
        Self { since: Instant::now(), after: AtomicU64::new(0) }
    }
}

impl LastHeard {
    /// Written seldom, since all threads that read answers share it.
    fn note(&self, now: Instant) {
        let after = millis(now.saturating_duration_since(self.since));
        let known = self.after.load(Ordering::Relaxed);
        if after >= known + millis(limits::LAST_HEARD_STEP) {
            self.after.store(after, Ordering::Relaxed);
        }
    }

    fn get(&self) -> Instant {
        self.since + Duration::from_millis(self.after.load(Ordering::Relaxed))
    }
}

fn millis(duration: Duration) -> u64 {
    duration.as_millis().try_into().unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};

    use tokio::time::{advance, sleep};

    use super::*;

    const IDLE: Duration = Duration::from_secs(3);
    const SECOND: Duration = Duration::from_secs(1);

    /// Waits in vain while the server is heard by others at these seconds. Returns why that ended, and after how many.
    async fn waits_in_vain(patience: Patience, heard: &[u64]) -> (Unanswered, u64) {
        let begun = Instant::now();
        let others = async {
            for second in heard {
                tokio::time::sleep_until(begun + SECOND * u32::try_from(*second).unwrap()).await;
                patience.note_heard(Instant::now());
            }
            pending::<()>().await;
        };
        tokio::select! {
            end = patience.wait(pending::<()>()) => (end.unwrap_err(), begun.elapsed().as_secs()),
            () = others => unreachable!("it never ends"),
        }
    }

    const fn silent() -> Unanswered {
        Unanswered { after: IDLE, is_busy: false }
    }

    #[tokio::test(start_paused = true)]
    async fn a_silent_server_is_given_up() {
        for patience in [Patience::new(IDLE), Patience::new(IDLE).while_busy()] {
            assert_eq!(waits_in_vain(patience, &[]).await, (silent(), 3));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_busy_server_is_waited_for_until_it_is_silent() {
        let patience = || Patience::new(IDLE).while_busy();
        assert_eq!(waits_in_vain(patience(), &[2, 4, 5, 7]).await, (silent(), 10));
        assert_eq!(waits_in_vain(patience(), &[2, 6]).await, (silent(), 5), "at 6 it was over");
    }

    #[tokio::test(start_paused = true)]
    async fn a_busy_server_is_waited_for_only_so_long() {
        let seconds: Vec<u64> = (1..100).collect();
        let patience = Patience::new(IDLE).while_busy();
        let longest = IDLE * limits::WORDLESS_IDLE_TIMEOUTS_MAX;
        let busy = Unanswered { after: longest, is_busy: true };
        assert_eq!(waits_in_vain(patience, &seconds).await, (busy, longest.as_secs()));
    }

    #[tokio::test(start_paused = true)]
    async fn a_busy_server_is_not_waited_for_unless_asked() {
        assert_eq!(waits_in_vain(Patience::new(IDLE), &[1, 2, 3, 4]).await, (silent(), 3));
    }

    /// It was heard long ago, for another request.
    #[tokio::test(start_paused = true)]
    async fn a_wait_begins_when_it_begins() {
        let patience = Patience::new(IDLE).while_busy();
        patience.note_heard(Instant::now());
        advance(SECOND * 10).await;
        assert_eq!(waits_in_vain(patience, &[]).await, (silent(), 3));
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_ends_the_wait() {
        let patience = Patience::new(IDLE);
        assert_eq!(patience.wait(ready(1)).await, Ok(1));
        assert_eq!(patience.wait(sleep(SECOND)).await, Ok(()));
    }

    /// What the round that has heard the server knows itself is exact; for others, it is near enough.
    #[tokio::test(start_paused = true)]
    async fn the_time_is_written_once_in_a_while() {
        let heard = LastHeard::default();
        let begun = Instant::now();
        for (after, known) in [(1, 0), (49, 0), (50, 50), (99, 50), (120, 120)] {
            heard.note(begun + Duration::from_millis(after));
            assert_eq!(heard.get() - begun, Duration::from_millis(known), "{after}");
        }
    }
}
