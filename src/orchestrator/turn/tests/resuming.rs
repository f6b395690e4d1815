//! Turns that are interrupted, and resumed by another machine.

use std::borrow::Cow;

use super::*;
use crate::conversation::{Interrupted, Part};
use crate::event::AcknowledgementSource;
use crate::orchestrator::{ResponseFormat, prompt};
use crate::tools::registry::tests::Named;
use crate::tools::{Confirm, Policy, ToolSpec};

impl Scene {
    /// What another gateway knows of the turn after its first `events` events.
    pub(super) fn cut_after(&self, events: usize) -> Interrupted {
        self.cut_again(&[], events)
    }

    /// The same of a turn that was resumed after the events `before`.
    fn cut_again(&self, before: &[Value], events: usize) -> Interrupted {
        let known = self.journals.iter().rev().find(|(after, ..)| *after <= events);
        let (after, turn, tally) = known.expect("there is a journal from the start");
        let all = before.iter().chain(&self.events[..events]);
        let lines: Vec<_> = all.map(Value::to_string).collect();
        let lines = (1..).zip(lines.iter().map(String::as_bytes));
        let after = if *after == 0 { self.steps_end } else { None }
            .unwrap_or((before.len() + after) as u64);
        Interrupted::new(turn.clone(), tally.clone(), after, lines)
    }

    pub(super) fn resumed(request: TurnRequest, interrupted: Interrupted) -> Self {
        assert!(TurnMachine::can_resume(&request, &interrupted));
        Self::playing(TurnMachine::resume(request, interrupted, 1000), History::Text)
    }

    /// What its events say.
    fn said(&self) -> String {
        let text = |event: &Value| event["data"]["text"].as_str().map(str::to_owned);
        let deltas = self.events.iter().filter(|event| event["type"] == "text_delta");
        deltas.filter_map(text).collect()
    }
}

/// What the model says, one message after another.
const MESSAGES: [&str; 3] = [
    "Let me look. <<function_call>> {\"name\": \"get_current_time\", \"arguments\": {\"timezone\": \"Asia/Tokyo\"}}\n",
    "And now the sum. <<function_call>> {\"name\": \"calculate\", \"arguments\": {\"expression\": \"1+1\"}}\n",
    "It is noon, and one and one is two.",
];

/// Plays the model and the tools to the end of the turn. The model knows from its prompt where it is.
fn play(scene: &mut Scene) {
    while !scene.turn.is_over() {
        if let Some(call) = scene.running.first().copied() {
            scene.tool_returns(call, ok());
            continue;
        }
        let request = scene.rounds.last().unwrap();
        let texts: Vec<String> = request
            .messages
            .iter()
            .map(|message| message.text_content().unwrap_or_default().into_owned())
            .collect();
        let current = &texts[texts.iter().position(|text| text == "What time is it?").unwrap()..];
        let results = current.iter().filter(|text| text.contains("12:00")).count();
        let mut message = MESSAGES[results];
        if current.last().unwrap() == prompt::GO_ON {
            // What it has said of this message is the last that it has said.
            let before = &current[current.len() - 2];
            let said =
                (0..=message.len()).rev().find(|end| before.ends_with(message[..*end].trim_end()));
            message = &message[said.unwrap()..];
        }
        for word in message.split_inclusive(' ') {
            scene.says(word);
        }
        scene.stops();
    }
}

/// Wherever it is interrupted, the client reads what it would have read, and each call is told once.
#[test]
fn a_turn_goes_on_wherever_it_is_interrupted() {
    let mut whole = Scene::new();
    play(&mut whole);
    let answer = whole.said();
    let ids = |events: &[Value], name: &str| -> Vec<String> {
        let of_name = events.iter().filter(|event| event["type"] == name);
        of_name.map(|event| event["data"]["call_id"].as_str().unwrap().to_owned()).collect()
    };
    for cut in 0..whole.events.len() {
        let interrupted = whole.cut_after(cut);
        let mut rest = Scene::resumed(request(), interrupted);
        play(&mut rest);
        let told = rest.types().into_iter().filter(|name| *name == "status").count();
        assert_eq!(told, 1, "{cut}");
        let mut events = whole.events[..cut].to_vec();
        events.extend(rest.events.iter().filter(|event| event["type"] != "status").cloned());
        let all = Scene { events, ..rest };
        assert_eq!(all.said(), answer, "{cut}");
        let mut started = ids(&all.events, "tool_started");
        let calls = started.len();
        started.dedup();
        assert_eq!((calls, started.len()), (2, 2), "after {cut}: {started:?}");
        assert_eq!(ids(&all.events, "tool_completed"), started, "after {cut}");
        let starts = all.events.iter().filter(|event| event["type"] == "turn_started");
        assert_eq!(starts.count(), 1, "{cut}");
        let (end, expected) = (all.event("turn_completed"), whole.event("turn_completed"));
        for field in ["finish_reason", "text", "tool_calls", "loops"] {
            assert_eq!(end[field], expected[field], "{field} after {cut}");
        }
        let (record, undisturbed) = (all.turn.so_far(), whole.turn.so_far());
        // A call that had only begun is made again, under another id.
        let parts = |turn: &conversation::Turn| -> Vec<Vec<String>> {
            let steps = turn.steps.iter().map(|step| {
                let parts = step.parts.iter().filter_map(|part| match part {
                    Part::Text(text) => Some(text.clone()),
                    Part::Call(call) => Some(format!(
                        "{} {} {:?}",
                        call.name,
                        call.arguments.to_value(),
                        call.outcome
                    )),
                    Part::Said(_) | Part::Reasoning(_) => None,
                });
                parts.collect()
            });
            steps.collect()
        };
        assert_eq!(parts(record), parts(undisturbed), "after {cut}");
    }
}

