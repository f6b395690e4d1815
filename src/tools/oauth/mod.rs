//! Tokens for servers that require them: OAuth 2.1 with client credentials (RFC 6749, section 4.4).
//!
//! ```text
//!   ClientCredentials ── a secret, or a signed statement ──> TokenEndpoint ──> Token ──> Bearer
//! ```
//! A token is renewed after four fifths of its life, and when a server refuses it.

mod assertion;
mod bearer;
mod token;

use std::fmt;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use hyper::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderValue};
use hyper::{Request, StatusCode};
use serde_json::Value;
use url::Url;

pub use assertion::{Algorithm, SigningKey};
pub(crate) use bearer::{Bearer, Issuer, SendError};
pub(crate) use token::{NoToken, Token};

use super::keys::Keys;
use super::outbound::{Cidr, Client};
use crate::limits::oauth::ANSWER_BYTES_MAX;
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
    /// Who has to issue the tokens, if a server must not choose that itself.
    pub issuer: Option<Url>,
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

impl ClientCredentials {
    /// Asks for a token.
    ///
    /// # Errors
    /// Why there is none, without the client's secret: some servers repeat it as they refuse it.
    pub(crate) async fn token(
        &self,
        client: &Client,
        endpoint: &TokenEndpoint,
    ) -> Result<Token, NoToken> {
        let token = self.ask(client, endpoint).await;
        token.map_err(|error| NoToken { reason: self.keys().hidden(error.reason), ..error })
    }

    /// The client's secret, in every form in which it is sent.
    fn keys(&self) -> Keys {
        let mut keys = Keys::default();
        if let Proof::Secret(secret) = &self.proof {
            keys.note_credential(secret);
            keys.note_credential(&basic_pair(&self.client_id, secret));
        }
        keys
    }

    async fn ask(&self, client: &Client, endpoint: &TokenEndpoint) -> Result<Token, NoToken> {
        let request = self.request(endpoint).map_err(NoToken::refused)?;
        let (status, answer) = send(client, request).await.map_err(NoToken::unreachable)?;
        let told = |key: &str| answer.get(key).and_then(Value::as_str);
        if !status.is_success() {
            let why = told("error_description").or_else(|| told("error")).unwrap_or("no reason");
            let reason = format!("HTTP status {}: {}", status.as_u16(), cut(why, 200));
            let may_pass = matches!(status.as_u16(), 408 | 429);
            return Err(NoToken { reason, is_final: status.is_client_error() && !may_pass });
        }
        Token::read(&answer)
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
                let pair = basic_pair(client_id, secret);
                let value = format!("Basic {}", BASE64_STANDARD.encode(pair));
                let value = HeaderValue::try_from(value);
                let mut value = value.map_err(|_| "the secret cannot be sent in a header")?;
                value.set_sensitive(true);
                basic = Some(value);
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

/// What `Basic` encodes (RFC 6749, section 2.3.1).
fn basic_pair(client_id: &str, secret: &str) -> String {
    let encode =
        |text: &str| -> String { form_urlencoded::byte_serialize(text.as_bytes()).collect() };
    format!("{}:{}", encode(client_id), encode(secret))
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
