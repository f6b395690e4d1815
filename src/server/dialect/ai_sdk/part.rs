//! The parts of a message, as they are served and described.

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use crate::server::dialect::native::transcript::QuestionView;

/// A part of the message that `useChat` builds.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(tag = "type", rename_all = "kebab-case", rename_all_fields = "camelCase")]
#[schemars(rename = "UiMessagePart")]
pub(super) enum Part<'a> {
    /// The message begins.
    Start {
        /// Its id. Absent if the client's own message goes on.
        #[serde(skip_serializing_if = "Option::is_none")]
        message_id: Option<String>,
    },
    /// A step begins: words, and perhaps calls.
    StartStep,
    /// The step has ended.
    FinishStep,
    /// Words begin.
    TextStart {
        /// Which words, in this message.
        id: &'a str,
    },
    /// The words go on.
    TextDelta {
        /// Which words.
        id: &'a str,
        /// What follows the previous delta.
        delta: &'a str,
    },
    /// The words have ended.
    TextEnd {
        /// Which words.
        id: &'a str,
    },
    /// Reasoning begins.
    ReasoningStart {
        /// Which reasoning, in this message.
        id: &'a str,
    },
    /// The reasoning goes on.
    ReasoningDelta {
        /// Which reasoning.
        id: &'a str,
        /// What follows the previous delta.
        delta: &'a str,
    },
    /// The reasoning has ended.
    ReasoningEnd {
        /// Which reasoning.
        id: &'a str,
    },
    /// A call begins.
    ToolInputStart(CallHead<'a>),
    /// The call's arguments are complete.
    ToolInputAvailable {
        /// The call.
        #[serde(flatten)]
        call: CallHead<'a>,
        /// Its arguments.
        input: &'a Value,
    },
    /// A call of the gateway's tools has ended.
    ToolOutputAvailable {
        /// The call.
        tool_call_id: &'a str,
        /// Its result.
        output: Value,
        /// Always true.
        dynamic: bool,
        /// Always true.
        provider_executed: bool,
    },
    /// A call of the gateway's tools has failed.
    ToolOutputError {
        /// The call.
        tool_call_id: &'a str,
        /// Why.
        error_text: String,
        /// Always true.
        dynamic: bool,
        /// Always true.
        provider_executed: bool,
    },
    /// A question to the user, which has also been asked in words.
    DataClarification {
        /// The question's id.
        id: &'a str,
        /// The question.
        #[schemars(with = "QuestionView<'_>")]
        data: Value,
    },
    /// Something that the client shows for a while.
    DataStatus {
        /// What it shows.
        data: Status<'a>,
        /// Always true: it is no part of the message.
        transient: bool,
    },
    /// A running tool's progress.
    DataToolProgress {
        /// The call.
        id: &'a str,
        /// How far it is.
        data: Report<'a>,
        /// Always true: it is no part of the message.
        transient: bool,
    },
    /// The turn has failed. Nothing follows.
    Error {
        /// Why, in words for anybody.
        error_text: &'a str,
    },
    /// The turn was cancelled. Nothing follows. Earlier versions of 5 and 6 refuse a reason.
    Abort,
    /// The message has ended.
    Finish {
        /// Why.
        finish_reason: FinishReason,
    },
}

/// What a call's parts begin with.
#[derive(Debug, Clone, Copy, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
pub(super) struct CallHead<'a> {
    /// The call.
    pub(super) tool_call_id: &'a str,
    /// Its tool.
    pub(super) tool_name: &'a str,
    /// True for the gateway's tools, whose types clients do not know.
    #[serde(skip_serializing_if = "is_false")]
    pub(super) dynamic: bool,
    /// True for the gateway's tools. The client runs the others.
    #[serde(skip_serializing_if = "is_false")]
    pub(super) provider_executed: bool,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference to the field")]
const fn is_false(flag: &bool) -> bool {
    !*flag
}

/// A sentence for the user.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(inline)]
pub(super) struct Status<'a> {
    /// The sentence.
    pub(super) message: &'a str,
}

/// A running tool's progress.
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
    #[schemars(with = "Option<f64>")]
    pub(super) total: &'a Value,
    /// What it is doing, if it says so.
    #[schemars(with = "Option<String>")]
    pub(super) message: &'a Value,
}

/// Why a message has ended.
#[derive(Debug, Clone, Copy, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(inline)]
pub(super) enum FinishReason {
    /// The answer is complete, or ends with a question.
    Stop,
    /// The token limit was reached.
    Length,
    /// A filter of the model server cut it off.
    ContentFilter,
    /// The client has to run tools.
    ToolCalls,
}
