//! Limits on what a model server may send, and on what it is sent.

use std::time::Duration;

use super::{KIB, MIB};

/// JSON that is kept of the messages with which all requests begin, in bytes: even a system message with many
/// tools fits.
pub const PROLOGUE_BYTES_MAX: usize = 256 * KIB;
/// JSON that is kept of a constraint that turns with the same tools share, in bytes: enough for many tools.
pub const CONSTRAINT_BYTES_MAX: usize = 256 * KIB;
/// Constraints of which that is kept: turns of all tools have two, and others come in between.
pub const CONSTRAINTS_KEPT_MAX: usize = 4;
/// Room for the body of a request, in bytes: a usual one fits.
pub const REQUEST_ROOM_BYTES: usize = 8 * KIB;
/// Arguments that may be a placeholder, `{}` with white space around it, in bytes.
pub const PLACEHOLDER_BYTES_MAX: usize = 16;
/// Longest function name in a request, in bytes: what `OpenAI`'s API accepts.
pub const FUNCTION_NAME_BYTES_MAX: usize = 64;
/// One frame of an upstream's event stream, in bytes. Real frames are below 1 KiB; a whole
/// answer in one frame still fits.
pub const FRAME_BYTES_MAX: usize = MIB;
/// Bytes of an error response that are read for quoting.
pub const ERROR_BODY_BYTES_MAX: usize = 16 * KIB;
/// How long an error response may take to arrive after its head. What has arrived by then is quoted.
pub const ERROR_BODY_TIMEOUT: Duration = Duration::from_secs(2);
/// Bytes of a server's error message that are passed on to a client.
pub const ERROR_MESSAGE_BYTES_MAX: usize = KIB;
/// Bytes of an answer's content coding that an error quotes; real names are much shorter.
pub const CODING_BYTES_MAX: usize = 32;
/// Calls that a grammar allows in one message, so that a small model cannot repeat its call
/// forever.
pub const GRAMMAR_CALLS_MAX: usize = 8;
/// Arguments that the schema does not name, in a call that a grammar allows.
pub const GRAMMAR_ARGUMENTS_MAX: usize = 16;
/// A grammar's rules for one tool, in bytes. Longer rules slow down every token, so beyond
/// this the arguments are only required to be an object.
pub const GRAMMAR_TOOL_BYTES_MAX: usize = 64 * KIB;
/// Nesting depth of a schema in a grammar; below it, any value is accepted.
pub const GRAMMAR_SCHEMA_DEPTH_MAX: usize = 32;
/// Schemas that the value of one argument in tags may fit, in a grammar; with more, it is any text.
pub const GRAMMAR_ALTERNATIVES_MAX: usize = 32;
/// Times that a grammar follows a `$ref` where the value of another one begins. Each time, the ones before are looked
/// through.
pub const GRAMMAR_BEGINNINGS_MAX: usize = 256;
/// Largest count of items or characters in a schema that is sent to a server. Servers refuse larger
/// ones, and with them the whole request.
pub const SCHEMA_BOUND_MAX: u64 = 100;
/// Largest item or character count that a grammar states, because llama.cpp expands
/// repetitions. Larger bounds are left to validation.
pub const GRAMMAR_ITEMS_MAX: usize = 256;
/// Native calls in one round. The first one beyond this fails the round; a turn runs far
/// fewer.
pub const NATIVE_CALLS_MAX: usize = 64;
/// Ids, names and arguments of one round's native calls, in bytes. As large as a frame, so
/// that a single frame of calls is never rejected for its size.
pub const NATIVE_CALL_BYTES_MAX: usize = MIB;
/// Messages in one round of the Responses API, where each message is an item. Models write
/// one, or one before their calls and one after.
pub const RESPONSE_MESSAGES_MAX: usize = 64;
/// Bytes of a rendered chat template that are read: far more than any model's context.
pub const PROMPT_BYTES_MAX: usize = 16 * MIB;
/// Bytes of a list of models that are read; hubs list hundreds of models.
pub const MODELS_BYTES_MAX: usize = MIB;
/// Bytes taken from one upstream before the events are sent. Text that arrived together is
/// sent together, but a flood does not starve its readers.
pub const BATCH_BYTES_MAX: usize = 64 * KIB;
/// Images that a server refused and that it is not sent again. The oldest are forgotten: a
/// session that still shows one has its request refused once more.
pub const REFUSED_IMAGES_MAX: usize = 64;
/// Values of sampling fields that a server has refused, of which it is not sent more.
pub const REFUSED_SAMPLING_MAX: usize = 64;
/// Default of `upstreams[].connect_timeout_sec`.
pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Default of `upstreams[].idle_timeout_sec`. On a small machine, a model that reads a long
/// prompt is silent for a while.
pub const IDLE_TIMEOUT: Duration = Duration::from_secs(120);
/// How many times `idle_timeout_sec` a server may run without words: twenty minutes by
/// default. Servers that send comments or empty deltas while they read a prompt need that
/// long: 32k tokens at 30 tokens per second, on a small machine, take eighteen minutes. A
/// server that sends nothing else for longer is stuck.
pub const WORDLESS_IDLE_TIMEOUTS_MAX: u32 = 10;
/// How often to note that a server was heard, at most.
pub const LAST_HEARD_STEP: Duration = Duration::from_millis(50);
/// Bytes without words in one round: comments, empty deltas, white space, unused fields. A
/// comment every second reaches the limit after a week, an empty delta per token after
/// 60,000 tokens.
pub const WORDLESS_BYTES_MAX: usize = 16 * MIB;
/// Bytes of the frame around words that are not yet counted as wordless. Real ones have
/// less than 512.
pub const FRAME_OVERHEAD_BYTES: usize = KIB;
/// Idle connections kept for one upstream. More concurrent turns than this saturate any
/// local model server.
pub const IDLE_CONNECTIONS_MAX: usize = 64;
/// How long to keep an idle connection; shorter than the timeouts of common servers.
pub const IDLE_CONNECTION_AGE: Duration = Duration::from_secs(50);
/// Default pace of the embedded model, in tokens per second: about a person's reading
/// speed.
pub const EMBEDDED_TOKENS_PER_SEC: u32 = 40;
/// Bytes of an answer's head. Real ones have a few hundred; a longer one fails the round.
pub const HEAD_BYTES_MAX: usize = 64 * KIB;
/// Bytes of the model's name in an answer. A longer one is ignored.
pub const ANSWERING_MODEL_BYTES_MAX: usize = 256;
/// Header fields of an answer, as hyper's client allows. More fail the round.
pub const ANSWER_HEADERS_MAX: usize = 100;
/// Bytes allocated at first for the head of a request.
pub const REQUEST_HEAD_ROOM_BYTES: usize = 512;
/// Bytes of extensions and trailers in a chunked body, which are ignored; more fail the round. Real servers send
/// none.
pub const CHUNK_OVERHEAD_BYTES_MAX: usize = 16 * KIB;
/// The digits of a chunk's size with its leading zeros, and the blanks after them.
pub const CHUNK_SIZE_BYTES_MAX: u8 = 64;
/// The read buffer of an encrypted connection, in bytes: about sixty tokens.
pub const READ_BUFFER_BYTES: usize = 16 * KIB;
/// White space at the start of an answer that is kept back: until then, another upstream can be asked.
pub const BLANK_BYTES_MAX: usize = 64;
/// How long to wait for the end of an answer after its last event, to keep the connection.
pub const ANSWER_END_TIMEOUT: Duration = Duration::from_secs(1);
/// Time for a server to answer a health check.
pub const CHECK_TIMEOUT: Duration = Duration::from_secs(2);
/// Time for a server to list its models if a turn needs the name of one.
pub const LIST_TIMEOUT: Duration = Duration::from_secs(10);
/// A pooled connection that breaks within this time was stale: the server had already closed it. If it breaks later, the
/// server has worked on the request, so it is not sent again.
pub const STALE_WITHIN: Duration = Duration::from_secs(1);
/// How long the first of several servers has to answer a health check before the others are asked.
pub const CHECK_HEAD_START: Duration = Duration::from_millis(500);
/// How long to wait before asking a server again that was too busy to list its models.
pub const LIST_AGAIN: Duration = Duration::from_secs(30);
/// Names of a server's models in a message.
pub const NAMES_SHOWN_MAX: usize = 10;
/// How long a health check stays valid.
pub const CHECK_AGE: Duration = Duration::from_secs(2);
/// Longest `Retry-After` of a server that is obeyed.
pub const RETRY_AFTER_MAX: Duration = Duration::from_secs(5);
/// The wait before the second attempt; each further wait is longer by the same amount.
pub const RETRY_BACKOFF: Duration = Duration::from_millis(200);
/// The cool-down of an upstream that failed to answer, during which others are asked first.
/// It doubles with each further failure. About as long as a model server needs to restart
/// with a small model, so that turns do not keep waiting for an absent server.
pub const COOL_DOWN: Duration = Duration::from_secs(5);
/// Longest cool-down: a server that is back is used again within a minute.
pub const COOL_DOWN_MAX: Duration = Duration::from_secs(60);
/// Attempts to reach an upstream before the first byte of its answer.
pub const ATTEMPTS_MAX: u32 = 3;
/// How many times a conversation that the model's context cannot hold is shortened and sent again.
pub const SHORTER_ATTEMPTS_MAX: u32 = 4;
/// The most times that the room for a conversation is cut to three quarters. Twelve leave a thirtieth.
pub const TIGHTNESS_MAX: u8 = 12;
