//! The memory that the gateway counts for its sessions, as `/metrics` shows it, compared with
//! the memory actually allocated.
//!
//! Gateway, model and clients run on the test's own thread, whose allocations are counted. What
//! is left after clients and rounds are gone is held by the gateway.

#![expect(clippy::unwrap_used, reason = "a test that panics has failed, as it should")]

#[expect(dead_code, unused_imports, reason = "other tests use the rest")]
#[path = "support/mod.rs"]
mod support;

use allocation_counter::measure;
use serde_json::json;
use support::model::call;
use support::{Gateway, Model};
use tokio::runtime::{Builder, Runtime};

/// How the model answers a turn.
#[derive(Debug, Clone, Copy)]
enum Shape {
    /// This many pieces of this many bytes. Each piece is an event.
    Words { pieces: usize, bytes: usize },
    /// This many calls, each in its own message, and one word.
    Calls(usize),
}

/// A gateway and a model on the test's thread.
struct World {
    runtime: Runtime,
    gateway: Gateway,
    model: Model,
}

impl World {
    fn new() -> Self {
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        let (gateway, model) = runtime.block_on(async {
            let model = Model::listen();
            let gateway = Gateway::with(model.address, |setup| {
                setup.config.limits.max_tool_loops = 100;
            });
            (gateway.await, model)
        });
        Self { runtime, gateway, model }
    }

    /// Runs a turn in a session of its own.
    fn turn(&mut self, session: &str, shape: Shape) {
        let Self { runtime, gateway, model } = self;
        runtime.block_on(async {
            let body = json!({"session_id": session, "prompt": "Hello?"});
            let mut stream = gateway.turn_with(&["Connection: close"], &body).await;
            let mut round = model.round().await;
            match shape {
                Shape::Words { pieces, bytes } => {
                    let piece = "x".repeat(bytes);
                    round.begin().await;
                    for _ in 0..pieces {
                        // Pieces that arrive together would become one event.
                        round.say(&piece).await;
                        stream.up_to_text(&piece).await;
                    }
                    round.end().await;
                }
                Shape::Calls(count) => {
                    for n in 0..count {
                        let sum = json!({ "expression": format!("{n} + 1") });
                        round.answer(&call("calculate", &sum)).await;
                        round = model.round().await;
                    }
                    round.answer("Well.").await;
                }
            }
            stream.rest().await;
            stream.client.closed().await;
        });
    }

    /// The bytes that the gateway counts for its sessions.
    fn counted(&self) -> usize {
        let usage = self.gateway.running.gateway().memory_usage();
        usage.session_bytes + usage.turn_log_bytes
    }

    /// The cost of further turns: the bytes allocated, and the bytes counted.
    fn cost(&mut self, turns: usize, shape: Shape) -> (usize, usize) {
        // Allocates everything that is created once and kept.
        self.turn("first", shape);
        let before = self.counted();
        let in_use = measure(|| {
            for n in 0..turns {
                self.turn(&n.to_string(), shape);
            }
        });
        (in_use.bytes_current.try_into().unwrap(), self.counted() - before)
    }
}

#[test]
fn at_most_a_quarter_more_is_in_use_than_is_counted() {
    let words = |pieces, bytes| Shape::Words { pieces, bytes };
    for (turns, shape) in [
        (300, words(1, 4)),
        (4, words(2000, 4)),
        (4, words(1000, 64)),
        (4, words(200, 1024)),
        (4, words(20, 16 * 1024)),
        (4, words(10, 64 * 1024)),
        (100, Shape::Calls(1)),
        (4, Shape::Calls(30)),
    ] {
        let (in_use, counted) = World::new().cost(turns, shape);
        assert!(in_use <= counted + counted / 4, "{shape:?}: {in_use} in use, {counted} counted");
        assert!(counted <= in_use + in_use / 4, "{shape:?}: {in_use} in use, {counted} counted");
    }
}
