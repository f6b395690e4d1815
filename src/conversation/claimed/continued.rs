//! Messages that a client adds to a stored conversation.

use std::collections::HashMap;

use super::reading::{self, Reading};
use super::repairs::{Repair, Repairs};
use super::turns::NOT_RETURNED;
use super::{
    Adopted, Claimant, ClaimedMessage, ClientImages, Content, NothingToAnswer, Placing, Room,
    adopt_onto,
};
use crate::conversation::{ClientInput, ClientResult, Conversation};
use crate::tools::ToolResult;

/// Continues a stored conversation with a client's messages. `returned` has the outputs of the
/// calls that the last turn handed out, by the calls' ids in that turn. Image ids are made from
/// `image_seed`. It must be secret if the images are stored in a session: an id is all it takes to
/// read one.
///
/// Results alone continue that turn. If there are messages too, that turn ends with the results,
/// and the messages open the next one.
///
/// # Errors
/// If there are neither.
pub(crate) fn adopt_after(
    mut history: Conversation,
    returned: HashMap<String, Content>,
    mut messages: Vec<ClaimedMessage>,
    claimant: Claimant<'_>,
    image_seed: &str,
) -> Result<Adopted, NothingToAnswer> {
    let (mut room, mut placing) = (Room::new(), Placing::new(image_seed));
    room.limit(&mut messages);
    let mut repairs = Repairs::default();
    let results = results(&history, returned, &mut room, &mut placing, &mut repairs);
    if results.is_empty() {
        return adopt_onto(history, messages, claimant, placing);
    }
    if messages.iter().any(ClaimedMessage::is_said) {
        if let Ok(turn) = history.with_results(&results) {
            history.replace(turn);
        }
        let mut adopted = adopt_onto(history, messages, claimant, placing)?;
        adopted.repairs += repairs;
        return Ok(adopted);
    }
    let Reading { system, prefix, repairs: more, .. } =
        reading::read(messages, claimant.owner, &mut placing);
    repairs += more;
    let images = ClientImages { opening: Vec::new(), files: placing.finish() };
    let (input, retold) = (ClientInput::Results(results), None);
    Ok(Adopted { system, history, input, prefix, images, repairs, retold })
}

/// The results for the calls that the last turn waits for. Those that are missing count as not run.
fn results(
    history: &Conversation,
    mut returned: HashMap<String, Content>,
    room: &mut Room,
    placing: &mut Placing<'_>,
    repairs: &mut Repairs,
) -> Vec<ClientResult> {
    let Some(turn) = history.awaiting() else { return Vec::new() };
    let is_for = |call_id: &String| turn.handed_out().any(|call| call.call_id == *call_id);
    if !returned.keys().any(is_for) {
        return Vec::new();
    }
    for call in turn.handed_out().collect::<Vec<_>>().into_iter().rev() {
        if let Some(output) = returned.get_mut(&call.call_id) {
            room.limit_one(output);
        }
    }
    let results = turn.handed_out().map(|call| {
        let output = returned.remove(&call.call_id);
        let result = output.map_or_else(
            || {
                repairs.count(Repair::MissingResult);
                ToolResult::error(NOT_RETURNED)
            },
            |output| reading::result(output, false, placing),
        );
        ClientResult { call_id: call.call_id.clone(), result }
    });
    results.collect()
}
