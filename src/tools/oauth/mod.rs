//! Tokens for servers that require them: OAuth 2.1 with client credentials (RFC 6749, section 4.4).
//!
//! ```text
//!   ClientCredentials ── a secret, or a signed statement ──> TokenEndpoint ──> Tokens
//! ```
//! A token is renewed after four fifths of its life, and when a server refuses it.

mod assertion;

use std::fmt;
use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use hyper::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE};
use hyper::{Request, StatusCode};
use parking_lot::Mutex;
use serde_json::Value;
use tokio::sync::Mutex as AsyncMutex;
use tokio::time::{Instant, timeout};
use url::Url;

pub use assertion::{Algorithm, SigningKey};

use super::outbound::{Cidr, Client};
use crate::limits::oauth::{ANSWER_BYTES_MAX, LIFE_DEFAULT, TIMEOUT};
use crate::text::cut;

/// How an operator authorizes the gateway.
#[derive(Clone)]
pub struct ClientCredentials {
    /// The client's id.
    pub client_id: String,
    /// How the client proves its identity.
    pub proof: Proof,
    /// The scopes to ask for; what the server wants, if empty.
    pub scopes: Vec<String>,
    /// Private addresses at which the authorization server may be.
    pub allow_private: Vec<Cidr>,
}

impl fmt::Debug for ClientCredentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { client_id, .. } = self;
        f.debug_struct("ClientCredentials").field("client_id", client_id).finish_non_exhaustive()
    }
}

/// How a client proves its identity.
#[derive(Clone)]
pub enum Proof {
    /// It knows a secret.
    Secret(String),
    /// It signs with a private key (RFC 7523).
    Key(SigningKey),
}

impl fmt::Debug for Proof {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Secret(_) => "Secret(..)",
            Self::Key(_) => "Key(..)",
        })
    }
}

/// Where tokens come from, and for what.
#[derive(Debug, Clone)]
pub(crate) struct TokenEndpoint {
    pub(crate) url: Url,
    /// Whom a signed statement is for.
    pub(crate) audience: String,
    /// Whether the client's secret goes into a header; otherwise, it goes into the form.
    pub(crate) takes_basic: bool,
    /// What the token is for (RFC 8707).
    pub(crate) resource: Option<String>,
    /// The scopes to ask for, if the operator names none.
    pub(crate) scope: Option<String>,
}

/// The token of one server.
#[derive(Debug, Default)]
pub(crate) struct Tokens {
    token: Mutex<Option<Token>>,
    /// Held while a token is asked for, so that calls that fail together ask once.
    asking: AsyncMutex<()>,
}

/// A token.
#[derive(Debug, Clone)]
pub(crate) struct Token {
    text: String,
    /// When it should be renewed.
    until: Instant,
}

/// The state of a token.
#[derive(Debug)]
pub(crate) enum Held {
    Nothing,
    Fresh(String),
    /// It is about to expire.
    Stale(String),
}

/// Why there is no token: lower case, no full stop.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not authorized: no token: {reason}")]
pub(crate) struct NoToken {
    reason: String,
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

impl Tokens {
    /// The current token, if there is one.
    pub(crate) fn held(&self) -> Held {
        match self.token.lock().clone() {
            None => Held::Nothing,
            Some(Token { text, until }) if Instant::now() < until => Held::Fresh(text),
            Some(Token { text, .. }) => Held::Stale(text),
        }
    }

