//! What is wrong with a server, in words that say where to look.

use redis::{ErrorKind, RedisError, ServerErrorKind};

use super::super::StoreError;

/// Why a request failed.
pub(super) fn unavailable(error: &RedisError) -> StoreError {
    StoreError::Unavailable(cause(error))
}

/// The same as a sentence.
fn cause(error: &RedisError) -> String {
    let Some(what) = explained(error) else { return error.to_string() };
    // The server's own words name commands and keys.
    match error.detail() {
        Some(detail) => format!("{what} ({detail})"),
        None => what.to_owned(),
    }
}

fn explained(error: &RedisError) -> Option<&'static str> {
    if error.is_connection_refusal() {
        return Some("nothing listens at its address");
    }
    let is_right = |detail: &str| detail.contains("user executing the script");
    if error.detail().is_some_and(is_right) {
        return Some(NO_RIGHT);
    }
    if error.detail().is_some_and(|detail| detail.contains("cluster support disabled")) {
        return Some("it is no cluster: write `redis://` in `sessions.redis.url`");
    }
    Some(match (error.kind(), error.code().unwrap_or_default()) {
        (ErrorKind::AuthenticationFailed, _) | (_, "WRONGPASS") => {
            "the user or the password is wrong"
        }
        (_, "NOAUTH") => "it wants a password",
        (ErrorKind::Server(ServerErrorKind::NoPerm), _) => NO_RIGHT,
        (ErrorKind::Server(ServerErrorKind::ReadOnly), _) => {
            "it is a read-only replica; the gateway needs the primary"
        }
        (ErrorKind::Server(ServerErrorKind::BusyLoading), _) => {
            "it has just started and is loading its data"
        }
        (_, "OOM") => "its memory is full: `maxmemory` is reached, and nothing is evicted",
        (_, "MISCONF") => "it cannot write its data to disk, and therefore takes no writes",
        (_, "NOREPLICAS") => "too few replicas are in reach for it to take writes",
        (_, "BUSY") => "it is busy with a script",
        (ErrorKind::Server(ServerErrorKind::ClusterDown), _) => {
            "its cluster is down, or a part of it is"
        }
        (ErrorKind::Server(ServerErrorKind::MasterDown), _) => "its primary is down",
        (ErrorKind::Server(ServerErrorKind::TryAgain | ServerErrorKind::Ask), _) => {
            "its cluster is moving keys"
        }
        (ErrorKind::Server(ServerErrorKind::Moved | ServerErrorKind::CrossSlot), _) => {
            "its cluster keeps this elsewhere: write `redis+cluster://` in `sessions.redis.url`"
        }
        _ => return None,
    })
}

const NO_RIGHT: &str =
    "the user lacks a right that the gateway needs; docs/configuration.md lists them";
