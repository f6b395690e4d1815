//! Checks of the documentation: links work, commands are the binary's own, examples match what
//! the code produces.
//!
//! `tidy.rs` checks the names of events, configuration keys and options.

#![expect(clippy::unwrap_used, reason = "a test that panics has failed, as it should")]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Parser as _;
use serde_json::Value;
use tether::call_format::CallContract;
use tether::cli::Cli;
use tether::config::Config;
use tether::conversation::Conversation;
use tether::orchestrator::{Briefing, Output, Rules, TurnMachine, TurnRequest};
use tether::upstream::{History, Images, Sampling, ToolChoice, Way};

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn read(path: impl AsRef<Path>) -> String {
    let path = root().join(path);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Every page, as a path relative to the package.
fn pages() -> Vec<PathBuf> {
    let mut pages = Vec::new();
    for directory in ["", "docs", "fuzz", "tests"] {
        let Ok(entries) = fs::read_dir(root().join(directory)) else { continue };
        let names = entries.map(|entry| entry.unwrap().file_name());
        let markdown = names.filter(|name| Path::new(name).extension().is_some_and(|e| e == "md"));
        pages.extend(markdown.map(|name| Path::new(directory).join(name)));
    }
    assert!(pages.len() >= 9, "found too few pages: {pages:?}");
    pages
}

/// Fails with all complaints at once.
#[track_caller]
fn expect_none(complaints: &[String]) {
    assert!(complaints.is_empty(), "\n  {}\n", complaints.join("\n  "));
}

/// The lines inside code fences, or those outside.
fn lines(page: &str, fenced: bool) -> impl Iterator<Item = &str> {
    let mut inside = false;
    page.lines().filter(move |line| {
        let fence = line.trim_start().starts_with("```");
        inside ^= fence;
        !fence && inside == fenced
    })
}

/// Targets of `[words](target)`.
fn links(page: &str) -> Vec<&str> {
    let lines = lines(page, false);
    lines
        .flat_map(|line| line.split("](").skip(1).filter_map(|rest| rest.split_once(')')))
        .map(|(target, _)| target)
        .collect()
}

/// The anchors that code-hosting sites generate for a page's headings.
fn anchors(page: &str) -> BTreeSet<String> {
    let headings = lines(page, false).filter(|line| line.starts_with('#'));
    headings
        .map(|line| {
            let kept = |c: &char| c.is_alphanumeric() || " -_".contains(*c);
            let title: String = line.trim_start_matches('#').trim().chars().filter(kept).collect();
            title.to_lowercase().replace(' ', "-")
        })
        .collect()
}

#[test]
fn relative_links_lead_somewhere() {
    let mut complaints = Vec::new();
    for page in pages() {
        let text = read(&page);
        let directory = page.parent().unwrap();
        for target in links(&text).into_iter().filter(|target| !target.contains("://")) {
            let (path, anchor) = target.split_once('#').unwrap_or((target, ""));
            let file = if path.is_empty() { page.clone() } else { directory.join(path) };
            let found = root().join(&file).exists();
            if !found || !(anchor.is_empty() || anchors(&read(&file)).contains(anchor)) {
                complaints.push(format!("{}: {target} leads nowhere", page.display()));
            }
        }
    }
    expect_none(&complaints);
}

/// The arguments of `tether` in a shell line, if the line calls it.
fn command_line(line: &str) -> Option<Vec<&str>> {
    let line = line.trim().trim_start_matches("# ").trim();
    let calls = [("tether", ""), ("TETHER_LOG=debug tether", ""), ("cargo run --release", "-- ")];
    let piped = line.rsplit_once("| ").map_or(line, |(_, last)| last);
    let rest = calls.iter().find_map(|(call, separator)| {
        let rest = piped.strip_prefix(call)?;
        let rest = if rest.is_empty() { rest } else { rest.strip_prefix(' ')? };
        Some(rest.strip_prefix(separator).unwrap_or(rest))
    })?;
    let rest = rest.split(['#', '<', '>', '&']).next().unwrap_or_default();
    Some(rest.split_whitespace().collect())
}

#[test]
fn commands_in_the_docs_are_known_to_the_binary() {
    let mut complaints = Vec::new();
    let mut found = 0;
    let servers = fs::read_dir(root().join("config")).unwrap();
    let servers = servers.map(|entry| Path::new("config").join(entry.unwrap().file_name()));
    for page in pages().into_iter().chain(servers) {
        let text = read(&page);
        let is_markdown = page.extension().is_some_and(|extension| extension == "md");
        let shell: Vec<&str> = if is_markdown {
            let blocks = text.split("```sh\n").skip(1);
            blocks.flat_map(|block| block.split("```").next().unwrap().lines()).collect()
        } else {
            text.lines().filter(|line| line.starts_with("#   ")).collect()
        };
        for arguments in shell.into_iter().filter_map(command_line) {
            found += 1;
            if let Err(error) = Cli::try_parse_from([&["tether"], &*arguments].concat()) {
                complaints.push(format!("{}: {arguments:?}: {error}", page.display()));
            }
            for file in arguments.iter().filter(|argument| argument.starts_with("config/")) {
                if !root().join(file).exists() {
                    complaints.push(format!("{}: there is no {file}", page.display()));
                }
            }
        }
    }
    assert!(found >= 12, "found too few commands: {found}");
    expect_none(&complaints);
}

/// Each example is one line of the stream, under the heading of its event.
#[test]
fn examples_of_events_are_of_their_event() {
    let docs = read("docs/events.md");
    let mut complaints = Vec::new();
    let mut shown = BTreeSet::new();
    for section in docs.split("\n### `").skip(1) {
        let (event, section) = section.split_once('`').unwrap();
        for line in section.lines().filter_map(|line| line.strip_prefix("data: ")) {
            match serde_json::from_str::<Value>(line) {
                Ok(example) if example["type"] == event && example["data"].is_object() => {
                    shown.insert(event);
                    for field in example["data"].as_object().unwrap().keys() {
                        if !section.contains(&format!("`{field}`")) {
                            complaints.push(format!("{event}: an example has {field}"));
                        }
                    }
                }
                Ok(_) => complaints.push(format!("{event}: an example of another event: {line}")),
                Err(error) => complaints.push(format!("{event}: {error}: {line}")),
            }
        }
        if !shown.contains(event) && !section.contains("Not sent yet") {
            complaints.push(format!("{event}: no example"));
        }
    }
    expect_none(&complaints);
}

/// The system message of a turn with the built-in tools, exactly as it is sent.
fn system_prompt() -> String {
    let tools = tether::app::tools(&Config::default()).unwrap().toolset().tools;
    let briefing = Briefing::new(&Arc::new(Rules::default()), None, tools.catalog()).unwrap();
    let request = TurnRequest {
        confirm: None,
        session_id: "s".to_owned(),
        turn_id: "t".to_owned(),
        started_at_ms: 0,
        opening: tether::conversation::Opening::Prompt("hello".to_owned()),
        images: Vec::new(),
        model: "m".to_owned(),
        sampling: Sampling::default(),
        max_tool_loops: None,
        max_calls: None,
        disconnect_grace: None,
        tool_choice: ToolChoice::Auto,
        response_format: None,
        is_read_whole: false,
        single_client_call: false,
        nobody_approves: false,
        words_only: false,
        briefing: Arc::new(briefing),
        lent: tether::tools::Catalog::default(),
        history: Conversation::default(),
    };
    let mut turn = TurnMachine::new(request);
    loop {
        if let Output::StartRound(round) = turn.poll().expect("a turn begins with a round") {
            let way = Way::of(CallContract::default(), History::Text);
            return round.prompt.messages(way, &Images::new())[0]
                .text_content()
                .unwrap()
                .into_owned();
        }
    }
}

#[test]
fn the_prompt_is_shown_as_it_is_sent() {
    let prompt = system_prompt();
    let block = format!("```text\n{}\n```\n", prompt.trim_end());
    let docs = read("docs/prompting.md");
    assert!(docs.contains(&block), "docs/prompting.md shows another prompt than:\n{block}");
}

/// `orchestrator/prompt` checks the stored prompts against the code.
#[test]
fn pieces_of_prompts_are_shown_as_they_are_kept() {
    let kept = ["default", "demo", "ten_tools"];
    let kept = kept.map(|name| read(format!("tests/data/prompts/{name}.txt"))).concat();
    let docs = read("docs/prompting.md");
    let blocks = docs.split("```text\n").skip(1).map(|block| block.split("```").next().unwrap());
    let rows = ["may_clarify", "mutates", "sequential"].map(|policy| {
        let row = docs.split(&format!("\n| `{policy}` | ")).nth(1).expect("a row for each policy");
        row.split(" |\n").next().unwrap()
    });
    let mut complaints = Vec::new();
    for shown in blocks.chain(rows) {
        if !kept.contains(shown) {
            complaints.push(format!("docs/prompting.md: no kept prompt has:\n{shown}"));
        }
    }
    expect_none(&complaints);
}

#[test]
fn the_library_example_is_the_parsers_own() {
    let (readme, module) = (read("README.md"), read("src/parser/mod.rs"));
    let shown = readme.split("```rust\n").nth(1).unwrap().split("```").next().unwrap();
    let docs: Vec<&str> = module
        .lines()
        .map_while(|line| line.strip_prefix("//!"))
        .map(|line| line.strip_prefix(' ').unwrap_or(line))
        .collect();
    let docs = docs.join("\n");
    let example = docs.split("```\n").find(|block| block.starts_with("use tether::parser"));
    let example = example.expect("the module's documentation has an example");
    // Hidden lines are only for the compiler.
    let example = example.lines().filter(|line| !line.starts_with("# "));
    let example: Vec<&str> = example.collect();
    assert_eq!(shown.lines().collect::<Vec<_>>(), example);
}

#[test]
fn every_call_format_is_described() {
    let page = read("docs/call-formats.md");
    let missing: Vec<String> = tether::call_format::ROWS
        .iter()
        .map(|row| format!("| `{}` | ", row.name))
        .filter(|row| !page.contains(row))
        .collect();
    expect_none(&missing);
}
