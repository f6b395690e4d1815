//! Formats by the source of the chat template.

use super::{Evidence, Sign};

/// What the template of a format contains, and what it does not.
pub(super) struct Signature {
    pub(super) format: &'static str,
    pub(super) with: &'static [&'static str],
    without: &'static [&'static str],
}

const fn signature(format: &'static str, with: &'static [&'static str]) -> Signature {
    Signature { format, with, without: &[] }
}

/// The most specific first: templates share marks.
///
/// Sources: llama.cpp `common/chat.cpp`, `SGLang` `template_detection.py`, and the templates that
/// llama.cpp is tested with.
pub(super) const SIGNATURES: &[Signature] = &[
    signature("mistral_args_id", &["[TOOL_CALLS]", "[ARGS]", "[CALL_ID]"]),
    signature("mistral_args", &["[TOOL_CALLS]", "[ARGS]"]),
    signature("mistral_array", &["[TOOL_CALLS]"]),
    signature("beam", &["<|channel|>", "<rfl:parameter"]),
    signature("harmony", &["<|channel|>"]),
    signature("muse", &["<atem:function_calls>"]),
    signature("functionary_v32", &[">>>all"]),
    signature("kimi_k2", &["<|tool_calls_section_begin|>"]),
    signature("kimi_k3", &["<|open|>", "<|close|>", "<|end_of_msg|>"]),
    signature("step3", &["<steptml:invoke"]),
    signature("minimax_m3", &["]<]minimax[>["]),
    signature("minimax_m2", &["<minimax:tool_call>"]),
    signature("dsml_v41", &["<｜DSML｜ calls>"]),
    signature("dsml_v4", &["<｜DSML｜tool_calls>"]),
    signature("dsml_v32", &["<｜DSML｜function_calls>"]),
    signature("dsml_v41", &["dsml_token", "' calls>"]),
    signature("dsml_v4", &["dsml_token", "tool_calls>"]),
    signature("dsml_v32", &["dsml_token", "function_calls"]),
    signature("gcml", &["<｜GCML｜tool_calls>"]),
    signature("gemma4", &["<|tool_call>call:"]),
    signature("functiongemma", &["<start_function_call>"]),
    signature("minicpm5", &["<function name=\"", "<param name=\""]),
    signature("seed_oss", &["<seed:tool_call>"]),
    signature("qwen3_coder", &["<function=", "<parameter="]),
    signature("functionary_v31", &["<function=", "</function>"]),
    signature("hunyuan", &["<arg_key>", "<tool_sep"]),
    signature("hunyuan_opensource", &["<arg_key:opensource>"]),
    signature("hunyuan_opensource", &["<arg_key{}>", "<tool_sep{}>"]),
    signature("k2_horizon", &["<ifm|arg_key>"]),
    signature("glm47", &["<tool_call>", "}<arg_key>"]),
    signature("glm45", &["<arg_key>", "<tool_call>"]),
    signature("lfm2", &["<|tool_call_start|>"]),
    // The templates of LFM2.5 lose calls, so that they show none of their marks.
    signature("lfm2", &["List of tools: ["]),
    signature("lfm2", &["<|tool_list_start|>"]),
    signature("deepseek_v3", &["<｜tool▁calls▁begin｜>", "```json"]),
    signature("deepseek_v31", &["<｜tool▁calls▁begin｜>"]),
    signature("cohere", &["<|START_ACTION|>"]),
    signature("cohere_r_plus", &["Action:", "```json", "\"tool_name\""]),
    signature("apertus", &["<|tools_prefix|>"]),
    signature("gigachat31", &["<|role_sep|>", "<|function_call|>"]),
    signature("gigachat3", &["<|message_sep|>", "<|role_sep|>", "function call"]),
    signature("internlm", &["<|action_start|>", "<|plugin|>"]),
    signature("plamo3", &["<|plamo:begin_tool_request:plamo|>"]),
    signature("inkling", &["<|content_invoke_tool_json|>"]),
    signature("longcat", &["<longcat_tool_call>"]),
    signature("functools", &["functools["]),
    signature("tool_calls", &["<tool_calls>"]),
    signature("toolcall", &["<TOOLCALL>"]),
    signature("olmo3", &["<function_calls>"]),
    signature("granite3", &["<|tool_call|>"]),
    signature("hermes", &["<tool_call>"]),
    Signature { format: "llama3", with: &["\"parameters\"", "ipython"], without: &["<|channel|>"] },
    signature("llama3", &["<|python_tag|>"]),
];

/// The format whose signature is in this template.
pub(super) fn format_in(template: &str) -> Option<Evidence> {
    let has = |mark: &&str| template.contains(mark);
    let found =
        SIGNATURES.iter().find(|it| it.with.iter().all(has) && !it.without.iter().any(has))?;
    Some(Evidence { format: found.format, sign: Sign::Template(found.with) })
}
