//! References: arguments that name the result of an earlier call of the same message, as in
//! `{"$result": "call_1.data.contact_id"}`.
//!
//! The first part is the call's id, as events and results show it. Calls are counted over the whole
//! session, so an id that the model has seen in a result never names a different call. The rest is
//! a path through the result in its standard shape, or through its data alone, which is what the
//! model reads of a result: `call_1.contact_id` will do. Numbers are array indices.

use serde_json::Value;

use crate::conversation::reference::{self, reference};
use crate::limits::tools::REFERRED_BYTES_MAX;
use crate::text::json_len;

/// The references in these arguments, as written.
pub(super) fn find(arguments: &Value) -> Vec<&str> {
    let mut found = Vec::new();
    let mut open = vec![arguments];
    while let Some(value) = open.pop() {
        match (reference(value), value) {
            (Some(reference), _) => found.push(reference),
            (None, Value::Object(members)) => open.extend(members.values()),
            (None, Value::Array(items)) => open.extend(items),
            (None, _) => {}
        }
    }
    found
}

/// The position, among the ids in `calls`, of the call that a reference names. `calls` are the
/// ones before it in its message.
pub(super) fn target<'a>(
    reference: &str,
    mut calls: impl Iterator<Item = &'a str>,
) -> Option<usize> {
    let id = reference::id(reference);
    calls.position(|call| call == id)
}

/// Why references cannot be replaced.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Unresolved<'a> {
    /// The path of this one leads nowhere.
    Missing(&'a str),
    /// Together, the values have more than [`REFERRED_BYTES_MAX`] bytes.
    TooLong,
}

/// Replaces each reference in the arguments by a value from the result of its call. `result_of` is asked for each
/// reference, so it has to be fast.
///
/// # Errors
/// See [`Unresolved`]. No value is copied that does not fit.
pub(super) fn resolve<'a, 'r>(
    arguments: &'a Value,
    result_of: &impl Fn(&str) -> Option<&'r Value>,
) -> Result<Value, Unresolved<'a>> {
    Resolver { result_of, room: REFERRED_BYTES_MAX }.resolve(arguments)
}

/// Replaces references as long as there is room for their values.
struct Resolver<'f, F> {
    result_of: &'f F,
    /// The bytes of JSON that may still come.
    room: usize,
}

impl<'r, F: Fn(&str) -> Option<&'r Value>> Resolver<'_, F> {
    fn resolve<'a>(&mut self, arguments: &'a Value) -> Result<Value, Unresolved<'a>> {
        if let Some(reference) = reference(arguments) {
            let value = look_up(reference, self.result_of).ok_or(Unresolved::Missing(reference))?;
            self.room = self.room.checked_sub(json_len(value)).ok_or(Unresolved::TooLong)?;
            return Ok(value.clone());
        }
        Ok(match arguments {
            Value::Object(members) => {
                let mut resolve = |(key, value): (&String, &'a Value)| {
                    self.resolve(value).map(|value| (key.clone(), value))
                };
                Value::Object(members.iter().map(&mut resolve).collect::<Result<_, _>>()?)
            }
            Value::Array(items) => {
                let resolved = items.iter().map(|item| self.resolve(item));
                Value::Array(resolved.collect::<Result<_, _>>()?)
            }
            plain => plain.clone(),
        })
    }
}

fn look_up<'r>(
    reference: &str,
    result_of: &impl Fn(&str) -> Option<&'r Value>,
) -> Option<&'r Value> {
    let result = result_of(reference)?;
    let path = || reference.split('.').skip(1);
    follow(result, path()).or_else(|| follow(result.get("data")?, path()))
}

fn follow<'v, 'p>(value: &'v Value, mut path: impl Iterator<Item = &'p str>) -> Option<&'v Value> {
    path.try_fold(value, |at, part| match at {
        Value::Object(members) => members.get(part),
        Value::Array(items) => items.get(part.parse::<usize>().ok()?),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check(arguments: &Value, expected: &Result<Value, &str>) {
        let result = json!({ "success": true, "data": { "id": 7, "list": ["a", { "b": null }] } });
        let result_of =
            |reference: &str| target(reference, ["call_4"].into_iter()).map(|_| &result);
        let expected = expected.clone().map_err(Unresolved::Missing);
        assert_eq!(resolve(arguments, &result_of), expected);
    }

    #[test]
    fn references_are_replaced_anywhere() {
        check(&json!({ "to": { "$result": "call_4.data.id" } }), &Ok(json!({ "to": 7 })));
        check(&json!({ "to": [{ "$result": "call_4.data.list.0" }] }), &Ok(json!({ "to": ["a"] })));
        check(&json!({ "to": { "$result": "call_4.data.list.1.b" } }), &Ok(json!({ "to": null })));
        check(&json!({ "$result": "call_4.success" }), &Ok(json!(true)));
        check(&json!({ "to": { "$result": "call_4.id" } }), &Ok(json!({ "to": 7 })));
        check(&json!({ "to": { "$result": "call_4.list.1.b" } }), &Ok(json!({ "to": null })));
    }

    #[test]
    fn what_only_resembles_a_reference_is_data() {
        for data in [
            json!({ "to": { "$result": 7 } }),
            json!({ "to": { "$result": "call_4.data.id", "also": 1 } }),
            json!({ "$result": { "$result": null } }),
        ] {
            check(&data, &Ok(data.clone()));
            assert!(find(&data).is_empty());
        }
    }

    #[test]
    fn a_broken_path_is_named() {
        for path in [
            "call_4.data.nope",
            "call_4.data.list.2",
            "call_4.data.list.x",
            "call_4.data.id.x",
            "call_9.data",
        ] {
            check(&json!({ "a": { "$result": path } }), &Err(path));
        }
    }

    #[test]
    fn the_values_have_a_limit_together() {
        // With its quotes, an eighth of the limit.
        let text = json!("x".repeat(REFERRED_BYTES_MAX / 8 - 2));
        let references = |count| json!(vec![json!({ "$result": "call_4" }); count]);
        let eight = references(8);
        assert_eq!(resolve(&eight, &|_| Some(&text)), Ok(json!(vec![&text; 8])));
        let more = json!([eight, { "$result": "call_4.success" }]);
        let result = json!({ "success": true });
        let result_of = |reference: &str| Some(if reference == "call_4" { &text } else { &result });
        assert_eq!(resolve(&more, &result_of), Err(Unresolved::TooLong));
    }

    #[test]
    fn a_call_is_named_by_its_id() {
        let before = || ["call_3", "call_4"].into_iter();
        assert_eq!(target("call_4.data", before()), Some(1));
        assert_eq!(target("call_3", before()), Some(0));
        for nowhere in ["call_1.data", "call_2", "call_5", "call_03", "lookup.data", "", "call_x"] {
            assert_eq!(target(nowhere, before()), None, "{nowhere}");
        }
    }

    #[test]
    fn all_references_are_found() {
        let arguments = json!({ "a": { "$result": "call_1" }, "b": [[{ "$result": "call_2.x" }]] });
        let mut found = find(&arguments);
        found.sort_unstable();
        assert_eq!(found, ["call_1", "call_2.x"]);
    }
}
