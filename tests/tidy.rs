//! House rules that no compiler checks, as tests. `docs/ARCHITECTURE.md` gives their reasons.
//!
//! Source is treated as text with comments and literals blanked out (`tidy/source.rs`). That is
//! crude, but enough to notice a name that does not belong.

#![expect(clippy::unwrap_used, reason = "a test that panics has failed, as it should")]

#[path = "tidy/imports.rs"]
mod imports;
#[path = "tidy/source.rs"]
mod source;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use clap::CommandFactory as _;
use imports::{Modules, cycles};
use serde_json::Value;
use serde_json::value::RawValue;
use source::{Source, names};
use tether::config::{Config, UpstreamConfig};
use tether::event::{
    AcknowledgementSource, Event, FailureCode, FeedbackReason, Summary, TurnFinish, Usage,
};
use tether::tools::{self, Clarification, ToolResult};

/// Lines of code in a file, without its tests. A file should be readable in one sitting.
const FILE_LINES_MAX: usize = 400;

/// Lines of a test file, which is consulted rather than read from end to end.
const TEST_FILE_LINES_MAX: usize = 600;

/// What a module may do, and which other modules it may import.
struct Row {
    /// A file or a folder below `src`. The longest match is the row of a file.
    place: &'static str,
    does: Does,
    imports: &'static [&'static str],
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Does {
    /// Pure: bytes, events and time are arguments.
    Nothing,
    /// Waits, reads clocks, opens sockets or holds locks.
    Io,
}
use Does::{Io, Nothing};

