//! Requests with a token that the gateway gets itself (RFC 6750, section 2.1).

use bytes::Bytes;
use hyper::header::{AUTHORIZATION, HeaderValue, WWW_AUTHENTICATE};
use hyper::{Request, Response, StatusCode};
use parking_lot::Mutex;
use tokio::sync::Mutex as AsyncMutex;
use tokio::time::{Instant, timeout};

use super::token::{NoToken, Token};
use crate::limits::oauth::TIMEOUT;
use crate::tools::ToolFault;
use crate::tools::outbound::{Body, Client, OutboundError};

/// Who issues tokens.
pub(crate) trait Issuer: Sync {
    /// Whether only a server's challenge says where its tokens come from. The first request then
    /// goes without one.
    const NEEDS_CHALLENGE: bool;

    /// Asks for a token. `challenge` is the `WWW-Authenticate` of the server that wants one.
    fn ask(&self, challenge: Option<&str>) -> impl Future<Output = Result<Token, NoToken>> + Send;
}

/// Why a request with a token got no answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SendError {
    /// There is no token, so the request was not sent.
    #[error(transparent)]
    NoToken(#[from] NoToken),
    /// It got no answer.
    #[error(transparent)]
    Outbound(#[from] OutboundError),
}

impl From<SendError> for ToolFault {
    fn from(error: SendError) -> Self {
        match error {
            SendError::Outbound(error) => error.into(),
            SendError::NoToken(error) if error.is_final => {
                Self::permanent(error.to_string()).before_sending()
            }
            SendError::NoToken(error) => Self::transient(error.to_string()).before_sending(),
        }
    }
}

/// Sends requests with tokens of one issuer.
#[derive(Debug)]
pub(crate) struct Bearer<I> {
    issuer: I,
    token: Mutex<Option<Token>>,
    /// Held while a token is asked for, so that calls that fail together ask once.
    asking: AsyncMutex<()>,
}

impl<I: Issuer> Bearer<I> {
    pub(crate) fn new(issuer: I) -> Self {
        Self { issuer, token: Mutex::default(), asking: AsyncMutex::default() }
    }

    /// Sends a request with a token. If the server refuses the token, the request is sent once
    /// more with a new one: a request that is refused for its token has done nothing.
    ///
    /// # Errors
    /// See [`SendError`].
    pub(crate) async fn send(
        &self,
        client: &Client,
        request: Request<Bytes>,
    ) -> Result<Response<Body>, SendError> {
        let token = self.current().await?;
        let response = client.send(with(&request, token.as_ref())).await?;
        if response.status() != StatusCode::UNAUTHORIZED {
            return Ok(response);
        }
        let challenge = response.headers().get(WWW_AUTHENTICATE);
        let challenge = challenge.and_then(|value| value.to_str().ok()).map(str::to_owned);
        drop(response);
        let renewed = self.renew(token.as_ref(), challenge.as_deref()).await?;
        Ok(client.send(with(&request, Some(&renewed))).await?)
    }

    /// The token to send, if there is or should be one.
    async fn current(&self) -> Result<Option<HeaderValue>, NoToken> {
        let held = self.token.lock().clone();
        match held {
            Some(Token { header, until }) if Instant::now() < until => Ok(Some(header)),
            Some(Token { header, .. }) => self.renew(Some(&header), None).await.map(Some),
            None if I::NEEDS_CHALLENGE => Ok(None),
            None => self.renew(None, None).await.map(Some),
        }
    }

    /// A token in place of `refused`, which is asked for unless another call has got one meanwhile.
    async fn renew(
        &self,
        refused: Option<&HeaderValue>,
        challenge: Option<&str>,
    ) -> Result<HeaderValue, NoToken> {
        let _asking = self.asking.lock().await;
        if let Some(token) = &*self.token.lock()
            && Some(&token.header) != refused
        {
            return Ok(token.header.clone());
        }
        let asked = timeout(TIMEOUT, self.issuer.ask(challenge)).await;
        let token = asked.unwrap_or_else(|_| Err(NoToken::unreachable("it took too long")))?;
        let header = token.header.clone();
        *self.token.lock() = Some(token);
        Ok(header)
    }
}

fn with(request: &Request<Bytes>, token: Option<&HeaderValue>) -> Request<Bytes> {
    let mut request = request.clone();
    if let Some(token) = token {
        request.headers_mut().insert(AUTHORIZATION, token.clone());
    }
    request
}
