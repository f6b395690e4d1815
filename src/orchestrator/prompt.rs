//! The system prompt: the operator's words, the tools, how to call one.
//!
//! Vague prompts are why models describe a call instead of making it. Its order
//! and wording were measured with a small model (`docs/prompting.md`): the tools
//! come first, the examples are dialogues in natural words, the rules come last.

use std::fmt::Write as _;

use serde_json::{Value, json};

use crate::conversation::render::RESULTS_HEADING;
use crate::tools::{Example, Registry, ToolSpec};

/// What the model is told when it may call nothing more.
pub(super) const SYNTHESIS: &str = "Now answer in words, with what is known so far. Do not call \
     any function.";

/// The same, for a model that has not listened.
pub(super) const SYNTHESIS_AGAIN: &str = "Answer the question above in one or two plain sentences. \
     Functions are switched off.";

/// The system message.
pub(super) fn system(operator: &str, tools: &Registry, marker: &str) -> String {
    let mut prompt = operator.trim_end().to_owned();
    if !tools.is_empty() {
        push_tools(&mut prompt, tools);
        push_contract(&mut prompt, tools, marker);
    }
    prompt
}

/// The system message of a model whose server tells it of the tools. What the server
/// cannot know follows the operator's words.
pub(super) fn native_system(operator: &str, tools: &Registry) -> String {
    let mut prompt = operator.trim_end().to_owned();
    if tools.is_empty() {
        return prompt;
    }
    prompt.push_str(
        "\n\nAlways call a function where one fits. Never describe a call and never guess a \
         result. Where none fits, or when you have the results, answer in words.\n\
         When a result says next_action \"clarification_needed\", stop: the user will be asked.",
    );
    for spec in tools.specs().filter(|spec| spec.policy.may_clarify) {
        let name = &spec.name;
        let _ =
            write!(prompt, "\nWait for the result of {name} before you call what depends on it.");
    }
    prompt
}

/// A call's arguments as they are to be written, for a model that has not.
pub(super) const NATIVE_EXAMPLE: &str =
    "with its arguments as one JSON object, such as {\"key\": \"value\"}";

/// A call as it is to be written, for a model that has not.
pub(super) fn example(marker: &str) -> String {
    format!("{marker} {{\"name\": \"tool_name\", \"arguments\": {{\"key\": \"value\"}}}}")
}

fn push_tools(prompt: &mut String, tools: &Registry) {
    prompt.push_str("\n\n# The functions you can call\n");
    for spec in tools.specs() {
        let _ = writeln!(prompt, "- {}: {}", spec.name, spec.description);
        let _ = writeln!(prompt, "  arguments (JSON Schema): {}", spec.parameters);
        if spec.policy.may_clarify {
            prompt.push_str("  Wait for its result before you call what depends on it.\n");
        }
    }
}

fn push_contract(prompt: &mut String, tools: &Registry, marker: &str) {
    let _ = write!(
        prompt,
        "\n# How to call a function\n\
         Write one line: the marker {marker}, a space, then one JSON object with \"name\" and \
         \"arguments\". Nothing else.\n"
    );
    let (name, one, several) = examples(tools);
    push_dialogue(prompt, marker, &name, &one);
    prompt.push_str("\nTwo calls are two lines:\n");
    push_dialogue(prompt, marker, &name, &several);
    let _ = write!(
        prompt,
        "\nThen stop. The results come in the next message, which begins with \
         \"{RESULTS_HEADING}\". Never write that message yourself.\n\
         When a result says next_action \"clarification_needed\", stop: the user will be asked.\n\
         Always call a function where one fits. Never describe a call and never guess a result. \
         Where none fits, or when you have the results, answer in words."
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

/// A tool's name, a question that takes one call of it, and one that takes two:
/// of the first tool that brings both, or of a tool that everybody knows.
fn examples(tools: &Registry) -> (String, Example, Example) {
    let of_tool = |spec: &ToolSpec| {
        let one = spec.examples.iter().find(|example| example.calls.len() == 1)?;
        let several = spec.examples.iter().find(|example| example.calls.len() > 1)?;
        Some((spec.name.clone(), one.clone(), several.clone()))
    };
    tools.specs().find_map(of_tool).unwrap_or_else(|| {
        let city = |city: &str| json!({ "city": city });
        let example = |question: &str, calls| Example { question: question.to_owned(), calls };
        (
            "get_weather".to_owned(),
            example("how is the weather in Tokyo?", vec![city("Tokyo")]),
            example("how is the weather in Rome, and in Oslo?", vec![city("Rome"), city("Oslo")]),
        )
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::tools::builtin::{Calculate, GetCurrentTime};

    #[test]
    fn the_prompt_is_the_one_that_was_measured() {
        let mut tools = Registry::default();
        tools.add(Arc::new(GetCurrentTime::new())).unwrap();
        tools.add(Arc::new(Calculate::new())).unwrap();
        let prompt = system("You are a helpful assistant.\n", &tools, "<<function_call>>");
        assert_eq!(prompt, include_str!("../../tests/data/upstream/prompt.txt").trim_end());
    }

    #[test]
    fn without_tools_there_is_nothing_to_teach() {
        assert_eq!(system("Be kind.", &Registry::default(), "<<function_call>>"), "Be kind.");
    }

    #[test]
    fn the_marker_that_is_taught_is_the_one_that_is_read() {
        let mut tools = Registry::default();
        tools.add(Arc::new(Calculate::new())).unwrap();
        let prompt = system("", &tools, "[[do]]");
        assert!(!prompt.contains("<<function_call>>"));
        assert_eq!(prompt.matches("[[do]] {\"name\": \"calculate\"").count(), 3);
    }
}
