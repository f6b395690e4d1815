//! Answers that must be JSON.

use super::*;
use crate::orchestrator::ResponseFormat;

const SIZE: &str = "{\"size\": 2}";

fn request_for(format: ResponseFormat, tools: &Catalog) -> TurnRequest {
    let briefing = briefing(Rules::default(), tools);
    TurnRequest { response_format: Some(Arc::new(format)), briefing, ..request() }
}

fn size() -> ResponseFormat {
    let properties = json!({"size": {"type": "integer"}});
    let schema = json!({"type": "object", "properties": properties, "required": ["size"]});
    ResponseFormat::json_schema("size", schema).unwrap()
}

fn scene() -> Scene {
    Scene::of(request_for(size(), tools().catalog()))
}

/// Whether the model server is asked for the form.
fn is_constrained(round: &ChatRequest) -> bool {
    round.sampling.extra.fields().contains_key("response_format")
}

fn texts(scene: &Scene) -> Vec<&str> {
    let texts = scene.events.iter().filter(|event| event["type"] == "text_delta");
    texts.map(|event| event["data"]["text"].as_str().unwrap()).collect()
}

#[test]
fn tools_are_offered_first_and_words_beside_calls_are_not_shown() {
    let mut scene = scene();
    assert!(!is_constrained(&scene.rounds[0]) && !scene.rounds[0].tools.is_empty());
    assert_eq!(scene.rounds[0].answer.as_deref().unwrap()["required"], json!(["size"]));
    scene.says("Let me look. ").says(TIME).stops();
    let started = scene.event("acknowledgement");
    assert_eq!(started["source"], "hints", "the user has not heard those words");
    scene.tool_returns(0, ok());
    scene.says("{\"size\"").says(": 2}");
    assert!(texts(&scene).is_empty(), "nothing is shown before it is known to be right");
    scene.stops();
    scene.ends("stop", SIZE);
    assert_eq!(texts(&scene), [SIZE]);
}

#[test]
fn an_answer_in_words_is_asked_for_again_without_tools() {
    let mut scene = scene();
    scene.says("The size is two.").stops();
    let last = scene.rounds.last().unwrap();
    assert!(is_constrained(last) && last.tools.is_empty() && last.answer.is_none());
    let told = format!("{:?}", last.messages);
    assert!(told.contains("The size is two.") && told.contains("JSON Schema"), "{told}");
    let status = "the answer is not in the required form; asking again";
    assert_eq!(scene.event("status")["message"], status);
    scene.says(SIZE).stops();
    scene.ends("stop", SIZE);
}

#[test]
fn a_closing_answer_is_corrected_once() {
    let mut scene = scene();
    scene.says("Two.").stops().says("{\"size\": \"two\"}").stops();
    let told = format!("{:?}", scene.rounds.last().unwrap().messages);
    assert!(told.contains("answer.size: expected"), "{told}");
    scene.says(SIZE).stops();
    scene.ends("stop", SIZE);
}

#[test]
fn the_last_answer_goes_out_as_it_is() {
    let mut scene = scene();
    scene.says("Two.").stops().says("Two!").stops().says("Just two.").stops();
    assert_eq!(scene.rounds.len(), 3);
    scene.ends("stop", "Just two.");
}

#[test]
fn a_fenced_answer_is_shown_without_its_fence() {
    let mut scene = scene();
    scene.says(&format!("```json\n{SIZE}\n```")).stops();
    scene.ends("stop", SIZE);
}

#[test]
fn an_answer_that_repeats_a_result_is_no_invention() {
    let found = ToolResult::data(json!({"size": 2}));
    let mut scene = scene();
    scene.says(TIME).stops().tool_returns(0, found);
    scene.says("{\"size\":2}").stops();
    scene.ends("stop", "{\"size\":2}");
}

#[test]
fn an_answer_cut_off_by_the_token_limit_is_not_asked_for_again() {
    let mut scene = scene();
    scene.says("{\"size\"").finishes(RoundFinish::Length);
    scene.ends("length", "{\"size\"");
}

#[test]
fn at_the_loop_limit_the_closing_answer_has_the_form() {
    let rules = Rules { max_tool_loops: 1, ..Rules::default() };
    let mut scene = Scene::with(rules, request_for(size(), tools().catalog()));
    scene.says(TIME).stops().tool_returns(0, ok());
    assert!(is_constrained(scene.rounds.last().unwrap()));
    scene.says(SIZE).stops();
    scene.ends("loop_limit", SIZE);
}

#[test]
fn without_tools_the_first_round_has_the_form_and_streams() {
    let mut scene = Scene::of(request_for(ResponseFormat::json_object(), &Catalog::default()));
    assert!(is_constrained(&scene.rounds[0]));
    scene.says("{\"a\"");
    assert_eq!(texts(&scene), ["{\"a\""]);
    scene.says(": 1}").stops();
    scene.ends("stop", "{\"a\": 1}");
}

#[test]
fn without_tools_an_answer_that_is_read_whole_is_corrected_too() {
    let request = request_for(size(), &Catalog::default());
    let mut scene = Scene::of(TurnRequest { is_read_whole: true, ..request });
    assert!(is_constrained(&scene.rounds[0]));
    scene.says("Two.").stops().says(SIZE).stops();
    scene.ends("stop", SIZE);
    assert_eq!(texts(&scene), [SIZE]);
}

#[test]
fn a_stop_text_ends_the_answer_whatever_its_form() {
    let sampling = Sampling { stop: vec!["END".to_owned()], ..Sampling::default() };
    let mut scene = Scene::of(TurnRequest { sampling, ..request_for(size(), tools().catalog()) });
    scene.says("{\"size\": END");
    scene.ends("stop", "{\"size\": ");
}

/// Words that were withheld do not stand before it.
#[test]
fn an_answer_of_the_gateway_is_all_that_is_shown() {
    let mut scene = scene();
    scene.says("Let me look. ").says(TIME).stops().tool_returns(0, ok());
    for _ in 0..3 {
        scene.stops();
    }
    let text = scene.event("turn_completed")["text"].as_str().unwrap();
    assert!(text.starts_with("Here is what I found."), "{text}");
    assert_eq!(texts(&scene), [text]);
}
