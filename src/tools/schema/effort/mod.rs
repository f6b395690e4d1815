//! How much work a schema makes, found out before a validator does it.
//!
//! A few lines of schema can make a validator work for hours:
//!
//! ```text
//! {"$defs": {"n": {"anyOf": [{"properties": {"a": {"$ref": "#/$defs/n"}}, "required": ["x"]},
//!                            {"properties": {"a": {"$ref": "#/$defs/n"}}, "required": ["y"]}]}}}
//! ```
//! Each level of a value doubles the work, since both branches look at all that is below. So the
//! same path is walked first, without judging anything, and given up once it is too long. If it is
//! not clear what a reference means, that is too long as well: a validator may see more in it.

mod copies;
mod documents;
mod matching;
mod walk;

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

use self::documents::Documents;
use self::walk::Walk;
use super::parts::{schemas, values};
use crate::limits::tools::{CHECKS_EXPLAINED_MAX, CHECKS_PER_VALUE, UNFINISHED_RUNS_MAX};

/// What keeps a schema from being compiled although it may be valid.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Unsupported {
    /// `$dynamicRef`, whose meaning depends on how a validator got there.
    #[error("$dynamicRef")]
    DynamicRef,
    /// `$recursiveRef`, likewise.
    #[error("$recursiveRef")]
    RecursiveRef,
    /// Parts of it are of another draft than the whole.
    #[error("more than one $schema")]
    Drafts,
    /// A validator would make too many copies of what references mean, or it is not clear how many.
    #[error("references that multiply")]
    MultiplyingReferences,
    /// It is not clear which document an `$id` names.
    #[error("an $id that is not clear")]
    UnclearId,
}

/// How much work it is to check a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Work {
    /// What is wrong with it can be told, too.
    Little,
    /// It can be told whether something is wrong.
    Much,
    /// It must not be checked.
    TooMuch,
}

/// How much work a schema makes.
#[derive(Debug)]
pub(super) struct Effort {
    schema: Arc<Value>,
    /// How many of its parts may be looked at to check a value.
    checks_max: usize,
    /// Nanoseconds that its patterns may take to check a value.
    match_ns_max: usize,
    documents: Documents,
}

impl Effort {
    /// The effort of a schema, or what in it must not even be compiled.
    pub(super) fn of(
        schema: &Arc<Value>,
        checks_max: usize,
        match_ns_max: usize,
    ) -> Result<Self, Unsupported> {
        let has = |keyword: &str| {
            values(schema).any(|part| part.get(keyword).is_some_and(Value::is_string))
        };
        if has("$dynamicRef") {
            return Err(Unsupported::DynamicRef);
        }
        if has("$recursiveRef") {
            return Err(Unsupported::RecursiveRef);
        }
        let documents = Documents::of(schema);
        if has_drafts(schema, &documents) {
            return Err(Unsupported::Drafts);
        }
        copies::check(schema, &documents)?;
        Ok(Self { schema: Arc::clone(schema), checks_max, match_ns_max, documents })
    }

    /// How much work it is to check the value.
    pub(super) fn of_checking(&self, value: &Value) -> Work {
        match self.explained(value) {
            None => Work::TooMuch,
            Some(explained) if explained <= CHECKS_EXPLAINED_MAX => Work::Little,
            Some(_) => Work::Much,
        }
    }

    /// How many times it may be told what is wrong with the value and with others like it.
    pub(super) fn explanations(&self, value: &Value) -> usize {
        self.explained(value).map_or(0, |explained| CHECKS_EXPLAINED_MAX / explained.max(1))
    }

    /// The parts that are looked at to say what is wrong; `None` if that is too much even to find out.
    fn explained(&self, value: &Value) -> Option<usize> {
        let checks = self.checks_max + CHECKS_PER_VALUE * values(value).count();
        let mut walk = Walk::new(&self.schema, &self.documents, checks, self.match_ns_max);
        walk.check(&self.schema, self.documents.root(), value)?;
        // A pattern that is given up makes the validator start again, and keep each run's errors.
        let runs = if walk.has_backtracked() { UNFINISHED_RUNS_MAX } else { 1 };
        Some(walk.explained().saturating_mul(runs))
    }
}

/// The references of a schema, and whether each means something in it wherever it is.
pub(crate) fn references(schema: &Value) -> BTreeMap<String, bool> {
    Documents::of(schema).references(schema)
}

/// Whether a part of a schema is of another draft than the whole. Values may name any, unless a
/// reference makes schemas of them.
fn has_drafts(schema: &Value, documents: &Documents) -> bool {
    let named = |part: &Value| {
        let draft = part.get("$schema").and_then(Value::as_str)?;
        Some(draft.strip_suffix('#').unwrap_or(draft).to_owned())
    };
    let own = named(schema).unwrap_or_else(|| DEFAULT_DRAFT.to_owned());
    let is_other = |part: &Value| named(part).is_some_and(|draft| draft != own);
    if documents.leads_into_values(schema) {
        return values(schema).any(is_other);
    }
    let mut open = vec![schema];
    while let Some(part) = open.pop() {
        if is_other(part) {
            return true;
        }
        open.extend(part.as_object().into_iter().flat_map(schemas).map(|(_, _, part)| part));
    }
    false
}

/// The draft of a schema that does not say its own.
const DEFAULT_DRAFT: &str = "https://json-schema.org/draft/2020-12/schema";

/// Keywords with one schema for the value itself.
const SAME: [&str; 4] = ["not", "if", "then", "else"];
/// Keywords with several.
const SAME_EACH: [&str; 3] = ["allOf", "anyOf", "oneOf"];
/// Those of which one has to fit: a validator tries each before it explains what is wrong.
const UNIONS: [&str; 2] = ["anyOf", "oneOf"];
/// Keywords with schemas for the value itself if it has a member of that name.
const DEPENDENT: [&str; 2] = ["dependencies", "dependentSchemas"];
/// Keywords for which the others are gone through once more.
const UNEVALUATED: [&str; 2] = ["unevaluatedItems", "unevaluatedProperties"];

#[cfg(test)]
mod tests;
