//! Formats in which a call is a JSON object that has the tool's name in it.

use super::{Body, Closer, JsonKeys, Row};

/// The keys that models write, whatever they are told.
pub(super) const KEYS: JsonKeys = JsonKeys {
    name: &["name", "tool_name", "tool", "function"],
    arguments: &["arguments", "args", "parameters", "tool_args", "input"],
};

/// The same, for models trained on `tool_name` and `parameters`.
const TOOL_NAME_KEYS: JsonKeys =
    JsonKeys { name: &["tool_name", "name", "tool", "function"], ..PARAMETERS_KEYS };

/// The same, for models trained on `name` and `parameters`.
const PARAMETERS_KEYS: JsonKeys =
    JsonKeys { arguments: &["parameters", "arguments", "args", "tool_args", "input"], ..KEYS };

/// A row of this family.
const OBJECT: Row = Row { body: Body::Json(KEYS), between: "\n", ..Row::PLAIN };

/// A row of this family whose calls are written as one array.
const ARRAY: Row = Row { body: Body::Json(KEYS), is_array: true, ..Row::PLAIN };

/// `<<function_call>> {"name": "...", "arguments": {...}}`: a format that any model can be taught.
/// The operator can choose the marker.
pub static MARKER_JSON: Row = Row {
    name: "marker_json",
    openers: &["<<function_call>>"],
    is_taught: true,
    gap: " ",
    lesson: "Write one line: the marker {opener}, a space, then one JSON object with \"name\" and \
             \"arguments\". Nothing else. Several calls are several lines.",
    ..OBJECT
};

/// `<tool_call>`, a JSON object on a line of its own, `</tool_call>`: Hermes, Qwen2.5, Qwen3 and many
/// others.
pub static HERMES: Row = Row {
    name: "hermes",
    openers: &["<tool_call>"],
    gap: "\n",
    closer: Some(Closer { gap: "\n", text: "</tool_call>" }),
    result: ["<tool_response>\n", "\n</tool_response>"],
    lesson: "For each function call, return a JSON object with \"name\" and \"arguments\" within \
             <tool_call></tool_call> tags:\n\
             <tool_call>\n{\"name\": <function-name>, \"arguments\": <args-json-object>}\n\
             </tool_call>",
    ..OBJECT
};

/// The same with tags of its own.
pub(super) static LONGCAT: Row = Row {
    name: "longcat",
    openers: &["<longcat_tool_call>"],
    gap: "\n",
    closer: Some(Closer { gap: "\n", text: "</longcat_tool_call>" }),
    ..OBJECT
};

/// Jamba, Apriel, Hunyuan A13B.
pub(super) static TOOL_CALLS: Row = Row {
    name: "tool_calls",
    openers: &["<tool_calls>"],
    closer: Some(Closer { gap: "", text: "</tool_calls>" }),
    ..ARRAY
};

/// Nemotron Nano 2.
pub(super) static TOOLCALL: Row = Row {
    name: "toolcall",
    openers: &["<TOOLCALL>"],
    closer: Some(Closer { gap: "", text: "</TOOLCALL>" }),
    result: ["<TOOL_RESPONSE>", "</TOOL_RESPONSE>"],
    ..ARRAY
};

/// Granite 3. Some of its models write the tag that later ones learnt.
pub(super) static GRANITE3: Row =
    Row { name: "granite3", openers: &["<|tool_call|>", "<tool_call>"], ..ARRAY };

/// Granite 20B Function Calling.
pub(super) static GRANITE20B: Row =
    Row { name: "granite20b", openers: &["<function_call>"], gap: " ", ..OBJECT };

/// Command R7B, Command A.
pub(super) static COHERE: Row = Row {
    name: "cohere",
    openers: &["<|START_ACTION|>"],
    body: Body::Json(TOOL_NAME_KEYS),
    closer: Some(Closer { gap: "", text: "<|END_ACTION|>" }),
    reasoning: ["<|START_THINKING|>", "<|END_THINKING|>"],
    ..ARRAY
};

/// Mistral 7B v0.3, Nemo, Mixtral.
pub(super) static MISTRAL_ARRAY: Row = Row {
    name: "mistral_array",
    openers: &["[TOOL_CALLS]"],
    result: ["[TOOL_RESULTS]", "[/TOOL_RESULTS]"],
    ..ARRAY
};

/// InternLM 2, Intern S1.
pub(super) static INTERNLM: Row = Row {
    name: "internlm",
    openers: &["<|action_start|><|plugin|>", "<|action_start|> <|plugin|>"],
    gap: "\n",
    body: Body::Json(PARAMETERS_KEYS),
    closer: Some(Closer { gap: "", text: "<|action_end|>" }),
    ..OBJECT
};

/// GigaChat 3.
pub(super) static GIGACHAT3: Row = Row {
    name: "gigachat3",
    openers: &["<|message_sep|>\n\nfunction call<|role_sep|>\n"],
    ..OBJECT
};

/// GigaChat 3.1.
pub(super) static GIGACHAT31: Row =
    Row { name: "gigachat31", openers: &["<|function_call|>"], ..OBJECT };
