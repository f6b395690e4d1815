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

/// How often what nobody asks for is looked after: sessions that are not used any
/// more, samples of metrics.
pub const UPKEEP_INTERVAL: Duration = Duration::from_secs(30);

/// Bounds of logs.
pub mod telemetry {
    use super::{Duration, MIB};

    /// Lines that wait for standard error: some thousand, which a reader that pauses for a
    /// moment does not lose. Further ones are dropped and counted.
    pub const QUEUED_BYTES_MAX: usize = MIB;
    /// Time until a non-blocking standard error that was full is tried again.
    pub const RETRY_INTERVAL: Duration = Duration::from_millis(5);
    /// Time for the last lines to be written when the process ends: enough for any reader, and
    /// short for whoever waits for the end.
    pub const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);
}

/// Bounds of the parser.
pub mod parser {
    use super::KIB;

    /// Longest marker, in bytes. Longer ones waste the model's tokens.
    pub const MARKER_BYTES_MAX: usize = 64;
    /// What `stream.parser.marker_nonce` adds to a marker, in bytes: a colon and 32 bits
    /// in hexadecimal, which a text that fits a result cannot try out.
    pub const NONCE_BYTES: usize = 9;
    /// White space that is skipped between a marker and its payload, in bytes.
    /// A model that writes more is not writing a call.
    pub const GAP_BYTES_MAX: usize = 256;
    /// Nesting of a payload. The same as `serde_json`'s own recursion limit.
    pub const DEPTH_MAX: usize = 128;
    /// Default of `stream.parser.max_payload_bytes`: a call longer than this is
    /// refused the moment it passes the limit.
    pub const PAYLOAD_BYTES_MAX: usize = 64 * KIB;
    /// How much of a value that cannot be taken its error's message shows, in characters.
    pub const REFUSED_CHARS_MAX: usize = 40;
    /// How much of an offending payload an error quotes, in bytes.
    pub const ERROR_RAW_BYTES_MAX: usize = KIB;
}

/// Bounds of what a model server may send.
pub mod upstream {
    use super::{Duration, KIB, MIB};

