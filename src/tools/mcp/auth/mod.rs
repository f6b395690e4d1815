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
use crate::tools::oauth::{self, ClientCredentials, Held, NoToken, Token, Tokens};
use crate::tools::outbound::{Addresses, Client, ClientOptions};

/// Gets tokens for one server.
#[derive(Debug)]
pub(super) struct Authorizer {
    credentials: ClientCredentials,
    server: Url,
    /// Reaches the server itself.
    own: Client,
    /// Reaches authorization servers, at addresses that the operator allows.
    others: Client,
    tokens: Tokens,
}

impl Authorizer {
    /// For a server at this address, reached by this client.
    pub(super) fn new(credentials: ClientCredentials, server: Url, own: Client) -> Self {
        let addresses = Addresses::In(credentials.allow_private.clone());
        let others = Client::new(ClientOptions::new(addresses));
        Self { credentials, server, own, others, tokens: Tokens::default() }
    }

    /// The token, if there is one; renewed if it is about to expire.
    ///
    /// # Errors
    /// Why it cannot be renewed.
    pub(super) async fn token(&self) -> Result<Option<String>, NoToken> {
        match self.tokens.held() {
            Held::Nothing => Ok(None),
            Held::Fresh(token) => Ok(Some(token)),
            Held::Stale(token) => self.renew(Some(&token), None).await.map(Some),
        }
    }

    /// A token in place of `refused`.
    ///
    /// # Errors
    /// Why there is none.
    pub(super) async fn renew(
        &self,
        refused: Option<&str>,
        challenge: Option<&str>,
    ) -> Result<String, NoToken> {
        self.tokens.renew(refused, self.ask(challenge.map(Challenge::parse))).await
    }

    async fn ask(&self, challenge: Option<Challenge>) -> Result<Token, NoToken> {
        let challenge = challenge.unwrap_or_default();
        let endpoint = discovery::token_endpoint(self, &challenge).await;
        let endpoint = endpoint.map_err(NoToken::unreachable)?;
        self.credentials.token(self.client(&endpoint.url), &endpoint).await
    }

    /// Fetches JSON; `None` if there is nothing at this address.
    async fn fetch(&self, url: &Url) -> Result<Option<Value>, String> {
        let request = Request::get(url.as_str()).header(ACCEPT, "application/json");
        let request = request.body(Bytes::new());
        let request = request.map_err(|_| format!("{url} is not a valid address"))?;
        let (status, answer) = oauth::send(self.client(url), request).await?;
        Ok(status.is_success().then_some(answer))
    }

    fn client(&self, url: &Url) -> &Client {
        if url.origin() == self.server.origin() { &self.own } else { &self.others }
    }
}
