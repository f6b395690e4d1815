//! How well the tools that a question needs are found, and how many models are told about them: on
//! 200 functions and the questions of the
//! Berkeley Function Calling Leaderboard that need them (`tests/data/effect/single_calls.json`).

#![expect(clippy::unwrap_used, reason = "a test that panics has failed, as it should")]

use std::collections::BTreeMap;
use std::fs;
use std::sync::Arc;

use serde_json::Value;
use tether::conversation::{Conversation, Opening};
use tether::orchestrator::{Basis, Rules, Selection};
use tether::tools::builtin::FindTools;
use tether::tools::search::Index;
use tether::tools::{CallContext, Registry, Tool, ToolFuture, ToolResult, ToolSpec};

const TOOLS: usize = 200;

#[derive(Debug)]
struct Function(Arc<ToolSpec>);

impl Tool for Function {
    fn spec(&self) -> &Arc<ToolSpec> {
        &self.0
    }

    fn call(&self, _arguments: Value, _context: CallContext) -> ToolFuture {
        Box::pin(std::future::ready(Ok(ToolResult::data(Value::Null))))
    }
}

struct Question {
    prompt: String,
    needed: Vec<String>,
}

/// The first [`TOOLS`] functions that questions need, and the questions that need no other.
fn questions() -> (Registry, Vec<Question>) {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/effect/single_calls.json");
    let file: Value = serde_json::from_slice(&fs::read(path).unwrap()).unwrap();
    let mut tools = Registry::default();
    let mut questions = Vec::new();
    for question in file["questions"].as_array().unwrap() {
        let offered: BTreeMap<&str, &Value> = question["tools"]
            .as_array()
            .unwrap()
            .iter()
            .map(|tool| (tool["name"].as_str().unwrap(), tool))
            .collect();
        let expected = question["expected"].as_array().unwrap().iter();
        let needed: Vec<String> =
            expected.map(|call| call["name"].as_str().unwrap().to_owned()).collect();
        for name in &needed {
            if tools.get(name).is_none() && tools.catalog().specs().len() < TOOLS {
                let tool = offered[&**name];
                let spec = ToolSpec {
                    name: name.clone(),
                    description: tool["description"].as_str().unwrap().to_owned(),
                    parameters: tool["parameters"].clone(),
                    ..ToolSpec::default()
                };
                tools.add(Arc::new(Function(Arc::new(spec)))).unwrap();
            }
        }
        let prompt = question["prompt"].as_str().unwrap().to_owned();
        questions.push(Question { prompt, needed });
    }
    questions.retain(|question| question.needed.iter().all(|name| tools.get(name).is_some()));
    (tools, questions)
}

#[test]
fn nearly_every_question_finds_its_tools_among_200() {
    let (tools, questions) = questions();
    assert_eq!(tools.catalog().specs().len(), TOOLS);
    let index = Index::of(tools.catalog());
    let names = tools.catalog().names();
    let within = |question: &Question, most: usize| {
        let found = index.find(&[(&question.prompt, 1.0)]);
        let found: Vec<&str> = found.into_iter().take(most).map(|at| &*names[at]).collect();
        question.needed.iter().all(|name| found.contains(&&**name))
    };
    let share = |most| {
        let right = questions.iter().filter(|question| within(question, most)).count();
        100 * right / questions.len()
    };
    let shares = [1, 3, 8, 24].map(|most| format!("{} % in the first {most}", share(most)));
    let missed: Vec<&str> = questions
        .iter()
        .filter(|question| !within(question, 24))
        .map(|question| &*question.prompt)
        .collect();
    // The figures of the search by itself. They are exact; if they change, so must `docs/tools.md`.
    assert_eq!(
        shares,
        [
            "80 % in the first 1",
            "89 % in the first 3",
            "93 % in the first 8",
            "96 % in the first 24"
        ],
        "of {} questions; not in the first 24: {missed:#?}",
        questions.len()
    );
}

/// What the model of a turn is told, by the default rules: `find_tools` is among it.
#[test]
#[expect(clippy::print_stdout, reason = "the figures are for `docs/tools.md`")]
fn most_models_are_told_what_their_question_needs() {
    let (mut tools, questions) = questions();
    let (index, rules) = (Arc::new(Index::of(tools.catalog())), Rules::default());
    let room = rules.told_bytes();
    let finder = FindTools::new(tools.catalog().clone(), Arc::clone(&index), room);
    tools.add(Arc::new(finder)).unwrap();
    assert!(!rules.can_tell_all(tools.catalog()));
    let history = Conversation::default();
    let (mut right, mut told) = (0, 0);
    for question in &questions {
        let opening = Opening::Prompt(question.prompt.clone());
        let basis = Basis { opening: &opening, history: &history };
        let selection = Selection::of(&rules, tools.catalog(), &index, &basis);
        let names: Vec<&str> =
            selection.told().iter().map(|at| &*tools.catalog().at(*at).name).collect();
        right += usize::from(question.needed.iter().all(|name| names.contains(&&**name)));
        told += names.len();
    }
    let count = questions.len();
    let tenths = (10 * told + count / 2) / count;
    let figures = format!(
        "{right} of {count} questions ({} %), with {}.{} tools on average",
        100 * right / count,
        tenths / 10,
        tenths % 10
    );
    println!("{figures}");
    assert_eq!(figures, "186 of 197 questions (94 %), with 11.6 tools on average");
}
