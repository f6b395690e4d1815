//! Tools that the model knows by name only.

mod resumed;
mod strangers;

use super::chains::call_with;
use super::*;
use crate::limits::turn::UNTOLD_CALLS_FREE;
use crate::orchestrator::{Basis, Select, Selection};
use crate::tools::builtin::FindTools;
use crate::tools::registry::tests::described;
use crate::tools::search::Index;

/// A turn whose model is told about `calculate`, and knows `read_file` and `send_mail` by name.
fn scene() -> Scene {
    scene_with(|_| {})
}

fn scene_with(change: impl FnOnce(&mut TurnRequest)) -> Scene {
    let mut tools = Registry::default();
    tools.add(Arc::new(Calculate::new())).unwrap();
    let path = json!({
        "type": "object",
        "properties": {"path": {"type": "string"}},
        "required": ["path"]
    });
    tools.add(described("read_file", "The content of a file.", path)).unwrap();
    tools.add(described("send_mail", "Sends a mail.", json!({"type": "object"}))).unwrap();
    let index = Arc::new(Index::of(tools.catalog()));
    let finder = FindTools::new(tools.catalog().clone(), Arc::clone(&index), 1000);
    tools.add(Arc::new(finder)).unwrap();
    let select = Select { max_told: 1, ..Select::default() };
    let rules = Arc::new(Rules { select, ..Rules::default() });
    let mut request = request();
    let opening = Opening::Prompt("Calculate something.".to_owned());
    let basis = Basis { opening: &opening, history: &request.history };
    let selection = Selection::of(&rules, tools.catalog(), &index, &basis);
    let briefing = Briefing::selected(&rules, None, tools.catalog(), selection).unwrap();
    request.briefing = Arc::new(briefing);
    change(&mut request);
    Scene::of(request)
}

/// A briefing on the same selection, with other rules.
fn selected(rules: Rules, tools: &Catalog) -> Arc<Briefing> {
    let selection = Selection { told: vec![0, 3], named: vec![1, 2], unnamed: 0 };
    Arc::new(Briefing::selected(&Arc::new(rules), None, tools, selection).unwrap())
}

impl Scene {
    /// The tools of the last round: those in full, and those by name.
    fn knows(&self) -> (Vec<&str>, Vec<&str>) {
        let round = self.rounds.last().unwrap();
        let named = round.named.iter().map(|name| &**name).collect();
        (round.tools.iter().map(|tool| &*tool.name).collect(), named)
    }
}

const READ: &str = "<<function_call>> {\"name\": \"read_file\", \"arguments\": {}}\n";

#[test]
fn a_call_by_bare_name_gets_the_description_and_the_next_one_runs() {
    let mut scene = scene();
    assert_eq!(scene.knows(), (vec!["calculate", "find_tools"], vec!["read_file", "send_mail"]));
    scene.says(READ).stops();
    assert_eq!(scene.not_run, ["call_1 at 1: untold"]);
    assert_eq!(scene.knows(), (vec!["calculate", "find_tools", "read_file"], vec!["send_mail"]));
    let told = scene.last_message().text_content().unwrap().into_owned();
    assert!(told.contains("\"description\":\"The content of a file.\""), "{told}");
    assert!(told.contains("\"required\":[\"path\"]"), "{told}");
    scene.says(&call_with("read_file", &json!({"path": "a.txt"}))).stops();
    assert_eq!(scene.deeds.last().unwrap(), "start call_2 read_file {\"path\":\"a.txt\"}");
}

#[test]
fn a_call_by_bare_name_is_no_mistake() {
    let mut scene = scene();
    scene.says(READ).stops();
    assert!(!scene.types().contains(&"feedback"));
    let status = &scene.event("status")["message"];
    assert_eq!(status, "the model is told what read_file takes before it can call it");
    assert_eq!(scene.rounds[1].sampling, scene.rounds[0].sampling, "no warmer");
    scene.says(READ).stops();
    assert_eq!(scene.event("feedback")["attempt"], 1, "but ignoring the description is one");
}

#[test]
fn even_fitting_arguments_are_a_guess() {
    let mut scene = scene();
    let call = call_with("send_mail", &json!({}));
    scene.says(&call).stops();
    assert_eq!(scene.not_run, ["call_1 at 1: untold"]);
    scene.says(&call).stops();
    assert_eq!(scene.deeds.last().unwrap(), "start call_2 send_mail {}");
}

