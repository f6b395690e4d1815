//! `tether sessions`.

use std::fs;
use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;
use tether::session::store::{Entry, EntryKey, EntryOwner, SqliteStore, Store as _, SyncMode};
use tokio::runtime::Builder;

use super::*;

/// Two sessions, of anyone and of an owner.
const EXPORTED: &str = include_str!("../data/session/export-1.jsonl");

/// A folder for a file of sessions.
struct State(TempDir);

/// How a command ended.
struct Ended {
    status: Option<i32>,
    stdout: String,
    stderr: String,
}

impl State {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    /// The same with both sessions.
    fn filled() -> Self {
        let state = Self::new();
        let Ended { status, stderr, .. } = state.import(EXPORTED, &[]);
        assert_eq!((status, &*stderr), (Some(0), "note: sessions imported: 2\n"));
        state
    }

    fn folder(&self) -> &str {
        self.0.path().to_str().unwrap()
    }

    fn run(&self, arguments: &[&str]) -> Ended {
        let output = tether(&[&["sessions"], arguments, &["--state", self.folder()]].concat());
        let text = |bytes| String::from_utf8(bytes).unwrap();
        Ended {
            status: output.status.code(),
            stdout: text(output.stdout),
            stderr: text(output.stderr),
        }
    }

    fn import(&self, lines: &str, options: &[&str]) -> Ended {
        let lines = file(lines);
        self.run(&[&["import", path(&lines)], options].concat())
    }

    fn ids(&self) -> Vec<String> {
        let listed = self.run(&["list", "--json"]).stdout;
        let id = |line: &str| {
            let row: Value = serde_json::from_str(line).unwrap();
            row["id"].as_str().unwrap().to_owned()
        };
        let mut ids: Vec<String> = listed.lines().map(id).collect();
        ids.sort();
        ids
    }
}

/// A line of the export, as if of another session.
fn session(id: &str) -> String {
    let line = EXPORTED.lines().next().unwrap();
    line.replace("\"id\":\"demo\"", &format!("\"id\":\"{id}\"")) + "\n"
}

#[test]
fn what_was_exported_is_imported_and_exported_again() {
    let Ended { status, stdout, stderr } = State::filled().run(&["export"]);
    assert_eq!((status, &*stderr), (Some(0), ""));
    // Sessions whose time is up count as used at the import.
    let is_same = |(line, expected): (&str, &str)| {
        let [line, expected] = [line, expected].map(|line| {
            let mut line: Value = serde_json::from_str(line).unwrap();
            line.as_object_mut().unwrap().remove("used_at_ms").unwrap();
            line
        });
        line == expected
    };
    assert!(stdout.lines().zip(EXPORTED.lines()).all(is_same), "{stdout}");
    assert_eq!(stdout.lines().count(), 2);
    assert_eq!(State::new().import(&stdout, &[]).status, Some(0));
}

#[test]
fn sessions_are_listed_the_last_used_first() {
    let state = State::filled();
    let Ended { status, stdout, stderr } = state.run(&["list"]);
    assert_eq!((status, &*stderr), (Some(0), ""));
    let lines: Vec<&str> = stdout.lines().collect();
    assert_eq!(lines[0], "LAST USED              TURNS         BYTES  ID");
    assert!(lines.iter().any(|line| line.ends_with("  demo@YWxpY2U=")), "{stdout}");
    let Ended { stdout, .. } = state.run(&["list", "--json"]);
    let rows = stdout.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let rows: Vec<Value> = rows.collect();
    assert!(rows[0]["used_at_ms"].as_u64() >= rows[1]["used_at_ms"].as_u64(), "{stdout}");
    let owned = rows.iter().find(|row| row["id"] == "demo@YWxpY2U=").unwrap();
    assert_eq!(owned["owner"], "YWxpY2U=");
    assert!(owned["turns"].as_u64() > Some(0) && owned["bytes"].as_u64() > Some(1000), "{owned}");
}

