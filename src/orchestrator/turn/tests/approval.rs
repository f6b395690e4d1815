//! Calls that the user has to approve.

use super::answers::{
    answer, answer_with, history_of, next_turn, policies, with_client_tool, with_results,
};
use super::chains::{call, call_with, scene_with};
use super::*;
use crate::conversation::Choice;
use crate::tools::registry::tests::Named;
use crate::tools::{Confirm, Policy, ToolSpec};

fn scene(confirm: Confirm) -> Scene {
    scene_with(|rules| rules.confirm = confirm)
}

/// The conversation after a turn that asks whether `wipe` may run.
fn asked_to_wipe() -> Conversation {
    let mut scene = scene(Confirm::Destructive);
    scene.says(&call_with("wipe", &json!({ "n": 7 }))).stops();
    history_of(scene)
}

fn option(id: &str) -> Choice {
    Choice::Option(id.into())
}

#[test]
fn a_destructive_call_is_shown_to_the_user_and_does_not_run() {
    let mut scene = scene(Confirm::Destructive);
    scene.says(&call_with("wipe", &json!({ "n": 7 }))).stops();
    scene.ends("clarification_needed", "");
    assert!(scene.started().is_empty());
    assert_eq!(scene.not_run, ["call_1 at 1: unapproved"]);
    let asked = scene.event("clarification_needed");
    assert_eq!(
        (&asked["type"], &asked["tool_name"], &asked["arguments"], &asked["source"]),
        (&json!("confirmation"), &json!("wipe"), &json!({"n": 7}), &json!({"kind": "rust"}))
    );
    let ids: Vec<_> = asked["options"].as_array().unwrap().iter().map(|it| &it["id"]).collect();
    assert_eq!(ids, ["approve", "approve_session", "deny"]);
    assert!(!scene.types().contains(&"tool_started"));
}

#[test]
fn an_approved_call_runs_before_the_model_is_asked() {
    let mut scene = answer(asked_to_wipe(), option("approve"));
    assert_eq!(scene.deeds, ["start call_2 wipe {\"n\":7}"]);
    scene.tool_returns(0, ok());
    assert_eq!(scene.rounds.len(), 1);
    let messages = &scene.rounds[0].messages;
    let said: Vec<_> = messages.iter().filter_map(Message::text_content).collect();
    assert!(said.iter().any(|said| said.contains("the user says: yes")), "{said:#?}");
    assert!(said.last().unwrap().contains("12:00"), "{said:#?}");
    scene.says("Done.").stops();
    scene.ends("stop", "Done.");
}

/// A client's tools may return what strangers wrote.
#[test]
fn an_approval_for_the_session_does_not_count_after_results_of_the_client() {
    let mut scene = answer(asked_to_wipe(), option("approve_session"));
    scene.tool_returns(0, ok()).says("Done.").stops();
    let briefing = briefing(Rules::default(), &with_client_tool());
    let mut scene = Scene::of(TurnRequest {
        turn_id: "opens".into(),
        briefing,
        history: history_of(scene),
        ..request()
    });
    scene.says(&call("open")).stops();
    scene.ends("client_tool_calls", "");
    let mut scene = with_results(history_of(scene));
    scene.says(&call_with("wipe", &json!({ "n": 9 }))).stops();
    scene.ends("clarification_needed", "");
}

/// A client with a fixed `tool_choice` sends it with the answer, too.
#[test]
fn after_an_answer_no_further_call_is_required() {
    for (choice, runs) in [("approve", true), ("deny", false)] {
        let history = asked_to_wipe();
        let id = history.open_questions()[0].clarification_id.clone();
        let opening = Opening::Answer(history.answer(&id, option(choice)).unwrap());
        let briefing = briefing(Rules::default(), policies().catalog());
        let (turn_id, tool_choice) = ("t2".to_owned(), ToolChoice::Required);
        let request = TurnRequest { turn_id, opening, tool_choice, briefing, history, ..request() };
        let mut scene = Scene::of(request);
        if runs {
            scene.tool_returns(0, ok());
        }
        assert_eq!(scene.rounds[0].tool_choice, ToolChoice::Auto);
        scene.says("Done.").stops();
        scene.ends("stop", "Done.");
    }
}