#[test]
fn a_call_by_bare_name_uses_up_no_loop() {
    let mut scene = scene_with(|request| request.max_tool_loops = Some(1));
    scene.says(READ).stops();
    scene.says(&call_with("read_file", &json!({"path": "a.txt"}))).stops();
    assert_eq!(scene.started(), ["call_2"]);
    scene.tool_returns(1, ok());
    assert_eq!(scene.event("loop_limit_reached")["max_tool_loops"], 1, "that one counts");
}

#[test]
fn calls_by_bare_name_use_up_no_calls() {
    let mut scene = scene_with(|request| {
        let rules = Rules { max_calls: 2, ..Rules::clone(&request.briefing.rules) };
        request.briefing = selected(rules, &request.briefing.tools);
    });
    scene.says(READ).says(&call_with("send_mail", &json!({"to": "a"}))).stops();
    assert_eq!(scene.not_run, ["call_1 at 1: untold", "call_2 at 2: untold"]);
    scene.says(&call_with("read_file", &json!({"path": "a.txt"})));
    scene.says(&call_with("read_file", &json!({"path": "b.txt"})));
    scene.says(&call_with("read_file", &json!({"path": "c.txt"})));
    assert_eq!(scene.started(), ["call_3", "call_4"]);
    assert_eq!(scene.not_run.last().unwrap(), "call_5 at 3: over_cap");
}

/// A turn whose model knows this many tools, all by name, with these limits.
fn names_only(tools: usize, max_tool_loops: u32, max_calls: u32, native: bool) -> Scene {
    let mut registry = Registry::default();
    for number in 0..tools {
        registry.add(described(&format!("tool_{number}"), "", json!({"type": "object"}))).unwrap();
    }
    let call_contract = if native { CallContract::Native } else { CallContract::default() };
    let rules = Rules { call_contract, max_tool_loops, max_calls, ..Rules::default() };
    let selection = Selection { told: Vec::new(), named: (0..tools).collect(), unnamed: 0 };
    let briefing = Briefing::selected(&Arc::new(rules), None, registry.catalog(), selection);
    Scene::of(TurnRequest { briefing: Arc::new(briefing.unwrap()), ..request() })
}

fn calls_each(scene: &mut Scene, tools: usize) {
    for number in 0..tools {
        scene.says(&call_with(&format!("tool_{number}"), &json!({})));
    }
    scene.stops();
}

#[test]
fn beyond_a_bound_calls_by_bare_name_count_as_loops() {
    for (tools, is_free) in [(UNTOLD_CALLS_FREE, true), (UNTOLD_CALLS_FREE + 1, false)] {
        let mut scene = names_only(tools, 1, 32, false);
        calls_each(&mut scene, tools);
        assert_eq!(scene.types().contains(&"loop_limit_reached"), !is_free, "{tools} tools");
    }
    let mut scene = names_only(UNTOLD_CALLS_FREE + 1, 1, 32, false);
    for number in 0..=UNTOLD_CALLS_FREE {
        assert!(!scene.types().contains(&"loop_limit_reached"), "after {number} rounds");
        scene.says(&call_with(&format!("tool_{number}"), &json!({}))).stops();
    }
    assert!(scene.types().contains(&"loop_limit_reached"));
}

#[test]
fn beyond_a_bound_calls_by_bare_name_count_as_calls() {
    let tools = UNTOLD_CALLS_FREE + 2;
    let mut scene = names_only(tools, 5, 1, false);
    calls_each(&mut scene, tools);
    let untold = scene.not_run.iter().filter(|it| it.ends_with("untold")).count();
    assert_eq!(untold, UNTOLD_CALLS_FREE + 1);
    assert!(scene.not_run.last().unwrap().ends_with("over_cap"), "{:?}", scene.not_run);
}

#[test]
fn native_calls_by_bare_name_are_free_even_if_they_arrive_together() {
    let mut scene = names_only(UNTOLD_CALLS_FREE, 1, 2, true);
    let indexes = 0..u32::try_from(UNTOLD_CALLS_FREE).unwrap();
    for index in indexes.clone() {
        scene.handle(Input::Delta(Delta::CallStarted { index }));
    }
    for index in indexes {
        let name = &*format!("tool_{index}");
        scene.handle(Input::Delta(Delta::CallCompleted { index, name, arguments: "{}" }));
    }
    scene.finishes(RoundFinish::ToolCalls);
    assert_eq!(scene.not_run.len(), UNTOLD_CALLS_FREE);
    assert!(scene.not_run.iter().all(|it| it.ends_with("untold")), "{:?}", scene.not_run);
    assert_eq!(scene.knows().0.len(), UNTOLD_CALLS_FREE);
}

