//! Turns that answer the question of the one before.

use super::chains::add_policies;
use super::*;
use crate::conversation::{Choice, ClientInput, ClientResult};
use crate::tools::client::ClientTools;

/// The tools of [`add_policies`] alone.
pub(super) fn policies() -> Registry {
    let mut tools = Registry::default();
    add_policies(&mut tools);
    tools
}

/// The tools of [`policies`], and `open`, which the client runs.
pub(super) fn with_client_tool() -> Catalog {
    let mut clients = ClientTools::default();
    clients.add("open".to_owned(), "Opens.", Some(json!({ "type": "object" }))).unwrap();
    clients.beside(policies().catalog())
}

/// The turn with the results of the calls that the last one has handed out.
pub(super) fn with_results(history: Conversation) -> Scene {
    let last = history.turns().next_back().unwrap();
    let results = last.handed_out().map(|call| {
        let (call_id, result) = (call.call_id.clone(), ok());
        ClientResult { call_id, result }
    });
    let input = ClientInput::Results(results.collect());
    let opening = history.open(&input, |_| false).unwrap();
    let briefing = briefing(Rules::default(), &with_client_tool());
    Scene::of(TurnRequest { turn_id: "results".into(), opening, briefing, history, ..request() })
}

/// The conversation after a turn that has ended.
pub(super) fn history_of(scene: Scene) -> Conversation {
    let mut history = scene.turn.request().history.clone();
    history.push(scene.turn.into_record());
    history
}

/// The turn that gives this answer.
pub(super) fn answer(history: Conversation, choice: Choice) -> Scene {
    answer_with(history, choice, &policies())
}

/// The same with other tools.
pub(super) fn answer_with(history: Conversation, choice: Choice, tools: &Registry) -> Scene {
    let id = history.open_questions()[0].clarification_id.clone();
    let answer = history.answer(&id, choice).unwrap();
    next_turn(history, Opening::Answer(answer), tools)
}

pub(super) fn next_turn(history: Conversation, opening: Opening, tools: &Registry) -> Scene {
    let turn_id = format!("t{}", history.turns().len() + 1);
    let briefing = briefing(Rules::default(), tools.catalog());
    Scene::of(TurnRequest { turn_id, opening, briefing, history, ..request() })
}
