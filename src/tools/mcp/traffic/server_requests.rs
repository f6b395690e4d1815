//! The server's own requests that await an answer. Their number and size are limited: an answer repeats the id, may
//! repeat the method, and stays in memory until the server reads it.

use std::collections::HashMap;

use rmcp::model::{JsonRpcRequest, NumberOrString, RequestId, ServerRequest};

use crate::limits::mcp::{
    SERVER_REQUEST_BYTES_MAX, SERVER_REQUEST_ID_BYTES_MAX, SERVER_REQUESTS_BYTES_MAX,
    SERVER_REQUESTS_MAX,
};
use crate::text::json_len;

/// The server's requests without an answer, by their ids.
#[derive(Debug, Default)]
pub(super) struct ServerRequests {
    requests: HashMap<RequestId, Unanswered>,
    /// The sum of their sizes.
    bytes: usize,
}

#[derive(Debug)]
struct Unanswered {
    bytes: usize,
    /// Whether its answer is on its way, or waits until the server reads. Nothing calls it back.
    is_sending: bool,
}

impl ServerRequests {
    /// Whether a request may be answered. If so, it counts until [`Self::end_answer`] or [`Self::cancel`].
    pub(super) fn admit(&mut self, request: &JsonRpcRequest<ServerRequest>) -> bool {
        let is_short = match &request.id {
            NumberOrString::Number(_) => true,
            NumberOrString::String(id) => id.len() <= SERVER_REQUEST_ID_BYTES_MAX,
        };
        if !is_short
            || self.requests.len() >= SERVER_REQUESTS_MAX
            || self.requests.contains_key(&request.id)
        {
            return false;
        }
        let (bytes, left) = (json_len(request), SERVER_REQUESTS_BYTES_MAX - self.bytes);
        let most = if is_question(&request.request) { left } else { SERVER_REQUEST_BYTES_MAX };
        if bytes > most.min(left) {
            return false;
        }
        self.bytes += bytes;
        self.requests.insert(request.id.clone(), Unanswered { bytes, is_sending: false });
        true
    }

    /// The answer is about to be sent.
    pub(super) fn begin_answer(&mut self, id: &RequestId) {
        let none = Unanswered { bytes: 0, is_sending: true };
        self.requests.entry(id.clone()).or_insert(none).is_sending = true;
    }

    /// The answer has been sent.
    pub(super) fn end_answer(&mut self, id: &RequestId) {
        if let Some(request) = self.requests.remove(id) {
            self.bytes -= request.bytes;
        }
    }

    /// The server wants no answer, which counts if none is on its way.
    pub(super) fn cancel(&mut self, id: &RequestId) {
        if self.requests.get(id).is_some_and(|request| !request.is_sending) {
            self.end_answer(id);
        }
    }
}

/// Whether a request is one to the user, the only kind that is long for a reason.
fn is_question(request: &ServerRequest) -> bool {
    match request {
        ServerRequest::ElicitRequest(_) => true,
        ServerRequest::CustomRequest(custom) => custom.method == "elicitation/create",
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn request(
        id: impl Into<Value>,
        method: &str,
        params: &Value,
    ) -> JsonRpcRequest<ServerRequest> {
        let id: Value = id.into();
        let request = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
        serde_json::from_value(request).unwrap()
    }

    /// A request of this method that is exactly this long.
    fn long(id: usize, method: &str, bytes: usize) -> JsonRpcRequest<ServerRequest> {
        let of = |text: usize| request(id, method, &json!({ "x": "x".repeat(text) }));
        let request = of(bytes - json_len(&of(0)));
        assert_eq!(json_len(&request), bytes);
        request
    }

    fn id(id: usize) -> RequestId {
        NumberOrString::Number(i64::try_from(id).unwrap())
    }

    #[test]
    fn an_answer_repeats_no_long_id() {
        let ping = |bytes| request("x".repeat(bytes), "ping", &json!({}));
        let mut requests = ServerRequests::default();
        assert!(requests.admit(&ping(SERVER_REQUEST_ID_BYTES_MAX)));
        assert!(!requests.admit(&ping(SERVER_REQUEST_ID_BYTES_MAX + 1)));
    }

    #[test]
    fn only_a_question_may_be_long() {
        let mut requests = ServerRequests::default();
        assert!(requests.admit(&long(1, "a/method", SERVER_REQUEST_BYTES_MAX)));
        assert!(!requests.admit(&long(2, "a/method", SERVER_REQUEST_BYTES_MAX + 1)));
        assert!(!requests.admit(&request(3, &"m".repeat(SERVER_REQUEST_BYTES_MAX), &json!({}))));
        assert!(requests.admit(&long(4, "elicitation/create", SERVER_REQUEST_BYTES_MAX + 1)));
    }

    #[test]
    fn questions_without_an_answer_are_limited_together() {
        const HALF: usize = SERVER_REQUESTS_BYTES_MAX / 2;
        let question = |id, bytes| long(id, "elicitation/create", bytes);
        let mut requests = ServerRequests::default();
        assert!(requests.admit(&question(1, HALF)));
        assert!(!requests.admit(&question(2, HALF + 1)));
        assert!(requests.admit(&question(2, HALF)));
        assert!(!requests.admit(&request(3, "ping", &json!({}))));
        requests.begin_answer(&id(1));
        requests.cancel(&id(1));
        assert!(!requests.admit(&question(3, HALF)), "the answer is on its way");
        requests.end_answer(&id(1));
        requests.cancel(&id(2));
        assert!(requests.admit(&question(3, 2 * HALF)));
    }
}