    /// Arguments that may only hold the place of others, `{}` with white space around it,
    /// in bytes.
    pub const PLACEHOLDER_BYTES_MAX: usize = 16;
    /// A function's name in a request, in bytes: what `OpenAI`'s API takes.
    pub const FUNCTION_NAME_BYTES_MAX: usize = 64;
    /// One frame of an upstream's event stream, in bytes. Real ones are below
    /// 1 KiB; a whole answer in one frame still fits.
    pub const FRAME_BYTES_MAX: usize = MIB;
    /// How much of an error answer is read to be quoted, in bytes.
    pub const ERROR_BODY_BYTES_MAX: usize = 16 * KIB;
    /// How much of a server's own error message goes on to a client, in bytes.
    pub const ERROR_MESSAGE_BYTES_MAX: usize = KIB;
    /// How much is quoted of the coding that an answer is in, in bytes; real ones have a
    /// handful.
    pub const CODING_BYTES_MAX: usize = 32;
    /// Calls that a grammar allows in one message: a small model that repeats its call may
    /// not do so for ever.
    pub const GRAMMAR_CALLS_MAX: usize = 8;
    /// A grammar's rules for one tool, in bytes. Longer ones slow every token;
    /// the tool's arguments are then held to be an object, no more.
    pub const GRAMMAR_TOOL_BYTES_MAX: usize = 64 * KIB;
    /// Nesting of a schema that a grammar follows; below, any value is taken.
    pub const GRAMMAR_SCHEMA_DEPTH_MAX: usize = 32;
    /// Largest bound on items or characters that a grammar states: llama.cpp
    /// writes a repetition out. A larger one is left to the validation.
    pub const GRAMMAR_ITEMS_MAX: usize = 256;
    /// Native calls of one round. More are refused at the first that is over: a
    /// turn runs far fewer.
    pub const NATIVE_CALLS_MAX: usize = 64;
    /// Ids, names and arguments of one round's native calls, in bytes. As large as
    /// a frame, so that calls that come in one are not refused for it.
    pub const NATIVE_CALL_BYTES_MAX: usize = MIB;
    /// Messages of one round over the Responses API, where each is an item: models write
    /// one, or one before their calls and one behind.
    pub const RESPONSE_MESSAGES_MAX: usize = 64;
    /// How much of a list of models is read, in bytes; hubs list hundreds.
    pub const MODELS_BYTES_MAX: usize = MIB;
    /// Taken from one upstream before the events go out, in bytes: text that
    /// arrived together leaves together, but a flood does not starve its readers.
    pub const BATCH_BYTES_MAX: usize = 64 * KIB;
    /// Default of `upstreams[].connect_timeout_sec`.
    pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
    /// Default of `upstreams[].idle_timeout_sec`: a model that reads a long
    /// prompt on a small machine says nothing for a while.
    pub const IDLE_TIMEOUT: Duration = Duration::from_secs(120);
    /// How many times `idle_timeout_sec` a server may go on without a word: twenty
    /// minutes by default. Servers that send comments or empty deltas while they
    /// read a prompt live as long as they say so, and 32k tokens at 30 a second,
    /// on a small machine, are eighteen minutes; one that does nothing else is
    /// stuck.
    pub const WORDLESS_IDLE_TIMEOUTS_MAX: u32 = 10;
    /// What a round may bring that holds no words, in bytes: comments, empty
    /// deltas, white space, fields that nobody reads. A comment each second
    /// reaches it after a week, an empty delta for each token after 60 000.
    pub const WORDLESS_BYTES_MAX: usize = 16 * MIB;
    /// What the frame around words may take, in bytes, before it counts as
    /// wordless. Real ones are below 512.
    pub const FRAME_OVERHEAD_BYTES: usize = KIB;
    /// Idle connections kept for one upstream. More turns than this at a time
    /// saturate any local model server.
    pub const IDLE_CONNECTIONS_MAX: usize = 64;
    /// How long an idle connection is kept; shorter than common servers' own.
    pub const IDLE_CONNECTION_AGE: Duration = Duration::from_secs(50);
    /// Default pace of the embedded model, in tokens a second: about as fast as
    /// a person reads along.
    pub const EMBEDDED_TOKENS_PER_SEC: u32 = 40;
    /// A connection's read buffer, in bytes: some sixty tokens.
    pub const READ_BUFFER_BYTES: usize = 16 * KIB;
    /// How long the end of an answer is waited for once its last event has come,
    /// to keep the connection.
    pub const ANSWER_END_TIMEOUT: Duration = Duration::from_secs(1);
    /// Time for a server to say that it is there.
    pub const CHECK_TIMEOUT: Duration = Duration::from_secs(2);
    /// How long a server that said so is not asked again.
    pub const CHECK_AGE: Duration = Duration::from_secs(2);
    /// Longest wait that a server's `Retry-After` can ask for.
    pub const RETRY_AFTER_MAX: Duration = Duration::from_secs(5);
    /// The wait before the second attempt; it grows by as much with each further one.
    pub const RETRY_BACKOFF: Duration = Duration::from_millis(200);
    /// How long others are asked before an upstream that could not be reached; it doubles
    /// with each further time. About as long as a model server takes to come back with a
    /// small model, so that no turn waits for a connection to nobody again and again.
    pub const COOL_DOWN: Duration = Duration::from_secs(5);
    /// Longest such time: a server that is back is used within a minute.
    pub const COOL_DOWN_MAX: Duration = Duration::from_secs(60);
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
    /// Default of `limits.max_turn_bytes`: what the model may write in one turn.
    pub const BYTES_MAX: usize = 4 * MIB;
    /// Bytes of a turn's events for each byte of `limits.max_turn_bytes`: a token of
    /// four bytes is an event of forty-five. Only a model that writes letter by letter,
    /// or tools that return more than it writes, come to this before.
    pub const EVENTS_FACTOR: usize = 32;
    /// Progress is told while a turn's events take at most one part in so many of what they may:
    /// no tool makes a turn fail by reporting.
    pub const PROGRESS_SHARE: usize = 2;
    /// Default of `tools.max_parallel`.
    pub const PARALLEL_MAX: usize = 8;
    /// Payloads that are no call, in one message of the model; it is stopped there.
    pub const MISTAKES_MAX: usize = 8;
    /// Messages of a turn that may repeat a call that has succeeded. At the first the model
    /// is asked to answer; at the last its tools are taken away.
    pub const REPEATS_MAX: u32 = 2;
    /// Lines of a result that is shown as plain text.
    pub const RESULT_LINES_MAX: usize = 100;
    /// Values that a model is given to choose from when it calls again; with more of them it
    /// is sent to the results.
    pub const RETRY_VALUES_MAX: usize = 4;
    /// Bytes of a value that may be an id.
    pub const RETRY_VALUE_BYTES_MAX: usize = 64;
    /// Names of tools that were called before and are not offered, whose headings are known.
    pub const GUARDED_TOOLS_MAX: usize = 256;
    /// Calls before the turn whose results a message may echo: the last ones.
    pub const GUARDED_CALLS: usize = 8;
    /// Bytes of a message that are held back while they may begin a block of results.
    pub const HELD_BYTES_MAX: usize = 512;
    /// Bytes of a result's JSON, white space left out, that tell an echo of it from an
    /// answer.
    pub const MATCHED_BYTES_MAX: usize = 96;
    /// Results whose JSON is shorter are not taken for echoes: `{}` may be an answer.
    pub const ECHO_BYTES_MIN: usize = 12;
    /// Default of `feedback.max_attempts`, for each kind of mistake.
    pub const FEEDBACK_ATTEMPTS_MAX: u32 = 3;
    /// Time for a cancelled turn to end. It drops what it waits for, so this is
    /// for a machine that is out of breath.
    pub const CANCEL_TIMEOUT: Duration = Duration::from_secs(5);
    /// How long what is said of tools waits for an acknowledgement that names them all:
    /// about as long as a model on a small machine writes another call.
    pub const ACKNOWLEDGEMENT_WAIT: Duration = Duration::from_secs(1);
    /// Waiting hints that are joined into one sentence; the rest is "and more".
    pub const ACKNOWLEDGED_HINTS_MAX: usize = 3;
    /// Answers in a row with neither words nor calls, over the turns of a session;
    /// the turn fails with the last.
    pub const EMPTY_ANSWERS_MAX: u32 = 3;
    /// Where a model's temperature is not known: what servers default to.
    pub const USUAL_TEMPERATURE: f64 = 0.7;
    /// How warm mistakes can make a model; beyond this, small ones write noise.
    pub const WARMED_TEMPERATURE_MAX: f64 = 1.5;
    /// An option's id that is shorter, in bytes, is a word that any argument may be
    /// (`yes`, `2`): that it was not chosen says nothing about the call.
    pub const OPTION_ID_BYTES_MIN: usize = 4;
    /// Bytes of the tools' results in the answer of last resort.
    pub const FOUND_BYTES_MAX: usize = 4096;
    /// Default of `feedback.temperature_step`.
    pub const TEMPERATURE_STEP: f64 = 0.2;
    /// Arguments of a call that was not run, in bytes, that the model is sent when its context
    /// is full: longer ones are left out.
    pub const UNRUN_ARGUMENTS_BYTES_MAX: usize = 64;
    /// How much it is then sent of why the call was not run, in bytes.
    pub const UNRUN_REASON_BYTES_MAX: usize = 256;
    /// Default of `model.context_budget_tokens`.
    pub const CONTEXT_BUDGET_TOKENS: usize = 8192;
}

