//! Every limit of the gateway in one place, with its unit, default and reason.
//!
//! Limits that an operator can set are the defaults of keys in `config/default.yml`. The others
//! are constants, because no deployment has a reason to change them.

pub mod chat;
pub mod session;
pub mod upstream;

use std::time::Duration;

/// Bytes in a kibibyte.
pub const KIB: usize = 1024;
/// Bytes in a mebibyte.
pub const MIB: usize = 1024 * KIB;

/// Keys of fewer bytes are no secrets, and may be words that an error message needs.
pub const HIDDEN_KEY_BYTES_MIN: usize = 8;

/// How often to run upkeep: removing expired sessions, draining metric samples.
pub const UPKEEP_INTERVAL: Duration = Duration::from_secs(30);

/// Limits of logs.
pub mod telemetry {
    use super::{Duration, KIB, MIB};

    /// Bytes of lines that wait for standard error: several thousand lines, so a reader can
    /// pause without losing any. Further lines are dropped and counted.
    pub const QUEUED_BYTES_MAX: usize = MIB;
    /// How long lines gather while they keep coming: too short to be seen, and two hundred writes a second at most.
    pub const BATCH_INTERVAL: Duration = Duration::from_millis(5);
    /// The pause before retrying a full, non-blocking standard error.
    pub const RETRY_INTERVAL: Duration = Duration::from_millis(5);
    /// Spans that can wait for the OpenTelemetry collector: a few seconds of a busy gateway. Any more are dropped and
    /// counted.
    pub const QUEUED_SPANS_MAX: usize = 4096;
    /// Spans in one request, as in other exporters.
    pub const BATCH_SPANS_MAX: usize = 512;
    /// How long the first span of a batch waits for others.
    pub const BATCH_WAIT: Duration = Duration::from_secs(1);
    /// Series of all histograms together. Any more share one.
    pub const SERIES_MAX: usize = 2000;
    /// How long the collector may take to answer.
    pub const COLLECTOR_TIMEOUT: Duration = Duration::from_secs(10);
    /// Attempts to send something to the collector.
    pub const COLLECTOR_ATTEMPTS_MAX: u32 = 3;
    /// The wait before the second attempt. Each later wait is longer by the same amount.
    pub const COLLECTOR_BACKOFF: Duration = Duration::from_millis(500);
    /// The longest wait that a collector's `Retry-After` can ask for.
    pub const COLLECTOR_WAIT_MAX: Duration = Duration::from_secs(5);
    /// Bytes of the collector's answer that are read.
    pub const COLLECTOR_ANSWER_BYTES_MAX: usize = 64 * KIB;
    /// How often a collector that does not accept anything is logged.
    pub const COLLECTOR_WARNING_INTERVAL: Duration = Duration::from_secs(60);
    /// Default of `telemetry.otlp.metrics_interval_sec`, as in other exporters.
    pub const METRICS_INTERVAL: Duration = Duration::from_secs(60);
    /// Time to send the last traces and metrics when the process ends.
    pub const LAST_EXPORT_TIMEOUT: Duration = Duration::from_secs(5);
    /// Time to write the last lines when the process ends: enough for any reader, but short for
    /// whoever is waiting for the process.
    pub const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);
}

/// Limits of the parser.
pub mod parser {
    use super::KIB;

    /// Longest marker, in bytes. Longer ones would waste the model's tokens.
    pub const MARKER_BYTES_MAX: usize = 64;
    /// Bytes that `stream.parser.marker_nonce` adds to a marker: a colon and 32 bits in
    /// hexadecimal, too many values for a tool result to try them all.
    pub const NONCE_BYTES: usize = 9;
    /// White space that is skipped between a marker and its payload, in bytes. A model that
    /// writes more is not writing a call.
    pub const GAP_BYTES_MAX: usize = 256;
    /// A label between an opener and its payload, in bytes: a tool's name has at most 64, with a
    /// prefix, a number and what ends it.
    pub const LABEL_BYTES_MAX: usize = 256;
    /// The header of a message, with its marks, in bytes: a role, a channel, a recipient and a type.
    pub const HEADER_BYTES_MAX: usize = 256;
    /// Bytes at the start of an answer that wait until it is clear whether a call without an opener begins
    /// there. If it is not clear by then, they are text.
    pub const START_BYTES_MAX: usize = 512;
    /// How many references and alternatives of a schema are followed to the types of an argument.
    pub const TYPES_STEPS_MAX: usize = 64;
    /// Nesting depth of a payload, the same as `serde_json`'s recursion limit.
    pub const DEPTH_MAX: usize = 128;
    /// Default of `stream.parser.max_payload_bytes`. A longer call is rejected as soon as it
    /// exceeds this limit.
    pub const PAYLOAD_BYTES_MAX: usize = 64 * KIB;
    /// Characters of an unusable value that an error message quotes.
    pub const REFUSED_CHARS_MAX: usize = 40;
    /// Bytes of a bad payload that an error quotes.
    pub const ERROR_RAW_BYTES_MAX: usize = KIB;
}

/// Limits of a turn.
pub mod turn {
    use super::{Duration, MIB};

    /// How long a turn waits for a required source of tools: about as long as a package takes to be
    /// fetched and started.
    pub const REQUIRED_SOURCE_WAIT: Duration = Duration::from_secs(60);

