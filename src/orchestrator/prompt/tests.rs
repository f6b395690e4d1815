//! Snapshots of whole prompts, kept in `tests/data/prompts` for people to read.
//!
//! For an intended change, `TETHER_KEEP_PROMPTS=1` updates them. `tests/effect` shows what the
//! change does to small models.

use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;

use serde::Deserialize;
use serde_json::Value;

use super::*;
use crate::call_format::{CallFormat, HERMES};
use crate::conversation::render::Context;
use crate::tools::builtin::{Calculate, FindTools, GetCurrentTime, demo};
use crate::tools::registry::tests::Named;
use crate::tools::{Catalog, Policy, Registry, Source, SourceKind, Tool, ToolSpec};
use crate::upstream::{History, Images};

const OPERATOR: &str = "You are a helpful assistant.\n";
const MARKER: &str = "<<function_call>>";

/// Compares a prompt with its snapshot and fails with the differing lines.
#[track_caller]
#[expect(clippy::disallowed_methods, reason = "a test's own knob")]
fn check(name: &str, made: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/data/prompts/{name}.txt"));
    if std::env::var_os("TETHER_KEEP_PROMPTS").is_some() {
        std::fs::write(&path, format!("{made}\n")).unwrap();
    }
    let kept = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        kept.strip_suffix('\n') == Some(made),
        "not the prompt that tests/data/prompts/{name}.txt keeps; where that is meant, run this \
         with TETHER_KEEP_PROMPTS=1\n{}",
        difference(&kept, made)
    );
}

/// The lines that only one of them has, in order.
fn difference(kept: &str, made: &str) -> String {
    let (kept, made): (Vec<_>, Vec<_>) = (kept.lines().collect(), made.lines().collect());
    // The length of the longest common subsequence from lines `k` and `m` on.
    let mut common = vec![vec![0; made.len() + 1]; kept.len() + 1];
    for k in (0..kept.len()).rev() {
        for m in (0..made.len()).rev() {
            let skipped = common[k + 1][m].max(common[k][m + 1]);
            common[k][m] = if kept[k] == made[m] { common[k + 1][m + 1] + 1 } else { skipped };
        }
    }
    let (mut k, mut m, mut lines) = (0, 0, Vec::new());
    while k < kept.len() || m < made.len() {
        if k < kept.len() && m < made.len() && kept[k] == made[m] {
            (k, m) = (k + 1, m + 1);
        } else if m == made.len() || (k < kept.len() && common[k + 1][m] >= common[k][m + 1]) {
            lines.push(format!("{}: - {}", k + 1, kept[k]));
            k += 1;
        } else {
            lines.push(format!("{}: + {}", m + 1, made[m]));
            m += 1;
        }
    }
    lines.join("\n")
}

/// A row of `ten_tools.json`.
#[derive(Deserialize)]
struct Row {
    name: String,
    description: String,
    parameters: Value,
    #[serde(default)]
    policy: RowPolicy,
}

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct RowPolicy {
    may_clarify: bool,
    mutates: bool,
    sequential: bool,
}

impl From<Row> for Named {
    fn from(Row { name, description, parameters, policy }: Row) -> Self {
        let RowPolicy { may_clarify, mutates, sequential } = policy;
        let policy = Policy { may_clarify, mutates, sequential, ..Policy::default() };
        let waiting_hint = "working".to_owned();
        Self(Arc::new(ToolSpec {
            name,
            description,
            parameters,
            waiting_hint,
            policy,
            example: None,
            ..ToolSpec::default()
        }))
    }
}

fn registry(tools: impl IntoIterator<Item = Arc<dyn Tool>>) -> Catalog {
    let mut registry = Registry::default();
    for tool in tools {
        registry.add(tool).unwrap();
    }
    registry.catalog().clone()
}

fn builtin() -> [Arc<dyn Tool>; 2] {
    [Arc::new(GetCurrentTime::new()), Arc::new(Calculate::new())]
}

fn with_demo() -> Catalog {
    registry(builtin().into_iter().chain(demo::tools()))
}

/// The tools of a realistic assistant, without examples of their own.
fn ten() -> Catalog {
    let rows = include_str!("../../../tests/data/prompts/ten_tools.json");
    let rows: Vec<Row> = serde_json::from_str(rows).unwrap();
    registry(rows.into_iter().map(|row| Arc::new(Named::from(row)) as Arc<dyn Tool>))
}

