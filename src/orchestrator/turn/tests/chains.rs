//! Several calls in one message: barriers, what a result asks for next, references to results,
//! repetition.

use super::*;
use crate::tools::registry::tests::Named;
use crate::tools::{Clarification, NextAction, Policy, ToolSpec};

/// Adds `look`, which may clarify, `send`, which mutates, `wipe`, which destroys, `step`, which is
/// sequential, `poll`, which is repeatable, `web`, whose results strangers write, `read`, which is
/// none of these, and `mute`, which has no waiting hint.
pub(super) fn add_policies(tools: &mut Registry) {
    let policies = [
        ("look", Policy { may_clarify: true, ..Policy::default() }),
        ("send", Policy { mutates: true, ..Policy::default() }),
        ("wipe", Policy { mutates: true, destructive: true, ..Policy::default() }),
        ("web", Policy { open_world: true, ..Policy::default() }),
        ("step", Policy { sequential: true, ..Policy::default() }),
        ("poll", Policy { repeatable: true, ..Policy::default() }),
        ("read", Policy::default()),
        ("mute", Policy::default()),
    ];
    for (name, policy) in policies {
        let parameters = json!({ "type": "object", "properties": { "n": { "type": "integer" } } });
        tools
            .add(Arc::new(Named(Arc::new(ToolSpec {
                name: name.into(),
                description: format!("{name}s"),
                parameters,
                waiting_hint: if name == "mute" { String::new() } else { format!("{name}ing") },
                policy,
                ..ToolSpec::default()
            }))))
            .unwrap();
    }
}

pub(super) fn scene_with(change: impl FnOnce(&mut Rules)) -> Scene {
    let mut rules = Rules::default();
    change(&mut rules);
    let mut tools = Registry::default();
    add_policies(&mut tools);
    Scene::of(TurnRequest { briefing: briefing(rules, tools.catalog()), ..request() })
}

fn scene() -> Scene {
    scene_with(|_| ())
}

pub(super) fn call(name: &str) -> String {
    call_with(name, &json!({}))
}

pub(super) fn call_with(name: &str, arguments: &Value) -> String {
    format!("<<function_call>> {{\"name\": \"{name}\", \"arguments\": {arguments}}}\n")
}

pub(super) fn asks() -> ToolResult {
    ToolResult::clarification(Clarification {
        r#type: "choice".into(),
        question: "Which one?".into(),
        options: Vec::new(),
        ..Clarification::default()
    })
}

pub(super) fn completes() -> ToolResult {
    ToolResult { next_action: NextAction::Complete, ..ok() }
}

impl Scene {
    /// The calls that have started, in order.
    pub(super) fn started(&self) -> Vec<&str> {
        let starts = self.deeds.iter().filter_map(|deed| deed.strip_prefix("start "));
        starts.map(|start| start.split(' ').next().unwrap()).collect()
    }

    pub(super) fn statuses(&self) -> Vec<&str> {
        let statuses = self.events.iter().filter(|event| event["type"] == "status");
        statuses.map(|event| event["data"]["message"].as_str().unwrap()).collect()
    }
}

#[test]
fn calls_after_a_barrier_wait_and_others_do_not() {
    let mut scene = scene();
    let other = call_with("read", &json!({ "n": 2 }));
    scene.says(&call("read")).says(&call("look")).says(&other);
    assert_eq!(scene.started(), ["call_1", "call_2"]);
    scene.tool_returns(1, ok());
    assert_eq!(scene.started(), ["call_1", "call_2", "call_3"], "though call_1 still runs");
}

#[test]
fn a_mutating_call_waits_for_the_end_of_the_message_and_all_earlier_calls() {
    let mut scene = scene();
    scene.says(&call("read")).says(&call("send"));
    scene.tool_returns(0, ok());
    assert_eq!(scene.started(), ["call_1"], "the model still speaks");
    scene.stops();
    assert_eq!(scene.started(), ["call_1", "call_2"]);

    let mut scene = self::scene();
    scene.says(&call("read")).says(&call("send")).stops();
    assert_eq!(scene.started(), ["call_1"], "call_1 still runs");
    scene.tool_returns(0, ok());
    assert_eq!(scene.started(), ["call_1", "call_2"]);
}

