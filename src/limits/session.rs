//! Limits of sessions.

use super::{Duration, KIB, MIB};

/// Nesting depth of a session's record: what a body may hold, plus 32 for the levels around it.
pub const RECORD_DEPTH_MAX: usize = 192;
/// A record up to this length is read and written where it is needed: it takes less than a
/// millisecond.
pub const INLINE_RECORD_BYTES_MAX: usize = 64 * KIB;
/// Longest id of a session, in bytes.
pub const ID_BYTES_MAX: usize = 128;
/// Default of `sessions.ttl_sec`.
pub const TTL: Duration = Duration::from_secs(86_400);
/// Sessions kept in memory; the least recently used is evicted first.
pub const SESSIONS_MAX: usize = 65_536;
/// Jobs that wait for a store in a file, or share one of its commits. More callers wait for a place.
pub const STORE_JOBS_MAX: usize = 1024;

/// Bytes that running turns write to a file beside that of the sessions before they go on in another.
/// Hundreds of turns together fill it in seconds. What a killed process leaves there is read at start.
pub const REDO_BYTES_MAX: u64 = 32 * MIB as u64;
/// Bytes that stay in such a file although nothing in it counts any more: to empty it takes as long as dozens
/// of writes to it.
pub const REDO_BYTES_KEPT: u64 = MIB as u64;
/// Bytes that wait in memory to be written to such a file. They survive a kill.
pub const REDO_BUFFER_BYTES: usize = 128 * KIB;

/// How long a disk that has taken a write is taken to have room for the next turn. A write for each of many turns that
/// begin together made the first event of each a fifth later.
pub const DISK_TRUSTED_FOR: Duration = Duration::from_millis(100);

/// How often a store checks that its files are where they were. A check takes as long as a short write.
pub const FILES_CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// Turns whose ends the tables of such a file get in one transaction, under load. Of more, each costs hardly less.
pub const ENDED_TURNS_PER_COMMIT: usize = 64;
/// So many of them are written where they are asked for; more take longer than waking a thread.
pub const ENDED_TURNS_HERE: usize = 8;
/// How long the first of them waits for others: then the tables have what a backup or another program reads.
pub const ENDED_TURNS_WAIT: Duration = Duration::from_secs(1);
/// How many wait at most, if the thread that writes them is late. Further turns end with a transaction of their own.
pub const ENDED_TURNS_MAX: usize = 4 * ENDED_TURNS_PER_COMMIT;
/// Bytes of those that wait.
pub const ENDED_TURNS_BYTES_MAX: usize = 4 * MIB;

/// Commits in a file of sessions after which its write-ahead log is moved into it. Each takes some
/// pages of 4 KiB.
pub const COMMITS_PER_CHECKPOINT: usize = 256;

/// The log of a turn that is over is kept in a file in pieces of at most so many bytes.
pub const LOG_PIECE_BYTES_MAX: usize = 64 * KIB;

/// A session that is used again within this time does not have that written again.
pub const USE_NOTED_INTERVAL: Duration = Duration::from_secs(1);

/// How many gateways take a turn over one after another in the same round. A turn that stops each of them
/// must not go on to the next.
pub const TAKEOVERS_MAX: u32 = 2;

/// How many turns that were taken over wait to be prepared.
pub const TAKEN_OVER_MAX: usize = 64;

/// The time of a lease from which follows how often a node looks after a turn that it follows, if the store
/// says none.
pub const FOLLOW_INTERVAL: Duration = Duration::from_secs(4);

/// How long a turn that supersedes one of another node waits for its end.
pub const SUPERSEDE_WAIT: Duration = Duration::from_secs(10);

/// How many interrupted turns are looked for at a time.
pub const INTERRUPTED_MAX: usize = 256;

/// How many ends of turns are stored at a time that a store did not take before.
pub const ENDS_STORED_AT_ONCE: usize = 64;

/// How long a running turn waits for a store that does not answer.
pub const STORE_WAIT: Duration = Duration::from_secs(5);

