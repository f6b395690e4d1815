//! The cool-down of an upstream that failed to answer: how long others are asked first.
//!
//! Pure: the time is an argument. If there are no others, the upstream is asked anyway.

use std::time::Duration;

use tokio::time::Instant;

use crate::limits::upstream::{COOL_DOWN, COOL_DOWN_MAX};

/// The cool-down of one upstream.
#[derive(Debug, Default)]
pub(super) struct CoolDown {
    /// `None` while it can be reached.
    failed: Option<Failed>,
}

#[derive(Debug, Clone, Copy)]
struct Failed {
    at: Instant,
    /// How long others go first, counted from `at`.
    wait: Duration,
    until: Instant,
}

impl CoolDown {
    /// Whether others should be asked first.
    pub(super) fn is_on(&self, now: Instant) -> bool {
        self.failed.is_some_and(|failed| now < failed.until)
    }

    /// Announces an attempt. If the cool-down has run out, it starts again with the same
    /// length, so that other turns need not wait for this attempt.
    pub(super) fn begin_attempt(&mut self, now: Instant) {
        if let Some(failed) = &mut self.failed
            && now >= failed.until
        {
            failed.until = now + failed.wait;
        }
    }

    /// Records that an attempt which began at `asked` failed. Returns how long others now go
    /// first, or `None` if a failure was recorded after `asked`: turns that fail together count
    /// once.
    pub(super) fn record_failure(&mut self, asked: Instant, now: Instant) -> Option<Duration> {
        let wait = match self.failed {
            Some(failed) if asked < failed.at => return None,
            Some(failed) => (failed.wait * 2).min(COOL_DOWN_MAX),
            None => COOL_DOWN,
        };
        self.failed = Some(Failed { at: now, wait, until: now + wait });
        Some(wait)
    }

    /// Records that it was reached. Returns whether it was cooling down.
    pub(super) fn record_success(&mut self) -> bool {
        self.failed.take().is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MILLISECOND: Duration = Duration::from_millis(1);

    #[test]
    fn each_failure_doubles_the_wait_up_to_its_bound() {
        let mut now = Instant::now();
        let mut cool_down = CoolDown::default();
        assert!(!cool_down.is_on(now));
        let mut expected = COOL_DOWN;
        for _ in 0..10 {
            assert_eq!(cool_down.record_failure(now, now), Some(expected));
            assert!(cool_down.is_on(now + expected - MILLISECOND));
            assert!(!cool_down.is_on(now + expected));
            now += expected;
            expected = (expected * 2).min(COOL_DOWN_MAX);
        }
        assert_eq!(expected, COOL_DOWN_MAX);
        assert!(cool_down.record_success());
        assert!(!cool_down.record_success() && !cool_down.is_on(now));
        assert_eq!(cool_down.record_failure(now, now), Some(COOL_DOWN), "from the start again");
    }

    #[test]
    fn concurrent_failures_count_once() {
        let asked = Instant::now();
        let mut cool_down = CoolDown::default();
        assert_eq!(cool_down.record_failure(asked, asked + MILLISECOND), Some(COOL_DOWN));
        assert_eq!(cool_down.record_failure(asked, asked + MILLISECOND), None);
        assert_eq!(cool_down.record_failure(asked, asked + COOL_DOWN_MAX), None);
        let later = asked + MILLISECOND;
        assert_eq!(cool_down.record_failure(later, later), Some(COOL_DOWN * 2));
    }

    #[test]
    fn after_the_cool_down_one_attempt_runs_and_the_rest_wait() {
        let begun = Instant::now();
        let mut cool_down = CoolDown::default();
        cool_down.record_failure(begun, begun);
        let over = begun + COOL_DOWN;
        cool_down.begin_attempt(over - MILLISECOND);
        assert!(!cool_down.is_on(over), "who asks before that changes nothing");
        cool_down.begin_attempt(over);
        assert!(cool_down.is_on(over));
        // The attempt never reported back.
        assert!(!cool_down.is_on(over + COOL_DOWN));
    }
}
