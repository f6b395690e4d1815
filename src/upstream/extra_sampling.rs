//! Ways to choose tokens that only some servers know, passed on as a client sends them.
//!
//! Most servers ignore what they do not know, and some refuse the whole request. So a request that
//! is refused is made again without them: without those that the refusal names, if it names any,
//! and then without all. What helped is remembered, until the server may have been replaced. It is
//! remembered with its value: one client's bad value must not take the field from all others.

use std::collections::VecDeque;
use std::sync::{Arc, LazyLock};

use parking_lot::Mutex;
use serde_json::{Map, Value};
use sha2::{Digest as _, Sha256};

use crate::limits::upstream::REFUSED_SAMPLING_MAX;

/// Fields for the request to a server, by their names there. Copies share them.
#[derive(Debug, Clone, PartialEq)]
pub struct ExtraSampling(Arc<Map<String, Value>>);

/// None, as most requests have. All of these are one.
impl Default for ExtraSampling {
    fn default() -> Self {
        static NONE: LazyLock<Arc<Map<String, Value>>> = LazyLock::new(Arc::default);
        Self(Arc::clone(&NONE))
    }
}

impl ExtraSampling {
    /// These fields, which must be small.
    #[must_use]
    pub fn new(fields: Map<String, Value>) -> Self {
        Self(Arc::new(fields))
    }

    /// These and more fields.
    #[must_use]
    pub(crate) fn and(&self, more: Map<String, Value>) -> Self {
        Self::new(
            self.0.iter().map(|(name, value)| (name.clone(), value.clone())).chain(more).collect(),
        )
    }

    /// Whether there are none.
    #[must_use]
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The fields.
    #[must_use]
    pub(crate) fn fields(&self) -> &Map<String, Value> {
        &self.0
    }

    fn only(&self, keeps: impl Fn(&str, &Value) -> bool) -> Self {
        let kept = self.0.iter().filter(|(name, value)| keeps(name, value));
        Self::new(kept.map(|(name, value)| (name.clone(), value.clone())).collect())
    }

    /// Without the fields that a refusal names, or without any if it names none.
    pub(super) fn without_blamed(&self, refusal: &str) -> Self {
        let is_named = |name: &str| {
            refusal.contains(name) || name_in_responses(name).is_some_and(|it| refusal.contains(it))
        };
        let rest = self.only(|name, _| !is_named(name));
        if rest.0.len() < self.0.len() { rest } else { Self::default() }
    }
}

/// What a field is called by servers that are asked by the Responses API, if not by its own name.
fn name_in_responses(name: &str) -> Option<&'static str> {
    match name {
        "reasoning_effort" => Some("reasoning.effort"),
        "response_format" => Some("text.format"),
        _ => None,
    }
}

/// What a server has refused: hashes of fields with their values, the oldest first.
#[derive(Debug, Default)]
pub(super) struct RefusedSampling(Mutex<VecDeque<[u8; 32]>>);

impl RefusedSampling {
    /// Without what the server has refused before.
    pub(super) fn taken_from(&self, extra: &ExtraSampling) -> ExtraSampling {
        let refused = self.0.lock();
        if extra.is_empty() || refused.is_empty() {
            return extra.clone();
        }
        extra.only(|name, value| !refused.contains(&hash(name, value)))
    }

    /// The server has answered only without these.
    pub(super) fn note(&self, sent: &ExtraSampling, kept: &ExtraSampling) {
        let mut refused = self.0.lock();
        let dropped = sent.0.iter().filter(|(name, _)| !kept.0.contains_key(*name));
        refused.extend(dropped.map(|(name, value)| hash(name, value)));
        let surplus = refused.len().saturating_sub(REFUSED_SAMPLING_MAX);
        refused.drain(..surplus);
    }

    /// Forgets all, because the server may have been replaced.
    pub(super) fn forget(&self) {
        self.0.lock().clear();
    }
}

fn hash(name: &str, value: &Value) -> [u8; 32] {
    Sha256::digest(format!("{name}={value}")).into()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn extra(fields: &Value) -> ExtraSampling {
        ExtraSampling::new(fields.as_object().unwrap().clone())
    }

    #[test]
    fn those_that_a_refusal_names_are_dropped_or_else_all() {
        let both = extra(&json!({"top_k": 1, "min_p": 0.1}));
        let refusal = "extra inputs are not permitted: 'top_k'";
        assert_eq!(both.without_blamed(refusal), extra(&json!({"min_p": 0.1})));
        assert!(both.without_blamed("bad request").is_empty());
        let effort = extra(&json!({"reasoning_effort": "low", "top_k": 1}));
        for refusal in ["unsupported: 'reasoning.effort'", "unsupported: reasoning_effort"] {
            assert_eq!(effort.without_blamed(refusal), extra(&json!({"top_k": 1})), "{refusal}");
        }
        assert!(both.without_blamed("neither top_k nor min_p").is_empty());
    }

    #[test]
    fn what_was_refused_is_not_sent_again() {
        let refused = RefusedSampling::default();
        let sent = extra(&json!({"top_k": 1, "min_p": 0.1}));
        assert_eq!(refused.taken_from(&sent), sent);
        refused.note(&sent, &extra(&json!({"min_p": 0.1})));
        assert_eq!(refused.taken_from(&sent), extra(&json!({"min_p": 0.1})));
        let other = extra(&json!({"top_k": 2}));
        assert_eq!(refused.taken_from(&other), other, "another value");
        refused.forget();
        assert_eq!(refused.taken_from(&sent), sent);
    }

    #[test]
    fn the_oldest_are_forgotten() {
        let refused = RefusedSampling::default();
        let field = |value: usize| extra(&json!({ "top_k": value }));
        for value in 0..=REFUSED_SAMPLING_MAX {
            refused.note(&field(value), &ExtraSampling::default());
        }
        assert_eq!(refused.taken_from(&field(0)), field(0));
        for value in 1..=REFUSED_SAMPLING_MAX {
            assert!(refused.taken_from(&field(value)).is_empty(), "{value}");
        }
    }
}