    /// Default of `limits.max_tool_loops`.
    pub const TOOL_LOOPS_MAX: u32 = 5;
    /// Default of `limits.tool_timeout_sec`.
    pub const TOOL_TIMEOUT: Duration = Duration::from_secs(15);
    /// Default of `limits.max_calls_per_turn`.
    pub const CALLS_MAX: u32 = 32;
    /// Calls of a turn to tools known by name only that do not count as calls: one for each tool
    /// that a question needs, with some to spare. More than that is a model reading the catalog.
    pub const UNTOLD_CALLS_FREE: usize = 8;
    /// Default of `limits.max_turn_bytes`: what the model may write in one turn.
    pub const BYTES_MAX: usize = 4 * MIB;
    /// Event bytes of a turn for each byte of `limits.max_turn_bytes`: a token of four bytes
    /// becomes an event of 45. Only a model that writes letter by letter, or tools that return
    /// more than the model writes, reach this limit first.
    pub const EVENTS_FACTOR: usize = 32;
    /// Progress is reported only while a turn's events take at most this fraction (one half) of
    /// their limit, so that progress reports cannot make a turn fail.
    pub const PROGRESS_SHARE: usize = 2;
    /// Default of `tools.max_parallel`.
    pub const PARALLEL_MAX: usize = 8;
    /// Payloads that are not calls, in one message of the model; the next one stops the message.
    pub const MISTAKES_MAX: usize = 8;
    /// Messages of a turn that may repeat a call that succeeded. At the first, the model is
    /// asked to answer; at the last, its tools are taken away.
    pub const REPEATS_MAX: u32 = 2;
    /// Lines of a result that is shown as plain text.
    pub const RESULT_LINES_MAX: usize = 100;
    /// Values that feedback offers a model for its next call; if there are more, it refers to
    /// the results.
    pub const RETRY_VALUES_MAX: usize = 4;
    /// Bytes of a value that may be an id.
    pub const RETRY_VALUE_BYTES_MAX: usize = 64;
    /// Tool names whose result headings are recognised, including tools that were called before
    /// but are not offered.
    pub const GUARDED_TOOLS_MAX: usize = 256;
    /// Calls before the turn whose results a message may echo: the latest ones.
    pub const GUARDED_CALLS: usize = 8;
    /// Bytes of a message that are held back while they may be the start of a block of results.
    pub const HELD_BYTES_MAX: usize = 768;
    /// Bytes of a result's JSON, without white space, that distinguish an echo from an answer.
    pub const MATCHED_BYTES_MAX: usize = 256;
    /// Results with shorter JSON are not treated as echoes: `{}` may be an answer.
    pub const ECHO_BYTES_MIN: usize = 12;
    /// Default of `feedback.max_attempts`, for each kind of mistake.
    pub const FEEDBACK_ATTEMPTS_MAX: u32 = 3;
    /// Share (a quarter) of the context that descriptions of tools, or one result, may take. The
    /// conversation needs the rest.
    pub const TOLD_SHARE: usize = 4;
    /// Share (a quarter) of what may be told in full that is kept for the gateway's tools when a client brings many:
    /// some bring forty.
    pub const SERVER_TOOLS_SHARE: usize = 4;
    /// The user's messages that the selection of tools depends on.
    pub const QUESTIONS_SEARCHED: usize = 3;
    /// Default of `tools.select.max_told`.
    pub const TOLD_TOOLS_MAX: usize = 24;
    /// Default of `tools.select.names`.
    pub const NAMED_TOOLS_MAX: usize = 100;
    /// Time for a cancelled turn to end. Cancelling drops everything it waits for, so this
    /// allows for an overloaded machine.
    pub const CANCEL_TIMEOUT: Duration = Duration::from_secs(5);
    /// How long tool events wait for an acknowledgement that names all the tools: about as long
    /// as a model on a small machine takes to write another call.
    pub const ACKNOWLEDGEMENT_WAIT: Duration = Duration::from_secs(1);
    /// Waiting hints that are joined into one sentence; the rest become "and more".
    pub const ACKNOWLEDGED_HINTS_MAX: usize = 3;
    /// Answers in a row without words or calls, across the turns of a session. The last one
    /// fails its turn.
    pub const EMPTY_ANSWERS_MAX: u32 = 3;
    /// The temperature to assume if a model's is unknown: the usual server default.
    pub const USUAL_TEMPERATURE: f64 = 0.7;
    /// Highest temperature that mistakes can cause; above it, small models write noise.
    pub const WARMED_TEMPERATURE_MAX: f64 = 1.5;
    /// An option id of fewer bytes may be an ordinary word (`yes`, `2`) that any argument
    /// contains, so it does not count as an option that the user did not choose.
    pub const OPTION_ID_BYTES_MIN: usize = 4;
    /// Bytes of tool results in the answer of last resort.
    pub const FOUND_BYTES_MAX: usize = 4096;
    /// Default of `feedback.temperature_step`.
    pub const TEMPERATURE_STEP: f64 = 0.2;
    /// Bytes of an unrun call's arguments that are kept when the model's context is full;
    /// longer arguments are left out.
    pub const UNRUN_ARGUMENTS_BYTES_MAX: usize = 64;
    /// Bytes of the reason why the call was not run that are kept in that case.
    pub const UNRUN_REASON_BYTES_MAX: usize = 256;
    /// Default of `model.context_budget_tokens`.
    pub const CONTEXT_BUDGET_TOKENS: usize = 8192;
    /// Tokens that an image counts as. Models differ: from 64 (`SmolVLM`, small) to 4,000.
    pub const IMAGE_TOKENS: usize = 1024;
    /// Images that a model sees at the same time; the newest.
    pub const IMAGES_MAX: usize = 8;
    /// Bytes of all of them.
    pub const IMAGE_BYTES_MAX: usize = 16 * MIB;
}

/// Limits of tools, their arguments and their results.
pub mod tools {
    use super::{Duration, KIB, MIB};