#[test]
fn what_is_learned_counts_from_the_next_message_on() {
    let mut scene = scene();
    let call = call_with("send_mail", &json!({"to": "a"}));
    scene.says(&call).says(&call_with("send_mail", &json!({"to": "b"}))).stops();
    assert_eq!(scene.not_run, ["call_1 at 1: untold", "call_2 at 2: untold"]);
}

#[test]
fn what_is_found_can_be_called() {
    let mut scene = scene();
    scene.says(&call_with("find_tools", &json!({"query": "file"}))).stops();
    let found = json!({"tools": [{"name": "read_file"}, {"name": "no_such_tool"}]});
    scene.tool_returns(0, ToolResult::data(found));
    assert_eq!(scene.knows(), (vec!["calculate", "find_tools", "read_file"], vec!["send_mail"]));
    scene.says(&call_with("read_file", &json!({"path": "a.txt"}))).stops();
    assert_eq!(scene.deeds.last().unwrap(), "start call_2 read_file {\"path\":\"a.txt\"}");
}

#[test]
fn a_call_by_bare_name_does_not_end_the_turn_even_if_calls_do() {
    let mut scene = scene_with(|request| {
        let rules = Rules { continue_after_tool: false, ..Rules::clone(&request.briefing.rules) };
        request.briefing = selected(rules, &request.briefing.tools);
    });
    scene.says(READ).stops();
    assert!(!scene.turn.is_over());
    assert_eq!(scene.rounds.len(), 2);
}

#[test]
fn a_round_with_a_mistake_beside_a_call_by_bare_name_counts() {
    let mut scene = scene_with(|request| request.max_tool_loops = Some(1));
    scene.says(READ).says("<<function_call>> {]\n").stops();
    assert_eq!(scene.event("loop_limit_reached")["max_tool_loops"], 1);
}

#[test]
fn a_search_does_not_end_the_turn_even_if_results_do() {
    let mut scene = scene_with(|request| {
        let rules = Rules { continue_after_tool: false, ..Rules::clone(&request.briefing.rules) };
        request.briefing = selected(rules, &request.briefing.tools);
    });
    scene.says(&call_with("find_tools", &json!({"query": "mail"}))).stops();
    scene.tool_returns(0, ToolResult::data(json!({"tools": [{"name": "send_mail"}]})));
    assert!(!scene.turn.is_over());
    scene.says(&call_with("send_mail", &json!({}))).stops();
    scene.tool_returns(1, ok());
    scene.ends("stop", "");
}

#[test]
fn a_result_of_another_tool_teaches_nothing() {
    let mut scene = scene();
    scene.says(SUM).stops();
    scene.tool_returns(0, ToolResult::data(json!({"tools": [{"name": "read_file"}]})));
    assert_eq!(scene.knows().0, ["calculate", "find_tools"]);
}

#[test]
fn descriptions_of_tools_are_no_answer_to_the_user() {
    let mut scene = scene();
    scene.says(&call_with("find_tools", &json!({"query": "file"}))).stops();
    scene.tool_returns(0, ToolResult::data(json!({"tools": [{"name": "read_file"}]})));
    for _ in 0..3 {
        scene.says(" ").stops();
    }
    scene.fails("empty_response");
}

#[test]
fn an_unknown_name_is_answered_with_the_tools_that_are_told() {
    let mut scene = scene();
    scene.says(&call_with("wether", &json!({}))).stops();
    let feedback = scene.event("feedback")["message"].as_str().unwrap();
    assert!(feedback.contains("Available: calculate, find_tools."), "{feedback}");
    scene.says(&call_with("reed_file", &json!({}))).stops();
    let feedback = scene.event("feedback")["message"].as_str().unwrap();
    assert!(feedback.contains("Did you mean read_file?"), "{feedback}");
}

#[test]
fn native_calls_learn_too() {
    let mut scene = scene_with(|request| {
        let rules =
            Rules { call_contract: CallContract::Native, ..Rules::clone(&request.briefing.rules) };
        request.briefing = selected(rules, &request.briefing.tools);
    });
    scene.calls(0, "read_file", "{}").finishes(RoundFinish::ToolCalls);
    assert_eq!(scene.knows().0, ["calculate", "find_tools", "read_file"]);
}
