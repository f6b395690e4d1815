//! The system prompt: who the model is, how it calls a tool, which tools there are.
//!
//! It is explicit because vague prompts are why models describe a call instead
//! of making it: the exact line to write, one example for each shape, and what
//! happens next.

use std::fmt::Write as _;

use crate::conversation::render::RESULTS_HEADING;
use crate::tools::Registry;

/// What the model is told when it may call nothing more.
pub(super) const SYNTHESIS: &str = "Now answer in words, with what is known so far. Do not call \
     any function.";

/// The system message: the operator's words, then the contract, then the tools.
pub(super) fn system(operator: &str, tools: &Registry, marker: &str) -> String {
    let mut prompt = operator.trim_end().to_owned();
    if tools.is_empty() {
        return prompt;
    }
    push_contract(&mut prompt, marker);
    push_tools(&mut prompt, tools);
    prompt
}

/// A call as it is to be written.
pub(super) fn example(marker: &str) -> String {
    format!("{marker} {{\"name\": \"tool_name\", \"arguments\": {{\"key\": \"value\"}}}}")
}

fn push_contract(prompt: &mut String, marker: &str) {
    let example = example(marker);
    let _ = write!(
        prompt,
        "\n\n\
         # Functions\n\
         You can call functions. To call one, write a line with the marker {marker}, a space, and \
         one JSON object with \"name\" and \"arguments\":\n\
         {example}\n\
         - The line is run for you, for real. Do not describe a call: write it.\n\
         - To call several functions, write several such lines, one below the other.\n\
         - After your calls, stop. The results come in the next message, which begins with \
         \"{RESULTS_HEADING}\". Never write that message yourself.\n\
         - When a result says next_action \"clarification_needed\", stop: the user will be asked.\n\
         - When no function is needed, just answer. When you have the results, answer in words.\n\
         \n\
         Example of one call:\n\
         {marker} {{\"name\": \"get_current_time\", \"arguments\": {{\"timezone\": \"Europe/Paris\"}}}}\n\
         \n\
         Example of two calls:\n\
         {marker} {{\"name\": \"get_current_time\", \"arguments\": {{\"timezone\": \"Asia/Tokyo\"}}}}\n\
         {marker} {{\"name\": \"calculate\", \"arguments\": {{\"expression\": \"12 * 7\"}}}}\n\
         \n\
         Example of a result:\n\
         {RESULTS_HEADING}\n\
         {{\"call\":\"call_1\",\"tool\":\"calculate\",\"result\":{{\"success\":true,\"data\":{{\"result\":\"84\"}},\"next_action\":\"continue\"}}}}\n"
    );
}

fn push_tools(prompt: &mut String, tools: &Registry) {
    prompt.push_str("\n# The functions you can call\n");
    for spec in tools.specs() {
        let parameters = &spec.parameters;
        let _ = writeln!(prompt, "- {}: {}", spec.name, spec.description);
        let _ = writeln!(prompt, "  arguments (JSON Schema): {parameters}");
        if spec.policy.may_clarify {
            prompt.push_str("  Wait for its result before you call anything that depends on it.\n");
        }
    }
}