#[test]
fn a_mutating_call_is_not_run_if_an_earlier_call_failed() {
    for (before, how) in [
        (call("nope"), "has failed"),
        (call_with("read", &json!({ "n": "one" })), "has failed"),
        ("<<function_call>> {]\n".to_owned(), "could not be read"),
    ] {
        let mut scene = scene();
        scene.says(&before).says(&call("send")).stops();
        assert!(scene.started().is_empty(), "after {before}");
        let told = scene.last_message().text_content().unwrap();
        assert!(told.contains("not run: ") && told.contains(how), "{told}");
    }
    let mut scene = scene();
    scene.says(&call("read")).says(&call("send")).stops();
    scene.tool_returns(0, ToolResult::error("no"));
    assert_eq!(scene.started(), ["call_1"]);
    assert_eq!(
        scene.statuses(),
        ["send was not run: read (call_1), which comes first, has failed"]
    );
}

#[test]
fn a_refused_barrier_holds_back_later_calls() {
    let mut scene = scene();
    scene.says(&call_with("look", &json!({ "n": "one" }))).says(&call("read")).stops();
    assert!(scene.started().is_empty());
    assert_eq!(scene.not_run, ["call_1 at 1: refused", "call_2 at 2: skipped"]);
}

#[test]
fn results_that_make_arguments_too_deep_are_refused() {
    let deep = |depth: usize| (0..depth).fold(json!(1), |inner, _| json!([inner]));
    for (depth, runs) in [(60, true), (120, false)] {
        let mut scene = scene_with(|_| ());
        let nested = (0..20).fold(json!({ "$result": "call_1.data" }), |inner, _| json!([inner]));
        scene.says(&call("read")).says(&call_with("read", &json!({ "x": nested }))).stops();
        scene.tool_returns(0, ToolResult::data(deep(depth)));
        assert_eq!(scene.started().len(), if runs { 2 } else { 1 }, "{:?}", scene.not_run);
    }
}

#[test]
fn a_mutating_call_in_a_message_that_was_cut_is_not_run() {
    for finish in [RoundFinish::Length, RoundFinish::ContentFilter] {
        let mut scene = scene();
        scene.says(&call("send")).says("and then").finishes(finish);
        assert!(scene.started().is_empty(), "{finish:?}");
        assert!(scene.last_message().text_content().unwrap().contains("cut off"));
    }
    // The same if the message was stopped because it could not be read.
    let mut scene = scene();
    scene.says(&call("send")).says(&format!("<<function_call>> [{}7]\n", "7,".repeat(20)));
    assert!(scene.deeds.contains(&"stop round".to_owned()));
    assert!(scene.started().is_empty());
}

#[test]
fn a_failed_call_is_suggested_again_once_its_prerequisite_succeeds() {
    let mut scene = scene();
    scene.says(&call("send")).stops();
    scene.tool_returns(0, ToolResult::error("no such contact; find it with look"));
    scene.says(&call("look")).stops();
    scene.tool_returns(1, ok());
    let told = scene.last_message().text_content().unwrap();
    assert!(told.ends_with("\nNow write the call to send again with it."), "{told}");
    scene.says(&call_with("send", &json!({ "n": 7 }))).stops();
    scene.tool_returns(2, ok());
    let told = scene.last_message().text_content().unwrap();
    assert!(told.ends_with("\nUse it to answer my question."), "{told}");
}

#[test]
fn nothing_runs_after_a_barrier_that_asks_the_user() {
    let mut scene = scene();
    scene.says(&call("read")).says(&call("look")).says(&call("send")).says(&call("read")).stops();
    scene.tool_returns(1, asks());
    scene.tool_returns(0, ok());
    assert_eq!(scene.started(), ["call_1", "call_2"]);
    let skipped = scene.statuses();
    assert_eq!(skipped[0], "send was not run: look (call_2) needs the user's answer first");
    assert_eq!(skipped[1], "read was not run: look (call_2) needs the user's answer first");
    assert_eq!(scene.not_run, ["call_3 at 3: skipped", "call_4 at 4: skipped"]);
}

#[test]
fn calls_after_a_failed_barrier_are_skipped_and_reported() {
    let mut scene = scene();
    scene.says(&call("look")).says(&call("read")).stops();
    scene.tool_returns(0, ToolResult::error("no network"));
    assert_eq!(scene.started(), ["call_1"]);
    let told = scene.last_message().text_content().unwrap();
    assert!(told.contains("no network"), "{told}");
    assert!(told.contains("not run: look (call_1), which comes first, has failed"), "{told}");
}

