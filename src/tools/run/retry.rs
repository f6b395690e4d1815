//! Whether and when to retry a call that failed for a transient reason.

use std::time::Duration;

use crate::limits::tools::{ATTEMPTS_MAX, RETRY_AFTER_MAX, RETRY_BACKOFF};

/// The wait after `attempt` (from 1) failed for a transient reason; `None` if there is no retry.
///
/// It is half the current step, which doubles with each attempt, plus a share of the other half
/// given by `jitter` (0 to 1), so that calls that failed together do not come back together. If
/// the other side asks for a longer wait, that replaces the first half; if it asks for more than
/// [`RETRY_AFTER_MAX`], there is no retry.
pub(super) fn wait(
    attempt: u32,
    retry_after: Option<Duration>,
    jitter: impl FnOnce() -> f64,
) -> Option<Duration> {
    if attempt >= ATTEMPTS_MAX || retry_after.is_some_and(|asked| asked > RETRY_AFTER_MAX) {
        return None;
    }
    let half = RETRY_BACKOFF * 2_u32.pow(attempt - 1) / 2;
    let least = retry_after.map_or(half, |asked| asked.max(half));
    Some(least + half.mul_f64(jitter()))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::tools::Policy;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn only_reads_and_idempotent_calls_are_repeatable() {
        for (mutates, idempotent, repeatable) in
            [(false, false, true), (false, true, true), (true, false, false), (true, true, true)]
        {
            let policy = Policy { mutates, idempotent, ..Policy::default() };
            assert_eq!(policy.may_run_again(), repeatable, "{policy:?}");
        }
    }

    #[test]
    fn the_wait_doubles_until_the_attempts_are_used_up() {
        let waits: Vec<_> = (1..=4).map(|attempt| wait(attempt, None, || 1.0)).collect();
        assert_eq!(waits, [Some(250 * MS), Some(500 * MS), None, None]);
        assert_eq!(wait(1, None, || 0.0), Some(125 * MS));
    }

    #[test]
    fn a_requested_wait_is_kept_up_to_the_bound() {
        let wait = |asked| wait(1, Some(asked), || 0.0);
        assert_eq!(wait(RETRY_AFTER_MAX), Some(RETRY_AFTER_MAX));
        assert_eq!(wait(RETRY_AFTER_MAX + MS), None);
        assert_eq!(wait(Duration::MAX), None);
        assert_eq!(wait(Duration::ZERO), Some(125 * MS), "never sooner than without");
    }

    proptest! {
        #[test]
        fn a_wait_is_the_requested_one_and_at_most_half_a_step_more(
            attempt in 1..ATTEMPTS_MAX,
            asked in proptest::option::of(0..=RETRY_AFTER_MAX.as_millis()),
            jitter in 0.0..=1.0,
        ) {
            let asked = asked.map(|ms| Duration::from_millis(u64::try_from(ms).unwrap()));
            let wait = wait(attempt, asked, || jitter).unwrap();
            let half = RETRY_BACKOFF * 2_u32.pow(attempt) / 4;
            let least = asked.unwrap_or_default().max(half);
            prop_assert!((least..=least + half).contains(&wait), "{:?}", wait);
        }
    }
}
