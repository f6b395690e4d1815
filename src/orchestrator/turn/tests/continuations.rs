//! Calls that continue with the user's answer: called again, or still open.

use super::answers::{answer, history_of, policies};
use super::chains::{call, scene_with};
use super::*;
use crate::conversation::Choice;
use crate::tools::{Given, Resumption};

fn form() -> Clarification {
    Clarification::form(
        "Your size?",
        json!({
            "type": "object",
            "properties": {
                "size": { "type": "string", "enum": ["s", "l"] },
                "colour": { "type": "string", "default": "red" },
            },
            "required": ["size"],
        }),
    )
}

fn again() -> Continuation {
    Continuation::Again { state: json!({ "step": 1 }) }
}

/// A turn that ends with a question of `read`.
fn asking(continuation: Continuation) -> Scene {
    let mut scene = scene_with(|_| ());
    scene.says(&call("read")).stops();
    scene.tool_asks(0, form(), continuation);
    scene
}

fn filled() -> Given {
    Given::Content(json!({ "size": "l", "colour": "red" }))
}

#[test]
fn a_form_is_shown_with_its_schema_and_who_asks() {
    let scene = asking(again());
    scene.ends("clarification_needed", "");
    let asked = scene.event("clarification_needed");
    assert_eq!((&asked["type"], &asked["source"]), (&json!("form"), &json!({"kind": "rust"})));
    assert_eq!(asked["schema"]["properties"]["size"]["enum"], json!(["s", "l"]));
    assert_eq!(asked["options"][1]["id"], "l");
    assert!(asked.get("arguments").is_none() && asked.get("state").is_none());
}

#[test]
fn a_tool_that_asked_is_called_again_with_the_same_arguments_and_the_answer() {
    let mut resumed = None;
    let history = history_of(asking(again()));
    let answer_id = history.open_questions()[0].clarification_id.clone();
    let answer = history.answer(&answer_id, Choice::Option("l".into())).unwrap();
    let briefing = briefing(Rules::default(), policies().catalog());
    let opening = Opening::Answer(answer);
    let mut turn = TurnMachine::new(TurnRequest { opening, briefing, history, ..request() });
    while let Some(output) = turn.poll() {
        if let Output::StartTool { call_id, name, arguments, resumption, .. } = output {
            resumed = Some((call_id.to_owned(), name.to_owned(), arguments, resumption));
        }
    }
    let resumption = Resumption { state: json!({ "step": 1 }), given: filled() };
    let expected = ("call_2".to_owned(), "read".to_owned(), json!({}), Some(resumption));
    assert_eq!(resumed, Some(expected));
}

#[test]
fn its_result_then_reaches_the_model() {
    let mut scene = answer(history_of(asking(again())), Choice::Option("l".into()));
    assert_eq!(scene.deeds, ["start call_2 read {}"]);
    scene.tool_returns(0, ok());
    assert_eq!(scene.rounds.len(), 1);
    let told = scene.last_message().text_content().unwrap().into_owned();
    assert!(told.contains("12:00"), "{told}");
    let asked = &scene.rounds[0].messages;
    let said = |message: &Message| message.text_content().unwrap_or_default().into_owned();
    let answered =
        asked.iter().map(said).any(|said| said.contains("the user answers: {\"size\":\"l\""));
    assert!(answered, "{asked:#?}");
}

#[test]
fn a_call_that_waits_is_set_aside_and_goes_on_with_the_answer() {
    let scene = asking(Continuation::Open);
    assert!(scene.deeds.contains(&"park tool".to_owned()), "{:?}", scene.deeds);
    let mut scene = answer(history_of(scene), Choice::Content(json!({ "size": "l" })));
    let given = filled();
    assert_eq!(scene.deeds, [format!("resume t.1 as call_2 read {given:?}")]);
    assert_eq!(scene.types(), ["turn_started", "acknowledgement", "tool_started"]);
    scene.tool_returns(0, ok());
    assert_eq!(scene.rounds.len(), 1);
}

#[test]
fn declining_and_cancelling_are_answers_too() {
    for (choice, given) in [(Choice::Decline, Given::Declined), (Choice::Cancel, Given::Cancelled)]
    {
        let scene = answer(history_of(asking(Continuation::Open)), choice);
        assert_eq!(scene.deeds, [format!("resume t.1 as call_2 read {given:?}")]);
    }
}

#[test]
fn a_call_may_ask_again() {
    let mut scene = answer(history_of(asking(again())), Choice::Option("s".into()));
    scene.tool_asks(0, form(), again());
    scene.ends("clarification_needed", "");
    let scene = answer(history_of(scene), Choice::Option("l".into()));
    assert_eq!(scene.deeds, ["start call_3 read {}"]);
}

