//! What is wrong with a server, in words that say where to look.

use redis::{ErrorKind, RedisError, ServerErrorKind};

use super::super::StoreError;

/// Why a request failed.
pub(super) fn failed(error: &RedisError) -> StoreError {
    if is_of_foreign_key(error) {
        StoreError::Damaged(error.to_string())
    } else {
        StoreError::Unavailable(cause(error))
    }
}

/// Why Sentinels do not say who the primary is. Their login is not that of the servers.
pub(super) fn failed_at_sentinel(error: &RedisError) -> StoreError {
    match failed(error) {
        StoreError::Unavailable(cause) if is_of_login(error) => {
            StoreError::Unavailable(format!("{cause} (`sessions.redis.sentinel_password`)"))
        }
        failed => failed,
    }
}

fn is_of_login(error: &RedisError) -> bool {
    error.kind() == ErrorKind::AuthenticationFailed
        || matches!(error.code(), Some("WRONGPASS" | "NOAUTH"))
}

/// Whether a script has tripped over a key that something else has written. The server itself works.
fn is_of_foreign_key(error: &RedisError) -> bool {
    error.code() == Some("WRONGTYPE")
        || error.detail().is_some_and(|detail| {
            detail.contains("WRONGTYPE")
                || detail.contains("user_script") && detail.contains("attempt to ")
        })
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
    if let Some(what) = of_tls(error) {
        return Some(what);
    }
    if error.is_connection_refusal() {
        return Some("nothing listens at its address");
    }
    let is_right = |detail: &str| detail.contains("user executing the script");
    if error.detail().is_some_and(is_right) {
        return Some(NO_RIGHT);
    }
    // Of one that is not logged in, it does not read long requests.
    if error.detail().is_some_and(|detail| detail.contains("unauthenticated multibulk length")) {
        return Some("it wants a password");
    }
    if error.detail().is_some_and(|detail| detail.contains("cluster support disabled")) {
        return Some("it is no cluster; write `redis://` in `sessions.redis.url`");
    }
    Some(match (error.kind(), error.code().unwrap_or_default()) {
        (ErrorKind::AuthenticationFailed, _) | (_, "WRONGPASS") => {
            "the user or the password is wrong"
        }
        (_, "NOAUTH") => "it wants a password",
        (ErrorKind::Server(ServerErrorKind::NoPerm), _) => NO_RIGHT,
        (ErrorKind::Server(ServerErrorKind::ReadOnly), _) => {
            "it is a read-only replica; use its primary instead"
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
            "its cluster keeps this elsewhere; write `redis+cluster://` in `sessions.redis.url`"
        }
        _ => return None,
    })
}

const NO_RIGHT: &str =
    "the user lacks a right that the gateway needs; docs/configuration.md lists them";

/// Why no TLS connection came about. These errors are wrapped in others, so only their text can be looked at.
fn of_tls(error: &RedisError) -> Option<&'static str> {
    if !matches!(error.kind(), ErrorKind::Io | ErrorKind::InvalidClientConfig) {
        return None;
    }
    let text = error.to_string();
    let has = |part: &str| text.contains(part);
    if has("UnknownIssuer") || has("CaUsedAsEndEntity") || has("BadSignature") {
        Some(
            "nobody whom this machine trusts has signed its certificate; `sessions.redis.ca_file` names those \
             who may",
        )
    } else if has("certificate expired") || has("Expired") {
        Some("its certificate has expired")
    } else if has("certificate not valid yet") || has("NotValidYet") {
        Some("its certificate is not valid yet, or the clock of this machine is wrong")
    } else if has("not valid for name") || has("NotValidForName") {
        Some(
            "its certificate is for another host name; use one of those that the certificate names",
        )
    } else if has("CertificateRequired") {
        Some("it wants a certificate of the gateway: `sessions.redis.cert_file` and `key_file`")
    } else if has("UnknownCA") || has("BadCertificate") {
        Some("it does not trust the certificate of the gateway (`sessions.redis.cert_file`)")
    } else if has("InvalidContentType") {
        Some("it does not speak TLS: write `redis://`, or use its port for TLS")
    } else {
        None
    }
}
