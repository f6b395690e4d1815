//! References: arguments that name the result of an earlier call of the same message, as in
//! `{"$result": "call_1.data.contact_id"}`.
//!
//! The first part is the call's id, as events and results show it. Calls are counted over the whole
//! session, so an id that the model has seen in a result never names a different call. The rest is
//! a path through the result in its standard shape, or through its data alone, which is what the
//! model reads of a result: `call_1.contact_id` will do. Numbers are array indices.

use serde_json::Value;

/// The one key of a reference.
const KEY: &str = "$result";

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
    let id = reference.split('.').next().unwrap_or_default();
    calls.position(|call| call == id)
}

/// Replaces each reference in the arguments by a value from `result_of` its call.
///
/// # Errors
/// The first reference whose path leads nowhere.
pub(super) fn resolve<'a>(
    arguments: &'a Value,
    result_of: &impl Fn(&str) -> Option<Value>,
) -> Result<Value, &'a str> {
    if let Some(reference) = reference(arguments) {
        return look_up(reference, result_of).ok_or(reference);
    }
    Ok(match arguments {
        Value::Object(members) => {
            let resolved = members
                .iter()
                .map(|(key, value)| resolve(value, result_of).map(|value| (key.clone(), value)));
            Value::Object(resolved.collect::<Result<_, _>>()?)
        }
        Value::Array(items) => {
            let resolved = items.iter().map(|item| resolve(item, result_of));
            Value::Array(resolved.collect::<Result<_, _>>()?)
        }
        plain => plain.clone(),
    })
}

fn reference(value: &Value) -> Option<&str> {
    let members = value.as_object().filter(|members| members.len() == 1)?;
    members.get(KEY)?.as_str()
}

fn look_up(reference: &str, result_of: &impl Fn(&str) -> Option<Value>) -> Option<Value> {
    let result = result_of(reference)?;
    let path = || reference.split('.').skip(1);
    follow(&result, path()).or_else(|| follow(result.get("data")?, path())).cloned()
}

fn follow<'v>(value: &'v Value, mut path: impl Iterator<Item = &'v str>) -> Option<&'v Value> {
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
            |reference: &str| target(reference, ["call_4"].into_iter()).map(|_| result.clone());
        assert_eq!(&resolve(arguments, &result_of), expected);
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
