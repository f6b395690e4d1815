//! What a program receives: arguments, input, environment, directory.

use super::*;

#[tokio::test]
async fn no_shell_reads_a_value() {
    let value = "$(id) `id` ; id > /tmp/x | & * \" ' \\ \n {x}";
    let printed =
        Program::new(&["printf", "%s|", "a", "--", "{x}"]).prints(json!({ "x": value })).await;
    assert_eq!(printed, format!("a|--|{value}|"));
}

#[tokio::test]
async fn a_value_cannot_become_an_option() {
    let error = Program::new(&["ls", "{x}"]).fails(json!({ "x": "--version" })).await;
    assert_eq!(error, "x must not begin with \"-\"");
    let error = Program::new(&["ls", "--", "{x}"]).fails(json!({ "x": "--version" })).await;
    assert!(error.contains("cannot access '--version'"), "{error}");
}

#[tokio::test]
async fn a_program_inherits_only_what_it_needs() {
    let mut environment = own_environment();
    environment.push(("TETHER_SECRET".into(), "hidden".into()));
    let set = [("GREETING".to_owned(), "hello".to_owned())];
    let environment = tether::tools::process::environment(environment, &[], &set);
    let printed = Program::new(&["env"]).with(|it| it.environment = environment);
    let printed = printed.prints(json!({})).await;
    let names: Vec<&str> =
        printed.lines().filter_map(|line| Some(line.split_once('=')?.0)).collect();
    let usual = [
        "PATH",
        "HOME",
        "LANG",
        "TZ",
        "TMPDIR",
        "USER",
        "LOGNAME",
        "GREETING",
        // How what it leaves running is found.
        "TETHER_PROCESS",
    ];
    let unusual: Vec<_> =
        names.iter().filter(|name| !usual.contains(name) && !name.starts_with("LC_")).collect();
    assert!(unusual.is_empty() && names.contains(&"PATH"), "{printed}");
    assert!(printed.contains("GREETING=hello"), "{printed}");
}

#[tokio::test]
async fn each_run_has_a_fresh_directory_that_is_deleted() {
    let script = || Program::script("pwd; ls -A; touch made; mktemp");
    let (one, other) = (script().prints(json!({})).await, script().prints(json!({})).await);
    let lines: Vec<&str> = one.lines().collect();
    assert_eq!(lines.len(), 2, "it is empty at first: {one}");
    assert!(lines[1].starts_with(lines[0]), "temporary files go there too: {one}");
    assert_ne!(one.lines().next(), other.lines().next());
    while Path::new(lines[0]).exists() {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_directory_may_be_given() {
    let directory = tempfile::tempdir().unwrap();
    let program = Program::script("echo hello > made");
    program.with(|it| it.directory = Some(directory.path().to_owned())).prints(json!({})).await;
    assert_eq!(text_of(&directory.path().join("made")), "hello\n");
}

#[tokio::test]
async fn a_program_reads_nothing_the_arguments_or_one_value() {
    let cat = || Program::new(&["cat"]);
    assert_eq!(cat().prints(json!({ "x": "a" })).await, "");
    let text = |program: Program| program.with(|it| it.output = Output::Text);
    let all = text(cat()).with(|it| it.stdin = Input::Arguments);
    assert_eq!(all.prints(json!({ "x": "a", "y": "ä" })).await, r#"{"x":"a","y":"ä"}"#);
    let one = text(cat()).with(|it| it.stdin = Input::Parameter("y".to_owned()));
    assert_eq!(one.prints(json!({ "x": "a", "y": "two\nlines" })).await, "two\nlines");
}

#[tokio::test]
async fn a_program_need_not_read_its_input() {
    let deaf = Program::new(&["true"]).with(|it| it.stdin = Input::Parameter("x".to_owned()));
    assert_eq!(deaf.prints(json!({ "x": "x".repeat(4 << 20) })).await, "");
}

#[tokio::test]
async fn a_program_that_cannot_be_run_is_a_fault_or_an_error_with_its_name() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("script");
    std::fs::write(&file, "#!/no/such/interpreter\n").unwrap();
    let executable = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(&file, executable).unwrap();
    let error = Program::new(&[file.to_str().unwrap()]).fails(json!({})).await;
    assert!(error.starts_with("exit status 126: tether: cannot run /"), "{error}");
    let missing = Program::new(&["true"]).with(|it| {
        it.program = PathBuf::from("/no/such/program");
        it.launcher = None;
    });
    let fault = missing.run(json!({})).await.unwrap_err();
    assert!(!fault.transient && fault.message.starts_with("cannot start /no/such/program"));
}

#[tokio::test]
async fn a_script_runs_with_its_interpreter() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("script");
    std::fs::write(&file, "#!/bin/sh\necho \"got $1\"\n").unwrap();
    let executable = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(&file, executable).unwrap();
    let printed = Program::new(&[file.to_str().unwrap(), "{x}"]).prints(json!({ "x": "it" })).await;
    assert_eq!(printed, "got it");
}
