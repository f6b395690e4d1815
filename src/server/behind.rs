//! The turns behind what a client has seen.

use std::sync::Arc;

use super::dialect::call_id;
use crate::conversation::Turn;
use crate::conversation::claimed::{HiddenCall, HiddenTurns, Past};
use crate::gateway::Gateway;

/// The turns behind what a client has seen.
#[derive(Debug)]
pub(super) struct Behind<'a> {
    pub(super) gateway: &'a Gateway,
    pub(super) owner: &'a str,
}

impl HiddenTurns for Behind<'_> {
    fn by_call(&self, client_call_id: &str) -> Option<HiddenCall> {
        let (turn_id, call_id) = call_id::inside(client_call_id)?;
        let turn = self.gateway.remembered().by_id(self.owner, &turn_id)?;
        Some(HiddenCall { turn, call_id })
    }

    fn by_past(&self, past: &Past) -> Option<Arc<Turn>> {
        self.gateway.remembered().by_past(past)
    }

    fn by_question(&self, clarification_id: &str) -> Option<Arc<Turn>> {
        self.gateway.remembered().by_question(self.owner, clarification_id)
    }

    fn by_answer(&self, clarification_id: &str) -> Option<Arc<Turn>> {
        self.gateway.remembered().by_answer(self.owner, clarification_id)
    }

    fn is_closed(&self, clarification_id: &str) -> bool {
        self.gateway.remembered().is_closed(self.owner, clarification_id)
    }

    fn by_prompt(&self, conversation: &str, prompt: &str) -> Vec<Arc<Turn>> {
        self.gateway.remembered().by_prompt(self.owner, conversation, prompt)
    }
}
