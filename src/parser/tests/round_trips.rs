//! The parser reads what a format writes, wherever it is cut.

use proptest::prelude::*;
use serde_json::{Map, Value};

use super::*;
use crate::call_format::ROWS;

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

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn calls_that_are_written_are_read(
        row in prop::sample::select(ROWS),
        calls in prop::collection::vec(("[a-zA-Z_.-]{1,12}", any_arguments()), 1..4),
        text in "[a-z .\n]{0,12}",
        lengths in prop::collection::vec(1_usize..12, 0..6),
    ) {
        let format = CallFormat::of(row);
        let mut written = text.clone();
        let mut expected = Vec::new();
        if !text.is_empty() {
            expected.push(Event::Text(text));
        }
        for (index, (name, arguments)) in (0..).zip(calls) {
            let arguments = arguments.to_string();
            expected.push(Event::Started { index, offset: written.len() as u64 });
            format.push_call(&mut written, &name, &arguments);
            expected.push(Event::Completed { index, name, arguments, repaired: Vec::new() });
        }
        let settings = Settings { format, ..settings() };
        let record = record(&settings, written.as_bytes(), &lengths, How::Bytes);
        prop_assert_eq!(record.events, expected, "{}", written);
    }
}
