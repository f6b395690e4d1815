//! Requests with a token that the gateway gets itself (RFC 6750, section 2.1).

use bytes::Bytes;
use hyper::header::{AUTHORIZATION, HeaderValue, WWW_AUTHENTICATE};
use hyper::{Request, Response, StatusCode};
use parking_lot::Mutex;
use tokio::sync::Mutex as AsyncMutex;
use tokio::time::{Instant, timeout, timeout_at};

use super::token::{NoToken, Token};
use crate::limits::oauth::{RENEWAL_PAUSE, RENEWAL_TIMEOUT, TIMEOUT};
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
    /// What the server said when it last wanted a token, for when the token has to be renewed.
    challenge: Mutex<Option<String>>,
    /// Held while a token is asked for, so that calls that fail together ask once.
    asking: AsyncMutex<()>,
}

impl<I: Issuer> Bearer<I> {
    pub(crate) fn new(issuer: I) -> Self {
        Self {
            issuer,
            token: Mutex::default(),
            challenge: Mutex::default(),
            asking: AsyncMutex::default(),
        }
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
        // Each way to authorize may have a field of its own.
        let challenges = response.headers().get_all(WWW_AUTHENTICATE).iter();
        let challenges: Vec<&str> = challenges.filter_map(|value| value.to_str().ok()).collect();
        if !challenges.is_empty() {
            *self.challenge.lock() = Some(challenges.join(", "));
        }
        drop(response);
        let renewed = self.renew(token.as_ref()).await?;
        Ok(client.send(with(&request, Some(&renewed))).await?)
    }

    /// The token to send, if there is or should be one.
    async fn current(&self) -> Result<Option<HeaderValue>, NoToken> {
        let held = self.token.lock().clone();
        match held {
            Some(Token { header, renew_at, .. }) if Instant::now() < renew_at => Ok(Some(header)),
            Some(Token { header, until, .. }) if Instant::now() < until => {
                // Other calls need not wait for this one, whatever becomes of it.
                self.put_renewal_off(&header);
                let deadline = until.min(Instant::now() + RENEWAL_TIMEOUT);
                match timeout_at(deadline, self.renew(Some(&header))).await {
                    Ok(Ok(renewed)) => Ok(Some(renewed)),
                    _ if Instant::now() < until => Ok(Some(header)),
                    _ => self.replace(&header).await,
                }
            }
            Some(Token { header, .. }) => self.replace(&header).await,
            None if I::NEEDS_CHALLENGE => Ok(None),
            None => self.renew(None).await.map(Some),
        }
    }

    /// A token in place of one that is no longer valid.
    async fn replace(&self, header: &HeaderValue) -> Result<Option<HeaderValue>, NoToken> {
        let renewed = self.renew(Some(header)).await;
        if renewed.is_err() && I::NEEDS_CHALLENGE {
            // The next request goes without, and the server says where tokens come from now.
            self.forget(header);
        }
        renewed.map(Some)
    }

    /// Goes on with a token that is still valid.
    fn put_renewal_off(&self, header: &HeaderValue) {
        let mut token = self.token.lock();
        if let Some(token) = token.as_mut().filter(|token| token.header == *header) {
            token.renew_at = token.until.min(Instant::now() + RENEWAL_PAUSE);
        }
    }

    fn forget(&self, header: &HeaderValue) {
        let mut token = self.token.lock();
        token.take_if(|token| token.header == *header);
    }

