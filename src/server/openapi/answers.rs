//! The schemas of answers. An answer may have more members than they say.

use schemars::generate::{Contract, SchemaSettings};
use serde_json::{Map, Value, json};

use super::shapes;
use crate::server::dialect::native::transcript;
use crate::server::dialect::{ag_ui, ai_sdk, chat_completions, messages, responses, schema};

/// All of them, by name.
pub(super) fn schemas(settings: SchemaSettings) -> Map<String, Value> {
    let settings = settings.with(|settings| settings.contract = Contract::Serialize);
    let mut generator = settings.into_generator();
    shapes::add(&mut generator);
    schema::add(&mut generator);
    transcript::add_schema(&mut generator);
    chat_completions::schema::add(&mut generator);
    responses::schema::add(&mut generator);
    messages::schema::add(&mut generator);
    ai_sdk::add_schema(&mut generator);
    ag_ui::add_schema(&mut generator);
    let mut schemas = generator.take_definitions(true);
    schemas.values_mut().for_each(open);
    for (name, prefix) in UNIONS {
        name_variants(&mut schemas, name, prefix);
    }
    allow_cuts(&mut schemas);
    for stream in STREAMS {
        schemas.insert(stream.name.to_owned(), frame(stream, &schemas[stream.data]));
    }
    schemas.insert("EventLine".to_owned(), event_line());
    schemas
}

/// Allows members that are not described: clients skip what they do not know.
fn open(schema: &mut Value) {
    match schema {
        Value::Object(members) => {
            if members.get("additionalProperties") == Some(&Value::Bool(false)) {
                members.remove("additionalProperties");
            }
            members.values_mut().for_each(open);
        }
        Value::Array(items) => items.iter_mut().for_each(open),
        _ => {}
    }
}

/// The unions whose variants differ in their `type`, and what the types have in common.
const UNIONS: &[(&str, &str)] = &[
    ("Event", ""),
    ("ResponseEvent", "response."),
    ("OutputItem", ""),
    ("MessagesEvent", ""),
    ("ContentBlock", ""),
    ("UiMessagePart", ""),
    ("AgUiEvent", ""),
];

/// Makes each variant a schema of its own, named for the union and its `type`: a discriminator takes
/// references only, and generators name their types after them.
fn name_variants(schemas: &mut Map<String, Value>, union: &str, prefix: &str) {
    let Some(variants) = schemas.get_mut(union).and_then(|it| it["oneOf"].as_array_mut()) else {
        return;
    };
    let (mut named, mut mapping) = (Map::new(), Map::new());
    for variant in variants {
        let kind = variant["properties"]["type"]["const"].as_str().unwrap_or_default().to_owned();
        let name = format!("{union}{}", in_camel_case(kind.trim_start_matches(prefix)));
        let reference = format!("#/components/schemas/{name}");
        let schema = std::mem::replace(variant, json!({ "$ref": reference }));
        named.insert(name, schema);
        mapping.insert(kind, reference.into());
    }
    schemas[union]["discriminator"] = json!({ "propertyName": "type", "mapping": mapping });
    schemas.extend(named);
}

fn in_camel_case(kind: &str) -> String {
    let words = kind.split(|char: char| !char.is_ascii_alphanumeric());
    words
        .filter_map(|word| Some((word.get(..1)?, word.get(1..)?)))
        .fold(String::new(), |name, (first, rest)| {
            name + &first.to_ascii_uppercase() + &rest.to_ascii_lowercase()
        })
}

/// Members of native events that are null if the event would be too long for a frame.
const CAN_BE_CUT: &[&str] = &["tool_args", "tool_result", "options", "schema", "arguments"];