const fn row(place: &'static str, does: Does, imports: &'static [&'static str]) -> Row {
    Row { place, does, imports }
}

/// A row for every module, in dependency order: no module imports one further down.
const ROWS: &[Row] = &[
    row("corpus", Io, &[]),
    row("limits", Nothing, &[]),
    row("version", Nothing, &[]),
    row("error_chain", Nothing, &[]),
    row("http", Nothing, &[]),
    row("hidden_key", Nothing, &["limits", "text"]),
    row("random", Io, &[]),
    row("terminal", Nothing, &[]),
    row("text", Nothing, &["limits"]),
    row("thread_buffer", Io, &[]),
    row("time_zones", Nothing, &["text"]),
    row("tls", Io, &[]),
    row("trace_context", Nothing, &[]),
    row("telemetry", Io, &["limits", "terminal", "trace_context", "version"]),
    row("telemetry/otlp", Io, &["error_chain", "http", "limits", "tls", "version"]),
    row("call_format", Nothing, &[]),
    row("parser", Nothing, &["call_format", "limits"]),
    row("tools/mod.rs", Io, &["trace_context"]),
    row("tools/fault", Nothing, &["http"]),
    row("tools/registry", Nothing, &["limits"]),
    row("tools/policy", Nothing, &[]),
    row("tools/digest", Nothing, &[]),
    row("tools/clean", Nothing, &[]),
    row("tools/half_characters", Nothing, &[]),
    row("tools/form", Nothing, &["limits"]),
    row("tools/question", Io, &[]),
    row("tools/reported", Nothing, &[]),
    row("tools/sources", Io, &[]),
    row("tools/throttle", Io, &["limits"]),
    row("tools/process", Io, &["limits"]),
    row("tools/process/sandbox", Io, &[]),
    row("tools/command", Io, &["limits"]),
    row("tools/command/template", Nothing, &["limits"]),
    row("tools/command/progress", Nothing, &[]),
    row("tools/command/output", Io, &["limits", "text"]),
    row("tools/outbound", Io, &["limits"]),
    row("tools/outbound/address", Nothing, &[]),
    row("tools/outbound/connect", Io, &["tls"]),
    row("tools/outbound/error", Io, &["error_chain", "tls"]),
    row("tools/http", Nothing, &["http", "limits", "text"]),
    row("tools/http/mod.rs", Io, &["limits"]),
    row("tools/http/bearer", Io, &[]),
    row("tools/http/source", Io, &["http", "limits", "text"]),
    row("tools/oauth", Io, &["limits", "text"]),
    row("tools/keys", Nothing, &["hidden_key", "http"]),
    row("tools/mcp", Io, &["limits"]),
    row("tools/mcp/auth/mod.rs", Io, &[]),
    row("tools/mcp/auth/discovery", Io, &[]),
    row("tools/mcp/cause", Io, &["error_chain"]),
    row("tools/mcp/fuzz", Nothing, &["limits", "text"]),
    row("tools/mcp/http", Io, &["limits", "text"]),
    row("tools/mcp/http/answer", Io, &["http", "limits", "text"]),
    row("tools/mcp/http/events", Io, &["limits"]),
    row("tools/mcp/http/params", Io, &["text"]),
    row("tools/mcp/list", Io, &["limits", "text"]),
    row("tools/mcp/message", Nothing, &["limits"]),
    row("tools/mcp/question", Nothing, &["limits", "text"]),
    row("tools/mcp/envelope", Nothing, &["limits"]),
    row("tools/mcp/server", Io, &["limits", "telemetry"]),
    row("tools/mcp/stdio", Io, &["limits", "text"]),
    row("tools/mcp/stdio/lines", Nothing, &["limits"]),
    row("tools/mcp/tool/result", Nothing, &["limits", "text"]),
    row("tools/mcp/traffic/server_requests", Nothing, &["limits", "text"]),
    row("tools/source", Nothing, &["limits", "text"]),
    row("tools/report", Io, &["limits", "text"]),
    row("tools/run", Io, &["limits", "telemetry", "trace_context"]),
    row("tools/builtin", Io, &["limits", "text", "time_zones"]),
    row("tools/client", Nothing, &["limits", "text"]),
    row("tools/catalog", Nothing, &["limits", "text"]),
    row("tools/result", Nothing, &["limits", "text"]),
    row("tools/schema", Nothing, &["limits", "text"]),
    row("tools/search", Nothing, &[]),
    row("event", Nothing, &["tools"]),
    row("upstream/mod.rs", Io, &["call_format", "event", "limits", "trace_context"]),
    row("upstream/constrain", Nothing, &["call_format", "limits"]),
    row("upstream/detect", Nothing, &["call_format"]),
    row("upstream/chat_template", Nothing, &[]),
    row("upstream/dialect", Nothing, &["event", "limits"]),
    row("upstream/dialect/llama_completion", Nothing, &["call_format", "event"]),
    row("upstream/fuzz", Nothing, &[]),
    row("upstream/frame_error", Nothing, &["limits"]),
    row("upstream/prelude", Nothing, &["event", "limits"]),
    row("upstream/image_support", Io, &["limits"]),
    row("upstream/extra_sampling", Io, &["limits"]),
    row("upstream/identity", Nothing, &[]),
    row("upstream/local", Io, &[]),
    row("upstream/message", Nothing, &[]),
    row("upstream/models", Nothing, &[]),
    row("upstream/native_calls", Nothing, &["limits"]),
    row("upstream/server_error", Nothing, &["limits"]),
    row("upstream/overflow", Nothing, &[]),
    row("upstream/sse", Nothing, &["limits"]),
    row("upstream/client", Io, &["error_chain", "http", "limits", "thread_buffer", "tls"]),
    row("upstream/client/framing", Nothing, &["limits"]),
    row("upstream/configured", Io, &["call_format", "telemetry"]),
    row("upstream/cool_down", Io, &["limits"]),
    row("upstream/failure", Io, &["event", "http", "limits", "tls"]),
    row("upstream/patience", Io, &["limits"]),
    row("upstream/timeouts", Io, &["limits"]),
    row("upstream/round", Io, &["call_format", "hidden_key", "limits"]),
    row("upstream/route", Io, &["limits"]),
    row("upstream/server", Io, &["call_format", "hidden_key", "http", "limits", "trace_context"]),
    row("rehearsal", Nothing, &["call_format", "event", "text", "time_zones", "upstream"]),
    row("rehearsal/wire", Io, &["upstream"]),
    row(
        "conversation",
        Nothing,
        &["call_format", "event", "limits", "parser", "text", "tools", "upstream"],
    ),
    row(
        "conversation/claimed",
        Nothing,
        &["call_format", "event", "limits", "parser", "tools", "upstream"],
    ),
    row("session/mod.rs", Io, &["conversation", "event", "limits"]),
    row("session/record", Nothing, &["conversation", "limits", "text"]),
    row("session/answers", Io, &["conversation", "limits"]),
    row("session/answer_serializer", Nothing, &["conversation"]),
    row("session/artifacts", Io, &["limits", "tools", "upstream"]),
    row("session/cancel", Io, &["limits"]),
    row("session/codec", Io, &["limits"]),
    row("session/cut_short", Nothing, &["conversation", "event"]),
    row("session/deleted", Io, &[]),
    row("session/exported", Nothing, &["limits"]),
    row("session/fuzz", Nothing, &[]),
    row("session/interrupted", Io, &["conversation", "limits", "telemetry"]),
    row("session/journal", Nothing, &["conversation", "event", "limits", "text"]),
    row("session/lease", Io, &["limits", "telemetry"]),
    row("session/part_waker", Io, &[]),
    row("session/persister", Io, &["limits"]),
    row("session/running", Io, &[]),
    row("session/sessions", Io, &["conversation", "limits"]),
    row("session/follow", Io, &["limits"]),
    row("session/followed", Io, &[]),
    row("session/taken_over", Io, &["conversation", "telemetry"]),
    row("session/turn_guard", Io, &["conversation", "limits"]),
    row("session/unstored_ends", Io, &[]),
    row("session/store", Io, &["limits", "telemetry"]),
    row("session/log/mod.rs", Io, &["event"]),
    row("session/log/outlet", Io, &[]),
    row("session/log/reader", Io, &["limits"]),
    row("session/log/storing", Io, &["conversation", "event"]),
    row("session/log/writer", Io, &["conversation", "event", "limits", "thread_buffer"]),
    row("session/log/epochs", Nothing, &[]),
    row("session/log/encode", Nothing, &["event"]),
    row("session/log/records", Nothing, &["event"]),
    row("session/log/seen", Nothing, &["event"]),
    row(
        "orchestrator",
        Nothing,
        &["call_format", "conversation", "event", "limits", "parser", "text", "tools", "upstream"],
    ),
    row("orchestrator/mod.rs", Io, &[]),
    row(
        "orchestrator/driver",
        Io,
        &[
            "conversation",
            "event",
            "limits",
            "session",
            "telemetry",
            "tools",
            "trace_context",
            "upstream",
        ],
    ),
    row("orchestrator/meter", Io, &["event", "telemetry", "tools", "trace_context", "upstream"]),
    row(
        "orchestrator/turn_trace",
        Io,
        &["event", "telemetry", "tools", "trace_context", "upstream"],
    ),
    row("orchestrator/tool_task", Io, &["session", "telemetry", "tools"]),
    row("orchestrator/parked_calls", Io, &["limits", "tools"]),
    row("orchestrator/running_tools", Io, &["session", "tools", "trace_context"]),
    row(
        "gateway",
        Io,
        &[
            "conversation",
            "limits",
            "orchestrator",
            "parser",
            "random",
            "session",
            "telemetry",
            "tools",
            "trace_context",
            "upstream",
        ],
    ),
    row(
        "server",
        Io,
        &[
            "conversation",
            "gateway",
            "http",
            "limits",
            "random",
            "session",
            "telemetry",
            "text",
            "thread_buffer",
            "trace_context",
        ],
    ),
    row("server/admission", Io, &["gateway", "limits", "telemetry", "tools"]),
    row("server/tls", Io, &["gateway", "limits", "telemetry"]),
    row("server/transport", Io, &["limits"]),
    row("server/forwarded", Io, &["limits", "tools"]),
    row("server/rate", Nothing, &[]),
    row("server/early_failure", Io, &["event", "session"]),
    row("server/openapi", Nothing, &["event"]),
    row(
        "server/dialect",
        Nothing,
        &["conversation", "gateway", "limits", "session", "text", "tools", "upstream"],
    ),
    row("server/dialect/mod.rs", Nothing, &["conversation", "gateway", "session"]),
    row("server/dialect/server_tools.rs", Nothing, &["event"]),
    row("server/dialect/words.rs", Nothing, &[]),
    row("server/dialect/ag_ui", Nothing, &["conversation", "event", "gateway", "session", "tools"]),
    row(
        "server/dialect/ai_sdk",
        Nothing,
        &["conversation", "event", "gateway", "limits", "session", "upstream"],
    ),
    row(
        "server/dialect/chat_completions",
        Nothing,
        &["conversation", "event", "gateway", "limits", "session", "tools", "upstream"],
    ),
    row(
        "server/dialect/responses",
        Nothing,
        &["conversation", "event", "gateway", "limits", "session", "text", "tools", "upstream"],
    ),
    row(
        "server/dialect/messages",
        Nothing,
        &["conversation", "event", "gateway", "limits", "session", "tools", "upstream"],
    ),
    row(
        "server/dialect/native/mod.rs",
        Nothing,
        &["conversation", "gateway", "http", "limits", "text"],
    ),
    row(
        "server/dialect/native/transcript",
        Nothing,
        &["conversation", "event", "parser", "session", "tools"],
    ),
    row(
        "config",
        Io,
        &["call_format", "limits", "orchestrator", "parser", "server", "text", "tools", "upstream"],
    ),
    row(
        "app",
        Io,
        &[
            "config",
            "event",
            "gateway",
            "limits",
            "orchestrator",
            "rehearsal",
            "server",
            "session",
            "telemetry",
            "tools",
            "upstream",
            "version",
        ],
    ),
    row("app/probe", Io, &["config", "conversation", "event", "orchestrator", "tools", "upstream"]),
    row("cli/chat", Nothing, &["limits", "terminal", "tools"]),
    row("cli/chat/args", Nothing, &["session"]),
    row("cli/chat/conversation", Io, &["limits"]),
    row("cli/chat/gateway", Io, &["http", "limits", "tls", "tools"]),
    row("cli/chat/mod.rs", Io, &["config"]),
    row("cli/chat/terminal", Io, &["config", "limits"]),
    row("cli/chat/turn", Io, &["limits", "tools", "upstream"]),
    row(
        "cli/tools",
        Io,
        &["app", "config", "event", "limits", "parser", "telemetry", "terminal", "tools"],
    ),
    row(
        "cli/sessions",
        Io,
        &[
            "app",
            "config",
            "conversation",
            "limits",
            "server",
            "session",
            "telemetry",
            "terminal",
            "text",
            "tools",
        ],
    ),
    row(
        "cli",
        Io,
        &[
            "app",
            "call_format",
            "config",
            "limits",
            "parser",
            "telemetry",
            "terminal",
            "tools",
            "version",
        ],
    ),
    row("cli/run", Io, &["app", "call_format", "config", "parser", "telemetry", "tools"]),
    row("main", Io, &[]),
    row("lib", Io, &[]),
];

/// The row of a file.
fn row_of(path: &str) -> Option<&'static Row> {
    ROWS.iter().filter(|row| belongs(path, row.place)).max_by_key(|row| row.place.len())
}

