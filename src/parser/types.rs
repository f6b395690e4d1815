//! What a text means as an argument: the tool's schema decides, in this order.
//!
//! 1. Only text is allowed, or nothing is known of the argument: it is text.
//! 2. `null` or `None`, and not only text is allowed: null.
//! 3. A number, `true` or `false`, an object or an array, if the schema allows that and it is one.
//! 4. Text.
//!
//! An empty text for anything but text means that the argument was left out. Text where none is allowed
//! stays text, so that the model learns what is wrong with it.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

use super::literal;
use super::repair::{self, Repair};
use crate::limits::parser::TYPES_STEPS_MAX;

/// The tools that a model was offered: their names, and the types of their arguments.
///
/// ```
/// use serde_json::json;
/// use tether::parser::Tools;
///
/// let schema = json!({"type": "object", "properties": {"n": {"type": "integer"}}});
/// let tools = Tools::of([("f", &schema)]);
/// assert!(tools.may_have("f") && !tools.may_have("g"));
/// assert!(Tools::default().may_have("g"), "nothing is known");
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tools(Arc<BTreeMap<String, Tool>>);

#[derive(Debug, PartialEq, Eq)]
struct Tool {
    parameters: Value,
    /// The argument that a text alone must mean.
    only_text: Option<String>,
    /// The kinds of its arguments, as `parameters` has them.
    arguments: BTreeMap<String, Kinds>,
}

/// The kinds of JSON that an argument may be; all `false`: anything.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[expect(clippy::struct_excessive_bools, reason = "each is a kind of its own")]
pub(super) struct Kinds {
    text: bool,
    null: bool,
    number: bool,
    boolean: bool,
    object: bool,
    array: bool,
}

pub(super) const TEXT: Kinds =
    Kinds { text: true, null: false, number: false, boolean: false, object: false, array: false };

/// Anything but text.
pub(super) const JSON: Kinds =
    Kinds { text: false, null: true, number: true, boolean: true, object: true, array: true };

impl Tools {
    /// Tools with these names and parameters, which are JSON Schemas.
    pub fn of<'t>(tools: impl IntoIterator<Item = (&'t str, &'t Value)>) -> Self {
        let tools = tools.into_iter().map(|(name, schema)| {
            let properties = schema["properties"].as_object().into_iter().flatten();
            let arguments: BTreeMap<_, _> = properties
                .map(|(key, property)| (key.clone(), kinds_of(property, schema)))
                .collect();
            let only_text = only_text(&arguments, schema);
            (name.to_owned(), Tool { parameters: schema.clone(), only_text, arguments })
        });
        Self(Arc::new(tools.collect()))
    }

    /// Whether nothing is known of the tools.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether a tool of this name was offered, or nothing is known of the tools.
    #[must_use]
    pub fn may_have(&self, name: &str) -> bool {
        self.0.is_empty() || self.0.contains_key(name)
    }

    /// Whether a tool of this name is known to take this argument.
    pub(super) fn takes(&self, tool: &str, key: &str) -> bool {
        self.0.get(tool).is_some_and(|it| it.arguments.contains_key(key))
    }

    /// The argument of a tool that a text alone must mean: its only one that is text, or the only one of those
    /// that is required.
    pub(super) fn only_text(&self, tool: &str) -> Option<&str> {
        self.0.get(tool)?.only_text.as_deref()
    }

    /// The kinds of an argument. `None` if its tool or its key is not known.
    pub(super) fn kinds(&self, tool: &str, key: &str) -> Option<Kinds> {
        self.0.get(tool)?.arguments.get(key).copied().filter(|kinds| *kinds != Kinds::default())
    }

    /// The parameters of a tool.
    pub(super) fn schema(&self, tool: &str) -> Option<Schema<'_>> {
        let parameters = &self.0.get(tool)?.parameters;
        Some(Schema { node: parameters, root: parameters })
    }
}

/// A JSON Schema within the parameters of a tool.
#[derive(Debug, Clone, Copy)]
pub(super) struct Schema<'s> {
    node: &'s Value,
    /// Where its references lead.
    root: &'s Value,
}

impl<'s> Schema<'s> {
    /// The kinds that it allows. `None` if it does not say.
    pub(super) fn kinds(self) -> Option<Kinds> {
        Some(kinds_of(self.node, self.root)).filter(|kinds| *kinds != Kinds::default())
    }