    /// Longest tool name, in bytes; every model server accepts it.
    pub const NAME_BYTES_MAX: usize = 64;
    /// A tool's description, in characters; the rest would not help a small model.
    pub const DESCRIPTION_CHARS_MAX: usize = 2048;
    /// A parameter's description, in characters.
    pub const PARAMETER_DESCRIPTION_CHARS_MAX: usize = 1024;
    /// A tool's schema, in bytes of JSON. It is compiled, and kept as long as the tool.
    pub const SCHEMA_BYTES_MAX: usize = 256 * KIB;
    /// The part of a schema that models read, in bytes of JSON. Twice this is the whole context of
    /// a small model.
    pub const TOLD_SCHEMA_BYTES_MAX: usize = 16 * KIB;
    /// Tool names in one piece of feedback; more would distract a small model.
    pub const FEEDBACK_NAMES_MAX: usize = 15;
    /// Violations listed in one piece of feedback, or for one rejected result. A model with
    /// more has misread the tool, and the first ones show that.
    pub const VIOLATIONS_MAX: usize = 8;
    /// Parts of a schema that may be looked at to check a value: some hundredths of a second. A tree
    /// with twenty kinds of nodes, each of which is tried, stays below to the third level.
    pub const CHECKS_MAX: usize = 400_000;
    /// The same for tools that a client brings along, since anyone may send them with every request: a hundredth of a
    /// second at most, in which the thread does nothing else. The client checks what takes longer.
    pub const CLIENT_CHECKS_MAX: usize = 25_000;
    /// The same if what is wrong is explained: an error takes half a KiB of memory.
    pub const CHECKS_EXPLAINED_MAX: usize = 50_000;
    /// Nanoseconds that the patterns of a schema may take to check a value, at worst; most take a millionth of that.
    pub const MATCH_NS_MAX: usize = 1_000_000_000;
    /// The same for what a client brings along: a hundredth of a second.
    pub const CLIENT_MATCH_NS_MAX: usize = 10_000_000;
    /// What is allowed more for each value within.
    pub const CHECKS_PER_VALUE: usize = 50;
    /// The longest reference in a schema, in bytes.
    pub const REFERENCE_BYTES_MAX: usize = 2 * KIB;
    /// How deep that may go: a value of a hundred levels, with four parts for each.
    pub const CHECK_DEPTH_MAX: usize = 512;
    /// Parts of a schema that are copied when it is compiled: those of unions in passing, and an
    /// eighth of this for `unevaluatedProperties`, which is 20 MiB.
    pub const COPIES_MAX: usize = 100_000;
    /// How deep that may go: a level takes some KiB of stack.
    pub const COPY_DEPTH_MAX: usize = 64;
    /// The patterns of a schema together: each takes time and memory to prepare.
    pub const PATTERNS_MAX: usize = 64;
    /// Weight of all patterns of a schema, where an ordinary one has a weight of 1.
    pub const PATTERN_WEIGHT_MAX: usize = 256;
    /// So many bytes of a pattern, as written, add one to its weight.
    pub const PATTERN_BYTES_PER_WEIGHT: usize = 128;
    /// Classes (`\s`) in a pattern, in units of this many, add the square of their number: 4 add 1, 8 add 4.
    pub const PATTERN_CLASSES_PER_WEIGHT: usize = 4;
    /// A pattern that is ready for use, in bytes: a hundred letters of any alphabet, with a look-ahead.
    pub const PATTERN_BYTES_MAX: usize = 4 * MIB;
    /// Steps that a pattern with a look-ahead may take on one text before it is given up.
    pub const PATTERN_STEPS_MAX: usize = 10_000;
    /// Runs of the validator for matches that are given up, since each may have two outcomes. This is
    /// the validator's own limit.
    pub const UNFINISHED_RUNS_MAX: usize = 64;
    /// Optional parameters of a call that a model wrote as `null` and that are dropped: each is
    /// tried by itself. More than any tool takes.
    pub const NULLS_DROPPED_MAX: usize = 64;
    /// Bytes quoted of anything that a model made up: enough to recognise it.
    pub const QUOTED_BYTES_MAX: usize = 64;
    /// Longest message to a model about a mistake, in bytes.
    pub const FEEDBACK_BYTES_MAX: usize = 2 * KIB;
    /// Bytes of a parameter's schema that are quoted.
    pub const SCHEMA_LINE_BYTES_MAX: usize = 512;
    /// A result's error or instruction, in bytes. These are sentences, not data.
    pub const MESSAGE_BYTES_MAX: usize = 4 * KIB;
    /// Tools that one search describes. A model that needs more can search again.
    pub const FOUND_TOOLS_MAX: usize = 5;
    /// An expression to calculate, in bytes. This also bounds the time, because even the most
    /// expensive operations take a few bytes each.
    pub const EXPRESSION_BYTES_MAX: usize = 512;
    /// Nesting depth of an expression, including the outermost level. Each level uses stack.
    pub const EXPRESSION_DEPTH_MAX: usize = 32;

    /// A person's name to look up, in characters.
    pub const NAME_CHARS_MAX: usize = 80;
    /// A demonstration message, in characters.
    pub const TEXT_CHARS_MAX: usize = 2000;

    /// A tool's result as JSON text, in bytes. A longer result is cut. What a model is told of it
    /// depends on its context.
    pub const OUTPUT_BYTES_MAX: usize = 256 * KIB;
    /// The values that references bring into a call's arguments, as JSON text, in bytes: one whole
    /// result.
    pub const REFERRED_BYTES_MAX: usize = OUTPUT_BYTES_MAX;
    /// How much of an integer that is too long is quoted to the model, in bytes.
    pub const LONG_INTEGER_BYTES_SHOWN: usize = 80;
    /// A question to the user as JSON text, in bytes: half a frame of an event stream.
    pub const QUESTION_BYTES_MAX: usize = 32 * KIB;
    /// A file that a tool returns, in bytes. A longer one is not kept.
    pub const FILE_BYTES_MAX: usize = 8 * MIB;
    /// Tools that a client may bring to a turn: as many as `OpenAI`'s API takes.
    pub const CLIENT_TOOLS_MAX: usize = 128;
    /// The patterns that are checked in the tools of a turn's client together, of which long ones count as several; the
    /// client checks the others. Anyone may send such tools with every request.
    pub const CLIENT_PATTERNS_MAX: usize = 64;
    /// Such a pattern that is ready for use, in bytes: together they take 8 MiB.
    pub const CLIENT_PATTERN_BYTES_MAX: usize = 128 * KIB;
    /// Files of one result that are kept.
    pub const FILES_MAX: usize = 16;
    /// Nesting depth of a result's data. Deeper JSON is not parsed, so whatever was parsed can
    /// be read back.
    pub const DATA_DEPTH_MAX: usize = 128;
    /// Attempts of one call, including the first. More would keep the user waiting for longer
    /// than a restarting server or a busy minute explains.
    pub const ATTEMPTS_MAX: u32 = 3;
    /// How long a call waits for the user's answer in memory: as long as people think, not as
    /// long as they are away.
    pub const PARK_TIMEOUT: Duration = Duration::from_secs(300);
    /// How many questions a call may ask, one after another.
    pub const QUESTIONS_PER_CALL_MAX: u32 = 10;
    /// Calls that wait for answers in memory at the same time. Each holds a connection or a
    /// process of its server.
    pub const PARKED_CALLS_MAX: usize = 1024;
    /// What a tool wants back with an answer, as JSON, in bytes. It is kept in the session.
    pub const RESUMPTION_STATE_BYTES_MAX: usize = 256 * KIB;
    /// Longest wait after the first failed attempt of a call. It doubles with each further
    /// attempt; at least half of it is waited.
    pub const RETRY_BACKOFF: Duration = Duration::from_millis(250);
    /// Longest `Retry-After` that a call obeys. A longer one is reported to the model instead,
    /// because a user is waiting.
    pub const RETRY_AFTER_MAX: Duration = Duration::from_secs(5);