#[test]
fn a_result_that_ends_the_chain_leads_to_the_answer() {
    let mut scene = scene();
    scene.says(&call("read")).says(&call("look")).says(&call("read"));
    scene.tool_returns(1, completes());
    assert!(scene.deeds.contains(&"stop round".to_owned()), "the model has said enough");
    assert_eq!(scene.rounds.len(), 1, "call_1 still runs, and its result counts");
    scene.tool_returns(0, ok());
    assert_eq!(scene.started(), ["call_1", "call_2"]);
    assert!(scene.rounds[1].tools.is_empty(), "nothing more is offered");
    scene.says("Done.").stops();
    assert_eq!(scene.event("turn_completed")["finish_reason"], "stop");
}

#[test]
fn without_a_hint_tool_events_wait_only_for_the_end_of_the_message() {
    let mut scene = scene_with(|rules| rules.max_parallel = 1);
    scene.says(&call("mute")).says(&call_with("mute", &json!({ "n": 2 })));
    assert!(!scene.types().contains(&"tool_started"), "the model may call what has a hint");
    scene.stops();
    assert_eq!(scene.types().last(), Some(&"tool_started"));
    scene.tool_returns(0, ok());
    assert_eq!(scene.types()[4..], ["tool_completed", "tool_started"]);
}

#[test]
fn sequential_calls_run_one_after_the_other() {
    let mut scene = scene();
    let other = call_with("step", &json!({ "n": 2 }));
    scene.says(&call("step")).says(&other).says(&call("read")).stops();
    assert_eq!(scene.started(), ["call_1"]);
    scene.tool_returns(0, ok());
    assert_eq!(scene.started(), ["call_1", "call_2"]);
    scene.tool_returns(1, ok());
    assert_eq!(scene.started(), ["call_1", "call_2", "call_3"]);

    let mut scene = self::scene();
    scene.says(&call("read")).says(&call("step")).stops();
    assert_eq!(scene.started(), ["call_1"], "it waits for those that are none, too");
    scene.tool_returns(0, ok());
    assert_eq!(scene.started(), ["call_1", "call_2"]);
}

#[test]
fn an_argument_can_name_an_earlier_result() {
    let mut scene = scene();
    scene
        .says(&call("read"))
        .says(&call_with("read", &json!({ "n": { "$result": "call_1.data.n" } })));
    assert_eq!(scene.started(), ["call_1"], "it waits for what it names");
    scene.tool_returns(0, ToolResult::data(json!({ "n": 7 })));
    assert_eq!(scene.deeds.last().unwrap(), "start call_2 read {\"n\":7}");
    scene.stops();
    assert_eq!(scene.event("tool_started")["tool_args"], json!({ "n": 7 }));
}

#[test]
fn a_broken_reference_is_fed_back() {
    for reference in ["call_1.data.nope", "call_2.data.n", "call_9.data", "John"] {
        let mut scene = scene();
        scene.says(&call("read"));
        scene.says(&call_with("read", &json!({ "n": { "$result": reference } }))).stops();
        scene.tool_returns(0, ToolResult::data(json!({ "n": 7 })));
        assert_eq!(scene.started(), ["call_1"]);
        let feedback = scene.event("feedback");
        assert_eq!(feedback["reason"], "invalid_arguments");
        assert!(feedback["message"].as_str().unwrap().contains(reference), "{feedback}");
    }
}

#[test]
fn resolved_arguments_are_validated() {
    let mut scene = scene();
    scene
        .says(&call("read"))
        .says(&call_with("read", &json!({ "n": { "$result": "call_1.data" } })))
        .stops();
    scene.tool_returns(0, ToolResult::data(json!("seven")));
    assert_eq!(scene.event("feedback")["reason"], "invalid_arguments");
    assert_eq!(scene.started(), ["call_1"]);
}

#[test]
fn results_do_not_multiply_in_arguments() {
    let mut scene = scene();
    let references = vec![json!({ "$result": "call_1.data" }); 3];
    scene.says(&call("read")).says(&call_with("read", &json!({ "n": references }))).stops();
    scene.tool_returns(0, ToolResult::data(json!("x".repeat(100_000))));
    let feedback = scene.event("feedback");
    assert_eq!(feedback["reason"], "invalid_arguments");
    assert!(feedback["message"].as_str().unwrap().contains("bytes in total"), "{feedback}");
    assert_eq!(scene.started(), ["call_1"]);
}

#[test]
fn a_call_that_refers_to_a_failed_result_is_not_run() {
    let mut scene = scene();
    scene
        .says(&call("read"))
        .says(&call_with("read", &json!({ "n": { "$result": "call_1.data" } })))
        .stops();
    scene.tool_returns(0, ToolResult::error("no"));
    assert_eq!(scene.started(), ["call_1"]);
    assert!(scene.statuses()[0].contains("has failed"));
}

