//! The schemas of answers. Frames and objects are put together from bytes, so that an item is the
//! same wherever it appears, and no struct of them is ever made; tests hold what is sent to these.

#![expect(dead_code, reason = "only the schemas of these structs are used")]

mod events;

use schemars::{JsonSchema, SchemaGenerator};
use serde_json::{Map, Value};

use events::ResponseEvent;

/// Adds the schemas.
pub(in crate::server) fn add(generator: &mut SchemaGenerator) {
    generator.subschema_for::<Response>();
    generator.subschema_for::<ResponseEvent>();
    generator.subschema_for::<DeletedResponse>();
    generator.subschema_for::<InputItems>();
}

/// A response, as far as it has come.
#[derive(JsonSchema)]
struct Response {
    id: String,
    #[schemars(extend("const" = "response"))]
    object: String,
    /// In seconds since the Unix epoch.
    created_at: u64,
    /// In seconds since the Unix epoch, once it is complete.
    completed_at: Option<u64>,
    status: Status,
    incomplete_details: Option<IncompleteDetails>,
    /// Why it failed.
    error: Option<Failure>,
    /// Known at its end.
    usage: Option<ResponseUsage>,
    /// The items that are done.
    output: Vec<OutputItem>,
    /// The model, as the client named it.
    model: String,
    previous_response_id: Option<String>,
    instructions: Option<String>,
    /// The client's tools.
    tools: Vec<FunctionTool>,
    /// As the request has it.
    tool_choice: Value,
    #[schemars(extend("const" = "disabled"))]
    truncation: String,
    parallel_tool_calls: bool,
    text: TextOptions,
    top_p: f64,
    presence_penalty: f64,
    frequency_penalty: f64,
    temperature: f64,
    /// Always 0.
    top_logprobs: u32,
    reasoning: Reasoning,
    max_output_tokens: Option<u32>,
    max_tool_calls: Option<u32>,
    store: bool,
    background: bool,
    #[schemars(extend("const" = "default"))]
    service_tier: String,
    metadata: Map<String, Value>,
    safety_identifier: Option<String>,
    prompt_cache_key: Option<String>,
}

/// How far a response has come.
#[derive(JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
enum Status {
    Queued,
    InProgress,
    Completed,
    Incomplete,
    Failed,
    Cancelled,
}

#[derive(JsonSchema)]
#[schemars(inline)]
struct IncompleteDetails {
    #[schemars(extend("enum" = ["max_output_tokens", "content_filter"]))]
    reason: String,
}

#[derive(JsonSchema)]
#[schemars(inline)]
struct Failure {
    code: String,
    message: String,
}

#[derive(JsonSchema)]
#[schemars(inline)]
struct ResponseUsage {
    input_tokens: u64,
    input_tokens_details: InputDetails,
    output_tokens: u64,
    output_tokens_details: OutputDetails,
    total_tokens: u64,
}

#[derive(JsonSchema)]
#[schemars(inline)]
struct InputDetails {
    /// Always 0.
    cached_tokens: u64,
    /// Always 0.
    cache_write_tokens: u64,
}

#[derive(JsonSchema)]
#[schemars(inline)]
struct OutputDetails {
    /// Always 0.
    reasoning_tokens: u64,
}

#[derive(JsonSchema)]
#[schemars(inline)]
struct FunctionTool {
    #[schemars(extend("const" = "function"))]
    r#type: String,
    name: String,
    description: Option<String>,
    /// A JSON Schema.
    parameters: Value,
    strict: Option<bool>,
}

/// As the request has it, with the default format.
#[derive(JsonSchema)]
#[schemars(inline, extend("additionalProperties" = true))]
struct TextOptions {
    format: Map<String, Value>,
}

#[derive(JsonSchema)]
#[schemars(inline)]
struct Reasoning {
    /// As the request has it.
    effort: Value,
    /// As the request has it.
    summary: Value,
}

/// An item of an answer.
#[derive(JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
enum OutputItem {
    /// Words.
    Message {
        id: String,
        status: ItemStatus,
        #[schemars(extend("const" = "assistant"))]
        role: String,
        content: Vec<OutputText>,
    },
    /// Reasoning, as a summary.
    Reasoning { id: String, summary: Vec<SummaryText>, content: [Value; 0] },
    /// A call that the client has to run, or one of the gateway's with
    /// `responses.server_tools: function_call`.
    FunctionCall {
        id: String,
        status: ItemStatus,
        call_id: String,
        /// The namespace of the tool, if it has one.
        #[serde(skip_serializing_if = "Option::is_none")]
        namespace: Option<String>,
        name: String,
        /// JSON as text.
        arguments: String,
    },
    /// What a call of the gateway's returned.
    FunctionCallOutput { id: String, status: ItemStatus, call_id: String, output: CallOutput },
    /// A call of one of the gateway's tools.
    McpCall {
        id: String,
        status: CallStatus,
        /// The source of the tool.
        server_label: String,
        name: String,
        /// JSON as text.
        arguments: String,
        output: Option<String>,
        error: Option<CallError>,
        /// The request for approval that was granted.
        approval_request_id: Option<String>,
    },
    /// A call that waits for the user's approval.
    McpApprovalRequest {
        id: String,
        server_label: String,
        name: String,
        /// JSON as text.
        arguments: String,
    },
}

/// Why a call failed.
#[derive(JsonSchema)]
#[serde(untagged)]
#[schemars(inline)]
enum CallError {
    Execution(CallExecutionError),
    /// In responses that an older release has stored.
    Text(String),
}

#[derive(JsonSchema)]
#[schemars(inline)]
struct CallExecutionError {
    #[schemars(extend("const" = "mcp_tool_execution_error"))]
    r#type: String,
    content: Vec<CallErrorText>,
}

#[derive(JsonSchema)]
#[schemars(inline)]
struct CallErrorText {
    #[schemars(extend("const" = "text"))]
    r#type: String,
    text: String,
}

#[derive(JsonSchema)]
#[serde(untagged)]
#[schemars(inline)]
enum CallOutput {
    Parts(Vec<CallOutputText>),
    /// In responses that an older release has stored.
    Text(String),
}

#[derive(JsonSchema)]
#[schemars(inline)]
struct CallOutputText {
    #[schemars(extend("const" = "input_text"))]
    r#type: String,
    text: String,
}

#[derive(JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
enum ItemStatus {
    InProgress,
    Completed,
    Incomplete,
}

#[derive(JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
enum CallStatus {
    InProgress,
    Completed,
    Failed,
}

#[derive(JsonSchema)]
struct OutputText {
    #[schemars(extend("const" = "output_text"))]
    r#type: String,
    text: String,
    annotations: [Value; 0],
    logprobs: [Value; 0],
}

#[derive(JsonSchema)]
struct SummaryText {
    #[schemars(extend("const" = "summary_text"))]
    r#type: String,
    text: String,
}

#[derive(JsonSchema)]
struct DeletedResponse {
    id: String,
    #[schemars(extend("const" = "response"))]
    object: String,
    #[schemars(extend("const" = true))]
    deleted: bool,
}

/// A page of the items of a request.
#[derive(JsonSchema)]
struct InputItems {
    #[schemars(extend("const" = "list"))]
    object: String,
    data: Vec<InputItem>,
    first_id: Option<String>,
    last_id: Option<String>,
    has_more: bool,
}

/// An item as the client sent it, with an id.
#[derive(JsonSchema)]
#[schemars(inline, extend("additionalProperties" = true))]
struct InputItem {
    id: String,
    r#type: Value,
}
