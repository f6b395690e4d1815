//! rmcp's requests over HTTP.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use futures::stream::BoxStream;
use hyper::header::{ACCEPT, CONTENT_TYPE, HeaderName, HeaderValue, USER_AGENT};
use hyper::http::request::Builder;
use hyper::{Method, Request, Response, StatusCode};
use parking_lot::Mutex;
use rmcp::model::{ClientJsonRpcMessage, ClientRequest, GetExtensions as _};
use rmcp::transport::streamable_http_client::{
    SseError, StreamableHttpClient, StreamableHttpPostResponse,
};
use sse_stream::Sse;

use super::answer::{Asked, answer, auth_error, has_lost_session, status_error};
use super::events::events;
use super::fields::{EVENTS, Error, JSON, SESSION_ID, header, is_of};
use super::params::ParamHeaders;
use crate::tools::mcp::auth::Authorized;
use crate::tools::mcp::end::End;
use crate::tools::oauth::SendError;
use crate::tools::outbound::{Body, Client, OutboundError};
use crate::tools::throttle::Throttle;

const SESSION_LOST: &str = "the server no longer knows the session";
const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");
type Headers = HashMap<HeaderName, HeaderValue>;

/// Sends rmcp's requests.
#[derive(Debug, Clone)]
pub(in crate::tools::mcp) struct HttpClient {
    client: Client,
    auth: Option<Arc<Authorized>>,
    /// What the requests show to be over: HTTP has no connection whose end could be seen.
    end: End,
    /// Whether the server has answered a GET with a stream.
    has_streamed: Arc<AtomicBool>,
    /// How fast the streams of the connection are read, all together: a server may end one and get another.
    throttle: Arc<Mutex<Throttle>>,
}

impl HttpClient {
    pub(in crate::tools::mcp) fn new(
        client: Client,
        auth: Option<Arc<Authorized>>,
        end: End,
    ) -> Self {
        Self { client, auth, end, has_streamed: Arc::default(), throttle: Arc::default() }
    }

    /// Sends a request. If it is not authorized, it is sent once more with a new token.
    async fn send(&self, request: Builder, body: Bytes) -> Result<Response<Body>, Error> {
        let request = request.header(
            USER_AGENT,
            HeaderValue::from_static(concat!("tether/", env!("CARGO_PKG_VERSION"))),
        );
        let invalid =
            |_| Error::UnexpectedServerResponse(Cow::Borrowed("the request cannot be sent"));
        let request = request.body(body).map_err(invalid)?;
        let sent = match &self.auth {
            Some(auth) => auth.send(&self.client, request).await,
            None => self.client.send(request).await.map_err(SendError::Outbound),
        };
        sent.map_err(|error| {
            if is_gone(&error) {
                self.end.note(error.to_string());
            }
            Error::Client(error)
        })
    }
}

/// Whether nobody is at the server's address.
const fn is_gone(error: &SendError) -> bool {
    matches!(
        error,
        SendError::Outbound(OutboundError::Connect { .. } | OutboundError::ConnectTimeout { .. })
    )
}

fn with_headers(mut request: Builder, session: Option<&str>, headers: Headers) -> Builder {
    for (name, value) in headers {
        request = request.header(name, value);
    }
    match session {
        Some(session) => request.header(SESSION_ID, session),
        None => request,
    }
}

impl StreamableHttpClient for HttpClient {
    type Error = SendError;

    async fn post_message(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session: Option<Arc<str>>,
        _auth: Option<String>,
        headers: Headers,
    ) -> Result<StreamableHttpPostResponse, Error> {
        let had_session = session.is_some();
        let mut request = Request::post(&*uri)
            .header(CONTENT_TYPE, JSON)
            .header(ACCEPT, format!("{JSON}, {EVENTS}"));
        if let Some(ParamHeaders(params)) = param_headers(&message) {
            for (name, value) in params {
                request = request.header(name, value);
            }
        }
        let request = with_headers(request, session.as_deref(), headers);
        let body = serde_json::to_vec(&message)?;
        let response = self.send(request, body.into()).await?;
        let throttle = &self.throttle;
        let asked = Asked { uri: &uri, message: &message, had_session, throttle };
        let read = answer(response, asked).await;
        if let Err(Error::SessionExpired) = &read {
            // A new session may have other tools, so it is not for rmcp to begin one in silence.
            self.end.note(SESSION_LOST);
        }
        read
    }

    async fn delete_session(
        &self,
        uri: Arc<str>,
        session: Arc<str>,
        _auth: Option<String>,
        headers: Headers,
    ) -> Result<(), Error> {
        let request = Request::builder().method(Method::DELETE).uri(&*uri);
        let response =
            self.send(with_headers(request, Some(&session), headers), Bytes::new()).await?;
        match response.status() {
            StatusCode::METHOD_NOT_ALLOWED => Ok(()),
            status if status.is_success() => Ok(()),
            status => Err(status_error(status, response.headers())),
        }
    }

    async fn get_stream(
        &self,
        uri: Arc<str>,
        session: Option<Arc<str>>,
        last_event_id: Option<String>,
        _auth: Option<String>,
        headers: Headers,
    ) -> Result<BoxStream<'static, Result<Sse, SseError>>, Error> {
        let mut request = Request::get(&*uri).header(ACCEPT, EVENTS);
        let resumes = last_event_id.is_some();
        if let Some(id) = last_event_id {
            request = request.header(LAST_EVENT_ID, id);
        }
        let request = with_headers(request, session.as_deref(), headers);
        let response = self.send(request, Bytes::new()).await?;
        let (head, body) = response.into_parts();
        let (status, headers) = (head.status, &head.headers);
        if status == StatusCode::METHOD_NOT_ALLOWED {
            return Err(Error::ServerDoesNotSupportSse);
        }
        if !status.is_success() {
            if session.is_some() && has_lost_session(status, body).await {
                // Many servers answer every GET like this. After a stream, or the start of an answer that was to be
                // resumed, it is about the session.
                if resumes || self.has_streamed.load(Ordering::Relaxed) {
                    self.end.note(SESSION_LOST);
                }
                return Err(Error::SessionExpired);
            }
            return Err(
                auth_error(status, headers).unwrap_or_else(|| status_error(status, headers))
            );
        }
        let content_type = header(headers, &CONTENT_TYPE);
        if !is_of(content_type, EVENTS) {
            return Err(Error::UnexpectedContentType(content_type.map(str::to_owned)));
        }
        self.has_streamed.store(true, Ordering::Relaxed);
        // Whatever a resumed stream answers is the result of a call.
        Ok(events(body, None, true, Arc::clone(&self.throttle)))
    }
}

fn param_headers(message: &ClientJsonRpcMessage) -> Option<&ParamHeaders> {
    let ClientJsonRpcMessage::Request(request) = message else { return None };
    let ClientRequest::CallToolRequest(call) = &request.request else { return None };
    call.extensions().get::<ParamHeaders>()
}
