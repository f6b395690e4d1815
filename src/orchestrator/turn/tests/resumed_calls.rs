//! What another machine knows of the calls of a turn that was interrupted.

use super::answers::{answer, history_of, policies, with_client_tool, with_results};
use super::chains::{asks, call, call_with, scene_with};
use super::*;
use crate::call_format::HERMES;
use crate::conversation::Choice;
use crate::orchestrator::ResponseFormat;
use crate::tools::{Confirm, Given, Resumption};

/// A call to `send` that may have worked.
fn uncertain() -> ToolResult {
    ToolResult::error("it may or may not have taken effect").but_uncertain()
}

impl Scene {
    /// Where an event of this name comes last.
    fn last(&self, name: &str) -> usize {
        self.events.iter().rposition(|event| event["type"] == name).unwrap()
    }

    /// The same turn on another machine, interrupted after the first `events` events.
    pub(super) fn taken_over_after(&self, events: usize) -> Self {
        Self::resumed(self.turn.request().clone(), self.cut_after(events))
    }

    /// The ids of the calls of which these events tell.
    fn ids(&self, name: &str) -> Vec<String> {
        let named = self.events.iter().filter(|event| event["type"] == name);
        named.map(|event| event["data"]["call_id"].as_str().unwrap().to_owned()).collect()
    }
}

#[test]
fn a_change_that_may_have_worked_is_not_made_again_by_another_gateway() {
    let mut whole = scene_with(|_| ());
    whole.says(&call("send")).stops();
    whole.tool_returns(0, uncertain());
    whole.says("One moment. ");
    for cut in whole.last("tool_completed") + 1..=whole.events.len() {
        let mut rest = whole.taken_over_after(cut);
        rest.says(&call("send")).stops();
        assert!(rest.started().is_empty(), "after {cut}: {:?}", rest.deeds);
        assert_eq!(rest.not_run, ["call_2 at 1: repeated"], "after {cut}");
    }
}

#[test]
fn a_change_that_may_have_worked_is_not_made_again_after_a_question() {
    let mut scene = scene_with(|_| ());
    scene.says(&call("send")).stops();
    scene.tool_returns(0, uncertain());
    scene.says(&call("look")).stops();
    scene.tool_returns(1, asks());
    let mut scene = answer(history_of(scene), Choice::Text("this one".into()));
    scene.says(&call("send")).stops();
    assert!(scene.started().is_empty(), "{:?}", scene.deeds);
    assert_eq!(scene.not_run, ["call_3 at 1: repeated"]);
}

/// The conversation after a question of `look`, behind which another lookup waits.
fn asking(question: impl FnOnce(&mut Scene)) -> Conversation {
    let mut scene = scene_with(|_| ());
    scene.says(&call("look")).says(&call_with("look", &json!({ "n": 2 }))).stops();
    question(&mut scene);
    history_of(scene)
}

#[test]
fn an_interrupted_call_is_made_again_with_the_users_answer() {
    let history = asking(|scene| {
        let form =
            json!({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]});
        let state = json!({ "step": 1 });
        scene.tool_asks(0, Clarification::form("Which?", form), Continuation::Again { state });
    });
    let choice = Choice::Content(json!({ "n": 2 }));
    let opening = Opening::Answer(history.answer("t.1", choice).unwrap());
    let briefing = briefing(Rules::default(), policies().catalog());
    let request = TurnRequest { opening, briefing, history, ..request() };
    let whole = Scene::of(request.clone());
    let resumption =
        Resumption { state: json!({ "step": 1 }), given: Given::Content(json!({ "n": 2 })) };
    for cut in 0..=whole.events.len() {
        let mut turn = TurnMachine::resume(request.clone(), whole.cut_after(cut), 1000);
        let mut started = Vec::new();
        while let Some(output) = turn.poll() {
            if let Output::StartTool { call_id, resumption, .. } = output {
                started.push((call_id.to_owned(), resumption));
            }
        }
        assert_eq!(started, [("call_3".to_owned(), Some(resumption.clone()))], "after {cut}");
    }
}

/// Wherever it is interrupted, both calls run, each under its own id, and the model hears of both.
#[test]
fn lookups_that_were_put_off_are_made_by_another_gateway() {
    let play = |scene: &mut Scene| {
        while let Some(call) = scene.running.first().copied() {
            scene.tool_returns(call, ok());
        }
        scene.says("It is noon.").stops();
        scene.ends("stop", "It is noon.");
    };
    for first in [Continuation::Again { state: json!(1) }, Continuation::Model] {
        let calls = if first == Continuation::Model { 1 } else { 2 };
        let page = Clarification::page("Sign in?", "https://x.test");
        let history = asking(|scene| {
            match first {
                Continuation::Model => scene.tool_returns(0, asks()),
                again => scene.tool_asks(0, page, again),
            };
        });
        let choice = match calls {
            1 => Choice::Text("this one".into()),
            _ => Choice::Option("accept".into()),
        };
        let id = &history.open_questions()[0].clarification_id;
        let opening = Opening::Answer(history.answer(id, choice).unwrap());
        let rules = Rules { max_calls: calls, ..Rules::default() };
        let briefing = briefing(rules, policies().catalog());
        let mut whole = Scene::of(TurnRequest { opening, briefing, history, ..request() });
        play(&mut whole);
        let expected = whole.ids("tool_completed");
        assert_eq!(expected.len(), calls as usize);
        for cut in 0..whole.events.len() {
            let mut rest = whole.taken_over_after(cut);
            play(&mut rest);
            rest.events.splice(0..0, whole.events[..cut].iter().cloned());
            assert_eq!(rest.ids("tool_started"), expected, "after {cut}");
            assert_eq!(rest.ids("tool_completed"), expected, "after {cut}");
            let told: Vec<_> =
                rest.rounds[0].messages.iter().filter_map(Message::text_content).collect();
            let results = told.iter().map(|told| told.matches("12:00").count()).sum::<usize>();
            assert_eq!(results, calls as usize, "after {cut}: {told:#?}");
            assert_eq!(rest.event("turn_completed")["tool_calls"], calls, "after {cut}");
            assert_eq!(rest.turn.into_record().call_ids, calls as usize, "after {cut}");
        }
    }
}

