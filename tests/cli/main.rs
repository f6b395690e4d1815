//! The binary as a shell sees it: exit statuses, and the contents of each stream.

#![expect(clippy::unwrap_used, reason = "a test that panics has failed, as it should")]

mod parse;
mod probe;
mod sessions;
mod tools;

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use tempfile::NamedTempFile;

const TETHER: &str = env!("CARGO_BIN_EXE_tether");

fn tether(arguments: &[&str]) -> Output {
    Command::new(TETHER)
        .args(arguments)
        .env_remove("TETHER_LOG")
        .stdin(Stdio::null())
        .output()
        .unwrap()
}

fn file(text: &str) -> NamedTempFile {
    let mut file = NamedTempFile::new().unwrap();
    file.write_all(text.as_bytes()).unwrap();
    file
}

fn path(file: &NamedTempFile) -> &str {
    file.path().to_str().unwrap()
}

/// Checks the exit status, and that a failure writes nothing to standard output.
#[track_caller]
fn check(arguments: &[&str], status: i32) -> (String, String) {
    let output = tether(arguments);
    let stdout = String::from_utf8(output.stdout).unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(status), "{arguments:?}: {stderr}");
    if status != 0 {
        assert_eq!(stdout, "", "{arguments:?}");
        assert_ne!(stderr, "", "{arguments:?}");
    }
    (stdout, stderr)
}

#[test]
fn check_prints_the_effective_configuration() {
    let (stdout, stderr) = check(&["check"], 0);
    assert!(stdout.starts_with("server:\n  listen: 127.0.0.1:8080\n"), "{stdout}");
    assert_eq!(stderr, "");
}

#[test]
fn check_redacts_secrets() {
    let good =
        file("server: {api_keys: [sesame]}\nupstreams: [{api_key: \"${HOME_KEY:-sesame}\"}]\n");
    let (stdout, _) = check(&["check", "--config", path(&good)], 0);
    assert!(!stdout.contains("sesame"), "{stdout}");
    assert_eq!(stdout.matches("[redacted]").count(), 2, "{stdout}");
}

#[test]
fn check_reads_the_environment() {
    let good = file("upstreams: [{name: \"${TETHER_TEST_NAME}\"}]\n");
    let check = |set: bool| {
        let mut command = Command::new(TETHER);
        if set {
            command.env("TETHER_TEST_NAME", "from-outside");
        } else {
            command.env_remove("TETHER_TEST_NAME");
        }
        command.args(["check", "--config", path(&good)]).output().unwrap()
    };
    assert!(String::from_utf8(check(true).stdout).unwrap().contains("- name: from-outside\n"));
    let unset = check(false);
    assert_eq!(unset.status.code(), Some(2));
    assert!(String::from_utf8(unset.stderr).unwrap().contains("TETHER_TEST_NAME is not set"));
}

#[test]
fn check_warns_about_an_open_gateway_and_continues() {
    let open = file("server: {listen: \"0.0.0.0:8080\"}\n");
    let (stdout, stderr) = check(&["check", "--config", path(&open)], 0);
    assert!(stdout.contains("listen: 0.0.0.0:8080"), "{stdout}");
    assert!(stderr.starts_with("warning: server.listen: 0.0.0.0:8080 can be reached"), "{stderr}");
}

#[test]
fn a_bad_file_is_status_2_and_one_message_with_every_mistake() {
    let bad = file("server:\n  listn: 1\n  max_body_bytes: lots\nsessions: {store: sqlite}\n");
    let name = path(&bad);
    let (_, stderr) = check(&["check", "--config", name], 2);
    assert_eq!(
        stderr,
        format!(
            "error: 3 errors in the configuration\n  \
             {name}:2:3: server.listn: unknown key, did you mean `listen`?\n  \
             {name}:3:19: server.max_body_bytes: found the text `lots`, expected a whole number of \
             bytes from 1024 to 1073741824\n  \
             {name}:4:19: sessions.store: found the text `sqlite`, expected `memory`, `embedded` or `redis`\n"
        )
    );
}

/// Without `--probe`, nothing is opened or connected to, but what can be told is told as `serve` would.
#[test]
fn check_refuses_a_store_that_serve_could_not_use() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path().display();
    for (sessions, expected) in [
        (
            "redis: {url: \"rediss://h\", ca_file: /nowhere/ca.pem}".to_owned(),
            "error: sessions: cannot read /nowhere/ca.pem: No such file or directory (os error 2) \
             (`sessions.redis.ca_file`)\n"
                .to_owned(),
        ),
        (
            format!("embedded: {{path: {folder}}}"),
            format!(
                "error: sessions: {folder} is a folder, not a file; name a file that can hold sessions\n"
            ),
        ),
        (
            "embedded: {path: /dev/null/x.db}".to_owned(),
            "error: sessions: /dev/null is a device, not a folder; name a folder with --state, or a file in a \
             folder with `sessions.embedded.path`\n"
                .to_owned(),
        ),
    ] {
        let bad = file(&format!("server: {{listen: \"127.0.0.1:0\"}}\nsessions: {{{sessions}}}\n"));
        for command in ["check", "serve"] {
            let (_, stderr) = check(&[command, "--config", path(&bad)], 2);
            assert_eq!(stderr, expected);
        }
    }
}

