//! Recipients of mutating calls: never someone whom the model has mixed up with another, whom the
//! user has not chosen, or who already has the message.

use super::chains::{asks, call, call_with, completes, scene_with};
use super::*;
use crate::conversation::Choice;
use crate::tools::{Clarification, ClarificationOption};

fn scene() -> Scene {
    scene_with(|_| ())
}

fn send_to(id: &str) -> String {
    call_with("send", &json!({ "to": id }))
}

fn send_to_found(call: usize) -> String {
    call_with("send", &json!({ "to": { "$result": format!("call_{call}.data.id") } }))
}

fn found(id: &str) -> ToolResult {
    ToolResult::data(json!({ "id": id }))
}

fn which_john() -> ToolResult {
    which("Which John?")
}

fn which(question: &str) -> ToolResult {
    which_of(question, ["john_doe", "john_smith"])
}

fn which_of(question: &str, ids: [&str; 2]) -> ToolResult {
    let option = |id: &str| ClarificationOption {
        id: id.into(),
        title: "John".into(),
        subtitle: None,
        confidence: None,
        metadata: None,
    };
    ToolResult::clarification(Clarification {
        r#type: "choice".into(),
        question: question.into(),
        options: ids.map(option).into(),
        ..Clarification::default()
    })
}

/// The session's next turn, continuing from this one.
fn next(scene: Scene, choose: Option<&str>) -> Scene {
    let (briefing, mut history) =
        (Arc::clone(&scene.turn.request().briefing), scene.turn.request().history.clone());
    history.push(scene.turn.into_record());
    let opening = match (choose, history.open_questions().first()) {
        (Some(id), Some(open)) => {
            let id = Choice::Option(id.into());
            Opening::Answer(history.answer(&open.clarification_id, id).unwrap())
        }
        _ => Opening::Prompt("Go on.".into()),
    };
    let request = TurnRequest { turn_id: "t2".into(), opening, history, briefing, ..request() };
    Scene::with(Rules::default(), request)
}

/// The arguments of the calls of `send` that ran.
fn sent(scene: &Scene) -> Vec<&str> {
    let starts = scene.deeds.iter().filter_map(|deed| deed.strip_prefix("start "));
    starts.filter_map(|start| start.split_once(" send ")).map(|(_, arguments)| arguments).collect()
}

/// The model has already seen `call_1` in an earlier result.
#[test]
fn ids_of_earlier_calls_are_not_reused() {
    let mut scene = scene();
    scene.says(&call("look")).stops();
    scene.tool_returns(0, found("jane"));
    let again = call_with("look", &json!({ "n": 2 }));
    scene.says(&again).says(&send_to_found(1)).stops();
    scene.tool_returns(1, found("maria"));
    assert!(sent(&scene).is_empty());
    assert_eq!(scene.event("feedback")["reason"], "invalid_arguments");
    scene.says("Done.").stops();

    let mut scene = next(scene, None);
    scene.says(&call("look")).says(&send_to_found(1)).stops();
    scene.tool_returns(0, found("maria"));
    assert!(sent(&scene).is_empty(), "nor in another turn");
}

#[test]
fn ids_count_over_the_session_and_name_the_calls_of_their_message() {
    let mut scene = scene();
    scene.says(&call("read")).says("<<function_call>> {]\n").stops();
    scene.tool_returns(0, ok());
    scene.says("Done.").stops();
    let mut scene = next(scene, None);
    scene.says(&call("look")).says(&send_to_found(3)).stops();
    scene.tool_returns(0, found("jane"));
    assert_eq!(sent(&scene), ["{\"to\":\"jane\"}"]);
}

#[test]
fn a_mutating_call_before_a_lookup_is_put_off() {
    let mut scene = scene();
    scene.says(&send_to("john_doe")).says(&call("look")).says(&call("read")).stops();
    assert_eq!(scene.started(), ["call_2"], "it would be a guess");
    assert_eq!(scene.not_run, ["call_1 at 1: skipped"]);
    scene.tool_returns(1, found("john_doe"));
    assert_eq!(scene.started(), ["call_2", "call_3"], "the others go on");
    scene.tool_returns(2, ok());
    scene.says(&send_to("john_doe")).stops();
    assert_eq!(sent(&scene), ["{\"to\":\"john_doe\"}"]);
}

#[test]
fn a_call_that_refers_to_a_lookup_is_not_put_off() {
    let mut scene = scene();
    let other = call_with("look", &json!({ "n": 2 }));
    scene.says(&call("look")).says(&send_to_found(1)).says(&other).stops();
    scene.tool_returns(0, found("jane"));
    assert_eq!(sent(&scene), ["{\"to\":\"jane\"}"]);
}

