//! Inputs and outputs of the turn machine.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use crate::call_format::CallContract;
use crate::conversation::{Conversation, Opening, PlacedImage};
use crate::event::{Event, FailureCode};
use crate::orchestrator::briefing::Briefing;
use crate::orchestrator::call::CallAt;
use crate::orchestrator::response_format::ResponseFormat;
use crate::tools::{
    Catalog, Clarification, Confirm, Continuation, Given, Progress, Resumption, ToolResult,
};
use crate::upstream::{Delta, PassedOver, RoundRequest, Sampling, ToolChoice};

/// A request for one turn.
#[expect(clippy::struct_excessive_bools, reason = "requests answer each on its own")]
#[derive(Debug, Clone)]
pub struct TurnRequest {
    /// The session's id.
    pub session_id: String,
    /// The turn's id in the session.
    pub turn_id: String,
    /// When it began, in milliseconds since the Unix epoch.
    pub started_at_ms: u64,
    /// The user's words, or an answer to a question.
    pub opening: Opening,
    /// The images in the user's words.
    pub images: Vec<PlacedImage>,
    /// Name of the upstream to ask.
    pub model: String,
    /// How tokens are sampled.
    pub sampling: Sampling,
    /// Lowers the cap of [`Rules::max_tool_loops`](crate::orchestrator::Rules::max_tool_loops).
    pub max_tool_loops: Option<u32>,
    /// Lowers the cap of [`Rules::max_calls`](crate::orchestrator::Rules::max_calls).
    pub max_calls: Option<u32>,
    /// How long it goes on without a reader, in place of
    /// [`Rules::disconnect_grace`](crate::orchestrator::Rules::disconnect_grace).
    pub disconnect_grace: Option<Duration>,
    /// Whether the model has to call a tool before it answers.
    pub tool_choice: ToolChoice,
    /// The form of the answer; words if absent.
    pub response_format: Option<Arc<ResponseFormat>>,
    /// Whether the client reads the answer in one piece, so that nothing has to be shown early.
    pub is_read_whole: bool,
    /// Whether the client takes only one call of its own tools at a time.
    pub single_client_call: bool,
    /// Whether the client has no way to ask for approval. Calls that need it are then not run.
    pub nobody_approves: bool,
    /// Whether the user can answer only in words. Forms of more than one field are then declined.
    pub words_only: bool,
    /// Which calls need the user's approval, in addition to those of [`Rules::confirm`].
    ///
    /// [`Rules::confirm`]: crate::orchestrator::Rules::confirm
    pub confirm: Option<Confirm>,
    /// The tools of this turn, and how the model learns about them.
    pub briefing: Arc<Briefing>,
    /// The tools of the call that the user has answered and of those that were put off until then,
    /// if they are none of this turn's. Only these calls may use them.
    pub lent: Catalog,
    /// The turns before this one.
    pub history: Conversation,
}

/// What happened.
#[derive(Debug)]
pub enum Input<'a> {
    /// Another upstream answers the running round. Comes before the round's first delta.
    Rerouted {
        /// Its place in the turn's route.
        place: usize,
        /// Its name.
        answering: String,
        /// Why the previous one does not answer.
        why: PassedOver,
    },
    /// A model answers the running round. Comes before the round's first delta.
    Answered {
        /// How it makes calls, in this round and the next ones.
        contract: CallContract,
        /// Whether its prompt has begun its reasoning.
        in_reasoning: bool,
        /// Whether it goes on with the message that it was shown, if it has to go on with one.
        is_prefilled: bool,
    },
    /// The running round produced something.
    Delta(Delta<'a>),
    /// The running round ended normally.
    RoundEnded,
    /// The running round failed to start, or broke off.
    RoundFailed {
        /// What it means for the turn.
        code: FailureCode,
        /// For people; says what to do.
        message: String,
        /// Whether the same request may succeed later.
        retryable: bool,
    },
    /// A running tool reports progress.
    ToolProgressed {
        /// The call, as [`Output::StartTool`] named it.
        call: CallAt,
        /// Its progress.
        progress: Progress,
        /// The attempt that reports, from 1.
        attempt: u32,
    },
    /// A running tool asks the user. It does not continue in this turn.
    ToolAsked {
        /// The call, as [`Output::StartTool`] named it.
        call: CallAt,
        /// What it asks.
        question: Clarification,
        /// What happens with the answer.
        continuation: Continuation,
        /// How long it ran.
        duration_ms: u64,
        /// How many attempts it made.
        attempts: u32,
    },
    /// A tool ended.
    ToolEnded {
        /// The call, as [`Output::StartTool`] named it.
        call: CallAt,
        /// Its result.
        result: ToolResult,
        /// How long it ran.
        duration_ms: u64,
        /// How many attempts it made.
        attempts: u32,
    },
    /// The turn's events now take this many bytes.
    Logged(usize),
    /// A client cancels the turn.
    Cancel,
    /// The session store has failed, so nothing more can be promised.
    StoreLost,
    /// Whether anyone is reading the turn.
    Audience {
        /// Whether there is a reader.
        is_present: bool,
    },
    /// Time has passed, as set by [`TurnMachine::set_now`](super::TurnMachine::set_now). Comes at
    /// [`TurnMachine::deadline_ms`](super::TurnMachine::deadline_ms) or later.
    Tick,
}

