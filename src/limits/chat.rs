//! Limits of `tether chat`.

use std::time::Duration;

use super::{KIB, MIB};

/// A prompt from standard input, in bytes. The gateway's own limit, `server.max_body_bytes`, is
/// usually lower.
pub const PROMPT_BYTES_MAX: usize = 16 * MIB;
/// The longest line that a terminal keeps until it is read, in bytes: Linux's own limit.
pub const TYPED_BYTES_MAX: usize = 4096;
/// An answer that is not a stream, in bytes: a session with its transcript is the longest.
pub const ANSWER_BYTES_MAX: usize = 64 * MIB;
/// An error's body, in bytes.
pub const ERROR_BYTES_MAX: usize = 64 * KIB;
/// How long the gateway may take to begin an answer. A turn's answer begins at once, unless a
/// required source of tools is still starting.
pub const HEAD_TIMEOUT: Duration = Duration::from_secs(90);
/// The longest silence in a stream. The gateway sends something every `stream.keep_alive_sec`,
/// which is 15 s by default; after more than that, the connection is taken for lost.
pub const SILENCE_MAX: Duration = Duration::from_secs(60);
/// Attempts to re-join a turn without hearing anything new: with 30 s of waiting in between, which
/// is how long the gateway goes on by default without a reader.
pub const REJOIN_ATTEMPTS_MAX: u32 = 7;
/// The wait before the second of them. It doubles with each further attempt.
pub const REJOIN_BACKOFF: Duration = Duration::from_millis(500);
/// How long a cancelled turn may take to end before the prompt comes back without its end.
pub const CANCEL_TIMEOUT: Duration = Duration::from_secs(5);
/// How long to look for a signal that has arrived already.
pub const SIGNAL_WAIT: Duration = Duration::from_millis(1);
/// Events that wait to be shown.
pub const EVENTS_WAITING_MAX: usize = 256;
/// How often the line with what is going on is renewed.
pub const TICK: Duration = Duration::from_secs(1);
/// Columns of a terminal that does not say how many it has.
pub const COLUMNS: usize = 80;
/// Characters of a name or title.
pub const TITLE_CHARS_MAX: usize = 100;
/// Characters of an argument or a web address in a question. A call that is to be approved is shown whole.
pub const ARGUMENT_CHARS_MAX: usize = 64 * KIB;
/// Characters of a line about a call where the width of the terminal does not bound it.
pub const LINE_CHARS_MAX: usize = 300;
/// Characters of the last answer that are shown when a session is resumed.
pub const RESUMED_CHARS_MAX: usize = 1000;
