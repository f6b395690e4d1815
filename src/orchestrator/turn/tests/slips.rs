//! The model's slips: counted per message, reported once, never in the way of an answer.

use super::chains::{add_policies, call, call_with, scene_with};
use super::*;

const BAD: &str = "<<function_call>> {\"name\": \"nope\", \"arguments\": {}}\n";

fn attempts(scene: &Scene) -> Vec<u64> {
    let told = scene.events.iter().filter(|event| event["type"] == "feedback");
    told.map(|event| event["data"]["attempt"].as_u64().unwrap()).collect()
}

fn temperature(scene: &Scene) -> Option<f64> {
    scene.rounds.last().unwrap().sampling.temperature
}

#[test]
fn a_message_with_several_mistakes_is_one_attempt() {
    let mut scene = scene_with(|_| ());
    scene.says(BAD).says(&BAD.replace("nope", "no")).says(&BAD.replace("nope", "not")).stops();
    assert_eq!(attempts(&scene), [1, 1, 1]);
    assert_eq!(temperature(&scene), Some(0.9), "one step up");
    scene.says(BAD).says("<<function_call>> {]\n").stops();
    assert_eq!(attempts(&scene)[3..], [2, 1], "each kind is counted by itself");
    assert_eq!(temperature(&scene), Some(1.1));
    assert!(!scene.rounds.last().unwrap().tools.is_empty());
    scene.says(BAD);
    assert_eq!(attempts(&scene)[5..], [3]);
    assert!(scene.rounds.last().unwrap().tools.is_empty(), "then an answer in words");
}

#[test]
fn an_invented_name_does_not_fill_the_next_request() {
    let mut scene = scene_with(|_| ());
    let name = "n".repeat(60_000);
    scene.says(&BAD.replace("nope", &name)).stops();
    let messages = &scene.rounds.last().unwrap().messages;
    let told = &messages[messages.len() - 2..];
    let bytes: Vec<usize> =
        told.iter().map(|message| message.text_content().unwrap().len()).collect();
    assert!(bytes[0] < 128 && bytes[1] < 512, "{told:?}");
    let events = scene.events.iter().filter(|event| event["type"] != "tool_call_started");
    assert!(events.map(|event| event.to_string().len()).all(|bytes| bytes < 2048));
}

#[test]
fn a_message_about_a_mistake_is_at_most_2_kib() {
    for (bytes, is_whole) in [(2048, true), (2049, false)] {
        let message = feedback::brief("m".repeat(bytes));
        assert_eq!(message.len() == bytes, is_whole);
        assert_eq!(message.ends_with('…'), !is_whole);
    }
}

#[test]
fn tools_that_fail_together_are_one_attempt() {
    let mut scene = scene_with(|_| ());
    scene.says(&call("read")).says(&call("look")).stops();
    scene.tool_returns(0, ToolResult::error("no"));
    scene.tool_returns(1, ToolResult::error("no"));
    assert_eq!(attempts(&scene), [1, 1]);
}

/// Nothing was sent, and the record says so.
#[test]
fn a_call_that_never_began_was_not_interrupted() {
    let mut scene = scene_with(|_| ());
    scene.says(&call("read")).says(&call("send")).handle(Input::Cancel);
    let record = scene.turn.into_record();
    let outcomes: Vec<_> = record.steps[0].calls().map(|call| call.outcome.clone()).collect();
    let [Outcome::Cancelled, Outcome::Skipped(why)] = &outcomes[..] else { panic!("{outcomes:?}") };
    assert_eq!(why, "the turn ended before it could begin");
}

#[test]
fn a_marker_cut_by_the_token_limit_is_a_cut_call() {
    for (said, finish, reason) in [
        ("<<function_call>>", RoundFinish::Length, "incomplete_call"),
        ("<<function_call>>", RoundFinish::Stop, "malformed_call"),
        ("<<function_call>> so\nand more", RoundFinish::Length, "malformed_call"),
        ("<<function_call>>get_wea", RoundFinish::Length, "incomplete_call"),
        ("<<function_call>>\n<func", RoundFinish::Length, "incomplete_call"),
    ] {
        let mut scene = scene_with(|_| ());
        scene.says(said).finishes(finish);
        assert_eq!(scene.event("feedback")["reason"], reason, "{said} {finish:?}");
    }
}

#[test]
fn a_closing_answer_cut_by_the_token_limit_says_so() {
    let mut scene = scene_with(|rules| rules.max_tool_loops = 1);
    scene.says(&call("read")).stops();
    scene.tool_returns(0, ok());
    scene.says("It is").finishes(RoundFinish::Length);
    scene.ends("length", "It is");
}

#[test]
fn json_after_words_about_the_marker_is_no_result() {
    let mut scene = Scene::new();
    let words = "Write <<function_call>> and then the object:\n{\"name\": \"f\"}";
    scene.says(words).stops();
    scene.ends("stop", words);
}

