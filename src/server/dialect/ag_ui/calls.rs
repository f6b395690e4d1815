//! The calls of a run that have no result yet.
//!
//! A call without a result is one that the client has to run, or one that waits for the user. So
//! each call of ours gets a result, whatever happens to it, unless it asks. Its result then comes
//! in the run that resumes it, under the id that the client knows.

use serde_json::Value;

use super::history::OpenCall;
use super::resume::Resumed;
use crate::server::dialect::call_id;

/// See the module docs. Ids are those that the client knows.
#[derive(Debug)]
pub(super) struct Calls {
    /// The calls of earlier runs that have no result.
    open: Vec<OpenCall>,
    pub(super) resumed: ResumedCall,
    /// The message that calls belong to: the last words of their round.
    pub(super) parent: Option<String>,
    /// The round of the last call.
    pub(super) round: Option<u64>,
    /// The calls to server tools that have begun and have no result.
    pub(super) running: Vec<String>,
    /// The calls to server tools that wait for the user.
    pub(super) waiting: Vec<String>,
}

/// The call that waited for the answer with which the run begins.
#[derive(Debug)]
pub(super) enum ResumedCall {
    /// There is none, or it has its result.
    None,
    /// It has no result yet, and has not gone on.
    Waiting(Resumed),
    /// It goes on as a call of this turn.
    GoesOn {
        /// Its id, as the client knows it.
        id: String,
        /// Its id in this turn.
        call_id: String,
    },
}

impl ResumedCall {
    /// Takes the call if it still waits and is this one.
    pub(super) fn take_waiting(&mut self, is_it: impl FnOnce(&Resumed) -> bool) -> Option<Resumed> {
        match std::mem::replace(self, Self::None) {
            Self::Waiting(resumed) if is_it(&resumed) => Some(resumed),
            other => {
                *self = other;
                None
            }
        }
    }
}

impl Calls {
    pub(super) fn new(open: Vec<OpenCall>, resumed: Option<Resumed>) -> Self {
        Self {
            open,
            resumed: resumed.map_or(ResumedCall::None, ResumedCall::Waiting),
            parent: None,
            round: None,
            running: Vec::new(),
            waiting: Vec::new(),
        }
    }

    /// Further calls belong to these words.
    pub(super) fn follow(&mut self, message_id: &str) {
        self.parent = Some(message_id.to_owned());
        self.round = None;
    }

    /// The id by which the client knows the call that asks, if it has seen that begin.
    pub(super) fn known(&self, own: &str, asked: &Value) -> Option<String> {
        if self.waiting.iter().any(|waiting| waiting == own) {
            return Some(own.to_owned());
        }
        // A call that goes on may ask again before it runs.
        if let ResumedCall::Waiting(resumed) = &self.resumed
            && resumed.is(asked)
        {
            return Some(resumed.id.clone());
        }
        // A question of an earlier turn may have waited for this one.
        let is_asking = |call: &&OpenCall| {
            let parsed = call_id::parse(&call.id);
            asked["tool_name"] == *call.name
                && parsed.is_some_and(|(_, call_id)| asked["call_id"] == *call_id)
        };
        self.open.iter().find(is_asking).map(|call| call.id.clone())
    }
}