    /// That of a member of its objects.
    pub(super) fn member(self, key: &str) -> Option<Self> {
        let own = |node: &'s Value| node["properties"].get(key);
        let any = |node: &'s Value| node.get("additionalProperties");
        let find = |part: &dyn Fn(&'s Value) -> Option<&'s Value>| {
            self.find(self.node, part, &mut { TYPES_STEPS_MAX })
        };
        find(&own).or_else(|| find(&any))
    }

    /// That of an item of its arrays.
    pub(super) fn item(self, at: usize) -> Option<Self> {
        let part = |node: &'s Value| node["prefixItems"].get(at).or_else(|| node.get("items"));
        self.find(self.node, &part, &mut { TYPES_STEPS_MAX })
    }

    /// Looks for a part in this schema, then in those that it refers to or combines.
    fn find(
        self,
        node: &'s Value,
        part: &dyn Fn(&'s Value) -> Option<&'s Value>,
        steps: &mut usize,
    ) -> Option<Self> {
        *steps = steps.checked_sub(1)?;
        if let Some(node) = part(node) {
            return Some(Self { node, ..self });
        }
        others(node, self.root).find_map(|node| self.find(node, part, steps))
    }
}

fn only_text(arguments: &BTreeMap<String, Kinds>, schema: &Value) -> Option<String> {
    let texts = || arguments.iter().filter(|(_, kinds)| **kinds == TEXT).map(|(key, _)| key);
    let required = schema["required"].as_array();
    let is_required =
        |key: &&String| required.is_some_and(|all| all.contains(&Value::from(&***key)));
    only(texts()).or_else(|| only(texts().filter(is_required))).cloned()
}

/// The one item that there is.
fn only<T>(mut items: impl Iterator<Item = T>) -> Option<T> {
    items.next().filter(|_| items.next().is_none())
}

/// The schemas that one refers to or is combined of.
fn others<'s>(schema: &'s Value, root: &'s Value) -> impl Iterator<Item = &'s Value> {
    let target = schema["$ref"].as_str().and_then(|it| it.strip_prefix('#'));
    let combined = ["anyOf", "oneOf", "allOf"].into_iter();
    let combined = combined.flat_map(|key| schema[key].as_array().into_iter().flatten());
    target.and_then(|target| root.pointer(target)).into_iter().chain(combined)
}

fn kinds_of(schema: &Value, root: &Value) -> Kinds {
    let (mut kinds, mut steps) = (Kinds::default(), TYPES_STEPS_MAX);
    collect(schema, root, &mut kinds, &mut steps);
    kinds
}

/// Adds the kinds that a schema allows. `root` is where its references lead, `steps` how many more of
/// them are taken.
fn collect(schema: &Value, root: &Value, kinds: &mut Kinds, steps: &mut usize) {
    let Some(left) = steps.checked_sub(1) else { return };
    *steps = left;
    others(schema, root).for_each(|schema| collect(schema, root, kinds, steps));
    let named = match &schema["type"] {
        Value::Array(kinds) => kinds.as_slice(),
        kind => std::slice::from_ref(kind),
    };
    for name in named.iter().filter_map(Value::as_str) {
        kinds.add_named(name);
    }
    let values = schema["enum"].as_array().into_iter().flatten().chain(schema.get("const"));
    if schema["type"].is_null() {
        values.for_each(|value| kinds.add(value));
    }
    kinds.null |= schema["nullable"] == true;
}

impl Kinds {
    /// Whether it is an array and not an object, if it is not text.
    pub(super) const fn is_array(self) -> bool {
        self.array && !self.object
    }

    /// Whether it is an object and not an array, if it is not text.
    pub(super) const fn is_object(self) -> bool {
        self.object && !self.array
    }

    /// Whether it may be text.
    pub(super) const fn is_text(self) -> bool {
        self.text
    }

    /// Adds a type, also under the names that other languages have for it.
    fn add_named(&mut self, name: &str) {
        match name {
            "string" | "str" => self.text = true,
            "null" => self.null = true,
            "integer" | "number" | "int" | "float" | "double" => self.number = true,
            "boolean" | "bool" => self.boolean = true,
            "object" | "dict" | "map" => self.object = true,
            "array" | "list" => self.array = true,
            _ => {}
        }
    }

    fn add(&mut self, value: &Value) {
        match value {
            Value::Null => self.null = true,
            Value::Bool(_) => self.boolean = true,
            Value::Number(_) => self.number = true,
            Value::String(_) => self.text = true,
            Value::Array(_) => self.array = true,
            Value::Object(_) => self.object = true,
        }
    }
}

/// The kinds that a tag itself names: `true` and `string` are text.
pub(super) fn of_hint(hint: &str) -> Kinds {
    if matches!(hint, "true" | "string" | "str") { TEXT } else { JSON }
}

/// A text as JSON. `None` if the argument was left out.
pub(super) fn read(text: &str, kinds: Option<Kinds>) -> Option<Cow<'_, str>> {
    let words = || Some(Cow::Owned(Value::from(text).to_string()));
    let bare = text.trim();
    let is_null = matches!(bare, "null" | "None");
    let Some(kinds) = kinds else {
        return if bare == "null" { Some("null".into()) } else { words() };
    };
    if kinds == TEXT {
        return words();
    }
    if bare.is_empty() {
        return if kinds.text { words() } else { None };
    }
    if is_null {
        return Some("null".into());
    }
    if kinds.boolean && bare.eq_ignore_ascii_case("true") {
        return Some("true".into());
    }
    if kinds.boolean && bare.eq_ignore_ascii_case("false") {
        return Some("false".into());
    }
    let allows = |json: &str| match json.as_bytes()[0] {
        // Tags that say "no text" have their texts in quotes.
        b'"' => kinds == JSON,
        b'{' => kinds.object,
        b'[' | b'(' => kinds.array,
        b'-' | b'0'..=b'9' => kinds.number,
        _ => false,
    };
    if allows(bare) {
        if is_json(bare) {
            return Some(bare.into());
        }
        if !kinds.text && bare.starts_with(['{', '[', '(']) {
            return python(bare).map(Cow::Owned).or_else(words);
        }
    }
    words()
}

/// An object or an array as Python writes it, or as JSON with slips that lose nothing. What has no end may have been cut
/// off.
fn python(text: &str) -> Option<String> {
    let mended = || {
        let mut repaired = Vec::new();
        let mended = repair::mend(text, &mut repaired);
        let guessed = [Repair::OpenBracket, Repair::OpenString, Repair::BracketOrder];
        (!guessed.iter().any(|guess| repaired.contains(guess))).then_some(mended)
    };
    literal::python(text).or_else(mended).filter(|read| is_json(read))
}

/// Whether a text is JSON whose numbers and strings can be decoded.
fn is_json(text: &str) -> bool {
    serde_json::from_str::<Value>(text).is_ok()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// What a text means for an argument with this schema.
    #[track_caller]
    fn check(schema: &Value, texts: &[(&str, Option<&str>)]) {
        let parameters = json!({"properties": {"a": schema}, "$defs": {"n": {"type": "number"}}});
        let types = Tools::of([("f", &parameters)]);
        for (text, expected) in texts {
            let read = read(text, types.kinds("f", "a"));
            assert_eq!(read.as_deref(), *expected, "{text:?} for {parameters}");
        }
    }

    #[test]
    fn text_is_text_whatever_it_looks_like() {
        let texts = [
            ("null", Some("\"null\"")),
            ("None", Some("\"None\"")),
            ("5", Some("\"5\"")),
            ("{\"a\":1}", Some("\"{\\\"a\\\":1}\"")),
            ("", Some("\"\"")),
            (" a\n", Some("\" a\\n\"")),
        ];
        check(&json!({"type": "string"}), &texts);
        check(&json!({"enum": ["5", "6"]}), &texts);
    }

    #[test]
    fn what_is_not_known_is_text_but_for_null() {
        let texts = [("5", Some("\"5\"")), ("None", Some("\"None\"")), ("null", Some("null"))];
        check(&json!({}), &texts);
        check(&json!({"description": "anything"}), &texts);
        assert_eq!(read("5", Tools::default().kinds("f", "a")).as_deref(), Some("\"5\""));
    }

    #[test]
    fn numbers_are_numbers_wherever_the_schema_says_so() {
        let texts = [
            ("5", Some("5")),
            (" -1.50\n", Some("-1.50")),
            ("3.0", Some("3.0")),
            ("null", Some("null")),
            ("five", Some("\"five\"")),
            ("05", Some("\"05\"")),
            ("5 apples", Some("\"5 apples\"")),
            ("1e400", Some("\"1e400\"")),
            ("", None),
            ("\n", None),
        ];
        for schema in [
            json!({"type": "integer"}),
            json!({"type": "float"}),
            json!({"type": ["integer", "null"]}),
            json!({"anyOf": [{"type": "number"}, {"type": "null"}]}),
            json!({"$ref": "#/$defs/n"}),
            json!({"allOf": [{"$ref": "#/$defs/n"}]}),
            json!({"enum": [1, 2]}),
            json!({"const": 1}),
        ] {
            check(&schema, &texts);
        }
    }

    #[test]
    fn of_several_types_text_comes_last() {
        let texts = [
            ("5", Some("5")),
            ("true", Some("\"true\"")),
            ("five", Some("\"five\"")),
            ("null", Some("null")),
            ("", Some("\"\"")),
        ];
        check(&json!({"type": ["string", "integer"]}), &texts);
        check(&json!({"oneOf": [{"type": "string"}, {"type": "int"}]}), &texts);
        let texts = [("a", Some("\"a\"")), ("null", Some("null")), ("5", Some("\"5\""))];
        check(&json!({"type": "string", "nullable": true}), &texts);
        let texts = [("{\"a\":1}", Some("{\"a\":1}")), ("{'a':1}", Some("\"{'a':1}\""))];
        check(&json!({"type": ["string", "object"]}), &texts);
    }

    #[test]
    fn booleans_objects_and_arrays_may_be_pythons() {
        let texts = [("True", Some("true")), ("FALSE", Some("false")), ("yes", Some("\"yes\""))];
        check(&json!({"type": "bool"}), &texts);
        let texts = [
            ("{\"a\" : [1]}", Some("{\"a\" : [1]}")),
            ("{'a': None}", Some("{\"a\":null}")),
            ("{'a': [(1,)]}", Some("{\"a\":[[1]]}")),
            ("[1]", Some("\"[1]\"")),
        ];
        check(&json!({"type": "object"}), &texts);
        let texts = [
            ("[1, 2,]", Some("[1,2]")),
            ("('a', 1)", Some("[\"a\",1]")),
            ("[1", Some("\"[1\"")),
            ("['a", Some("\"['a\"")),
            ("[1}", Some("\"[1}\"")),
            ("[1e400]", Some("\"[1e400]\"")),
        ];
        check(&json!({"type": "list"}), &texts);
    }

    #[test]
    fn what_a_tag_says_is_json_is_json() {
        let kinds = of_hint("false");
        for (text, expected) in [("\"a\"", "\"a\""), ("5", "5"), ("a", "\"a\""), ("null", "null")] {
            assert_eq!(read(text, Some(kinds)).as_deref(), Some(expected));
        }
    }

    #[test]
    fn a_text_alone_is_the_only_argument_that_can_be_text() {
        let text = json!({"type": "string"});
        let number = json!({"type": "integer"});
        for (properties, required, expected) in [
            (json!({"code": text}), json!([]), Some("code")),
            (json!({"code": text, "timeout": number}), json!(["timeout"]), Some("code")),
            (json!({"code": text, "name": text}), json!(["code"]), Some("code")),
            (json!({"code": text, "name": text}), json!(["code", "name"]), None),
            (json!({"code": text, "name": text}), json!(null), None),
            (json!({"code": {"type": ["string", "null"]}}), json!(["code"]), None),
            (json!({}), json!([]), None),
        ] {
            let schema = json!({"properties": properties, "required": required});
            assert_eq!(Tools::of([("f", &schema)]).only_text("f"), expected, "{schema}");
        }
        assert_eq!(Tools::default().only_text("f"), None);
    }

    #[test]
    fn schemas_that_refer_to_themselves_end() {
        let many: Vec<Value> = (0..80).map(|_| json!({"$ref": "#/properties/a"})).collect();
        let schema = json!({"properties": {"a": {"anyOf": many}}});
        assert_eq!(Tools::of([("f", &schema)]).kinds("f", "a"), None);
        let schema = json!({"properties": {"a": {"$ref": "#/properties/a"}}});
        assert_eq!(Tools::of([("f", &schema)]).kinds("f", "a"), None);
    }
}
