//! What a turn is asked.

use std::sync::Arc;
use std::time::Duration;

use super::client_address::ClientAddress;
use crate::conversation::claimed::{ClientImages, PrefixHash};
use crate::conversation::{ClientInput, Conversation, Opening, PlacedImage};
use crate::orchestrator::{Briefing, ResponseFormat, TurnRequest};
use crate::session::AnswerSerializer;
use crate::tools::client::ClientTools;
use crate::tools::{Catalog, Confirm};
use crate::trace_context::TraceContext;
use crate::upstream::{Sampling, ToolChoice};

/// A turn to begin.
#[expect(clippy::struct_excessive_bools, reason = "requests answer each on its own")]
#[derive(Debug, Default)]
pub struct NewTurn {
    /// Whose it is. Owners do not share sessions; an empty owner is anyone.
    pub owner: String,
    /// The client's address, if limits by address apply to it.
    pub address: Option<ClientAddress>,
    /// The trace that it belongs to.
    pub trace: Option<TraceContext>,
    /// The session, as its owner calls it; a new one if absent.
    pub session_id: Option<String>,
    /// Whether a turn that still runs in the session is cancelled first. Otherwise this one does
    /// not begin.
    pub supersedes: bool,
    /// What the user says.
    pub input: ClientInput,
    /// Text for the model after the prompt, which the user has not written.
    pub aside: String,
    /// The name of an upstream; the first one if absent.
    pub model: Option<String>,
    /// The names of the tools that may be used; all if absent.
    pub tools: Option<Vec<String>>,
    /// The tools that the client brings, and runs itself.
    pub client_tools: ClientTools,
    /// Whether the client takes only one call of its own tools at a time.
    pub single_client_call: bool,
    /// Whether the client has no way to ask for approval. Calls that need it are then not run.
    pub nobody_approves: bool,
    /// Whether the user can answer only in words. Forms of more than one field are then declined.
    pub words_only: bool,
    /// Whether the model must call a tool before it answers.
    pub tool_choice: ToolChoice,
    /// The form of the answer; words if absent.
    pub response_format: Option<Arc<ResponseFormat>>,
    /// Whether the client reads the answer in one piece.
    pub is_read_whole: bool,
    /// Which calls need the user's approval, in addition to those of `tools.confirm`.
    pub confirm: Option<Confirm>,
    /// Lowers the configured limit.
    pub max_tool_loops: Option<u32>,
    /// How many calls the turn may make; can only lower the configured limit.
    pub max_calls: Option<u32>,
    /// Whether it goes on without readers, for as long as it takes.
    pub runs_alone: bool,
    /// How to sample tokens.
    pub sampling: Sampling,
    /// The conversation so far, if the client keeps it itself.
    pub client_history: Option<ClientHistory>,
    /// The client's name for the conversation that it keeps.
    pub conversation: Option<String>,
    /// Writes the answer in the client's own form, to be stored. If nothing is stored, it only
    /// knows how the client will send the answer back.
    pub serializer: Option<Arc<dyn AnswerSerializer>>,
    /// In one session, the same key begins only one turn.
    pub idempotency_key: Option<String>,
}

/// The history of a client that keeps the conversation itself. The turn gets a session of its own,
/// which is forgotten at its end.
#[derive(Debug)]
pub struct ClientHistory {
    /// The turns before this one.
    pub history: Conversation,
    /// The id of the turn that its session ends with, if the answer is stored; `None` if it is the first. What the
    /// client itself adds to the history comes after it.
    pub follows: Option<String>,
    /// Instructions to the model, in place of `model.system_prompt`.
    pub instructions: Option<String>,
    /// The hash of everything that the client has seen before the answer.
    pub prefix: PrefixHash,
    /// The images in it. They are kept with the answer, if that is kept.
    pub images: ClientImages,
    /// Whether a client that lost the stream can join it again. Otherwise the turn ends soon after
    /// its client has left.
    pub can_be_joined: bool,
}

/// What the gateway adds to a request: where the turn runs, its model and tools, and the history before it.
pub(super) struct Resolved {
    pub(super) session_id: String,
    pub(super) turn_id: String,
    pub(super) started_at_ms: u64,
    /// The name of the upstream.
    pub(super) model: String,
    pub(super) briefing: Arc<Briefing>,
    /// Tools that are lent to calls of earlier turns.
    pub(super) lent: Catalog,
    pub(super) disconnect_grace: Option<Duration>,
    pub(super) opening: Opening,
    pub(super) images: Vec<PlacedImage>,
    pub(super) history: Conversation,
}

impl NewTurn {
    /// Whether the request answers a question by its id. Words may happen to answer one, too.
    pub(super) const fn answers_explicitly(&self) -> bool {
        matches!(self.input, ClientInput::Answer { .. })
    }

    /// The turn that was asked for, in its session.
    pub(super) fn into_request(self, resolved: Resolved) -> TurnRequest {
        TurnRequest {
            session_id: resolved.session_id,
            turn_id: resolved.turn_id,
            started_at_ms: resolved.started_at_ms,
            opening: resolved.opening,
            images: resolved.images,
            model: resolved.model,
            sampling: self.sampling,
            max_tool_loops: self.max_tool_loops,
            max_calls: self.max_calls,
            disconnect_grace: resolved.disconnect_grace,
            tool_choice: self.tool_choice,
            response_format: self.response_format,
            is_read_whole: self.is_read_whole,
            single_client_call: self.single_client_call,
            nobody_approves: self.nobody_approves,
            words_only: self.words_only,
            confirm: self.confirm,
            briefing: resolved.briefing,
            lent: resolved.lent,
            history: resolved.history,
        }
    }
}
