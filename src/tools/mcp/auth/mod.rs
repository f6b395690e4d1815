//! Tokens for servers that want them: OAuth 2.1 with client credentials (RFC 6749, section 4.4).
//!
//! ```text
//!   401 ── resource metadata (RFC 9728) ──> issuer ── server metadata (RFC 8414) ──> token endpoint
//!           named by WWW-Authenticate,                                                │
//!           or at a well-known place                                  token <─────────┘
//! ```
//! A token goes to its server alone, and is renewed before it expires.

mod assertion;
mod discovery;

use std::fmt;
use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use hyper::Request;
use hyper::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE};
use parking_lot::Mutex;
use serde_json::Value;
use tokio::sync::Mutex as AsyncMutex;
use tokio::time::{Instant, timeout};
use url::Url;

pub use assertion::{Algorithm, SigningKey};

use self::discovery::{Authority, Challenge};
use crate::limits::mcp::{AUTH_BYTES_MAX, AUTH_TIMEOUT, TOKEN_LIFE_DEFAULT};
use crate::text::cut;
use crate::tools::outbound::{Addresses, Cidr, Client, ClientOptions};

/// How an operator authorizes the gateway.
#[derive(Clone)]
pub struct AuthOptions {
    /// The client's id.
    pub client_id: String,
    /// How the client proves that it is itself.
    pub proof: Proof,
    /// The scopes to ask for; what the server wants, if empty.
    pub scopes: Vec<String>,
    /// Private addresses at which the authorization server may be.
    pub allow_private: Vec<Cidr>,
}

impl fmt::Debug for AuthOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AuthOptions").field("client_id", &self.client_id).finish_non_exhaustive()
    }
}

/// How a client proves that it is itself.
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

/// Gets tokens for one server.
#[derive(Debug)]
pub(super) struct Authorizer {
    options: AuthOptions,
    server: Url,
    /// Reaches the server itself.
    own: Client,
    /// Reaches authorization servers, at addresses that the operator allows.
    others: Client,
    token: Mutex<Option<Token>>,
    /// Held while a token is asked for, so that calls that fail together ask once.
    asking: AsyncMutex<()>,
}

#[derive(Debug, Clone)]
struct Token {
    text: String,
    /// When it should be renewed.
    until: Instant,
}

impl Authorizer {
    /// For a server at this address, reached by this client.
    pub(super) fn new(options: AuthOptions, server: Url, own: Client) -> Self {
        let addresses = Addresses::In(options.allow_private.clone());
        let others = Client::new(ClientOptions::new(addresses));
        let (token, asking) = (Mutex::default(), AsyncMutex::default());
        Self { options, server, own, others, token, asking }
    }

    /// The token, if there is one; renewed if it is about to expire.
    ///
    /// # Errors
    /// Why it cannot be renewed.
    pub(super) async fn token(&self) -> Result<Option<String>, String> {
        let Some(token) = self.token.lock().clone() else { return Ok(None) };
        if Instant::now() < token.until {
            return Ok(Some(token.text));
        }
        self.renew(Some(&token.text), None).await.map(Some)
    }

    /// A token in place of `refused`.
    ///
    /// # Errors
    /// Why there is none.
    pub(super) async fn renew(
        &self,
        refused: Option<&str>,
        challenge: Option<&str>,
    ) -> Result<String, String> {
        let _asking = self.asking.lock().await;
        // Another call may have got one meanwhile.
        if let Some(token) = &*self.token.lock()
            && Some(token.text.as_str()) != refused
        {
            return Ok(token.text.clone());
        }
        let asked = timeout(AUTH_TIMEOUT, self.ask(challenge.map(Challenge::parse))).await;
        let asked = asked.unwrap_or_else(|_| Err("it took too long".to_owned()));
        let token = asked.map_err(|reason| format!("not authorized: no token: {reason}"))?;
        let text = token.text.clone();
        *self.token.lock() = Some(token);
        Ok(text)
    }

    async fn ask(&self, challenge: Option<Challenge>) -> Result<Token, String> {
        let challenge = challenge.unwrap_or_default();
        let authority = discovery::authority(self, &challenge).await?;
        let answer = self.request_token(&authority, &challenge).await?;
        let text = answer.get("access_token").and_then(Value::as_str);
        let text = text.ok_or("the authorization server's answer has no access_token")?.to_owned();
        let life = answer.get("expires_in").and_then(Value::as_u64);
        let life = life.map_or(TOKEN_LIFE_DEFAULT, Duration::from_secs);
        Ok(Token { text, until: Instant::now() + life.mul_f64(0.8) })
    }

    async fn request_token(
        &self,
        authority: &Authority,
        challenge: &Challenge,
    ) -> Result<Value, String> {
        let request = self.token_request(authority, challenge)?;
        let (status, answer) = self.send(&authority.token_endpoint, request).await?;
        if status.is_success() {
            return Ok(answer);
        }
        let told = |key: &str| answer.get(key).and_then(Value::as_str);
        let why = told("error_description").or_else(|| told("error")).unwrap_or("no reason");
        Err(format!("HTTP status {}: {}", status.as_u16(), cut(why, 200)))
    }

    fn token_request(
        &self,
        authority: &Authority,
        challenge: &Challenge,
    ) -> Result<Request<Bytes>, String> {
        let AuthOptions { client_id, proof, scopes, .. } = &self.options;
        let mut form = form_urlencoded::Serializer::new(String::new());
        form.append_pair("grant_type", "client_credentials");
        form.append_pair("resource", &authority.resource);
        let scope = match scopes.as_slice() {
            [] => challenge.scope.clone().or_else(|| authority.scope.clone()),
            scopes => Some(scopes.join(" ")),
        };
        if let Some(scope) = scope {
            form.append_pair("scope", &scope);
        }
        let mut basic = None;
        match proof {
            Proof::Secret(secret) if authority.takes_basic => {
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
                form.append_pair("client_assertion", &key.assertion(client_id, &authority.issuer)?);
            }
        }
        let mut request = Request::post(authority.token_endpoint.as_str())
            .header(ACCEPT, "application/json")
            .header(CONTENT_TYPE, "application/x-www-form-urlencoded");
        if let Some(basic) = basic {
            request = request.header(AUTHORIZATION, basic);
        }
        let request = request.body(Bytes::from(form.finish()));
        request.map_err(|_| "the token endpoint is no address".to_owned())
    }

    /// Fetches JSON; `None` if there is nothing at this address.
    async fn fetch(&self, url: &Url) -> Result<Option<Value>, String> {
        let request = Request::get(url.as_str()).header(ACCEPT, "application/json");
        let request = request.body(Bytes::new());
        let request = request.map_err(|_| format!("{url} is no address"))?;
        let (status, answer) = self.send(url, request).await?;
        Ok(status.is_success().then_some(answer))
    }

    async fn send(
        &self,
        url: &Url,
        request: Request<Bytes>,
    ) -> Result<(hyper::StatusCode, Value), String> {
        let is_own = url.origin() == self.server.origin();
        let client = if is_own { &self.own } else { &self.others };
        let response = client.send(request).await.map_err(|error| error.to_string())?;
        let status = response.status();
        let body = response.into_body().collect(AUTH_BYTES_MAX).await;
        let body = body.map_err(|error| error.to_string())?;
        Ok((status, serde_json::from_slice(&body).unwrap_or_default()))
    }
}