/// What watches over the gateway does not start it again after status 2, and no start would help.
#[test]
fn a_file_that_holds_no_sessions_is_a_mistake_in_the_configuration() {
    let foreign = file("Dear diary");
    let embedded = path(&foreign);
    let config = file(&format!(
        "server: {{listen: \"127.0.0.1:0\"}}\nsessions: {{embedded: {{path: {embedded}}}}}\n"
    ));
    for command in [&["serve"][..], &["sessions", "list"]] {
        let (_, stderr) = check(&[command, &["--config", path(&config)]].concat(), 2);
        assert!(stderr.contains(&format!("{embedded} is not a file of sessions")), "{stderr}");
    }
}

#[test]
fn a_folder_for_sessions_that_cannot_be_used_is_named_with_what_to_do() {
    // Whoever starts the gateway may give it write access later.
    for (state, status, expected) in [
        ("/dev/null", 2, "/dev/null is a device, not a folder; name a folder with --state"),
        ("/proc/x", 1, "write access there, or --state and `sessions.embedded.path` another place"),
    ] {
        let (_, stderr) = check(&["--listen", "127.0.0.1:0", "--state", state], status);
        assert!(stderr.contains(expected), "{stderr}");
    }
}

#[test]
fn every_command_that_reads_a_configuration_refuses_a_bad_one() {
    let bad = file("x: 1\n");
    for command in [&["check"][..], &["tools"], &["serve"], &[]] {
        let arguments = [command, &["--config", path(&bad)]].concat();
        let (_, stderr) = check(&arguments, 2);
        assert!(stderr.contains(":1:1: x: unknown key"), "{arguments:?}: {stderr}");
    }
}

#[test]
fn a_file_that_cannot_be_read_is_status_2() {
    let (_, stderr) = check(&["check", "--config", "/nowhere/tether.yml"], 2);
    assert!(stderr.starts_with("error: /nowhere/tether.yml: cannot read the file: "), "{stderr}");

    let latin = NamedTempFile::new().unwrap();
    std::fs::write(&latin, b"model: {system_prompt: caf\xe9}").unwrap();
    let (_, stderr) = check(&["check", "--config", path(&latin)], 2);
    assert!(stderr.ends_with(": invalid UTF-8 at byte 26\n"), "{stderr}");
}

#[test]
fn a_file_has_a_maximum_length() {
    let padded = |length: usize| {
        let start = "model: {}\n#";
        file(&format!("{start}{}", "x".repeat(length - start.len())))
    };
    let most = tether::limits::config::FILE_BYTES_MAX;
    check(&["check", "--config", path(&padded(most))], 0);
    let (_, stderr) = check(&["check", "--config", path(&padded(most + 1))], 2);
    assert!(stderr.ends_with(": the file is longer than 1048576 bytes\n"), "{stderr}");
}

#[test]
fn bad_arguments_are_status_2() {
    for arguments in [
        &["--nonsense"][..],
        &["nonsense"],
        &["serve", "--listen", "localhost"],
        &["serve", "--upstream", "localhost:8081"],
        &["serve", "--log-format", "xml"],
        &["parse", "--chunk-size", "0"],
        &["completions"],
        &["completions", "tcsh"],
        &["--model", "m"],
        &["chat", "--url", "127.0.0.1:8080"],
        &["chat", "--session", ""],
    ] {
        check(arguments, 2);
    }
}

#[test]
fn a_bad_argument_names_what_is_expected() {
    for (arguments, expected) in [
        (&["serve", "--listen", "localhost:8080"][..], "such as 127.0.0.1:8080"),
        (&["serve", "--upstream", "localhost:8081"], "expected a URL"),
        (&["serve", "--log-format", "xml"], "[possible values: text, json]"),
        (&["parse", "--format", "xml"], "[possible values: marker_json, hermes, "),
        (&["completions", "tcsh"], "bash"),
        (&["parse", "--chunk-size", "0"], "expected a whole number of bytes, at least 1"),
        (
            &["tools", "call", "x", "--timeout", "x"],
            "expected a whole number of seconds, at least 1",
        ),
    ] {
        let (_, stderr) = check(arguments, 2);
        assert!(stderr.contains(expected), "{arguments:?}: {stderr}");
    }
}

#[test]
fn an_address_in_use_is_status_1() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let (_, stderr) = check(&["serve", "--listen", &address], 1);
    assert!(stderr.starts_with(&format!("error: cannot listen on {address}: ")), "{stderr}");
    assert!(stderr.contains("--listen"), "{stderr}");
}

