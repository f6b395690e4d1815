//! Arguments that are elements, with elements inside them.
//!
//! ```text
//!   <city> Oslo </city> <days> <item> 1 </item> <item> 2 </item> </days>     {"city":"Oslo","days":[1,2]}
//! ```
//!
//! Whether an element is an object or an array, and what a text means, its tag says or the tool's schema.
//! Without either, elements that are all items are an array, and a text is a text.

use std::fmt::Write as _;

use serde_json::Value;

use super::call::{self, Content, Fault};
use super::examined;
use super::segment::ErrorCode;
use super::types::{self, Schema, Tools};
use crate::call_format::{Elements, ITEM, TEXT, ValueType};
use crate::limits::parser::{DEPTH_MAX, LABEL_BYTES_MAX};

/// Reads the arguments of a call with this name.
pub(super) fn read<'p>(
    name: &str,
    payload: &str,
    elements: &'static Elements,
    tools: &Tools,
) -> Result<Content<'p>, Fault> {
    examined::note(payload.len());
    let mut reader = Reader { rest: payload, elements };
    let mut json = String::new();
    reader.members(tools.schema(name), ValueType::Object, &mut json, 0)?;
    if !reader.rest.is_empty() {
        return Err(Fault::new(ErrorCode::InvalidCall, "a tag closes nothing"));
    }
    Ok(Content::Call(name.to_owned(), call::converted(&json)?))
}

struct Reader<'p> {
    rest: &'p str,
    elements: &'static Elements,
}

/// The tag that opens an element.
struct Tag<'p> {
    key: Option<&'p str>,
    kind: Option<ValueType>,
}

impl<'p> Reader<'p> {
    /// Reads elements up to the enclosing closing tag, as an object or an array. Text between them becomes a
    /// member.
    fn members(
        &mut self,
        schema: Option<Schema<'_>>,
        kind: ValueType,
        json: &mut String,
        depth: usize,
    ) -> Result<(), Fault> {
        if depth >= DEPTH_MAX {
            return Err(Fault::new(ErrorCode::PayloadTooDeep, "the values are nested too deeply"));
        }
        let is_array = kind == ValueType::Array;
        json.push(if is_array { '[' } else { '{' });
        let start = json.len();
        let mut text = String::new();
        for number in 0.. {
            text.push_str(self.text());
            if !self.is_open() {
                break;
            }
            let before = json.len();
            json.push_str(if before > start { "," } else { "" });
            let tag = self.tag()?;
            let inner = match tag.key {
                _ if is_array => schema.and_then(|schema| schema.item(number)),
                Some(key) => schema.and_then(|schema| schema.member(key)),
                None => return Err(fault("an element has no name")),
            };
            if let Some(key) = tag.key.filter(|_| !is_array) {
                json.push_str(&Value::from(key).to_string());
                json.push(':');
            }
            if !self.value(&tag, inner, json, depth + 1)? {
                json.truncate(before);
            }
        }
        if !text.trim().is_empty() {
            if is_array || depth == 0 {
                return Err(fault("there is text between the arguments"));
            }
            let comma = if json.len() > start { "," } else { "" };
            let _ = write!(json, "{comma}\"{TEXT}\":{}", Value::from(text.trim()));
        }
        json.push(if is_array { ']' } else { '}' });
        Ok(())
    }

    /// Adds the value of an element whose opening tag was read, and reads its closing tag. Returns whether
    /// there is a value.
    fn value(
        &mut self,
        tag: &Tag<'p>,
        schema: Option<Schema<'_>>,
        json: &mut String,
        depth: usize,
    ) -> Result<bool, Fault> {
        let content = self.rest;
        let text = self.text();
        let is_there = if self.is_open() {
            self.rest = content;
            let kind = tag.kind.or_else(|| container(schema)).unwrap_or_else(|| self.guess());
            let kind = if kind == ValueType::Array { kind } else { ValueType::Object };
            self.members(schema, kind, json, depth)?;
            true
        } else {
            leaf(text, tag.kind, schema, json)
        };
        self.close(tag)?;
        Ok(is_there)
    }

