//! Formats that write each argument in tags of its own, as text.

use super::{Body, Closer, Frame, Hint, Label, LabelId, Row, Tags};

/// A frame around each call.
const FRAME: Frame = Frame { open: &[], gap: "\n", close: &[], is_shared: false };

/// `<parameter=k>`, a line break, the value, a line break, `</parameter>`.
const PARAMETER: Tags = Tags {
    key: ["<parameter=", ">"],
    hint: None,
    gap: "",
    value: ["", "</parameter>"],
    wrap: None,
    is_trimmed: true,
    end: "\n",
};

/// `<tool_call>`, `<function=f>`, parameters, `</function>`, `</tool_call>`.
const FUNCTION: Row = Row {
    frame: Some(Frame { open: &["<tool_call>"], close: &["</tool_call>"], ..FRAME }),
    openers: &["<function="],
    label: Some(Label { ends: &[">"], ..Label::PLAIN }),
    gap: "\n",
    body: Body::Tagged(PARAMETER),
    closer: Some(Closer { gap: "", text: "</function>" }),
    between: "\n",
    result: ["<tool_response>\n", "\n</tool_response>"],
    ..Row::PLAIN
};

/// Qwen3-Coder, Qwen3.5 and later, Nemotron 3, Step 3.5. Some of them call before they close their
/// reasoning.
pub(super) static QWEN3_CODER: Row = Row { name: "qwen3_coder", ends_reasoning: true, ..FUNCTION };

/// The same without line breaks: MiMo.
pub(super) static MIMO: Row = Row { name: "mimo", ..ON_ONE_LINE };

/// Step 5 writes calls in the same way.
pub(super) static STEP5: Row = Row { name: "step5", ..ON_ONE_LINE };

const ON_ONE_LINE: Row = Row {
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
    reasoning: &[["<seed:think>", "</seed:think>"]],
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
    ..INVOKE
};

