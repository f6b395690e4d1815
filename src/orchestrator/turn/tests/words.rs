//! What the user hears besides the answer: acknowledgements, questions, and the handling of
//! silence.

use super::answers::history_of;
use super::chains::{asks, call, scene_with};
use super::*;
use crate::conversation::{AnswerError, Choice, Given, Part, UtteranceKind};
use crate::event::{AcknowledgementSource, TurnState};
use crate::tools::{Clarification, ClarificationOption};

fn scene() -> Scene {
    scene_with(|_| ())
}

fn option(id: &str, title: &str) -> ClarificationOption {
    ClarificationOption {
        id: id.into(),
        title: title.into(),
        subtitle: None,
        confidence: None,
        metadata: None,
    }
}

fn which_john() -> ToolResult {
    ToolResult::clarification(Clarification {
        r#type: "choice".into(),
        question: "Which John?".into(),
        options: vec![option("c_1", "John Doe"), option("c_2", "John Doe")],
        ..Clarification::default()
    })
}

/// The history of a turn in which a lookup asked.
fn history_that_asks(result: ToolResult) -> Conversation {
    let mut scene = scene();
    scene.says(&call("look")).stops();
    scene.tool_returns(0, result);
    let mut history = Conversation::default();
    history.push(scene.turn.into_record());
    history
}

fn next_turn(history: Conversation, opening: Opening) -> Scene {
    let request = TurnRequest { turn_id: "t2".into(), opening, history, ..request() };
    Scene::with(Rules::default(), request)
}

fn acknowledgements(scene: &Scene) -> Vec<(&str, &str)> {
    let said = scene.events.iter().filter(|event| event["type"] == "acknowledgement");
    said.map(|event| &event["data"])
        .map(|data| (data["source"].as_str().unwrap(), data["text"].as_str().unwrap()))
        .collect()
}

#[test]
fn the_models_own_words_are_the_acknowledgement() {
    let mut scene = scene();
    scene.says("One moment, I look.\n").says(&call("read"));
    assert_eq!(acknowledgements(&scene), [("model", "One moment, I look.")]);
    assert_eq!(scene.types().last(), Some(&"tool_started"), "at once");
    scene.says(&call("look")).stops();
    scene.tool_returns(0, ok());
    scene.tool_returns(1, ok());
    scene.says("And again: ").says(&call("read")).stops();
    assert_eq!(acknowledgements(&scene).len(), 1, "none is made twice");
}

#[test]
fn without_words_the_hints_of_all_calls_are_one_sentence() {
    let mut scene = scene();
    scene.says(&call("read")).says(&call("look"));
    assert_eq!(scene.deeds, ["round", "start call_1 read {}", "start call_2 look {}"]);
    assert!(acknowledgements(&scene).is_empty(), "there may be more calls");
    scene.stops();
    assert_eq!(acknowledgements(&scene), [("hints", "Reading and looking.")]);
    let types = scene.types();
    let said = types.iter().position(|name| *name == "acknowledgement").unwrap();
    assert_eq!(types[said + 1..], ["tool_started", "tool_started"], "it comes first");
}

#[test]
fn the_acknowledgement_names_also_what_waits_for_a_place() {
    let mut scene = scene_with(|rules| rules.max_parallel = 1);
    scene.says(&call("read")).says(&call("look")).stops();
    assert_eq!(scene.deeds, ["round", "start call_1 read {}"]);
    assert_eq!(acknowledgements(&scene), [("hints", "Reading and looking.")]);
}

#[test]
fn the_acknowledgement_names_also_what_was_done_before_the_message_ended() {
    let mut scene = scene();
    scene.says(&call("read"));
    scene.tool_returns(0, ToolResult::error("no"));
    assert_eq!(scene.types().last(), Some(&"tool_marker_detected"), "it would come first");
    scene.says(&call("look")).stops();
    assert_eq!(acknowledgements(&scene), [("hints", "Reading and looking.")]);
    let types = scene.types();
    let said = types.iter().position(|name| *name == "acknowledgement").unwrap();
    let after = ["tool_started", "tool_completed", "feedback", "tool_started"];
    assert_eq!(types[said + 1..], after);
}

#[test]
fn the_acknowledgement_waits_for_more_words_or_a_second() {
    let mut scene = scene();
    scene.says(&call("read"));
    assert_eq!(scene.turn.deadline_ms(), Some(1000));
    scene.ticks(999);
    assert!(acknowledgements(&scene).is_empty(), "there is time left");
    scene.ticks(1000);
    assert_eq!(scene.turn.deadline_ms(), None);
    assert_eq!(acknowledgements(&scene), [("hints", "Reading.")]);
    scene.says(&call("look"));
    assert_eq!(scene.types().last(), Some(&"tool_started"), "nothing is held any more");

    let mut scene = self::scene();
    scene.says(&call("read")).says("\n ");
    assert!(acknowledgements(&scene).is_empty(), "white space is not a word");
    scene.says("So");
    assert_eq!(acknowledgements(&scene), [("hints", "Reading.")]);
}