#[test]
fn mutating_calls_after_a_put_off_call_are_not_run() {
    let mut scene = scene();
    scene.says(&send_to("john_doe")).says(&call("look")).says(&send_to_found(2)).stops();
    scene.tool_returns(1, found("john_doe"));
    assert!(sent(&scene).is_empty());
    assert!(scene.statuses()[1].ends_with("which comes first, was put off"), "{:?}", scene.not_run);
}

#[test]
fn lookups_after_put_off_calls_run() {
    let mut scene = scene();
    scene.says(&send_to("john_doe")).says(&send_to("jane")).says(&call("look")).stops();
    assert_eq!(scene.not_run, ["call_1 at 1: skipped", "call_2 at 2: skipped"]);
    assert_eq!(scene.started(), ["call_3"]);
}

#[test]
fn an_option_that_was_not_chosen_is_never_sent_to() {
    for arguments in
        [json!({ "to": "john_smith" }), json!({ "to": [{ "id": "john_smith" }], "x": null })]
    {
        let mut scene = scene();
        scene.says(&call("look")).stops();
        scene.tool_returns(0, which_john());
        let mut scene = next(scene, Some("john_doe"));
        scene.says(&call_with("send", &arguments)).stops();
        assert!(sent(&scene).is_empty(), "{arguments}");
        let told = scene.event("feedback");
        assert_eq!(told["reason"], "invalid_arguments");
        assert!(told["message"].as_str().unwrap().contains("\"john_smith\""), "{told}");
        scene.says(&call_with("read", &arguments)).says(&send_to("john_doe")).stops();
        scene.tool_returns(1, ok());
        assert_eq!(sent(&scene), ["{\"to\":\"john_doe\"}"], "reading changes nothing");
    }
}

/// An account, or an amount: rounded, it would be another.
#[test]
fn nor_is_a_number_that_would_lose_digits() {
    let mut scene = scene();
    let written = call_with("send", &json!({ "to": "NUMBER" }));
    scene.says(&written.replace("\"NUMBER\"", "123456789012345678901")).stops();
    assert!(sent(&scene).is_empty());
    let told = scene.event("feedback");
    assert_eq!(told["reason"], "invalid_arguments");
    assert!(told["message"].as_str().unwrap().contains("123456789012345678901"), "{told}");
    scene.says(&written.replace("NUMBER", "123456789012345678901")).stops();
    scene.tool_returns(1, ok());
    assert_eq!(sent(&scene), ["{\"to\":\"123456789012345678901\"}"]);
}

/// Of a lookup that returns all options with its question.
#[test]
fn not_even_if_the_question_came_with_data() {
    let mut scene = scene();
    scene.says(&call("look")).stops();
    let data = Some(json!([{ "id": "john_doe" }, { "id": "john_smith" }]));
    scene.tool_returns(0, ToolResult { data, ..which_john() });
    let mut scene = next(scene, Some("john_doe"));
    scene.says(&send_to("john_smith")).stops();
    assert!(sent(&scene).is_empty());
    assert_eq!(scene.event("feedback")["reason"], "invalid_arguments");
}

#[test]
fn not_even_if_its_digits_are_a_number() {
    let mut scene = scene();
    scene.says(&call("look")).stops();
    scene.tool_returns(0, which_of("Which John?", ["1041", "1042"]));
    let mut scene = next(scene, Some("1041"));
    for number in [json!(1042), json!(1042.0)] {
        scene.says(&call_with("send", &json!({ "to": number }))).stops();
        assert!(sent(&scene).is_empty());
    }
    scene.says(&call_with("send", &json!({ "to": 1041 }))).stops();
    assert_eq!(sent(&scene), ["{\"to\":1041}"]);
}

#[test]
fn not_even_with_an_id_from_a_result() {
    let mut scene = scene();
    scene.says(&call("look")).stops();
    scene.tool_returns(0, which_john());
    let mut scene = next(scene, Some("john_doe"));
    scene.says(&call("read")).says(&send_to_found(2)).stops();
    scene.tool_returns(0, found("john_smith"));
    assert!(sent(&scene).is_empty());
    assert_eq!(scene.event("feedback")["reason"], "invalid_arguments");
}

