//! The closing answer, and blocks of results in the model's words.

use super::*;
use crate::call_format::HERMES;
use crate::conversation::{Part, UtteranceKind};

const BAD_TIME: &str = "<<function_call>> {\"name\": \"get_time\"}\n";

#[test]
fn the_cap_leads_to_a_last_answer_in_words() {
    let mut scene = Scene::with_rules(|rules| rules.max_tool_loops = 2);
    for call in 0..2 {
        scene.says(TIME).stops().tool_returns(call, ok());
    }
    assert_eq!(scene.event("loop_limit_reached")["max_tool_loops"], 2);
    let last = scene.rounds.last().unwrap();
    assert!(last.tools.is_empty());
    assert!(!format!("{:?}", last.messages).contains("<<function_call>>"));
    scene.says("It is noon.").says(TIME).stops();
    scene.ends("loop_limit", "It is noon.");
    assert!(scene.event("status")["message"].as_str().unwrap().contains("not run"));
    assert_eq!(scene.event("turn_completed")["loops"], 3);
    assert_eq!(scene.event("turn_completed")["tool_calls"], 2);
}

#[test]
fn an_empty_closing_answer_is_requested_again() {
    let mut scene = Scene::with_rules(|rules| rules.max_tool_loops = 1);
    scene.says(BAD_TIME).stops().says(BAD_TIME).stops();
    assert_eq!(scene.rounds.len(), 3);
    scene.says("I do not know.").stops();
    scene.ends("loop_limit", "I do not know.");
    let mut scene = Scene::with_rules(|rules| rules.max_tool_loops = 1);
    scene.says(BAD_TIME).stops().stops().stops();
    scene.fails("empty_response");
}

#[test]
fn a_turn_with_results_is_answered_with_them_if_the_model_gives_no_closing_answer() {
    let answer = "Here is what I found.\n\nget_current_time:\ntime: 12:00";
    for closing in ["", " \n", TIME, "{\"time\": \"12:00\"}", "`get_current_time` returned: x"] {
        let mut scene = Scene::with_rules(|rules| rules.max_tool_loops = 1);
        scene.says(TIME).stops().tool_returns(0, ok());
        scene.says(closing).stops();
        assert_eq!(scene.rounds.len(), 2, "{closing}");
        let text = scene.event("turn_completed")["text"].as_str().unwrap().to_owned();
        assert_eq!(text.trim(), answer, "{closing}");
        assert_eq!(scene.event("turn_completed")["finish_reason"], "loop_limit");
        let status = scene.event("status")["message"].as_str().unwrap();
        assert!(status.contains("wrote no answer"), "{status}");
        let record = scene.turn.into_record();
        let Some(Part::Said(said)) = record.steps.last().unwrap().parts.last() else {
            panic!("{record:?}")
        };
        assert_eq!((said.kind, &*said.text), (UtteranceKind::Response, answer));
    }
}

#[test]
fn closing_words_before_a_block_of_results_are_the_answer() {
    for (words, is_answer) in [("It is noon.", true), ("I have found:", false)] {
        let mut scene = Scene::with_rules(|rules| rules.max_tool_loops = 1);
        scene.says(TIME).stops().tool_returns(0, ok());
        scene.says(words).says("\n`get_current_time` (call_1) returned: x").stops();
        let text = scene.event("turn_completed")["text"].as_str().unwrap();
        assert_eq!(text.trim() == words, is_answer, "{text}");
    }
}

#[test]
fn a_lead_in_to_another_call_is_no_closing_answer() {
    for (words, is_answer) in [("It is noon.", true), ("Let me look again:", false)] {
        let mut scene = Scene::with_rules(|rules| rules.max_tool_loops = 1);
        scene.says(TIME).stops().tool_returns(0, ok());
        scene.says(words).says("\n").says(TIME).stops();
        let text = scene.event("turn_completed")["text"].as_str().unwrap();
        assert_eq!(text.trim() == words, is_answer, "{text}");
    }
}

#[test]
fn a_result_after_its_own_call_is_not_shown() {
    for invented in ["{\"time\": \"13:00\"}", "`nobody` (call_1) returned: x", "\u{a0}{\"a\": 1}"] {
        let mut scene = Scene::new();
        let message = TIME.replace("get_current_time", "nobody");
        scene.says(&format!("{message}{invented}\nIt is one.")).stops();
        assert_eq!(scene.turn.text().trim(), "", "{invented}");
    }
}

