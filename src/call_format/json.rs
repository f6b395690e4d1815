//! Formats in which a call is a JSON object that has the tool's name in it.

use super::{Bare, Body, Closer, Fence, JsonKeys, Label, Row};

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
/// others. Qwen2.5-Coder leaves out the tags.
pub static HERMES: Row =
    Row { name: "hermes", bare: Some(Bare { word: "", bracket: b'{' }), ..TOOL_CALL };

const TOOL_CALL: Row = Row {
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

/// ERNIE 4.5, which wraps its answers in tags.
pub(super) static ERNIE45: Row =
    Row { name: "ernie45", hidden: &["<response>\n", "\n</response>"], ..TOOL_CALL };

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
pub(super) static GRANITE3: Row = Row {
    name: "granite3",
    openers: &["<|tool_call|>", "<tool_call>"],
    has_special: true,
    ..ARRAY
};

/// Granite 20B Function Calling.
pub(super) static GRANITE20B: Row =
    Row { name: "granite20b", openers: &["<function_call>"], gap: " ", ..OBJECT };

/// Command R7B, Command A.
pub(super) static COHERE: Row = Row {
    name: "cohere",
    has_special: true,
    openers: &["<|START_ACTION|>"],
    body: Body::Json(TOOL_NAME_KEYS),
    closer: Some(Closer { gap: "", text: "<|END_ACTION|>" }),
    hidden: &["<|START_RESPONSE|>", "<|END_RESPONSE|>", "<|START_TEXT|>", "<|END_TEXT|>"],
    reasoning: &[["<|START_THINKING|>", "<|END_THINKING|>"]],
    ..ARRAY
};

/// Mistral 7B v0.3, Nemo, Mixtral.
pub(super) static MISTRAL_ARRAY: Row = Row {
    name: "mistral_array",
    has_special: true,
    openers: &["[TOOL_CALLS]"],
    result: ["[TOOL_RESULTS]", "[/TOOL_RESULTS]"],
    ..ARRAY
};

/// InternLM 2, Intern S1.
pub(super) static INTERNLM: Row = Row {
    name: "internlm",
    has_special: true,
    openers: &["<|action_start|><|plugin|>", "<|action_start|> <|plugin|>"],
    gap: "\n",
    body: Body::Json(PARAMETERS_KEYS),
    closer: Some(Closer { gap: "", text: "<|action_end|>" }),
    ..OBJECT
};

/// GigaChat 3.
pub(super) static GIGACHAT3: Row = Row {
    name: "gigachat3",
    has_special: true,
    openers: &["<|message_sep|>\n\nfunction call<|role_sep|>\n"],
    ..OBJECT
};

/// GigaChat 3.1.
pub(super) static GIGACHAT31: Row =
    Row { name: "gigachat31", openers: &["<|function_call|>"], has_special: true, ..OBJECT };

/// Apertus: `[{"f": {...}}]`.
pub(super) static APERTUS: Row = Row {
    name: "apertus",
    has_special: true,
    openers: &["<|tools_prefix|>"],
    body: Body::Keyed,
    closer: Some(Closer { gap: "", text: "<|tools_suffix|>" }),
    reasoning: &[["<|inner_prefix|>", "<|inner_suffix|>"]],
    ..ARRAY
};

/// Command R+: the opener is an ordinary word, so the fence has to be there.
pub(super) static COHERE_R_PLUS: Row = Row {
    name: "cohere_r_plus",
    openers: &["Action:"],
    gap: "\n",
    fence: Fence::Needed,
    body: Body::Json(TOOL_NAME_KEYS),
    ..ARRAY
};

/// Inkling: the name stands before the object and in it.
pub(super) static INKLING: Row = Row {
    name: "inkling",
    has_special: true,
    openers: &["<|message_model|>"],
    label: Some(Label { ends: &["<|content_invoke_tool_json|>"], ..Label::PLAIN }),
    body: Body::Json(JsonKeys {
        arguments: &["args", "arguments", "parameters", "tool_args", "input"],
        ..KEYS
    }),
    closer: Some(Closer { gap: "", text: "<|end_message|>" }),
    ..Row::PLAIN
};

/// Llama 3 and 4: the object alone.
pub(super) static LLAMA3: Row = Row {
    name: "llama3",
    openers: &["", "<|python_tag|>"],
    bare: Some(Bare { word: "", bracket: b'{' }),
    body: Body::Json(PARAMETERS_KEYS),
    hidden: &["<|eom_id|>", "<|eot_id|>"],
    ..OBJECT
};

/// xLAM 2: the array alone.
pub(super) static XLAM: Row = Row {
    name: "xlam",
    openers: &["", "[TOOL_CALLS]", "<tool_call>"],
    bare: Some(Bare { word: "", bracket: b'[' }),
    fence: Fence::Read,
    hidden: &["</tool_call>"],
    ..ARRAY
};

/// Phi-4-mini, `FireFunction` v2: `functools[...]`.
pub(super) static FUNCTOOLS: Row = Row {
    name: "functools",
    openers: &[""],
    bare: Some(Bare { word: "functools", bracket: b'[' }),
    ..ARRAY
};
