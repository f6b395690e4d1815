//! How turns end, for all dialects that collect an answer or have no words for a question.

use serde::Deserialize as _;
use serde_json::Value;

use crate::tools::{Clarification, Source};

/// The status of an answer whose turn has failed before any of it was sent.
pub(super) fn status(failed: &Value) -> u16 {
    match failed["code"].as_str() {
        Some("context_length_exceeded") => 400,
        Some("upstream_unavailable") => 503,
        Some("upstream_timeout") => 504,
        Some("internal" | "store_unavailable") => 500,
        _ => 502,
    }
}

/// Whether the same request would fail again.
pub(in crate::server) fn is_final(failed: &Value) -> bool {
    failed["retryable"] == false
}

/// The question of a turn that ends with one.
pub(super) fn question(asked: &Value) -> Clarification {
    let fields = ["type", "question", "options", "url"];
    let members =
        fields.iter().filter_map(|key| Some(((*key).to_owned(), asked.get(key)?.clone())));
    Clarification::deserialize(Value::Object(members.collect())).unwrap_or_default()
}

/// The same in words. `follows` says whether words come before it.
pub(super) fn question_in_words(asked: &Value, follows: bool) -> String {
    let source = Source::deserialize(&asked["source"]).unwrap_or_default();
    question(asked).in_words(&source, follows)
}
