//! Every bound of the gateway in one place: its unit, its default, its reason.
//!
//! Bounds that an operator may set are the defaults of keys in
//! `config/default.yml`; the others are constants because no deployment has a
//! reason to change them.

use std::time::Duration;

/// One kibibyte.
pub const KIB: usize = 1024;
/// One mebibyte.
pub const MIB: usize = 1024 * KIB;

/// Bounds of the parser.
pub mod parser {
    use super::KIB;

    /// Longest marker, in bytes. Longer ones waste the model's tokens.
    pub const MARKER_BYTES_MAX: usize = 64;
    /// White space that is skipped between a marker and its payload, in bytes.
    /// A model that writes more is not writing a call.
    pub const GAP_BYTES_MAX: usize = 256;
    /// Nesting of a payload. The same as `serde_json`'s own recursion limit.
    pub const DEPTH_MAX: usize = 128;
    /// Default of `stream.parser.max_payload_bytes`: a call longer than this is
    /// refused the moment it passes the limit.
    pub const PAYLOAD_BYTES_MAX: usize = 64 * KIB;
    /// How much of an offending payload an error quotes, in bytes.
    pub const ERROR_RAW_BYTES_MAX: usize = KIB;
}

/// Bounds of what a model server may send.
pub mod upstream {
    use super::{Duration, KIB, MIB};

    /// One frame of an upstream's event stream, in bytes. Real ones are below
    /// 1 KiB; a whole answer in one frame still fits.
    pub const FRAME_BYTES_MAX: usize = MIB;
    /// How much of an error answer is read to be quoted, in bytes.
    pub const ERROR_BODY_BYTES_MAX: usize = 16 * KIB;
    /// How much of a server's own error message goes on to a client, in bytes.
    pub const ERROR_MESSAGE_BYTES_MAX: usize = KIB;
    /// Calls that `constrain: llama_grammar` allows in one message. Small models,
    /// whom it is for, repeat a call until they are stopped: in 18 of 20 answers
    /// of SmolLM2-135M where the grammar let them.
    pub const GRAMMAR_CALLS_MAX: usize = 1;
    /// A grammar's rules for one tool, in bytes. Longer ones slow every token;
    /// the tool's arguments are then held to be an object, no more.
    pub const GRAMMAR_TOOL_BYTES_MAX: usize = 64 * KIB;
    /// Nesting of a schema that a grammar follows; below, any value is taken.
    pub const GRAMMAR_SCHEMA_DEPTH_MAX: usize = 32;
    /// Largest bound on items or characters that a grammar states: llama.cpp
    /// writes a repetition out. A larger one is left to the validation.
    pub const GRAMMAR_ITEMS_MAX: usize = 256;
    /// Taken from one upstream before the events go out, in bytes: text that
    /// arrived together leaves together, but a flood does not starve its readers.
    pub const BATCH_BYTES_MAX: usize = 64 * KIB;
    /// Default of `upstreams[].connect_timeout_sec`.
    pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
    /// Default of `upstreams[].idle_timeout_sec`: a model that reads a long
    /// prompt on a small machine says nothing for a while.
    pub const IDLE_TIMEOUT: Duration = Duration::from_secs(120);
    /// Idle connections kept for one upstream. More turns than this at a time
    /// saturate any local model server.
    pub const IDLE_CONNECTIONS_MAX: usize = 64;
    /// How long an idle connection is kept; shorter than common servers' own.
    pub const IDLE_CONNECTION_AGE: Duration = Duration::from_secs(50);
    /// Attempts to reach an upstream before the first byte of its answer.
    pub const ATTEMPTS_MAX: u32 = 3;
}

/// Bounds of a turn.
pub mod turn {
    use super::{Duration, MIB};

