//! Histories of 1 MiB as clients of Chat Completions send them: read, checked and repaired. The floor
//! is `serde_json`, which parses the same bytes.
//!
//! `cargo bench --bench histories`. No turn is cached, so all of each history is
//! new. A test in `server/dialect/tests` checks that time grows no faster than the history.

use std::hint::black_box;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use serde_json::{Value, json};
use tether::server::turns_in_history;

/// The gateway's own, with which a small allocation costs less than with the system's.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

const BYTES: usize = 1 << 20;

/// The n-th messages of a history.
type Unit = fn(usize) -> Vec<Value>;

const SHAPES: &[(&str, Unit)] = &[
    ("chat", |_| vec![user(&"word ".repeat(30)), says(&"word ".repeat(150))]),
    ("agent", |n| {
        let id = n.to_string();
        let found = json!({"found": ["word ".repeat(20), n], "more": true}).to_string();
        vec![calling(&id, r#"{"path":"src/main.rs","line":7}"#), result(&id, &found)]
    }),
    ("tiny_messages", |_| vec![user("a"), says("b")]),
    ("tiny_calls", |n| vec![calling(&n.to_string(), "{}"), result(&n.to_string(), "1")]),
    ("calls_without_results", |n| vec![calling(&n.to_string(), "{}")]),
    ("results_without_calls", |n| vec![result(&n.to_string(), "found")]),
    ("broken_arguments", |n| {
        let broken = if n % 2 == 0 { r#"{"a": [1,"# } else { r#"{"a": [1]}"# };
        vec![calling(&n.to_string(), broken), result(&n.to_string(), "1")]
    }),
];

fn user(text: &str) -> Value {
    json!({"role": "user", "content": text})
}

fn says(text: &str) -> Value {
    json!({"role": "assistant", "content": text})
}

fn calling(id: &str, arguments: &str) -> Value {
    let function = json!({"name": "look", "arguments": arguments});
    let calls = json!([{"id": id, "type": "function", "function": function}]);
    json!({"role": "assistant", "content": null, "tool_calls": calls})
}

fn result(id: &str, content: &str) -> Value {
    json!({"role": "tool", "tool_call_id": id, "content": content})
}

/// A request with this history.
fn request(history: impl IntoIterator<Item = Value>) -> String {
    let messages: Vec<Value> = history.into_iter().chain([user("!")]).collect();
    json!({"model": "m", "messages": messages}).to_string()
}

fn requests() -> Vec<(&'static str, String)> {
    let of_shape = |&(name, unit): &(&'static str, Unit)| {
        let bytes: usize = unit(1000).iter().map(|it| it.to_string().len() + 1).sum();
        let units = (0..BYTES / bytes).flat_map(unit);
        (name, request([user("?")].into_iter().chain(units)))
    };
    let giant = "word <details> {\"a\": 1}\n".repeat(BYTES / 28);
    let one = [
        ("one_prompt", request([user(&giant), says("a")])),
        ("one_answer", request([user("?"), says(&giant)])),
        ("one_result", request([user("?"), calling("a", "{}"), result("a", &giant)])),
        ("one_broken_call", request([user("?"), calling("a", &giant), result("a", "1")])),
    ];
    SHAPES.iter().map(of_shape).chain(one).collect()
}

fn histories(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("histories");
    for (name, request) in requests() {
        group.throughput(Throughput::Bytes(request.len() as u64));
        group.bench_function(BenchmarkId::new("floor", name), |bencher| {
            bencher.iter(|| serde_json::from_slice::<Value>(black_box(request.as_bytes())));
        });
        group.bench_function(BenchmarkId::new("repaired", name), |bencher| {
            bencher.iter(|| turns_in_history(black_box(request.as_bytes())).expect("it is read"));
        });
    }
    group.finish();
}

criterion_group!(benches, histories);
criterion_main!(benches);