/// Bounds of tools, their arguments and their results.
pub mod tools {
    use super::{Duration, KIB};

    /// Longest name of a tool, in bytes; what every model server accepts.
    pub const NAME_BYTES_MAX: usize = 64;
    /// Names of tools in one feedback: more than this distracts a small model.
    pub const FEEDBACK_NAMES_MAX: usize = 15;
    /// Violations that one feedback, or one refused result, names. A model that
    /// breaks more has misread the tool, and the first ones say so.
    pub const VIOLATIONS_MAX: usize = 8;
    /// How much is quoted of anything that a model made up, in bytes: enough to recognise it.
    pub const QUOTED_BYTES_MAX: usize = 64;
    /// Longest message that a model is sent about a mistake, in bytes.
    pub const FEEDBACK_BYTES_MAX: usize = 2 * KIB;
    /// How much of a parameter's schema is quoted, in bytes.
    pub const SCHEMA_LINE_BYTES_MAX: usize = 512;
    /// A result's error or instruction, in bytes: words, not data.
    pub const MESSAGE_BYTES_MAX: usize = 4 * KIB;
    /// An expression to calculate, in bytes. It bounds the time of a
    /// calculation too, whose dearest operations stand one in a few bytes.
    pub const EXPRESSION_BYTES_MAX: usize = 512;
    /// Nesting of an expression, its outermost level included. Each level costs
    /// stack.
    pub const EXPRESSION_DEPTH_MAX: usize = 32;

