//! The schemas of answers. The frames of words are spliced by hand, and no struct of them is ever
//! made; tests hold what is sent to these.

#![expect(dead_code, reason = "only the schemas of these structs are used")]

use schemars::{JsonSchema, SchemaGenerator};
use serde_json::{Map, Value};

/// Adds the schemas.
pub(in crate::server) fn add(generator: &mut SchemaGenerator) {
    generator.subschema_for::<Message>();
    generator.subschema_for::<MessagesEvent>();
    generator.subschema_for::<TokenCount>();
    generator.subschema_for::<AnthropicError>();
}

/// About how many tokens a request takes.
#[derive(JsonSchema)]
struct TokenCount {
    input_tokens: u64,
}

/// An answer. As an event, it has no content yet.
#[derive(JsonSchema)]
struct Message {
    id: String,
    #[schemars(extend("const" = "message"))]
    r#type: String,
    #[schemars(extend("const" = "assistant"))]
    role: String,
    /// The model, as the client named it.
    model: String,
    content: Vec<ContentBlock>,
    /// Null as long as the answer goes on.
    stop_reason: Option<StopReason>,
    /// The stop sequence at which it ends, if the stop reason is `stop_sequence`.
    stop_sequence: Option<String>,
    stop_details: (),
    container: (),
    usage: MessagesUsage,
}

/// Why an answer ended.
#[derive(JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
enum StopReason {
    /// It is complete, or asks the user something.
    EndTurn,
    /// The token limit was reached.
    MaxTokens,
    /// A filter of the model server cut it off.
    Refusal,
    /// The client has to run tools.
    ToolUse,
    /// One of the client's stop sequences follows.
    StopSequence,
}

/// Tokens. Those of an answer are known at its end.
#[derive(JsonSchema)]
struct MessagesUsage {
    input_tokens: u64,
    output_tokens: u64,
    /// Always 0.
    cache_creation_input_tokens: u64,
    /// Always 0.
    cache_read_input_tokens: u64,
    cache_creation: (),
    output_tokens_details: (),
    server_tool_use: (),
    service_tier: (),
    inference_geo: (),
}

/// A block of an answer. The words of a streamed one come as deltas.
#[derive(JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
enum ContentBlock {
    /// Words.
    Text { text: String, citations: [Value; 0] },
    /// Reasoning, if the client has asked for it.
    Thinking {
        thinking: String,
        /// Clients send it back; nothing depends on it.
        signature: String,
    },
    /// A call that the client has to run.
    ToolUse { id: String, name: String, input: Map<String, Value>, caller: Caller },
    /// A call of one of the gateway's tools, with `messages.server_tools: mcp_tool_use`.
    McpToolUse { id: String, name: String, server_name: String, input: Map<String, Value> },
    /// What it returned.
    McpToolResult { tool_use_id: String, is_error: bool, content: [TextContent; 1] },
}

#[derive(JsonSchema)]
#[schemars(inline)]
struct Caller {
    #[schemars(extend("const" = "direct"))]
    r#type: String,
}

#[derive(JsonSchema)]
#[schemars(inline)]
struct TextContent {
    #[schemars(extend("const" = "text"))]
    r#type: String,
    text: String,
}

/// An event of a streamed answer.
#[derive(JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
enum MessagesEvent {
    /// Always the first event.
    MessageStart { message: Message },
    /// A block begins.
    ContentBlockStart { index: u32, content_block: ContentBlock },
    /// A block goes on.
    ContentBlockDelta { index: u32, delta: BlockDelta },
    /// A block has ended.
    ContentBlockStop { index: u32 },
    /// The answer ends.
    MessageDelta { delta: MessageDelta, usage: MessagesUsage },
    /// The last event of an answer.
    MessageStop,
    /// A sign of life.
    Ping,
    /// The turn has failed. Nothing follows.
    Error { error: ErrorBody },
}

/// What is added to a block.
#[derive(JsonSchema)]
#[serde(tag = "type")]
enum BlockDelta {
    /// Words.
    #[serde(rename = "text_delta")]
    Text { text: String },
    /// Reasoning.
    #[serde(rename = "thinking_delta")]
    Thinking { thinking: String },
    /// What follows reasoning.
    #[serde(rename = "signature_delta")]
    Signature { signature: String },
    /// The input of a call, in one piece.
    #[serde(rename = "input_json_delta")]
    InputJson {
        /// JSON as text.
        partial_json: String,
    },
}

#[derive(JsonSchema)]
#[schemars(inline)]
struct MessageDelta {
    stop_reason: StopReason,
    /// The stop sequence at which it ends, if the stop reason is `stop_sequence`.
    stop_sequence: Option<String>,
    stop_details: (),
    container: (),
}

/// Why a request was refused, or failed.
#[derive(JsonSchema)]
struct AnthropicError {
    #[schemars(extend("const" = "error"))]
    r#type: String,
    error: ErrorBody,
}

/// An error of Messages.
#[derive(JsonSchema)]
#[schemars(inline)]
struct ErrorBody {
    /// The kind of error.
    r#type: String,
    /// For people.
    message: String,
}