#[test]
fn a_repeated_call_gets_the_earlier_result_and_the_second_one_ends_the_tools() {
    let mut scene = scene();
    scene.says(&call("read")).stops();
    scene.tool_returns(0, ok());
    scene.says(&call("read")).stops();
    assert_eq!(scene.started(), ["call_1"]);
    assert_eq!(scene.not_run, ["call_2 at 1: repeated"]);
    let told = scene.last_message().text_content().unwrap();
    let result = told.rfind("12:00").expect("the earlier result");
    assert!(told[result..].ends_with("Use it to answer my question."), "{told}");
    assert!(!scene.rounds.last().unwrap().tools.is_empty());
    scene.says(&call("read")).stops();
    assert!(scene.rounds.last().unwrap().tools.is_empty());
}

#[test]
fn results_do_not_end_the_turn_if_a_call_was_skipped() {
    let mut scene = scene_with(|rules| rules.continue_after_tool = false);
    // A message that was cut off may not change anything.
    scene.says(&call("read")).says(&call("send")).finishes(RoundFinish::Length);
    scene.tool_returns(0, ok());
    assert_eq!(scene.started(), ["call_1"]);
    assert_eq!(scene.rounds.len(), 2, "the model hears of the other call");
    scene.says("It cannot be sent now.").stops();
    scene.ends("stop", "It cannot be sent now.");
}

#[test]
fn a_change_that_may_have_worked_is_not_made_again() {
    let mut scene = scene();
    scene.says(&call("send")).stops();
    let result = ToolResult::error("it may or may not have taken effect").but_uncertain();
    scene.tool_returns(0, result);
    scene.says(&call("send")).stops();
    assert_eq!(scene.started(), ["call_1"]);
    assert_eq!(scene.not_run, ["call_2 at 1: repeated"]);
}

#[test]
fn a_message_ends_where_it_repeats_itself() {
    let mut scene = scene();
    scene.says(&call("read")).says(&call("look"));
    assert!(!scene.deeds.contains(&"stop round".to_owned()));
    scene.says(&format!("{}{}<<function_call>> {{\"na", call("read"), call("poll")));
    assert!(scene.deeds.contains(&"stop round".to_owned()));
    scene.tool_returns(0, ok()).tool_returns(1, ok());
    assert_eq!(scene.started(), ["call_1", "call_2"]);
    assert_eq!(scene.not_run, ["call_3 at 3: repeated"]);
    let told = scene.last_message().text_content().unwrap();
    assert_eq!(told.matches("returned: ").count(), 2, "the repeat was never there: {told}");
}

#[test]
fn a_repeated_wrong_call_also_ends_its_message() {
    let mut scene = scene();
    scene.says(&call("nosuch")).says(&call("nosuch"));
    assert!(scene.deeds.contains(&"stop round".to_owned()));
    assert_eq!(scene.not_run, ["call_1 at 1: refused", "call_2 at 2: repeated"]);
}

#[test]
fn a_message_with_a_mutating_call_is_read_to_its_end() {
    let mut scene = scene();
    scene.says(&call("send")).says(&call("send")).says(&call("send"));
    assert!(!scene.deeds.contains(&"stop round".to_owned()), "a lookup may follow");
    scene.stops();
    assert_eq!(scene.started(), ["call_1"]);
}

#[test]
fn a_tool_that_polls_runs_each_time() {
    let mut scene = scene();
    scene.says(&call("poll")).says(&call("poll")).stops();
    assert_eq!(scene.started(), ["call_1", "call_2"]);
    scene.tool_returns(0, ok()).tool_returns(1, ok());
    scene.says(&call("poll")).stops();
    assert_eq!(scene.started(), ["call_1", "call_2", "call_3"]);
}

#[test]
fn a_read_runs_again_after_a_write() {
    let mut scene = scene();
    for (at, name) in ["read", "send", "read"].into_iter().enumerate() {
        scene.says(&call(name)).stops();
        scene.tool_returns(at, ok());
    }
    assert_eq!(scene.started(), ["call_1", "call_2", "call_3"]);
    scene.says(&call("read")).stops();
    assert_eq!(scene.not_run, ["call_4 at 1: repeated"]);
}

#[test]
fn a_message_is_not_sent_twice() {
    let mut scene = scene();
    scene.says(&call("send")).stops();
    scene.tool_returns(0, ok());
    scene.says(&call("send")).stops();
    assert_eq!(scene.started(), ["call_1"]);
}
