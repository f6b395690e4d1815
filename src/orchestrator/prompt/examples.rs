//! What is shown instead of told: a question with its call, one with two, results.

use serde_json::{Value, json};

use crate::tools::{Example, Registry, ToolSpec};

/// Dialogues with one tool.
#[derive(Debug)]
pub(super) struct Dialogues {
    pub(super) tool: String,
    /// A question that takes one call.
    pub(super) one: Example,
    /// A question that takes several.
    pub(super) several: Example,
}

/// Those of the first tool that brings both, or of a tool that everybody knows.
pub(super) fn dialogues(tools: &Registry) -> Dialogues {
    tools.specs().find_map(of_tool).unwrap_or_else(well_known)
}

/// A result, with `members` behind its success. Real ones have no spaces; with them,
/// models leave it alone (`docs/prompting.md`).
pub(super) fn result(tool: &str, members: &str) -> String {
    let tool = Value::from(tool);
    format!(
        "{{\"call\": \"call_1\", \"tool\": {tool}, \"result\": {{\"success\": true, {members}}}}}"
    )
}

fn of_tool(spec: &ToolSpec) -> Option<Dialogues> {
    let one = spec.examples.iter().find(|example| example.calls.len() == 1)?.clone();
    let several = spec.examples.iter().find(|example| example.calls.len() > 1)?.clone();
    Some(Dialogues { tool: spec.name.clone(), one, several })
}

fn well_known() -> Dialogues {
    let city = |city: &str| json!({ "city": city });
    let example = |question: &str, calls| Example { question: question.to_owned(), calls };
    Dialogues {
        tool: "get_weather".to_owned(),
        one: example("how is the weather in Tokyo?", vec![city("Tokyo")]),
        several: example(
            "how is the weather in Rome, and in Oslo?",
            vec![city("Rome"), city("Oslo")],
        ),
    }
}
