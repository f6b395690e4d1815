//! The fields of the last constraints, kept as JSON. Turns that are offered all tools share the list of them, so their
//! fields are the same.

use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use serde::ser::{Serialize, Serializer};
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Map, Value};

use super::{Constraint, PromptEnd};
use crate::call_format::CallFormat;
use crate::limits::upstream::{CONSTRAINT_BYTES_MAX, CONSTRAINTS_KEPT_MAX};
use crate::upstream::{ChatRequest, OfferedTool, ToolChoice};

/// The fields of the last constraints, those used last first. A turn that must make a call has two: one until it has made
/// it, and one for the rest.
#[derive(Debug, Default)]
pub(super) struct Kept(Mutex<Vec<(Basis, Arc<Fields>)>>);

/// Request fields, with their values as JSON.
#[derive(Debug)]
pub(crate) struct Fields(Vec<(String, Box<RawValue>)>);

/// All that the fields depend on.
#[derive(Debug)]
struct Basis {
    constraint: Constraint,
    end: PromptEnd,
    // Weak: a client's tools are freed with its turn, but their address is not used again.
    tools: Weak<[OfferedTool]>,
    named: Weak<[String]>,
    choice: ToolChoice,
    format: CallFormat,
}

impl Kept {
    /// See [`Constraint::request_fields`]. `None`, too, if the round has no calls to restrict.
    pub(super) fn request_fields(
        &self,
        constraint: Constraint,
        round: &ChatRequest,
        prompt: &str,
    ) -> Option<Arc<Fields>> {
        // With native calls, the server itself ensures that they are valid; llama.cpp refuses a
        // constraint beside them.
        if round.tools.is_empty() || !round.contract.is_in_text() {
            return None;
        }
        let end = PromptEnd::of(prompt, round.format.row());
        let write = || constraint.request_fields(round, end).map(Fields::from).map(Arc::new);
        if round.answer.is_some() {
            // Each client wants another answer.
            return write();
        }
        let basis = Basis::of(constraint, end, round);
        if let Some(fields) = self.find(&basis) {
            return Some(fields);
        }
        let fields = write()?;
        if fields.bytes() <= CONSTRAINT_BYTES_MAX {
            let mut kept = self.0.lock();
            kept.truncate(CONSTRAINTS_KEPT_MAX - 1);
            kept.insert(0, (basis, Arc::clone(&fields)));
        }
        Some(fields)
    }

    /// The fields for this basis, which become the first.
    fn find(&self, basis: &Basis) -> Option<Arc<Fields>> {
        let mut kept = self.0.lock();
        let at = kept.iter().position(|(known, _)| known.is(basis))?;
        kept[..=at].rotate_right(1);
        Some(Arc::clone(&kept[0].1))
    }
}

impl Basis {
    fn of(constraint: Constraint, end: PromptEnd, round: &ChatRequest) -> Self {
        Self {
            constraint,
            end,
            tools: Arc::downgrade(&round.tools),
            named: Arc::downgrade(&round.named),
            choice: round.tool_choice.clone(),
            format: round.format.clone(),
        }
    }

    fn is(&self, other: &Self) -> bool {
        (self.constraint, self.end) == (other.constraint, other.end)
            && self.tools.ptr_eq(&other.tools)
            && self.named.ptr_eq(&other.named)
            && (&self.choice, &self.format) == (&other.choice, &other.format)
    }
}

impl Fields {
    fn bytes(&self) -> usize {
        self.0.iter().map(|(name, value)| name.len() + value.get().len()).sum()
    }
}

impl From<Map<String, Value>> for Fields {
    fn from(fields: Map<String, Value>) -> Self {
        let raw = |value: Value| to_raw_value(&value).expect("plain data always serialises");
        Self(fields.into_iter().map(|(name, value)| (name, raw(value))).collect())
    }
}