/// How long a gateway that starts waits for a server that is loading its data. A gateway that waited for ever
/// would never say what is wrong.
pub const STORE_LOAD_WAIT: Duration = Duration::from_secs(300);

/// How long a turn waits for a session that another node holds though no turn runs in it: the node is about to release
/// it, or to begin a turn.
pub const RELEASE_WAIT: Duration = Duration::from_secs(2);

/// How long a request waits before it looks again whether a session is free: what holds it ends within moments.
pub const BUSY_LOOK_INTERVAL: Duration = Duration::from_millis(50);

/// How long a gateway waits before it asks a store again that has failed.
pub const STORE_RETRY_INTERVAL: Duration = Duration::from_millis(200);

/// How long a gateway leaves turns to the gateways that ran them, once a store is back, beyond the time that they may
/// take to notice: they may have told their clients that a turn has failed, and have to store that.
pub const STORE_BACK_WAIT: Duration = Duration::from_secs(1);

/// How long a gateway waits for a cluster in which keys are on the move: moving a few takes milliseconds.
/// In this time, it also asks only once who has which keys.
pub const STORE_AGAIN_INTERVAL: Duration = Duration::from_millis(20);
/// How often a cluster may send a request from one server to another before the gateway pauses.
pub const STORE_SENT_ON_MAX: u32 = 4;
/// A commit that takes this long is noticed: a turn waits for several.
pub const COMMIT_SLOW: Duration = Duration::from_millis(5);
/// The same of a write on a server: most of it is the network.
pub const REQUEST_SLOW: Duration = Duration::from_millis(10);
/// With less room than this on its disk, a file of sessions may soon not be written any more.
pub const FREE_BYTES_LOW: u64 = 1024 * MIB as u64;
/// At most one log line in this time says that a store in a file cannot be used.
pub const STORE_LOG_INTERVAL: Duration = Duration::from_secs(60);
/// How often the connection for what is published is tried: one that was cut without a word is noticed
/// after this long, and until then running turns hear of a cancellation when they renew their lease.
pub const STORE_PING_INTERVAL: Duration = Duration::from_secs(10);
/// How old the ids of all sessions may be for the next page of a list.
pub const STORE_LIST_AGE_MAX: Duration = Duration::from_secs(60);
/// Keys that a shared store looks at in one step of a list: less than a millisecond.
pub const STORE_SCANNED: usize = 1000;
/// Default of `sessions.redis.lease_sec`. A killed gateway's turns are taken over after that. Longer than
/// a pause of the gateway, the server or the network that is no failure.
pub const LEASE: Duration = Duration::from_secs(10);
/// The shortest and the longest. Less, and a busy machine loses turns.
pub const LEASE_MIN: Duration = Duration::from_secs(1);
/// See [`LEASE_MIN`].
pub const LEASE_MAX: Duration = Duration::from_secs(600);
/// Default of `sessions.redis.connect_timeout_sec`.
pub const STORE_CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// At most once in this time, a store looks how long its file is, for `/metrics`.
pub const STORE_MEASURE_INTERVAL: Duration = Duration::from_secs(1);
/// Bytes of records in one page of a list of sessions, after which the page ends.
pub const LIST_RECORD_BYTES_MAX: usize = 4 * MIB;
/// Bytes of a result that `tether sessions show` prints; `--json` prints all of it.
pub const SHOWN_RESULT_BYTES_MAX: usize = KIB;
/// Longest line of `tether sessions import`: twice what the largest session takes, with its
/// files in base64.
pub const EXPORT_LINE_BYTES_MAX: usize = 256 * MIB;
/// Finished turns per session whose logs are kept for rejoining.
pub const TURN_LOGS_MAX: usize = 4;
/// Bytes of finished turns' logs kept per session.
pub const TURN_LOG_BYTES_MAX: usize = 8 * MIB;
/// Bytes of finished turns' logs kept for all sessions together. The oldest are dropped
/// first; their turns can no longer be rejoined.
pub const ALL_TURN_LOG_BYTES_MAX: usize = 256 * MIB;
/// Messages of the user and the assistant in a conversation that a client brings; only the
/// newest are read. A long day's work of an agent.
pub const HISTORY_MESSAGES_MAX: usize = 4096;
/// The same for the calls in them, and for their results.
pub const HISTORY_CALLS_MAX: usize = 4096;
/// Bytes of the turns that are cached for clients that keep the conversation themselves: a
/// few thousand.
pub const TURN_CACHE_BYTES_MAX: usize = 64 * MIB;
/// Bytes of these turns that a store keeps for one owner, so that they outlive the process and are found
/// on other nodes. The oldest go first.
pub const ENTRY_BYTES_MAX: usize = 64 * MIB;
/// The same for all owners together in a store in a file: the oldest of the owner who has the most go
/// first. On a server, the number of API keys is the bound.
pub const ALL_ENTRY_BYTES_MAX: usize = 512 * MIB;
/// Keys of turns that a store is asked for at once: one or two for each message of a long conversation.
pub const ENTRY_KEYS_ASKED_MAX: usize = 2048;
/// Bytes of turns that a store returns at once, after which it returns no more. As long as a conversation
/// may be.
pub const ENTRIES_FOUND_BYTES_MAX: usize = 8 * MIB;
/// How often a request asks the store for turns: what it finds may lead to others.
pub const ENTRY_LOOKUPS_MAX: u32 = 4;
/// Claims that a store keeps, of each owner on a server, and of all in a file. The oldest go first.
pub const CLAIMS_MAX: usize = 65_536;
/// Cached turns with the same prompt in a conversation that are compared with what a client
/// says was answered: each takes as long as the answer is.
pub const SAME_PROMPT_MAX: usize = 8;
/// Bytes of the cached turns that are compared with a client's history and do not fit. After
/// that, the history stays as the client tells it. Some tens of milliseconds.
pub const COMPARED_BYTES_MAX: usize = 16 * MIB;
/// In how many places of a turn's text the words of one message are looked for.
pub const PLACES_TRIED_MAX: usize = 64;
/// Answers in clients' own forms that are kept per session. A client that continues from an
/// older one has to send the conversation.
pub const ANSWERS_MAX: usize = 128;
/// Bytes of these answers, of their requests, and of turns that only they still refer to. The
/// latest answer stays whatever its size.
pub const ANSWER_BYTES_MAX: usize = 4 * MIB;
/// Images of a client's request that are kept, the newest: no model sees more.
pub const CLIENT_IMAGES_MAX: usize = super::turn::IMAGES_MAX;
/// Bytes of these images. Older ones are only named.
pub const CLIENT_IMAGE_BYTES_MAX: usize = super::turn::IMAGE_BYTES_MAX;
/// Bytes of the files that a session's tools return, and of the images in its responses. The
/// oldest go first.
pub const ARTIFACT_BYTES_MAX: usize = 32 * MIB;
/// The same for all sessions together.
pub const ALL_ARTIFACT_BYTES_MAX: usize = 512 * MIB;
/// Tools whose calls the user has approved for the rest of a session.
pub const APPROVALS_MAX: usize = 64;
/// Idempotency keys remembered per session.
pub const IDEMPOTENCY_KEYS_MAX: usize = 64;
/// Turns kept per conversation; older ones no longer fit into any context.
pub const TURNS_MAX: usize = 1024;
/// Memory for the turns of one conversation, in bytes, not counting the latest turn. The
/// oldest turns are dropped first. As text this is two million tokens, more than any local
/// model's context.
pub const CONVERSATION_BYTES_MAX: usize = 8 * MIB;
/// Memory for all sessions together when a turn begins, in bytes, without logs. The least
/// recently used are evicted first, a sixteenth at a time. Room for 4 KiB in each of
/// [`SESSIONS_MAX`] sessions, about a dozen short turns.
pub const ALL_BYTES_MAX: usize = 256 * MIB;
/// Longest `Idempotency-Key`, in bytes.
pub const IDEMPOTENCY_KEY_BYTES_MAX: usize = KIB / 4;
