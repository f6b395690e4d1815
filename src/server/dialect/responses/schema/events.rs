//! The schemas of events.

use schemars::JsonSchema;
use serde_json::Value;

use super::{OutputItem, OutputText, Response, SummaryText};
use crate::server::dialect::schema::OpenAiErrorBody;

/// An event of a streamed response, numbered from 0 without gaps.
#[derive(JsonSchema)]
#[serde(tag = "type")]
pub(super) enum ResponseEvent {
    /// Always the first event.
    #[serde(rename = "response.created")]
    Created(ResponseTold),
    #[serde(rename = "response.in_progress")]
    InProgress(ResponseTold),
    /// The last event of an answer.
    #[serde(rename = "response.completed")]
    Completed(ResponseTold),
    /// The last event of an answer that was cut off or cancelled.
    #[serde(rename = "response.incomplete")]
    Incomplete(ResponseTold),
    /// The last event of an answer that failed.
    #[serde(rename = "response.failed")]
    Failed(ResponseTold),
    /// An item begins.
    #[serde(rename = "response.output_item.added")]
    ItemAdded(ItemTold),
    /// An item in its final form.
    #[serde(rename = "response.output_item.done")]
    ItemDone(ItemTold),
    #[serde(rename = "response.content_part.added")]
    PartAdded(TextPart),
    #[serde(rename = "response.content_part.done")]
    PartDone(TextPart),
    /// Words go on.
    #[serde(rename = "response.output_text.delta")]
    TextDelta {
        #[serde(flatten)]
        place: Place,
        content_index: u32,
        logprobs: [Value; 0],
        delta: String,
    },
    #[serde(rename = "response.output_text.done")]
    TextDone {
        #[serde(flatten)]
        place: Place,
        content_index: u32,
        logprobs: [Value; 0],
        text: String,
    },
    #[serde(rename = "response.reasoning_summary_part.added")]
    SummaryPartAdded(SummaryPart),
    #[serde(rename = "response.reasoning_summary_part.done")]
    SummaryPartDone(SummaryPart),
    /// Reasoning goes on.
    #[serde(rename = "response.reasoning_summary_text.delta")]
    SummaryDelta {
        #[serde(flatten)]
        place: Place,
        summary_index: u32,
        delta: String,
    },
    #[serde(rename = "response.reasoning_summary_text.done")]
    SummaryDone {
        #[serde(flatten)]
        place: Place,
        summary_index: u32,
        text: String,
    },
    /// The arguments of a function call, in one piece.
    #[serde(rename = "response.function_call_arguments.delta")]
    FunctionDelta {
        #[serde(flatten)]
        place: Place,
        delta: String,
    },
    #[serde(rename = "response.function_call_arguments.done")]
    FunctionDone {
        #[serde(flatten)]
        place: Place,
        name: String,
        arguments: String,
    },
    /// A call of one of the gateway's tools runs.
    #[serde(rename = "response.mcp_call.in_progress")]
    McpInProgress(Place),
    /// Its arguments, in one piece.
    #[serde(rename = "response.mcp_call_arguments.delta")]
    McpDelta {
        #[serde(flatten)]
        place: Place,
        delta: String,
    },
    #[serde(rename = "response.mcp_call_arguments.done")]
    McpDone {
        #[serde(flatten)]
        place: Place,
        arguments: String,
    },
    #[serde(rename = "response.mcp_call.completed")]
    McpCompleted(Place),
    #[serde(rename = "response.mcp_call.failed")]
    McpFailed(Place),
    /// The turn has failed; `response.failed` follows. Some clients read the members of the event,
    /// and others its `error`.
    #[serde(rename = "error")]
    Error { sequence_number: u64, code: String, message: String, param: (), error: OpenAiErrorBody },
}

#[derive(JsonSchema)]
#[schemars(inline)]
pub(super) struct ResponseTold {
    sequence_number: u64,
    response: Response,
}

#[derive(JsonSchema)]
#[schemars(inline)]
pub(super) struct ItemTold {
    sequence_number: u64,
    output_index: u32,
    item: OutputItem,
}

/// Which item an event is about.
#[derive(JsonSchema)]
#[schemars(inline)]
pub(super) struct Place {
    sequence_number: u64,
    item_id: String,
    output_index: u32,
}

#[derive(JsonSchema)]
#[schemars(inline)]
pub(super) struct TextPart {
    #[serde(flatten)]
    place: Place,
    content_index: u32,
    part: OutputText,
}

#[derive(JsonSchema)]
#[schemars(inline)]
pub(super) struct SummaryPart {
    #[serde(flatten)]
    place: Place,
    summary_index: u32,
    part: SummaryText,
}
