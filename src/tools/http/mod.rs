//! Tools that are HTTP requests.
//!
//! ```text
//!   arguments ─> RequestTemplate ─> outbound::Client ─> response ─> ToolResult
//! ```
//! An operator writes the request ([`WrittenRequest`]), or an `OpenAPI` document describes it
//! (`openapi`). Nothing here repeats a request: whether a call is retried is up to the tool's
//! policy, which follows from the method ([`RequestTemplate::policy`]).

mod bearer;
mod encode;
mod html;
mod method;
pub mod openapi;
mod request;
mod response;
mod source;
mod template;
#[cfg(test)]
mod tests;
mod written;

use std::sync::Arc;

use bytes::Bytes;
use hyper::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, USER_AGENT};
use hyper::{Request, Response};
use jiff::Timestamp;
use serde_json::{Map, Value};
use tracing::debug;

pub use bearer::Bearer;
pub use method::Method;
pub use request::RequestTemplate;
pub use response::ResultOptions;
pub use source::OpenApiSource;
pub use written::{Mistake, WrittenBody, WrittenRequest};

use self::request::Filled;
use self::response::Answer;
use super::outbound::{Body, Client, OutboundError};
use super::{CallContext, Tool, ToolFault, ToolFuture, ToolResult, ToolSpec, digest};
use crate::limits::http_tools::BODY_BYTES_MAX;

/// Options of an [`HttpTool`].
#[derive(Debug, Clone)]
pub struct HttpOptions {
    /// The request of a call.
    pub request: RequestTemplate,
    /// Gets the token of each request.
    pub bearer: Option<Arc<Bearer>>,
    /// Which part of an answer is the result.
    pub result: ResultOptions,
    /// Sends the requests. Tools that share it share its connections.
    pub client: Client,
}

/// A tool that sends an HTTP request.
#[derive(Debug)]
pub struct HttpTool {
    spec: Arc<ToolSpec>,
    options: Arc<HttpOptions>,
}

impl HttpTool {
    /// A tool with this spec. The placeholders of the request are among the spec's parameters.
    #[must_use]
    pub fn new(mut spec: ToolSpec, options: HttpOptions) -> Self {
        spec.implementation = digest::of_text(&options.request.target());
        Self { spec: Arc::new(spec), options: Arc::new(options) }
    }
}

impl Tool for HttpTool {
    fn spec(&self) -> &Arc<ToolSpec> {
        &self.spec
    }

    fn call(&self, arguments: Value, context: CallContext) -> ToolFuture {
        let options = Arc::clone(&self.options);
        Box::pin(async move { options.call(&arguments, &context).await })
    }

    fn needs_own_key(&self) -> bool {
        let request = &self.options.request;
        request.idempotency_header.is_some() && !request.method.is_idempotent()
    }
}

impl HttpOptions {
    async fn call(
        &self,
        arguments: &Value,
        context: &CallContext,
    ) -> Result<ToolResult, ToolFault> {
        let empty = Map::new();
        let filled = match self.request.fill(arguments.as_object().unwrap_or(&empty)) {
            Ok(filled) => filled,
            Err(error) => return Ok(ToolResult::error(error.to_string())),
        };
        let request = self.request(filled, context)?;
        let host = request.uri().host().unwrap_or_default().to_owned();
        let response = match &self.bearer {
            Some(bearer) => bearer.send(&self.client, request).await?,
            None => self.client.send(request).await?,
        };
        match self.read(response, &host).await {
            Err(OutboundError::TooLarge { host, bytes_max }) => {
                let kib = bytes_max / crate::limits::KIB;
                Ok(ToolResult::unread(format!("{host} answered with more than {kib} KiB"))
                    .with_instruction("Ask for a smaller part."))
            }
            Err(error) => Err(error.into()),
            Ok(outcome) => outcome,
        }
    }

    /// The request of an attempt.
    fn request(&self, filled: Filled, context: &CallContext) -> Result<Request<Bytes>, ToolFault> {
        let invalid = |_| ToolFault::permanent("the request is too long");
        let mut headers = HeaderMap::new();
        // Servers that cannot answer in JSON would refuse a request for it alone.
        headers.insert(ACCEPT, HeaderValue::from_static("application/json, */*;q=0.5"));
        headers.insert(
            USER_AGENT,
            HeaderValue::from_static(concat!("tether/", env!("CARGO_PKG_VERSION"))),
        );
        let traceparent = context.traceparent();
        debug!(tool_call = &*traceparent, attempt = context.attempt, "sending");
        headers.insert("traceparent", value(&traceparent)?);
        if let Some(state) = context.tracestate() {
            headers.insert("tracestate", value(state)?);
        }
        let mut body = Bytes::new();
        if let Some((media_type, bytes)) = filled.body {
            headers.insert(CONTENT_TYPE, value(&media_type)?);
            body = bytes.into();
        }
        let key = self.request.idempotency_header.as_ref();
        let key = key.map(|name| (&**name, &*context.idempotency_key));
        let filled_headers = filled.headers.iter().map(|(name, text)| (&**name, &**text));
        for (name, text) in filled_headers.chain(key) {
            let name = HeaderName::from_bytes(name.as_bytes());
            let name = name.map_err(|_| ToolFault::permanent("a header has an invalid name"))?;
            let mut value = value(text)?;
            // Keys have many names.
            value.set_sensitive(true);
            headers.insert(name, value);
        }
        let builder = Request::builder().method(self.request.method.name()).uri(filled.url);
        let mut request = builder.body(body).map_err(invalid)?;
        *request.headers_mut() = headers;
        Ok(request)
    }

    /// Reads an answer; the inner result is the tool's.
    async fn read(
        &self,
        response: Response<Body>,
        host: &str,
    ) -> Result<Result<ToolResult, ToolFault>, OutboundError> {
        let (head, body) = response.into_parts();
        let body = match body.collect(BODY_BYTES_MAX).await {
            // The status says what is wrong with the request, even without the details.
            Err(OutboundError::TooLarge { .. }) if !head.status.is_success() => Bytes::new(),
            body => body?,
        };
        let header = |name: &str| head.headers.get(name)?.to_str().ok();
        let answer = Answer {
            host,
            status: head.status.as_u16(),
            is_head: self.request.method == Method::Head,
            header: &header,
            body,
        };
        Ok(self.request.keys.hide(response::read(&answer, &self.result, Timestamp::now())))
    }
}

fn value(text: &str) -> Result<HeaderValue, ToolFault> {
    HeaderValue::from_str(text).map_err(|_| ToolFault::permanent("a header has an invalid value"))
}
