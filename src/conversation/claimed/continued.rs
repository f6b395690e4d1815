//! Messages that a client adds to a conversation of ours.

use std::collections::HashMap;

use super::reading::{self, Reading};
use super::repairs::{Repair, Repairs};
use super::turns::NOT_RETURNED;
use super::{Adopted, ClaimedMessage, HiddenTurns, NothingToAnswer, adopt_onto};
use crate::conversation::{Ask, ClientResult, Conversation};
use crate::tools::ToolResult;

/// Makes a conversation of one of ours and what a client says next. `returned` has what the calls
/// returned that the last turn handed out, by our ids.
///
/// Results alone continue that turn. With messages beside them, the turn is left off with the
/// results, and the messages open the next.
///
/// # Errors
/// If there are neither.
pub(crate) fn adopt_after(
    mut history: Conversation,
    returned: HashMap<String, String>,
    messages: Vec<ClaimedMessage>,
    owner: &str,
    hidden: &dyn HiddenTurns,
) -> Result<Adopted, NothingToAnswer> {
    let mut repairs = Repairs::default();
    let results = results(&history, returned, &mut repairs);
    if results.is_empty() {
        return adopt_onto(history, messages, owner, (hidden, None));
    }
    if messages.iter().any(ClaimedMessage::is_said) {
        if let Ok(turn) = history.with_results(&results) {
            history.replace(turn);
        }
        let mut adopted = adopt_onto(history, messages, owner, (hidden, None))?;
        adopted.repairs += repairs;
        return Ok(adopted);
    }
    let Reading { system, past, repairs: more, .. } = reading::read(messages, owner);
    repairs += more;
    Ok(Adopted { system, history, ask: Ask::Results(results), past, repairs })
}

/// The results for the calls that the last turn waits for. Those that are missing count as not run.
fn results(
    history: &Conversation,
    mut returned: HashMap<String, String>,
    repairs: &mut Repairs,
) -> Vec<ClientResult> {
    let Some(turn) = history.awaiting() else { return Vec::new() };
    let is_for = |call_id: &String| turn.handed_out().any(|call| call.call_id == *call_id);
    if !returned.keys().any(is_for) {
        return Vec::new();
    }
    let results = turn.handed_out().map(|call| {
        let output = returned.remove(&call.call_id);
        let result = output.map_or_else(
            || {
                repairs.count(Repair::MissingResult);
                ToolResult::error(NOT_RETURNED)
            },
            |output| reading::result(output, false),
        );
        ClientResult { call_id: call.call_id.clone(), result }
    });
    results.collect()
}
