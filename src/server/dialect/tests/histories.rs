//! Long histories are read and repaired in linear time.
//!
//! Nothing is timed. What is counted is the same on every machine: allocations, the bytes in them,
//! and how often a turn of ours is looked for. `cargo bench --bench histories` has the milliseconds.

use std::cell::Cell;
use std::sync::Arc;

use allocation_counter::measure;
use serde_json::{Value, json};

use crate::conversation::Turn;
use crate::conversation::claimed::{FoundCall, PrefixHash, TurnLookup};
use crate::server::dialect::chat_completions::ChatCompletions;
use crate::server::dialect::messages::{Messages, MessagesServerTools};
use crate::server::dialect::models::Models;
use crate::server::dialect::responses::{Referents, Labels, Request, RequestContext, ServerItems};
use crate::server::dialect::server_tools::ServerTools;
use crate::server::dialect::{ClientRequest, ImageReader, ParsedRequest, RequestReader};
use crate::tools::Registry;

/// A history that grows by one unit of this shape at a time.
struct Shape {
    name: &'static str,
    /// The n-th unit in Chat Completions, as messages.
    chat: fn(usize) -> Vec<Value>,
}

const SHAPES: &[Shape] = &[
    Shape {
        name: "tiny messages",
        chat: |_| vec![user("a"), json!({"role": "assistant", "content": "b"})],
    },
    Shape { name: "prompts without an answer", chat: |_| vec![user("a")] },
    Shape {
        name: "instructions",
        chat: |_| vec![json!({"role": "system", "content": "a"}), user("a")],
    },
    Shape {
        name: "calls with results",
        chat: |n| vec![calling(&n.to_string(), "{\"a\":1}"), result(&n.to_string(), "{\"b\":2}")],
    },
    Shape { name: "calls of one id", chat: |_| vec![calling("a", "{}"), result("a", "1")] },
    Shape { name: "calls without results", chat: |n| vec![calling(&n.to_string(), "{}")] },
    Shape { name: "results without calls", chat: |n| vec![result(&n.to_string(), "found")] },
    Shape { name: "broken arguments", chat: |n| vec![calling(&n.to_string(), "{\"a\": \"b")] },
    Shape {
        name: "broken arguments and sound ones",
        chat: |n| {
            let id = n.to_string();
            let arguments = if n % 2 == 0 { "{\"a\": [1," } else { "{\"a\": [1]}" };
            vec![calling(&id, arguments), result(&id, "1"), user("a")]
        },
    },
    Shape {
        name: "results that come late",
        chat: |n| vec![calling(&n.to_string(), "{}"), user("a"), result(&n.to_string(), "1")],
    },
    Shape {
        name: "calls as HTML",
        chat: |_| {
            let block = "<details type=\"tool_calls\" done=\"true\"></details>\nSo.";
            vec![user("a"), json!({"role": "assistant", "content": block})]
        },
    },
];

fn user(text: &str) -> Value {
    json!({"role": "user", "content": text})
}

fn calling(id: &str, arguments: &str) -> Value {
    let function = json!({"name": "look", "arguments": arguments});
    let calls = json!([{"id": id, "type": "function", "function": function}]);
    json!({"role": "assistant", "content": null, "tool_calls": calls})
}

fn result(id: &str, content: &str) -> Value {
    json!({"role": "tool", "tool_call_id": id, "content": content})
}

/// What a giant message repeats.
const GIANTS: &[(&str, &str)] = &[
    ("a giant prompt", "word "),
    ("a giant of brackets", "[{\"a\":"),
    ("a giant of HTML", "<details type=\"tool_calls\">"),
    ("a giant of escapes", "\"\n\\"),
    ("a giant of markers", "<<function_call>> {"),
];

/// An API and how it says the same.
#[derive(Debug, Clone, Copy)]
enum Api {
    Chat,
    Messages,
    Responses,
}

impl Api {
    /// A request with this history.
    fn request(self, history: &[Value]) -> String {
        let body = match self {
            Self::Chat => json!({"model": "m", "messages": history}),
            Self::Messages => {
                let messages: Vec<Value> = history.iter().map(anthropic).collect();
                json!({"model": "m", "max_tokens": 9, "messages": messages})
            }
            Self::Responses => {
                let items: Vec<Value> = history.iter().flat_map(items).collect();
                json!({"model": "m", "store": true, "input": items})
            }
        };
        body.to_string()
    }

    fn read(self, body: &str, lookup: &dyn TurnLookup) -> ParsedRequest {
        let models = Models::new(vec!["m".to_owned()], Vec::new(), false);
        let asked = ClientRequest {
            accept: "",
            body: body.as_bytes(),
            idempotency_key: None,
            owner: "",
            models: &models,
            conversation: Some("c"),
            lookup,
            images: ImageReader::new(true),
            now_sec: 7,
        };
        let read = match self {
            Self::Chat => ChatCompletions { shown: ServerTools::Off }.read(&asked),
            Self::Messages => Messages { server_tools: MessagesServerTools::Off }.read(&asked),
            Self::Responses => {
                let context = RequestContext {
                    owner: "",
                    image_seed: "seed".to_owned(),
                    images: ImageReader::new(true),
                    lookup,
                    models: &models,
                    labels: Labels(Registry::default().into()), empty_sources: Vec::new(),
                    shown: ServerItems::McpCall,
                    new_session_id: "resp-000000000000000000000000000000aa".to_owned(),
                    clock: || 7,
                    idempotency_key: None,
                };
                Request::read(asked.body).and_then(|it| it.parse(Referents::default(), context))
            }
        };
        read.expect("no history is refused")
    }
}