    /// A person's name to look up, in characters.
    pub const NAME_CHARS_MAX: usize = 80;
    /// A demonstration message, in characters.
    pub const TEXT_CHARS_MAX: usize = 2000;

    /// A tool's result as JSON text, in bytes. What is over is cut and the model
    /// is told so: a longer one would push the conversation out of its context.
    pub const OUTPUT_BYTES_MAX: usize = 32 * KIB;
    /// Nesting of a result's data: what is read as JSON is no deeper, and what is can be read
    /// again.
    pub const DATA_DEPTH_MAX: usize = 128;
    /// Attempts of one call, the first included: more would keep the user waiting for
    /// something that a server's restart or a busy minute does not explain.
    pub const ATTEMPTS_MAX: u32 = 3;
    /// The wait behind a call's first failed attempt, at most; it doubles with each
    /// further one, and at least half of it is waited.
    pub const RETRY_BACKOFF: Duration = Duration::from_millis(250);
    /// Longest wait that a `Retry-After` can ask a call for. Who asks for more is told
    /// of to the model instead: a user is waiting.
    pub const RETRY_AFTER_MAX: Duration = Duration::from_secs(5);

    /// Shortest time between two reports of progress of one call that clients are told of: a
    /// bar that moves ten times a second moves smoothly.
    pub const PROGRESS_INTERVAL: Duration = Duration::from_millis(100);
    /// What a report of progress says in words, in bytes.
    pub const PROGRESS_MESSAGE_BYTES_MAX: usize = KIB;

    /// The least that a result can be cut to, in bytes: room for the note that
    /// says so and for the words of a tool beside it.
    pub const OUTPUT_BYTES_MIN: usize = 2 * KIB;
}

/// Bounds of the stream to a client.
pub mod stream {
    use super::{Duration, KIB};