    /// Shortest time between two progress reports of one call to clients: a bar that moves ten
    /// times per second moves smoothly.
    pub const PROGRESS_INTERVAL: Duration = Duration::from_millis(100);
    /// The message of a progress report, in bytes.
    pub const PROGRESS_MESSAGE_BYTES_MAX: usize = KIB;

    /// The least that a result can be cut to, in bytes: room for the note about the cut and for
    /// the tool's own message.
    pub const OUTPUT_BYTES_MIN: usize = 2 * KIB;
    /// What a program prints, or an MCP server sends over a connection, that is read at full speed, in bytes: enough for
    /// any result.
    pub const READ_AT_ONCE: usize = 16 * MIB;
    /// What is read after that in each [`READ_PAUSE`]: 4 MiB a second.
    pub const READ_PER_PAUSE: usize = 64 * KIB;
    /// The interval of [`READ_PER_PAUSE`].
    pub const READ_PAUSE: Duration = Duration::from_millis(16);
}

/// Limits of the stream to a client.
pub mod stream {
    use super::{Duration, KIB};

    /// One event frame, in bytes. Clients that rescan pending data, like openai-node, take
    /// quadratic time in it.
    pub const FRAME_BYTES_MAX: usize = 64 * KIB;
    /// How long a stream waits for its turn's first word, so that a failure before it has a status: an upstream that
    /// refuses connections has been tried for the last time by then.
    pub const EARLY_FAILURE_WAIT: Duration = Duration::from_secs(2);
    /// Bytes passed to a connection at once when a reader catches up.
    pub const WRITE_BYTES_MAX: usize = 64 * KIB;
    /// Batches that a stream sends before it lets other tasks run.
    pub const BATCHES_MAX: usize = 8;
    /// Write buffer that a stream keeps between two writes, in bytes. A reader that has caught
    /// up may wait for a long time.
    pub const WRITE_ROOM_BYTES: usize = KIB;
    /// Text of one log record, in bytes of JSON; longer text becomes several records. A dialect
    /// writes it as one frame.
    pub const RECORD_TEXT_BYTES_MAX: usize = 63 * KIB;
    /// Initial size of a turn's log, in bytes: room for its first event. A turn that waits for
    /// its model uses no more.
    pub const LOG_FIRST_BLOCK_BYTES: usize = KIB / 2;
    /// Growth of a turn's log, in bytes: the events of about three dozen tokens.
    pub const LOG_BLOCK_BYTES: usize = 2 * KIB;
    /// The longest runs that a finished log is joined into, in bytes: many whole pages of memory, which it shares with
    /// no other log.
    pub const SEALED_RUN_BYTES: usize = 64 * KIB;
    /// Default of `stream.keep_alive_sec`: below the 60 s of nginx and load balancers.
    pub const KEEP_ALIVE: Duration = Duration::from_secs(15);
    /// When to send keep-alives to a client that has stopped sending: milliseconds from that moment.
    /// A client that is gone answers one with a reset, and the next write fails. Forwarders, such as
    /// those of containers, may pass on the end of sending well before they close.
    pub const PROBES_MS: [u64; 7] = [0, 50, 500, 1000, 2000, 4000, 8000];
    /// How often to look whether a client has stopped sending if it has sent more than its request.
    pub const OVERRUN_LOOK: Duration = Duration::from_millis(500);
    /// Default of `stream.disconnect_grace_sec`.
    pub const DISCONNECT_GRACE: Duration = Duration::from_secs(30);
    /// How long a turn continues without a reader who could not come back anyway: long enough for
    /// the first one to arrive.
    pub const UNJOINABLE_GRACE: Duration = Duration::from_secs(1);
    /// A reader that takes nothing for this long while data is waiting is cut.
    pub const READER_STALL: Duration = Duration::from_secs(30);
    /// How long clients are told to wait before they rejoin, in milliseconds.
    pub const RETRY_MS: u32 = 2000;
}

/// Limits of the programs that tools run.
pub mod process {
    use super::{Duration, KIB};

    /// Bytes of standard error that are kept: its end, where programs say why they failed.
    pub const STDERR_BYTES_MAX: usize = 64 * KIB;
    /// A line of standard error that is passed on, in bytes; the rest of it is dropped.
    pub const STDERR_LINE_BYTES_MAX: usize = 4 * KIB;
    /// How long a program has to end after its input was closed.
    pub const CLOSE_WAIT: Duration = Duration::from_secs(2);
    /// How long it then has to end after it was asked to.
    pub const TERM_WAIT: Duration = Duration::from_secs(2);
    /// How long it then takes at most to be gone. A process that left the group may hold a pipe for
    /// ever.
    pub const KILL_WAIT: Duration = Duration::from_secs(1);
    /// How long the next call that changes something waits for a program that is being ended: the two waits above, and
    /// 2 s to find and end what has left its group.
    pub const END_WAIT: Duration = Duration::from_secs(5);
    /// How long all programs have to end when the gateway stops.
    pub const STOP_TIMEOUT: Duration = Duration::from_secs(5);
    /// How often processes that left a program's group are looked for and killed, until none is
    /// found. One round is enough but for those that start others faster than they are killed.
    pub const STRAGGLER_ROUNDS_MAX: u32 = 16;
    /// A program that has lived longer may have stragglers whose ids are below its own, because ids
    /// go round: after 32,768 of them on small systems.
    pub const SHORT_LIFE: Duration = Duration::from_secs(60);
    /// How long a program's directory is emptied before it is given up: enough for millions of
    /// files, and an end if something that still runs makes more of them.
    pub const REMOVAL_WAIT: Duration = Duration::from_secs(600);
}