#[test]
fn text_after_an_invented_result_is_ignored() {
    let sum =
        "<<function_call>> {\"name\": \"calculate\", \"arguments\": {\"expression\": \"1+1\"}}\n";
    let mut tools = tools();
    add_policies(&mut tools);
    let mut scene = Scene::with_tools(tools.catalog());
    let invented = format!("{sum}\n`calculate` returned: {{\"result\": 99}}\n{}", call("send"));
    scene.says(&invented);
    assert_eq!(scene.deeds.iter().filter(|deed| deed.starts_with("start ")).count(), 1);
    assert_eq!(scene.turn.text().trim(), "", "nor shown");
    scene.tool_returns(0, ok());
    let told = scene.last_message().text_content().unwrap();
    assert!(told.contains("12:00") && !told.contains("99"), "{told}");
}

#[test]
fn words_before_a_refused_call_still_acknowledge() {
    let mut scene = scene_with(|_| ());
    scene.says("Checking.\n").says(BAD).stops();
    scene.says(&call("read"));
    let heard = scene.event("acknowledgement");
    assert_eq!((&heard["source"], &heard["text"]), (&json!("model"), &json!("Checking.")));
}

#[test]
fn events_of_a_call_come_after_what_it_waits_for() {
    let mut scene = scene_with(|_| ());
    scene.says(&call("look")).says(&call("read"));
    scene.tool_returns(0, ToolResult::error("no network"));
    scene.stops();
    let types = scene.types();
    let at = |name: &str| types.iter().position(|found| *found == name).unwrap();
    assert!(at("tool_started") < at("status"), "{types:?}");
}

#[test]
fn hints_come_before_the_words_after_the_call() {
    let mut scene = scene_with(|_| ());
    scene.says(&call("read")).says("So");
    let types = scene.types();
    assert_eq!(types[types.len() - 3..], ["acknowledgement", "tool_started", "text_delta"]);
}

/// A model may write one again before it has heard of the failure. What it writes then still counts.
#[test]
fn a_call_that_has_failed_does_not_stop_the_message_that_repeats_it() {
    let mut scene = scene_with(|_| ());
    scene.says(&call("read"));
    scene.tool_returns(0, ToolResult::error("busy"));
    scene.says(&call("read")).says(&call_with("read", &json!({ "n": 1 }))).stops();
    assert_eq!(scene.started(), ["call_1", "call_2", "call_3"]);
}

#[test]
fn an_empty_answer_makes_the_model_warmer() {
    let mut scene = Scene::new();
    scene.stops();
    assert_eq!(temperature(&scene), Some(0.9));
}

#[test]
fn a_model_gets_no_warmer_than_that_unless_the_client_wants_it() {
    for (asked, mistakes, warmed) in [(1.3, 1, 1.5), (1.4, 1, 1.5), (1.8, 1, 1.8), (0.0, 2, 0.4)] {
        let sampling = Sampling { temperature: Some(asked), ..Sampling::default() };
        let mut scene = Scene::of(TurnRequest { sampling, ..request() });
        for _ in 0..mistakes {
            scene.says(BAD).stops();
        }
        assert_eq!(temperature(&scene), Some(warmed), "{mistakes} from {asked}");
    }
}

/// A model without tools is not told to call one.
#[test]
fn what_is_said_of_an_empty_answer_depends_on_the_tools() {
    let mut scene = Scene::new();
    scene.stops();
    assert_eq!(scene.event("feedback")["message"], feedback::empty_response(true));
    let mut scene = Scene::with_tools(&Catalog::default());
    scene.stops();
    let told = scene.last_message().text_content().unwrap().into_owned();
    assert!(told.ends_with(feedback::empty_response(false)), "{told}");
}

/// The null means that it is left out.
#[test]
fn an_argument_that_is_null_is_as_good_as_none() {
    let mut scene = scene_with(|_| ());
    scene.says(&call_with("read", &json!({ "n": null }))).stops();
    assert_eq!(scene.event("tool_started")["tool_args"], json!({}));
    scene.tool_returns(0, ok());
    scene.says(&call("read")).stops();
    assert_eq!(scene.not_run, ["call_2 at 1: repeated"]);
}

#[test]
fn results_do_not_end_the_turn_if_the_model_has_to_hear_of_a_mistake() {
    let mut scene = scene_with(|rules| rules.continue_after_tool = false);
    scene.says(&call("read")).says("<<function_call>> {]\n").stops();
    scene.tool_returns(0, ok());
    assert_eq!(scene.rounds.len(), 2);
}

#[test]
fn a_status_tells_the_user_why_and_the_model_what_to_do() {
    let mut scene = scene_with(|_| ());
    scene.says(&call("send")).says(&call("look")).stops();
    scene.tool_returns(1, ok());
    let why = "look (call_2) comes later in the model's message and may change who it is for";
    assert_eq!(scene.statuses(), [format!("send was not run: {why}")]);
    let told = scene.rounds.last().unwrap().messages.iter().filter_map(Message::text_content);
    let told: Vec<_> = told.collect();
    assert!(told.iter().any(|told| told.contains("call it again when you have")), "{told:#?}");
}
