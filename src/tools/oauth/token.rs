//! A token, as an authorization server issues it (RFC 6749, section 5.1).

use std::time::Duration;

use hyper::header::HeaderValue;
use serde_json::Value;
use tokio::time::Instant;

use crate::limits::oauth::{LIFE_DEFAULT, LIFE_MAX};
use crate::text::cut;

/// A token.
#[derive(Debug, Clone)]
pub(crate) struct Token {
    /// The value of `Authorization`, marked as sensitive.
    pub(super) header: HeaderValue,
    /// When it should be renewed.
    pub(super) renew_at: Instant,
    /// When it is no longer valid.
    pub(super) until: Instant,
}

/// Why there is no token: lower case, no full stop.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not authorized: no token: {reason}")]
pub(crate) struct NoToken {
    pub(super) reason: String,
    /// Whether asking again would fail in the same way.
    pub(crate) is_final: bool,
}

impl NoToken {
    /// It has been refused.
    pub(crate) fn refused(reason: impl Into<String>) -> Self {
        Self { reason: reason.into(), is_final: true }
    }

    /// Whoever issues it cannot be reached.
    pub(crate) fn unreachable(reason: impl Into<String>) -> Self {
        Self { reason: reason.into(), is_final: false }
    }
}

impl Token {
    /// Reads the answer of a token endpoint.
    ///
    /// # Errors
    /// Why it has no token that can be used.
    pub(super) fn read(answer: &Value) -> Result<Self, NoToken> {
        let told = |key: &str| answer.get(key).and_then(Value::as_str);
        // Servers must name the type, and some do not. Others than this one are not understood.
        if let Some(kind) = told("token_type").filter(|kind| !kind.eq_ignore_ascii_case("bearer")) {
            let kind = cut(kind, 40);
            return Err(NoToken::refused(format!("it is of the type {kind:?}, not `Bearer`")));
        }
        let text = told("access_token").filter(|text| !text.is_empty()).ok_or_else(|| {
            NoToken::refused("the authorization server's answer has no access_token")
        })?;
        let mut header = HeaderValue::from_str(&format!("Bearer {text}"))
            .map_err(|_| NoToken::refused("the access_token cannot be sent in a header"))?;
        header.set_sensitive(true);
        Ok(Self::new(header, life(answer.get("expires_in"))))
    }
}

impl Token {
    /// A token that is valid for so long from now on.
    pub(super) fn new(header: HeaderValue, life: Duration) -> Self {
        let now = Instant::now();
        Self { header, renew_at: now + life.mul_f64(0.8), until: now + life }
    }
}

/// How long a token is valid, by `expires_in`: seconds, which some servers write as text.
fn life(expires_in: Option<&Value>) -> Duration {
    let seconds = expires_in.and_then(|value| match value {
        Value::String(text) => text.trim().parse::<f64>().ok(),
        value => value.as_f64(),
    });
    match seconds {
        // What is not a time says nothing.
        Some(seconds) if seconds >= 0.0 => {
            Duration::from_secs_f64(seconds.min(LIFE_MAX.as_secs_f64()))
        }
        _ => LIFE_DEFAULT,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_life_is_read_leniently_and_is_at_most_a_day() {
        for (expires_in, expected) in [
            (json!(60), Duration::from_secs(60)),
            (json!("60"), Duration::from_secs(60)),
            (json!(1.5), Duration::from_millis(1500)),
            (json!(0), Duration::ZERO),
            (json!(u64::MAX), LIFE_MAX),
            (json!("1e400"), LIFE_MAX),
            (json!(-5), LIFE_DEFAULT),
            (json!("NaN"), LIFE_DEFAULT),
            (json!("soon"), LIFE_DEFAULT),
            (json!(null), LIFE_DEFAULT),
        ] {
            assert_eq!(life(Some(&expires_in)), expected, "{expires_in}");
        }
        assert_eq!(life(None), LIFE_DEFAULT);
    }

    #[test]
    fn only_a_bearer_token_that_fits_into_a_header_is_used() {
        let read = |token: &str, kind: Value| {
            Token::read(&json!({ "access_token": token, "token_type": kind }))
        };
        for kind in [json!("Bearer"), json!("bearer"), json!(null)] {
            let header = read("abc", kind).unwrap().header;
            assert_eq!((header.as_bytes(), header.is_sensitive()), (&b"Bearer abc"[..], true));
        }
        for (token, kind) in [("abc", "mac"), ("x\r\ny: z", "Bearer"), ("", "Bearer")] {
            assert!(read(token, json!(kind)).unwrap_err().is_final, "{token:?} {kind}");
        }
    }
}