/// Limits of tools that are programs.
pub mod command {
    use super::{KIB, MIB};

    /// A program's arguments together, in bytes. Linux takes that much in a single one.
    pub const ARGUMENTS_BYTES_MAX: usize = 128 * KIB;
    /// Bytes of standard output that are kept; the rest is read and dropped.
    pub const OUTPUT_BYTES_MAX: usize = MIB;
    /// Lines that a failed program wrote last, for the model.
    pub const LAST_LINES_MAX: usize = 8;
    /// The same in bytes: a line may be as long as it likes.
    pub const LAST_BYTES_MAX: usize = 8 * KIB;
    /// Files that a program may have open at the same time.
    pub const FILES_MAX: u64 = 256;
    /// The largest file that a program may write, in bytes.
    pub const FILE_BYTES_MAX: u64 = 64 * MIB as u64;
    /// How many seconds of each processor a program may take beyond its time limit: the limit is for
    /// programs that outlive it.
    pub const CPU_SEC_MORE: u64 = 5;
}

/// Limits of the HTTP server.
pub mod server {
    use super::{Duration, KIB, MIB};

    /// Default of `server.max_body_bytes`.
    pub const BODY_BYTES_MAX: usize = MIB;
    /// How long it may take to read a certificate again.
    pub const CERTIFICATE_READ_TIMEOUT: Duration = Duration::from_secs(2);
    /// Nesting depth of a body. Clients send back what models wrote, which may be as deep as
    /// [`DATA_DEPTH_MAX`](super::tools::DATA_DEPTH_MAX), a few levels down.
    pub const BODY_DEPTH_MAX: usize = 160;
    /// Long bodies that are read at the same time, each on a thread of its own. Their conversations
    /// take some hundred times as much memory; others wait.
    pub const READINGS_MAX: usize = 4;
    /// Long answers that clients have asked for and not taken yet, in bytes: transcripts, files, responses. Each takes at
    /// most some 8 MiB.
    pub const LONG_ANSWERS_BYTES_MAX: usize = 128 * MIB;
    /// Answers that are read from the store and written at the same time, before it is known how long they are.
    pub const ANSWERS_LOADED_MAX: usize = 16;
    /// How long another one waits for them.
    pub const ANSWERS_LOADED_WAIT: Duration = Duration::from_secs(5);
    /// Earlier responses whose items a request may refer to, the latest of them: more turns than fit
    /// into a local model's context.
    pub const REFERENCES_MAX: usize = 64;
    /// What may take the place of a request's references to items, in bytes of JSON; the latest get it.
    pub const REFERENCED_BYTES_MAX: usize = 4 * MIB;
    /// Input items of a response in one page, unless the client says how many.
    pub const INPUT_ITEMS_LISTED: usize = 20;
    /// Most that it may ask for: the same as at `OpenAI`.
    pub const INPUT_ITEMS_LISTED_MAX: usize = 100;
    /// Default of `server.max_concurrent_turns`.
    pub const CONCURRENT_TURNS_MAX: usize = 1024;
    /// Default of `server.drain_timeout_sec`.
    pub const DRAIN_TIMEOUT: Duration = Duration::from_secs(30);
    /// Time to send the head of a request, and how long a connection may be idle before it. A
    /// slow sender occupies no more than a socket.
    pub const HEAD_TIMEOUT: Duration = Duration::from_secs(30);
    /// Bytes that are read of a body that is too long before it is refused: several photos. A client
    /// that sends more may see a broken connection instead of the refusal.
    pub const DISCARDED_BYTES_MAX: usize = 32 * MIB;
    /// Bytes of a body that are read on a connection that is refused: enough for a prompt.
    pub const UNWANTED_BYTES_MAX: usize = 64 * KIB;
    /// Time for that: enough on one machine or network.
    pub const DISCARD_TIMEOUT: Duration = Duration::from_secs(2);
    /// Time to send a request's body.
    pub const BODY_TIMEOUT: Duration = Duration::from_secs(15);
    /// A connection's buffer, in bytes; also the longest head of a request.
    pub const HEAD_BYTES_MAX: usize = 16 * KIB;
    /// Header fields of a request.
    pub const HEADERS_MAX: usize = 64;
    /// Default of `server.limits.connections_per_address`: twice the default of `server.max_concurrent_turns`, so
    /// that all of them fit behind a proxy that is missing from `server.trusted_proxies`.
    pub const ADDRESS_CONNECTIONS_MAX: usize = 2048;
    /// Default of `server.limits.head_rate_per_address`, in requests a second: a few percent of what a
    /// core can answer.
    pub const ADDRESS_HEAD_RATE_MAX: u32 = 1000;
    /// Default of `server.limits.reserved_turns_percent`.
    pub const RESERVED_TURNS_PERCENT: usize = 10;
    /// Addresses whose rates are remembered: a few megabytes.
    pub const RATED_ADDRESSES_MAX: usize = 65_536;
    /// Connections over their address's limit that get an answer at the same time. Any more are just closed.
    pub const REFUSED_CONNECTIONS_MAX: usize = 64;
    /// Time for such a connection to send its request and get its answer.
    pub const REFUSED_CONNECTION_TIMEOUT: Duration = Duration::from_secs(2);
    /// Addresses that are read from a request's `X-Forwarded-For` or `Forwarded`: the longest chain of proxies.
    pub const PROXIES_MAX: usize = 16;
    /// Open connections: ten thousand streams, and short requests beside them, such as those of probes.
    /// To accept another, the one that has been silent longest is cut.
    pub const CONNECTIONS_MAX: usize = 12_000;
    /// A client with more than one in this many of the silent connections loses one of its own if no place is free.
    pub const SILENT_SHARE: usize = 8;
    /// Connections that wait to be accepted, as many as Linux allows by default. A client beyond them
    /// is not refused: its system tries again after 1, 3, 7 and more seconds.
    pub const WAITING_CONNECTIONS_MAX: u32 = 4096;
    /// Header fields of an HTTP/2 request, in bytes, uncompressed.
    pub const H2_HEADER_BYTES_MAX: u32 = 16 * 1024;
    /// An HTTP/2 client is pinged after this much silence ...
    pub const H2_PING_INTERVAL: Duration = Duration::from_secs(20);
    /// ... and has this long to answer.
    pub const H2_PING_TIMEOUT: Duration = Duration::from_secs(20);
    /// The pause before the next accept after the system refused one.
    pub const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
    /// How often such refusals are logged.
    pub const ACCEPT_WARNING_INTERVAL: Duration = Duration::from_secs(60);
    /// How long connections have to send the rest when the server stops.
    pub const CLOSE_TIMEOUT: Duration = Duration::from_secs(5);
    /// Stop strings in a request; model servers accept no more.
    pub const STOP_STRINGS_MAX: usize = 16;
    /// The name that a client gives to a conversation, in bytes.
    pub const CONVERSATION_NAME_BYTES_MAX: usize = 256;
    /// Sampling fields of a request that are passed on as they are, together, in bytes of JSON.
    pub const EXTRA_SAMPLING_BYTES_MAX: usize = 16 * KIB;
    /// Longest stop string of a request, in characters, as JSON Schema counts them: so much of an
    /// answer may be held back.
    pub const STOP_STRING_CHARS_MAX: usize = 256;
    /// Longest `X-Request-Id` of a client that is copied into logs, in bytes.
    pub const REQUEST_ID_BYTES_MAX: usize = 128;

