//! What a model has learned about tools is not forgotten when another machine goes on with its turn.

use super::super::resumed_counts::takes_the_same_course;
use super::*;

#[test]
fn a_call_by_bare_name_stays_free() {
    let whole = scene_with(|request| {
        let rules = Rules { max_calls: 1, ..Rules::clone(&request.briefing.rules) };
        request.briefing = selected(rules, &request.briefing.tools);
        request.max_tool_loops = Some(1);
    });
    let read = call_with("read_file", &json!({"path": "a.txt"}));
    takes_the_same_course(whole, &[READ, &read, "It is empty."]);
}

#[test]
fn what_was_found_can_be_called() {
    let mut whole = scene();
    whole.says(&call_with("find_tools", &json!({"query": "file"}))).stops();
    whole.tool_returns(0, ToolResult::data(json!({"tools": [{"name": "read_file"}]})));
    whole.says("So ");
    let read = call_with("read_file", &json!({"path": "a.txt"}));
    let ended = whole.events.iter().position(|event| event["type"] == "tool_completed").unwrap();
    // The result is in the journal, or in the log alone.
    for cut in [ended + 1, whole.events.len()] {
        let mut rest = whole.taken_over_after(cut);
        assert_eq!(rest.knows().0, ["calculate", "find_tools", "read_file"], "after {cut}");
        rest.says(&read).stops();
        assert_eq!(rest.deeds.last().unwrap(), "start call_2 read_file {\"path\":\"a.txt\"}");
    }
}

/// It was checked before the interruption.
#[test]
fn a_call_that_was_begun_is_no_guess() {
    let mut whole = scene();
    whole.says(READ).stops();
    whole.says(&call_with("read_file", &json!({"path": "a.txt"}))).stops();
    let mut rest = whole.taken_over_after(whole.events.len());
    assert_eq!(rest.deeds, ["start call_2 read_file {\"path\":\"a.txt\"}"]);
    rest.tool_returns(0, ok());
    assert!(rest.not_run.is_empty(), "{:?}", rest.not_run);
}
