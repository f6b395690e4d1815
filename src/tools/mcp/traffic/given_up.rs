//! Calls that were given up before the server answered them.
//!
//! A server need not stop when a call is cancelled. Until it answers, it may still ask something on
//! behalf of that call, and over a shared connection the question looks like one of another call.

use std::collections::VecDeque;
use std::sync::Arc;

use rmcp::model::RequestId;
use tokio::time::Instant;

use crate::limits::mcp::{GIVEN_UP_AGE, GIVEN_UP_CALLS_MAX};

/// The calls of one connection that were given up. They are forgotten after a while, or once the
/// server has answered.
#[derive(Debug, Default)]
pub(super) struct GivenUp {
    /// The oldest first.
    calls: VecDeque<Call>,
    /// When there was last no room for a call.
    overflowed_at: Option<Instant>,
}

#[derive(Debug)]
struct Call {
    id: RequestId,
    session: Arc<str>,
    at: Instant,
}

impl GivenUp {
    /// Notes a call that was given up.
    pub(super) fn push(&mut self, id: RequestId, session: Arc<str>, now: Instant) {
        self.forget_old(now);
        if self.calls.len() < GIVEN_UP_CALLS_MAX {
            self.calls.push_back(Call { id, session, at: now });
        } else {
            self.overflowed_at = Some(now);
        }
    }

    /// The server has answered a call, so it asks nothing more about it.
    pub(super) fn remove(&mut self, id: &RequestId) {
        self.calls.retain(|call| call.id != *id);
    }

    /// Whether the server may still ask something that is not for this session. **If in doubt, it
    /// may.**
    pub(super) fn may_ask_others(&mut self, session: &str, now: Instant) -> bool {
        self.forget_old(now);
        self.overflowed_at.is_some() || self.calls.iter().any(|call| &*call.session != session)
    }

    fn forget_old(&mut self, now: Instant) {
        let is_old = |at: Instant| now.saturating_duration_since(at) >= GIVEN_UP_AGE;
        while self.calls.front().is_some_and(|call| is_old(call.at)) {
            self.calls.pop_front();
        }
        self.overflowed_at = self.overflowed_at.filter(|at| !is_old(*at));
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn given_up(sessions: &[&str], now: Instant) -> GivenUp {
        let mut given_up = GivenUp::default();
        for (id, session) in (0..).zip(sessions) {
            given_up.push(RequestId::Number(id), (*session).into(), now);
        }
        given_up
    }

    #[test]
    fn a_call_of_another_session_counts_until_it_is_answered() {
        let now = Instant::now();
        let mut calls = given_up(&["a", "b"], now);
        assert!(calls.may_ask_others("a", now) && calls.may_ask_others("b", now));
        calls.remove(&RequestId::Number(1));
        assert!(!calls.may_ask_others("a", now) && calls.may_ask_others("b", now));
    }

    #[test]
    fn a_call_is_forgotten_after_a_while() {
        let begin = Instant::now();
        let mut calls = given_up(&["a"], begin);
        let end = begin + GIVEN_UP_AGE;
        assert!(calls.may_ask_others("b", end - Duration::from_millis(1)));
        assert!(!calls.may_ask_others("b", end));
    }

    #[test]
    fn nobody_is_asked_for_a_while_after_calls_that_could_not_be_noted() {
        let begin = Instant::now();
        let mut calls = given_up(&vec!["a"; GIVEN_UP_CALLS_MAX], begin);
        assert!(!calls.may_ask_others("a", begin));
        let later = begin + Duration::from_secs(1);
        calls.push(RequestId::Number(-1), "b".into(), later);
        assert!(calls.may_ask_others("a", later));
        assert!(!calls.may_ask_others("a", later + GIVEN_UP_AGE));
    }
}