/// Cuts the turn of a model that says this after each of its first events, up to a call. The model goes on where
/// it is shown that it was.
#[track_caller]
fn check_cuts(message: &str) {
    let play = |scene: &mut Scene, words: &str| {
        scene.spells(words).stops();
        if let Some(call) = scene.running.first().copied() {
            scene.tool_returns(call, ok()).says("It is noon.").stops();
        }
    };
    let mut whole = Scene::new();
    play(&mut whole, message);
    let answer = whole.said();
    let types = whole.types();
    let end = types.iter().position(|name| *name == "tool_started").unwrap_or(types.len() - 1);
    for cut in 0..=end {
        let said = whole.events[..cut].iter().filter(|event| event["type"] == "text_delta");
        let said: String = said.map(|event| event["data"]["text"].as_str().unwrap()).collect();
        let mut rest = Scene::resumed(request(), whole.cut_after(cut));
        let texts: Vec<String> = rest
            .rounds
            .last()
            .unwrap()
            .messages
            .iter()
            .filter_map(|message| message.text_content().map(Cow::into_owned))
            .collect();
        let shown = said.trim_end();
        if !shown.is_empty() {
            assert_eq!(texts[texts.len() - 2], shown, "cut {cut} of {message:?}");
            assert_eq!(texts[texts.len() - 1], prompt::GO_ON, "cut {cut} of {message:?}");
        }
        play(&mut rest, &message[shown.len()..]);
        assert_eq!(said + &rest.said(), answer, "cut {cut} of {message:?}");
    }
}

#[test]
fn white_space_beside_a_cut_is_shown_as_it_would_have_been() {
    for blank in ["\n", "\n\n", " \n", "\n \n\n"] {
        check_cuts(&format!("Let me look.{blank}{TIME}"));
        check_cuts(&format!("{blank}{TIME}"));
        check_cuts(&format!("It is{blank}noon.{blank}"));
    }
}

/// Whatever its last words are: if the model were asked to go on with them, it would take them for its answer, and the
/// user would never hear the result.
#[test]
fn a_message_that_has_called_does_not_go_on() {
    for words in ["I will tell you.", "I will tell you", "One moment,", "I will te"] {
        let mut whole = Scene::new();
        whole.says(TIME).says(words).stops();
        let mut rest = Scene::resumed(request(), whole.cut_after(whole.events.len()));
        rest.tool_returns(0, ok());
        let asked = rest.last_message().text_content().unwrap().into_owned();
        assert!(asked.contains("12:00"), "{words:?}: {asked}");
        rest.says("It is noon.").stops();
        assert!(rest.said().ends_with("It is noon."), "{words:?}: {}", rest.said());
    }
}

/// By two gateways, one after the other: as if it had been one.
#[test]
fn a_turn_that_is_interrupted_twice_goes_on_wherever_that_is() {
    let mut whole = Scene::new();
    play(&mut whole);
    let answer = whole.said();
    for first in 0..whole.events.len() {
        let mut second = Scene::resumed(request(), whole.cut_after(first));
        play(&mut second);
        for cut in 0..second.events.len() {
            let before = &whole.events[..first];
            let mut third = Scene::resumed(request(), second.cut_again(before, cut));
            play(&mut third);
            let events = [before, &second.events[..cut], &third.events].concat();
            let ids: Vec<String> = events
                .iter()
                .filter(|event| event["type"] == "tool_started")
                .map(|event| event["data"]["call_id"].to_string())
                .collect();
            let all = Scene { events, ..third };
            assert_eq!(all.said(), answer, "cut after {first} and {cut}");
            assert_eq!(all.event("turn_completed")["text"], *answer, "{first} and {cut}");
            assert_eq!(all.event("turn_completed")["tool_calls"], 2, "{first} and {cut}");
            assert_eq!(ids.len(), 2, "after {first} and {cut}: {ids:?}");
            assert_ne!(ids[0], ids[1], "after {first} and {cut}");
            let parts = all.turn.so_far().steps.iter().flat_map(|step| &step.parts);
            let words = parts.filter_map(|part| match part {
                Part::Text(text) => Some(&**text),
                _ => None,
            });
            assert_eq!(words.collect::<String>(), answer, "after {first} and {cut}");
        }
    }
}

