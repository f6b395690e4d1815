//! Holds the ranges in the description to those that are checked: a value at a bound is described and
//! read, and one beyond it is neither.

use serde_json::{Value, json};

use super::described::{try_read, try_respond};
use super::{ChatCompletions, Messages, MessagesServerTools, Native, ServerTools};
use crate::server::dialect::ParsedRequest;
use crate::server::dialect::responses::ServerItems;
use crate::server::openapi;
use crate::server::refusal::Refusal;

/// An API: its schema, its smallest request, and its reader.
struct Api {
    schema: &'static str,
    body: Value,
    read: fn(&Value) -> Result<ParsedRequest, Refusal>,
}

fn apis() -> [Api; 4] {
    let messages = json!([{"role": "user", "content": "Hello?"}]);
    [
        Api {
            schema: "TurnRequest",
            body: json!({"prompt": "Hello?", "sampling": {}}),
            read: |body| try_read(&Native, body),
        },
        Api {
            schema: "ChatCompletionRequest",
            body: json!({"model": "m", "messages": messages}),
            read: |body| try_read(&ChatCompletions { shown: ServerTools::Off }, body),
        },
        Api {
            schema: "ResponseRequest",
            body: json!({"model": "m", "input": "Hello?"}),
            read: |body| try_respond(body, ServerItems::McpCall),
        },
        Api {
            schema: "MessagesRequest",
            body: json!({"model": "m", "max_tokens": 9, "messages": messages}),
            read: |body| try_read(&Messages { server_tools: MessagesServerTools::Off }, body),
        },
    ]
}

/// The fields with bounds, with values at these and beyond them.
fn bounded(schema: &str) -> Vec<(&'static str, Vec<Value>, Vec<Value>)> {
    let [at, beyond] = [json!([0, 2]), json!([-0.001, 2.001])];
    let temperature = |field| (field, list(&at), list(&beyond));
    let top_p = |field| (field, list(&json!([0, 1])), list(&json!([-0.001, 1.001])));
    let from_1 = |field| (field, vec![json!(1)], vec![json!(0)]);
    let from_1_or_none =
        |field| (field, list(&json!([-1, 1, u32::MAX])), list(&json!([-2, 0, 1_u64 << 32])));
    let only = |field, value: u32| (field, vec![json!(value)], vec![json!(value + 1)]);
    let stop = |field| {
        let texts = |count: usize, chars: usize| json!(vec!["é".repeat(chars); count]);
        (field, vec![texts(16, 256)], vec![texts(17, 1), texts(1, 257)])
    };
    match schema {
        "TurnRequest" => vec![
            temperature("/sampling/temperature"),
            top_p("/sampling/top_p"),
            from_1("/sampling/max_tokens"),
            stop("/sampling/stop"),
            from_1("/max_tool_loops"),
        ],
        "ChatCompletionRequest" => vec![
            temperature("/temperature"),
            top_p("/top_p"),
            from_1_or_none("/max_tokens"),
            from_1_or_none("/max_completion_tokens"),
            only("/n", 1),
            from_1("/n"),
            only("/top_logprobs", 0),
        ],
        "ResponseRequest" => vec![
            temperature("/temperature"),
            top_p("/top_p"),
            from_1("/max_output_tokens"),
            from_1("/max_tool_calls"),
            only("/top_logprobs", 0),
        ],
        "MessagesRequest" => vec![
            temperature("/temperature"),
            top_p("/top_p"),
            from_1("/max_tokens"),
            stop("/stop_sequences"),
        ],
        other => panic!("{other}"),
    }
}

fn list(values: &Value) -> Vec<Value> {
    values.as_array().unwrap().clone()
}

/// The body with this value in a field.
fn with(body: &Value, field: &str, value: &Value) -> Value {
    let mut body = body.clone();
    let (parent, name) = field.rsplit_once('/').unwrap();
    body.pointer_mut(parent).unwrap()[name] = value.clone();
    body
}

#[test]
fn described_ranges_are_those_that_are_checked() {
    let document = openapi::document(&[]);
    for Api { schema: name, body, read } in apis() {
        let mut schema = document["components"]["schemas"][name].clone();
        schema["components"] = document["components"].clone();
        let described = jsonschema::validator_for(&schema).unwrap();
        for (field, at, beyond) in bounded(name) {
            for (values, is_good) in [(at, true), (beyond, false)] {
                for value in values {
                    let body = with(&body, field, &value);
                    assert_eq!(
                        described.is_valid(&body),
                        is_good,
                        "described: {name}{field} {value}"
                    );
                    assert_eq!(read(&body).is_ok(), is_good, "read: {name}{field} {value}");
                }
            }
        }
    }
}