#[test]
fn a_later_choice_overrides_an_earlier_one_and_a_new_prompt_allows_all() {
    let mut first = scene();
    first.says(&call("look")).stops();
    first.tool_returns(0, which_john());
    let mut second = next(first, Some("john_doe"));
    second.says(&call_with("look", &json!({ "n": 2 }))).stops();
    second.tool_returns(0, which_john());
    let mut third = next(second, Some("john_smith"));
    third.says(&send_to("john_smith")).stops();
    assert_eq!(sent(&third), ["{\"to\":\"john_smith\"}"]);
    third.tool_returns(0, ok());
    third.says("Done.").stops();

    let mut first = scene();
    first.says(&call("look")).stops();
    first.tool_returns(0, which_john());
    let mut second = next(first, Some("john_doe"));
    second.says("Done.").stops();
    let mut third = next(second, None);
    third.says(&send_to("john_smith")).stops();
    assert_eq!(sent(&third), ["{\"to\":\"john_smith\"}"], "the user may have asked for that");
}

#[test]
fn a_message_sent_before_a_question_is_not_sent_again_after_the_answer() {
    let mut scene = scene();
    scene.says(&send_to("jane")).stops();
    scene.tool_returns(0, ok());
    scene.says(&call("look")).stops();
    scene.tool_returns(1, which_john());
    let mut scene = next(scene, Some("john_doe"));
    scene.says(&send_to("jane")).says(&send_to("john_doe")).stops();
    assert_eq!(scene.not_run, ["call_3 at 1: repeated"]);
    assert_eq!(sent(&scene), ["{\"to\":\"john_doe\"}"]);
}

#[test]
fn lookups_after_a_question_run_once_it_is_answered() {
    let mut scene = scene();
    let other = call_with("look", &json!({ "n": 2 }));
    scene.says(&call("look")).says(&other).says(&call("send")).says(&call("look")).stops();
    scene.tool_returns(0, which_john());
    assert_eq!(scene.started(), ["call_1"]);
    let mut scene = next(scene, Some("john_doe"));
    assert_eq!(scene.deeds, ["start call_5 look {\"n\":2}"], "not what was answered");
    assert_eq!(scene.event("tool_started")["loop"], 0);
    scene.tool_returns(0, asks());
    assert_eq!(scene.event("clarification_needed")["question"], "Which one?");
    assert!(scene.rounds.is_empty(), "the model has not been asked in between");
}

#[test]
fn results_of_resumed_lookups_go_to_the_model() {
    let mut scene = scene();
    let other = call_with("look", &json!({ "n": 2 }));
    scene.says(&call("look")).says(&other).stops();
    scene.tool_returns(0, which_john());
    let mut scene = next(scene, Some("john_doe"));
    scene.tool_returns(0, found("jane"));
    let messages = &scene.rounds[0].messages;
    let [.., answer, looked, found] = &messages[..] else { panic!("{messages:#?}") };
    assert!(answer.text_content().unwrap().contains("\"id\":\"john_doe\""));
    assert!(looked.text_content().unwrap().contains("\"name\": \"look\""));
    assert!(found.text_content().unwrap().starts_with("`look` (call_3) returned: "));
    scene.says("Fine.").stops();
    scene.ends("stop", "Fine.");
    assert_eq!(scene.event("turn_completed")["loops"], 1, "the model was asked once");
}

#[test]
fn a_new_prompt_drops_the_lookups_with_the_question() {
    let mut scene = scene();
    scene.says(&call("look")).says(&call_with("look", &json!({ "n": 2 }))).stops();
    scene.tool_returns(0, which_john());
    let scene = next(scene, None);
    assert_eq!(scene.deeds, ["round"]);
}

#[test]
fn the_turn_that_asked_stays_in_the_request_that_answers_it() {
    let mut scene = scene();
    scene.says(&"word ".repeat(400)).says(&call("look")).stops();
    scene.tool_returns(0, which_john());
    let mut history = Conversation::default();
    history.push(scene.turn.into_record());
    let answer = history.answer("t.1", Choice::Option("john_doe".into())).unwrap();
    let rules = Rules { context_budget_tokens: 200, ..Rules::default() };
    let scene =
        Scene::with(rules, TurnRequest { history, opening: Opening::Answer(answer), ..request() });
    let said: Vec<_> = scene.rounds[0].messages.iter().filter_map(Message::text_content).collect();
    let asked = said.iter().position(|said| *said == "What time is it?").unwrap();
    assert_eq!(said[asked + 1], "Which John?", "what it said before is left out: {said:#?}");
}

