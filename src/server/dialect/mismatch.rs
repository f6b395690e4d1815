//! Says in plain words why JSON does not have the shape of a request: which field is wrong, what it
//! must be, and what it is instead.
//!
//! What a field must be is read from the schema of the request, the one that `/openapi.json` shows,
//! so a new field needs no words of its own.

use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde_json::Value;
use serde_path_to_error::{Path, Segment};

use crate::limits::server::REFUSED_VALUE_BYTES_MAX;
use crate::text::cut;

/// Why JSON is not a `T`. `path` leads to the field at fault, if it is a field's.
pub(super) fn explain<T: JsonSchema>(path: &Path, error: &serde_json::Error) -> String {
    let reason = error.to_string();
    let reason = without_place(&reason);
    let is_whole = path.iter().next().is_none();
    let name = if is_whole { "the body".to_owned() } else { path.to_string() };
    if let Some(field) = quoted_after(reason, "missing field ") {
        return format!("{name} has no {field}, which is required");
    }
    if let Some(field) = quoted_after(reason, "duplicate field ") {
        return format!("{field} occurs more than once");
    }
    if let Some((_, known)) = reason.strip_prefix("unknown field ").and_then(|it| expected(it)) {
        let known = known.strip_prefix("one of ").unwrap_or(known).replace('`', "");
        return format!("{name} is not a known field; known here: {known}");
    }
    let schema = SchemaSettings::draft2020_12()
        .with(|settings| settings.inline_subschemas = true)
        .into_generator()
        .into_root_schema_for::<T>();
    let wanted = at(schema.as_value(), path).and_then(described);
    match (wanted, got(reason)) {
        (Some(wanted), Some(got)) => format!("{name} must be {wanted}, not {got}"),
        (Some(wanted), None) => format!("{name} must be {wanted}"),
        (None, _) => format!("{name}: {reason}"),
    }
}

/// Why a body is no JSON at all, and where.
pub(super) fn invalid(body: &[u8], error: &serde_json::Error) -> String {
    if body.trim_ascii().is_empty() {
        return "the body is empty; send a JSON object".to_owned();
    }
    let (line, column) = (error.line(), error.column());
    let reason = error.to_string();
    let reason = match without_place(&reason) {
        _ if error.is_eof() => "it ends too early",
        "recursion limit exceeded" => "it is nested too deeply",
        reason => reason,
    };
    format!("the body is not valid JSON: {reason} at line {line} column {column}")
}

/// The message without the line and the column: the name of a field says more.
fn without_place(reason: &str) -> &str {
    reason.rsplit_once(" at line ").map_or(reason, |(reason, _)| reason)
}

/// What is between backticks after `start`.
fn quoted_after<'r>(reason: &'r str, start: &str) -> Option<&'r str> {
    reason.strip_prefix(start)?.strip_prefix('`')?.strip_suffix('`')
}

/// What was found, and what was expected. A name that was found may contain anything.
fn expected(found: &str) -> Option<(&str, &str)> {
    found.rsplit_once("`, expected ")
}

/// What serde says was found, in the terms of JSON.
fn got(reason: &str) -> Option<String> {
    if let Some(found) = reason.strip_prefix("unknown variant `") {
        let (variant, _) = expected(found)?;
        return Some(cut(&Value::from(variant).to_string(), REFUSED_VALUE_BYTES_MAX));
    }
    let found =
        reason.strip_prefix("invalid type: ").or_else(|| reason.strip_prefix("invalid value: "))?;
    let (kind, _) = found.split_once([' ', ',']).unwrap_or((found, ""));
    Some(match kind {
        "string" => "a string".to_owned(),
        "sequence" => "a list".to_owned(),
        "map" => "an object".to_owned(),
        "null" => "null".to_owned(),
        // `true`, or a number.
        _ => found.split('`').nth(1)?.to_owned(),
    })
}

/// The schema of the field that a path leads to.
fn at<'s>(schema: &'s Value, path: &Path) -> Option<&'s Value> {
    path.iter().try_fold(not_null(schema), |schema, segment| {
        let inner = match segment {
            Segment::Seq { .. } => schema.get("items"),
            Segment::Map { key } => schema.get("properties").and_then(|fields| fields.get(key)),
            Segment::Enum { .. } => Some(schema),
            Segment::Unknown => None,
        };
        inner.map(not_null)
    })
}