/// Why a call is not run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum NotRun {
    /// Its tool or its arguments are invalid.
    Refused,
    /// It comes after a call that asked, failed or ended the chain. Or it is mutating, and a lookup
    /// follows it, or its message was cut off or could not be read in full.
    Skipped,
    /// The turn has used up its calls.
    OverCap,
    /// It repeats an earlier call.
    Repeated,
    /// The model knew its tool by name only, and is told what it takes.
    Untold,
    /// The user is asked to approve it.
    Unapproved,
}

impl NotRun {
    /// All of them.
    pub(crate) const ALL: [Self; 6] = [
        Self::Refused,
        Self::Skipped,
        Self::OverCap,
        Self::Repeated,
        Self::Untold,
        Self::Unapproved,
    ];

    /// Its name in logs and metrics.
    #[must_use]
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Refused => "refused",
            Self::Skipped => "skipped",
            Self::OverCap => "over_cap",
            Self::Repeated => "repeated",
            Self::Untold => "untold",
            Self::Unapproved => "unapproved",
        }
    }
}

/// What to do.
#[derive(Debug)]
pub enum Output<'a> {
    /// Send an event to clients.
    Event(Event<'a>),
    /// Ask the model.
    StartRound(Box<RoundRequest>),
    /// Drop the running round; the rest of it is not needed.
    StopRound,
    /// Run a tool.
    StartTool {
        /// Names the call in [`Input::ToolEnded`].
        call: CallAt,
        /// Its id.
        call_id: &'a str,
        /// The tool's name, as the model knows it.
        name: &'a str,
        /// The call's position in its message, from 1.
        position: usize,
        /// The validated arguments.
        arguments: Value,
        /// The answer that the tool asked to be called with.
        resumption: Option<Resumption>,
    },
    /// Resume a call of an earlier turn that waits for the user's answer.
    ResumeTool {
        /// Names the call in [`Input::ToolEnded`].
        call: CallAt,
        /// Its id in this turn.
        call_id: &'a str,
        /// The tool's name.
        name: &'a str,
        /// Its id in the turn that asked.
        parked_as: &'a str,
        /// The answer.
        given: Given,
    },
    /// Set aside a running tool that waits for the user's answer. A later turn resumes it.
    ParkTool {
        /// The call, as [`Output::StartTool`] named it.
        call: CallAt,
    },
    /// Drop a running tool.
    StopTool {
        /// The call, as [`Output::StartTool`] named it.
        call: CallAt,
    },
    /// Drop all running tools.
    StopTools,
    /// Log and count this. Its consequences come as separate events and actions.
    Log(LogLine<'a>),
}

/// What operators see and clients do not.
#[derive(Debug, Clone, Copy)]
pub enum LogLine<'a> {
    /// The model wrote nothing for the user: no words and no valid call.
    EmptyAnswer,
    /// A call is not run.
    NotRun {
        /// The call's id.
        call_id: &'a str,
        /// The tool's name, as the model wrote it.
        name: &'a str,
        /// The call's position in its message, from 1.
        position: usize,
        /// Why.
        why: NotRun,
    },
    /// The turn is cancelled because it has had no reader for too long.
    Abandoned,
}
