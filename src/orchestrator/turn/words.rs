//! What goes into the turn machine, and what comes out of it.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use crate::conversation::{Conversation, Opening};
use crate::event::{Event, FailureCode};
use crate::limits;
use crate::orchestrator::briefing::{Briefing, CallContract};
use crate::orchestrator::chain::Execution;
use crate::parser;
use crate::tools::ToolResult;
use crate::upstream::{Delta, RoundRequest, Sampling};

/// How turns go; the same for all turns of a gateway.
#[derive(Debug, Clone)]
pub struct Rules {
    /// The operator's instructions to the model.
    pub system_prompt: String,
    /// How the model makes a call.
    pub call_contract: CallContract,
    /// How calls are read; see [`Rules::parser_settings`].
    pub parser: parser::Settings,
    /// Tokens that a request to the model may take.
    pub context_budget_tokens: usize,
    /// Whether each session's marker carries a nonce.
    pub marker_nonce: bool,
    /// Whether the model is asked again after tools ran.
    pub continue_after_tool: bool,
    /// When calls run.
    pub execution: Execution,
    /// Calls that run at the same time.
    pub max_parallel: usize,
    /// Mistakes of one kind that are fed back, per turn.
    pub feedback_attempts: u32,
    /// How much warmer the model gets with each mistake.
    pub temperature_step: f64,
    /// Rounds with tools, per turn.
    pub max_tool_loops: u32,
    /// Calls, per turn.
    pub max_calls: u32,
    /// Bytes that the model may write, per turn. Its events may take
    /// [`EVENTS_FACTOR`](limits::turn::EVENTS_FACTOR) times as many.
    pub max_turn_bytes: usize,
}

impl Default for Rules {
    fn default() -> Self {
        Self {
            system_prompt: String::from("You are a helpful assistant."),
            call_contract: CallContract::MarkerJson,
            parser: parser::Settings::default(),
            context_budget_tokens: limits::turn::CONTEXT_BUDGET_TOKENS,
            marker_nonce: false,
            continue_after_tool: true,
            execution: Execution::Eager,
            max_parallel: limits::turn::PARALLEL_MAX,
            feedback_attempts: limits::turn::FEEDBACK_ATTEMPTS_MAX,
            temperature_step: 0.2,
            max_tool_loops: limits::turn::TOOL_LOOPS_MAX,
            max_calls: limits::turn::CALLS_MAX,
            max_turn_bytes: limits::turn::BYTES_MAX,
        }
    }
}

impl Rules {
    /// The settings of the parser that reads the model's words. With native calls it
    /// looks for none: a marker is text then.
    #[must_use]
    pub fn parser_settings(&self) -> parser::Settings {
        let calls = self.parser.calls && self.call_contract == CallContract::MarkerJson;
        parser::Settings { calls, ..self.parser.clone() }
    }

    /// Whether what opens a call differs from session to session.
    #[must_use]
    pub fn carries_nonce(&self) -> bool {
        self.marker_nonce && self.call_contract == CallContract::MarkerJson
    }
}

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
    /// Lowers the cap of [`Rules::max_tool_loops`].
    pub max_tool_loops: Option<u32>,
    /// The tools of this turn.
    pub briefing: Arc<Briefing>,
    /// The turns before this one.
    pub history: Conversation,
}

/// What happened.
#[derive(Debug)]
pub enum Input<'a> {
    /// Another upstream than the last answers the running round, since that one could not
    /// be reached. Comes before the round's first delta.
    Rerouted {
        /// Its name.
        answering: String,
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
    /// A tool ended.
    ToolEnded {
        /// The call, as [`Output::StartTool`] named it.
        call: usize,
        /// What came back.
        result: ToolResult,
        /// How long it ran.
        duration_ms: u64,
        /// How often it was tried.
        attempts: u32,
    },
    /// The turn's events take this many bytes by now.
    Logged(usize),
    /// Nobody wants the answer any more.
    Cancel,
    /// The timer has run out.
    TimerEnded,
}

/// Why a call is not run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum NotRun {
    /// Something is wrong with it: its tool, its arguments.
    Refused,
    /// It stands behind one that asked, failed or ended the chain, or over a cap.
    Skipped,
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
    /// Tell when this much time has passed. There is one timer; a new one replaces it.
    StartTimer(Duration),
    /// A call is not run. The model and the user are told by events; this is for logs.
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
    /// Run a tool.
    StartTool {
        /// Names the call in [`Input::ToolEnded`].
        call: usize,
        /// Its id, for logs.
        call_id: &'a str,
        /// The tool.
        name: &'a str,
        /// The arguments, valid.
        arguments: Value,
    },
    /// Drop all running tools.
    StopTools,
}