/// A request for a turn with one tool, which has this policy.
fn request_with(policy: Policy) -> TurnRequest {
    let mut tools = Registry::default();
    let spec = ToolSpec {
        name: "send".to_owned(),
        parameters: json!({"type": "object"}),
        policy,
        ..ToolSpec::default()
    };
    tools.add(Arc::new(Named(Arc::new(spec)))).unwrap();
    let rules = Rules { confirm: Confirm::Never, ..Rules::default() };
    TurnRequest { briefing: briefing(rules, tools.catalog()), ..request() }
}

/// Resumes a turn that was stopped while its call ran. By now its tool has this policy.
fn resume_running(policy: Policy) -> Scene {
    let mut scene = Scene::of(request_with(Policy { mutates: policy.mutates, ..Policy::NONE }));
    scene.says("<<function_call>> {\"name\": \"send\", \"arguments\": {}}\n").stops();
    assert_eq!(scene.running, [0]);
    Scene::resumed(request_with(policy), scene.cut_after(scene.events.len()))
}

#[test]
fn a_lookup_runs_again_and_keeps_its_id() {
    for policy in [
        Policy::NONE,
        Policy { mutates: true, idempotent: true, ..Policy::NONE },
        Policy { mutates: true, idempotent: true, confirm: Some(Confirm::Always), ..Policy::NONE },
    ] {
        let scene = resume_running(policy);
        assert_eq!(scene.deeds, ["start call_1 send {}"], "{policy:?}");
        assert!(!scene.types().contains(&"tool_started"), "clients know");
    }
}

#[test]
fn a_call_that_may_have_changed_something_does_not_run_again() {
    let mut scene = resume_running(Policy { mutates: true, ..Policy::NONE });
    assert_eq!(scene.deeds, ["round"], "the model is told");
    let result = &scene.event("tool_completed")["tool_result"];
    assert_eq!(result["success"], false);
    let told = scene.last_message().text_content().unwrap().into_owned();
    assert!(told.contains("Nobody knows whether it has done its work"), "{told}");
    scene.says("<<function_call>> {\"name\": \"send\", \"arguments\": {}}\n").stops();
    assert_eq!(scene.not_run, ["call_2 at 1: repeated"], "and not even if the model insists");
    assert!(scene.running.is_empty());
}

#[test]
fn the_closing_answer_goes_on_without_tools() {
    let rules = || Rules { max_tool_loops: 1, ..Rules::default() };
    let mut whole = Scene::with(rules(), request());
    whole.says(TIME).stops().tool_returns(0, ok()).says("It is ").says("noon.");
    for (events, last_word) in [(0, prompt::SYNTHESIS), (1, prompt::GO_ON)] {
        let cut = whole.events.len() - 2 + events;
        let request = TurnRequest { briefing: briefing(rules(), tools().catalog()), ..request() };
        let mut rest = Scene::resumed(request, whole.cut_after(cut));
        assert!(rest.rounds[0].tools.is_empty());
        let asked = rest.last_message().text_content().unwrap().into_owned();
        assert!(asked.ends_with(last_word), "{asked}");
        rest.says("twelve.").stops();
        let said = if events == 0 { "twelve." } else { "It is twelve." };
        rest.ends("loop_limit", said);
    }
}

#[test]
fn an_answer_that_was_complete_needs_no_more_words() {
    let mut whole = Scene::new();
    whole.says("It is noon.");
    let mut rest = Scene::resumed(request(), whole.cut_after(whole.events.len()));
    rest.stops();
    rest.ends("stop", "It is noon.");
    assert_eq!(rest.turn.so_far().steps.len(), 1);
}

#[test]
fn what_the_user_has_heard_is_not_said_again() {
    let mut whole = Scene::new();
    whole.says("Let me look. ").says(TIME).stops().tool_returns(0, ok());
    let interrupted = whole.cut_after(whole.events.len());
    let heard = (AcknowledgementSource::Model, "Let me look.".to_owned());
    assert_eq!(interrupted.heard, Some(heard));
    let mut rest = Scene::resumed(request(), interrupted);
    rest.says(SUM).stops();
    assert!(!rest.types().contains(&"acknowledgement"), "{:?}", rest.types());
}

#[test]
fn json_that_was_cut_off_does_not_go_on() {
    let form = Some(Arc::new(ResponseFormat::json_object()));
    let tools = briefing(Rules::default(), &Catalog::default());
    let request = TurnRequest { response_format: form, briefing: tools, ..request() };
    let mut whole = Scene::of(request.clone());
    assert!(TurnMachine::can_resume(&request, &whole.cut_after(1)));
    whole.says("{\"a\":");
    assert!(!TurnMachine::can_resume(&request, &whole.cut_after(whole.events.len())));
}