/// The request of the answer may leave out the tool, or all tools.
#[test]
fn a_tool_that_is_lent_to_the_answered_call_runs_no_other_call() {
    let history = asked_to_wipe();
    let id = history.open_questions()[0].clarification_id.clone();
    let opening = Opening::Answer(history.answer(&id, option("approve")).unwrap());
    let briefing = briefing(Rules::default(), &Catalog::default());
    let lent = policies().subset(&["wipe"]).unwrap().catalog().clone();
    let turn_id = "t2".to_owned();
    let mut scene =
        Scene::of(TurnRequest { turn_id, opening, briefing, lent, history, ..request() });
    assert_eq!(scene.deeds, ["start call_2 wipe {\"n\":7}"]);
    scene.tool_returns(0, ok());
    assert!(scene.rounds[0].tools.is_empty());
    scene.says(&call_with("wipe", &json!({ "n": 8 }))).stops();
    assert_eq!(scene.started().len(), 1);
    assert_eq!(scene.event("feedback")["reason"], "tool_not_found");
}

#[test]
fn a_refused_call_does_not_run_and_the_model_is_told() {
    for (choice, told) in [
        (option("deny"), "the user says: no.\nDo not make this call again"),
        (Choice::Decline, "the user says: no.\nDo not"),
        (Choice::Cancel, "the user says: no.\nDo not"),
        (Choice::Text("not today".into()), "the user says: no. not today\nDo not"),
    ] {
        let scene = answer(asked_to_wipe(), choice);
        assert_eq!(scene.deeds, ["round"]);
        let last = scene.last_message().text_content().unwrap();
        assert!(last.contains(told), "{last}");
    }
}

#[test]
fn a_call_that_was_just_refused_is_neither_run_nor_asked_about() {
    let mut scene = answer(asked_to_wipe(), option("deny"));
    scene.says(&call_with("wipe", &json!({ "n": 7.0 }))).stops();
    assert!(scene.started().is_empty());
    assert_eq!(scene.statuses(), ["wipe was not run: the user has just refused it"]);
    assert_eq!(scene.rounds.len(), 2, "the model goes on");
    scene.says(&call_with("wipe", &json!({ "n": 8 }))).stops();
    scene.ends("clarification_needed", "");
}

#[test]
fn a_new_prompt_drops_the_question_and_nothing_runs() {
    let history = asked_to_wipe();
    let scene = next_turn(history, Opening::Prompt("Never mind.".into()), &policies());
    assert_eq!(scene.deeds, ["round"]);
    assert!(scene.last_message().text_content().unwrap().contains("was left unanswered"));
}

#[test]
fn each_level_asks_about_more_calls() {
    for (level, asked) in [
        (Confirm::Never, vec![]),
        (Confirm::Destructive, vec!["wipe"]),
        (Confirm::Mutating, vec!["wipe", "send"]),
        (Confirm::Always, vec!["wipe", "send", "read"]),
    ] {
        for name in ["wipe", "send", "read"] {
            let mut scene = scene(level);
            scene.says(&call(name)).stops();
            let asks = scene.turn.state() == TurnState::AwaitingClarification;
            assert_eq!(asks, asked.contains(&name), "{level:?} {name}");
        }
    }
}

#[test]
fn a_request_can_only_ask_for_more() {
    for (rules, request_says, asks) in [
        (Confirm::Never, Confirm::Mutating, true),
        (Confirm::Mutating, Confirm::Never, true),
        (Confirm::Never, Confirm::Never, false),
    ] {
        let rules = Rules { confirm: rules, ..Rules::default() };
        let briefing = briefing(rules, policies().catalog());
        let confirm = Some(request_says);
        let mut scene = Scene::of(TurnRequest { confirm, briefing, ..request() });
        scene.says(&call("send")).stops();
        assert_eq!(scene.turn.is_over(), asks, "{request_says:?}");
    }
}

#[test]
fn a_tools_own_level_replaces_the_general_one() {
    for (own, asks) in [(Confirm::Never, false), (Confirm::Always, true)] {
        let mut tools = Registry::default();
        tools.add(named("erase", Policy { confirm: Some(own), ..DESTROYS })).unwrap();
        let briefing = briefing(Rules::default(), tools.catalog());
        let mut scene = Scene::of(TurnRequest { briefing, ..request() });
        scene.says(&call("erase")).stops();
        assert_eq!(scene.turn.is_over(), asks, "{own:?}");
    }
}

const DESTROYS: Policy = Policy { mutates: true, destructive: true, ..Policy::NONE };

fn named(name: &str, policy: Policy) -> Arc<Named> {
    let parameters = json!({ "type": "object", "properties": { "n": { "type": "integer" } } });
    let name = name.to_owned();
    Arc::new(Named(Arc::new(ToolSpec { name, parameters, policy, ..ToolSpec::default() })))
}