    /// One event frame, in bytes. Clients that re-scan what is pending, as
    /// openai-node does, are quadratic in it.
    pub const FRAME_BYTES_MAX: usize = 64 * KIB;
    /// Handed to a connection at once, in bytes, when a reader catches up.
    pub const WRITE_BYTES_MAX: usize = 64 * KIB;
    /// Room for what is written that a stream keeps between two writes, in bytes. A reader that
    /// has caught up may wait for long.
    pub const WRITE_ROOM_BYTES: usize = KIB;
    /// Text of one record of a log, in bytes of JSON: what fits into a frame with its head.
    pub const RECORD_TEXT_BYTES_MAX: usize = FRAME_BYTES_MAX - KIB;
    /// Memory that a turn's log begins with, in bytes: room for its first event. A
    /// turn that waits for its model holds no more.
    pub const LOG_FIRST_BLOCK_BYTES: usize = KIB / 2;
    /// Memory that a turn's log grows by, in bytes: three dozen tokens' events.
    pub const LOG_BLOCK_BYTES: usize = 2 * KIB;
    /// Default of `stream.keep_alive_sec`: below the 60 s of nginx and load balancers.
    pub const KEEP_ALIVE: Duration = Duration::from_secs(15);
    /// When a client that sends no more is sent a sign of life, from the moment that this is
    /// known: one that is gone answers the first with a reset, and the next write fails. The
    /// last is for answers that take long.
    pub const PROBES: [Duration; 3] =
        [Duration::ZERO, Duration::from_millis(50), Duration::from_millis(500)];
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

    /// Nesting of a session's record: a result as deep as it may be, and 32 for what stands
    /// around it.
    pub const RECORD_DEPTH_MAX: usize = 160;
    /// Longest id of a session, in bytes.
    pub const ID_BYTES_MAX: usize = 128;
    /// Default of `sessions.ttl_sec`.
    pub const TTL: Duration = Duration::from_secs(86_400);
    /// Sessions held in memory; the one unused longest is forgotten first.
    pub const SESSIONS_MAX: usize = 65_536;
    /// Finished turns of a session whose logs are still held for re-joining.
    pub const TURN_LOGS_MAX: usize = 4;
    /// Bytes of finished turns' logs held by one session.
    pub const TURN_LOG_BYTES_MAX: usize = 8 * MIB;
    /// Bytes of finished turns' logs held by all sessions together; the oldest go
    /// first, and their turns can no longer be re-joined.
    pub const ALL_TURN_LOG_BYTES_MAX: usize = 256 * MIB;
    /// Idempotency keys remembered by one session.
    pub const IDEMPOTENCY_KEYS_MAX: usize = 64;
    /// Turns of a conversation that are kept; older ones no longer fit any context.
    pub const TURNS_MAX: usize = 1024;
    /// Memory that the turns of one conversation take, in bytes, the latest apart:
    /// the oldest are dropped first. As text that is two million tokens, more than
    /// any local model's context.
    pub const CONVERSATION_BYTES_MAX: usize = 8 * MIB;
    /// Memory that all sessions take together when a turn begins, in bytes, logs
    /// apart; those unused longest are forgotten first, a sixteenth at once. Room
    /// for 4 KiB in each of [`SESSIONS_MAX`] sessions, about a dozen short turns.
    pub const ALL_BYTES_MAX: usize = 256 * MIB;
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
    /// Time to send the head of a request, and how long a connection may be idle
    /// before it: slow senders hold a socket, no more.
    pub const HEAD_TIMEOUT: Duration = Duration::from_secs(30);
    /// Time to send a request's body.
    pub const BODY_TIMEOUT: Duration = Duration::from_secs(15);
    /// A connection's buffer, in bytes; also the longest head of a request.
    pub const HEAD_BYTES_MAX: usize = 16 * KIB;
    /// Header fields of a request.
    pub const HEADERS_MAX: usize = 64;
    /// Open connections. For a further one, the one that has been silent for longest is cut.
    pub const CONNECTIONS_MAX: usize = 10_000;
    /// The headers of an HTTP/2 request, in bytes, uncompressed.
    pub const H2_HEADER_BYTES_MAX: u32 = 16 * 1024;
    /// An HTTP/2 client is asked for a sign of life after this much silence ...
    pub const H2_PING_INTERVAL: Duration = Duration::from_secs(20);
    /// ... and has this long to give it.
    pub const H2_PING_TIMEOUT: Duration = Duration::from_secs(20);
    /// Pause before the next accept when the system refuses one.
    pub const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
    /// How long connections have to send what is left when the server stops.
    pub const CLOSE_TIMEOUT: Duration = Duration::from_secs(5);
    /// Stop strings of a request; model servers take no more.
    pub const STOP_STRINGS_MAX: usize = 16;
    /// Longest `X-Request-Id` of a client that is taken over into logs, in bytes.
    pub const REQUEST_ID_BYTES_MAX: usize = 128;
    /// How much a refusal's message says, and its field's name, in bytes: both quote
    /// what the client sent.
    pub const REFUSAL_BYTES_MAX: usize = 2 * KIB;
    /// How much of a field's wrong value a refusal quotes, in bytes: enough to know it
    /// again.
    pub const REFUSED_VALUE_BYTES_MAX: usize = 80;
    /// What a client is told to wait where there is no room for its turn, in
    /// seconds: about as long as a short turn takes.
    pub const RETRY_AFTER_SEC: u32 = 2;
    /// How long a browser may remember what a page of another origin may send; no
    /// browser takes more than this.
    pub const PREFLIGHT_AGE: Duration = Duration::from_secs(7200);
    /// What the socket holds of a response unsent, in bytes, as far as the system
    /// can be told. A slow client is then seen to take something now and then,
    /// where the system's own buffer grows to megabytes.
    pub const UNSENT_BYTES_MAX: u32 = 16 * 1024;
    /// Streams of one HTTP/2 connection.
    pub const H2_STREAMS_MAX: u32 = 100;
}

