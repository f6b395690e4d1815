//! Tokens for an entry's requests.

use bytes::Bytes;
use hyper::{Request, Response};
use url::Url;

use crate::tools::oauth::{
    self, ClientCredentials, Issuer, NoToken, SendError, Token, TokenEndpoint,
};
use crate::tools::outbound::{Addresses, Body, Client, ClientOptions};

/// Gets tokens for an entry's requests.
#[derive(Debug)]
pub struct Bearer(oauth::Bearer<Operators>);

/// The token endpoint that an operator names.
#[derive(Debug)]
struct Operators {
    credentials: ClientCredentials,
    endpoint: TokenEndpoint,
    /// Reaches the endpoint.
    client: Client,
}

impl Bearer {
    /// Tokens from this endpoint.
    #[must_use]
    pub fn new(credentials: ClientCredentials, endpoint: Url) -> Self {
        let addresses = Addresses::In(credentials.allow_private.clone());
        let client = Client::new(ClientOptions::new(addresses));
        // Servers have to take the header (RFC 6749, section 2.3.1), but not the form.
        let endpoint = TokenEndpoint {
            audience: endpoint.to_string(),
            url: endpoint,
            takes_basic: true,
            resource: None,
            scope: None,
        };
        Self(oauth::Bearer::new(Operators { credentials, endpoint, client }))
    }

    /// Sends a request with a token.
    pub(super) async fn send(
        &self,
        client: &Client,
        request: Request<Bytes>,
    ) -> Result<Response<Body>, SendError> {
        self.0.send(client, request).await
    }
}

impl Issuer for Operators {
    const NEEDS_CHALLENGE: bool = false;

    async fn ask(&self, _challenge: Option<&str>) -> Result<Token, NoToken> {
        self.credentials.token(&self.client, &self.endpoint).await
    }
}