    /// The longest id of a client's message that an answer repeats, in bytes. Clients make ids of a
    /// few dozen. Without an id in the answer, the client keeps its own.
    pub const MESSAGE_ID_BYTES_MAX: usize = 256;
    /// Bytes of a refusal's message, and of its field's name: both quote what the client sent.
    pub const REFUSAL_BYTES_MAX: usize = 2 * KIB;
    /// Bytes of a field's wrong value that a refusal quotes: enough to recognise it.
    pub const REFUSED_VALUE_BYTES_MAX: usize = 80;
    /// How long a client is told to wait if there is no room for its turn, in seconds: about
    /// the length of a short turn.
    pub const RETRY_AFTER_SEC: u32 = 2;
    /// How long a browser may cache what pages of other origins may send; no browser allows
    /// more.
    pub const PREFLIGHT_AGE: Duration = Duration::from_secs(7200);
    /// Bytes allocated at first for the head of a streamed response.
    pub const RESPONSE_HEAD_ROOM_BYTES: usize = 512;
    /// Unsent bytes of a response in the socket, where the system supports a limit. With it, a
    /// slow client is seen to make progress; without it, the system's buffer grows to
    /// megabytes.
    pub const UNSENT_BYTES_MAX: u32 = 16 * 1024;
    /// The name under which a file is saved, in characters: what file systems take, with room for
    /// an ending.
    pub const FILE_NAME_CHARS_MAX: usize = 100;
    /// Time for a TLS handshake.
    pub const TLS_HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
    /// TLS handshakes under way. A silent one is cut to make room for another.
    pub const TLS_HANDSHAKES_MAX: usize = 256;
    /// Bytes of a file with a certificate and its chain, or with a key. The rest is not read.
    pub const PEM_BYTES_MAX: u64 = 1024 * 1024;
    /// Streams per HTTP/2 connection.
    pub const H2_STREAMS_MAX: u32 = 100;
}

/// Limits of the configuration: the size of a file and the range of its numbers. They catch
/// slips such as milliseconds in place of seconds. None is a recommendation.
pub mod config {
    use super::{Duration, KIB, MIB};

    /// A configuration file, in bytes.
    pub const FILE_BYTES_MAX: usize = MIB;
    /// Nesting depth of a configuration file. The deepest values are schemas of parameters.
    pub const DEPTH_MAX: usize = 64;
    /// An upstream's name, in bytes.
    pub const NAME_BYTES_MAX: usize = 128;
    /// Names of headers in `chat.session_headers`: each request looks for them.
    pub const SESSION_HEADERS_MAX: usize = 16;
    /// Names of models in `chat.models`: each request looks through them.
    pub const MODEL_NAMES_MAX: usize = 256;
    /// The name of a source of tools, in bytes: half of what model servers take for a tool's.
    pub const ENTRY_NAME_BYTES_MAX: usize = 32;
    /// Most mistakes shown at once; the rest are only counted.
    pub const MISTAKES_SHOWN_MAX: usize = 50;
    /// How much of a wrong value a message quotes, in characters.
    pub const QUOTE_CHARS_MAX: usize = 60;
    /// Any wait that an operator sets, except the lifetime of sessions.
    pub const WAIT_MAX: Duration = Duration::from_secs(86_400);
    /// Shortest wait other than none.
    pub const WAIT_MIN: Duration = Duration::from_millis(1);
    /// Longest lifetime of an unused session.
    pub const TTL_MAX: Duration = Duration::from_secs(366 * 86_400);
    /// Smallest size that an operator can set, in bytes: room for one small call.
    pub const SIZE_MIN: usize = KIB;
    /// Largest size that an operator can set, in bytes.
    pub const SIZE_MAX: usize = 1024 * MIB;
    /// Concurrent turns; connections of an address.
    pub const TURNS_MAX: usize = 1_000_000;
    /// Requests per second.
    pub const RATE_MAX: u32 = 1_000_000;
    /// Address ranges in one key of `server`. Every connection is checked against all of them.
    pub const ADDRESS_RANGES_MAX: usize = 64;
    /// Tools that a model is told about: more than anyone offers.
    pub const TOLD_TOOLS_MAX: usize = 100_000;
    /// Tools that run concurrently in one turn.
    pub const PARALLEL_MAX: usize = 1024;
    /// Rounds with tools, calls, and attempts in one turn.
    pub const COUNT_MAX: u32 = 1000;
    /// Smallest context that fits a system prompt, in tokens.
    pub const CONTEXT_TOKENS_MIN: usize = 256;
    /// Larger than the context of any model, with room to grow, in tokens.
    pub const CONTEXT_TOKENS_MAX: usize = 100_000_000;
    /// Fastest pace of the embedded model, in tokens per second.
    pub const TOKENS_PER_SEC_MAX: u32 = 100_000;
    /// Highest temperature that model servers accept.
    pub const TEMPERATURE_MAX: f64 = 2.0;
}

