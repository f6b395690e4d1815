//! What goes into the turn machine, and what comes out of it.

use std::sync::Arc;

use serde_json::Value;

use crate::conversation::{Conversation, Opening};
use crate::event::{Event, FailureCode};
use crate::orchestrator::briefing::Briefing;
use crate::orchestrator::call::CallAt;
use crate::tools::{Clarification, Progress, ToolResult};
use crate::upstream::{Delta, PassedOver, RoundRequest, Sampling, ToolChoice};

/// One turn as it was asked for.
#[derive(Debug, Clone)]
pub struct TurnRequest {
    /// The session.
    pub session_id: String,
    /// The turn's id in it.
    pub turn_id: String,
    /// When it began, in milliseconds since the Unix epoch.
    pub started_at_ms: u64,
    /// The user's words, or an answer.
    pub opening: Opening,
    /// Name of the upstream that answers.
    pub model: String,
    /// How the next tokens are chosen.
    pub sampling: Sampling,
    /// Lowers the cap of [`Rules::max_tool_loops`](super::Rules::max_tool_loops).
    pub max_tool_loops: Option<u32>,
    /// Whether the model has to call a tool before it answers.
    pub tool_choice: ToolChoice,
    /// The tools of this turn.
    pub briefing: Arc<Briefing>,
    /// The turns before this one.
    pub history: Conversation,
}

/// What happened.
#[derive(Debug)]
pub enum Input<'a> {
    /// Another upstream answers the running round than the one that was asked. Comes before
    /// the round's first delta.
    Rerouted {
        /// Its place in the turn's route.
        place: usize,
        /// Its name.
        answering: String,
        /// Why the last does not.
        why: PassedOver,
    },
    /// The running round brought something.
    Delta(Delta<'a>),
    /// The running round ended well.
    RoundEnded,
    /// The running round could not be started, or broke off.
    RoundFailed {
        /// What it means for the turn.
        code: FailureCode,
        /// For a person, with what to do.
        message: String,
        /// Whether the same request may succeed later.
        retryable: bool,
    },
    /// A running tool reports how far it is.
    ToolProgressed {
        /// The call, as [`Output::StartTool`] named it.
        call: CallAt,
        /// How far.
        progress: Progress,
        /// The attempt that reports, from 1.
        attempt: u32,
    },
    /// A running tool asks the user, and does not go on.
    ToolAsked {
        /// The call, as [`Output::StartTool`] named it.
        call: CallAt,
        /// What it asks.
        question: Clarification,
        /// How long it ran.
        duration_ms: u64,
        /// How often it was tried.
        attempts: u32,
    },
    /// A tool ended.
    ToolEnded {
        /// The call, as [`Output::StartTool`] named it.
        call: CallAt,
        /// What came back.
        result: ToolResult,
        /// How long it ran.
        duration_ms: u64,
        /// How often it was tried.
        attempts: u32,
    },
    /// The turn's events take this many bytes by now.
    Logged(usize),
    /// A client wants no answer any more.
    Cancel,
    /// Whether anybody reads the turn now.
    Audience {
        /// Somebody does.
        is_present: bool,
    },
    /// Time has passed, as [`Turn::set_now`](super::Turn::set_now) tells. Comes at
    /// [`Turn::deadline_ms`](super::Turn::deadline_ms), or later.
    Tick,
}

/// Why a call is not run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum NotRun {
    /// Something is wrong with it: its tool, its arguments.
    Refused,
    /// It stands behind one that asked, failed or ended the chain, or changes the world
    /// in a message that was cut off.
    Skipped,
    /// The turn has made as many calls as it may.
    OverCap,
    /// It would bring nothing new.
    Repeated,
}

impl NotRun {
    /// Its name in logs and metrics.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Refused => "refused",
            Self::Skipped => "skipped",
            Self::OverCap => "over_cap",
            Self::Repeated => "repeated",
        }
    }
}

/// What is to be done.
#[derive(Debug)]
pub enum Output<'a> {
    /// Tell the clients.
    Event(Event<'a>),
    /// Ask the model.
    StartRound(Box<RoundRequest>),
    /// Drop the running round; nothing of it is wanted any more.
    StopRound,
    /// Run a tool.
    StartTool {
        /// Names the call in [`Input::ToolEnded`].
        call: CallAt,
        /// Its id.
        call_id: &'a str,
        /// The tool, by the name that the model knows.
        name: &'a str,
        /// Its place in its message, from 1.
        position: usize,
        /// The arguments, valid.
        arguments: Value,
    },
    /// Drop a running tool.
    StopTool {
        /// The call, as [`Output::StartTool`] named it.
        call: CallAt,
    },
    /// Drop all running tools.
    StopTools,
    /// Log and count this. What follows from it comes as events and actions of its own.
    Log(LogLine<'a>),
}

/// What operators are told, and clients are not.
#[derive(Debug, Clone, Copy)]
pub enum LogLine<'a> {
    /// The model wrote nothing for the user: no words, and no call that is taken.
    SaidNothing,
    /// A call is not run.
    NotRun {
        /// The call's id in this turn.
        call_id: &'a str,
        /// The tool that it names.
        name: &'a str,
        /// Its place in its message, from 1.
        position: usize,
        /// Why.
        why: NotRun,
    },
    /// Nobody has read the turn for so long that it ends.
    Abandoned,
}
