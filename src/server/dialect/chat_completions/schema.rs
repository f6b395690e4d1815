//! The schemas of answers. Chunks are spliced by hand, token by token, and no struct of them is ever
//! made; tests hold what is sent to these.

#![expect(dead_code, reason = "only the schemas of these structs are used")]

use schemars::{JsonSchema, SchemaGenerator};
use serde_json::Value;

use crate::event::{Event, Usage};
use crate::server::dialect::schema::OpenAiError;

/// Adds the schemas.
pub(in crate::server) fn add(generator: &mut SchemaGenerator) {
    generator.subschema_for::<ChatCompletion>();
    generator.subschema_for::<ChatCompletionChunk>();
}

/// An answer in one piece.
#[derive(JsonSchema)]
struct ChatCompletion {
    id: String,
    #[schemars(extend("const" = "chat.completion"))]
    object: String,
    /// When the turn began, in seconds since the Unix epoch.
    created: u64,
    /// The model, as the client named it.
    model: String,
    /// The answer.
    choices: [Choice; 1],
    usage: Usage,
    /// What the gateway's own tools did, with `chat.server_tools: extension`.
    #[serde(skip_serializing_if = "absent")]
    tether: Tether,
}

#[derive(JsonSchema)]
#[schemars(inline)]
struct Tether {
    /// Events as in the gateway's own API.
    tools: Vec<Event<'static>>,
}

#[derive(JsonSchema)]
#[schemars(inline)]
struct Choice {
    index: u32,
    message: Message,
    logprobs: (),
    finish_reason: FinishReason,
}

/// Why an answer ended.
#[derive(JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
enum FinishReason {
    /// It is complete, or asks the user something.
    Stop,
    /// The token limit was reached.
    Length,
    /// A filter of the model server cut it off.
    ContentFilter,
    /// The client has to run tools.
    ToolCalls,
}

#[derive(JsonSchema)]
#[schemars(inline)]
struct Message {
    #[schemars(extend("const" = "assistant"))]
    role: String,
    /// The words. Null if there are calls alone.
    content: Option<String>,
    refusal: (),
    /// Always empty.
    annotations: Vec<Value>,
    /// The model's reasoning.
    #[serde(skip_serializing_if = "absent")]
    reasoning_content: String,
    /// The calls that the client has to run.
    #[serde(skip_serializing_if = "absent")]
    tool_calls: Vec<ToolCall>,
}

#[derive(JsonSchema)]
#[schemars(inline)]
struct ToolCall {
    id: String,
    #[schemars(extend("const" = "function"))]
    r#type: String,
    function: Function,
}

#[derive(JsonSchema)]
#[schemars(inline)]
struct Function {
    name: String,
    /// JSON as text.
    arguments: String,
}

/// A piece of a streamed answer, or the error with which it fails.
#[derive(JsonSchema)]
#[schemars(untagged)]
enum ChatCompletionChunk {
    /// A piece.
    Chunk(Chunk),
    /// The turn has failed.
    Failed(OpenAiError),
}

#[derive(JsonSchema)]
#[schemars(inline)]
struct Chunk {
    id: String,
    #[schemars(extend("const" = "chat.completion.chunk"))]
    object: String,
    /// When the turn began, in seconds since the Unix epoch.
    created: u64,
    /// The model, as the client named it.
    model: String,
    /// One piece; none in the last chunk, which has the usage.
    #[schemars(length(max = 1))]
    choices: Vec<ChunkChoice>,
    /// With `stream_options.include_usage`: null in all chunks but the last.
    #[serde(skip_serializing_if = "absent")]
    usage: Option<Usage>,
    /// An event of the gateway's own tools, with `chat.server_tools: extension`.
    #[serde(skip_serializing_if = "absent")]
    tether: Event<'static>,
}

#[derive(JsonSchema)]
#[schemars(inline)]
struct ChunkChoice {
    index: u32,
    delta: Delta,
    logprobs: (),
    /// Null until the answer ends.
    finish_reason: Option<FinishReason>,
}

#[derive(JsonSchema)]
#[schemars(inline)]
struct Delta {
    /// In the first chunk.
    #[serde(skip_serializing_if = "absent")]
    #[schemars(extend("const" = "assistant"))]
    role: String,
    #[serde(skip_serializing_if = "absent")]
    content: String,
    #[serde(skip_serializing_if = "absent")]
    reasoning_content: String,
    #[serde(skip_serializing_if = "absent")]
    tool_calls: Vec<CallDelta>,
}

/// A call comes in two pieces: its name, then its arguments.
#[derive(JsonSchema)]
#[schemars(inline)]
struct CallDelta {
    /// Which call, from 0.
    index: u32,
    #[serde(skip_serializing_if = "absent")]
    id: String,
    #[serde(skip_serializing_if = "absent")]
    #[schemars(extend("const" = "function"))]
    r#type: String,
    function: FunctionDelta,
}

#[derive(JsonSchema)]
#[schemars(inline)]
struct FunctionDelta {
    #[serde(skip_serializing_if = "absent")]
    name: String,
    /// JSON as text.
    arguments: String,
}