    /// A token in place of `refused`, from `ask` unless another call has got one meanwhile.
    ///
    /// # Errors
    /// Why there is none.
    pub(crate) async fn renew(
        &self,
        refused: Option<&str>,
        ask: impl Future<Output = Result<Token, NoToken>>,
    ) -> Result<String, NoToken> {
        let _asking = self.asking.lock().await;
        if let Some(token) = &*self.token.lock()
            && Some(token.text.as_str()) != refused
        {
            return Ok(token.text.clone());
        }
        let asked = timeout(TIMEOUT, ask).await;
        let token = asked.unwrap_or_else(|_| Err(NoToken::unreachable("it took too long")))?;
        let text = token.text.clone();
        *self.token.lock() = Some(token);
        Ok(text)
    }
}

impl ClientCredentials {
    /// Asks for a token.
    ///
    /// # Errors
    /// Why there is none.
    pub(crate) async fn token(
        &self,
        client: &Client,
        endpoint: &TokenEndpoint,
    ) -> Result<Token, NoToken> {
        let request = self.request(endpoint).map_err(NoToken::refused)?;
        let (status, answer) = send(client, request).await.map_err(NoToken::unreachable)?;
        let told = |key: &str| answer.get(key).and_then(Value::as_str);
        if !status.is_success() {
            let why = told("error_description").or_else(|| told("error")).unwrap_or("no reason");
            let reason = format!("HTTP status {}: {}", status.as_u16(), cut(why, 200));
            return Err(NoToken { reason, is_final: status.is_client_error() });
        }
        let text = told("access_token");
        let text = text.ok_or_else(|| {
            NoToken::refused("the authorization server's answer has no access_token")
        })?;
        let life = answer.get("expires_in").and_then(Value::as_u64);
        let life = life.map_or(LIFE_DEFAULT, Duration::from_secs);
        Ok(Token { text: text.to_owned(), until: Instant::now() + life.mul_f64(0.8) })
    }

    fn request(&self, endpoint: &TokenEndpoint) -> Result<Request<Bytes>, String> {
        let Self { client_id, proof, scopes, .. } = self;
        let mut form = form_urlencoded::Serializer::new(String::new());
        form.append_pair("grant_type", "client_credentials");
        if let Some(resource) = &endpoint.resource {
            form.append_pair("resource", resource);
        }
        let scope = match scopes.as_slice() {
            [] => endpoint.scope.clone(),
            scopes => Some(scopes.join(" ")),
        };
        if let Some(scope) = scope {
            form.append_pair("scope", &scope);
        }
        let mut basic = None;
        match proof {
            Proof::Secret(secret) if endpoint.takes_basic => {
                let encode = |text: &str| {
                    form_urlencoded::byte_serialize(text.as_bytes()).collect::<String>()
                };
                let pair = format!("{}:{}", encode(client_id), encode(secret));
                basic = Some(format!("Basic {}", BASE64_STANDARD.encode(pair)));
            }
            Proof::Secret(secret) => {
                form.append_pair("client_id", client_id);
                form.append_pair("client_secret", secret);
            }
            Proof::Key(key) => {
                form.append_pair("client_id", client_id);
                form.append_pair(
                    "client_assertion_type",
                    "urn:ietf:params:oauth:client-assertion-type:jwt-bearer",
                );
                form.append_pair(
                    "client_assertion",
                    &key.assertion(client_id, &endpoint.audience)?,
                );
            }
        }
        let mut request = Request::post(endpoint.url.as_str())
            .header(ACCEPT, "application/json")
            .header(CONTENT_TYPE, "application/x-www-form-urlencoded");
        if let Some(basic) = basic {
            request = request.header(AUTHORIZATION, basic);
        }
        let request = request.body(Bytes::from(form.finish()));
        request.map_err(|_| "the token endpoint is not a valid address".to_owned())
    }
}

/// Sends a request for JSON. The value is `null` if the answer is something else.
///
/// # Errors
/// Why there is no answer.
pub(crate) async fn send(
    client: &Client,
    request: Request<Bytes>,
) -> Result<(StatusCode, Value), String> {
    let response = client.send(request).await.map_err(|error| error.to_string())?;
    let status = response.status();
    let body = response.into_body().collect(ANSWER_BYTES_MAX).await;
    let body = body.map_err(|error| error.to_string())?;
    Ok((status, serde_json::from_slice(&body).unwrap_or_default()))
}