#[test]
fn a_cancelled_turn_still_says_what_ran() {
    let mut scene = scene();
    scene.says(&call("read")).handle(Input::Cancel);
    assert_eq!(scene.types()[2..], ["acknowledgement", "tool_started", "turn_completed"],);
}

#[test]
fn the_next_call_of_the_model_knows_what_the_user_has_heard() {
    let mut scene = scene();
    scene.says("One moment.").says(&call("read")).stops();
    scene.tool_returns(0, ok());
    let [.., said, _] = &scene.rounds[1].messages[..] else { panic!("{:?}", scene.rounds[1]) };
    assert!(said.text_content().unwrap().starts_with("One moment.\n<<"), "{said:?}");
    let system = scene.rounds[1].messages[0].text_content().unwrap();
    assert!(system.contains("never repeat what you have said"), "{system}");
    let mut scene = self::scene();
    scene.says("Just an answer.").stops();
    assert!(acknowledgements(&scene).is_empty(), "without tools there is none");
}

#[test]
fn an_acknowledgement_from_hints_is_in_the_history_but_not_sent_to_the_model() {
    let mut scene = scene();
    scene.turn.set_now(77);
    scene.says(&call("read")).stops();
    scene.tool_returns(0, ok());
    let [.., assistant, _] = &scene.rounds[1].messages[..] else { panic!("{:?}", scene.rounds[1]) };
    let words = assistant.text_content().unwrap();
    assert!(words.starts_with("<<function_call>>"), "{words}");
    scene.says("Done.").stops();
    let record = scene.turn.into_record();
    let Part::Said(said) = &record.steps[0].parts[0] else { panic!("{record:?}") };
    assert_eq!(said.kind, UtteranceKind::Acknowledgement(AcknowledgementSource::Hints));
    assert_eq!((said.tools.as_slice(), said.at_ms), (&["read".to_owned()][..], 77));
}

#[test]
fn a_tools_question_ends_the_turn_and_is_in_the_history() {
    let mut scene = scene();
    scene.says(&call("look")).says(&call("send")).stops();
    scene.tool_returns(0, which_john());
    assert_eq!(scene.turn.state(), TurnState::AwaitingClarification);
    let asked = scene.event("clarification_needed");
    assert_eq!(asked["question"], "Which John?");
    assert_eq!(asked["options"][1]["id"], "c_2");
    assert_eq!((&asked["call_id"], &asked["tool_name"]), (&json!("call_1"), &json!("look")));
    assert_eq!(scene.event("turn_completed")["finish_reason"], "clarification_needed");
    assert_eq!(scene.rounds.len(), 1);
    assert_eq!(scene.types().iter().filter(|name| **name == "tool_started").count(), 1);
}

#[test]
fn a_question_stops_the_model_at_once() {
    let mut scene = scene();
    scene.says(&call("look"));
    scene.tool_returns(0, which_john());
    assert!(scene.deeds.contains(&"stop round".to_owned()));
    assert!(scene.turn.is_over());
}

#[test]
fn half_a_call_after_the_question_is_neither_shown_nor_a_mistake() {
    for half in ["<<functi", "<<function_call>> {\"name\": \"se"] {
        let mut scene = scene();
        scene.says(&call("look")).says(half);
        scene.tool_returns(0, which_john());
        scene.ends("clarification_needed", "");
        assert!(!scene.types().contains(&"feedback"), "after {half}");
    }
}

#[test]
fn a_question_waits_for_the_tools_that_run_with_it() {
    let mut scene = scene();
    scene.says(&call("read")).says(&call("look")).stops();
    scene.tool_returns(1, which_john());
    assert!(!scene.turn.is_over());
    scene.tool_returns(0, ok());
    assert!(scene.turn.is_over(), "and its result is kept");
}

#[test]
fn a_chosen_option_reaches_the_model_with_its_real_id() {
    let history = history_that_asks(which_john());
    let answer = history.answer("t.1", Choice::Option("c_2".into())).unwrap();
    let scene = next_turn(history, Opening::Answer(answer));
    let messages = &scene.rounds[0].messages;
    let said = |at: usize| messages[messages.len() - at].text_content().unwrap();
    assert_eq!(said(2), "Which John?");
    assert!(said(1).contains("{\"id\":\"c_2\",\"title\":\"John Doe\"}"), "{}", said(1));
}

#[test]
fn a_new_prompt_drops_the_question_and_says_so() {
    let history = history_that_asks(which_john());
    let mut scene = next_turn(history, Opening::Prompt("Never mind.".into()));
    let told = scene.last_message().text_content().unwrap();
    assert!(told.contains("\"Which John?\" was left unanswered") && told.ends_with("Never mind."));
    scene.says("Fine.").stops();
    let history = history_of(scene);
    assert_eq!(
        history.answer("t.1", Choice::Option("c_1".into())),
        Err(AnswerError::Stale("t.1".into())),
    );
}

