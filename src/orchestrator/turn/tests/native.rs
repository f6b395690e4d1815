//! Native calls: what a server reports is treated like what the parser finds.

use super::chains::add_policies;
use super::*;
use crate::conversation::trim;
use crate::tools::client::ClientTools;

impl Scene {
    /// A turn whose server parses the calls.
    fn native() -> Self {
        Self::native_with(|_| {})
    }

    fn native_with(change: impl FnOnce(&mut Rules)) -> Self {
        let mut rules = Rules { call_contract: CallContract::Native, ..Rules::default() };
        change(&mut rules);
        let mut tools = tools();
        add_policies(&mut tools);
        Self::of(TurnRequest { briefing: briefing(rules, tools.catalog()), ..request() })
    }

    fn begins_call(&mut self, index: u32) -> &mut Self {
        self.handle(Input::Delta(Delta::CallStarted { index }))
    }

    fn argues(&mut self, index: u32, json: &str) -> &mut Self {
        self.handle(Input::Delta(Delta::CallArguments { index, json }))
    }

    fn completes_call(&mut self, index: u32, name: &str, arguments: &str) -> &mut Self {
        self.handle(Input::Delta(Delta::CallCompleted { index, name, arguments }))
    }

    /// A whole call at once.
    pub(super) fn calls(&mut self, index: u32, name: &str, arguments: &str) -> &mut Self {
        self.begins_call(index).argues(index, arguments).completes_call(index, name, arguments)
    }
}

const CLOCK: &str = "get_current_time";
const TOKYO: &str = r#"{"timezone": "Asia/Tokyo"}"#;

#[test]
fn a_call_runs_and_its_result_goes_back() {
    let mut scene = Scene::native();
    scene.says("Let me look.").begins_call(0);
    assert_eq!(scene.types(), ["turn_started", "text_delta", "tool_marker_detected"]);
    scene.completes_call(0, CLOCK, TOKYO);
    assert_eq!(scene.deeds[1], "start call_1 get_current_time {\"timezone\":\"Asia/Tokyo\"}");
    scene.finishes(RoundFinish::ToolCalls).tool_returns(0, ok());
    let [.., said, result] = &scene.rounds[1].messages[..] else { panic!() };
    assert_eq!(said.text_content().as_deref(), Some("Let me look."));
    let [call] = said.calls().collect::<Vec<_>>()[..] else { panic!("{said:?}") };
    assert_eq!((call.name.as_str(), call.arguments.as_str()), (CLOCK, TOKYO));
    assert_eq!((result.role, result.answered_call_id()), (Role::Tool, Some(call.id.as_str())));
    scene.says("It is noon.").stops();
    scene.ends("stop", "Let me look.It is noon.");
}

#[test]
fn a_marker_is_text() {
    let mut scene = Scene::native();
    scene.spells(TIME).stops();
    scene.ends("stop", TIME);
    assert_eq!(scene.types(), ["turn_started", "text_delta", "turn_completed"]);
}

#[test]
fn no_marker_is_taught() {
    let scene = Scene::native();
    let system = scene.rounds[0].messages[0].text_content().unwrap();
    assert!(
        system.starts_with("You are a helpful assistant.\n\nCall a function only when"),
        "{system}"
    );
    assert!(system.contains("\nlook: Later calls wait for it"), "{system}");
    assert!(!system.contains("<<"), "{system}");
}

#[test]
fn arguments_are_streamed_if_requested() {
    for asked in [true, false] {
        let mut scene = Scene::native_with(|rules| rules.parser.argument_deltas = asked);
        scene.begins_call(0).argues(0, "{\"timezone\":").argues(0, " \"Asia/Tokyo\"}");
        scene.completes_call(0, CLOCK, TOKYO);
        let deltas = scene.events.iter().filter(|event| event["type"] == "tool_arguments_delta");
        let told: String = deltas.map(|event| event["data"]["delta"].as_str().unwrap()).collect();
        assert_eq!(told, if asked { TOKYO } else { "" });
    }
}

#[test]
fn broken_arguments_are_fed_back_like_a_broken_payload() {
    for (arguments, reason) in
        [("[]", "malformed_call"), ("{a}", "malformed_call"), ("{\"a\":", "incomplete_call")]
    {
        let mut scene = Scene::native();
        scene.calls(0, CLOCK, arguments).finishes(RoundFinish::ToolCalls);
        let feedback = scene.event("feedback");
        assert_eq!((&feedback["reason"], &feedback["call_id"]), (&json!(reason), &json!("call_1")));
        assert!(!feedback["message"].as_str().unwrap().contains("<<"), "no marker is taught");
        assert_eq!(scene.deeds, ["round", "round"], "nothing was run");
        let told = scene.last_message().text_content().unwrap();
        assert!(told.ends_with(feedback["message"].as_str().unwrap()), "{told}");
    }
}