/// Names that a pure module never uses: runtimes, sockets, clocks, the process.
const IMPURE_NAMES: &[&str] = &[
    "tokio",
    "hyper",
    "hyper_util",
    "async",
    "await",
    "Instant",
    "SystemTime",
    "std::env",
    "std::fs",
    "std::net",
    "std::process",
    "std::thread",
];

/// Names that may only be used in certain places.
const HOMES: &[(&str, &[&str])] = &[
    ("serde_yaml", &["config/", "tools/http/openapi/read.rs"]),
    // The log filter holds before there is a configuration; the launcher never has one.
    ("std::env", &["config/load.rs", "telemetry/mod.rs", "tools/process/launcher.rs"]),
    ("clap", &["cli/"]),
    ("clap_complete", &["cli/"]),
    // Turns use tasks. Threads write the logs and the file of sessions: both block. A thread's buffer
    // only has the type of its key from there, and commands the number of processors.
    (
        "std::thread",
        &[
            "app/mod.rs",
            "app/tools/commands.rs",
            "session/store/sqlite/",
            "telemetry/mod.rs",
            "telemetry/queue.rs",
            "thread_buffer.rs",
        ],
    ),
    ("rusqlite", &["session/store/sqlite/"]),
];

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn read(path: impl AsRef<Path>) -> String {
    let path = root().join(path);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// All Rust files below a directory of the package, with paths relative to that directory.
fn sources(directory: &str) -> Vec<Source> {
    let base = root().join(directory);
    let mut found = Vec::new();
    let mut pending = vec![base.clone()];
    while let Some(next) = pending.pop() {
        let Ok(entries) = fs::read_dir(&next) else { continue };
        let paths = entries.map(|entry| entry.unwrap().path());
        let (directories, files): (Vec<PathBuf>, Vec<_>) = paths.partition(|path| path.is_dir());
        pending.extend(directories);
        for file in files.iter().filter(|file| file.extension().is_some_and(|e| e == "rs")) {
            let path = file.strip_prefix(&base).unwrap().to_str().unwrap().replace('\\', "/");
            let text = fs::read_to_string(file).unwrap();
            found.push(Source::new(path, &text, directory == "tests"));
        }
    }
    found
}

/// Fails with all complaints at once.
#[track_caller]
fn expect_none(complaints: &[String]) {
    assert!(complaints.is_empty(), "\n  {}\n", complaints.join("\n  "));
}

/// Whether a file is `place` or `place.rs`, or is inside `place`.
fn belongs(path: &str, place: &str) -> bool {
    path.strip_prefix(place).is_some_and(|rest| {
        rest.is_empty() || rest == ".rs" || rest.starts_with('/') || place.ends_with('/')
    })
}

#[test]
fn pure_modules_name_nothing_that_does_io() {
    let mut complaints = Vec::new();
    for source in sources("src") {
        let is_pure = row_of(&source.path).is_some_and(|row| row.does == Nothing);
        for name in IMPURE_NAMES.iter().filter(|_| is_pure && !source.is_test()) {
            for line in source.lines_naming(name) {
                complaints.push(format!("src/{}:{line}: a pure module names {name}", source.path));
            }
        }
    }
    expect_none(&complaints);
}

#[test]
fn every_module_imports_what_its_row_says_and_no_more() {
    let mut complaints = Vec::new();
    let mut imported: BTreeSet<(&str, String)> = BTreeSet::new();
    for source in sources("src") {
        if source.is_test() {
            continue;
        }
        let Some(row) = row_of(&source.path) else {
            complaints.push(format!("src/{}: give it a row in tests/tidy.rs", source.path));
            continue;
        };
        let own = row.place.split('/').next().unwrap();
        for (module, line) in source.crate_modules() {
            if module == own {
                continue;
            }
            if !row.imports.contains(&module.as_str()) {
                let allowed = row.imports;
                complaints.push(format!(
                    "src/{}:{line}: imports {module}, may import {allowed:?}",
                    source.path
                ));
            }
            imported.insert((row.place, module));
        }
    }
    for Row { place, imports, .. } in ROWS {
        for module in *imports {
            if !imported.contains(&(place, (*module).to_owned())) {
                complaints.push(format!("tests/tidy.rs: nothing at src/{place} imports {module}"));
            }
        }
    }
    expect_none(&complaints);
}

#[test]
fn every_row_has_its_module() {
    let sources = sources("src");
    let has_file = |place| sources.iter().any(|source| belongs(&source.path, place));
    let places = ROWS.iter().map(|row| row.place).filter(|place| !has_file(place));
    expect_none(&places.map(|place| format!("nothing is at src/{place}")).collect::<Vec<_>>());
}

#[test]
fn no_two_files_import_each_other() {
    let sources = sources("src");
    let modules = Modules::new(&sources);
    let complaint = |cycle: BTreeSet<&str>| {
        format!("these import each other: {}", cycle.into_iter().collect::<Vec<_>>().join(", "))
    };
    expect_none(&cycles(&modules.imports()).into_iter().map(complaint).collect::<Vec<_>>());
}

/// The same for the modules of each level: folders may form cycles even if files do not.
#[test]
fn no_two_modules_import_each_other() {
    let sources = sources("src");
    let modules = Modules::new(&sources);
    let imports = modules.imports();
    let parent = |path: &str| path.rfind('/').map(|end| path[..end].to_owned());
    let mut folders: BTreeSet<String> = imports.keys().filter_map(|path| parent(path)).collect();
    folders.insert(String::new());
    let mut complaints = Vec::new();
    for folder in &folders {
        // The direct child of the folder that contains the path: a file or another folder.
        let child = |path: &'_ str| -> Option<String> {
            let inside = if folder.is_empty() {
                path
            } else {
                path.strip_prefix(folder)?.strip_prefix('/')?
            };
            inside.split(['/', '.']).next().map(str::to_owned)
        };
        let mut level: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for (from, targets) in &imports {
            let Some(from) = child(from) else { continue };
            let targets = targets.iter().filter_map(|to| child(to)).filter(|to| *to != from);
            level.entry(from.clone()).or_default().extend(targets);
        }
        let level = level.iter().map(|(from, to)| {
            (from.as_str(), to.iter().map(String::as_str).collect::<BTreeSet<_>>())
        });
        for cycle in cycles(&level.collect()) {
            complaints.push(format!("src/{folder}: these import each other: {cycle:?}"));
        }
    }
    expect_none(&complaints);
}

