//! When a server is reconnected: at once if it had been connected, then after growing pauses.

use std::collections::VecDeque;
use std::time::Duration;

use tokio::time::Instant;

use crate::limits::mcp as limits;

/// How often a server was connected, and how that went.
#[derive(Debug, Default)]
pub(in crate::tools::mcp) struct Restarts {
    /// When it was restarted lately.
    recent: VecDeque<Instant>,
    /// How many times in a row it did not stay.
    in_a_row: u32,
    healthy_since: Option<Instant>,
    was_there: bool,
}

impl Restarts {
    /// The server is connected. Returns whether it had been connected before.
    pub(in crate::tools::mcp) fn began(&mut self, now: Instant) -> bool {
        self.healthy_since = Some(now);
        std::mem::replace(&mut self.was_there, true)
    }

    pub(in crate::tools::mcp) fn has_given_up(&self) -> bool {
        self.recent.len() >= limits::RESTARTS_MAX
    }

    /// How long to wait for the answer of a server that had been connected before: longer with each attempt.
    pub(in crate::tools::mcp) fn patience(&self) -> Option<Duration> {
        let longer = 2_u32.saturating_pow(self.in_a_row.saturating_sub(1));
        self.was_there.then(|| limits::RECONNECT_WAIT.saturating_mul(longer))
    }

    /// How long to wait before it is connected again.
    pub(in crate::tools::mcp) fn pause(&mut self, now: Instant) -> Duration {
        let health = self.healthy_since.take().map(|since| now.duration_since(since));
        if health.is_some_and(|health| health >= limits::HEALTHY_AFTER) {
            self.in_a_row = 0;
        }
        while self
            .recent
            .front()
            .is_some_and(|then| now.duration_since(*then) > limits::RESTARTS_WITHIN)
        {
            self.recent.pop_front();
        }
        if self.has_given_up() {
            self.recent.clear();
            self.in_a_row = 0;
            return limits::RESTARTS_PAUSE;
        }
        self.recent.push_back(now);
        let pause = match self.in_a_row {
            0 if health.is_some() => Duration::ZERO,
            steps => step(steps),
        };
        self.in_a_row += 1;
        apart(pause)
    }
}

/// Pauses between attempts to keep something that a server ends again and again.
#[derive(Debug, Default)]
pub(super) struct Backoff {
    in_a_row: u32,
}

impl Backoff {
    /// How long to wait after it has lasted for this long.
    pub(super) fn pause(&mut self, lasted: Duration) -> Duration {
        if lasted >= limits::HEALTHY_AFTER {
            self.in_a_row = 0;
        }
        self.in_a_row = self.in_a_row.saturating_add(1);
        apart(step(self.in_a_row))
    }
}

/// 1 s, 2 s, 4 s and so on, counted from 1.
fn step(number: u32) -> Duration {
    (Duration::from_secs(1) * 2_u32.saturating_pow(number.saturating_sub(1).min(6)))
        .min(limits::RESTART_BACKOFF_MAX)
}

/// A little longer: servers that went down together should not all be reconnected together.
fn apart(pause: Duration) -> Duration {
    pause.mul_f64(1.0 + f64::from(uuid::Uuid::new_v4().as_bytes()[0]) / 1024.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Pauses without their jitter.
    fn pause(restarts: &mut Restarts, now: Instant) -> u64 {
        let pause = restarts.pause(now);
        let whole = pause.as_secs();
        assert!(pause <= Duration::from_secs(whole).mul_f64(1.25), "{pause:?}");
        whole
    }

    #[test]
    fn pauses_grow_until_the_server_stays() {
        let mut restarts = Restarts::default();
        let mut now = Instant::now();
        restarts.began(now);
        assert_eq!(pause(&mut restarts, now), 0, "it had been there");
        for expected in [1, 2, 4, 8] {
            now += Duration::from_secs(1);
            let pause = restarts.pause(now).as_secs_f64();
            assert!((f64::from(expected)..f64::from(expected) * 1.25).contains(&pause), "{pause}");
        }
        restarts.began(now);
        now += limits::HEALTHY_AFTER;
        assert_eq!(pause(&mut restarts, now), 0, "all is forgotten");
    }

    #[test]
    fn a_server_that_was_there_gets_more_time_with_each_attempt() {
        let mut restarts = Restarts::default();
        let now = Instant::now();
        restarts.pause(now);
        assert_eq!(restarts.patience(), None, "it may have to be set up first");
        restarts.began(now);
        for times in [1, 2, 4] {
            restarts.pause(now + limits::HEALTHY_AFTER);
            assert_eq!(restarts.patience(), Some(limits::RECONNECT_WAIT * times));
        }
    }

    #[test]
    fn what_lasts_is_begun_again_soon() {
        let mut backoff = Backoff::default();
        let mut pause = |lasted| backoff.pause(lasted).as_secs_f64();
        for expected in [1.0, 2.0, 4.0] {
            assert!((expected..expected * 1.25).contains(&pause(Duration::ZERO)), "{expected}");
        }
        assert!((1.0..1.25).contains(&pause(limits::HEALTHY_AFTER)));
    }

    #[test]
    fn a_server_that_never_stays_is_left_alone_for_a_while() {
        let mut restarts = Restarts::default();
        let now = Instant::now();
        for _ in 0..limits::RESTARTS_MAX {
            assert!(!restarts.has_given_up());
            assert!(restarts.pause(now) <= limits::RESTART_BACKOFF_MAX.mul_f64(1.25));
        }
        assert!(restarts.has_given_up());
        assert_eq!(restarts.pause(now), limits::RESTARTS_PAUSE);
        assert!(!restarts.has_given_up());

        let mut restarts = Restarts::default();
        for at in 0..limits::RESTARTS_MAX * 2 {
            let apart = limits::RESTARTS_WITHIN / u32::try_from(limits::RESTARTS_MAX - 1).unwrap();
            let now = now + apart * u32::try_from(at).unwrap();
            assert!(restarts.pause(now) < limits::RESTARTS_PAUSE, "they are far apart");
        }
    }
}
