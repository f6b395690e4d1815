//! The parser reads what a format writes, wherever it is cut.

use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::*;
use crate::call_format::{CallsBefore, Fence, ROWS, Row};

fn any_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        prop_oneof!["\\PC{0,12}", "[<>/{}\"\\\\a-z_ \n]{0,20}", Just("</tool_call>".to_owned())]
            .prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 12, 4, |inner| {
        let object = prop::collection::btree_map("[a-z<>]{1,6}", inner.clone(), 0..4);
        prop_oneof![
            prop::collection::vec(inner, 0..4).prop_map(Value::from),
            object.prop_map(|object| Value::Object(object.into_iter().collect())),
        ]
    })
}

fn any_arguments() -> impl Strategy<Value = Value> {
    prop::collection::btree_map("[a-z]{1,6}", any_value(), 0..4)
        .prop_map(|object| Value::Object(object.into_iter().collect::<Map<_, _>>()))
}

/// The schema of a tool that takes such arguments.
fn schema_of(arguments: &Value) -> Value {
    let kind = match arguments {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    };
    let members = arguments.as_object().into_iter().flatten();
    let properties = members.map(|(key, value)| (key.clone(), schema_of(value)));
    let items = arguments.as_array().and_then(|items| items.first()).map(schema_of);
    json!({ "type": kind, "properties": properties.collect::<Map<_, _>>(), "items": items })
}

/// Arguments whose schema says what every part of them is: keys that can be tags, and arrays whose items
/// are alike.
fn typed_arguments() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        prop_oneof!["\\PC{0,12}", "[<>/{}\"\\\\a-z_ \n]{0,20}"].prop_map(Value::from),
    ];
    let object = |value: BoxedStrategy<Value>| {
        prop::collection::btree_map("[a-z]{1,6}", value, 0..4)
            .prop_map(|object| Value::Object(object.into_iter().collect()))
    };
    let value = leaf.prop_recursive(3, 12, 4, move |inner| {
        prop_oneof![
            (inner.clone(), 0..3_usize).prop_map(|(it, n)| vec![it; n].into()),
            object(inner)
        ]
    });
    object(value.boxed())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() })]

    /// Tags that do not say what a value is need a schema that does.
    #[test]
    fn nested_arguments_that_are_written_are_read(
        arguments in typed_arguments(),
        lengths in prop::collection::vec(1_usize..12, 0..6),
    ) {
        let format = CallFormat::of(Row::named("minimax_m3").unwrap());
        let tools = Tools::of([("f", &schema_of(&arguments))]);
        let mut written = String::new();
        format.push_call(&mut written, "f", &arguments.to_string());
        let settings = Settings { format, tools, argument_deltas: true, ..settings() };
        let record = record(&settings, written.as_bytes(), &lengths, How::Bytes);
        check_calls(&settings, &record);
        let Some(Event::Completed { arguments: read, .. }) = record.events.last() else {
            panic!("{written}: {record:?}")
        };
        prop_assert_eq!(read, &arguments.to_string(), "{}", written);
    }

    #[test]
    fn calls_that_are_written_are_read(
        row in prop::sample::select(ROWS).prop_filter("typed by the schema", |row| row.name != "minimax_m3"),
        calls in prop::collection::vec(("[a-zA-Z_.-]{1,12}", any_arguments()), 1..4),
        text in "[a-z .\n]{0,12}",
        lengths in prop::collection::vec(1_usize..12, 0..6),
    ) {
        let format = CallFormat::of(row);
        // Without an opener, a call is only found where nothing comes before it.
        let mut text = if row.is_bare() { String::new() } else { text };
        if row.fence == Fence::Needed && !text.is_empty() {
            text.push('\n');
        }
        let named = |index: usize, name: &str| format!("{name}{index}");
        let schemas: Vec<(String, Value)> = calls
            .iter()
            .enumerate()
            .map(|(index, (name, arguments))| (named(index, name), schema_of(arguments)))
            .collect();
        let tools = Tools::of(schemas.iter().map(|(name, schema)| (&**name, schema)));
        let mut written = text.clone();
        let mut before = CallsBefore::default();
        let mut expected = Vec::new();
        if !text.is_empty() {
            expected.push(Event::Text(text.clone()));
        }
        for (index, (name, arguments)) in (0..).zip(calls) {
            let name = named(index as usize, &name);
            let arguments = arguments.to_string();
            let start = written.len();
            format.push_next_call(&mut written, &name, &arguments, &mut before);
            let offset = match index {
                0 if row.header.is_none() => start,
                // Its header, after the end of what comes before it.
                _ if row.header.is_some() => start + written[start..].find("<|start|>").unwrap_or(0),
                // Its own opener, wherever the frame of the first one was opened again.
                _ if row.frame.as_ref().is_some_and(|frame| frame.is_shared) => written.rfind(format.opener()).unwrap(),
                _ if row.is_array => text.len(),
                _ => start,
            };
            expected.push(Event::Started { index, offset: offset as u64 });
            expected.push(Event::Completed { index, name, arguments, repaired: Vec::new() });
        }
        let settings = Settings { format, tools, argument_deltas: true, ..settings() };
        let record = record(&settings, written.as_bytes(), &lengths, How::Bytes);
        check_calls(&settings, &record);
        prop_assert_eq!(record.events, expected, "{}", written);
    }
}
