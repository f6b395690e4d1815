//! `tether parse`.

use super::*;

/// A call by a model that writes arguments in tags.
const TAGGED: &str = "<tool_call>f<arg_key>n</arg_key><arg_value>7</arg_value></tool_call>";

/// The line of such a call, which begins here.
fn completed(arguments: &str) -> String {
    format!(r#"{{"type":"tool_completed","index":0,"name":"f","arguments":{arguments}}}"#)
}

const STARTED: &str = r#"{"type":"tool_started","index":0,"offset":0}"#;

/// What the command makes of `input`.
fn run(options: &[&str], input: &str) -> Output {
    let mut command = Command::new(TETHER);
    command.arg("parse").args(options).stdin(Stdio::piped());
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // It may end before it has read anything.
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    child.wait_with_output().unwrap()
}

/// Checks the lines that the command writes.
#[track_caller]
fn parsed(options: &[&str], input: &str, expected: &[&str]) {
    let Output { status, stdout, stderr } = run(options, input);
    assert_eq!(String::from_utf8(stderr).unwrap(), "", "{options:?}");
    assert_eq!(status.code(), Some(0), "{options:?}");
    let stdout = String::from_utf8(stdout).unwrap();
    assert_eq!(stdout.lines().collect::<Vec<_>>(), expected, "{options:?}");
}

#[test]
fn an_output_may_begin_within_reasoning() {
    let (reasoning, text) = (r#"{"type":"reasoning","text":"a"}"#, r#"{"type":"text","text":"b"}"#);
    parsed(&["--in-reasoning"], "a</think>b", &[reasoning, text]);
    parsed(&[], "<think>a</think>b", &[reasoning, text]);
    parsed(&[], "b", &[text]);
}

#[test]
fn the_format_is_the_one_that_is_named() {
    parsed(&["--format", "glm47"], TAGGED, &[STARTED, &completed(r#"{"n":"7"}"#)]);
}

#[test]
fn the_tools_say_what_texts_mean() {
    let tool = r#"{"name":"f","parameters":{"properties":{"n":{"type":"integer"}}}}"#;
    for tools in [format!("[{tool}]"), format!(r#"[{{"type":"function","function":{tool}}}]"#)] {
        let tools = file(&tools);
        let options = ["--format", "glm47", "--tools", path(&tools)];
        parsed(&options, TAGGED, &[STARTED, &completed(r#"{"n":7}"#)]);
        for chunk_size in ["1", "1000"] {
            let options = [&options[..], &["--chunk-size", chunk_size]].concat();
            parsed(&options, TAGGED, &[STARTED, &completed(r#"{"n":7}"#)]);
        }
    }
}

#[test]
fn tools_that_cannot_be_read_are_status_2_and_named() {
    let (no_json, no_tools) = (file("["), file("{}"));
    for (tools, why) in [
        (path(&no_json), "EOF while parsing"),
        (path(&no_tools), "tools must be an array"),
        ("/nowhere/tools.json", "No such file"),
    ] {
        let Output { status, stdout, stderr } = run(&["--tools", tools], "a");
        assert_eq!((status.code(), &*stdout), (Some(2), &b""[..]), "{tools}");
        let stderr = String::from_utf8(stderr).unwrap();
        assert!(stderr.starts_with(&format!("error: {tools}: {why}")), "{stderr}");
    }
}

#[test]
fn the_marker_and_the_format_are_the_configured_ones() {
    let marker = file("stream: {parser: {marker: \"@@call\"}}\n");
    let options = ["--config", path(&marker)];
    let call = r#"@@call {"name":"f","arguments":{}}"#;
    parsed(&options, call, &[STARTED, &completed("{}")]);
    parsed(
        &["--format", "marker_json", options[0], options[1]],
        call,
        &[STARTED, &completed("{}")],
    );
    let format = file("tools: {call_contract: glm47}\n");
    parsed(&["--config", path(&format)], TAGGED, &[STARTED, &completed(r#"{"n":"7"}"#)]);
}

#[test]
fn a_batch_has_an_answer_for_each_line() {
    let lines = "{\"text\":\"a</think>b\"}\n{\"text\":\"a\",\"in_reasoning\":false}\n";
    let expected = [
        r#"[{"type":"reasoning","text":"a"},{"type":"text","text":"b"}]"#,
        r#"[{"type":"text","text":"a"}]"#,
    ];
    parsed(&["--batch", "--in-reasoning"], lines, &expected);
}
