//! What a turn has counted is not forgotten when another machine goes on with it.

use super::chains::{call, scene_with};
use super::*;

/// What a turn did from one of its rounds on.
#[derive(Debug, PartialEq)]
struct Course {
    events: Vec<Value>,
    not_run: Vec<String>,
    /// The temperature of each request, its choice of tools, and the names of those that it offers.
    requests: Vec<(Option<f64>, ToolChoice, Vec<String>)>,
}

impl Scene {
    /// The model says this, and the tools that it calls return.
    fn plays(&mut self, message: &str) {
        self.says(message).stops();
        while let Some(call) = self.running.first().copied() {
            self.tool_returns(call, ok());
        }
    }

    /// Its course after so many events, calls that were not run, and requests.
    fn course(&self, (events, not_run, requests): (usize, usize, usize)) -> Course {
        let events = self.events[events..].iter().filter(|event| event["type"] != "status");
        let requests = self.rounds[requests..].iter().map(|request| {
            let names = request.tools.iter().map(|tool| tool.name.clone()).collect();
            (request.sampling.temperature, request.tool_choice.clone(), names)
        });
        Course {
            events: events.cloned().collect(),
            not_run: self.not_run[not_run..].to_vec(),
            requests: requests.collect(),
        }
    }
}

/// Wherever the turn is interrupted between these messages, it goes on as if nothing had been.
#[track_caller]
pub(super) fn takes_the_same_course(mut whole: Scene, messages: &[&str]) {
    let mut cuts = Vec::new();
    for message in messages {
        // The request under way is made again.
        cuts.push((whole.events.len(), whole.not_run.len(), whole.rounds.len() - 1));
        whole.plays(message);
    }
    assert!(whole.turn.is_over(), "{:#?}", whole.events);
    for (played, cut) in cuts.into_iter().enumerate() {
        let mut rest = whole.taken_over_after(cut.0);
        for message in &messages[played..] {
            rest.plays(message);
        }
        assert_eq!(rest.course((0, 0, 0)), whole.course(cut), "after {played} messages");
    }
}

const MALFORMED: &str = "<<function_call>> {]\n";

#[test]
fn empty_answers() {
    takes_the_same_course(Scene::new(), &["", " ", ""]);
    takes_the_same_course(Scene::new(), &["", TIME, "", "", ""]);
}

#[test]
fn mistakes_of_each_kind_and_how_warm_they_have_made_the_model() {
    let unknown = call("no_such_tool");
    takes_the_same_course(Scene::new(), &[MALFORMED, &unknown, MALFORMED, &unknown, "Well."]);
}

#[test]
fn that_the_model_was_told_to_make_the_required_call() {
    let required = TurnRequest { tool_choice: ToolChoice::Required, ..request() };
    takes_the_same_course(Scene::of(required), &["No.", "No."]);
}

#[test]
fn messages_that_repeat_a_call() {
    let read = call("read");
    // The third one ends its message, and the closing answer is empty.
    takes_the_same_course(scene_with(|_| ()), &[&read, &read, &read]);
}

#[test]
fn calls_against_the_most_that_a_turn_may_make() {
    // The second call ends its message, and the closing answer is empty.
    takes_the_same_course(Scene::with_rules(|rules| rules.max_calls = 1), &[TIME, SUM]);
}