/// A turn that answers the first of two questions, the second of which waits with its call.
fn first_of_two_answered() -> Scene {
    let mut scene = scene_with(|_| ());
    scene.says(&call("read")).says(&call("mute")).stops();
    scene.tool_asks(0, form(), again());
    scene.tool_asks(1, form(), Continuation::Open);
    answer(history_of(scene), Choice::Option("l".into()))
}

#[test]
fn of_two_calls_that_wait_each_goes_on_before_the_next_question_is_asked() {
    let mut scene = first_of_two_answered();
    assert_eq!(scene.deeds, ["start call_3 read {}"]);
    scene.tool_returns(0, ok());
    assert_eq!(scene.event("clarification_needed")["tool_name"], "mute");
    assert!(scene.rounds.is_empty());
    let mut scene = answer(history_of(scene), Choice::Option("s".into()));
    assert!(scene.deeds[0].starts_with("resume t.2 as call_4 mute"), "{:?}", scene.deeds);
    scene.tool_returns(0, ok());
    assert_eq!(scene.rounds.len(), 1, "both results are there");
}

#[test]
fn a_call_that_asks_again_does_not_drop_the_question_that_waits() {
    let mut scene = first_of_two_answered();
    scene.tool_asks(0, form(), again());
    let history = history_of(scene);
    let open: Vec<_> = history.open_questions().iter().map(|open| &*open.tool_name).collect();
    assert_eq!(open, ["read", "mute"]);
}

/// The user's answer was about more than this call.
#[test]
fn the_result_of_an_answered_call_does_not_end_the_turn() {
    let history = history_of(asking(again()));
    let answer = history.answer("t.1", Choice::Option("l".into())).unwrap();
    let rules = Rules { continue_after_tool: false, ..Rules::default() };
    let briefing = briefing(rules, policies().catalog());
    let opening = Opening::Answer(answer);
    let mut scene = Scene::of(TurnRequest { opening, briefing, history, ..request() });
    scene.tool_returns(0, ok());
    assert_eq!(scene.rounds.len(), 1);
}

#[test]
fn content_that_does_not_fit_the_form_is_refused() {
    let history = history_of(asking(again()));
    let wrong = history.answer("t.1", Choice::Content(json!({ "size": "m" }))).unwrap_err();
    let told = wrong.to_string();
    assert!(
        told.starts_with("the content does not fit the form: content.size: expected"),
        "{told}"
    );
    let no_form = history_of({
        let mut scene = scene_with(|_| ());
        scene.says(&call("look")).stops();
        scene.tool_returns(0, chains::asks());
        scene
    });
    let refused = no_form.answer("t.1", Choice::Content(json!({}))).unwrap_err();
    assert!(refused.to_string().contains("has no form"), "{refused}");
}

#[test]
fn a_form_of_several_fields_asks_for_content_not_for_text() {
    let mut scene = scene_with(|_| ());
    scene.says(&call("read")).stops();
    let fields = json!({ "size": { "type": "string" }, "colour": { "type": "string" } });
    let form = json!({ "type": "object", "properties": fields, "required": ["size", "colour"] });
    scene.tool_asks(0, Clarification::form("What shall it be?", form), again());
    let refused = history_of(scene).answer("t.1", Choice::Text("red".into())).unwrap_err();
    assert!(refused.to_string().ends_with("; send content that fits its form"), "{refused}");
}

#[test]
fn an_answer_to_a_call_that_was_given_up_has_expired() {
    let history = history_of(asking(Continuation::Open));
    let choice = Choice::Option("l".into());
    let ask =
        conversation::ClientInput::Answer { clarification_id: "t.1".into(), choice, beside: None };
    let open = |is_parked: bool| history.open(&ask, |question| question == "t.1" && is_parked);
    assert!(matches!(open(true), Ok(Opening::Answer(_))));
    let expired = open(false).unwrap_err();
    assert!(expired.to_string().contains("has expired"), "{expired}");
}

#[test]
fn a_question_with_too_much_state_is_an_error() {
    let most = crate::limits::tools::RESUMPTION_STATE_BYTES_MAX;
    for (bytes, asks) in [(most, true), (most + 1, false)] {
        let state = json!("s".repeat(bytes - 2));
        let scene = asking(Continuation::Again { state });
        assert_eq!(scene.turn.is_over(), asks, "{bytes} bytes");
    }
}
