//! Formats that write arguments as elements, in which objects and arrays are elements, too.

use super::{Body, Closer, Elements, Frame, Label, LabelId, Row};

/// MiniMax M3: each tag begins with `]<]minimax[>[`.
pub(super) static MINIMAX_M3: Row = Row {
    name: "minimax_m3",
    frame: Some(Frame {
        open: &["]<]minimax[>[<tool_call>"],
        gap: "\n",
        close: &["]<]minimax[>[</tool_call>"],
        is_shared: true,
    }),
    openers: &["]<]minimax[>[<invoke name=\""],
    label: Some(Label { ends: &["\">"], ..Label::PLAIN }),
    body: Body::Nested(Elements {
        open: "]<]minimax[>[<",
        close: "]<]minimax[>[</",
        end: ">",
        attributes: None,
    }),
    closer: Some(Closer { gap: "", text: "]<]minimax[>[</invoke>" }),
    between: "\n",
    // Where it does not think, its answer begins with the closing tag.
    hidden: &["</mm:think>"],
    reasoning: &[["<mm:think>", "</mm:think>"]],
    ..Row::PLAIN
};

/// Cohere's newest Command models, whose tags say what a value is.
///
/// Source: xgrammar, `cpp/converter_ext/cohere.cc`.
pub(super) static COHERE_XML: Row = Row {
    name: "cohere_xml",
    frame: Some(Frame {
        open: &["<cofl:tool_calls>"],
        gap: "",
        close: &["</cofl:tool_calls>"],
        is_shared: true,
    }),
    openers: &["<cofl:tool_call id=\""],
    label: Some(Label {
        id: Some(LabelId::NumberBefore("\" name=\"")),
        ends: &["\">"],
        ..Label::PLAIN
    }),
    body: Body::Nested(Elements {
        open: "<cofl:value",
        close: "</cofl:value",
        end: ">",
        attributes: Some([" name=", " type="]),
    }),
    closer: Some(Closer { gap: "", text: "</cofl:tool_call>" }),
    hidden: &[
        "<|START_RESPONSE|>",
        "<|END_RESPONSE|>",
        "<|START_TEXT|>",
        "<|END_TEXT|>",
        "<|END_OF_TURN_TOKEN|>",
    ],
    reasoning: &[["<|START_THINKING|>", "<|END_THINKING|>"]],
    ..Row::PLAIN
};