    /// A token in place of `refused`, which is asked for unless another call has got one meanwhile.
    async fn renew(&self, refused: Option<&HeaderValue>) -> Result<HeaderValue, NoToken> {
        let _asking = self.asking.lock().await;
        if let Some(token) = &*self.token.lock()
            && Some(&token.header) != refused
        {
            return Ok(token.header.clone());
        }
        let challenge = self.challenge.lock().clone();
        let asked = timeout(TIMEOUT, self.issuer.ask(challenge.as_deref())).await;
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

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::advance;

    use super::*;

    /// Notes what it is asked with, and gives tokens that last for a second, if any.
    #[derive(Default)]
    struct Noting {
        challenges: Mutex<Vec<Option<String>>>,
        refuses: bool,
        is_silent: bool,
    }

    impl Issuer for Noting {
        const NEEDS_CHALLENGE: bool = true;

        async fn ask(&self, challenge: Option<&str>) -> Result<Token, NoToken> {
            self.challenges.lock().push(challenge.map(str::to_owned));
            if self.is_silent {
                std::future::pending::<()>().await;
            }
            if self.refuses {
                return Err(NoToken::unreachable("it is away"));
            }
            Ok(Token::new(HeaderValue::from_static("Bearer t"), Duration::from_secs(1)))
        }
    }

    fn expired(issuer: Noting) -> Bearer<Noting> {
        let bearer = Bearer::new(issuer);
        *bearer.challenge.lock() = Some("Bearer scope=a".to_owned());
        let header = HeaderValue::from_static("Bearer old");
        *bearer.token.lock() = Some(Token::new(header, Duration::ZERO));
        bearer
    }

    #[tokio::test(start_paused = true)]
    async fn a_token_is_renewed_as_the_server_has_said() {
        let bearer = expired(Noting::default());
        assert_eq!(bearer.current().await.unwrap().unwrap(), "Bearer t");
        assert_eq!(*bearer.issuer.challenges.lock(), [Some("Bearer scope=a".to_owned())]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_token_that_cannot_be_renewed_is_used_while_it_is_valid() {
        let bearer = Bearer::new(Noting { refuses: true, ..Noting::default() });
        let header = HeaderValue::from_static("Bearer old");
        *bearer.token.lock() = Some(Token::new(header.clone(), RENEWAL_PAUSE * 10));
        advance(RENEWAL_PAUSE * 8).await;
        for _ in 0..2 {
            assert_eq!(bearer.current().await.unwrap(), Some(header.clone()));
            assert_eq!(bearer.issuer.challenges.lock().len(), 1, "it is not asked each time");
        }
        advance(RENEWAL_PAUSE * 2).await;
        assert!(bearer.current().await.is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn a_token_is_not_used_once_it_is_no_longer_valid() {
        let bearer = Bearer::new(Noting::default());
        let header = HeaderValue::from_static("Bearer old");
        *bearer.token.lock() = Some(Token::new(header.clone(), RENEWAL_PAUSE));
        advance(RENEWAL_PAUSE * 9 / 10).await;
        bearer.put_renewal_off(&header);
        assert_eq!(bearer.current().await.unwrap().unwrap(), "Bearer old");
        advance(RENEWAL_PAUSE / 10).await;
        assert_eq!(bearer.current().await.unwrap().unwrap(), "Bearer t");
    }

    /// A call must not use its time up on a token that it has already.
    #[tokio::test(start_paused = true)]
    async fn an_issuer_that_does_not_answer_holds_one_call_up_for_a_moment() {
        let bearer = Bearer::new(Noting { is_silent: true, ..Noting::default() });
        let header = HeaderValue::from_static("Bearer old");
        *bearer.token.lock() = Some(Token::new(header.clone(), RENEWAL_PAUSE * 10));
        advance(RENEWAL_PAUSE * 8).await;
        let began = Instant::now();
        for _ in 0..2 {
            assert_eq!(bearer.current().await.unwrap(), Some(header.clone()));
            assert_eq!(began.elapsed(), RENEWAL_TIMEOUT);
        }
    }

    /// Otherwise nothing would ever be sent again.
    #[tokio::test(start_paused = true)]
    async fn without_a_new_token_the_server_is_asked_again() {
        let bearer = expired(Noting { refuses: true, ..Noting::default() });
        assert!(bearer.current().await.is_err());
        assert_eq!(bearer.current().await.unwrap(), None);
    }
}