#[test]
fn some_names_have_one_home() {
    let mut complaints = Vec::new();
    for source in sources("src") {
        for (name, homes) in HOMES {
            if homes.iter().any(|home| belongs(&source.path, home)) {
                continue;
            }
            for line in source.lines_naming(name) {
                complaints.push(format!("src/{}:{line}: {name} belongs in {homes:?}", source.path));
            }
        }
    }
    expect_none(&complaints);
}

#[test]
fn nothing_is_left_for_later() {
    // Split in two, so that this file does not contain them.
    let words = [concat!("TO", "DO"), concat!("FIX", "ME"), concat!("XX", "X")];
    let mut complaints = Vec::new();
    for directory in ["src", "tests", "benches", "fuzz/fuzz_targets"] {
        for source in sources(directory) {
            for (number, line) in source.raw_lines() {
                for word in words.iter().filter(|word| names(line, word)) {
                    complaints.push(format!("{directory}/{}:{number}: {word}", source.path));
                }
            }
            for name in ["todo", "unimplemented", "ignore"] {
                let lines = [source.lines_naming(name), source.test_lines_naming(name)].concat();
                for line in lines {
                    let text = source.code_line(line);
                    let macro_call = text.contains(&format!("{name}!"));
                    let attribute = text.trim_start().starts_with("#[ignore");
                    if macro_call || attribute {
                        complaints.push(format!("{directory}/{}:{line}: {name}", source.path));
                    }
                }
            }
        }
    }
    expect_none(&complaints);
}

