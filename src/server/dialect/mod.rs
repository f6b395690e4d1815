//! Client dialects: the APIs that clients speak. All pure.
//!
//! A dialect reads requests, turns log records into frames, defines its keep-alive and words its
//! errors. It borrows records from the log and copies them once, into the client's buffer.

pub(super) mod ag_ui;
pub(super) mod ai_sdk;
pub(super) mod call_id;
pub(super) mod chat_completions;
mod client_tools;
mod content;
mod digest;
pub(super) mod ended;
#[cfg(any(test, fuzzing))]
pub mod fuzz;
mod images;
mod instructions;
pub(super) mod json;
pub(super) mod messages;
mod mismatch;
pub(super) mod models;
pub(super) mod native;
mod object;
mod openai_error;
mod response_format;
pub(super) mod responses;
mod sampling;
pub(super) mod schema;
pub(super) mod server_tools;
mod shown;
mod sse;
#[cfg(test)]
mod tests;
mod tool_choice;
mod words;

use std::fmt;

use bytes::{Bytes, BytesMut};
use serde_json::Value;

use self::chat_completions::ChatCompletions;
pub(super) use self::images::ImageReader;
use self::messages::Messages;
use self::models::Models;
use self::responses::Responses;
use super::refusal::Refusal;
use crate::conversation::claimed::{Repairs, TurnLookup};
use crate::gateway::NewTurn;
use crate::session::Record;

/// Reads requests that begin turns. A dialect whose requests refer to what is stored has a reader
/// of its own.
pub(super) trait RequestReader {
    /// Reads a request.
    ///
    /// # Errors
    /// What is wrong with it.
    fn read(&self, request: &ClientRequest<'_>) -> Result<ParsedRequest, Refusal>;
}

/// How an API that clients speak words its errors.
pub(super) trait Dialect: fmt::Debug + Sync {
    /// What clients call the field that requires a call, or forbids calls.
    fn tool_choice(&self) -> &'static str {
        "tool_choice"
    }

    /// The status and the body of the answer to a refused request.
    fn error(&self, refusal: &Refusal) -> (u16, Value);

    /// The answer to a refused request: the same as JSON, unless the dialect has another form.
    fn refused(&self, refusal: &Refusal) -> Refused {
        let (status, body) = self.error(refusal);
        let body = serde_json::to_vec(&body).unwrap_or_default();
        Refused { status, media_type: "application/json", body }
    }
}

/// The answer to a refused request.
#[derive(Debug)]
pub(super) struct Refused {
    pub(super) status: u16,
    pub(super) media_type: &'static str,
    pub(super) body: Vec<u8>,
}

/// The dialects that have options.
#[derive(Debug)]
pub(super) struct Dialects {
    pub(super) chat_completions: ChatCompletions,
    pub(super) messages: Messages,
    pub(super) responses: Responses,
}

/// A request that begins a turn.
#[derive(Clone, Copy)]
pub(super) struct ClientRequest<'a> {
    /// The media types that the client accepts.
    pub(super) accept: &'a str,
    pub(super) body: &'a [u8],
    pub(super) idempotency_key: Option<&'a str>,
    /// Whose request it is: the same for all requests with one key.
    pub(super) owner: &'a str,
    /// The models that can be asked for.
    pub(super) models: &'a Models,
    /// The name that a header gives to the conversation.
    pub(super) conversation: Option<&'a str>,
    /// Finds cached turns by what clients know of them.
    pub(super) lookup: &'a dyn TurnLookup,
    /// Reads the images in it.
    pub(super) images: ImageReader,
    /// Seconds since the Unix epoch.
    pub(super) now_sec: u64,
}

impl fmt::Debug for ClientRequest<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientRequest").field("bytes", &self.body.len()).finish_non_exhaustive()
    }
}

/// The turn that a request asks for, and how its client wants to read it.
#[derive(Debug)]
pub(super) struct ParsedRequest {
    pub(super) turn: NewTurn,
    pub(super) form: Form,
    /// What was repaired in the history that the client sent.
    pub(super) repairs: Repairs,
}

/// The form of an answer.
#[derive(Debug)]
pub(super) enum Form {
    /// As it comes.
    Stream(Box<dyn Encoder>),
    /// In one piece, at its end.
    Whole(Box<dyn Collector>),
    /// Later: the client gets a receipt, and comes back for the answer.
    Later(Box<dyn Receipt>),
}

/// What an answer says about itself.
#[derive(Debug, Clone)]
pub(super) struct AnswerMeta {
    /// The model, as the client named it.
    pub(super) model: String,
    /// When the turn began, in seconds since the Unix epoch.
    pub(super) now_sec: u64,
}

/// Answers for a turn that failed: the status and the body.
pub(super) type AnswerFailure = fn(failed: &Value) -> (u16, Value);

/// Writes the stream of one client.
pub(super) trait Encoder: fmt::Debug + Send {
    /// The media type of the stream.
    fn media_type(&self) -> &'static str;

    /// A header by which clients know the dialect, if it has one.
    fn mark(&self) -> Option<(&'static str, &'static str)> {
        None
    }

    /// Appends a record to the client's buffer.
    fn encode(&mut self, record: &Record<'_>, out: &mut BytesMut);

    /// The bytes that are sent after a while of silence.
    fn keep_alive(&self) -> Bytes;

    /// Whether a client that lost the stream can join it again.
    fn can_be_joined(&self) -> bool {
        false
    }

    /// Whether the answer was cut off in a way that the dialect has no words for. The connection
    /// then breaks off at the end.
    fn is_cut(&self) -> bool {
        false
    }

    /// How to answer a turn that fails before it has said anything. `None` if the stream begins at once and reports the
    /// failure itself.
    fn early_failure(&self) -> Option<AnswerFailure> {
        None
    }
}

/// Collects an answer that is sent in one piece.
pub(super) trait Collector: fmt::Debug + Send {
    /// Takes the next record.
    fn take(&mut self, record: &Record<'_>);

    /// The answer, once the log has ended.
    fn answer(self: Box<Self>) -> WholeAnswer;
}

/// Confirms a turn whose answer is fetched later.
pub(super) trait Receipt: fmt::Debug + Send {
    /// The receipt for this turn.
    fn receipt(&self, session_id: &str, turn_id: &str) -> Value;
}

/// An answer in one piece.
#[derive(Debug)]
pub(super) struct WholeAnswer {
    pub(super) status: u16,
    pub(super) body: Value,
    /// Whether a client may send the request again by itself, as SDKs do after an error.
    pub(super) may_be_repeated: bool,
}
