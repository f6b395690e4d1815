//! An answer that its client fetches later: `"background": true`.

use serde_json::Value;

use super::envelope::Envelope;
use super::id::ResponseId;
use crate::server::dialect::{self, Receipt};

/// A response that its client fetches later.
#[derive(Debug)]
pub(super) struct Queued(pub(super) Envelope);

impl Receipt for Queued {
    fn receipt(&self, session_id: &str, turn_id: &str) -> Value {
        let id = ResponseId::of(session_id, turn_id);
        dialect::json::event(&self.0.object(id, "queued", None, b""))
    }
}