/// Servers that parse calls themselves drop the braces of a call without arguments.
#[test]
fn a_call_without_a_text_of_arguments_has_none() {
    let mut scene = Scene::native();
    scene.calls(0, CLOCK, "").finishes(RoundFinish::ToolCalls);
    assert_eq!(scene.deeds[1], format!("start call_1 {CLOCK} {{}}"));
}

/// vLLM says `tool_calls` even of a message that the token limit cut off.
#[test]
fn a_change_whose_arguments_may_be_lost_is_not_made() {
    let rules = Rules { call_contract: CallContract::Native, ..Rules::default() };
    let mut clients = ClientTools::default();
    let parameters = json!({"type": "object", "properties": {"path": {"type": "string"}}});
    clients.add("delete".to_owned(), "Deletes files.", Some(parameters)).unwrap();
    let tools = clients.beside(answers::policies().catalog());
    for (name, runs) in [("send", false), ("delete", false), ("read", true)] {
        let briefing = briefing(Rules::default(), &tools);
        let mut scene = Scene::with(rules.clone(), TurnRequest { briefing, ..request() });
        scene.calls(0, name, "").finishes(RoundFinish::ToolCalls);
        assert_eq!(scene.deeds[1].starts_with("start"), runs, "{name}: {:?}", scene.deeds);
        if !runs {
            assert_eq!(scene.event("feedback")["reason"], "malformed_call");
        }
    }
}

#[test]
fn unknown_tools_and_wrong_arguments_are_fed_back() {
    for (name, arguments, reason) in [
        ("nope", "{}", "tool_not_found"),
        ("calculate", "{\"expression\": 1}", "invalid_arguments"),
        ("", "{}", "malformed_call"),
    ] {
        let mut scene = Scene::native();
        scene.calls(0, name, arguments).finishes(RoundFinish::ToolCalls);
        assert_eq!(scene.event("feedback")["reason"], reason);
        assert_eq!(scene.deeds, ["round", "round"], "nothing was run");
    }
}

#[test]
fn a_call_that_the_token_limit_cut_is_never_run() {
    // Repair would close what is open.
    for strict in [true, false] {
        let mut scene = Scene::native_with(|rules| rules.parser.strict_balancing = strict);
        scene.begins_call(0).argues(0, "{\"timezone\": \"Asia");
        scene.handle(Input::Delta(Delta::Finish(RoundFinish::Length)));
        scene.completes_call(0, CLOCK, "{\"timezone\": \"Asia").handle(Input::RoundEnded);
        assert_eq!(scene.event("feedback")["reason"], "incomplete_call");
        assert_eq!(scene.event("feedback")["message"], feedback::CUT_CALL);
        assert_eq!(scene.deeds, ["round", "round"], "nothing was run");
    }
}

/// Repair would close it, too.
#[test]
fn a_call_that_a_filter_cut_is_not_run_and_is_not_too_long() {
    let mut scene = Scene::native_with(|rules| rules.parser.strict_balancing = false);
    scene.begins_call(0).argues(0, "{\"timezone\": \"Asia");
    scene.handle(Input::Delta(Delta::Finish(RoundFinish::ContentFilter)));
    scene.completes_call(0, CLOCK, "{\"timezone\": \"Asia").handle(Input::RoundEnded);
    assert_eq!(scene.event("feedback")["message"], feedback::FILTERED_CALL);
    assert_eq!(scene.deeds, ["round", "round"], "nothing was run");
}

/// Some servers send `{}` before the arguments.
#[test]
fn a_call_that_was_cut_before_its_arguments_is_never_run() {
    for (name, arguments) in [(CLOCK, ""), (CLOCK, "{}"), ("", "{}")] {
        let mut scene = Scene::native();
        scene.begins_call(0).handle(Input::Delta(Delta::Finish(RoundFinish::Length)));
        scene.completes_call(0, name, arguments).handle(Input::RoundEnded);
        assert_eq!(scene.event("feedback")["message"], feedback::CUT_CALL, "{arguments}");
        assert_eq!(scene.deeds, ["round", "round"], "nothing was run");
    }
}

#[test]
fn a_call_that_never_becomes_whole_is_fed_back() {
    let mut scene = Scene::native();
    scene.begins_call(0).argues(0, "{").stops();
    assert_eq!(scene.event("feedback")["reason"], "incomplete_call");
    assert_eq!(scene.rounds.len(), 2);
}

/// Calls are checked in order, so several may wait for the first.
#[test]
fn after_the_last_mistake_that_is_fed_back_waiting_calls_are_not_checked() {
    let mut scene = Scene::native_with(|rules| rules.feedback_attempts = 1);
    for index in 0..3 {
        scene.begins_call(index);
    }
    for index in [2, 1, 0] {
        scene.completes_call(index, "nope", "{}");
    }
    assert_eq!(scene.types().iter().filter(|event| **event == "feedback").count(), 1);
    assert_eq!(scene.not_run.len(), 1, "{:?}", scene.not_run);
}

