//! What the user has and has not chosen: nothing is sent to an option that was offered and passed
//! over.

use serde_json::Value;

use super::state::OpenRound;
use crate::conversation::{Answer, Outcome, Step};
use crate::limits::turn::OPTION_ID_BYTES_MIN;
use crate::orchestrator::call::CallDraft;
use crate::orchestrator::repeats::is_same;

impl OpenRound<'_> {
    /// The id of an option in these arguments that the user was offered and did not choose, in
    /// this turn or in those that it continues. If a lookup has returned the id, it is allowed.
    pub(super) fn not_chosen(&self, arguments: &Value) -> Option<String> {
        let answers = self.answers();
        let ids = answers.iter().flat_map(|answer| &answer.not_chosen);
        let is_cleared = |id: &str| {
            answers.iter().any(|answer| answer.chosen() == Some(id)) || self.has_found(id)
        };
        let mut ids = ids.filter(|id| id.len() >= OPTION_ID_BYTES_MIN && holds(arguments, id));
        ids.find(|id| !is_cleared(id)).cloned()
    }

    /// The answers that this turn continues from, latest first. If two choose from the same
    /// options, the later one counts.
    fn answers(&self) -> Vec<&Answer> {
        let core = &self.core;
        let history = &core.setup.request.history;
        let before = core.record.answer.is_some().then(|| history.chain());
        let before = before.into_iter().flatten().filter_map(|turn| turn.answer.as_deref());
        let mut answers: Vec<&Answer> = Vec::new();
        for answer in core.record.answer.as_deref().into_iter().chain(before) {
            if !answers.iter().any(|later| later.is_to_the_same(answer)) {
                answers.push(answer);
            }
        }
        answers
    }

    /// Whether a lookup has returned this id in its data.
    fn has_found(&self, id: &str) -> bool {
        let core = &self.core;
        let before = core.setup.request.history.chain().flat_map(|turn| &turn.steps);
        let ended = before.chain(&core.record.steps).flat_map(Step::calls);
        let now = self.calls().iter().filter_map(CallDraft::ended);
        let ended = ended.chain(now.map(|call| &**call));
        ended.into_iter().any(|call| match &call.outcome {
            // A lookup that asks has found all options, so it clears none.
            Outcome::Ended(result) if result.success && result.clarification.is_none() => {
                core.setup.policy(&call.name).is_some_and(|policy| policy.is_lookup())
                    && result.data.as_ref().is_some_and(|data| holds(data, id))
            }
            _ => false,
        })
    }
}

/// Whether a value contains this string as a value of its own. A number counts as its digits.
fn holds(value: &Value, string: &str) -> bool {
    match value {
        Value::String(value) => value == string,
        Value::Number(_) => {
            string.parse().is_ok_and(|number| is_same(value, &Value::Number(number)))
        }
        Value::Array(items) => items.iter().any(|item| holds(item, string)),
        Value::Object(members) => members.values().any(|value| holds(value, string)),
        Value::Null | Value::Bool(_) => false,
    }
}
