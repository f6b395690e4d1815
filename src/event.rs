//! The events of a turn: the only words that the orchestrator and the server
//! share.
//!
//! An [`Event`] borrows everything, since it lives from the moment the turn
//! machine says it to the moment the turn log has encoded it. Names and fields
//! are a public contract; `docs/events.md` shows each with an example.

#![expect(clippy::ref_option_ref, reason = "in what the derive makes of optional fields")]

use serde::{Deserialize, Serialize, Serializer};
use serde_json::value::RawValue;

use crate::tools::{Clarification, ToolResult};

/// What a client is told, in the order it happened.
///
/// Serialises as `{"type":"<type>","data":{...}}`.
#[derive(Debug, Clone, Serialize)]
#[serde(tag = "type", content = "data", rename_all = "snake_case")]
pub enum Event<'a> {
    /// First, always.
    TurnStarted {
        /// The session that the turn belongs to.
        session_id: &'a str,
        /// The turn's own id, unique in its session.
        turn_id: &'a str,
        /// Name of the configured upstream that answers.
        model: &'a str,
        /// Rounds with tools that this turn may take.
        max_tool_loops: u32,
    },
    /// The model's words outside calls and reasoning.
    TextDelta {
        /// What follows directly behind the text of the `text_delta` before.
        text: &'a str,
    },
    /// The model's reasoning.
    ReasoningDelta {
        /// What follows directly behind the reasoning before.
        text: &'a str,
    },
    /// An opening marker was seen; its payload is still arriving.
    ToolMarkerDetected {
        /// The call's id in this turn.
        call_id: &'a str,
        /// The round, from 1.
        r#loop: u32,
    },
    /// Raw JSON of a call's arguments as it arrives.
    ToolArgumentsDelta {
        /// The call's id in this turn.
        call_id: &'a str,
        /// What follows directly behind the delta before.
        delta: &'a str,
    },
    /// What the user hears before tools run.
    Acknowledgement {
        /// The sentence.
        text: &'a str,
        /// Who said it.
        source: AcknowledgementSource,
    },
    /// A call is valid and its tool begins to run.
    ToolStarted {
        /// The call's id in this turn.
        call_id: &'a str,
        /// The tool's name.
        tool_name: &'a str,
        /// The arguments, as the model wrote them.
        tool_args: &'a RawValue,
        /// The round, from 1.
        r#loop: u32,
    },
    /// A running tool reports.
    ToolProgress {
        /// The call's id in this turn.
        call_id: &'a str,
        /// The tool's name.
        tool_name: &'a str,
        /// How far it is, in units of its own.
        progress: f64,
        /// How far it will go, where it knows.
        total: Option<f64>,
        /// What it does right now.
        message: Option<&'a str>,
    },
    /// A tool ended, well or not.
    ToolCompleted {
        /// The call's id in this turn.
        call_id: &'a str,
        /// The tool's name.
        tool_name: &'a str,
        /// Its result in the standard shape.
        tool_result: &'a ToolResult,
        /// How long it ran, in milliseconds.
        duration_ms: u64,
        /// How often it was tried.
        attempts: u32,
    },
    /// The model was told what was wrong with its call.
    Feedback {
        /// The call's id in this turn, where there is one.
        call_id: Option<&'a str>,
        /// The kind of mistake.
        reason: FeedbackReason,
        /// What the model was told.
        message: &'a str,
        /// How often this kind of mistake was made in this turn, from 1.
        attempt: u32,
    },
    /// The turn ends here and waits for the user.
    ClarificationNeeded {
        /// Names the question in the answer.
        clarification_id: &'a str,
        /// The call that could not decide.
        call_id: &'a str,
        /// Its tool.
        tool_name: &'a str,
        /// The question and its options.
        #[serde(flatten)]
        clarification: &'a Clarification,
    },
    /// Something a person should see while waiting.
    Status {
        /// One sentence.
        message: &'a str,
    },
    /// The cap was hit; a last answer without tools follows.
    LoopLimitReached {
        /// The cap.
        max_tool_loops: u32,
    },
    /// Last, where the turn came to its end.
    TurnCompleted {
        /// Why it ended.
        finish_reason: TurnFinish,
        /// What it took and what was said.
        #[serde(flatten)]
        summary: Summary<'a>,
    },
    /// Last, where the turn could not go on.
    TurnFailed {
        /// What went wrong.
        code: FailureCode,
        /// The same for a person, with what to do.
        message: &'a str,
        /// Whether the same request may succeed later.
        retryable: bool,
        /// What it took and what was said until then.
        #[serde(flatten)]
        summary: Summary<'a>,
    },
}

