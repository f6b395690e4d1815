//! The events of a turn: the interface between the orchestrator and the server.
//!
//! An [`Event`] borrows everything, because it only lives from the turn machine to the log,
//! which encodes it. Names and fields are a public contract; `docs/events.md` shows each event
//! with an example.

#![expect(clippy::ref_option_ref, reason = "in code that the derive generates for optional fields")]

use schemars::JsonSchema;
use serde::{Deserialize, Serialize, Serializer};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use crate::tools::{Clarification, Source, ToolResult};

/// What a client receives, in the order it happened.
///
/// Serialises as `{"type":"<type>","data":{...}}`.
#[derive(Debug, Clone, Serialize, JsonSchema)]
#[serde(tag = "type", content = "data", rename_all = "snake_case")]
pub enum Event<'a> {
    /// Always the first event.
    TurnStarted {
        /// The session that the turn belongs to.
        session_id: &'a str,
        /// The turn's own id, unique in its session.
        turn_id: &'a str,
        /// The name of the configured upstream that answers.
        model: &'a str,
        /// The most rounds with tools that this turn may take.
        max_tool_loops: u32,
    },
    /// The model's text outside calls and reasoning.
    TextDelta {
        /// The round, from 1, if this text begins a new message after earlier text.
        #[serde(skip_serializing_if = "Option::is_none")]
        #[schemars(with = "u32")]
        r#loop: Option<u32>,
        /// The text that directly follows that of the previous `text_delta`.
        text: &'a str,
    },
    /// The model's reasoning.
    ReasoningDelta {
        /// The reasoning that directly follows the previous delta's.
        text: &'a str,
    },
    /// The start of a call; its payload is still arriving.
    ToolMarkerDetected {
        /// The call's id in this turn.
        call_id: &'a str,
        /// The round, from 1.
        r#loop: u32,
    },
    /// Raw JSON of a call's arguments, as it arrives.
    ToolArgumentsDelta {
        /// The call's id in this turn.
        call_id: &'a str,
        /// The text that directly follows the previous delta's.
        delta: &'a str,
    },
    /// A sentence for the user before tools run.
    Acknowledgement {
        /// The sentence.
        text: &'a str,
        /// Where the sentence comes from.
        source: AcknowledgementSource,
    },
    /// A valid call whose tool starts to run.
    ToolStarted {
        /// The call's id in this turn.
        call_id: &'a str,
        /// The tool's name.
        tool_name: &'a str,
        /// The arguments, as the model wrote them.
        #[schemars(with = "Map<String, Value>")]
        tool_args: &'a RawValue,
        /// The round, from 1; 0 for a call that the user's answer lets run.
        r#loop: u32,
    },
    /// A valid call of a tool that the client runs. The turn ends, and continues with its result.
    ClientToolCall {
        /// The call's id in this session.
        call_id: &'a str,
        /// The tool's name.
        tool_name: &'a str,
        /// The arguments as its tool takes them.
        #[schemars(with = "Map<String, Value>")]
        tool_args: &'a RawValue,
        /// The round, from 1.
        r#loop: u32,
    },
    /// A progress report of a running tool.
    ToolProgress {
        /// The call's id in this turn.
        call_id: &'a str,
        /// The tool's name.
        tool_name: &'a str,
        /// How far the tool has come, in its own units.
        progress: f64,
        /// How far it will go, if known.
        total: Option<f64>,
        /// What it is doing now.
        message: Option<&'a str>,
    },
    /// The end of a tool run, successful or not.
    ToolCompleted {
        /// The call's id in this turn.
        call_id: &'a str,
        /// The tool's name.
        tool_name: &'a str,
        /// The result in its standard shape.
        #[serde(serialize_with = "ToolResult::serialize_shown")]
        #[schemars(with = "ToolResult")]
        tool_result: &'a ToolResult,
        /// How long it ran, in milliseconds.
        duration_ms: u64,
        /// How often it was attempted.
        attempts: u32,
    },
    /// An explanation to the model of what was wrong with its call.
    Feedback {
        /// The call's id in this turn, if there is a call.
        call_id: Option<&'a str>,
        /// The kind of mistake.
        reason: FeedbackReason,
        /// The text that the model was sent.
        message: &'a str,
        /// How often this kind of mistake has been made in this turn, from 1.
        attempt: u32,
    },
    /// A question to the user, with which the turn ends.
    ClarificationNeeded {
        /// Identifies the question when it is answered.
        clarification_id: &'a str,
        /// The call whose tool needs a decision.
        call_id: &'a str,
        /// The name of the tool.
        tool_name: &'a str,
        /// Who is asking.
        source: &'a Source,
        /// The question and its options.
        #[serde(flatten)]
        clarification: &'a Clarification,
        /// For a call that the user has to approve, the arguments it would run with.
        #[serde(skip_serializing_if = "Option::is_none")]
        #[schemars(with = "Map<String, Value>")]
        arguments: Option<&'a RawValue>,
    },
    /// A message to show to the user while they wait.
    Status {
        /// One sentence.
        message: &'a str,
    },
    /// The loop limit was reached; a last answer without tools follows.
    LoopLimitReached {
        /// The limit.
        max_tool_loops: u32,
    },
    /// The last event of a turn that completed.
    TurnCompleted {
        /// Why it ended.
        finish_reason: TurnFinish,
        /// The text of the request's `stop` at which the answer ends.
        #[serde(skip_serializing_if = "Option::is_none")]
        stop_text: Option<&'a str>,
        /// Usage and the complete text.
        #[serde(flatten)]
        summary: Summary<'a>,
    },
    /// The last event of a turn that failed.
    TurnFailed {
        /// What went wrong.
        code: FailureCode,
        /// A description for people, with advice.
        message: &'a str,
        /// Whether the same request may succeed later.
        retryable: bool,
        /// Usage and the text up to the failure.
        #[serde(flatten)]
        summary: Summary<'a>,
    },
}