#[test]
fn what_has_been_read_is_not_read_again() {
    let mut whole = scene_with(|_| ());
    whole.says(&call("read")).stops();
    whole.tool_returns(0, ok()).says("So ");
    let mut rest = whole.taken_over_after(whole.events.len());
    rest.says(&call("read")).stops();
    assert_eq!(rest.not_run, ["call_2 at 1: repeated"]);
}

/// It may have been hours before the client sent its results.
#[test]
fn what_was_read_before_the_clients_results_may_be_read_again() {
    let briefing = briefing(Rules::default(), &with_client_tool());
    let mut first = Scene::of(TurnRequest { briefing, ..request() });
    first.says(&call("read")).says(&call("open")).stops();
    first.tool_returns(0, ok());
    let mut whole = with_results(history_of(first));
    let mut rest = whole.taken_over_after(whole.events.len());
    for scene in [&mut whole, &mut rest] {
        scene.says(&call("read")).stops();
        assert_eq!(scene.started().len(), 1, "{:?}", scene.not_run);
    }
}

/// The model takes it for its own words, in the format of whichever model goes on.
#[test]
fn an_echo_of_an_earlier_result_is_no_answer() {
    let result = json!({ "weather": "rain", "wind": "from the south-west" });
    let mut whole = Scene::new();
    whole.says(TIME).stops();
    whole.tool_returns(0, ToolResult::data(result.clone()));
    let resumed = whole.taken_over_after(whole.events.len());
    let contract = CallContract::InText(&HERMES);
    whole.handle(Input::Answered { contract, in_reasoning: false, is_prefilled: false });
    for mut scene in [whole, resumed] {
        scene.spells(&result.to_string());
        assert_eq!(scene.event("feedback")["reason"], "invented_result");
    }
}

/// What strangers wrote may have asked for the call that the user has approved for the session.
#[test]
fn what_strangers_have_written_is_remembered() {
    let history = {
        let mut scene = scene_with(|rules| rules.confirm = Confirm::Destructive);
        scene.says(&call("wipe")).stops();
        history_of(scene)
    };
    let mut scene = answer(history, Choice::Option("approve_session".into()));
    scene.tool_returns(0, ok());
    scene.says(&call("web")).stops();
    scene.tool_returns(1, ok());
    for cut in [scene.last("tool_completed") + 1, scene.events.len()] {
        let mut rest = scene.taken_over_after(cut);
        rest.says(&call_with("wipe", &json!({ "n": 7 }))).stops();
        rest.ends("clarification_needed", "");
    }
}

#[test]
fn tokens_and_the_required_call_still_count() {
    let usage = Usage { prompt_tokens: 5, completion_tokens: 2, total_tokens: 7 };
    let required = TurnRequest { tool_choice: ToolChoice::Required, ..request() };
    let mut whole = Scene::of(required);
    whole.says(TIME).handle(Input::Delta(Delta::Usage(usage))).stops();
    whole.tool_returns(0, ok()).says("It ");
    let mut rest = whole.taken_over_after(whole.events.len());
    rest.handle(Input::Delta(Delta::Usage(usage))).says("is noon.").stops();
    rest.ends("stop", "It is noon.");
    assert_eq!(rest.rounds[0].tool_choice, ToolChoice::Auto, "it has called");
    assert_eq!(rest.event("turn_completed")["usage"]["total_tokens"], 14);
}

#[test]
fn what_the_model_has_written_still_counts() {
    let rules = || Rules { max_turn_bytes: 200, ..Rules::default() };
    let mut whole = Scene::with(rules(), request());
    whole.says(TIME).stops();
    whole.tool_returns(0, ok()).says("x");
    let mut rest = whole.taken_over_after(whole.events.len());
    rest.says(&"y".repeat(200 - TIME.len()));
    assert!(!rest.turn.is_over());
    rest.says("z");
    rest.fails("turn_too_large");
}

/// Its message is over, however the answer has to look.
#[test]
fn a_turn_that_must_answer_in_a_form_goes_on_at_its_calls() {
    let form = Some(Arc::new(ResponseFormat::json_object()));
    let mut whole = Scene::of(TurnRequest { response_format: form, ..request() });
    whole.says("Let me look. ").says(TIME).stops();
    let mut rest = whole.taken_over_after(whole.events.len());
    rest.tool_returns(0, ok());
    rest.says("{\"time\": \"12:00\"}").stops();
    assert_eq!(rest.event("turn_completed")["finish_reason"], "stop");
}