/// Everything that can be in a transcript, and how it looks to a person.
#[test]
fn a_transcript_shows_every_outcome() {
    let mut session: Value = serde_json::from_str(EXPORTED.lines().nth(1).unwrap()).unwrap();
    let conversation = &mut session["record"]["session"]["conversation"];
    conversation["dropped"] = json!(2);
    let call = |result: Value| {
        let arguments = json!({"name": "John"});
        json!({"call": {
            "call_id": "call_8", "name": "look_up", "arguments": arguments,
            "resolved_arguments": {}, "outcome": {"ended": result},
        }})
    };
    let failed =
        call(json!({"success": false, "next_action": "error", "error": "the line is busy"}));
    let long = call(json!({"success": true, "data": "x".repeat(2048), "next_action": "continue"}));
    let step = json!({"at_ms": 0, "parts": [failed, long], "notes": [], "retry": null});
    let last = &mut conversation["turns"][5];
    last["steps"] = json!([step]);
    last["answer"] = json!({
        "clarification_id": "three.1", "question": "May it?", "not_chosen": [],
        "given": {"refused": "Not\nthat one."},
    });
    let state = State::new();
    assert_eq!(state.import(&session.to_string(), &[]).status, Some(0));
    let Ended { status, stdout, .. } = state.run(&["show", "demo@YWxpY2U="]);
    assert_eq!(status, Some(0));
    let (before, rest) = stdout.split_once("last used ").unwrap();
    assert_eq!(before, "session demo\nowner YWxpY2U=\n");
    let (used, rest) = rest.split_once('\n').unwrap();
    assert!(used.ends_with('Z'), "{used}");
    let shortened = format!("result: \"{}…\n", "x".repeat(1023));
    assert_eq!(rest.replace(&shortened, "result: SHORTENED\n"), SHOWN);
}

const SHOWN: &str = "\
older turns dropped: 2

