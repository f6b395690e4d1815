//! `hermes`: a JSON object between tags, the format that Hermes, Qwen2.5, Qwen3 and many others
//! were trained on (`docs/call-formats.md`).

use super::marker_json::JSON_KEYS;
use super::{Body, Closer, Row};

/// `<tool_call>`, a JSON object on a line of its own, `</tool_call>`.
pub static HERMES: Row = Row {
    name: "hermes",
    openers: &["<tool_call>"],
    is_taught: false,
    gap: "\n",
    body: Body::Json(JSON_KEYS),
    closer: Some(Closer { gap: "\n", text: "</tool_call>" }),
    between: "\n",
    result: ["<tool_response>\n", "\n</tool_response>"],
    lesson: "For each function call, return a JSON object with \"name\" and \"arguments\" within \
             <tool_call></tool_call> tags:\n\
             <tool_call>\n{\"name\": <function-name>, \"arguments\": <args-json-object>}\n\
             </tool_call>",
    reasoning: ["<think>", "</think>"],
};