#[cfg(test)]
impl<'a> Event<'a> {
    /// Text that goes on with the text before it.
    #[must_use]
    pub(crate) const fn text(text: &'a str) -> Self {
        Self::TextDelta { r#loop: None, text }
    }
}

impl Event<'_> {
    /// The event's name, as in its `type` field and in the `event:` line of its frame.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        self.kind().name()
    }

    /// The kind of event.
    #[must_use]
    pub const fn kind(&self) -> Kind {
        match self {
            Self::TurnStarted { .. } => Kind::TurnStarted,
            Self::TextDelta { .. } => Kind::TextDelta,
            Self::ReasoningDelta { .. } => Kind::ReasoningDelta,
            Self::ToolMarkerDetected { .. } => Kind::ToolMarkerDetected,
            Self::ToolArgumentsDelta { .. } => Kind::ToolArgumentsDelta,
            Self::Acknowledgement { .. } => Kind::Acknowledgement,
            Self::ToolStarted { .. } => Kind::ToolStarted,
            Self::ClientToolCall { .. } => Kind::ClientToolCall,
            Self::ToolProgress { .. } => Kind::ToolProgress,
            Self::ToolCompleted { .. } => Kind::ToolCompleted,
            Self::Feedback { .. } => Kind::Feedback,
            Self::ClarificationNeeded { .. } => Kind::ClarificationNeeded,
            Self::Status { .. } => Kind::Status,
            Self::LoopLimitReached { .. } => Kind::LoopLimitReached,
            Self::TurnCompleted { .. } => Kind::TurnCompleted,
            Self::TurnFailed { .. } => Kind::TurnFailed,
        }
    }

    /// The last event of a turn that the gateway ends without its turn machine.
    #[must_use]
    pub(crate) const fn cut_short(code: FailureCode, message: &'static str) -> Event<'static> {
        let summary = Summary { loops: 0, tool_calls: 0, usage: Usage::NONE, text: "" };
        Event::TurnFailed { code, message, retryable: true, summary }
    }

    /// Whether nothing follows this event.
    #[must_use]
    pub const fn is_last(&self) -> bool {
        matches!(self, Self::TurnCompleted { .. } | Self::TurnFailed { .. })
    }
}

/// An event's kind, without its data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// [`Event::TurnStarted`].
    TurnStarted,
    /// [`Event::TextDelta`].
    TextDelta,
    /// [`Event::ReasoningDelta`].
    ReasoningDelta,
    /// [`Event::ToolMarkerDetected`].
    ToolMarkerDetected,
    /// [`Event::ToolArgumentsDelta`].
    ToolArgumentsDelta,
    /// [`Event::Acknowledgement`].
    Acknowledgement,
    /// [`Event::ToolStarted`].
    ToolStarted,
    /// [`Event::ClientToolCall`].
    ClientToolCall,
    /// [`Event::ToolProgress`].
    ToolProgress,
    /// [`Event::ToolCompleted`].
    ToolCompleted,
    /// [`Event::Feedback`].
    Feedback,
    /// [`Event::ClarificationNeeded`].
    ClarificationNeeded,
    /// [`Event::Status`].
    Status,
    /// [`Event::LoopLimitReached`].
    LoopLimitReached,
    /// [`Event::TurnCompleted`].
    TurnCompleted,
    /// [`Event::TurnFailed`].
    TurnFailed,
}

