//! The tasks in `tests/data/effect`.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::Arc;

use clap::ValueEnum;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::Error;
use crate::tools::{Offered, Script};

/// Where a task comes from, and how it is judged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "snake_case")]
#[value(rename_all = "snake_case")]
pub(crate) enum Set {
    /// BFCL questions: only the model's first message is judged.
    Single,
    /// Whole turns, up to the answer.
    Turns,
    /// Prompts that need no tool.
    NoNeed,
}

impl Set {
    pub(crate) const ALL: [Self; 3] = [Self::Single, Self::Turns, Self::NoNeed];

    pub(crate) const fn title(self) -> &'static str {
        match self {
            Self::Single => "single calls",
            Self::Turns => "whole turns",
            Self::NoNeed => "no need",
        }
    }
}

/// One half of each set is for tuning; the other shows whether the tuning holds up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Half {
    Tune,
    Report,
}

impl Half {
    pub(crate) const ALL: [Self; 2] = [Self::Tune, Self::Report];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Tune => "tune",
            Self::Report => "report",
        }
    }
}

/// A user's prompt, its tools, and what is right.
#[derive(Debug, Clone)]
pub(crate) struct Task {
    pub(crate) set: Set,
    pub(crate) id: String,
    pub(crate) kind: String,
    pub(crate) half: Half,
    pub(crate) prompt: String,
    pub(crate) tools: Vec<Offered>,
    pub(crate) wanted: Wanted,
}

/// What is right.
#[derive(Debug, Clone)]
pub(crate) enum Wanted {
    /// These calls and no others.
    Calls(Vec<AcceptedCall>),
    /// Calls that must be made, among others, followed by an answer.
    Answer {
        calls: Vec<WantedCall>,
        /// The answer contains one string of each list.
        answer: Vec<Vec<String>>,
        /// The id of the option that the user chooses if asked.
        choose: Option<String>,
    },
    /// An answer without a call.
    NoCall,
}

/// A call with the values that BFCL accepts for each parameter.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct AcceptedCall {
    pub(crate) name: String,
    pub(crate) arguments: Map<String, Value>,
}

/// A call with some of its arguments.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct WantedCall {
    pub(crate) name: String,
    #[serde(default)]
    pub(crate) arguments: Map<String, Value>,
}

/// The tasks to play.
#[derive(Debug)]
pub(crate) struct Selection {
    pub(crate) sets: Vec<Set>,
    /// Both if `None`.
    pub(crate) half: Option<Half>,
    /// How many tasks of each set.
    pub(crate) limit: Option<usize>,
    /// Ids; all tasks if empty.
    pub(crate) only: Vec<String>,
    /// How many tools each single call is offered; its own if `None`.
    pub(crate) offered: Option<usize>,
}

impl Selection {
    fn pick(&self, set: Vec<Task>) -> Vec<Task> {
        let wants = |task: &Task| {
            self.half.is_none_or(|half| half == task.half)
                && (self.only.is_empty() || self.only.contains(&task.id))
        };
        let tasks: Vec<Task> = set.into_iter().filter(wants).collect();
        match self.limit {
            Some(limit) => evenly(&tasks, limit),
            None => tasks,
        }
    }
}

/// Picks `limit` tasks in order: one of each kind and half in turn, until there are enough.
fn evenly(tasks: &[Task], limit: usize) -> Vec<Task> {
    let mut seen: Vec<(&str, Half, usize)> = Vec::new();
    let mut ranked: Vec<(usize, usize)> = Vec::new();
    for (at, task) in tasks.iter().enumerate() {
        let is_its = |group: &(&str, Half, usize)| *group.0 == task.kind && group.1 == task.half;
        let group = seen.iter().position(is_its).unwrap_or_else(|| {
            seen.push((&task.kind, task.half, 0));
            seen.len() - 1
        });
        ranked.push((seen[group].2, at));
        seen[group].2 += 1;
    }
    ranked.sort_unstable();
    let mut picked: Vec<usize> = ranked.into_iter().take(limit).map(|(_, at)| at).collect();
    picked.sort_unstable();
    picked.into_iter().map(|at| tasks[at].clone()).collect()
}

/// Loads the selected tasks, set by set.
pub(crate) fn load(selection: &Selection) -> Result<Vec<Task>, Error> {
    let mut tasks = Vec::new();
    for set in Set::ALL.into_iter().filter(|set| selection.sets.contains(set)) {
        tasks.extend(selection.pick(match set {
            Set::Single => single_calls(selection.offered)?,
            Set::Turns => turns()?,
            Set::NoNeed => no_need()?,
        }));
    }
    if tasks.is_empty() { Err("no task is selected".into()) } else { Ok(tasks) }
}

fn read<T: DeserializeOwned>(name: &str) -> Result<T, Error> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/effect");
    let path = directory.join(name);
    let complain = |error: &dyn std::error::Error| format!("{}: {error}", path.display());
    let text = fs::read_to_string(&path).map_err(|error| complain(&error))?;
    Ok(serde_json::from_str(&text).map_err(|error| complain(&error))?)
}