/// Tests wait for events. With a paused clock, waiting costs nothing and is exact.
#[test]
fn tests_do_not_sleep() {
    let mut complaints = Vec::new();
    for directory in ["src", "tests"] {
        for source in sources(directory) {
            let paused = source.raw_lines().any(|(_, line)| line.contains("start_paused"));
            for line in source.test_lines_naming("sleep") {
                let of_thread = source.code_line(line).contains("thread::sleep");
                if of_thread || !paused {
                    complaints.push(format!("{directory}/{}:{line}: sleeps", source.path));
                }
            }
        }
    }
    expect_none(&complaints);
}

#[test]
fn lints_are_silenced_only_with_a_reason() {
    let mut complaints = Vec::new();
    for source in sources("src") {
        for line in source.lines_naming("allow") {
            if source.code_line(line).contains("[allow(") {
                complaints.push(format!("src/{}:{line}: use #[expect(.., reason)]", source.path));
            }
        }
        for line in source.lines_naming("expect") {
            let attribute = source.code_line(line).contains("[expect(");
            // Long attributes span several lines.
            let reasoned = (line..line + 5).any(|near| names(source.code_line(near), "reason"));
            if attribute && !reasoned {
                complaints
                    .push(format!("src/{}:{line}: an expectation gives no reason", source.path));
            }
        }
    }
    expect_none(&complaints);
}