/// The schema of the value, if there is one.
fn not_null(schema: &Value) -> &Value {
    let is_null = |it: &&Value| it["type"] != "null";
    let mut either = schema["anyOf"].as_array().into_iter().flatten().filter(is_null);
    match (either.next(), either.next()) {
        (Some(only), None) => only,
        _ => schema,
    }
}

/// What a value of this schema must be. `None` if anything will do.
fn described(schema: &Value) -> Option<String> {
    let schema = not_null(schema);
    if let Some(kinds) = schema["anyOf"].as_array() {
        let kinds = kinds.iter().filter(|it| it["type"] != "null").map(described);
        return kinds.collect::<Option<Vec<_>>>().map(|kinds| kinds.join(" or "));
    }
    if let Some(words) = words_of(schema) {
        let (last, before) = words.split_last()?;
        return Some(match before {
            [] => last.clone(),
            before => format!("{} or {last}", before.join(", ")),
        });
    }
    Some(match kind_of(schema)? {
        "string" => "a string".to_owned(),
        "boolean" => "true or false".to_owned(),
        "object" => "an object".to_owned(),
        "array" => match kind_of(&schema["items"]) {
            Some("string") => "a list of strings".to_owned(),
            Some("object") => "a list of objects".to_owned(),
            _ => "a list".to_owned(),
        },
        "integer" => number("an integer", schema),
        "number" => number("a number", schema),
        _ => return None,
    })
}

/// The words that a value can be, in quotation marks.
fn words_of(schema: &Value) -> Option<Vec<String>> {
    if let Some(variants) = schema["oneOf"].as_array() {
        let words: Option<Vec<_>> = variants.iter().map(words_of).collect();
        return words.map(|words| words.concat());
    }
    let words = match schema.get("const") {
        Some(only) => std::slice::from_ref(only),
        None => schema["enum"].as_array()?,
    };
    Some(words.iter().filter(|it| it.is_string()).map(Value::to_string).collect())
}

/// Its type, if it has one that is not `null`.
fn kind_of(schema: &Value) -> Option<&str> {
    match &schema["type"] {
        Value::String(kind) => Some(kind),
        Value::Array(kinds) => kinds.iter().filter_map(Value::as_str).find(|it| *it != "null"),
        _ => not_null(schema)["type"].as_str(),
    }
}

