//! Events of the Responses API, as its servers write them.

use serde_json::{Value, json};

/// An event. Its name is also in its JSON.
pub(crate) fn event(json: &Value) -> String {
    format!("event: {}\ndata: {json}\n\n", json["type"].as_str().unwrap())
}

/// A whole response with these items, each as in its `output_item.done`.
pub(crate) fn answer(items: &[Value]) -> String {
    let mut stream = event(&json!({"type": "response.created", "response": {"id": "resp_1"}}));
    for (place, item) in items.iter().enumerate() {
        let mut on = |json: &Value| {
            let mut json = json.clone();
            json["output_index"] = place.into();
            stream.push_str(&event(&json));
        };
        let mut begun = item.clone();
        if item["type"] == "function_call" {
            begun["arguments"] = "".into();
        }
        on(&json!({"type": "response.output_item.added", "item": begun}));
        if let Some(text) =
            item["content"][0]["text"].as_str().filter(|_| item["type"] == "message")
        {
            on(&json!({"type": "response.output_text.delta", "content_index": 0, "delta": text}));
        }
        if let Some(arguments) = item["arguments"].as_str() {
            let (head, tail) = arguments.split_at(arguments.len() / 2);
            for delta in [head, tail] {
                on(&json!({"type": "response.function_call_arguments.delta", "delta": delta}));
            }
        }
        on(&json!({"type": "response.output_item.done", "item": item}));
    }
    stream + &completed()
}

/// The last event of a proper response.
pub(crate) fn completed() -> String {
    let usage = json!({"input_tokens": 3, "output_tokens": 4, "total_tokens": 7});
    event(
        &json!({"type": "response.completed", "response": {"status": "completed", "usage": usage}}),
    )
}

/// A message of the model.
pub(crate) fn message(text: &str) -> Value {
    json!({"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": text}]})
}

/// A call of the model.
pub(crate) fn call(name: &str, arguments: &Value) -> Value {
    let (name, arguments) = (Value::from(name), arguments.to_string());
    json!({"type": "function_call", "id": "fc_1", "call_id": "c", "name": name, "arguments": arguments})
}
