//! How rmcp uses HTTP.

use std::collections::HashMap;
use std::sync::Arc;

use hyper::header::{HeaderName, HeaderValue};
use rmcp::transport::common::client_side_sse::ExponentialBackoff;
use rmcp::transport::streamable_http_client::StreamableHttpClientTransportConfig;
use url::Url;

use crate::limits::mcp as limits;

/// The configuration for a server at this address, with these fields in every request.
pub(in crate::tools::mcp) fn config(
    url: &Url,
    headers: &[(String, String)],
) -> StreamableHttpClientTransportConfig {
    let mut config = StreamableHttpClientTransportConfig::with_uri(url.as_str());
    let header = |(name, value): &(String, String)| {
        let mut value = HeaderValue::try_from(value).ok()?;
        // Whatever an operator writes there may be a key.
        value.set_sensitive(true);
        Some((HeaderName::try_from(name).ok()?, value))
    };
    config.custom_headers = headers.iter().filter_map(header).collect::<HashMap<_, _>>();
    let mut retry = ExponentialBackoff::default();
    retry.max_times = Some(limits::STREAM_RETRIES_MAX);
    retry.max_delay = Some(limits::STREAM_BACKOFF_MAX);
    config.retry_config = Arc::new(retry);
    config.max_sse_event_size = limits::MESSAGE_BYTES_MAX;
    config.max_json_response_size = limits::MESSAGE_BYTES_MAX;
    // A new session may have other tools: they are listed and compared first.
    config.reinit_on_expired_session = false;
    config.allow_stateless = true;
    // rmcp would let further calls wait, and they would be taken for sent.
    config.max_concurrent_requests = limits::POSTS_MAX;
    config
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_call_that_may_be_open_is_sent_at_once() {
        let url = Url::parse("https://a.example/mcp").unwrap();
        assert!(config(&url, &[]).max_concurrent_requests > limits::OPEN_CALLS_MAX);
    }
}