/// Limits of the requests that tools send.
pub mod outbound {
    use super::{Duration, KIB};

    /// How long to wait for a connection, with the search for the host's addresses and TLS. A
    /// user is waiting.
    pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
    /// How long to keep an idle connection; shorter than the timeouts of common servers.
    pub const IDLE_CONNECTION_AGE: Duration = Duration::from_secs(30);
    /// Idle connections kept for each host of a client: as many as one turn runs tools at once.
    pub const IDLE_CONNECTIONS_MAX: usize = 8;
    /// A connection's buffer over HTTP/1.1, in bytes; also the longest head of an answer. Real
    /// ones are below 16 KiB.
    pub const HEAD_BYTES_MAX: usize = 64 * KIB;
    /// Header fields of an answer over HTTP/2, in bytes, uncompressed.
    pub const H2_HEADER_BYTES_MAX: u32 = 64 * 1024;
    /// An HTTP/2 server is pinged after this much silence in an answer ...
    pub const H2_PING_INTERVAL: Duration = Duration::from_secs(20);
    /// ... and has this long to answer.
    pub const H2_PING_TIMEOUT: Duration = Duration::from_secs(20);
    /// Redirects that a request may follow; real ones need one or two.
    pub const REDIRECTS_MAX: usize = 3;
}

/// Limits of authorization servers.
pub mod oauth {
    use std::time::Duration;

    use super::KIB;

    /// How long a token may take to arrive, with the search for who gives it.
    pub const TIMEOUT: Duration = Duration::from_secs(20);
    /// An answer of an authorization server, in bytes.
    pub const ANSWER_BYTES_MAX: usize = 256 * KIB;
    /// How long a call waits for a new token while the old one is still valid.
    pub const RENEWAL_TIMEOUT: Duration = Duration::from_secs(5);
    /// How long a token is used that is still valid, but could not be renewed, before that is tried again.
    pub const RENEWAL_PAUSE: Duration = Duration::from_secs(30);
    /// How long to use a token that does not say how long it is valid.
    pub const LIFE_DEFAULT: Duration = Duration::from_secs(300);
    /// The longest use of a token, whatever it says: a day is short enough to notice that a client
    /// has been locked out, and far from overflowing a clock.
    pub const LIFE_MAX: Duration = Duration::from_secs(24 * 60 * 60);
    /// How long a signed statement of the client is valid.
    pub const ASSERTION_LIFE: Duration = Duration::from_secs(60);
}

/// Limits of MCP servers and what they send.
pub mod mcp {
    use super::{Duration, KIB, MIB};

    /// How long to wait for a connection and its handshake: a package may have to be fetched first.
    pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(60);
    /// How long a lost server is left alone before a call that waits for it causes an attempt to connect.
    pub const WANTED_PAUSE: Duration = Duration::from_secs(1);
    /// How much longer than `connect_timeout_sec` commands wait for a server, so that its own reason is reported.
    pub const SETTLE_MARGIN: Duration = Duration::from_secs(5);
    /// The longest call, however much it reports, with all its attempts.
    pub const CALL_MAX: Duration = Duration::from_secs(300);
    /// The longest message, in bytes: a line, an event or a body.
    pub const MESSAGE_BYTES_MAX: usize = 4 * MIB;
    /// Bytes that are looked at of a key or an id in a message that is too long: more than the
    /// longest number has.
    pub const TOKEN_BYTES_MAX: usize = 32;
    /// How much of a program's output is read at once, in bytes: an ordinary message.
    pub const READ_BYTES: usize = 8 * KIB;
    /// The largest capacity that a buffer keeps after a long line, in bytes.
    pub const KEPT_BUFFER_BYTES: usize = 64 * KIB;
    /// Messages to an MCP server's program that wait in order until it reads: more than calls and answers together. Any
    /// more wait for room, in no order.
    pub const OUTGOING_LINES_MAX: usize = 256;
    /// Requests of a connection whose answers we read ourselves: its open calls, and lists that were
    /// never answered. The oldest are dropped first.
    pub const RAW_ANSWERS_MAX: usize = 2 * OPEN_CALLS_MAX;
    /// What is read of an HTTP answer that is an error, in bytes.
    pub const ERROR_BYTES_MAX: usize = 64 * KIB;
    /// What a model reads of a tool's error, in bytes.
    pub const ERROR_TEXT_BYTES_MAX: usize = 2 * KIB;
    /// Notifications that are looked at in a second: of each open call its progress, and all others of a connection.
    pub const NOTIFICATIONS_PER_SEC_MAX: u32 = 100;
    /// Pages of a list of tools.
    pub const LIST_PAGES_MAX: usize = 64;
    /// Tools in a list.
    pub const LIST_TOOLS_MAX: usize = 2000;
    /// A list of tools, in bytes of JSON.
    pub const LIST_BYTES_MAX: usize = 8 * MIB;
    /// How long a list may take.
    pub const LIST_TIMEOUT: Duration = Duration::from_secs(30);
    /// How long a list is used at least, if the server says for how long it may be used but does not
    /// report changes: it is read by models, not by machines that wait for it.
    pub const LIST_AGE_MIN: Duration = Duration::from_secs(300);
    /// How long to wait after a change of the list, since changes come in bursts.
    pub const CHANGE_PAUSE: Duration = Duration::from_millis(100);
    /// The same for a list that keeps changing: the pause doubles up to this, and begins anew once
    /// there has been no change for as long.
    pub const CHANGE_PAUSE_MAX: Duration = Duration::from_secs(10);
    /// The patterns in the schemas of a list together. Real lists have a few; each takes time and
    /// memory to prepare, up to [`PATTERN_BYTES_MAX`](super::tools::PATTERN_BYTES_MAX).
    pub const LIST_PATTERNS_MAX: usize = 256;
    /// Calls of a connection that are open at the same time. One more waits until another ends. It fails if none does
    /// within the time that a call may be silent: the server is stuck then.
    pub const OPEN_CALLS_MAX: usize = 64;
    /// Requests of a connection over HTTP that are sent at the same time: all of its open calls, and
    /// a few for lists and pings.
    pub const POSTS_MAX: usize = OPEN_CALLS_MAX + 8;
    /// A server's question, in characters; the rest would not help the user.
    pub const QUESTION_CHARS_MAX: usize = 4096;
    /// How long to wait before continuing a call that has nothing to ask.
    pub const STATE_PAUSE: Duration = Duration::from_millis(500);
    /// Requests of a server that are not answered yet. A question takes one until the user has
    /// answered, so there are more than calls; beyond that, a server only fills the memory.
    pub const SERVER_REQUESTS_MAX: usize = 128;
    /// The same in bytes of JSON: a long question or two, and many ordinary ones.
    pub const SERVER_REQUESTS_BYTES_MAX: usize = 2 * MESSAGE_BYTES_MAX;
    /// A server's request that is no question to the user, in bytes of JSON. Its answer may repeat the method, and is
    /// kept until the server reads it.
    pub const SERVER_REQUEST_BYTES_MAX: usize = 8 * KIB;
    /// The id of a server's request, in bytes: more than any counter, UUID or hash has. Its answer repeats it.
    pub const SERVER_REQUEST_ID_BYTES_MAX: usize = 256;
    /// Calls of a connection that were given up and may still ask something. Beyond that, nobody is
    /// asked anything over it for as long as the next limit says.
    pub const GIVEN_UP_CALLS_MAX: usize = 256;
    /// How long a server may still ask something about a call that was given up: twice as long as a
    /// call may take, and as the user may think.
    pub const GIVEN_UP_AGE: Duration = Duration::from_secs(600);
    /// How long a call waits for a server that is being reconnected; it then fails for good, since
    /// another attempt would only wait again.
    pub const RECONNECT_WAIT: Duration = Duration::from_secs(5);
    /// How long a process may take to exit after closing its output.
    pub const EXIT_WAIT: Duration = Duration::from_millis(500);
    /// How long the last words of a process may take to be read after its exit; part of that.
    pub const STDERR_WAIT: Duration = Duration::from_millis(200);
    /// The shortest pause before a stream that has ended is opened again, in milliseconds, whatever
    /// the server asks for. Servers of the conformance suite ask for 500.
    pub const STREAM_PAUSE_MIN_MS: u64 = 450;
    /// How often a broken stream is opened again.
    pub const STREAM_RETRIES_MAX: usize = 5;
    /// The longest wait before that.
    pub const STREAM_BACKOFF_MAX: Duration = Duration::from_secs(16);
    /// The longest wait before a server is connected again.
    pub const RESTART_BACKOFF_MAX: Duration = Duration::from_secs(60);
    /// How long a server has to stay for its earlier failures to be forgotten.
    pub const HEALTHY_AFTER: Duration = Duration::from_secs(60);
    /// Restarts ...
    pub const RESTARTS_MAX: usize = 10;
    /// ... within this time ...
    pub const RESTARTS_WITHIN: Duration = Duration::from_secs(600);
    /// ... after which a server is left alone for this long.
    pub const RESTARTS_PAUSE: Duration = Duration::from_secs(300);
    /// How long a session's own connection is kept without a call.
    pub const OWN_CONNECTION_AGE: Duration = Duration::from_secs(600);
    /// How long it may be kept beyond that: how often idle ones are looked for.
    pub const OWN_CONNECTION_CHECK: Duration = Duration::from_secs(60);
    /// Sessions with a connection of their own, for one server. Each may be a process of 50 MiB;
    /// one more closes the one that has been idle for longest.
    pub const OWN_CONNECTIONS_MAX: usize = 64;
    /// Attempts of a call, the first included: a lost connection is made again once.
    pub const ATTEMPTS_MAX: u32 = 2;
}