    /// The text up to the next tag.
    fn text(&mut self) -> &'p str {
        let Elements { open, close, .. } = self.elements;
        let first = open.as_bytes()[0];
        let bytes = self.rest.as_bytes();
        let is_tag = |at: &usize| {
            bytes[*at..].starts_with(open.as_bytes()) || bytes[*at..].starts_with(close.as_bytes())
        };
        let end = memchr::memchr_iter(first, bytes).find(is_tag).unwrap_or(bytes.len());
        let (text, rest) = self.rest.split_at(end);
        self.rest = rest;
        text
    }

    /// Whether an opening tag comes next.
    fn is_open(&self) -> bool {
        let Elements { open, close, .. } = self.elements;
        self.rest.starts_with(open) && !self.rest.starts_with(close)
    }

    /// Reads an opening tag.
    fn tag(&mut self) -> Result<Tag<'p>, Fault> {
        let Elements { open, end, attributes, .. } = self.elements;
        self.rest = &self.rest[open.len()..];
        let tag = match attributes {
            None => {
                let length = self.rest.find(end).filter(|length| *length <= LABEL_BYTES_MAX);
                let key = length.map(|length| &self.rest[..length]);
                let key = key.filter(|key| !key.is_empty() && !key.contains(['<', '\n']));
                let key = key.ok_or_else(|| fault("the tag of an argument has no end"))?;
                self.rest = &self.rest[key.len()..];
                Tag { key: Some(key), kind: None }
            }
            Some([name, kind]) => {
                let key = self.attribute(name)?;
                let kind = self.attribute(kind)?.and_then(ValueType::named);
                Tag { key, kind }
            }
        };
        self.expect(end)?;
        Ok(tag)
    }

    /// The value in quotes after this, if it comes next.
    fn attribute(&mut self, before: &str) -> Result<Option<&'p str>, Fault> {
        let Some(rest) = self.rest.strip_prefix(before) else { return Ok(None) };
        let quoted = rest.strip_prefix('"').and_then(|rest| rest.split_once('"'));
        let (value, rest) = quoted.ok_or_else(|| fault("the tag of an argument has no end"))?;
        self.rest = rest;
        Ok(Some(value))
    }

    /// Reads the tag that closes an element.
    fn close(&mut self, tag: &Tag<'_>) -> Result<(), Fault> {
        let key = tag.key.filter(|_| self.elements.attributes.is_none()).unwrap_or_default();
        self.expect(self.elements.close)?;
        self.expect(key)?;
        self.expect(self.elements.end)
    }

    fn expect(&mut self, text: &str) -> Result<(), Fault> {
        let rest = self.rest.strip_prefix(text);
        self.rest = rest.ok_or_else(|| fault("an argument is not closed"))?;
        Ok(())
    }

    /// What the elements that come next make, judged by the first one.
    fn guess(&self) -> ValueType {
        let mut ahead = Reader { rest: self.rest, elements: self.elements };
        ahead.text();
        match ahead.tag() {
            Ok(Tag { key: Some(ITEM) | None, .. }) => ValueType::Array,
            _ => ValueType::Object,
        }
    }
}

fn fault(message: &str) -> Fault {
    Fault::new(ErrorCode::InvalidCall, message)
}

/// What a schema says that elements make, if it allows only one of both.
fn container(schema: Option<Schema<'_>>) -> Option<ValueType> {
    let kinds = schema?.kinds()?;
    if kinds.is_array() {
        return Some(ValueType::Array);
    }
    kinds.is_object().then_some(ValueType::Object)
}