#[derive(Deserialize)]
struct SingleCallsFile {
    questions: Vec<RawQuestion>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawQuestion {
    id: String,
    kind: String,
    half: Half,
    prompt: String,
    tools: Vec<Arc<Script>>,
    expected: Vec<AcceptedCall>,
}

fn single_calls(offered: Option<usize>) -> Result<Vec<Task>, Error> {
    let mut file: SingleCallsFile = read("single_calls.json")?;
    if let Some(count) = offered {
        let all: Vec<_> = file.questions.iter().flat_map(|it| it.tools.clone()).collect();
        for question in &mut file.questions {
            question.tools = offer(question, &all, count);
        }
    }
    let task = |question: RawQuestion| Task {
        set: Set::Single,
        id: question.id,
        kind: question.kind,
        half: question.half,
        prompt: question.prompt,
        tools: question.tools.into_iter().map(Offered::Scripted).collect(),
        wanted: Wanted::Calls(question.expected),
    };
    Ok(file.questions.into_iter().map(task).collect())
}

/// `count` tools for a question, by name: those it needs, its own others, and others from the file.
/// If the question needs more than `count`, it gets those.
fn offer(question: &RawQuestion, all: &[Arc<Script>], count: usize) -> Vec<Arc<Script>> {
    let is_needed = |tool: &&Arc<Script>| question.expected.iter().any(|it| it.name == tool.name);
    let mut offered: BTreeMap<&str, &Arc<Script>> = BTreeMap::new();
    for tool in question.tools.iter().filter(is_needed) {
        offered.insert(&tool.name, tool);
    }
    for tool in question.tools.iter().chain(all) {
        if offered.len() < count {
            offered.entry(&tool.name).or_insert(tool);
        }
    }
    offered.into_values().cloned().collect()
}

#[derive(Deserialize)]
struct TurnsFile {
    tools: Vec<Arc<Script>>,
    #[serde(default)]
    tasks: Vec<RawTurn>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawTurn {
    id: String,
    kind: String,
    half: Half,
    prompt: String,
    tools: Vec<String>,
    calls: Vec<WantedCall>,
    answer: Vec<Vec<String>>,
    choose: Option<String>,
}

fn turns() -> Result<Vec<Task>, Error> {
    let TurnsFile { tools, tasks } = read("turns.json")?;
    let task = |raw: RawTurn| {
        let RawTurn { id, kind, half, prompt, tools: names, calls, answer, choose } = raw;
        let tools = find(&tools, &id, &names)?;
        let wanted = Wanted::Answer { calls, answer, choose };
        Ok(Task { set: Set::Turns, id, kind, half, prompt, tools, wanted })
    };
    tasks.into_iter().map(task).collect()
}

#[derive(Deserialize)]
struct NoNeedFile {
    prompts: Vec<RawPrompt>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawPrompt {
    id: String,
    kind: String,
    half: Half,
    prompt: String,
    tools: Vec<String>,
}

fn no_need() -> Result<Vec<Task>, Error> {
    let NoNeedFile { prompts } = read("no_need.json")?;
    let TurnsFile { tools, .. } = read("turns.json")?;
    let task = |raw: RawPrompt| {
        let RawPrompt { id, kind, half, prompt, tools: names } = raw;
        let tools = find(&tools, &id, &names)?;
        Ok(Task { set: Set::NoNeed, id, kind, half, prompt, tools, wanted: Wanted::NoCall })
    };
    prompts.into_iter().map(task).collect()
}

/// The tools with these names, for the task with this id.
fn find(scripts: &[Arc<Script>], id: &str, names: &[String]) -> Result<Vec<Offered>, Error> {
    let offer = |name: &String| {
        if let Some(builtin) = Offered::builtin(name) {
            return Ok(builtin);
        }
        let script = scripts.iter().find(|script| script.name == *name);
        let script = script.ok_or_else(|| format!("{id}: no such tool: {name}"))?;
        script.check()?;
        Ok(Offered::Scripted(Arc::clone(script)))
    };
    names.iter().map(offer).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn task(id: &str, kind: &str, half: Half) -> Task {
        Task {
            set: Set::NoNeed,
            id: id.to_owned(),
            kind: kind.to_owned(),
            half,
            prompt: String::new(),
            tools: Vec::new(),
            wanted: Wanted::NoCall,
        }
    }

    #[track_caller]
    fn check(selection: &Selection, expected: &[&str]) {
        let tasks = vec![
            task("a", "thanks", Half::Tune),
            task("b", "thanks", Half::Tune),
            task("c", "thanks", Half::Report),
            task("d", "small_talk", Half::Tune),
            task("e", "small_talk", Half::Report),
        ];
        let picked: Vec<String> = selection.pick(tasks).into_iter().map(|task| task.id).collect();
        assert_eq!(picked, expected, "{selection:?}");
    }

    #[test]
    fn a_limit_takes_evenly_from_kinds_and_halves() {
        let all = || Selection {
            sets: Vec::new(),
            half: None,
            limit: None,
            only: Vec::new(),
            offered: None,
        };
        check(&all(), &["a", "b", "c", "d", "e"]);
        check(&Selection { limit: Some(4), ..all() }, &["a", "c", "d", "e"]);
        check(&Selection { limit: Some(9), ..all() }, &["a", "b", "c", "d", "e"]);
        let tune = || Selection { half: Some(Half::Tune), ..all() };
        check(&Selection { limit: Some(2), ..tune() }, &["a", "d"]);
        check(&Selection { only: vec!["c".to_owned()], ..tune() }, &[]);
        check(&Selection { only: vec!["d".to_owned(), "b".to_owned()], ..all() }, &["b", "d"]);
    }
}