#[test]
fn files_are_read_in_one_sitting() {
    let too_long = |source: &Source| {
        let (lines, max) = if source.is_test() {
            (source.lines_of_tests(), TEST_FILE_LINES_MAX)
        } else {
            (source.lines_of_code(), FILE_LINES_MAX)
        };
        (lines > max).then(|| format!("src/{}: {lines} lines, of {max} at most", source.path))
    };
    let sources = sources("src");
    expect_none(&sources.iter().filter_map(too_long).collect::<Vec<_>>());
}

#[test]
fn every_dependency_says_why_it_is_there() {
    let manifest = read("Cargo.toml");
    let mut complaints = Vec::new();
    let (mut in_dependencies, mut above) = (false, "");
    for line in manifest.lines().map(str::trim) {
        if line.starts_with('[') {
            in_dependencies = line.ends_with("dependencies]");
        } else if in_dependencies && !line.is_empty() && !line.starts_with('#') {
            // Assumes that no version contains ` # ` inside its quotes.
            let reason = line
                .split_once(" # ")
                .map(|(_, reason)| reason)
                .or_else(|| above.strip_prefix("# "));
            if reason.is_none_or(|reason| reason.len() < 10) {
                complaints.push(format!("Cargo.toml: no reason: {line}"));
            }
        }
        above = line;
    }
    expect_none(&complaints);
}