turn one, 1970-01-01 00:00:00Z
user: Tell John.
assistant: Let me see.
call of look_up: {\"name\":\"John\"}
result:\x20
call of look_up: {\"name\":\"John\"}
skipped: needs the answer
feedback: Write it again.
question of look_up: Which John?
question of look_up: Which John?
ended: clarification_needed

turn two, 1970-01-01 00:00:00Z
user: John Doe
call of look_up: {\"name\":\"John\"}
not run: failed: no such John
call of look_up: {\"name\":\"John\"}
cancelled:\x20
gateway: One moment.
gateway: One moment.
failed: upstream_error

turn three, 1970-01-01 00:00:00Z
user: Never mind.
call of look_up: {\"name\":\"John\"}
not run: it needs the user's approval
question of look_up:\x20
ended: clarification_needed

turn four, 1970-01-01 00:00:00Z
user: (approved for this session)
ended: stop

turn five, 1970-01-01 00:00:00Z
user: Open both.
call of look_up: {\"name\":\"John\"}
the client's result: {\"text\":\"Milk.\"}
call of look_up: {\"name\":\"John\"}
not run: the client has not returned its result
ended: client_tool_calls

turn six, 1970-01-01 00:00:00Z
user: Not
    that one.
call of look_up: {\"name\":\"John\"}
result: failed: the line is busy
call of look_up: {\"name\":\"John\"}
result: SHORTENED
failed: internal
";

#[test]
fn a_transcript_is_for_people_or_as_the_gateway_returns_it() {
    let state = State::filled();
    let Ended { status, stdout, .. } = state.run(&["show", "demo@YWxpY2U="]);
    assert_eq!(status, Some(0));
    for part in [
        "session demo\nowner YWxpY2U=\n",
        "\nuser: Tell John.\n",
        "\nassistant: Let me see.\n",
        "\ncall of look_up: {\"name\": \"John\"}\n",
        "\nskipped: needs the answer\n",
        "\nquestion of look_up: Which John?\n",
    ] {
        assert!(stdout.contains(part), "{part}: {stdout}");
    }
    let Ended { stdout, .. } = state.run(&["show", "demo@YWxpY2U=", "--json"]);
    let shown: Value = serde_json::from_str(&stdout).unwrap();
    assert_eq!(
        (&shown["session_id"], &shown["turns"][0]["prompt"]),
        (&"demo".into(), &"Tell John.".into())
    );
}

#[test]
fn an_existing_session_is_replaced_only_on_request() {
    let state = State::filled();
    let lines = session("demo") + &session("new");
    let Ended { status, stderr, .. } = state.import(&lines, &[]);
    assert_eq!(status, Some(1));
    assert_eq!(
        stderr,
        "error: line 1: there is a session \"demo\" already; `--replace` overwrites it\n\
         note: sessions imported: 1\n"
    );
    assert_eq!(state.import(&lines, &["--replace"]).status, Some(0));
    assert_eq!(state.ids(), ["demo", "demo@YWxpY2U=", "new"]);
}

#[test]
fn a_bad_line_is_reported_and_the_others_are_imported() {
    let state = State::new();
    let damaged = session("damaged").replace("\"first\":2", "\"first\":9");
    let lines = format!("{}\nno JSON\n{damaged}{}", session("a"), session("b"));
    let Ended { status, stderr, .. } = state.import(&lines, &[]);
    assert_eq!(status, Some(1));
    let lines: Vec<&str> = stderr.lines().collect();
    assert!(lines[0].starts_with("error: line 3: it is not an exported session: "), "{stderr}");
    assert_eq!(lines[1], "error: line 4: damaged: the log of turn \"two\" is damaged");
    assert_eq!(lines[2], "note: sessions imported: 2");
    assert_eq!(state.ids(), ["a", "b"], "nothing is half imported");
}

/// The store is read 256 sessions at a time.
#[test]
fn every_session_of_a_full_store_is_exported_and_listed_once() {
    let state = State::new();
    let expected: Vec<String> = (0..300).map(|number| format!("s{number:03}")).collect();
    let lines: String = expected.iter().map(|id| session(id)).collect();
    assert_eq!(state.import(&lines, &[]).status, Some(0));
    assert_eq!(state.ids(), expected);
    let Ended { status, stdout, .. } = state.run(&["export"]);
    assert_eq!(status, Some(0));
    let id = |line: &str| serde_json::from_str::<Value>(line).unwrap()["id"].clone();
    let mut exported: Vec<Value> = stdout.lines().map(id).collect();
    exported.sort_by(|one, other| one.as_str().cmp(&other.as_str()));
    assert_eq!(exported, expected);
}

#[test]
fn sessions_are_forgotten_by_their_ids() {
    let state = State::filled();
    let Ended { status, stdout, stderr } = state.run(&["forget", "absent", "demo"]);
    assert_eq!((status, &*stdout), (Some(1), ""));
    assert_eq!(
        stderr,
        "error: there is no session \"absent\"; `tether sessions list` names them\n"
    );
    assert_eq!(state.ids(), ["demo@YWxpY2U="]);
    assert_eq!(state.run(&["forget", "demo@YWxpY2U="]).status, Some(0));
    for command in ["list", "export"] {
        let Ended { status, stdout, stderr } = state.run(&[command]);
        assert_eq!((status, &*stdout, &*stderr), (Some(0), "", "note: there are no sessions\n"));
    }
}

#[test]
fn recent_turns_of_an_owner_are_forgotten() {
    let state = State::filled();
    let kept = |owner: &'static str| {
        let path = state.0.path().join("tether.db");
        let store = SqliteStore::open(&path, SyncMode::Normal, Duration::from_secs(60)).unwrap();
        let (owner, key) = (EntryOwner::of(&["owner", owner]), EntryKey::of(&["turn"]));
        let entry = Entry { keys: vec![key], epoch: 1, bytes: "{}".into() };
        (store, owner, entry)
    };
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    for owner in ["", "YWxpY2U="] {
        let (store, owner, entry) = kept(owner);
        runtime.block_on(store.keep_entry(owner, entry, None)).unwrap();
    }
    for owner in ["", "YWxpY2U="] {
        let Ended { status, stdout, stderr } = state.run(&["forget", "--owner", owner]);
        assert_eq!((status, &*stdout, &*stderr), (Some(0), "", ""));
    }
    let Ended { status, stderr, .. } = state.run(&["forget", "demo", "--owner", "YWxpY2U="]);
    assert_eq!(status, Some(1));
    assert_eq!(stderr, "error: there are no recent turns of the owner \"YWxpY2U=\"\n");
    assert_eq!(state.ids(), ["demo@YWxpY2U="], "the sessions of an owner are named by their ids");
    assert_eq!(state.run(&["forget"]).status, Some(2));
}

#[test]
fn an_unknown_session_is_status_1() {
    let state = State::filled();
    for command in ["show", "export"] {
        let Ended { status, stdout, stderr } = state.run(&[command, "absent"]);
        assert_eq!((status, &*stdout), (Some(1), ""));
        assert!(stderr.starts_with("error: there is no session \"absent\""), "{stderr}");
    }
}

#[test]
fn sessions_in_memory_are_out_of_reach() {
    for command in ["list", "export", "import"] {
        let (_, stderr) = check(&["sessions", command], 2);
        assert!(
            stderr.contains("--state") && stderr.contains("`sessions.store: embedded`"),
            "{stderr}"
        );
    }
}

#[test]
fn only_an_import_creates_the_file() {
    let state = State::new();
    for arguments in [&["list"][..], &["export"], &["show", "demo"], &["forget", "demo"]] {
        let Ended { status, stderr, .. } = state.run(arguments);
        assert_eq!(status, Some(1));
        assert!(
            stderr.contains("tether.db does not exist: no gateway has kept sessions"),
            "{stderr}"
        );
    }
    assert_eq!(fs::read_dir(state.0.path()).unwrap().count(), 0);
}

/// What `tether check --probe` says of the sessions in this folder, and whether it ends with this status.
fn probed(folder: &str, sync: &str, status: i32) -> String {
    let config = format!(
        "tools: {{builtin: []}}\nsessions: {{embedded: {{path: {folder}/tether.db, sync: {sync}}}}}\n"
    );
    let config = file(&config);
    let (_, stderr) = check(&["check", "--probe", "--config", path(&config)], status);
    let lines = stderr.lines().filter(|line| line.contains(": sessions: "));
    lines.collect::<Vec<_>>().join("\n")
}

#[test]
fn a_probe_tries_the_file() {
    let state = State::filled();
    for sync in ["normal", "full"] {
        let told = probed(state.folder(), sync, 0);
        let lines: Vec<&str> = told.lines().collect();
        assert!(lines[0].contains("tether.db: 2 sessions in "), "{told}");
        assert!(lines[0].ends_with(" KiB, format 5"), "{told}");
        assert!(
            lines[1].starts_with("note: sessions: a commit takes 0.") || sync == "full",
            "{told}"
        );
        assert!(lines[1].contains(" survives a "), "{told}");
        assert!(lines[2].contains(" are free in "), "{told}");
    }
    assert_eq!(state.ids().len(), 2, "its own session is gone");
}

#[test]
fn a_probe_creates_no_file() {
    let state = State::new();
    let folder = format!("{}/made/on demand", state.folder());
    let told = probed(&folder, "normal", 0);
    let expected = format!("tether.db would be created; {} can be written", state.folder());
    assert!(told.contains(&expected), "{told}");
    assert_eq!(fs::read_dir(state.0.path()).unwrap().count(), 0);
    let file = file("");
    for (folder, status, why) in [
        ("/proc/x", 1, "cannot be written: "),
        (&*format!("{}/state", path(&file)), 2, "is a file, not a folder; "),
    ] {
        let told = probed(folder, "normal", status);
        assert!(told.starts_with("error: sessions: "), "{told}");
        assert!(told.contains(why) && told.contains("`sessions.embedded.path`"), "{told}");
    }
}

#[test]
fn a_probe_reports_a_damaged_file() {
    let state = State::new();
    fs::write(state.0.path().join("tether.db"), "no database").unwrap();
    let told = probed(state.folder(), "normal", 1);
    assert!(told.starts_with("error: sessions: "), "{told}");
    assert!(
        told.ends_with("tether.db is not a file of sessions (`sessions.embedded.path`)"),
        "{told}"
    );
}

#[test]
fn a_probe_of_sessions_in_memory_says_that_they_end() {
    let config = file("tools: {builtin: []}\n");
    let (_, stderr) = check(&["check", "--probe", "--config", path(&config)], 0);
    assert!(
        stderr.starts_with("note: sessions: they are in memory and end with the process; set"),
        "{stderr}"
    );
}