impl Event<'_> {
    /// The event's name, as in its `type` and in the frame's `event:` line.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        self.kind().name()
    }

    /// Which event it is.
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

    /// Whether nothing follows this event.
    #[must_use]
    pub const fn is_last(&self) -> bool {
        matches!(self, Self::TurnCompleted { .. } | Self::TurnFailed { .. })
    }
}

/// Which event it is, without what it tells.
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
    pub const ALL: [Self; 15] = [
        Self::TurnStarted,
        Self::TextDelta,
        Self::ReasoningDelta,
        Self::ToolMarkerDetected,
        Self::ToolArgumentsDelta,
        Self::Acknowledgement,
        Self::ToolStarted,
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

/// What a turn took, in its last event.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Summary<'a> {
    /// Rounds: how often the model was called.
    pub loops: u32,
    /// Calls that the model made, whether they were run or not.
    pub tool_calls: u32,
    /// Tokens, summed over the rounds.
    pub usage: Usage,
    /// All text of the turn, as in its text deltas.
    pub text: &'a str,
}

impl Usage {
    /// The same with the sum where the server left it out.
    #[must_use]
    pub const fn with_total(self) -> Self {
        let Self { prompt_tokens, completion_tokens, total_tokens } = self;
        let sum = prompt_tokens.saturating_add(completion_tokens);
        let total_tokens = if total_tokens == 0 { sum } else { total_tokens };
        Self { prompt_tokens, completion_tokens, total_tokens }
    }
}

/// Tokens that model servers counted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Usage {
    /// Read by the model.
    pub prompt_tokens: u64,
    /// Written by it.
    pub completion_tokens: u64,
    /// Both.
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

/// Where a turn is, as logs, metrics and the session's transcript name it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum TurnState {
    /// The model speaks, and may call tools.
    #[default]
    Planning,
    /// The model is silent; tools run.
    Executing,
    /// The model answers in words; it may call nothing more.
    Synthesizing,
    /// It has ended with a question to the user.
    AwaitingClarification,
    /// It has ended otherwise, well or cancelled.
    Completed,
    /// It could not go on.
    Failed,
}

impl TurnState {
    /// All of them, in the order of a turn.
    pub const ALL: [Self; 6] = [
        Self::Planning,
        Self::Executing,
        Self::Synthesizing,
        Self::AwaitingClarification,
        Self::Completed,
        Self::Failed,
    ];

    /// Its name.
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

    /// Whether nothing follows.
    #[must_use]
    pub const fn is_over(self) -> bool {
        matches!(self, Self::AwaitingClarification | Self::Completed | Self::Failed)
    }
}

/// Who said an acknowledgement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AcknowledgementSource {
    /// The model; the words were already sent as text.
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

/// Why the model was given feedback.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FeedbackReason {
    /// No such tool, or not one of this turn's.
    ToolNotFound,
    /// The arguments break the tool's schema.
    InvalidArguments,
    /// The payload is no call.
    MalformedCall,
    /// The call was cut off.
    IncompleteCall,
    /// The payload passed the size limit.
    PayloadTooLarge,
    /// The tool ended with an error.
    ToolFailed,
    /// The model wrote a result itself, or repeated one instead of answering.
    InventedResult,
    /// Nothing was said and nothing called.
    EmptyResponse,
}

impl FeedbackReason {
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
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TurnFinish {
    /// The answer stands.
    Stop,
    /// The model ran into its token limit.
    Length,
    /// The user was asked.
    ClarificationNeeded,
    /// The loop cap was hit; the answer was made without tools.
    LoopLimit,
    /// It was cancelled.
    Cancelled,
}

impl TurnFinish {
    /// The reason as events and metrics spell it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Stop => "stop",
            Self::Length => "length",
            Self::ClarificationNeeded => "clarification_needed",
            Self::LoopLimit => "loop_limit",
            Self::Cancelled => "cancelled",
        }
    }
}

/// Why a turn failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FailureCode {
    /// No upstream could be reached.
    UpstreamUnavailable,
    /// The upstream answered with an error, or broke off.
    UpstreamError,
    /// The upstream fell silent.
    UpstreamTimeout,
    /// The model kept answering with nothing.
    EmptyResponse,
    /// The turn passed `limits.max_turn_bytes`.
    TurnTooLarge,
    /// A fault of ours.
    Internal,
}

impl FailureCode {
    /// The code as events and metrics spell it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::UpstreamUnavailable => "upstream_unavailable",
            Self::UpstreamError => "upstream_error",
            Self::UpstreamTimeout => "upstream_timeout",
            Self::EmptyResponse => "empty_response",
            Self::TurnTooLarge => "turn_too_large",
            Self::Internal => "internal",
        }
    }
}

/// Serialises an enum as its `name`, which is its one spelling.
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