/// A message of Chat Completions as one of Anthropic's.
fn anthropic(message: &Value) -> Value {
    if let Some(call) = message["tool_calls"].get(0) {
        // Arguments are JSON here, and cannot be broken; other types are as wrong.
        let written = call["function"]["arguments"].as_str().unwrap();
        let input = serde_json::from_str(written).unwrap_or_else(|_| json!(written));
        let block = json!({"type": "tool_use", "id": call["id"], "name": "look", "input": input});
        return json!({"role": "assistant", "content": [block]});
    }
    match message["role"].as_str() {
        Some("tool") => {
            let (id, content) = (&message["tool_call_id"], &message["content"]);
            let block = json!({"type": "tool_result", "tool_use_id": id, "content": content});
            json!({"role": "user", "content": [block]})
        }
        _ => message.clone(),
    }
}

/// A message of Chat Completions as items of Responses.
fn items(message: &Value) -> Vec<Value> {
    if let Some(call) = message["tool_calls"].get(0) {
        let (id, arguments) = (&call["id"], &call["function"]["arguments"]);
        return vec![json!({
            "type": "function_call", "call_id": id, "name": "look", "arguments": arguments,
        })];
    }
    match message["role"].as_str() {
        Some("tool") => {
            let (id, output) = (&message["tool_call_id"], &message["content"]);
            vec![json!({"type": "function_call_output", "call_id": id, "output": output})]
        }
        _ => vec![message.clone()],
    }
}

/// Counts how often it is asked, and remembers nothing.
#[derive(Default)]
struct Counting(Cell<u64>);

impl Counting {
    fn count(&self) {
        self.0.set(self.0.get() + 1);
    }
}

impl TurnLookup for Counting {
    fn by_call(&self, _client_call_id: &str) -> Option<FoundCall> {
        self.count();
        None
    }

    fn by_prefix(&self, _prefix: &PrefixHash) -> Option<Arc<Turn>> {
        self.count();
        None
    }

    fn by_question(&self, _clarification_id: &str) -> Option<Arc<Turn>> {
        self.count();
        None
    }

    fn by_answer(&self, _clarification_id: &str) -> Option<Arc<Turn>> {
        self.count();
        None
    }

    fn by_prompt(&self, _conversation: &str, _prompt: &str) -> Vec<Arc<Turn>> {
        self.count();
        Vec::new()
    }
}

/// What reading a request costs: allocations, the bytes in them, and lookups.
fn cost(api: Api, body: &str) -> [u64; 3] {
    let lookup = Counting::default();
    let allocated = measure(|| drop(api.read(body, &lookup)));
    [allocated.count_total, allocated.bytes_total, lookup.0.get()]
}

/// A history of about so many bytes in Chat Completions.
fn history(shape: &Shape, bytes: usize) -> Vec<Value> {
    let unit: usize = (shape.chat)(1000).iter().map(|it| it.to_string().len() + 1).sum();
    let units = (0..bytes / unit).flat_map(|n| (shape.chat)(n));
    [user("?")].into_iter().chain(units).chain([user("!")]).collect()
}

/// Sixteen times as much has to cost at most sixteen times as much. Of a history of 1 MiB only the
/// newest messages are read if there are many, which could hide a quadratic cost; of the shorter ones
/// all are.
const LENGTHS: [[usize; 2]; 2] = [[8 << 10, 128 << 10], [64 << 10, 1 << 20]];

impl Api {
    /// The lengths that are compared. The APIs share most of the code, so one tries the longest.
    const fn lengths(self) -> &'static [[usize; 2]] {
        match self {
            Self::Chat => &LENGTHS,
            Self::Messages | Self::Responses => LENGTHS.split_at(1).0,
        }
    }
}

/// Checks that a history costs no more than its length allows.
#[track_caller]
fn check(api: Api, name: &str, of: impl Fn(usize) -> Vec<Value>) {
    for lengths in api.lengths() {
        let bodies = lengths.map(|bytes| api.request(&of(bytes)));
        let [short, long] = bodies.each_ref().map(|body| cost(api, body));
        let times = bodies[1].len().div_ceil(bodies[0].len()) as u64;
        for (what, (short, long)) in
            ["allocations", "bytes", "lookups"].iter().zip(short.into_iter().zip(long))
        {
            // Buffers that double may be half empty.
            let most = if *what == "bytes" { 2 * times * short } else { times * short + 100 };
            assert!(
                long <= most,
                "{api:?}, {name}: {short} {what}, and {long} for {times} times as much"
            );
        }
    }
}

/// Checks histories of all shapes.
#[track_caller]
fn check_all(api: Api) {
    for shape in SHAPES {
        check(api, shape.name, |bytes| history(shape, bytes));
    }
    for (name, unit) in GIANTS {
        check(api, name, |bytes| giants(&unit.repeat(bytes / 5 / unit.len())));
    }
}

/// This text in every place where a history can have one.
fn giants(text: &str) -> Vec<Value> {
    vec![
        user(text),
        json!({"role": "assistant", "content": text}),
        calling("a", text),
        result("a", text),
        result("b", text),
        user("!"),
    ]
}

#[test]
fn chat_completions_sixteen_times_as_long_cost_at_most_sixteen_times_as_much() {
    check_all(Api::Chat);
}

#[test]
fn messages_sixteen_times_as_long_cost_at_most_sixteen_times_as_much() {
    check_all(Api::Messages);
}

#[test]
fn responses_sixteen_times_as_long_cost_at_most_sixteen_times_as_much() {
    check_all(Api::Responses);
}