fn with_policy(policy: Policy) -> Catalog {
    let told = Named(Arc::new(ToolSpec { policy, ..ToolSpec::clone(Calculate::new().spec()) }));
    registry([Arc::new(told) as Arc<dyn Tool>, Arc::new(GetCurrentTime::new())])
}

#[test]
fn differences_are_shown_line_by_line() {
    #[track_caller]
    fn check(kept: &str, made: &str, told: &str) {
        assert_eq!(difference(kept, made), told);
    }
    check("a\nb\nc", "a\nb\nc", "");
    check("a\nb\nc\nd\ne", "a\nB\nc\ne\nf", "2: - b\n2: + B\n4: - d\n5: + f");
    check("", "a", "1: + a");
    check("a\nb", "", "1: - a\n2: - b");
}

/// The system message of a model that is told about all tools.
fn system(operator: &str, tools: &Catalog, format: &CallFormat) -> String {
    let all = Tools { all: tools, told: tools, selection: &Selection::all(tools) };
    super::system(operator, &all, format)
}

fn native_system(operator: &str, tools: &Catalog) -> String {
    let all = Tools { all: tools, told: tools, selection: &Selection::all(tools) };
    super::native_system(operator, &all)
}

fn format() -> CallFormat {
    CallFormat::default()
}

/// Everything before the user's first words: the system message and the examples, each message
/// under a line with its role.
fn whole(tools: &Catalog, format: &CallFormat) -> String {
    let context = Context {
        system: system(OPERATOR, tools, format),
        examples: Arc::new(examples(tools).into()),
        format: format.clone(),
        budget: usize::MAX,
        ..Context::default()
    };
    let messages = context.messages(History::Text, &Images::new());
    let (system, examples) = messages.split_first().unwrap();
    let mut whole = system.text_content().unwrap().into_owned();
    // The last message is the user's.
    for message in &examples[..examples.len() - 1] {
        let role = serde_json::to_value(message.role).unwrap();
        write!(whole, "\n\n--- {}\n{}", role.as_str().unwrap(), message.text_content().unwrap())
            .unwrap();
    }
    whole
}

#[test]
fn the_default_prompt() {
    check("default", &whole(&registry(builtin()), &format()));
}

#[test]
fn a_prompt_with_tools_that_ask_and_that_change_the_world() {
    check("demo", &whole(&with_demo(), &format()));
}

#[test]
fn a_prompt_with_ten_tools() {
    check("ten_tools", &whole(&ten(), &format()));
}

#[test]
fn a_prompt_with_a_sessions_marker() {
    let prompt = whole(&registry(builtin()), &format().with_nonce("7f3a"));
    assert!(!prompt.contains(MARKER));
    check("nonce", &prompt);
}

#[test]
fn a_prompt_in_a_format_that_models_know() {
    check("hermes", &whole(&registry(builtin()), &CallFormat::of(&HERMES)));
}

#[test]
fn prompts_for_servers_that_describe_the_tools() {
    check("native", &native_system(OPERATOR, &registry(builtin())));
    check("native_demo", &native_system(OPERATOR, &with_demo()));
}

/// Tools of several sources, with the one that finds tools at the end.
fn many() -> Catalog {
    let of = |source: &str, name: &str| {
        let source = if source.is_empty() {
            Source::builtin()
        } else {
            Source::entry(SourceKind::Mcp, source)
        };
        let name = name.to_owned();
        let parameters = serde_json::json!({ "type": "object" });
        let spec = ToolSpec { name, parameters, source, ..ToolSpec::default() };
        Arc::new(Named(Arc::new(spec))) as Arc<dyn Tool>
    };
    let outside = [
        of("files", "files__list"),
        of("files", "files__read"),
        of("mail", "mail__read"),
        of("mail", "mail__send"),
    ];
    let finder = FindTools::new(Catalog::default(), Arc::default(), 0);
    registry(builtin().into_iter().chain(outside).chain([Arc::new(finder) as Arc<dyn Tool>]))
}