#[test]
fn calls_after_the_question_are_skipped() {
    let mut scene = scene(Confirm::Destructive);
    scene.says(&call("wipe")).says(&call("read")).says(&call("send")).stops();
    scene.ends("clarification_needed", "");
    assert!(scene.started().is_empty(), "{:?}", scene.deeds);
    let skipped: Vec<_> = scene.not_run.iter().filter(|it| it.ends_with("skipped")).collect();
    assert_eq!(skipped, ["call_2 at 2: skipped", "call_3 at 3: skipped"]);
}

#[test]
fn an_eager_question_stops_the_model() {
    let mut scene = scene(Confirm::Always);
    scene.says(&call("read"));
    assert!(scene.deeds.contains(&"stop round".to_owned()), "{:?}", scene.deeds);
    scene.ends("clarification_needed", "");
}

#[test]
fn session_approval_lasts_until_the_tool_changes() {
    let mut scene = answer(asked_to_wipe(), option("approve_session"));
    scene.tool_returns(0, ok());
    scene.says(&call_with("wipe", &json!({ "n": 8 }))).stops();
    assert_eq!(scene.started(), ["call_2", "call_3"], "in the same turn");
    scene.tool_returns(1, ok());
    scene.says("Done.").stops();
    let history = history_of(scene);

    let again = call_with("wipe", &json!({ "n": 9 }));
    let prompt = || Opening::Prompt("And the rest.".into());
    let mut later = next_turn(history.clone(), prompt(), &policies());
    later.says(&again).stops();
    assert_eq!(later.started(), ["call_4"], "in a later turn");

    let mut changed = Registry::default();
    changed.add(named("wipe", DESTROYS)).unwrap();
    let mut later = next_turn(history, prompt(), &changed);
    later.says(&again).stops();
    later.ends("clarification_needed", "");
}

#[test]
fn an_approval_is_for_one_call_only() {
    let mut scene = answer(asked_to_wipe(), option("approve"));
    scene.tool_returns(0, ok());
    scene.says(&call_with("wipe", &json!({ "n": 8 }))).stops();
    scene.ends("clarification_needed", "");
}

#[test]
fn a_tool_that_changed_since_the_question_is_asked_about_again() {
    let mut changed = Registry::default();
    changed.add(named("wipe", DESTROYS)).unwrap();
    let scene = answer_with(asked_to_wipe(), option("approve"), &changed);
    scene.ends("clarification_needed", "");
    assert!(scene.deeds.is_empty());
    assert_eq!(
        scene.event("clarification_needed")["question"],
        "wipe has changed since you approved this call. Run it with these arguments?"
    );
    let mut scene = answer_with(history_of(scene), option("approve"), &changed);
    assert_eq!(scene.deeds, ["start call_3 wipe {\"n\":7}"]);
    scene.tool_returns(0, ok());
    assert_eq!(scene.rounds.len(), 1);
}

#[test]
fn a_tool_that_is_gone_since_the_question_is_reported_to_the_model() {
    let scene = answer_with(asked_to_wipe(), option("approve"), &Registry::default());
    assert_eq!(scene.event("feedback")["reason"], "tool_not_found");
    assert_eq!(scene.deeds, ["round"]);
}

#[test]
fn what_strangers_wrote_suspends_session_approvals() {
    let mut scene = answer(asked_to_wipe(), option("approve_session"));
    scene.tool_returns(0, ok());
    scene.says(&call("web")).stops();
    scene.tool_returns(1, ok());
    scene.says(&call_with("wipe", &json!({ "n": 8 }))).stops();
    scene.ends("clarification_needed", "");
    let mut scene = answer(history_of(scene), option("approve"));
    assert_eq!(scene.started(), ["call_5"], "this call was approved after that");
    scene.tool_returns(0, ok());
    scene.says(&call_with("wipe", &json!({ "n": 9 }))).stops();
    scene.ends("clarification_needed", "");
}

#[test]
fn a_lookup_that_waited_runs_with_the_approved_call() {
    let mut scene = scene_with(|rules| {
        (rules.confirm, rules.execution) = (Confirm::Always, Execution::AfterTurn);
    });
    scene.says(&call("read")).says(&call("look")).stops();
    let mut scene = answer(history_of(scene), option("approve"));
    assert_eq!(scene.deeds, ["start call_3 read {}", "start call_4 look {}"]);
    scene.tool_returns(0, ok());
    scene.tool_returns(1, ok());
    assert_eq!(scene.rounds.len(), 1);
}