#[test]
fn only_the_open_question_and_its_options_can_be_answered() {
    let history = history_that_asks(which_john());
    let unknown = AnswerError::UnknownQuestion { id: "t.2".into(), open: Some("t.1".into()) };
    assert_eq!(history.answer("t.2", Choice::Option("c_1".into())), Err(unknown));
    let options = vec!["c_1".to_owned(), "c_2".to_owned()];
    let ways = conversation::Ways { options, has_form: false, takes_text: false };
    let no_text = history.answer("t.1", Choice::Text("the tall one".into()));
    assert_eq!(no_text, Err(AnswerError::TextNotTaken(ways.clone())));
    let by_title = history.answer("t.1", Choice::Option("John Doe".into())).unwrap_err();
    assert_eq!(by_title, AnswerError::UnknownOption { id: "John Doe".into(), ways });
}

#[test]
fn words_answer_a_question_without_options() {
    let history = history_that_asks(asks());
    assert_eq!(history.answer("t.1", Choice::Text(" ".into())), Err(AnswerError::EmptyText));
    let answer = history.answer("t.1", Choice::Text("the tall one".into())).unwrap();
    assert_eq!(answer.given, Given::Text("the tall one".into()));
    let scene = next_turn(history, Opening::Answer(answer));
    let told = scene.last_message().text_content().unwrap();
    assert_eq!(told, "To the question \"Which one?\" the user says: the tall one");
}

#[test]
fn a_user_who_does_not_answer_is_told_of_as_that() {
    for choice in [Choice::Decline, Choice::Cancel] {
        let history = history_that_asks(which_john());
        let answer = history.answer("t.1", choice).unwrap();
        let scene = next_turn(history, Opening::Answer(answer));
        let told = scene.last_message().text_content().unwrap();
        assert_eq!(told, "The user did not answer the question \"Which John?\".");
        assert_eq!(scene.turn.so_far().prompt, "(No answer.)");
    }
}

#[test]
fn of_two_questions_the_second_is_asked_when_the_first_is_answered() {
    let mut scene = scene();
    scene.says(&call("read")).says(&call("mute")).stops();
    scene.tool_returns(1, asks());
    scene.tool_returns(0, which_john());
    assert_eq!(scene.event("clarification_needed")["question"], "Which John?");
    let mut history = Conversation::default();
    history.push(scene.turn.into_record());
    let answer = history.answer("t.1", Choice::Option("c_1".into())).unwrap();
    let scene = next_turn(history.clone(), Opening::Answer(answer));
    assert_eq!(scene.types(), ["turn_started", "clarification_needed", "turn_completed"]);
    assert_eq!(scene.event("clarification_needed")["question"], "Which one?");
    assert!(scene.rounds.is_empty());
    history.push(scene.turn.into_record());
    let answer = history.answer("t.2", Choice::Text("both".into())).unwrap();
    let scene = next_turn(history, Opening::Answer(answer));
    let said: String = scene.rounds[0]
        .messages
        .iter()
        .filter_map(|message| message.text_content().map(std::borrow::Cow::into_owned))
        .collect();
    assert!(said.contains("\"id\":\"c_1\"") && said.contains("the user says: both"), "{said}");
}

#[test]
fn empty_answers_are_counted_over_turns_until_something_is_said() {
    let mut first = scene();
    first.stops();
    assert_eq!(first.event("feedback")["attempt"], 1);
    first.handle(Input::Cancel);
    let mut history = Conversation::default();
    history.push(first.turn.into_record());
    assert_eq!(history.empty_answers(), 1);

    let mut second = next_turn(history.clone(), Opening::Prompt("Well?".into()));
    second.stops();
    assert_eq!(second.event("feedback")["attempt"], 2);
    let plainer = second.event("feedback")["message"].as_str().unwrap();
    assert!(plainer.starts_with("Your message was empty again"), "{plainer}");
    second.stops();
    assert_eq!(second.event("turn_failed")["code"], "empty_response");
    history.push(second.turn.into_record());
    assert_eq!(history.empty_answers(), 3);

    let mut third = next_turn(history.clone(), Opening::Prompt("Well?".into()));
    third.says("Hello.").stops();
    history.push(third.turn.into_record());
    assert_eq!(history.empty_answers(), 0);
}

#[test]
fn a_fallback_can_be_passed_over_too() {
    for (why, told) in [
        (PassedOver::Unreachable, "b cannot be reached; using c instead"),
        (PassedOver::Silent, "b did not answer; using c instead"),
        (PassedOver::CoolingDown, "b failed recently; using c instead"),
    ] {
        let mut scene = Scene::new();
        for answering in ["b", "c"] {
            let answering = answering.to_owned();
            scene.handle(Input::Rerouted { place: 1, answering, why });
        }
        assert_eq!(scene.event("status")["message"], told);
    }
}

#[test]
fn words_about_calls_are_not_calls() {
    let mut scene = Scene::new();
    let said = "The marker is <<function_call>> and JSON follows.";
    scene.says(said).stops().ends("stop", said);
}
