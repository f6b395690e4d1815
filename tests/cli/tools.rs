//! `tether tools` and `tether tools call`.

use super::*;

const PROGRAMS: &str = r#"
tools:
  demo: true
  command:
    - name: greet
      description: Greets someone.
      command: [echo, "Hello, {name}"]
      parameters: {type: object, properties: {name: {type: string}}, required: [name]}
    - name: look
      description: Takes a screenshot.
      command: [echo, "{scale}"]
      parameters: {type: object, properties: {scale: {type: string, default: css}}, required: [scale]}
    - name: fail
      description: Fails.
      command: [sh, -c, "echo it broke >&2; exit 7"]
    - name: count
      description: Counts.
      command: [sh, -c, "echo 1/2 one >&2; echo 2/2 two >&2"]
      progress: stderr
    - name: hurry
      description: Counts fast.
      command: [sh, -c, "i=0; while [ $i -lt 300 ]; do i=$((i + 1)); echo $i/300 >&2; done"]
      progress: stderr
    - name: wait
      description: Takes too long.
      command: [sleep, "1000"]
    - name: absent
      description: Is not on this machine.
      command: [no-such-program]
"#;

/// The exit status and both outputs of `tether tools` with these arguments.
fn tools(arguments: &[&str]) -> (Option<i32>, String, String) {
    let config = file(PROGRAMS);
    let output = tether(&[&["tools"], arguments, &["--config", path(&config)]].concat());
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

#[test]
fn more_tools_than_a_model_is_told_about_are_pointed_out() {
    let list = |max_told| {
        let config = file(&format!("tools: {{demo: true, select: {{max_told: {max_told}}}}}\n"));
        let output = tether(&["tools", "--config", path(&config)]);
        String::from_utf8(output.stderr).unwrap()
    };
    assert_eq!(list(6), "");
    assert!(list(5).starts_with("note: these are more tools than a model is told about at once"));
}

#[test]
fn the_list_says_on_standard_error_what_is_missing() {
    let (status, stdout, stderr) = tools(&[]);
    assert_eq!(status, Some(0));
    let list: serde_json::Value = serde_json::from_str(&stdout).unwrap();
    let names: Vec<_> =
        list["tools"].as_array().unwrap().iter().map(|tool| &tool["name"]).collect();
    assert_eq!(names[names.len() - 6..], ["greet", "look", "fail", "count", "hurry", "wait"]);
    assert_eq!(
        stderr,
        "warning: command absent is not offered: there is no executable program \
         no-such-program\n"
    );
}

#[test]
fn check_says_what_programs_run_and_what_restricts_them() {
    let config = file(PROGRAMS);
    let (_, stderr) = check(&["check", "--config", path(&config)], 0);
    let mut lines = stderr.lines();
    let greet = lines.next().unwrap();
    assert!(greet.starts_with("note: command greet: runs /"), "{greet}");
    assert!(greet.contains("/echo, restricted by: limits"), "{greet}");
    assert!(lines.next_back().unwrap().starts_with("warning: command absent is not offered: "));
}

/// Mistakes that no reader of the file can see, and a dangerous one.
#[test]
fn check_says_what_will_not_work_as_it_is_meant() {
    let document = file(
        r#"{"openapi": "3.1.0", "paths": {"/pets": {"delete": {"operationId": "deletePets"}}}}"#,
    );
    let config = file(&format!(
        r#"
tools:
  http:
    - {{name: pets, openapi: "{}", base_url: "https://pets.test", exclude: [deletPets], policy: {{deletePet: {{confirm: never}}}}}}
  mcp:
    - {{name: files, command: [no-such-program], required: true}}
  command:
    - {{name: there, description: Runs., command: [echo], cwd: /no/such/directory}}
    - name: script
      description: Counts words.
      command: [sh, -c, "echo {{words}} | wc -w"]
      parameters: {{type: object, properties: {{words: {{type: string}}}}, required: [words]}}
"#,
        path(&document)
    ));
    let (_, stderr) = check(&["check", "--config", path(&config)], 0);
    for told in [
        "http pets: `exclude` names `deletPets`, but there is no such operation; did you mean `deletePets`?",
        "http pets: `policy` names `deletePet`, but there is no such tool; did you mean `deletePets`?",
        "mcp files: there is no executable program no-such-program",
        "command there: there is no directory /no/such/directory to run in (`cwd`)",
        "tools.command: script: a placeholder within a script lets the model write a part of the script",
    ] {
        assert!(stderr.contains(&format!("warning: {told}")), "{told}\n{stderr}");
    }
}

#[test]
fn a_call_prints_the_result_on_one_line() {
    let (status, stdout, stderr) = tools(&["call", "greet", r#"{"name": "Ada"}"#]);
    let line =
        "{\"success\":true,\"data\":{\"text\":\"Hello, Ada\"},\"next_action\":\"continue\"}\n";
    assert_eq!((status, stdout.as_str(), stderr.as_str()), (Some(0), line, ""));
}

#[test]
fn a_required_argument_with_a_default_may_be_left_out() {
    for arguments in ["{}", r#"{"scale": null}"#] {
        let (status, stdout, stderr) = tools(&["call", "look", arguments]);
        assert_eq!((status, stderr.as_str()), (Some(0), ""));
        assert!(stdout.contains(r#""text":"css""#), "{stdout}");
    }
}

#[test]
fn arguments_may_come_from_standard_input() {
    let config = file(PROGRAMS);
    let mut child = Command::new(TETHER)
        .args(["tools", "call", "greet", "-", "--config", path(&config)])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(br#"{"name": "Ada"}"#).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(String::from_utf8(output.stdout).unwrap().contains("Hello, Ada"));
}

#[test]
fn a_tool_that_fails_is_status_1_and_its_result_says_why() {
    let (status, stdout, stderr) = tools(&["call", "fail"]);
    assert_eq!((status, stderr.as_str()), (Some(1), ""));
    assert!(stdout.contains(r#""error":"exit status 7: it broke""#), "{stdout}");
}

#[test]
fn a_tool_that_takes_too_long_is_ended() {
    let (status, stdout, _) = tools(&["call", "wait", "--timeout", "1"]);
    assert_eq!(status, Some(1));
    assert!(stdout.contains("did not answer"), "{stdout}");
}

#[test]
fn progress_goes_to_standard_error() {
    let (status, stdout, stderr) = tools(&["call", "count"]);
    assert_eq!(status, Some(0));
    assert!(stderr.ends_with("progress: 2/2 two\n"), "{stderr}");
    assert!(stdout.contains(r#""success":true"#), "{stdout}");
}

#[test]
fn events_are_those_of_a_turn() {
    let (_, stdout, stderr) = tools(&["call", "count", "--events"]);
    assert_eq!(stderr, "");
    let types: Vec<serde_json::Value> = stdout
        .lines()
        .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap()["type"].take())
        .collect();
    // Of reports that come faster than they are read, the last is kept.
    let (first, last) = (types.first().unwrap(), types.last().unwrap());
    assert_eq!((first, last), (&"tool_started".into(), &"tool_completed".into()));
    assert!(types[1..types.len() - 1].iter().all(|kind| kind == "tool_progress"));
    assert!(types.len() > 2);
}

#[test]
fn progress_is_thinned_as_in_a_turn() {
    let (_, stdout, _) = tools(&["call", "hurry", "--events"]);
    let events: Vec<serde_json::Value> =
        stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let ended = events.last().unwrap()["data"]["duration_ms"].as_u64().unwrap();
    let reports: Vec<f64> =
        events.iter().filter_map(|event| event["data"]["progress"].as_f64()).collect();
    assert!(reports.len() as u64 <= ended / 100 + 2, "{} in {ended} ms", reports.len());
    assert!(reports.is_sorted() && reports.ends_with(&[300.0]), "{reports:?}");
}

#[test]
fn arguments_that_are_not_text_are_a_mistake() {
    let config = file(PROGRAMS);
    let mut child = Command::new(TETHER)
        .args(["tools", "call", "greet", "-", "--config", path(&config)])
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(b"{\"name\": \"\xff\"}").unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(String::from_utf8(output.stderr).unwrap(), "error: the arguments are not UTF-8\n");
}

#[test]
fn mistakes_in_a_call_are_status_2() {
    for (arguments, told) in [
        (&["call", "nope"][..], "error: there is no tool \"nope\"; available: "),
        (
            &["call", "gret"],
            "error: there is no tool \"gret\"; did you mean greet? Also available: ",
        ),
        (&["call", "greet"], "error: The arguments are not valid.\n  - arguments.name: "),
        (&["call", "greet", "[]"], "error: the arguments must be a JSON object\n"),
        (&["call", "greet", "{"], "error: the arguments are not valid JSON: "),
        (
            &["call", "greet", r#"{"name": "A", "name": "B"}"#],
            "error: the arguments have the key \"name\" twice\n",
        ),
        (&["call", "fail", "--answer", "{bad"], "error: the answer is not valid JSON: "),
    ] {
        let (status, stdout, stderr) = tools(arguments);
        assert_eq!((status, stdout.as_str()), (Some(2), ""), "{arguments:?}: {stderr}");
        assert!(stderr.contains(told), "{arguments:?}: {stderr}");
        assert!(!stderr.contains("answer in words"), "only for models: {stderr}");
    }
}

#[test]
fn a_question_without_an_answer_is_status_1() {
    let john = r#"{"name": "John"}"#;
    let (status, stdout, _) = tools(&["call", "lookup_contacts", john]);
    assert_eq!(status, Some(1));
    assert!(stdout.contains("clarification"), "{stdout}");
    // The tool has ended, so there is nothing to answer.
    let (status, answered, stderr) =
        tools(&["call", "lookup_contacts", john, "--answer", "accept"]);
    assert_eq!((status, answered), (Some(1), stdout));
    assert!(stderr.contains("--answer was not used"), "{stderr}");
}

#[test]
fn a_name_that_no_server_can_have_waits_for_none() {
    let config = file("tools: {mcp: [{name: slow, command: [sleep, \"1000\"]}]}\n");
    let output = tether(&["tools", "call", "other__read", "--config", path(&config)]);
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{stderr}");
    let note = "note: mcp slow was not waited for: its tools begin with slow__\n";
    let rest = stderr.strip_prefix(note).unwrap_or_else(|| panic!("{stderr}"));
    assert!(rest.starts_with("error: there is no tool \"other__read\"; "), "{rest}");
}

#[test]
fn servers_may_end_by_themselves() {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/mcp/server.py");
    for arguments in [&["tools"][..], &["tools", "call", "bad__act", "{}"], &["tools", "pin"]] {
        let folder = tempfile::tempdir().unwrap();
        let notes = folder.path().join("events");
        std::fs::write(&notes, "").unwrap();
        let command = serde_json::json!(["python3", script, "ends_slowly", folder.path()]);
        let config = file(&format!("tools: {{mcp: [{{name: bad, command: {command}}}]}}\n"));
        let output = tether(&[arguments, &["--config", path(&config)]].concat());
        assert_eq!(output.status.code(), Some(0), "{arguments:?}: {output:?}");
        let told = std::fs::read_to_string(&notes).unwrap();
        assert!(told.ends_with("ended\n"), "{arguments:?}: {told}");
    }
}

#[test]
fn a_home_that_the_sandbox_hides_is_a_directory_of_the_call() {
    if !tether::tools::process::Launcher::at(TETHER.into()).layers().unwrap().files {
        return;
    }
    let (home, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (shown, cwd) = (home.path().to_str().unwrap(), other.path().to_str().unwrap());
    let below = home.path().join("below");
    std::fs::create_dir(&below).unwrap();
    let prints = |more: &str| {
        let config = file(&format!(
            "tools:\n  command:\n  - name: home\n    description: Prints it.\n    \
             command: [sh, -c, 'echo \"$HOME\"; pwd']\n    {more}\n"
        ));
        let output = Command::new(TETHER)
            .args(["tools", "call", "home", "--config", path(&config)])
            .env("HOME", home.path())
            .output()
            .unwrap();
        let result: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        let text = result["data"]["text"].as_str().unwrap_or_else(|| panic!("{result}"));
        let (home, directory) = text.split_once('\n').unwrap();
        (home.to_owned(), home == directory)
    };
    let (own, is_directory) = prints("sandbox: {}");
    assert!(own != shown && is_directory, "{own}");
    let (own, _) = prints(&format!("cwd: {cwd:?}"));
    assert!(own != shown && own != cwd, "{own}");
    for (more, is_directory) in [
        ("sandbox: {mode: \"off\"}", false),
        ("env_inherit: [HOME]", false),
        (&*format!("env: {{HOME: {shown:?}}}"), false),
        (&*format!("sandbox: {{read: [{shown:?}]}}"), false),
        (&*format!("sandbox: {{write: [{below:?}]}}"), false),
        (&*format!("cwd: {shown:?}"), true),
    ] {
        assert_eq!(prints(more), (shown.to_owned(), is_directory), "{more}");
    }
}