/// `<invoke name="f">`, parameters, `</invoke>`, without its frame.
const INVOKE: Row = Row {
    openers: &["<invoke name=\""],
    label: Some(Label { ends: &["\">"], ..Label::PLAIN }),
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
            label: Some(Label { ends: &["\">"], ..Label::PLAIN }),
            gap: "\n",
            body: Body::Tagged(Tags {
                key: [concat!("<", $tag, "parameter name=\""), "\" string=\""],
                hint: Some(Hint::IsText("\">")),
                gap: "",
                value: ["", concat!("</", $tag, "parameter>")],
                wrap: None,
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
    label: Some(Label { ends: &["\n"], stops: &["<arg_key>", "</tool_call>"], ..Label::PLAIN }),
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
    wrap: None,
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

/// Step 3.
pub(super) static STEP3: Row = Row {
    name: "step3",
    frame: Some(Frame {
        open: &["<｜tool_calls_begin｜>"],
        gap: "",
        close: &["<｜tool_calls_end｜>"],
        is_shared: true,
    }),
    openers: &["<｜tool_call_begin｜>function<｜tool_sep｜><steptml:invoke name=\""],
    label: Some(Label { ends: &["\">"], ..Label::PLAIN }),
    body: Body::Tagged(Tags {
        key: ["<steptml:parameter name=\"", "\">"],
        value: ["", "</steptml:parameter>"],
        is_trimmed: false,
        end: "",
        ..PARAMETER
    }),
    closer: Some(Closer { gap: "", text: "</steptml:invoke><｜tool_call_end｜>" }),
    ..Row::PLAIN
};

/// A row of Hunyuan 3 and 4, with what its tags end with.
macro_rules! hunyuan {
    ($name:literal, $end:literal) => {
        Row {
            name: $name,
            frame: Some(Frame {
                open: &[concat!("<tool_calls", $end)],
                gap: "\n",
                close: &[concat!("</tool_calls", $end)],
                is_shared: true,
            }),
            openers: &[concat!("<tool_call", $end)],
            label: Some(Label {
                ends: &[concat!("<tool_sep", $end)],
                stops: &[concat!("<arg_key", $end), concat!("</tool_call", $end)],
                ..Label::PLAIN
            }),
            gap: "\n",
            body: Body::Tagged(Tags {
                key: [concat!("<arg_key", $end), concat!("</arg_key", $end)],
                value: [concat!("<arg_value", $end), concat!("</arg_value", $end)],
                ..GLM_ARGUMENT
            }),
            closer: Some(Closer { gap: "", text: concat!("</tool_call", $end) }),
            between: "\n",
            reasoning: &[[concat!("<think", $end), concat!("</think", $end)]],
            ..Row::PLAIN
        }
    };
}

/// Hunyuan 3 and 4. The latter leaves out `<tool_sep>`.
pub(super) static HUNYUAN: Row = hunyuan!("hunyuan", ">");

/// Hunyuan 3 as it was published.
pub(super) static HUNYUAN_OPENSOURCE: Row = hunyuan!("hunyuan_opensource", ":opensource>");

/// K2 Horizon, Jais 3. Some of its models name each value's type.
pub(super) static K2_HORIZON: Row = Row {
    name: "k2_horizon",
    frame: Some(Frame {
        open: &["<ifm|tool_calls>"],
        gap: "\n",
        close: &["</ifm|tool_calls>"],
        is_shared: true,
    }),
    openers: &["<ifm|tool_call>"],
    label: Some(Label {
        ends: &["\n"],
        stops: &["<ifm|arg_key>", "</ifm|tool_call>"],
        ..Label::PLAIN
    }),
    body: Body::Tagged(Tags {
        key: ["<ifm|arg_key>", "</ifm|arg_key>"],
        hint: Some(Hint::Between(["<ifm|arg_type>", "</ifm|arg_type>"])),
        value: ["<ifm|arg_value>", "</ifm|arg_value>"],
        ..GLM_ARGUMENT
    }),
    closer: Some(Closer { gap: "", text: "</ifm|tool_call>" }),
    between: "\n",
    reasoning: &[
        ["<ifm|think>", "</ifm|think>"],
        ["<ifm|think_fast>", "</ifm|think_fast>"],
        ["<ifm|think_faster>", "</ifm|think_faster>"],
    ],
    ..Row::PLAIN
};

/// Kimi K3, which wraps its answers in a block.
pub(super) static KIMI_K3: Row = Row {
    name: "kimi_k3",
    has_special: true,
    frame: Some(Frame {
        open: &["<|open|>tools<|sep|>"],
        gap: "",
        close: &["<|close|>tools<|sep|>"],
        is_shared: true,
    }),
    openers: &["<|open|>call tool=\""],
    label: Some(Label {
        id: Some(LabelId::NumberAfter("\" index=\"")),
        ends: &["\"<|sep|>"],
        ..Label::PLAIN
    }),
    body: Body::Tagged(Tags {
        key: ["<|open|>argument key=\"", "\" type=\""],
        hint: Some(Hint::Type("\"<|sep|>")),
        value: ["", "<|close|>argument<|sep|>"],
        is_trimmed: false,
        end: "",
        ..PARAMETER
    }),
    closer: Some(Closer { gap: "", text: "<|close|>call<|sep|>" }),
    hidden: &["<|open|>response<|sep|>", "<|close|>response<|sep|>", "<|end_of_msg|>"],
    reasoning: &[["<|open|>think<|sep|>", "<|close|>think<|sep|>"]],
    ..Row::PLAIN
};

/// dots 3.
pub(super) static DOTS: Row = Row {
    name: "dots",
    frame: Some(Frame {
        open: &["<dots_function_call>"],
        gap: "\n",
        close: &["</dots_function_call>"],
        is_shared: true,
    }),
    ..INVOKE
};

/// `MiniCPM` 5.
pub(super) static MINICPM5: Row = Row {
    name: "minicpm5",
    openers: &["<function name=\""],
    label: Some(Label { ends: &["\">"], ..Label::PLAIN }),
    body: Body::Tagged(Tags {
        key: ["<param name=\"", "\">"],
        value: ["", "</param>"],
        wrap: Some(["<![CDATA[", "]]>"]),
        is_trimmed: false,
        end: "",
        ..PARAMETER
    }),
    closer: Some(Closer { gap: "", text: "</function>" }),
    result: ["<tool_response>\n", "\n</tool_response>"],
    ..Row::PLAIN
};
