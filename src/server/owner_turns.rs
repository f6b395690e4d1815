//! An owner's turns in the gateway's cache.

use std::sync::Arc;

use super::dialect::call_id;
use crate::conversation::Turn;
use crate::conversation::claimed::{FoundCall, PrefixHash, TurnLookup};
use crate::gateway::Gateway;

/// The cached turns of one owner.
#[derive(Debug)]
pub(super) struct OwnerTurns<'a> {
    pub(super) gateway: &'a Gateway,
    pub(super) owner: &'a str,
}

impl TurnLookup for OwnerTurns<'_> {
    fn by_call(&self, client_call_id: &str) -> Option<FoundCall> {
        let (turn_id, call_id) = call_id::parse(client_call_id)?;
        let turn = self.gateway.turn_cache().by_id(self.owner, &turn_id)?;
        Some(FoundCall { turn, call_id })
    }

    fn by_prefix(&self, prefix: &PrefixHash) -> Option<Arc<Turn>> {
        self.gateway.turn_cache().by_prefix(prefix)
    }

    fn by_question(&self, clarification_id: &str) -> Option<Arc<Turn>> {
        self.gateway.turn_cache().by_question(self.owner, clarification_id)
    }

    fn by_answer(&self, clarification_id: &str) -> Option<Arc<Turn>> {
        self.gateway.turn_cache().by_answer(self.owner, clarification_id)
    }

    fn is_closed(&self, clarification_id: &str) -> bool {
        self.gateway.turn_cache().is_closed(self.owner, clarification_id)
    }

    fn by_prompt(&self, conversation: &str, prompt: &str) -> Vec<Arc<Turn>> {
        self.gateway.turn_cache().by_prompt(self.owner, conversation, prompt)
    }
}
