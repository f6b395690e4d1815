//! Random tools and calls of them, right and wrong, as every format writes them: what constraints
//! have to allow and to refuse.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Map, Value, json};

use crate::call_format::{CallFormat, CallsBefore, ROWS};
use crate::upstream::OfferedTool;

/// Tools, and the calls of a message.
#[derive(Debug, Clone)]
pub(super) struct Case {
    pub(super) format: CallFormat,
    pub(super) tools: Vec<OfferedTool>,
    /// Calls that are valid.
    pub(super) calls: Vec<(String, Map<String, Value>)>,
}

/// An argument that a tool takes: its schema, a value of it, and a value that the schema refuses, if
/// there is any that can be written.
#[derive(Debug, Clone)]
struct Argument {
    schema: Value,
    value: Value,
    wrong: Option<Value>,
    is_required: bool,
    /// Whether the calls have it although they need not.
    is_given: bool,
}

/// A message as a model may write it, and whether a constraint has to allow it.
#[derive(Debug)]
pub(super) struct Message {
    pub(super) text: String,
    pub(super) is_valid: bool,
    pub(super) why: &'static str,
}

const KEYS: [&str; 5] = ["city", "n", "is_new", "list", "where"];

/// Tools and calls for any format.
pub(super) fn any_case() -> impl Strategy<Value = (Case, Vec<Message>)> {
    (select(ROWS), vec(arguments(), 1..=3), vec(any::<prop::sample::Index>(), 1..=3)).prop_map(
        |(row, tools, called)| {
            let format = CallFormat::of(row);
            let name = |at: usize| format!("tool_{at}");
            let called: Vec<usize> = called.iter().map(|index| index.index(tools.len())).collect();
            let calls = called.iter().map(|at| {
                let given = tools[*at].iter().filter(|(_, it)| it.is_required || it.is_given);
                let arguments = given.map(|(key, it)| ((*key).to_owned(), it.value.clone()));
                (name(*at), arguments.collect::<Map<_, _>>())
            });
            let calls: Vec<_> = calls.collect();
            let offered = tools.iter().enumerate().map(|(at, arguments)| OfferedTool {
                name: name(at),
                description: String::new(),
                parameters: parameters(arguments),
            });
            let case = Case { format, tools: offered.collect(), calls };
            let messages = messages(&case, &tools[called[0]]);
            (case, messages)
        },
    )
}

fn arguments() -> impl Strategy<Value = Vec<(&'static str, Argument)>> {
    (prop::sample::subsequence(KEYS.to_vec(), 0..=4), vec(argument(), KEYS.len()))
        .prop_map(|(keys, arguments)| keys.into_iter().zip(arguments).collect())
}

fn parameters(arguments: &[(&str, Argument)]) -> Value {
    let properties = arguments.iter().map(|(key, it)| ((*key).to_owned(), it.schema.clone()));
    let required = arguments.iter().filter(|(_, it)| it.is_required).map(|(key, _)| *key);
    json!({
        "type": "object",
        "properties": properties.collect::<Map<_, _>>(),
        "required": required.collect::<Vec<_>>(),
        "$defs": {"place": place()},
    })
}

/// Something that other schemas hold and refer to.
fn place() -> Value {
    let tags = json!({"type": "array", "items": {"enum": ["old", "new"]}});
    json!({
        "type": "object",
        "properties": {"street": {"type": "string"}, "no": {"type": "integer"}, "tags": tags},
        "required": ["street"],
    })
}

fn any_place() -> impl Strategy<Value = Value> {
    let rest = select(vec![json!({}), json!({"no": 7}), json!({"no": 0, "tags": ["old", "new"]})]);
    (text(), rest).prop_map(|(street, rest)| {
        let mut place = Map::from_iter([("street".to_owned(), json!(street))]);
        place.extend(rest.as_object().cloned().unwrap_or_default());
        place.into()
    })
}

/// A text in which no mark of a format occurs.
fn text() -> impl Strategy<Value = String> {
    let known = [
        "",
        "Oslo",
        "a \"b\" 'c' \\d",
        "two\nlines",
        "Ünï 🦀",
        "5",
        "true",
        "1 < 2 > 0",
        "{x}, [y]",
    ];
    prop_oneof![select(known.to_vec()).prop_map(str::to_owned), "[a-z]{1,12}"]
}

