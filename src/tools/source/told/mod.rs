//! The part of a schema that a model reads: what restricts arguments, and what explains them.
//!
//! Real schemas are written for programs. Everything that neither restricts nor explains costs
//! tokens in every prompt, so it is left out. What remains accepts the same arguments, unless it
//! cannot be told: then it accepts more, and calls are checked against the whole schema.
//!
//! Strangers write schemas too. Keywords that JSON Schema does not know would be read as
//! instructions, and characters that nobody sees hide some, so whatever has such characters is
//! left out: a value of an `enum`, a name, a pattern. Escapes would not do. A server that presents
//! the tools itself reads them and writes the characters again, and a model reads escapes as well.
//! A call that lacks such a value or name is refused with both in its feedback, escaped
//! ([`clean::json`](crate::tools::clean::json)), so a tool that honestly needs them can still be
//! called.
//!
//! **Whatever the whole schema accepts, the told one accepts**, unless it hides something itself.

mod shorten;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use self::shorten::{Broken, Effect, Shortening};
use crate::tools::schema::references;

/// Keywords under which definitions are kept.
const DEFINITIONS: &[&str] = &["$defs", "definitions"];

/// Rounds in which references are looked up one by one. A chain of references through each other
/// could need as many rounds as it is long.
const ROUNDS_MAX: usize = 4;

/// The schema of the tool `name` as models read it; `None` if that is all of it.
pub(crate) fn schema(name: &str, whole: &Value) -> Option<Value> {
    let (mut told, mut effect) = shortened(name, whole, &Broken::default());
    let mut broken = Broken::default();
    let known = references(whole);
    for round in 0.. {
        let lost = references(&told).into_iter().filter(|(name, resolves)| {
            !resolves && known.get(name).is_some_and(|resolved| *resolved)
        });
        let before = broken.names.len();
        broken.names.extend(lost.map(|(name, _)| name));
        let has_more = broken.names.len() > before;
        if !has_more && (effect == Effect::Same || round > 0) {
            break;
        }
        // What a reference means may have become something else, and only a second round shows it.
        broken.is_uncertain = true;
        if round == ROUNDS_MAX {
            broken.names.extend(known.keys().cloned());
        }
        (told, effect) = shortened(name, whole, &broken);
    }
    remove_unused_definitions(&mut told);
    (told != *whole).then_some(told)
}

fn shortened(name: &str, whole: &Value, broken: &Broken) -> (Value, Effect) {
    let mut told = whole.clone();
    let effect = Shortening::new(broken).run(&mut told, name);
    (told, effect)
}

/// Removes definitions that nothing refers to. Does nothing if a reference is of a kind that would
/// have to be resolved to know what it refers to.
fn remove_unused_definitions(schema: &mut Value) {
    let Some(keywords) = schema.as_object() else { return };
    let Some(used) = used_definitions(keywords) else { return };
    let Value::Object(keywords) = schema else { return };
    for keyword in DEFINITIONS {
        if let Some(Value::Object(named)) = keywords.get_mut(*keyword) {
            named.retain(|name, _| used.contains(&(*keyword, name.clone())));
            if named.is_empty() {
                keywords.shift_remove(*keyword);
            }
        }
    }
}

/// The definitions that are reached from outside of the definitions, by keyword and name. `None` if
/// that cannot be told.
fn used_definitions(root: &Map<String, Value>) -> Option<BTreeSet<(&'static str, String)>> {
    let mut used = BTreeSet::new();
    let mut references = Vec::new();
    for (keyword, value) in root {
        if !DEFINITIONS.contains(&keyword.as_str()) {
            collect_references(value, &mut references)?;
        }
    }
    if let Some(reference) = root.get("$ref") {
        references.push(reference.as_str()?.to_owned());
    }
    while let Some(reference) = references.pop() {
        let path = reference.strip_prefix('#')?;
        if path.is_empty() {
            continue;
        }
        let mut segments = path.strip_prefix('/')?.split('/');
        let (keyword, name) = (segments.next()?, segments.next()?);
        let keyword = DEFINITIONS.iter().find(|known| **known == keyword)?;
        if name.contains(['~', '%']) {
            return None;
        }
        if used.insert((*keyword, name.to_owned())) {
            collect_references(root.get(*keyword)?.get(name)?, &mut references)?;
        }
    }
    Some(used)
}

/// Adds every `$ref` in a value, even if it may not be a keyword. `None` if there is a reference
/// of another kind.
fn collect_references(value: &Value, references: &mut Vec<String>) -> Option<()> {
    match value {
        Value::Array(items) => {
            items.iter().try_for_each(|item| collect_references(item, references))
        }
        Value::Object(members) => members.iter().try_for_each(|(key, member)| {
            match (key.as_str(), member) {
                ("$ref", Value::String(reference)) => references.push(reference.clone()),
                ("$dynamicRef" | "$recursiveRef" | "$id" | "$anchor", Value::String(_)) => {
                    return None;
                }
                _ => {}
            }
            collect_references(member, references)
        }),
        _ => Some(()),
    }
}
