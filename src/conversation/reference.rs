//! References to results of earlier calls, as they are written in arguments:
//! `{"$result": "call_1.data.contact_id"}`.

use std::collections::HashMap;

use serde_json::Value;

/// The one key of a reference.
const KEY: &str = "$result";

/// What this value refers to, if it is a reference: a call's id, and a path through its result after it.
pub(crate) fn reference(value: &Value) -> Option<&str> {
    let members = value.as_object().filter(|members| members.len() == 1)?;
    members.get(KEY)?.as_str()
}

/// The id of the call that a reference names.
pub(crate) fn id(reference: &str) -> &str {
    reference.split('.').next().unwrap_or_default()
}

/// Replaces the ids of calls in references. References to other calls stay.
pub(super) fn rename(arguments: &mut Value, ids: &HashMap<String, String>) {
    let mut open = vec![arguments];
    while let Some(value) = open.pop() {
        if let Some(reference) = reference(value) {
            let id = id(reference);
            if let Some(new) = ids.get(id) {
                value[KEY] = format!("{new}{}", &reference[id.len()..]).into();
            }
            continue;
        }
        match value {
            Value::Object(members) => open.extend(members.values_mut()),
            Value::Array(items) => open.extend(items),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn calls_get_other_ids_wherever_they_are_referred_to() {
        let ids = [("call_5", "call_1"), ("call_6", "call_5")];
        let ids = HashMap::from(ids.map(|(from, to)| (from.to_owned(), to.to_owned())));
        let mut arguments = json!({
            "a": [{ "$result": "call_5.data.call_6" }, { "b": { "$result": "call_6" } }],
            "c": { "$result": "call_7.id" },
            "d": { "$result": "call_5", "e": 1 },
            "f": "call_5",
        });
        rename(&mut arguments, &ids);
        let renamed = json!({
            "a": [{ "$result": "call_1.data.call_6" }, { "b": { "$result": "call_5" } }],
            "c": { "$result": "call_7.id" },
            "d": { "$result": "call_5", "e": 1 },
            "f": "call_5",
        });
        assert_eq!(arguments, renamed);
    }
}