/// As a target it would silence the gateway.
#[test]
fn a_misspelt_log_level_is_status_2() {
    for (filter, is_good) in [("inof", false), (" INFO ", true), ("off", true), ("tether", true)] {
        let mut tether = Command::new(TETHER);
        let output = tether.arg("tools").env("TETHER_LOG", filter).output().unwrap();
        assert_eq!(output.status.success(), is_good, "{filter}");
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!(stderr.contains("`inof` is not a level"), !is_good, "{stderr}");
    }
}

#[test]
fn a_bad_log_filter_is_status_2() {
    for command in ["serve", "check", "tools"] {
        let mut tether = Command::new(TETHER);
        let output = tether.arg(command).env("TETHER_LOG", "tether=loud").output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{command}");
        assert_eq!(output.stdout, b"", "{command}");
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert!(stderr.starts_with("error: TETHER_LOG: "), "{command}: {stderr}");
        assert!(stderr.contains("warn,tether=trace"), "{command}: {stderr}");
    }
}

/// The machine or the configuration is at fault, and no restart will help.
#[test]
fn a_collector_that_cannot_be_asked_is_status_2() {
    let collector = file(
        "server: {listen: \"127.0.0.1:0\"}\ntelemetry: {otlp: {endpoint: \"https://collector.example\"}}\n",
    );
    let mut tether = Command::new(TETHER);
    tether.args(["serve", "--config", path(&collector)]).env("SSL_CERT_FILE", "/nowhere/ca.pem");
    let output = tether.env_remove("SSL_CERT_DIR").env("TETHER_LOG", "off").output().unwrap();
    assert_eq!((output.status.code(), &*output.stdout), (Some(2), &b""[..]));
    let stderr = String::from_utf8(output.stderr).unwrap();
    let expected = "error: telemetry.otlp: cannot read the system's CA certificates: ";
    assert!(stderr.starts_with(expected), "{stderr}");

    let header = file(
        "telemetry: {otlp: {endpoint: \"https://collector.example\", headers: {a: \"b\\x01\"}}}\n",
    );
    let (_, stderr) = check(&["serve", "--config", path(&header)], 2);
    assert!(
        stderr.contains("telemetry.otlp.headers.a: found text, expected a header's value"),
        "{stderr}"
    );
}

#[test]
fn help_goes_to_standard_output() {
    let (stdout, stderr) = check(&["--help"], 0);
    for word in [
        "serve",
        "check",
        "chat",
        "parse",
        "tools",
        "sessions",
        "completions",
        "--upstream",
        "TETHER_LOG",
    ] {
        assert!(stdout.contains(word), "{word}: {stdout}");
    }
    assert_eq!(stderr, "");
}

/// One line that begins as those of other programs: bug reports quote it, and scripts take its second word.
#[test]
fn the_version_says_what_the_binary_was_built_from() {
    let (stdout, _) = check(&["--version"], 0);
    let line = stdout.strip_suffix(")\n").unwrap();
    let (version, built_from) = line.split_once(" (").unwrap();
    assert_eq!(version, format!("tether {}", env!("CARGO_PKG_VERSION")));
    let built_from: Vec<_> = built_from.split(", ").collect();
    assert!(built_from.contains(&env!("TETHER_TARGET")), "{stdout}");
    assert_eq!(built_from.contains(&"debug"), cfg!(debug_assertions), "{stdout}");
    assert_eq!(check(&["-V"], 0).0, stdout);
}

#[test]
fn completions_know_the_commands() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let (stdout, _) = check(&["completions", shell], 0);
        for word in ["chunk-size", "chat", "session"] {
            assert!(stdout.contains(word), "{shell}: {word}");
        }
    }
}

#[test]
fn tools_are_listed_as_json() {
    let (stdout, _) = check(&["tools"], 0);
    let listed: serde_json::Value = serde_json::from_str(&stdout).unwrap();
    assert!(listed["tools"].is_array(), "{stdout}");
}

/// The reading end is closed before anything is written.
#[test]
fn a_closed_pipe_is_not_a_failure() {
    for arguments in [&["check"][..], &["completions", "bash"], &["tools"], &["--help"]] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let output =
            Command::new(TETHER).args(arguments).stdout(writer).stderr(Stdio::piped()).output();
        let output = output.unwrap();
        assert_eq!(output.status.code(), Some(0), "{arguments:?}");
        assert_eq!(String::from_utf8(output.stderr).unwrap(), "", "{arguments:?}");
    }
}

#[test]
fn standard_output_that_fails_is_status_1() {
    let full = Path::new("/dev/full");
    if !full.exists() {
        // Only Linux has a device that is always full.
        return;
    }
    for arguments in
        [&["check"][..], &["completions", "bash"], &["tools"], &["--help"], &["--version"]]
    {
        let writer = std::fs::OpenOptions::new().write(true).open(full).unwrap();
        let output = Command::new(TETHER).args(arguments).stdout(writer).output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{arguments:?}");
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert!(stderr.starts_with("error: standard input or output: "), "{stderr}");
    }
}