/// A number within its bounds; the format bounds integers, too.
fn number(kind: &str, schema: &Value) -> String {
    let most = match schema["format"].as_str() {
        Some("int64") => return "a 64-bit integer".to_owned(),
        Some("uint32") => Some(u32::MAX.into()),
        _ => None,
    };
    let bound = |key: &str| schema[key].as_f64();
    match (bound("minimum"), bound("maximum").or(most)) {
        (Some(least), Some(most)) => format!("{kind} from {least} to {most}"),
        (Some(least), None) => format!("{kind}, at least {least}"),
        (None, Some(most)) => format!("{kind}, at most {most}"),
        (None, None) => kind.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use schemars::{Schema, SchemaGenerator};

    use super::*;
    use crate::server::dialect::json;
    use crate::server::dialect::{ag_ui, ai_sdk, chat_completions, messages, native, responses};
    use crate::server::refusal::Refusal;

    #[derive(Debug, serde::Deserialize, JsonSchema)]
    #[serde(deny_unknown_fields)]
    #[expect(dead_code, reason = "only its reading is tested")]
    struct Body {
        names: Option<Vec<String>>,
        nested: Option<Vec<Nested>>,
        #[serde(rename = "maxCalls")]
        max_calls: Option<u32>,
        is_on: Option<bool>,
        mode: Option<Mode>,
    }

    #[derive(Debug, serde::Deserialize, JsonSchema)]
    #[expect(dead_code, reason = "only its reading is tested")]
    struct Nested {
        id: String,
        share: Option<f64>,
    }

    #[derive(Debug, serde::Deserialize, JsonSchema)]
    #[serde(rename_all = "snake_case")]
    enum Mode {
        Fast,
        /// Takes its time.
        Careful,
        Dry,
    }

    #[track_caller]
    fn check(body: &str, param: Option<&str>, expected: &str) {
        let refused = json::read::<Body>(body.as_bytes()).unwrap_err();
        let Refusal::BadJson { param: named, message } = refused else { panic!("{refused:?}") };
        assert_eq!((named.as_deref(), &*message), (param, expected), "{body}");
    }

    #[test]
    fn a_wrong_type_is_told_in_plain_words() {
        #[track_caller]
        fn at(param: &str, body: &str, expected: &str) {
            check(body, Some(param), expected);
        }
        at("names", r#"{"names":"a"}"#, "names must be a list of strings, not a string");
        at("names", r#"{"names":{}}"#, "names must be a list of strings, not an object");
        at("names[1]", r#"{"names":["a",null]}"#, "names[1] must be a string, not null");
        at("nested", r#"{"nested":true}"#, "nested must be a list of objects, not true");
        at(
            "nested[0].id",
            r#"{"nested":[{"id":[]}]}"#,
            "nested[0].id must be a string, not a list",
        );
        let share = "nested[0].share must be a number, not a string";
        at("nested[0].share", r#"{"nested":[{"id":"a","share":"`1`, expected x"}]}"#, share);
        for wrong in ["-1", "1.5", "4294967296"] {
            let expected = format!("maxCalls must be an integer from 0 to 4294967295, not {wrong}");
            at("maxCalls", &format!(r#"{{"maxCalls":{wrong}}}"#), &expected);
        }
        at("is_on", r#"{"is_on":1}"#, "is_on must be true or false, not 1");
    }

    #[test]
    fn a_wrong_word_is_told_the_right_ones() {
        let modes = r#"mode must be "fast", "dry" or "careful", not"#;
        check(r#"{"mode":"slow"}"#, Some("mode"), &format!(r#"{modes} "slow""#));
        for wrong in ["1", "{}", "[]", "null,\"is_on\":1"] {
            let body = format!(r#"{{"mode":{wrong}}}"#);
            let refused = json::read::<Body>(body.as_bytes()).unwrap_err();
            let expected = if wrong.starts_with("null") { "is_on" } else { "mode" };
            assert!(
                matches!(&refused, Refusal::BadJson { param: Some(it), message }
                    if it == expected && message.starts_with(&format!("{expected} must be "))),
                "{body}: {refused:?}"
            );
        }
        check(r#"{"mode":"`a`, expected"}"#, Some("mode"), &format!(r#"{modes} "`a`, expected""#));
    }

    #[test]
    fn names_that_are_wrong_missing_or_repeated_are_told() {
        let known = "nme is not a known field; known here: names, nested, maxCalls, is_on, mode";
        check(r#"{"nme":1}"#, Some("nme"), known);
        let missing = "nested[0] has no id, which is required";
        check(r#"{"nested":[{}]}"#, Some("nested[0]"), missing);
        check(r#"{"is_on":true,"is_on":true}"#, None, "is_on occurs more than once");
    }

    #[test]
    fn a_body_that_is_no_object_is_told_so() {
        for body in ["", " \n"] {
            check(body, None, "the body is empty; send a JSON object");
        }
        check("[]", None, "the body must be an object, not a list");
        check("null", None, "the body must be an object, not null");
        let invalid = "the body is not valid JSON:";
        check(r#"{"is_on":"#, None, &format!("{invalid} it ends too early at line 1 column 9"));
        check(r#"{"is_on":}"#, None, &format!("{invalid} expected value at line 1 column 10"));
        check("{}}", None, &format!("{invalid} trailing characters at line 1 column 3"));
    }

    /// Checks that each field has words for what it must be, unless it takes any JSON.
    fn check_fields(at: &str, schema: &Value) {
        let notes = ["description", "default"];
        let takes_anything = match schema {
            Value::Object(keywords) => keywords.keys().all(|it| notes.contains(&&**it)),
            schema => *schema == true,
        };
        assert!(takes_anything || described(schema).is_some(), "{at}: {schema}");
        let schema = not_null(schema);
        for (name, field) in schema["properties"].as_object().into_iter().flatten() {
            check_fields(&format!("{at}.{name}"), field);
        }
        if let Some(items) = schema.get("items") {
            check_fields(&format!("{at}[]"), items);
        }
    }

    #[test]
    fn every_field_of_every_request_has_words() {
        let requests: [fn(&mut SchemaGenerator) -> Schema; 7] = [
            native::request::turn_schema,
            native::request::cancel_schema,
            chat_completions::request_schema,
            responses::request_schema,
            messages::request_schema,
            ai_sdk::request_schema,
            ag_ui::request_schema,
        ];
        for request in requests {
            let settings = SchemaSettings::draft2020_12().with(|it| it.inline_subschemas = true);
            let schema = request(&mut settings.into_generator());
            assert!(schema.get("properties").is_some(), "{schema:?}");
            check_fields("", schema.as_value());
        }
    }
}
