//! What a response says about itself, apart from what the model writes.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::end::End;
use super::id::ResponseId;
use super::parts::bytes;
use super::server_items::{Labels, ServerItems};

/// See the module docs. Copies share it.
#[derive(Debug, Clone)]
pub(in crate::server) struct Envelope {
    pub(super) head: Arc<ResponseHead>,
    /// When it ended, in seconds since the Unix epoch, once that is known.
    pub(super) ended_at: Arc<OnceLock<u64>>,
    /// Tells the time.
    pub(super) clock: fn() -> u64,
}

/// What is known when the turn begins. It is stored, so later versions must still read its fields.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(in crate::server) struct ResponseHead {
    /// In seconds since the Unix epoch.
    pub(super) created_at: u64,
    /// Whether it runs without readers, and can be cancelled.
    #[serde(default)]
    pub(in crate::server) background: bool,
    /// The members of the object that repeat the request.
    pub(super) echo: Value,
    /// What the request said, as items with ids.
    #[serde(default)]
    pub(super) input: Vec<Value>,
    /// The instructions in the items of the whole chain. Those beside them hold for one response
    /// alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) system: Option<String>,
    /// The request for approval that was granted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) approval_request_id: Option<String>,
    /// The namespace of each tool that has one, by the name that models know.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) namespace_of: BTreeMap<String, String>,
    /// The names of all namespaces. Only older releases stored them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) namespaces: Vec<String>,
}

/// What is needed to make an answer of a turn's log.
#[derive(Debug, Clone)]
pub(super) struct AnswerOptions {
    pub(super) envelope: Envelope,
    pub(super) shown: ServerItems,
    pub(super) labels: Labels,
}

impl ResponseHead {
    /// Reads a stored head.
    pub(super) fn read(json: &RawValue) -> Self {
        let mut reader = serde_json::Deserializer::from_str(json.get());
        // The session's record is bounded.
        reader.disable_recursion_limit();
        Self::deserialize(&mut reader).unwrap_or_default()
    }
}

impl Envelope {
    /// The status in the first event.
    pub(super) fn first_status(&self) -> &'static str {
        if self.head.background { "queued" } else { "in_progress" }
    }

    /// The response with these items. Before its end, it has this status. Every member that the
    /// schemas know is there: some clients insist on each.
    pub(super) fn object(
        &self,
        id: ResponseId,
        status: &str,
        end: Option<&End>,
        output: &[u8],
    ) -> Vec<u8> {
        let is_completed = end.is_some_and(|end| end.status == "completed");
        let reason = end.and_then(|end| end.incomplete);
        let head = json!({
            "id": id.to_string(),
            "object": "response",
            "created_at": self.head.created_at,
            "completed_at": is_completed.then(|| *self.ended_at.get_or_init(self.clock)),
            "status": end.map_or(status, |end| end.status),
            "incomplete_details": reason.map(|reason| json!({ "reason": reason })),
            "error": end.and_then(End::response_error),
            "usage": end.map(|end| &end.usage),
        });
        let mut object = bytes(&head);
        object.pop();
        object.extend_from_slice(b",\"output\":[");
        object.extend_from_slice(output);
        object.extend_from_slice(b"],");
        // The members of the echo, and the end of the object.
        object.extend_from_slice(&bytes(&self.head.echo)[1..]);
        object
    }
}
