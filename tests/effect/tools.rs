//! The tasks' tools: real built-in ones, and scripted ones with fixed results.

use std::sync::Arc;

use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::{Value, json};
use tether::tools::builtin::{Calculate, Clock, GetCurrentTime};
use tether::tools::{CallContext, Policy, Sources, Tool, ToolFuture, ToolResult, ToolSpec};

use crate::Error;
use crate::judge::subset;

/// The time that `get_current_time` returns, a Tuesday, so that answers about time are
/// predictable.
const NOW: &str = "2026-03-17T13:05:00Z";

/// A tool as a task offers it.
#[derive(Debug, Clone)]
pub(crate) enum Offered {
    GetCurrentTime,
    Calculate,
    Scripted(Arc<Script>),
}

impl Offered {
    /// The built-in tool with this name.
    pub(crate) fn builtin(name: &str) -> Option<Self> {
        match name {
            "get_current_time" => Some(Self::GetCurrentTime),
            "calculate" => Some(Self::Calculate),
            _ => None,
        }
    }
}

/// A tool from the data files.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Script {
    pub(crate) name: String,
    description: String,
    parameters: Value,
    #[serde(default = "usual_hint")]
    waiting_hint: String,
    #[serde(default)]
    policy: ScriptPolicy,
    /// The first one that fits a call answers it.
    #[serde(default = "usual_results")]
    results: Vec<Scripted>,
}

/// The fields of [`Policy`] that a data file may set.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct ScriptPolicy {
    may_clarify: bool,
    mutates: bool,
    sequential: bool,
}

/// A fixed result, and the calls that get it.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Scripted {
    /// Some of the call's arguments; if absent, any call fits.
    when: Option<Value>,
    /// How many calls per task it answers; if absent, all.
    times: Option<u32>,
    result: Value,
}

/// BFCL's tools come without waiting hints and without results.
fn usual_hint() -> String {
    "looking that up".to_owned()
}

fn usual_results() -> Vec<Scripted> {
    vec![Scripted { when: None, times: None, result: json!({"ok": true}) }]
}

impl Script {
    /// Checks that every call gets an answer.
    pub(crate) fn check(&self) -> Result<(), String> {
        match self.results.last() {
            Some(Scripted { when: None, times: None, .. }) => Ok(()),
            _ => Err(format!("{}: the last of its results must answer every call", self.name)),
        }
    }

    fn spec(&self) -> ToolSpec {
        let ScriptPolicy { may_clarify, mutates, sequential } = self.policy;
        ToolSpec {
            name: self.name.clone(),
            description: self.description.clone(),
            parameters: self.parameters.clone(),
            waiting_hint: self.waiting_hint.clone(),
            policy: Policy { may_clarify, mutates, sequential, ..Policy::NONE },
            ..ToolSpec::default()
        }
    }
}

/// The tools of one task, in order. They count calls, so each task needs its own.
pub(crate) fn sources(offered: &[Offered]) -> Result<Sources, Error> {
    let mut sources = Sources::default();
    for tool in offered {
        sources.add(match tool {
            Offered::GetCurrentTime => {
                let now = NOW.parse()?;
                Arc::new(GetCurrentTime::with_clock(Clock::new(move || now)))
            }
            Offered::Calculate => Arc::new(Calculate::new()),
            Offered::Scripted(script) => Arc::new(ScriptedTool::new(Arc::clone(script))),
        })?;
    }
    Ok(sources)
}

#[derive(Debug)]
struct ScriptedTool {
    spec: Arc<ToolSpec>,
    script: Arc<Script>,
    /// How many calls each result has answered.
    answered: Mutex<Vec<u32>>,
}

impl ScriptedTool {
    fn new(script: Arc<Script>) -> Self {
        let answered = Mutex::new(vec![0; script.results.len()]);
        Self { spec: Arc::new(script.spec()), script, answered }
    }

    fn answer(&self, arguments: &Value) -> ToolResult {
        let mut answered = self.answered.lock();
        for (scripted, count) in self.script.results.iter().zip(answered.iter_mut()) {
            let fits = scripted.when.as_ref().is_none_or(|when| subset::holds(when, arguments));
            if fits && scripted.times.is_none_or(|times| *count < times) {
                *count += 1;
                return ToolResult::from_value(scripted.result.clone());
            }
        }
        unreachable!("Script::check: the last result answers every call")
    }
}

impl Tool for ScriptedTool {
    fn spec(&self) -> &Arc<ToolSpec> {
        &self.spec
    }

    fn call(&self, arguments: Value, _context: CallContext) -> ToolFuture {
        Box::pin(std::future::ready(Ok(self.answer(&arguments))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tool(results: &Value) -> ScriptedTool {
        let script = json!({
            "name": "weather", "description": "Weather.", "parameters": {"type": "object"},
            "results": results,
        });
        ScriptedTool::new(Arc::new(serde_json::from_value(script).unwrap()))
    }

    #[test]
    fn the_first_result_that_fits_answers() {
        let tool = tool(&json!([
            {"when": {"city": "oslo"}, "times": 1, "result": {"success": false, "next_action": "error", "error": "busy"}},
            {"when": {"city": "oslo"}, "result": {"sky": "clear"}},
            {"result": {"sky": "grey"}},
        ]));
        let oslo = json!({"city": "Oslo, Norway"});
        assert_eq!(tool.answer(&json!({"city": "Rome"})), ToolResult::data(json!({"sky": "grey"})));
        assert_eq!(tool.answer(&oslo), ToolResult::error("busy"));
        assert_eq!(tool.answer(&oslo), ToolResult::data(json!({"sky": "clear"})));
        assert_eq!(tool.answer(&oslo), ToolResult::data(json!({"sky": "clear"})));
    }

    #[test]
    fn a_script_must_answer_every_call() {
        assert!(tool(&json!([{"result": 1}])).script.check().is_ok());
        assert!(tool(&json!([])).script.check().is_err());
        assert!(tool(&json!([{"when": {"city": "Oslo"}, "result": 1}])).script.check().is_err());
        assert!(tool(&json!([{"times": 1, "result": 1}])).script.check().is_err());
    }
}
