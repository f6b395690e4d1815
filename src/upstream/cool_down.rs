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
    pub(super) fn try_again(&mut self, now: Instant) {
        if let Some(failed) = &mut self.failed
            && now >= failed.until
        {
            failed.until = now + failed.wait;
        }
    }

    /// Records that an attempt which began at `asked` failed. Returns how long others now go
    /// first, or `None` if a failure was recorded after `asked`: turns that fail together count
    /// once.
    pub(super) fn fail(&mut self, asked: Instant, now: Instant) -> Option<Duration> {
        let wait = match self.failed {
            Some(failed) if asked < failed.at => return None,
            Some(failed) => (failed.wait * 2).min(COOL_DOWN_MAX),
            None => COOL_DOWN,
        };
        self.failed = Some(Failed { at: now, wait, until: now + wait });
        Some(wait)
    }

    /// Records that it was reached. Returns whether it was cooling down.
    pub(super) fn end(&mut self) -> bool {
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
            assert_eq!(cool_down.fail(now, now), Some(expected));
            assert!(cool_down.is_on(now + expected - MILLISECOND));
            assert!(!cool_down.is_on(now + expected));
            now += expected;
            expected = (expected * 2).min(COOL_DOWN_MAX);
        }
        assert_eq!(expected, COOL_DOWN_MAX);
        assert!(cool_down.end());
        assert!(!cool_down.end() && !cool_down.is_on(now));
        assert_eq!(cool_down.fail(now, now), Some(COOL_DOWN), "from the start again");
    }

    #[test]
    fn those_who_asked_before_it_was_known_count_once() {
        let asked = Instant::now();
        let mut cool_down = CoolDown::default();
        assert_eq!(cool_down.fail(asked, asked + MILLISECOND), Some(COOL_DOWN));
        assert_eq!(cool_down.fail(asked, asked + MILLISECOND), None);
        assert_eq!(cool_down.fail(asked, asked + COOL_DOWN_MAX), None);
        let later = asked + MILLISECOND;
        assert_eq!(cool_down.fail(later, later), Some(COOL_DOWN * 2));
    }

    #[test]
    fn when_the_time_is_over_one_tries_and_the_rest_wait_for_it() {
        let begun = Instant::now();
        let mut cool_down = CoolDown::default();
        cool_down.fail(begun, begun);
        let over = begun + COOL_DOWN;
        cool_down.try_again(over - MILLISECOND);
        assert!(!cool_down.is_on(over), "who asks before that changes nothing");
        cool_down.try_again(over);
        assert!(cool_down.is_on(over));
        // The attempt never reported back.
        assert!(!cool_down.is_on(over + COOL_DOWN));
    }
}
