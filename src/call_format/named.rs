//! Formats that write the tool's name before its arguments, a JSON object.

use super::{Closer, Fence, Frame, Label, LabelId, Row};

/// `[TOOL_CALLS]name[ARGS]{...}`: Ministral 3, Devstral, Magistral, Mistral Large 3.
pub(super) static MISTRAL_ARGS: Row = Row {
    name: "mistral_args",
    has_special: true,
    openers: &["[TOOL_CALLS]"],
    label: Some(Label { ends: &["[ARGS]"], ..Label::PLAIN }),
    result: ["[TOOL_RESULTS]", "[/TOOL_RESULTS]"],
    reasoning: &[["[THINK]", "[/THINK]"]],
    ..Row::PLAIN
};

/// The same with an id: Mistral Small 3.2.
pub(super) static MISTRAL_ARGS_ID: Row = Row {
    name: "mistral_args_id",
    has_special: true,
    openers: &["[TOOL_CALLS]"],
    label: Some(Label {
        id: Some(LabelId::After("[CALL_ID]", 9)),
        ends: &["[ARGS]"],
        ..Label::PLAIN
    }),
    result: ["[TOOL_RESULTS]", "[/TOOL_RESULTS]"],
    reasoning: &[["[THINK]", "[/THINK]"]],
    ..Row::PLAIN
};

/// What DeepSeek's models write around calls.
const DEEPSEEK_FRAME: Frame = Frame {
    open: &["<｜tool▁calls▁begin｜>"],
    gap: "",
    close: &["<｜tool▁calls▁end｜>"],
    is_shared: true,
};

const DEEPSEEK_RESULT: [&str; 2] = ["<｜tool▁output▁begin｜>", "<｜tool▁output▁end｜>"];

/// DeepSeek R1 and V3, Cogito: the name on a line, the arguments in a code fence.
pub(super) static DEEPSEEK_V3: Row = Row {
    name: "deepseek_v3",
    frame: Some(DEEPSEEK_FRAME),
    openers: &["<｜tool▁call▁begin｜>function<｜tool▁sep｜>"],
    label: Some(Label { ends: &["\n"], ..Label::PLAIN }),
    fence: Fence::Usual,
    closer: Some(Closer { gap: "", text: "<｜tool▁call▁end｜>" }),
    between: "\n",
    result: DEEPSEEK_RESULT,
    ..Row::PLAIN
};

/// DeepSeek V3.1 and V3.2-Exp.
pub(super) static DEEPSEEK_V31: Row = Row {
    name: "deepseek_v31",
    frame: Some(DEEPSEEK_FRAME),
    openers: &["<｜tool▁call▁begin｜>"],
    label: Some(Label { ends: &["<｜tool▁sep｜>"], ..Label::PLAIN }),
    closer: Some(Closer { gap: "", text: "<｜tool▁call▁end｜>" }),
    result: DEEPSEEK_RESULT,
    ..Row::PLAIN
};

/// Kimi K2. Its models also write the section's marks in the singular, and leave out `functions.`.
pub(super) static KIMI_K2: Row = Row {
    name: "kimi_k2",
    has_special: true,
    frame: Some(Frame {
        open: &["<|tool_calls_section_begin|>", "<|tool_call_section_begin|>"],
        gap: "",
        close: &["<|tool_calls_section_end|>", "<|tool_call_section_end|>"],
        is_shared: true,
    }),
    openers: &["<|tool_call_begin|>"],
    label: Some(Label {
        prefix: "functions.",
        id: Some(LabelId::Number),
        ends: &["<|tool_call_argument_begin|>"],
        stops: &[],
    }),
    closer: Some(Closer { gap: "", text: "<|tool_call_end|>" }),
    ..Row::PLAIN
};

/// Functionary medium v3.1.
pub(super) static FUNCTIONARY_V31: Row = Row {
    name: "functionary_v31",
    openers: &["<function="],
    label: Some(Label { ends: &[">"], ..Label::PLAIN }),
    closer: Some(Closer { gap: "", text: "</function>" }),
    ..Row::PLAIN
};

/// `PLaMo` 3.
pub(super) static PLAMO3: Row = Row {
    name: "plamo3",
    has_special: true,
    frame: Some(Frame {
        open: &["<|plamo:begin_tool_requests:plamo|>"],
        gap: "",
        close: &["<|plamo:end_tool_requests:plamo|>"],
        is_shared: true,
    }),
    openers: &["<|plamo:begin_tool_request:plamo|><|plamo:begin_tool_name:plamo|>"],
    label: Some(Label {
        ends: &[
            "<|plamo:end_tool_name:plamo|><|plamo:begin_tool_arguments:plamo|><|plamo:constrain|>\
             json<|plamo:msg|>",
            "<|plamo:end_tool_name:plamo|><|plamo:begin_tool_arguments:plamo|><|plamo:msg|>",
        ],
        ..Label::PLAIN
    }),
    closer: Some(Closer {
        gap: "",
        text: "<|plamo:end_tool_arguments:plamo|><|plamo:end_tool_request:plamo|>",
    }),
    reasoning: &[["<|plamo:begin_think:plamo|>", "<|plamo:end_think:plamo|>"]],
    ..Row::PLAIN
};
