//! The contract: how a call is written behind a marker, and what comes back. One
//! example for each shape.

use std::fmt::Write as _;

use serde_json::Value;

use super::examples::{self, Dialogues};
use crate::conversation::render::RESULTS_HEADING;
use crate::tools::{Example, Registry};

/// When to call and when to answer.
pub(super) const RULES: &str = "Always call a function where one fits. Never describe a call and \
     never guess a result. Where none fits, or when you have the results, answer in words.";

/// A call as it is to be written: told to a model that wrote something else.
pub(in crate::orchestrator) fn example(marker: &str) -> String {
    format!("{marker} {{\"name\": \"tool_name\", \"arguments\": {{\"key\": \"value\"}}}}")
}

/// Adds it: the calls, their results, the rules. What is read last is followed most.
pub(super) fn push(prompt: &mut String, tools: &Registry, marker: &str) {
    let dialogues = examples::dialogues(tools);
    push_calls(prompt, &dialogues, marker);
    push_results(prompt, &dialogues.tool);
    prompt.push_str(RULES);
}

fn push_calls(prompt: &mut String, Dialogues { tool, one, several }: &Dialogues, marker: &str) {
    let _ = write!(
        prompt,
        "\n# How to call a function\n\
         Write one line: the marker {marker}, a space, then one JSON object with \"name\" and \
         \"arguments\". Nothing else.\n"
    );
    push_dialogue(prompt, marker, tool, one);
    prompt.push_str("\nTwo calls are two lines:\n");
    push_dialogue(prompt, marker, tool, several);
}

fn push_results(prompt: &mut String, tool: &str) {
    let line = examples::result(tool, "\"data\": {...}, \"next_action\": \"continue\"");
    let _ = writeln!(
        prompt,
        "\nThen stop. The results come in the next message. Never write it yourself:\n\
         {RESULTS_HEADING}\n{line}"
    );
}

fn push_dialogue(prompt: &mut String, marker: &str, name: &str, example: &Example) {
    let _ = write!(prompt, "User: {}\nAssistant:", example.question);
    let mut separator = ' ';
    for arguments in &example.calls {
        let (name, arguments) = (Value::from(name), spaced(arguments));
        let _ =
            write!(prompt, "{separator}{marker} {{\"name\": {name}, \"arguments\": {arguments}}}");
        separator = '\n';
    }
    prompt.push('\n');
}

/// A flat object with a space behind each colon and comma, as models write it.
fn spaced(arguments: &Value) -> String {
    let Value::Object(object) = arguments else { return arguments.to_string() };
    let members =
        object.iter().map(|(key, value)| format!("{}: {value}", Value::from(key.as_str())));
    format!("{{{}}}", members.collect::<Vec<_>>().join(", "))
}
