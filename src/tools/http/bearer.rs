//! Requests with a token that the gateway gets itself (RFC 6750, section 2.1).

use bytes::Bytes;
use hyper::header::{AUTHORIZATION, HeaderValue};
use hyper::{Request, Response, StatusCode};
use url::Url;

use crate::tools::ToolFault;
use crate::tools::oauth::{ClientCredentials, Held, NoToken, TokenEndpoint, Tokens};
use crate::tools::outbound::{Addresses, Body, Client, ClientOptions};

/// Gets tokens for an entry's requests.
#[derive(Debug)]
pub struct Bearer {
    credentials: ClientCredentials,
    endpoint: TokenEndpoint,
    /// Reaches the endpoint.
    client: Client,
    tokens: Tokens,
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
        Self { credentials, endpoint, client, tokens: Tokens::default() }
    }

    /// Sends a request with a token. If the server refuses it, tries once with a new one: a request
    /// that is refused for its token has done nothing.
    pub(super) async fn send(
        &self,
        client: &Client,
        request: Request<Bytes>,
    ) -> Result<Response<Body>, ToolFault> {
        let token = match self.tokens.held() {
            Held::Fresh(token) => token,
            Held::Stale(token) => self.renew(Some(&token)).await?,
            Held::Nothing => self.renew(None).await?,
        };
        let response = client.send(with(&request, &token)?).await?;
        if response.status() != StatusCode::UNAUTHORIZED {
            return Ok(response);
        }
        drop(response);
        let token = self.renew(Some(&token)).await?;
        Ok(client.send(with(&request, &token)?).await?)
    }

    async fn renew(&self, refused: Option<&str>) -> Result<String, ToolFault> {
        let asked = self.credentials.token(&self.client, &self.endpoint);
        let fault = |error: NoToken| {
            let told = error.to_string();
            let fault = if error.is_final {
                ToolFault::permanent(told)
            } else {
                ToolFault::transient(told)
            };
            fault.before_sending()
        };
        self.tokens.renew(refused, asked).await.map_err(fault)
    }
}

fn with(request: &Request<Bytes>, token: &str) -> Result<Request<Bytes>, ToolFault> {
    let value = HeaderValue::from_str(&format!("Bearer {token}"));
    let mut value =
        value.map_err(|_| ToolFault::permanent("not authorized: the token is malformed"))?;
    value.set_sensitive(true);
    let mut request = request.clone();
    request.headers_mut().insert(AUTHORIZATION, value);
    Ok(request)
}