#[test]
fn calls_over_the_cap_are_reported_and_not_run() {
    let mut scene = Scene::native_with(|rules| rules.max_calls = 1);
    for index in 0..3 {
        scene.calls(index, CLOCK, TOKYO);
    }
    let started = scene.deeds.iter().filter(|deed| deed.starts_with("start"));
    assert_eq!(
        started.collect::<Vec<_>>(),
        ["start call_1 get_current_time {\"timezone\":\"Asia/Tokyo\"}"]
    );
    assert_eq!(scene.deeds.last().unwrap(), "stop round");
    scene.tool_returns(0, ok());
    assert!(scene.event("status")["message"].as_str().unwrap().contains("max_calls_per_turn"));
    let record = &scene.rounds[1].messages;
    assert!(format!("{record:?}").contains("not run"), "the model is told");
    assert!(scene.rounds[1].tools.is_empty(), "none are offered any more");
}

#[test]
fn a_call_in_the_closing_answer_is_reported_and_not_run() {
    let mut scene = Scene::native_with(|rules| rules.max_tool_loops = 1);
    scene.calls(0, CLOCK, TOKYO).stops().tool_returns(0, ok());
    assert!(scene.rounds[1].tools.is_empty());
    scene.says("Noon. ").calls(0, CLOCK, TOKYO).finishes(RoundFinish::ToolCalls);
    scene.ends("loop_limit", "Noon. ");
    let status = scene.event("status")["message"].as_str().unwrap();
    assert!(status.contains("tried to call a tool"), "{status}");
    assert_eq!(scene.deeds.iter().filter(|deed| deed.starts_with("start")).count(), 1);
}

/// As mlx-lm does, which looks for calls whether it was sent tools or not.
#[test]
fn calls_of_a_server_that_was_sent_no_tools_are_run() {
    let mut scene = Scene::new();
    scene.says("Hello.").calls(0, CLOCK, TOKYO).finishes(RoundFinish::ToolCalls);
    assert!(scene.types().contains(&"tool_marker_detected"));
    assert!(scene.types().contains(&"tool_started"), "{:?}", scene.types());
}

#[test]
fn calls_that_a_server_finds_beside_those_in_the_text_are_ignored() {
    let mut scene = Scene::new();
    scene.says(&format!("<<function_call>> {{\"name\": {CLOCK:?}, \"arguments\": {TOKYO}}}"));
    scene.calls(0, CLOCK, TOKYO).finishes(RoundFinish::ToolCalls);
    let begun = scene.types().iter().filter(|name| **name == "tool_marker_detected").count();
    assert_eq!(begun, 1, "{:?}", scene.types());
}

#[test]
fn a_call_that_a_server_could_not_read_is_a_mistake_of_the_call() {
    let mut scene = Scene::new();
    scene.finishes(RoundFinish::ToolCalls);
    assert_eq!(scene.event("feedback")["reason"], "malformed_call");
    let told = scene.last_message().text_content().unwrap();
    assert!(told.contains("the model server could not read the call"), "{told}");
}

fn native(budget: usize, tools: &Registry) -> Briefing {
    let call_contract = CallContract::Native;
    let rules = Rules { call_contract, context_budget_tokens: budget, ..Rules::default() };
    Briefing::new(&Arc::new(rules), None, tools.catalog()).unwrap()
}

/// With native calls, the server writes the tools into the model's prompt.
#[test]
fn offered_tools_count_toward_the_budget() {
    let messages = |budget: usize, tools: Registry| {
        let mut history = Conversation::default();
        for turn_id in ["one", "two", "three"] {
            let mut scene = Scene::new();
            scene.says(&"word ".repeat(90)).stops();
            let turn = scene.turn.into_record();
            history.push(conversation::Turn { turn_id: turn_id.into(), ..turn });
        }
        let briefing = Arc::new(native(budget, &tools));
        let scene = Scene::of(TurnRequest { briefing, history, ..request() });
        scene.rounds[0].messages.len()
    };
    // What the system message says of them counts as well.
    let system = |tools: &Registry| trim::tokens(&native(400, tools).usual_primer().system);
    let offered =
        native(400, &tools()).known.tokens + system(&tools()) - system(&Registry::default());
    for budget in [400, 600, 800, 1000, 4000] {
        assert_eq!(
            messages(budget + offered, tools()),
            messages(budget, Registry::default()),
            "{budget}"
        );
    }
    assert!(messages(400 + offered, tools()) < messages(4000, tools()), "some were left out");
}
