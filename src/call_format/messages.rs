//! Formats that write each call as a message of its own, with a header.

use super::{Body, Closer, Fence, Frame, Header, Label, Row, Tags};

/// What gpt-oss's header and its relatives have in common.
const CHANNELS: Header = Header {
    openers: &["<|start|>", "<|channel|>"],
    starts: &[
        " to=",
        "assistant to=",
        "assistant<|channel|>",
        "assistantfinal<|message|>",
        "assistantanalysis<|message|>",
        "assistantcommentary to=",
        "commentary to=",
        "analysis<|message|>",
        "final<|message|>",
    ],
    end: "<|message|>",
    recipient: " to=",
    others: &["assistant", "user", "all", "self"],
    itself: Some("self"),
    code: Some("python"),
    channels: Some(["<|channel|>", "analysis", "final"]),
    words: &[
        "assistant",
        "analysis",
        "commentary",
        "final",
        "<|constrain|>",
        "json",
        "code",
        "xml",
    ],
    message_end: "<|end|>",
};

/// What gpt-oss and Beam have in common: a call is a message in a channel, up to `<|call|>`.
const IN_CHANNELS: Row = Row {
    has_special: true,
    header: Some(CHANNELS),
    closer: Some(Closer { gap: "", text: "<|call|>" }),
    between: "<|start|>assistant",
    hidden: &["<|return|>"],
    reasoning: &[["<|channel|>analysis<|message|>", "<|end|>"]],
    ends_reasoning: true,
    ..Row::PLAIN
};

/// gpt-oss, which writes `Harmony`.
///
/// Source: `OpenAI`, "Harmony response format".
pub(super) static HARMONY: Row = Row {
    name: "harmony",
    openers: &["<|channel|>commentary to="],
    label: Some(Label {
        prefix: "functions.",
        ends: &[" <|constrain|>json<|message|>"],
        ..Label::PLAIN
    }),
    fence: Fence::Read,
    ..IN_CHANNELS
};

/// Beam, which writes arguments in tags.
pub(super) static BEAM: Row = Row {
    name: "beam",
    openers: &[" to="],
    label: Some(Label {
        ends: &["<|channel|>analysis <|constrain|>xml<|message|>"],
        ..Label::PLAIN
    }),
    body: Body::Tagged(Tags {
        key: ["<rfl:parameter name=\"", "\">"],
        hint: None,
        gap: "",
        value: ["", "</rfl:parameter>"],
        wrap: None,
        is_trimmed: true,
        end: "\n",
    }),
    ..IN_CHANNELS
};

/// Muse: a message to a tool holds a frame of calls.
pub(super) static MUSE: Row = Row {
    name: "muse",
    has_special: true,
    header: Some(Header {
        openers: &["<|start|>"],
        starts: &[" to=", "assistant to=", "assistant<|message|>"],
        channels: None,
        words: &["assistant"],
        message_end: "<|eom|>",
        ..CHANNELS
    }),
    frame: Some(Frame {
        open: &["<atem:function_calls>"],
        gap: "\n",
        close: &["</atem:function_calls>"],
        is_shared: false,
    }),
    openers: &["<atem:invoke name=\""],
    label: Some(Label { ends: &["\">"], ..Label::PLAIN }),
    gap: "\n",
    body: Body::Tagged(Tags {
        key: ["<atem:parameter name=\"", "\">"],
        hint: None,
        gap: "",
        value: ["", "</atem:parameter>"],
        wrap: None,
        is_trimmed: false,
        end: "\n",
    }),
    closer: Some(Closer { gap: "", text: "</atem:invoke>" }),
    between: "<|start|>assistant",
    hidden: &["<|eot|>"],
    reasoning: &[[" to=self<|message|>", "<|eom|>"]],
    ends_reasoning: true,
    ..Row::PLAIN
};

/// Functionary v3.2: `>>>`, the tool's name on a line, and its arguments. The prompt has written the first
/// `>>>`.
pub(super) static FUNCTIONARY_V32: Row = Row {
    name: "functionary_v32",
    header: Some(Header {
        openers: &[">>>"],
        starts: &[""],
        end: "\n",
        recipient: "",
        others: &["all"],
        itself: None,
        code: Some("python"),
        channels: None,
        words: &[],
        message_end: "",
    }),
    openers: &[">>>"],
    label: Some(Label { ends: &["\n"], ..Label::PLAIN }),
    ..Row::PLAIN
};