#[test]
fn prompts_with_tools_that_are_told_by_name() {
    let tools = many();
    let prompts = |selection: &Selection| {
        let told = tools.select(&selection.told);
        let tools = Tools { all: &tools, told: &told, selection };
        [super::system(OPERATOR, &tools, &format()), super::native_system(OPERATOR, &tools)]
    };
    let [system, native] =
        prompts(&Selection { told: vec![1, 6], named: vec![0, 2, 3, 4], unnamed: 1 });
    check("selected", &system);
    check("native_selected", &native);
    let [unnamed, _] = prompts(&Selection { told: vec![6], named: vec![], unnamed: 6 });
    assert!(unnamed.contains("\n- 6, without a name here\n"), "{unnamed}");
}

#[test]
fn nothing_is_hidden_in_the_values_and_names_of_a_schema() {
    let hidden = "a\u{e0041}\u{202e}";
    let parameters = serde_json::json!({
        "type": "object", "properties": { hidden: { "enum": [hidden] } }, "required": [hidden],
    });
    let spec = ToolSpec { name: "t".to_owned(), parameters, ..ToolSpec::default() };
    let tools = registry([Arc::new(Named(Arc::new(spec))) as Arc<dyn Tool>]);
    let prompt = system(OPERATOR, &tools, &format());
    assert!(!prompt.contains(['\u{e0041}', '\u{202e}']), "{prompt}");
    assert_eq!(prompt.matches(r"a\udb40\udc41\u202e").count(), 3, "{prompt}");
}

#[test]
fn the_closing_prompts() {
    check("closing", &format!("{SYNTHESIS}\n\n{SYNTHESIS_AGAIN}"));
}

#[test]
fn without_tools_no_contract_is_taught() {
    assert_eq!(system("Be kind.", &Catalog::default(), &format()), "Be kind.");
    assert_eq!(native_system("Be kind.", &Catalog::default()), "Be kind.");
}

#[test]
fn the_taught_marker_is_the_parsed_one() {
    let prompt = system(
        "",
        &registry([Arc::new(Calculate::new()) as Arc<dyn Tool>]),
        &CallFormat::marker("[[do]]"),
    );
    assert!(!prompt.contains(MARKER));
    assert_eq!(prompt.matches("the marker [[do]], a space").count(), 1);
}

#[test]
fn a_tool_says_when_its_calls_run() {
    #[track_caller]
    fn check(policy: Policy, words: &str) {
        for prompt in
            [system("", &with_policy(policy), &format()), native_system("", &with_policy(policy))]
        {
            assert!(prompt.contains(words), "{policy:?}: {prompt}");
        }
    }
    let none = Policy::default();
    check(
        Policy { may_clarify: true, ..none },
        " Later calls wait for it; if it fails or asks the user, they are not run.",
    );
    check(
        Policy { mutates: true, ..none },
        " It runs when your message is over and every earlier call has succeeded. Later calls \
         wait for it; if it fails, they are not run.",
    );
    check(
        Policy { sequential: true, ..none },
        " It runs when every earlier call is over. Later calls wait for it; if it fails, they are \
         not run.",
    );
    check(
        Policy { may_clarify: true, mutates: true, sequential: true, ..none },
        " It runs when your message is over and every earlier call has succeeded. Later calls \
         wait for it; if it fails or asks the user, they are not run.",
    );
    assert!(!system("", &with_policy(none), &format()).contains("Later calls"));
    assert!(!native_system("", &with_policy(none)).contains("Later calls"));
}

/// Each line costs some of the model's attention, so it appears only if its case can occur.
#[test]
fn impossible_orders_are_not_mentioned() {
    #[track_caller]
    fn check(tools: &Catalog, told_of: [bool; 2]) {
        let tells =
            |prompt: &str| ["$result", "clarification_needed"].map(|word| prompt.contains(word));
        let prompt = system("", tools, &format());
        assert_eq!(tells(&prompt), told_of, "{prompt}");
        // The gateway does not know the ids that the server gives to calls.
        let native = native_system("", tools);
        assert_eq!(tells(&native), [false, told_of[1]], "{native}");
    }
    let [asks, mutates] = [[true, false], [false, true]].map(|[may_clarify, mutates]| Policy {
        may_clarify,
        mutates,
        ..Policy::default()
    });
    check(&registry(builtin()), [false, false]);
    check(&with_policy(mutates), [true, false]);
    check(&with_policy(asks), [true, true]);
    let alone =
        Named(Arc::new(ToolSpec { policy: asks, ..ToolSpec::clone(Calculate::new().spec()) }));
    check(&registry([Arc::new(alone) as Arc<dyn Tool>]), [false, true]);
}