/// Adds the value of an element without elements in it. Returns whether there is one: an empty text for
/// anything but text means that it was left out.
fn leaf(
    text: &str,
    kind: Option<ValueType>,
    schema: Option<Schema<'_>>,
    json: &mut String,
) -> bool {
    let kinds = match kind {
        Some(ValueType::Text) => Some(types::TEXT),
        Some(_) => Some(types::JSON),
        None => schema.and_then(Schema::kinds),
    };
    let is_empty = text.trim().is_empty() && !kinds.is_some_and(types::Kinds::is_text);
    let nothing = kind.or_else(|| container(schema)).filter(|_| is_empty);
    match nothing {
        Some(ValueType::Object) => json.push_str("{}"),
        Some(ValueType::Array) => json.push_str("[]"),
        _ => match types::read(text, kinds) {
            Some(value) => json.push_str(&value),
            None => return false,
        },
    }
    true
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::call_format::{Body, Row};

    /// The arguments in a payload of this format, or why there are none. Tags are written short: `<` for
    /// MiniMax's prefix, `<v` for Cohere's element.
    fn read_as(format: &str, payload: &str) -> Result<String, String> {
        let row = Row::named(format).unwrap();
        let Body::Nested(elements) = &row.body else { panic!("elements") };
        let schema = json!({
            "properties": {
                "s": {"type": "string"},
                "n": {"type": ["integer", "null"]},
                "o": {"$ref": "#/$defs/o"},
                "l": {"anyOf": [{"type": "array", "items": {"type": "number"}}, {"type": "null"}]},
                "e": {"type": "array"},
                "t": {"type": ["string", "array"]},
                "m": {"type": "object", "additionalProperties": {"type": "integer"}},
                "p": {"type": "array", "prefixItems": [{"type": "string"}, {"type": "integer"}]},
            },
            "$defs": {"o": {"type": "object", "properties": {
                "b": {"type": "boolean"}, "o": {"$ref": "#/$defs/o"},
            }}},
        });
        let tools = Tools::of([("f", &schema)]);
        let payload = match format {
            "minimax_m3" => payload.replace('<', "]<]minimax[>[<"),
            _ => payload.replace("<v", "<cofl:value").replace("</v", "</cofl:value"),
        };
        match read("f", &payload, elements, &tools) {
            Ok(Content::Call(_, arguments)) => Ok(arguments.as_str().to_owned()),
            Ok(other) => panic!("{other:?}"),
            Err(fault) => Err(fault.message),
        }
    }

    #[test]
    fn the_schema_says_what_an_element_is_at_every_depth() {
        for (payload, expected) in [
            ("", "{}"),
            ("<s>5</s><n>5</n>", r#"{"s":"5","n":5}"#),
            ("<s></s><n></n><n>null</n>", r#"{"s":"","n":null}"#),
            ("<o><o><b>True</b></o></o>", r#"{"o":{"o":{"b":true}}}"#),
            ("<l><item>1</item><item>2.5</item></l>", r#"{"l":[1,2.5]}"#),
            ("<o></o><e></e><t></t>", r#"{"o":{},"e":[],"t":""}"#),
            ("<m><a>1</a></m>", r#"{"m":{"a":1}}"#),
            ("<p><item>1</item><item>2</item></p>", r#"{"p":["1",2]}"#),
            // The name is no schema's, so the elements decide.
            ("<x><item>1</item></x>", r#"{"x":["1"]}"#),
            ("<x><a>1</a> note </x>", r#"{"x":{"a":"1","$text":"note"}}"#),
            ("<s> a & b &amp; c\n</s>", r#"{"s":" a & b &amp; c\n"}"#),
        ] {
            assert_eq!(read_as("minimax_m3", payload).as_deref(), Ok(expected), "{payload}");
        }
    }

    #[test]
    fn tags_may_say_what_a_value_is() {
        for (payload, expected) in [
            (r#"<v name="a" type="raw">5</v><v name="b" type="json">5</v>"#, r#"{"a":"5","b":5}"#),
            (
                r#"<v name="a" type="dict"><v name="b" type="json">null</v></v>"#,
                r#"{"a":{"b":null}}"#,
            ),
            (
                r#"<v name="a" type="list"><v type="raw">x</v><v type="dict"></v></v>"#,
                r#"{"a":["x",{}]}"#,
            ),
            (r#"<v name="a" type="list"></v>"#, r#"{"a":[]}"#),
            (r#"<v name="n">5</v><v name="a>b" type="raw"></v>"#, r#"{"n":5,"a>b":""}"#),
        ] {
            assert_eq!(read_as("cohere_xml", payload).as_deref(), Ok(expected), "{payload}");
        }
    }

    #[test]
    fn what_is_not_nested_is_refused() {
        for (format, payload) in [
            ("minimax_m3", "<s>a"),
            ("minimax_m3", "<s>a</n>"),
            ("minimax_m3", "<s>a</s></s>"),
            ("minimax_m3", "words"),
            ("minimax_m3", "<s>a</s> words"),
            ("minimax_m3", "<s>a</s><s>b</s>"),
            ("minimax_m3", "<>a</>"),
            ("minimax_m3", "<l><item>1</item> words</l>"),
            ("cohere_xml", r#"<v type="raw">a</v>"#),
            ("cohere_xml", r#"<v name="a type="raw">a</v>"#),
            ("cohere_xml", r#"<v name="a" type="raw"a</v>"#),
        ] {
            assert!(read_as(format, payload).is_err(), "{payload}");
        }
    }

    #[test]
    fn depth_is_bounded() {
        let nested = |depth: usize| format!("{}{}", "<o>".repeat(depth), "</o>".repeat(depth));
        // The arguments are a level of their own.
        assert!(read_as("minimax_m3", &nested(DEPTH_MAX - 2)).is_ok());
        assert!(read_as("minimax_m3", &nested(DEPTH_MAX - 1)).is_err());
        assert!(read_as("minimax_m3", &nested(DEPTH_MAX + 1)).is_err());
    }
}