/// An unreadable call may have been the lookup.
#[test]
fn a_mutating_call_before_a_possible_lookup_is_put_off() {
    for later in [
        "<<function_call>> {\"name\": \"look\", \"arguments\": {\"n\": 1}",
        "<<function_call>> {\"name\": \"look\", \"argu",
        "<<function_call>> {\"name\": \"look\", \"arguments\": {\"n\": \"one\"}}",
        "<<function_call>> {\"name\": \"look_up\", \"arguments\": {}}",
        "<<function_call>> {]",
        "<<function_call>>",
    ] {
        let mut scene = scene();
        scene.says(&send_to("john_doe")).says(later).stops();
        assert!(sent(&scene).is_empty(), "before {later}");
        let told = scene.last_message().text_content().unwrap();
        assert!(told.contains("not run: "), "{told}");
    }
    let mut scene = scene_with(|rules| rules.max_calls = 1);
    scene.says(&send_to("john_doe")).says(&call("look")).stops();
    assert!(sent(&scene).is_empty(), "nor before a call over the cap");
}

#[test]
fn only_results_of_lookups_name_recipients() {
    let mut scene = scene();
    let text = json!({ "to": "john_doe", "text": { "$result": "call_1.data.n" } });
    scene.says(&call("read")).says(&call_with("send", &text)).says(&call("look")).stops();
    scene.tool_returns(0, ToolResult::data(json!({ "n": 42 })));
    assert!(sent(&scene).is_empty());
}

#[test]
fn of_two_choices_from_the_same_options_the_later_one_counts() {
    let mut first = scene();
    first.says(&call("look")).stops();
    first.tool_returns(0, which_john());
    let mut second = next(first, Some("john_doe"));
    second.says(&call_with("look", &json!({ "n": 2 }))).stops();
    second.tool_returns(0, which("Which JOHN?"));
    let mut third = next(second, Some("john_smith"));
    third.says(&send_to("john_doe")).stops();
    assert!(sent(&third).is_empty());
    third.says(&send_to("john_smith")).stops();
    assert_eq!(sent(&third), ["{\"to\":\"john_smith\"}"]);
}

/// "Tell John Smith hello, and John that I am late."
#[test]
fn a_person_found_by_a_lookup_may_be_sent_to() {
    let mut scene = scene();
    let other = call_with("look", &json!({ "n": 2 }));
    scene.says(&call("look")).says(&other).stops();
    scene.tool_returns(0, found("john_smith"));
    scene.tool_returns(1, which_john());
    let mut scene = next(scene, Some("john_doe"));
    scene.says(&send_to("john_smith")).stops();
    assert_eq!(sent(&scene), ["{\"to\":\"john_smith\"}"]);
}

#[test]
fn a_refused_repeat_does_not_undo_the_call() {
    let mut first = scene();
    first.says(&send_to("john_doe")).stops();
    first.tool_returns(0, ok());
    first.says(&call("look")).stops();
    first.tool_returns(1, which_john());
    let mut second = next(first, Some("john_smith"));
    second.says(&send_to("john_doe")).stops();
    second.says(&call_with("look", &json!({ "n": 2 }))).stops();
    second.tool_returns(1, which_john());
    let mut third = next(second, Some("john_doe"));
    third.says(&send_to("john_doe")).stops();
    assert!(sent(&third).is_empty(), "{:?}", third.not_run);
}

#[test]
fn a_repeated_lookup_does_not_ask_the_user_forever() {
    let mut scene = scene();
    scene.says(&call("look")).stops();
    scene.tool_returns(0, which_john());
    let mut scene = next(scene, Some("john_doe"));
    scene.says(&call("look")).stops();
    assert!(scene.running.is_empty() && !scene.turn.is_over(), "the model is told so instead");
    let told = scene.last_message().text_content().unwrap().into_owned();
    assert!(told.contains("john_doe") && told.contains("has chosen"), "{told}");
    assert!(!told.contains("Which John?"), "{told}");
    scene.says(&call("look")).stops();
    assert!(scene.rounds.last().unwrap().tools.is_empty());
}

#[test]
fn a_resumed_lookup_that_finds_nobody_keeps_the_choice() {
    let mut scene = scene();
    scene.says(&call("look")).says(&call_with("look", &json!({ "n": 2 }))).stops();
    scene.tool_returns(0, which_john());
    let mut scene = next(scene, Some("john_doe"));
    scene.tool_returns(0, completes());
    assert!(!scene.rounds[0].tools.is_empty());
    scene.says(&send_to("john_doe")).stops();
    assert_eq!(sent(&scene), ["{\"to\":\"john_doe\"}"]);
}

#[test]
fn a_call_that_refers_to_a_missing_result_is_not_resumed() {
    let mut scene = scene();
    let named = call_with("look", &json!({ "n": { "$result": "call_1.data.n" } }));
    scene.says(&call("look")).says(&named).stops();
    scene.tool_returns(0, which_john());
    let scene = next(scene, Some("john_doe"));
    assert_eq!(scene.deeds, ["round"]);
}