/// Bounds of the configuration itself: what a file may hold, and how far its
/// numbers may go. They catch a slip of the hand, such as milliseconds where
/// seconds are meant; none is a recommendation.
pub mod config {
    use super::{Duration, KIB, MIB};

    /// A configuration file, in bytes.
    pub const FILE_BYTES_MAX: usize = MIB;
    /// Nesting of a configuration file; the deepest value stands at 4.
    pub const DEPTH_MAX: usize = 16;
    /// An upstream's name, in bytes.
    pub const NAME_BYTES_MAX: usize = 128;
    /// Most mistakes shown at once; the rest are only counted.
    pub const MISTAKES_SHOWN_MAX: usize = 50;
    /// How much of a wrong value a message quotes, in characters.
    pub const QUOTE_CHARS_MAX: usize = 60;
    /// Any wait that an operator sets, but for the life of sessions.
    pub const WAIT_MAX: Duration = Duration::from_secs(86_400);
    /// Shortest wait that is a wait.
    pub const WAIT_MIN: Duration = Duration::from_millis(1);
    /// Longest life of an unused session.
    pub const TTL_MAX: Duration = Duration::from_secs(366 * 86_400);
    /// Smallest size that an operator sets, in bytes: room for one small call.
    pub const SIZE_MIN: usize = KIB;
    /// Largest size that an operator sets, in bytes.
    pub const SIZE_MAX: usize = 1024 * MIB;
    /// Turns at one time.
    pub const TURNS_MAX: usize = 1_000_000;
    /// Tools that run at one time in one turn.
    pub const PARALLEL_MAX: usize = 1024;
    /// Rounds with tools, calls and attempts of one turn.
    pub const COUNT_MAX: u32 = 1000;
    /// Smallest context that holds a system prompt, in tokens.
    pub const CONTEXT_TOKENS_MIN: usize = 256;
    /// Largest context of any model, with room to grow, in tokens.
    pub const CONTEXT_TOKENS_MAX: usize = 100_000_000;
    /// Fastest pace of the embedded model, in tokens a second.
    pub const TOKENS_PER_SEC_MAX: u32 = 100_000;
    /// Hottest sampling that model servers take.
    pub const TEMPERATURE_MAX: f64 = 2.0;
}