#[test]
fn a_turn_without_tools_keeps_calls_and_headings_of_earlier_turns_from_the_user() {
    for (message, is_call) in [(TIME, true), ("`get_current_time` (call_1) returned: x", false)] {
        let mut scene = Scene::new();
        scene.says(TIME).stops().tool_returns(0, ok()).says("It is noon.").stops();
        let mut history = Conversation::default();
        history.push(scene.turn.into_record());
        let briefing = briefing(Rules::default(), &Catalog::default());
        let mut scene = Scene::of(TurnRequest { briefing, history, ..request() });
        scene.says(message).stops();
        assert!(scene.events.iter().all(|event| event["type"] != "text_delta"), "{message}");
        let told = scene.last_message().text_content().unwrap().into_owned();
        assert_eq!(told.contains("No tools are available: answer in words."), is_call, "{told}");
        scene.says("It is noon.").stops();
        scene.ends("stop", "It is noon.");
    }
}

#[test]
fn a_turn_without_an_answer_says_what_the_model_was_after() {
    let unknown = TIME.replace("get_current_time", "lookup_weather");
    let mut scene = Scene::new();
    for _ in 0..5 {
        scene.says(&unknown).stops();
    }
    let message = scene.event("turn_failed")["message"].as_str().unwrap().to_owned();
    assert!(message.contains("its last call, of \"lookup_weather\", did not"), "{message}");
}

#[test]
fn a_turn_with_results_does_not_end_in_silence() {
    let mut scene = Scene::new();
    scene.says(TIME).stops().tool_returns(0, ok());
    scene.stops().stops().stops();
    scene.ends("stop", "Here is what I found.\n\nget_current_time:\ntime: 12:00");
}

#[test]
fn an_echo_of_a_result_is_a_mistake_and_leads_to_the_closing_answer() {
    for echo in ["{\"time\": \"12:00\"}", "`get_current_time` returned:"] {
        let mut scene = Scene::new();
        scene.says(TIME).stops().tool_returns(0, ok());
        scene.spells(echo);
        let feedback = scene.event("feedback");
        assert_eq!(
            (&feedback["reason"], &feedback["call_id"]),
            (&json!("invented_result"), &Value::Null)
        );
        assert!(scene.deeds.contains(&"stop round".to_owned()), "{echo}");
        assert!(scene.rounds.last().unwrap().tools.is_empty(), "{echo}");
        scene.says("It is noon.").stops();
        scene.ends("stop", "It is noon.");
    }
}

#[test]
fn an_invented_result_is_a_mistake_and_the_tools_stay() {
    let mut scene = Scene::new();
    for attempt in 1..=3 {
        scene.says("Sure:\n`get_current_time` returned: {\"time\": \"9:00\"}");
        let feedback = scene.event("feedback");
        assert_eq!(feedback["attempt"], attempt);
        assert_eq!(scene.rounds.last().unwrap().tools.is_empty(), attempt == 3);
    }
    scene.says("I do not know.").stops();
    let text = scene.event("turn_completed")["text"].as_str().unwrap();
    assert!(!text.contains("9:00") && text.ends_with("I do not know."), "{text}");
}

#[test]
fn a_user_who_wants_json_gets_it() {
    let opening = Opening::Prompt("What time is it? Answer in JSON.".into());
    let mut scene = Scene::with(Rules::default(), TurnRequest { opening, ..request() });
    scene.says(TIME).stops().tool_returns(0, ok());
    scene.says("{\"time\": \"12:00\"}").stops();
    scene.ends("stop", "{\"time\": \"12:00\"}");
}

#[test]
fn words_about_calls_in_the_closing_answer_are_words() {
    let mut scene = Scene::with_rules(|rules| rules.max_tool_loops = 1);
    scene.says(TIME).stops().tool_returns(0, ok());
    scene.says("I may not use <<function_call>> now.").stops();
    assert!(!scene.types().contains(&"status"));
    scene.ends("loop_limit", "I may not use <<function_call>> now.");
}

#[test]
fn invented_results_stop_the_round() {
    let mut scene = Scene::new();
    scene.says(TIME).says("\n`get_current_time` returned: {\"ti");
    assert_eq!(scene.deeds.last().unwrap(), "stop round");
    // The rest of the dropped round is ignored.
    scene.says(" ... and so on").handle(Input::RoundEnded);
    scene.tool_returns(0, ok());
    assert_eq!(scene.rounds.len(), 2);
}

/// The fence makes the call unreadable, and its JSON is not a result because of that.
#[test]
fn the_rest_of_an_unreadable_call_is_not_an_invented_result() {
    for row in [&MARKER_JSON, &HERMES] {
        let opener = row.openers[0];
        let rules = Rules { call_contract: CallContract::InText(row), ..Rules::default() };
        let mut scene = Scene::with(rules, request());
        scene.says(&format!("{opener} ```json\n{{\"name\": \"get_current_time\"}}\n```\n"));
        let feedback = scene.types().iter().filter(|event| **event == "feedback").count();
        assert_eq!(feedback, 1, "{opener}");
        assert_eq!(scene.event("feedback")["reason"], "malformed_call");
    }
}