/// Allows what is cut from native events.
fn allow_cuts(schemas: &mut Map<String, Value>) {
    let events = schemas.iter_mut().filter(|(name, _)| is_native_event(name));
    for (_, event) in events {
        let data = &mut event["properties"]["data"];
        for name in CAN_BE_CUT {
            if let Some(member) = data["properties"].get_mut(*name) {
                *member = json!({ "anyOf": [member.take(), { "type": "null" }] });
            }
        }
        data["patternProperties"] = json!({ "_truncated$": {
            "type": "integer",
            "description": "The length in bytes of a member that was cut, as JSON.",
        } });
    }
}

fn is_native_event(name: &str) -> bool {
    crate::event::Kind::ALL
        .iter()
        .any(|kind| name.strip_prefix("Event") == Some(&in_camel_case(kind.name())))
}

/// A stream of events.
struct Stream {
    /// The schema of a frame.
    name: &'static str,
    /// The schema of its data.
    data: &'static str,
    /// Whether frames have the type of their data as their name, too.
    is_named: bool,
    /// Whether the last frame is `[DONE]`.
    ends_with_done: bool,
}

const STREAMS: &[Stream] = &[
    Stream { name: "EventFrame", data: "Event", is_named: true, ends_with_done: false },
    Stream {
        name: "ChatCompletionFrame",
        data: "ChatCompletionChunk",
        is_named: false,
        ends_with_done: true,
    },
    Stream { name: "ResponseFrame", data: "ResponseEvent", is_named: true, ends_with_done: true },
    Stream { name: "MessagesFrame", data: "MessagesEvent", is_named: true, ends_with_done: false },
    Stream { name: "UiMessageFrame", data: "UiMessagePart", is_named: false, ends_with_done: true },
    Stream { name: "AgUiFrame", data: "AgUiEvent", is_named: false, ends_with_done: false },
];

/// A frame of an event stream.
///
/// `OpenAPI` 3.1 does not say what the schema of a stream is. Readers that know event streams take it
/// for that of one frame, with the fields of the format as members, which is what `itemSchema` has
/// become in 3.2; `contentSchema` leads from the text of `data` to what it means, in the terms of
/// JSON Schema. Those that take the schema for that of the data find it under its own name.
fn frame(stream: &Stream, data: &Value) -> Value {
    let reference = format!("#/components/schemas/{}", stream.data);
    let content = json!({
        "type": "string",
        "contentMediaType": "application/json",
        "contentSchema": { "$ref": reference },
    });
    let content = if stream.ends_with_done {
        let done = json!({ "const": "[DONE]", "description": "The stream has ended." });
        json!({ "anyOf": [done, content] })
    } else {
        content
    };
    let mut frame = json!({
        "type": "object",
        "description": FRAMING,
        "properties": { "data": content },
        "required": ["data"],
    });
    if stream.is_named {
        let names = data["discriminator"]["mapping"].as_object();
        let names = names.into_iter().flat_map(|mapping| mapping.keys().map(String::as_str));
        // The last frame has no name, and readers then take this one.
        let names = names.chain(stream.ends_with_done.then_some("message"));
        let names: Vec<&str> = names.collect();
        frame["properties"]["event"] =
            json!({ "enum": names, "description": "The type of the data." });
    }
    if stream.data == "Event" {
        frame["properties"]["id"] = json!({
            "type": "string",
            "pattern": "^[0-9]+-[0-9]+$",
            "description": "To resume after this event, send it as Last-Event-ID.",
        });
        frame["properties"]["retry"] = json!({ "type": "integer" });
    }
    frame
}

const FRAMING: &str = "A frame of the stream: a line `FIELD: VALUE` for each member, and then a \
                       blank line. `data` is one line of JSON. Lines that begin with a colon are \
                       signs of life.";

/// An event as a line of JSON.
fn event_line() -> Value {
    let id = json!({ "type": "string", "pattern": "^[0-9]+-[0-9]+$" });
    json!({
        "description": "One line: an event with its id. Nothing is cut.",
        "type": "object",
        "properties": { "id": id },
        "required": ["id"],
        "allOf": [{ "$ref": "#/components/schemas/Event" }],
    })
}
