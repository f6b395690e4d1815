//! The events of a run, as they are served and described.

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use super::interrupt::Interrupt;
use crate::event::TurnFinish;

/// An event of AG-UI 1.0.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(tag = "type", rename_all = "SCREAMING_SNAKE_CASE", rename_all_fields = "camelCase")]
#[schemars(rename = "AgUiEvent")]
pub(super) enum RunEvent<'a> {
    /// Always the first event.
    RunStarted {
        /// As the client named it.
        thread_id: &'a str,
        /// As the client named it.
        run_id: &'a str,
    },
    /// A message of words begins.
    TextMessageStart(MessageStart<'a>),
    /// Its words go on.
    TextMessageContent(Content<'a>),
    /// It has ended.
    TextMessageEnd(MessageId<'a>),
    /// Reasoning begins.
    ReasoningStart(MessageId<'a>),
    /// A message of reasoning begins.
    ReasoningMessageStart(MessageStart<'a>),
    /// Its words go on.
    ReasoningMessageContent(Content<'a>),
    /// It has ended.
    ReasoningMessageEnd(MessageId<'a>),
    /// The reasoning has ended.
    ReasoningEnd(MessageId<'a>),
    /// A call begins.
    ToolCallStart {
        /// The call.
        tool_call_id: &'a str,
        /// Its tool.
        tool_call_name: &'a str,
        /// The message of words that it belongs to, if there is one.
        #[serde(skip_serializing_if = "Option::is_none")]
        parent_message_id: Option<&'a str>,
    },
    /// The call's arguments, in one piece.
    ToolCallArgs {
        /// The call.
        tool_call_id: &'a str,
        /// JSON as text.
        delta: &'a str,
    },
    /// The call is complete.
    ToolCallEnd {
        /// The call.
        tool_call_id: &'a str,
    },
    /// What the call returned. Calls that the client runs, and those that ask, have none.
    ToolCallResult {
        /// The message of the result.
        message_id: &'a str,
        /// The call.
        tool_call_id: &'a str,
        /// The result as text.
        content: &'a str,
        /// Always `tool`.
        #[schemars(extend("const" = "tool"))]
        role: &'static str,
    },
    /// All messages of the thread, before a run ends with a question.
    MessagesSnapshot {
        /// Those that the client sent, and those of this run.
        messages: Vec<Value>,
    },
    /// The last event of a run that did not fail.
    RunFinished {
        /// As the client named it.
        thread_id: &'a str,
        /// As the client named it.
        run_id: &'a str,
        /// The tokens of the run.
        usage: [Tokens; 1],
        /// Why it ended, if it succeeded.
        #[serde(skip_serializing_if = "Option::is_none")]
        result: Option<RunResult>,
        /// How it ended.
        outcome: Outcome,
    },
    /// The last event of a run that failed.
    RunError {
        /// Why, in words for anybody.
        message: &'a str,
        /// Why, for programs.
        code: &'a str,
    },
    /// An event of the gateway's own.
    Custom(Custom<'a>),
}

/// A message.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
pub(super) struct MessageId<'a> {
    /// Which message.
    pub(super) message_id: &'a str,
}

/// The beginning of a message.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
pub(super) struct MessageStart<'a> {
    /// Which message.
    pub(super) message_id: &'a str,
    /// Whose it is.
    #[schemars(extend("enum" = ["assistant", "reasoning"]))]
    pub(super) role: &'static str,
}

/// A piece of a message.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
pub(super) struct Content<'a> {
    /// Which message.
    pub(super) message_id: &'a str,
    /// What follows the previous piece.
    pub(super) delta: &'a str,
}

/// The tokens of a run.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(inline)]
pub(super) struct Tokens {
    /// Those that the model read.
    #[serde(rename = "inputTokens")]
    pub(super) input: u64,
    /// Those that it wrote.
    #[serde(rename = "outputTokens")]
    pub(super) output: u64,
    /// All of them.
    #[serde(rename = "totalTokens")]
    pub(super) total: u64,
}

/// What a run that succeeded says about its end.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(inline)]
pub(super) struct RunResult {
    /// Why it ended.
    #[schemars(with = "TurnFinish")]
    pub(super) finish_reason: String,
}

/// How a run ended.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
#[schemars(rename = "AgUiOutcome")]
pub(super) enum Outcome {
    /// With an answer, or with calls for the client.
    Success,
    /// It was cancelled.
    Cancelled,
    /// With a question. The next run resumes it with the answer.
    Interrupt {
        /// The question.
        #[schemars(length(equal = 1))]
        interrupts: Vec<Interrupt>,
    },
}

/// An event of the gateway's own.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(tag = "name", content = "value")]
#[schemars(inline)]
pub(super) enum Custom<'a> {
    /// A running tool's progress.
    #[serde(rename = "tether.tool_progress")]
    ToolProgress(Report<'a>),
    /// A sentence for the user before tools run.
    #[serde(rename = "tether.acknowledgement")]
    Acknowledgement {
        /// The sentence.
        text: &'a str,
    },
    /// Something that a waiting person should see.
    #[serde(rename = "tether.status")]
    Status {
        /// One sentence.
        message: &'a str,
    },
    /// An answer without tools follows.
    #[serde(rename = "tether.loop_limit_reached")]
    LoopLimitReached {
        /// The limit.
        #[schemars(with = "u32")]
        max_tool_loops: &'a Value,
    },
}

/// A running tool's progress. The protocol leaves out what has no value.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(inline)]
pub(super) struct Report<'a> {
    /// The call.
    pub(super) call_id: &'a str,
    /// Its tool.
    pub(super) tool_name: &'a str,
    /// How far it is, in units of its own.
    #[schemars(with = "f64")]
    pub(super) progress: &'a Value,
    /// The value at the end, if it is known.
    #[serde(skip_serializing_if = "Value::is_null")]
    #[schemars(with = "f64")]
    pub(super) total: &'a Value,
    /// What it is doing, if it says so.
    #[serde(skip_serializing_if = "Value::is_null")]
    #[schemars(with = "String")]
    pub(super) message: &'a Value,
}