impl Kind {
    /// All kinds.
    pub const ALL: [Self; 16] = [
        Self::TurnStarted,
        Self::TextDelta,
        Self::ReasoningDelta,
        Self::ToolMarkerDetected,
        Self::ToolArgumentsDelta,
        Self::Acknowledgement,
        Self::ToolStarted,
        Self::ClientToolCall,
        Self::ToolProgress,
        Self::ToolCompleted,
        Self::Feedback,
        Self::ClarificationNeeded,
        Self::Status,
        Self::LoopLimitReached,
        Self::TurnCompleted,
        Self::TurnFailed,
    ];

    /// Its name on the wire.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::TurnStarted => "turn_started",
            Self::TextDelta => "text_delta",
            Self::ReasoningDelta => "reasoning_delta",
            Self::ToolMarkerDetected => "tool_marker_detected",
            Self::ToolArgumentsDelta => "tool_arguments_delta",
            Self::Acknowledgement => "acknowledgement",
            Self::ToolStarted => "tool_started",
            Self::ClientToolCall => "client_tool_call",
            Self::ToolProgress => "tool_progress",
            Self::ToolCompleted => "tool_completed",
            Self::Feedback => "feedback",
            Self::ClarificationNeeded => "clarification_needed",
            Self::Status => "status",
            Self::LoopLimitReached => "loop_limit_reached",
            Self::TurnCompleted => "turn_completed",
            Self::TurnFailed => "turn_failed",
        }
    }
}

/// The totals of a turn, in its last event.
#[derive(Debug, Clone, Copy, Serialize, JsonSchema)]
pub struct Summary<'a> {
    /// Rounds: how often the model was asked.
    pub loops: u32,
    /// Calls that the model made, whether they were run or not.
    pub tool_calls: u32,
    /// Tokens, summed over all rounds.
    pub usage: Usage,
    /// The complete text of the turn, as in its text deltas.
    pub text: &'a str,
}

impl Usage {
    /// Adds the total if the server left it out.
    #[must_use]
    pub const fn with_total(self) -> Self {
        let Self { prompt_tokens, completion_tokens, total_tokens } = self;
        let sum = prompt_tokens.saturating_add(completion_tokens);
        let total_tokens = if total_tokens == 0 { sum } else { total_tokens };
        Self { prompt_tokens, completion_tokens, total_tokens }
    }
}

/// Token counts of model servers, or estimates for answers that were broken off.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Usage {
    /// Tokens that the model read.
    pub prompt_tokens: u64,
    /// Tokens that the model wrote.
    pub completion_tokens: u64,
    /// All tokens.
    pub total_tokens: u64,
}

impl Usage {
    /// No tokens.
    pub const NONE: Self = Self { prompt_tokens: 0, completion_tokens: 0, total_tokens: 0 };
}

impl std::ops::AddAssign for Usage {
    fn add_assign(&mut self, other: Self) {
        self.prompt_tokens = self.prompt_tokens.saturating_add(other.prompt_tokens);
        self.completion_tokens = self.completion_tokens.saturating_add(other.completion_tokens);
        self.total_tokens = self.total_tokens.saturating_add(other.total_tokens);
    }
}

/// The state of a turn, as logs, metrics and the session's transcript name it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TurnState {
    /// The model writes, and may call tools.
    #[default]
    Planning,
    /// The model has finished writing, and tools run.
    Executing,
    /// The model writes its answer, and can no longer call tools.
    Synthesizing,
    /// The turn ended with a question to the user.
    AwaitingClarification,
    /// The turn ended in any other way, including cancellation.
    Completed,
    /// The turn failed.
    Failed,
}

impl TurnState {
    /// All states, in the order of a turn.
    pub const ALL: [Self; 6] = [
        Self::Planning,
        Self::Executing,
        Self::Synthesizing,
        Self::AwaitingClarification,
        Self::Completed,
        Self::Failed,
    ];

    /// The state's name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Planning => "planning",
            Self::Executing => "executing",
            Self::Synthesizing => "synthesizing",
            Self::AwaitingClarification => "awaiting_clarification",
            Self::Completed => "completed",
            Self::Failed => "failed",
        }
    }

    /// Whether the turn has ended.
    #[must_use]
    pub const fn is_over(self) -> bool {
        matches!(self, Self::AwaitingClarification | Self::Completed | Self::Failed)
    }
}