/// The paths of all keys, including those of both kinds of upstream.
fn configuration_keys() -> BTreeSet<String> {
    fn collect(path: &str, value: &Value, keys: &mut BTreeSet<String>) {
        match value {
            Value::Object(entries) => {
                let dot = if path.is_empty() { "" } else { "." };
                for (key, value) in entries {
                    collect(&format!("{path}{dot}{key}"), value, keys);
                }
            }
            Value::Array(items) if items.iter().any(Value::is_object) => {
                for item in items {
                    collect(&format!("{path}[]"), item, keys);
                }
            }
            _ => {
                keys.insert(path.to_owned());
            }
        }
    }
    let upstreams = vec![UpstreamConfig::embedded(), UpstreamConfig::openai_chat()];
    let config = Config { upstreams, ..Config::default() };
    let mut keys = BTreeSet::new();
    collect("", &serde_json::to_value(config).unwrap(), &mut keys);
    keys
}

#[test]
fn docs_describe_every_configuration_key_and_no_other() {
    let docs = read("docs/configuration.md");
    let described: BTreeSet<String> = docs
        .lines()
        .filter_map(|line| line.strip_prefix("#### `")?.split_once('`'))
        .map(|(key, _)| key.to_owned())
        .collect();
    assert_eq!(described, configuration_keys());
}

#[test]
fn docs_describe_every_command_and_option() {
    let docs = read("docs/configuration.md");
    let command = tether::cli::Cli::command();
    let mut complaints = Vec::new();
    for command in command.get_subcommands().chain([&command]) {
        let name = command.get_name();
        if name != "tether" && !docs.contains(&format!("`tether {name}")) {
            complaints.push(format!("docs/configuration.md: no `tether {name}`"));
        }
        for long in command.get_arguments().filter_map(clap::Arg::get_long) {
            if !docs.contains(&format!("--{long}")) {
                complaints.push(format!("docs/configuration.md: no --{long}"));
            }
        }
    }
    expect_none(&complaints);
}

