//! How much work a schema makes, found out before a validator does it.
//!
//! A few lines of schema can make a validator work for hours:
//!
//! ```text
//! {"$defs": {"n": {"anyOf": [{"properties": {"a": {"$ref": "#/$defs/n"}}, "required": ["x"]},
//!                            {"properties": {"a": {"$ref": "#/$defs/n"}}, "required": ["y"]}]}}}
//! ```
//! Each level of a value doubles the work, since both branches look at all that is below. So the
//! same way is gone beforehand, without judging anything, and given up once it is too long. Where
//! it is not clear what a reference means, that is too long as well: a validator may see more in it.

mod copies;
mod documents;
mod walk;

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

use self::documents::Documents;
use self::walk::Walk;
use super::parts::values;
use crate::limits::tools::{
    CHECKS_EXPLAINED_MAX, CHECKS_MAX, CHECKS_PER_VALUE, UNFINISHED_RUNS_MAX,
};

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
    documents: Documents,
}

impl Effort {
    /// The effort of a schema, or what in it must not even be compiled.
    pub(super) fn of(schema: &Arc<Value>) -> Result<Self, &'static str> {
        let has = |keyword: &&str| values(schema).any(|part| is_text(part.get(*keyword)));
        if let Some(keyword) = DYNAMIC.into_iter().find(has) {
            return Err(keyword);
        }
        let draft = schema.get("$schema");
        let mut drafts = values(schema).map(|part| part.get("$schema"));
        if drafts.any(|named| is_text(named) && named != draft) {
            return Err("more than one $schema");
        }
        let documents = Documents::of(schema);
        copies::check(schema, &documents)?;
        Ok(Self { schema: Arc::clone(schema), documents })
    }

    /// How much work it is to check the value.
    pub(super) fn of_checking(&self, value: &Value) -> Work {
        let checks = CHECKS_MAX + CHECKS_PER_VALUE * values(value).count();
        let mut walk = Walk::new(&self.schema, &self.documents, checks);
        if walk.check(&self.schema, self.documents.root(), value).is_none() {
            return Work::TooMuch;
        }
        // A pattern that is given up makes the validator start again, and keep each run's errors.
        let runs = if walk.has_backtracked() { UNFINISHED_RUNS_MAX } else { 1 };
        let explained = walk.explained().saturating_mul(runs);
        if explained <= CHECKS_EXPLAINED_MAX { Work::Little } else { Work::Much }
    }
}

/// The references of a schema, and whether each means something in it wherever it is.
pub(crate) fn references(schema: &Value) -> BTreeMap<String, bool> {
    Documents::of(schema).references(schema)
}

/// Keywords whose meaning depends on how a validator got there.
const DYNAMIC: [&str; 2] = ["$dynamicRef", "$recursiveRef"];

fn is_text(value: Option<&Value>) -> bool {
    value.is_some_and(Value::is_string)
}

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
