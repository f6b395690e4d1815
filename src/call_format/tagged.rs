//! Formats that write each argument in tags of its own, as text.

use super::{Body, Closer, Frame, Label, Row, Tags};

/// A frame around each call.
const FRAME: Frame = Frame { open: &[], gap: "\n", close: &[], is_shared: false };

/// `<parameter=k>`, a line break, the value, a line break, `</parameter>`.
const PARAMETER: Tags = Tags {
    key: ["<parameter=", ">"],
    hint: None,
    gap: "",
    value: ["", "</parameter>"],
    is_trimmed: true,
    end: "\n",
};

/// `<tool_call>`, `<function=f>`, parameters, `</function>`, `</tool_call>`.
const FUNCTION: Row = Row {
    frame: Some(Frame { open: &["<tool_call>"], close: &["</tool_call>"], ..FRAME }),
    openers: &["<function="],
    label: Some(Label { end: ">", ..Label::PLAIN }),
    gap: "\n",
    body: Body::Tagged(PARAMETER),
    closer: Some(Closer { gap: "", text: "</function>" }),
    between: "\n",
    result: ["<tool_response>\n", "\n</tool_response>"],
    ..Row::PLAIN
};

/// Qwen3-Coder, Qwen3.5 and later, Nemotron 3, Step 3.5.
pub(super) static QWEN3_CODER: Row = Row { name: "qwen3_coder", ..FUNCTION };

/// The same without line breaks: MiMo, Step 5.
pub(super) static MIMO: Row = Row {
    name: "mimo",
    frame: Some(Frame { open: &["<tool_call>"], gap: "", close: &["</tool_call>"], ..FRAME }),
    gap: "",
    body: Body::Tagged(Tags { is_trimmed: false, end: "", ..PARAMETER }),
    between: "",
    ..FUNCTION
};

/// Seed-OSS.
pub(super) static SEED_OSS: Row = Row {
    name: "seed_oss",
    frame: Some(Frame { open: &["<seed:tool_call>"], close: &["</seed:tool_call>"], ..FRAME }),
    reasoning: ["<seed:think>", "</seed:think>"],
    result: ["", ""],
    ..FUNCTION
};

/// MiniMax M2.
pub(super) static MINIMAX_M2: Row = Row {
    name: "minimax_m2",
    frame: Some(Frame {
        open: &["<minimax:tool_call>"],
        gap: "\n",
        close: &["</minimax:tool_call>"],
        is_shared: true,
    }),
    openers: &["<invoke name=\""],
    label: Some(Label { end: "\">", ..Label::PLAIN }),
    gap: "\n",
    body: Body::Tagged(Tags { key: ["<parameter name=\"", "\">"], is_trimmed: false, ..PARAMETER }),
    closer: Some(Closer { gap: "", text: "</invoke>" }),
    between: "\n",
    ..Row::PLAIN
};

/// A row of DeepSeek's markup language, whose tags say whether a value is text.
macro_rules! dsml {
    ($name:literal, $tag:literal, $calls:literal) => {
        Row {
            name: $name,
            frame: Some(Frame {
                open: &[concat!("<", $tag, $calls, ">")],
                gap: "\n",
                close: &[concat!("</", $tag, $calls, ">")],
                is_shared: true,
            }),
            openers: &[concat!("<", $tag, "invoke name=\"")],
            label: Some(Label { end: "\">", ..Label::PLAIN }),
            gap: "\n",
            body: Body::Tagged(Tags {
                key: [concat!("<", $tag, "parameter name=\""), "\" string=\""],
                hint: Some("\">"),
                gap: "",
                value: ["", concat!("</", $tag, "parameter>")],
                is_trimmed: false,
                end: "\n",
            }),
            closer: Some(Closer { gap: "", text: concat!("</", $tag, "invoke>") }),
            between: "\n",
            ..Row::PLAIN
        }
    };
}

/// DeepSeek V3.2.
pub(super) static DSML_V32: Row = dsml!("dsml_v32", "｜DSML｜", "function_calls");

/// DeepSeek V4.
pub(super) static DSML_V4: Row = dsml!("dsml_v4", "｜DSML｜", "tool_calls");

/// DeepSeek V4.1: a blank follows each `｜DSML｜`.
pub(super) static DSML_V41: Row = dsml!("dsml_v41", "｜DSML｜ ", "calls");

/// GigaChat 3.5.
pub(super) static GCML: Row = dsml!("gcml", "｜GCML｜", "tool_calls");

/// GLM 4.5 and 4.6, Ling 3, Laguna, Spark 2.5.
pub(super) static GLM45: Row = Row {
    name: "glm45",
    openers: &["<tool_call>"],
    label: Some(Label { end: "\n", stops: &["<arg_key>", "</tool_call>"], ..Label::PLAIN }),
    body: Body::Tagged(GLM_ARGUMENT),
    closer: Some(Closer { gap: "", text: "</tool_call>" }),
    between: "\n",
    result: ["<tool_response>\n", "\n</tool_response>"],
    ..Row::PLAIN
};

const GLM_ARGUMENT: Tags = Tags {
    key: ["<arg_key>", "</arg_key>"],
    hint: None,
    gap: "\n",
    value: ["<arg_value>", "</arg_value>"],
    is_trimmed: false,
    end: "\n",
};

/// GLM 4.7 and 5: the same without line breaks.
pub(super) static GLM47: Row = Row {
    name: "glm47",
    openers: &["<tool_call>"],
    label: Some(Label { stops: &["<arg_key>", "</tool_call>"], ..Label::PLAIN }),
    body: Body::Tagged(Tags { gap: "", end: "", ..GLM_ARGUMENT }),
    closer: Some(Closer { gap: "", text: "</tool_call>" }),
    result: ["<tool_response>\n", "\n</tool_response>"],
    ..Row::PLAIN
};
