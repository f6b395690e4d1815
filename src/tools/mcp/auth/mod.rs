//! Tokens for a server, from whoever issues them.
//!
//! ```text
//!   401 ── resource metadata (RFC 9728) ──> issuer ── server metadata (RFC 8414) ──> token endpoint
//!           named by WWW-Authenticate,                                                │
//!           or at a well-known place                                  token <─────────┘
//! ```
//! A token goes to its server alone.

mod discovery;

use bytes::Bytes;
use hyper::Request;
use hyper::header::ACCEPT;
use serde_json::Value;
use url::Url;

use self::discovery::Challenge;
use crate::tools::oauth::{self, Bearer, ClientCredentials, Issuer, NoToken, Token};
use crate::tools::outbound::{Addresses, Client, ClientOptions};

/// Sends requests to one server with tokens for it.
pub(super) type Authorized = Bearer<Authorizer>;

/// Finds out who issues tokens for one server, and asks them.
#[derive(Debug)]
pub(super) struct Authorizer {
    credentials: ClientCredentials,
    server: Url,
    /// Reaches the server itself.
    own: Client,
    /// Reaches authorization servers, at addresses that the operator allows.
    others: Client,
}

impl Authorizer {
    /// For a server at this address, reached by this client.
    pub(super) fn new(credentials: ClientCredentials, server: Url, own: Client) -> Self {
        let addresses = Addresses::In(credentials.allow_private.clone());
        let others = Client::new(ClientOptions::new(addresses));
        Self { credentials, server, own, others }
    }

    /// Fetches metadata; `None` if there is none at this address. Websites answer to any path with a
    /// page of theirs.
    async fn fetch(&self, url: &Url) -> Result<Option<Value>, String> {
        let request = Request::get(url.as_str()).header(ACCEPT, "application/json");
        let request = request.body(Bytes::new());
        let request = request.map_err(|_| format!("{url} is not a valid address"))?;
        let (status, answer) = oauth::send(self.client(url), request).await?;
        Ok(Some(answer).filter(|answer| status.is_success() && answer.is_object()))
    }

    fn client(&self, url: &Url) -> &Client {
        if url.origin() == self.server.origin() { &self.own } else { &self.others }
    }
}

impl Issuer for Authorizer {
    const NEEDS_CHALLENGE: bool = true;

    async fn ask(&self, challenge: Option<&str>) -> Result<Token, NoToken> {
        let challenge = challenge.map(Challenge::parse).unwrap_or_default();
        let endpoint = discovery::token_endpoint(self, &challenge).await;
        let endpoint = endpoint.map_err(NoToken::unreachable)?;
        self.credentials.token(self.client(&endpoint.url), &endpoint).await
    }
}
