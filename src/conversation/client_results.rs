//! Calls that are handed to the client, and the results with which the turn continues.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::answer_error::ResultsError;
use super::{Call, Conversation, Ending, Outcome, Part, Step, Turn};
use crate::event::TurnFinish;
use crate::tools::ToolResult;

/// What a client says that a call returned.
#[derive(Debug, Clone, PartialEq)]
pub struct ClientResult {
    /// The call.
    pub call_id: String,
    /// What it returned.
    pub result: ToolResult,
}

impl Turn {
    /// The turn that goes on from this one, and takes its place.
    pub(crate) fn going_on(&self, turn_id: String) -> Self {
        let mut turn = Self { continues: true, ending: None, ..self.clone() };
        // The turns of messages that a client brings may have no ids.
        let before = std::mem::replace(&mut turn.turn_id, turn_id);
        turn.continued.extend((!before.is_empty()).then_some(before));
        turn
    }

    /// The calls that wait for the client's results.
    pub(crate) fn handed_out(&self) -> impl Iterator<Item = &Call> {
        let calls = self.steps.iter().flat_map(Step::calls);
        calls.filter(|call| call.outcome == Outcome::HandedOut)
    }

    /// The same with the results of calls that were handed out. Those without one stay as they are.
    #[must_use]
    pub(crate) fn with_outcomes(
        mut self,
        mut result_of: impl FnMut(&Call) -> Option<Outcome>,
    ) -> Self {
        let parts = self.steps.iter_mut().flat_map(|step| &mut step.parts);
        for part in parts {
            if let Part::Call(call) = part
                && call.outcome == Outcome::HandedOut
                && let Some(outcome) = result_of(call)
            {
                Arc::make_mut(call).outcome = outcome;
            }
        }
        self
    }
}

impl Conversation {
    /// The last turn, if it has handed calls to the client.
    pub(super) fn awaiting(&self) -> Option<&Turn> {
        const AWAITS: Option<Ending> = Some(Ending::Completed(TurnFinish::ClientToolCalls));
        self.turns().next_back().map(|turn| &**turn).filter(|turn| turn.ending == AWAITS)
    }

    /// The last turn with the results of the calls that it has handed out.
    ///
    /// # Errors
    /// See [`ResultsError`].
    pub(crate) fn with_results(&self, results: &[ClientResult]) -> Result<Turn, ResultsError> {
        let turn = self.awaiting().ok_or(ResultsError::NoneAwaited)?;
        let awaited: Vec<&str> = turn.handed_out().map(|call| &*call.call_id).collect();
        let known: HashSet<&str> = awaited.iter().copied().collect();
        let mut given = HashMap::with_capacity(results.len());
        for ClientResult { call_id, result } in results {
            if !known.contains(&**call_id) {
                let awaited = awaited.into_iter().map(str::to_owned).collect();
                return Err(ResultsError::Unknown { id: call_id.clone(), awaited });
            }
            if given.insert(&**call_id, result).is_some() {
                return Err(ResultsError::Twice(call_id.clone()));
            }
        }
        let has_none = |id: &&str| !given.contains_key(id);
        let missing: Vec<String> =
            awaited.into_iter().filter(has_none).map(str::to_owned).collect();
        if !missing.is_empty() {
            return Err(ResultsError::Missing(missing));
        }
        Ok(turn.clone().with_outcomes(|call| {
            given.get(&*call.call_id).map(|result| Outcome::Claimed(ToolResult::clone(result)))
        }))
    }
}
