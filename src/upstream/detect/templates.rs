//! Formats by the source of the chat template.

use super::{Evidence, Sign};
use crate::call_format::Row;

/// Formats with what their templates contain. The most specific come first: templates share marks.
///
/// Sources: llama.cpp `common/chat.cpp`, `SGLang` `template_detection.py`, and the templates that
/// llama.cpp is tested with.
pub(super) const SIGNATURES: &[(&str, &[&str])] = &[
    ("mistral_args_id", &["[TOOL_CALLS]", "[ARGS]", "[CALL_ID]"]),
    ("mistral_args", &["[TOOL_CALLS]", "[ARGS]"]),
    ("mistral_array", &["[TOOL_CALLS]"]),
    ("beam", &["<|channel|>", "<rfl:parameter"]),
    ("harmony", &["<|channel|>"]),
    ("muse", &["<atem:function_calls>"]),
    ("functionary_v32", &[">>>all"]),
    ("kimi_k2", &["<|tool_calls_section_begin|>"]),
    ("kimi_k3", &["<|open|>", "<|close|>", "<|end_of_msg|>"]),
    ("step3", &["<steptml:invoke"]),
    ("minimax_m3", &["]<]minimax[>["]),
    ("minimax_m2", &["<minimax:tool_call>"]),
    ("dsml_v41", &["<｜DSML｜ calls>"]),
    ("dsml_v4", &["<｜DSML｜tool_calls>"]),
    ("dsml_v32", &["<｜DSML｜function_calls>"]),
    ("dsml_v41", &["dsml_token", "' calls>"]),
    ("dsml_v4", &["dsml_token", "tool_calls>"]),
    ("dsml_v32", &["dsml_token", "function_calls"]),
    ("gcml", &["<｜GCML｜tool_calls>"]),
    ("gemma4", &["<|tool_call>call:"]),
    ("functiongemma", &["<start_function_call>"]),
    ("minicpm5", &["<function name=\"", "<param name=\""]),
    ("seed_oss", &["<seed:tool_call>"]),
    ("qwen3_coder", &["<function=", "<parameter="]),
    ("functionary_v31", &["<function=", "</function>"]),
    ("hunyuan", &["<arg_key>", "<tool_sep"]),
    ("hunyuan_opensource", &["<arg_key:opensource>"]),
    ("hunyuan_opensource", &["<arg_key{}>", "<tool_sep{}>"]),
    ("k2_horizon", &["<ifm|arg_key>"]),
    ("glm47", &["<tool_call>", "}<arg_key>"]),
    ("glm45", &["<arg_key>", "<tool_call>"]),
    ("lfm2", &["<|tool_call_start|>"]),
    // The templates of LFM2.5 lose calls, so that they show none of their marks.
    ("lfm2", &["List of tools: ["]),
    ("lfm2", &["<|tool_list_start|>"]),
    ("deepseek_v3", &["<｜tool▁calls▁begin｜>", "```json"]),
    ("deepseek_v31", &["<｜tool▁calls▁begin｜>"]),
    ("cohere_xml", &["<cofl:tool_calls>"]),
    ("cohere", &["<|START_ACTION|>"]),
    ("cohere_r_plus", &["Action:", "```json", "\"tool_name\""]),
    ("apertus", &["<|tools_prefix|>"]),
    ("gigachat31", &["<|role_sep|>", "<|function_call|>"]),
    ("gigachat3", &["<|message_sep|>", "<|role_sep|>", "function call"]),
    ("internlm", &["<|action_start|>", "<|plugin|>"]),
    ("plamo3", &["<|plamo:begin_tool_request:plamo|>"]),
    ("inkling", &["<|content_invoke_tool_json|>"]),
    ("longcat", &["<longcat_tool_call>"]),
    ("functools", &["functools["]),
    ("tool_calls", &["<tool_calls>"]),
    ("toolcall", &["<TOOLCALL>"]),
    ("olmo3", &["<function_calls>"]),
    ("granite3", &["<|tool_call|>"]),
    ("hermes", &["<tool_call>"]),
    ("llama3", &["\"parameters\"", "ipython"]),
    ("llama3", &["<|python_tag|>"]),
];

/// The format whose signature is in this template.
pub(super) fn format_in(template: &str) -> Option<Evidence> {
    let is_whole = |marks: &[&str]| marks.iter().all(|mark| template.contains(mark));
    let (format, marks) = SIGNATURES.iter().find(|(_, marks)| is_whole(marks))?;
    let format = Row::named(format).expect("every format here is a row: see the tests");
    Some(Evidence { format, sign: Sign::Template(marks) })
}