fn argument() -> impl Strategy<Value = Argument> {
    let typed =
        |kind: &str, value: Value, wrong: Option<Value>| (json!({ "type": kind }), value, wrong);
    let words = || Some(json!("abc"));
    let kinds = prop_oneof![
        text().prop_map(move |text| typed("string", json!(text), None)),
        any::<i32>().prop_map(move |n| typed("integer", json!(n), words())),
        (-1000..1000_i32).prop_map(move |n| typed("number", json!(f64::from(n) / 4.0), words())),
        any::<bool>().prop_map(move |it| typed("boolean", json!(it), words())),
        select(vec!["red", "light green"]).prop_map(|colour| {
            (json!({"enum": ["red", "light green"]}), json!(colour), Some(json!("purple")))
        }),
        vec(0..9_u8, 0..3).prop_map(|list| {
            (
                json!({"type": "array", "items": {"type": "integer"}}),
                json!(list),
                Some(json!("abc")),
            )
        }),
        vec(text(), 0..3).prop_map(|list| {
            (json!({"type": "array", "items": {"type": "string"}}), json!(list), Some(json!("abc")))
        }),
        (any::<i16>(), text()).prop_map(|(x, y)| {
            let properties = json!({"x": {"type": "integer"}, "y": {"type": "string"}});
            let schema = json!({"type": "object", "properties": properties, "required": ["x"]});
            (schema, json!({"x": x, "y": y}), Some(json!("abc")))
        }),
        prop::option::of(0..99_u8).prop_map(move |n| (
            json!({"type": ["integer", "null"]}),
            json!(n),
            words()
        )),
        (1..4_u8).prop_map(|n| (json!({"enum": [1, 2, 3]}), json!(n), Some(json!(4)))),
        Just((json!({"const": "kilometre"}), json!("kilometre"), Some(json!("mile")))),
        any_place().prop_map(move |it| (place(), it, words())),
        vec(any_place(), 0..3).prop_map(move |it| (
            json!({"type": "array", "items": place()}),
            json!(it),
            words()
        )),
        any_place().prop_map(|it| {
            let inner =
                json!({"type": "object", "properties": {"at": place()}, "required": ["at"]});
            (inner, json!({"at": it}), Some(json!({})))
        }),
        // Where arguments are text, any text may be meant for these.
        any_place().prop_map(|it| (json!({"$ref": "#/$defs/place"}), it, None)),
        (0..9_u8).prop_map(|n| {
            let either = json!({"anyOf": [{"type": "integer"}, {"type": "boolean"}]});
            (either, json!(n), None)
        }),
    ];
    (kinds, any::<bool>(), any::<bool>()).prop_map(
        |((schema, value, wrong), is_required, is_given)| Argument {
            schema,
            value,
            wrong,
            is_required,
            is_given,
        },
    )
}

/// The message of the case, and others that differ from it.
fn messages(case: &Case, first: &[(&'static str, Argument)]) -> Vec<Message> {
    let format = &case.format;
    let write = |calls: &[(String, Map<String, Value>)]| {
        let (mut text, mut before) = (String::new(), CallsBefore::default());
        for (name, arguments) in calls {
            let arguments = Value::from(arguments.clone()).to_string();
            format.push_next_call(&mut text, name, &arguments, &mut before);
        }
        text
    };
    // Texts of other formats' cases may contain a mark of this one.
    let marks: Vec<&str> = format.marks().filter(|mark| mark.len() > 1).collect();
    let all =
        case.calls.iter().map(|(_, arguments)| arguments.clone()).collect::<Value>().to_string();
    if marks.iter().any(|mark| all.contains(mark)) {
        return Vec::new();
    }
    let whole = write(&case.calls);
    let mut messages = vec![Message { text: whole.clone(), is_valid: true, why: "the calls" }];
    let mut refuse = |text: String, why| messages.push(Message { text, is_valid: false, why });
    let mut calls = case.calls.clone();
    "unknown_tool".clone_into(&mut calls[0].0);
    refuse(write(&calls), "an unknown tool");
    let mut cut = whole.trim_end().to_owned();
    cut.pop();
    refuse(cut, "the end is missing");
    for (key, argument) in first {
        let mut calls = case.calls.clone();
        if argument.is_required {
            calls[0].1.remove(*key);
            refuse(write(&calls), "a required argument is missing");
        }
        if let Some(wrong) = &argument.wrong
            && case.calls[0].1.contains_key(*key)
        {
            let mut calls = case.calls.clone();
            calls[0].1.insert((*key).to_owned(), wrong.clone());
            refuse(write(&calls), "an argument of another type");
        }
    }
    messages
}