/// Limits of `OpenAPI` documents. Large real ones, such as GitHub's, have 1,000 operations in 6 MiB.
pub mod openapi {
    use super::{Duration, KIB, MIB};

    /// A document, in bytes.
    pub const DOCUMENT_BYTES_MAX: usize = 8 * MIB;
    /// The patterns in the chosen operations of a document together: each takes time and memory to prepare, up to
    /// [`PATTERN_BYTES_MAX`](super::tools::PATTERN_BYTES_MAX).
    pub const DOCUMENT_PATTERNS_MAX: usize = 256;
    /// How deep one in YAML may nest, so that the stack suffices.
    pub const DEPTH_MAX: usize = 64;
    /// Parts that a document in YAML may have, aliases counted where they are used.
    pub const YAML_EVENTS_MAX: usize = 4_000_000;
    /// How long a document may take to arrive.
    pub const FETCH_TIMEOUT: Duration = Duration::from_secs(30);
    /// How long to wait before a document is fetched again: at first ...
    pub const FETCH_BACKOFF_MIN: Duration = Duration::from_secs(1);
    /// ... and at most.
    pub const FETCH_BACKOFF_MAX: Duration = Duration::from_secs(60);
    /// Operations that an entry may choose.
    pub const OPERATIONS_MAX: usize = 2000;
    /// Operations above which the operator is told to choose.
    pub const OPERATIONS_USUAL: usize = 40;
    /// Parameters that an operation may have, and as many in each of the items that it refers to.
    pub const PARAMETERS_MAX: usize = 256;
    /// The schema of one operation with everything it refers to, in bytes.
    pub const SCHEMA_BYTES_MAX: usize = 256 * KIB;
    /// The schemas of all operations of a document, in bytes.
    pub const DOCUMENT_SCHEMAS_BYTES_MAX: usize = 32 * MIB;
    /// References that lead from one to the next.
    pub const REFERENCES_MAX: usize = 16;
    /// The name of an argument, in characters; what model servers take.
    pub const PARAMETER_NAME_BYTES_MAX: usize = 64;
}

/// Limits of tools that are HTTP requests.
pub mod http_tools {
    use super::{KIB, MIB};

    /// An answer, in bytes. Far more than any model reads: what is chosen of it by `result` is
    /// shorter.
    pub const BODY_BYTES_MAX: usize = MIB;
    /// What a message quotes of an answer that is an error, in bytes.
    pub const DETAIL_BYTES_MAX: usize = KIB;
    /// A media type or coding that a message quotes, in bytes; real ones are much shorter.
    pub const MEDIA_TYPE_BYTES_MAX: usize = 128;
}