impl Serialize for Fields {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(name, value)| (name, value)))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::call_format::{CallContract, HERMES, MARKER_JSON};

    fn tool(name: &str) -> OfferedTool {
        let parameters = json!({"type": "object", "properties": {}});
        OfferedTool { name: name.to_owned(), description: String::new(), parameters }
    }

    fn round() -> ChatRequest {
        ChatRequest {
            tools: [tool("f")].into(),
            format: CallFormat::of(&HERMES),
            ..ChatRequest::default()
        }
    }

    fn fields(kept: &Kept, round: &ChatRequest) -> Arc<Fields> {
        kept.request_fields(Constraint::LlamaGrammar, round, "").unwrap()
    }

    #[test]
    fn the_next_turn_with_the_same_tools_has_the_same_fields() {
        let (kept, round) = (Kept::default(), round());
        let first = fields(&kept, &round);
        assert!(Arc::ptr_eq(&first, &fields(&kept, &round)));
        let plain = Constraint::LlamaGrammar.request_fields(&round, PromptEnd::of("", &HERMES));
        assert_eq!(serde_json::to_value(&first).unwrap(), Value::from(plain.unwrap()));
    }

    #[test]
    fn whatever_differs_makes_other_fields() {
        let changes: [fn(&mut ChatRequest); 5] = [
            |round| round.tools = [tool("f")].into(),
            |round| round.named = ["g".to_owned()].into(),
            |round| round.tool_choice = ToolChoice::Required,
            |round| round.format = CallFormat::of(&MARKER_JSON),
            |round| round.answer = Some(Arc::new(json!({"type": "object"}))),
        ];
        for change in changes {
            let (kept, mut round) = (Kept::default(), round());
            let first = fields(&kept, &round);
            change(&mut round);
            assert!(!Arc::ptr_eq(&first, &fields(&kept, &round)));
        }
        let (kept, round) = (Kept::default(), round());
        let first = fields(&kept, &round);
        let with = |constraint, prompt| kept.request_fields(constraint, &round, prompt).unwrap();
        assert!(!Arc::ptr_eq(&first, &with(Constraint::LlamaGrammar, "<prompt>")));
        let required = ChatRequest { tool_choice: ToolChoice::Required, ..round.clone() };
        let required = kept.request_fields(Constraint::JsonSchema, &required, "").unwrap();
        assert!(!Arc::ptr_eq(&required, &fields(&kept, &round)));
    }

    #[test]
    fn a_turn_that_must_call_has_two_kinds_of_rounds() {
        let (kept, round) = (Kept::default(), round());
        let required = ChatRequest { tool_choice: ToolChoice::Required, ..round.clone() };
        let first = (fields(&kept, &required), fields(&kept, &round));
        let then = (fields(&kept, &required), fields(&kept, &round));
        assert!(Arc::ptr_eq(&first.0, &then.0) && Arc::ptr_eq(&first.1, &then.1));
    }

    #[test]
    fn those_that_are_used_stay() {
        let (kept, round) = (Kept::default(), round());
        let others = || ChatRequest { tools: [tool("g")].into(), ..round.clone() };
        let first = fields(&kept, &round);
        for _ in 0..2 * CONSTRAINTS_KEPT_MAX {
            fields(&kept, &others());
            assert!(Arc::ptr_eq(&first, &fields(&kept, &round)));
            assert!(kept.0.lock().len() <= CONSTRAINTS_KEPT_MAX);
        }
        (1..CONSTRAINTS_KEPT_MAX).for_each(|_| drop(fields(&kept, &others())));
        assert!(Arc::ptr_eq(&first, &fields(&kept, &round)), "there was room for it");
        (0..CONSTRAINTS_KEPT_MAX).for_each(|_| drop(fields(&kept, &others())));
        assert!(!Arc::ptr_eq(&first, &fields(&kept, &round)), "one too many has come since");
    }

    #[test]
    fn native_calls_are_not_constrained_though_text_in_the_same_format_was() {
        let kept = Kept::default();
        let format = CallFormat::of(&MARKER_JSON);
        let in_text = CallContract::InText(&MARKER_JSON);
        let in_text = ChatRequest { contract: in_text, format, ..round() };
        fields(&kept, &in_text);
        let native = ChatRequest { contract: CallContract::Native, ..in_text };
        assert!(kept.request_fields(Constraint::LlamaGrammar, &native, "").is_none());
    }

    #[test]
    fn the_fields_of_too_many_tools_are_not_kept() {
        let kept = Kept::default();
        let bytes = |name: &str| {
            let round = ChatRequest { tools: [tool(name)].into(), ..round() };
            let fields = fields(&kept, &round);
            let is_kept = kept.0.lock().iter().any(|(_, it)| Arc::ptr_eq(it, &fields));
            assert_eq!(is_kept, fields.bytes() <= CONSTRAINT_BYTES_MAX);
            fields.bytes()
        };
        let frame = bytes("f");
        let per_byte = bytes("ff") - frame;
        let fitting = 1 + (CONSTRAINT_BYTES_MAX - frame) / per_byte;
        assert!(bytes(&"f".repeat(fitting)) > CONSTRAINT_BYTES_MAX - per_byte);
        assert!(bytes(&"f".repeat(fitting + 1)) > CONSTRAINT_BYTES_MAX);
    }
}