/// Calls `visit` with one event of each kind.
fn one_of_each(visit: impl FnMut(Event<'_>)) {
    let arguments = RawValue::from_string("{}".to_owned()).unwrap();
    let result = ToolResult::data(Value::Null);
    let question = serde_json::json!({"type": "choice", "question": "Which?", "options": []});
    let clarification: Clarification = serde_json::from_value(question).unwrap();
    let source = tools::Source::builtin();
    let summary = Summary { loops: 1, tool_calls: 0, usage: Usage::NONE, text: "" };
    let (call_id, tool_name, text, message) = ("call_1", "look", "Well.", "Why.");
    [
        Event::TurnStarted { session_id: "s", turn_id: "t", model: "m", max_tool_loops: 1 },
        Event::TextDelta { r#loop: None, text },
        Event::ReasoningDelta { text },
        Event::ToolMarkerDetected { call_id, r#loop: 1 },
        Event::ToolArgumentsDelta { call_id, delta: "{" },
        Event::Acknowledgement { text, source: AcknowledgementSource::Hints },
        Event::ToolStarted { call_id, tool_name, tool_args: &arguments, r#loop: 1 },
        Event::ClientToolCall { call_id, tool_name, tool_args: &arguments, r#loop: 1 },
        Event::ToolProgress { call_id, tool_name, progress: 1.0, total: None, message: None },
        Event::ToolCompleted {
            call_id,
            tool_name,
            tool_result: &result,
            duration_ms: 1,
            attempts: 1,
        },
        Event::Feedback { call_id: None, reason: FeedbackReason::ToolFailed, message, attempt: 1 },
        Event::ClarificationNeeded {
            clarification_id: "c",
            call_id,
            tool_name,
            source: &source,
            clarification: &clarification,
            arguments: Some(&arguments),
        },
        Event::Status { message },
        Event::LoopLimitReached { max_tool_loops: 1 },
        Event::TurnCompleted { finish_reason: TurnFinish::Stop, stop_text: None, summary },
        Event::TurnFailed { code: FailureCode::Internal, message, retryable: true, summary },
    ]
    .into_iter()
    .for_each(visit);
}

/// The `event:` line of a frame is the event's name; the `type` in its data comes from serde.
#[test]
fn every_event_is_serialised_under_its_name() {
    let mut seen = BTreeSet::new();
    one_of_each(|event| {
        assert_eq!(serde_json::to_value(&event).unwrap()["type"], event.name());
        seen.insert(event.name().to_owned());
    });
    let known = source::events(&read("src/event.rs")).into_iter().map(|(event, _)| event);
    assert_eq!(seen, known.collect());
}

/// Reasons and codes have a single spelling, which is made from the name of the variant.
#[test]
fn every_reason_and_code_is_named_as_its_variant() {
    let mut names = 0;
    for file in ["src/event.rs", "src/parser/segment.rs", "src/parser/repair.rs"] {
        let code = read(file);
        let arms = code.lines().filter_map(|line| {
            let (variant, name) = line.trim().strip_prefix("Self::")?.split_once(" => \"")?;
            Some((variant.split(' ').next().unwrap(), name.split_once('"')?.0))
        });
        for (variant, name) in arms {
            assert_eq!(source::snake_case(variant), name, "{file}");
            names += 1;
        }
    }
    assert!(names > 35, "found too few names: {names}");
}

#[test]
fn docs_describe_every_event_with_its_fields_and_no_other() {
    let code = read("src/event.rs");
    let docs = read("docs/events.md");
    let sections: Vec<(&str, &str)> = docs
        .split("\n### `")
        .skip(1)
        .map(|section| section.split_once('`').expect("a heading ends its name"))
        .collect();
    let mut complaints = Vec::new();
    let events = source::events(&code);
    assert!(events.len() >= 15, "found too few events in src/event.rs: {events:?}");
    for (event, fields) in &events {
        let Some((_, section)) = sections.iter().find(|(name, _)| name == event) else {
            complaints.push(format!("docs/events.md: no section `{event}`"));
            continue;
        };
        for field in fields.iter().filter(|field| !section.contains(&format!("`{field}`"))) {
            complaints.push(format!("docs/events.md: `{event}` without its field `{field}`"));
        }
    }
    for (name, _) in sections {
        if !events.iter().any(|(event, _)| event == name) {
            complaints.push(format!("docs/events.md: src/event.rs has no event `{name}`"));
        }
    }
    for word in source::wire_names(&code) {
        if !docs.contains(&format!("`{word}`")) {
            complaints.push(format!("docs/events.md: no `{word}`"));
        }
    }
    expect_none(&complaints);
}

#[test]
fn docs_describe_every_metric_and_no_other() {
    fn names(text: &str) -> BTreeSet<String> {
        let ends = |char: char| !(char.is_ascii_lowercase() || char == '_');
        let rest = text.split("tether_").skip(1);
        rest.map(|name| name.split(ends).next().unwrap_or_default().to_owned()).collect()
    }
    let (code, docs) = (read("src/telemetry/metrics.rs"), read("docs/metrics.md"));
    assert_eq!(names(&code), names(&docs));
}

#[test]
fn nothing_names_the_machine_it_was_written_on() {
    let needles = [concat!("/wo", "rk/"), concat!("/ro", "ot/")];
    let mut complaints = Vec::new();
    let mut pending: Vec<PathBuf> = ["src", "tests", "docs", "config", "benches", "fuzz"]
        .iter()
        .map(|directory| root().join(directory))
        .chain([root().join("Cargo.toml"), root().join("README.md")])
        .collect();
    while let Some(path) = pending.pop() {
        let skipped = ["target", "node_modules", ".cache", "corpus", "data"];
        if path.file_name().is_some_and(|name| skipped.iter().any(|skip| name == *skip)) {
            continue;
        }
        if let Ok(entries) = fs::read_dir(&path) {
            pending.extend(entries.map(|entry| entry.unwrap().path()));
        } else if let Ok(text) = fs::read_to_string(&path) {
            let found = needles.iter().filter(|needle| text.contains(*needle));
            complaints.extend(found.map(|needle| format!("{}: {needle}", path.display())));
        }
    }
    expect_none(&complaints);
}