    /// Default of `limits.max_tool_loops`.
    pub const TOOL_LOOPS_MAX: u32 = 5;
    /// Default of `limits.tool_timeout_sec`.
    pub const TOOL_TIMEOUT: Duration = Duration::from_secs(15);
    /// Default of `limits.max_calls_per_turn`.
    pub const CALLS_MAX: u32 = 32;
    /// Default of `limits.max_turn_bytes`: model output and events of one turn.
    pub const BYTES_MAX: usize = 4 * MIB;
    /// Default of `tools.max_parallel`.
    pub const PARALLEL_MAX: usize = 8;
    /// Default of `feedback.max_attempts`, for each kind of mistake.
    pub const FEEDBACK_ATTEMPTS_MAX: u32 = 3;
    /// Default of `model.context_budget_tokens`.
    pub const CONTEXT_BUDGET_TOKENS: usize = 8192;
}

/// Bounds of a tool's result.
pub mod tools {
    use super::KIB;

    /// A tool's result as JSON text, in bytes. What is over is cut and the model
    /// is told so: a longer one would push the conversation out of its context.
    pub const OUTPUT_BYTES_MAX: usize = 32 * KIB;
}

/// Bounds of the stream to a client.
pub mod stream {
    use super::{Duration, KIB};

    /// One event frame, in bytes. Clients that re-scan what is pending, as
    /// openai-node does, are quadratic in it.
    pub const FRAME_BYTES_MAX: usize = 64 * KIB;
    /// Handed to a connection at once, in bytes, when a reader catches up.
    pub const WRITE_BYTES_MAX: usize = 64 * KIB;
    /// Default of `stream.keep_alive_sec`: below the 60 s of nginx and load balancers.
    pub const KEEP_ALIVE: Duration = Duration::from_secs(15);
    /// Default of `stream.disconnect_grace_sec`.
    pub const DISCONNECT_GRACE: Duration = Duration::from_secs(30);
    /// A reader that takes nothing for this long, with data waiting, is cut.
    pub const READER_STALL: Duration = Duration::from_secs(30);
    /// What clients are told to wait before they re-join, in milliseconds.
    pub const RETRY_MS: u32 = 2000;
}

/// Bounds of sessions.
pub mod session {
    use super::{Duration, KIB, MIB};

    /// Default of `sessions.ttl_sec`.
    pub const TTL: Duration = Duration::from_secs(86_400);
    /// Sessions held in memory; the one unused longest is forgotten first.
    pub const SESSIONS_MAX: usize = 65_536;
    /// Finished turns of a session whose logs are still held for re-joining.
    pub const TURN_LOGS_MAX: usize = 4;
    /// Bytes of finished turns' logs held by one session.
    pub const TURN_LOG_BYTES_MAX: usize = 8 * MIB;
    /// Idempotency keys remembered by one session.
    pub const IDEMPOTENCY_KEYS_MAX: usize = 64;
    /// Turns of a conversation that are kept; older ones no longer fit any context.
    pub const TURNS_MAX: usize = 1024;
    /// Longest `Idempotency-Key`, in bytes.
    pub const IDEMPOTENCY_KEY_BYTES_MAX: usize = KIB / 4;
}

/// Bounds of the HTTP server.
pub mod server {
    use super::{Duration, KIB, MIB};

    /// Default of `server.max_body_bytes`.
    pub const BODY_BYTES_MAX: usize = MIB;
    /// Default of `server.max_concurrent_turns`.
    pub const CONCURRENT_TURNS_MAX: usize = 1024;
    /// Default of `server.drain_timeout_sec`.
    pub const DRAIN_TIMEOUT: Duration = Duration::from_secs(30);
    /// Time to send the head of a request: slow senders hold a socket, no more.
    pub const HEAD_TIMEOUT: Duration = Duration::from_secs(10);
    /// Time to send a request's body.
    pub const BODY_TIMEOUT: Duration = Duration::from_secs(15);
    /// A connection's buffer, in bytes; also the longest head of a request.
    pub const HEAD_BYTES_MAX: usize = 16 * KIB;
    /// Header fields of a request.
    pub const HEADERS_MAX: usize = 64;
    /// Open connections.
    pub const CONNECTIONS_MAX: usize = 10_000;
    /// Streams of one HTTP/2 connection.
    pub const H2_STREAMS_MAX: u32 = 100;
}