/// Where an acknowledgement comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum AcknowledgementSource {
    /// The model; its sentence has already been sent as text.
    Model,
    /// The gateway, from the tools' waiting hints.
    Hints,
}

impl AcknowledgementSource {
    /// The source as events and logs spell it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Model => "model",
            Self::Hints => "hints",
        }
    }
}

/// Why the model was sent feedback.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FeedbackReason {
    /// No such tool, or not offered in this turn.
    ToolNotFound,
    /// The arguments violate the tool's schema.
    InvalidArguments,
    /// The payload is not a call.
    MalformedCall,
    /// The call was cut off.
    IncompleteCall,
    /// The payload exceeded the size limit.
    PayloadTooLarge,
    /// The tool ended with an error.
    ToolFailed,
    /// The model invented a result, or repeated one in place of an answer.
    InventedResult,
    /// The answer had neither words nor calls.
    EmptyResponse,
}

impl FeedbackReason {
    /// All of them.
    pub const ALL: [Self; 8] = [
        Self::ToolNotFound,
        Self::InvalidArguments,
        Self::MalformedCall,
        Self::IncompleteCall,
        Self::PayloadTooLarge,
        Self::ToolFailed,
        Self::InventedResult,
        Self::EmptyResponse,
    ];

    /// The reason as events and metrics spell it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::ToolNotFound => "tool_not_found",
            Self::InvalidArguments => "invalid_arguments",
            Self::MalformedCall => "malformed_call",
            Self::IncompleteCall => "incomplete_call",
            Self::PayloadTooLarge => "payload_too_large",
            Self::ToolFailed => "tool_failed",
            Self::InventedResult => "invented_result",
            Self::EmptyResponse => "empty_response",
        }
    }
}

/// Why a turn completed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TurnFinish {
    /// The model gave its answer.
    Stop,
    /// The model hit its token limit.
    Length,
    /// A filter of the model server cut the answer off.
    ContentFilter,
    /// The user was asked a question.
    ClarificationNeeded,
    /// The client has to run tools of its own.
    ClientToolCalls,
    /// The loop limit was reached, so the answer was written without tools.
    LoopLimit,
    /// The turn was cancelled.
    Cancelled,
}

impl TurnFinish {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::Stop,
        Self::Length,
        Self::ContentFilter,
        Self::ClarificationNeeded,
        Self::ClientToolCalls,
        Self::LoopLimit,
        Self::Cancelled,
    ];

    /// The reason as events and metrics spell it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Stop => "stop",
            Self::Length => "length",
            Self::ContentFilter => "content_filter",
            Self::ClarificationNeeded => "clarification_needed",
            Self::ClientToolCalls => "client_tool_calls",
            Self::LoopLimit => "loop_limit",
            Self::Cancelled => "cancelled",
        }
    }
}

/// Why a turn failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FailureCode {
    /// No upstream could be reached.
    UpstreamUnavailable,
    /// The upstream answered with an error or broke off.
    UpstreamError,
    /// The conversation is too long for the model, and could not be shortened enough.
    ContextLengthExceeded,
    /// The upstream stopped sending.
    UpstreamTimeout,
    /// The model repeatedly answered with nothing.
    EmptyResponse,
    /// The turn exceeded `limits.max_turn_bytes`.
    TurnTooLarge,
    /// The session store does not answer, or has lost a part of the turn.
    StoreUnavailable,
    /// A bug in the gateway, or its sudden end.
    Internal,
}

impl FailureCode {
    /// All of them.
    pub const ALL: [Self; 8] = [
        Self::UpstreamUnavailable,
        Self::UpstreamError,
        Self::ContextLengthExceeded,
        Self::UpstreamTimeout,
        Self::EmptyResponse,
        Self::TurnTooLarge,
        Self::StoreUnavailable,
        Self::Internal,
    ];

    /// The code as events and metrics spell it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::UpstreamUnavailable => "upstream_unavailable",
            Self::UpstreamError => "upstream_error",
            Self::ContextLengthExceeded => "context_length_exceeded",
            Self::UpstreamTimeout => "upstream_timeout",
            Self::EmptyResponse => "empty_response",
            Self::TurnTooLarge => "turn_too_large",
            Self::StoreUnavailable => "store_unavailable",
            Self::Internal => "internal",
        }
    }
}

/// Serialises an enum as its `name`, its only spelling.
macro_rules! serialize_as_name {
    ($($type:ty),*) => {$(
        impl Serialize for $type {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.name())
            }
        }
    )*};
}

serialize_as_name!(AcknowledgementSource, FeedbackReason, TurnFinish, FailureCode);
