//! The memory that the gateway counts for its sessions, as `/metrics` shows it, compared with
//! the memory actually allocated; and the memory of streams that are open.
//!
//! The allocations of the test's own thread are counted. For sessions, gateway, model and clients
//! run on it: what is left after clients and rounds are gone is held by the gateway. For streams,
//! only the gateway does.

#![expect(clippy::unwrap_used, reason = "a test that panics has failed, as it should")]

#[expect(dead_code, unused_imports, reason = "other tests use the rest")]
#[path = "support/mod.rs"]
mod support;

use std::thread;

use allocation_counter::measure;
use serde_json::json;
use support::gateway::Endpoint;
use support::model::call;
use support::{Gateway, Model};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::{mpsc, oneshot};

/// How the model answers a turn.
#[derive(Debug, Clone, Copy)]
enum Shape {
    /// This many pieces of this many bytes. Each piece is an event.
    Words { pieces: usize, bytes: usize },
    /// This many calls, each in its own message, and one word.
    Calls(usize),
}

fn runtime() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

/// A gateway and a model on the test's thread.
struct World {
    runtime: Runtime,
    gateway: Gateway,
    model: Model,
}

impl World {
    fn new() -> Self {
        let runtime = runtime();
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

/// How many streams are counted, after as many have made the gateway create what it keeps.
const STREAMS: usize = 64;

/// What an open stream may hold: its two connections, its turn and its session. The allocator rounds
/// that up by some 3 %.
const STREAM_BYTES_MAX: i64 = 9_000;

/// The same before the model has said anything. The state of the request is there as well, because it may be made again.
const WAITING_BYTES_MAX: i64 = 11_000;

/// What the gateway holds for each of many open streams, whose models have said these words.
fn held_for_each(words: &'static str) -> i64 {
    let (tell_model, model) = oneshot::channel();
    let (tell_gateway, gateway) = oneshot::channel();
    let (note_open, mut open) = mpsc::channel(1);
    let outside = thread::spawn(move || {
        runtime().block_on(async move {
            let mut model = Model::listen();
            tell_model.send(model.address).unwrap();
            let gateway: Endpoint = gateway.await.unwrap();
            let mut streams = Vec::new();
            for n in 0..2 * STREAMS {
                streams.push(gateway.begin_saying(&mut model, &n.to_string(), words).await);
                if streams.len() % STREAMS == 0 {
                    note_open.send(()).await.unwrap();
                }
            }
            note_open.closed().await;
        });
    });
    let runtime = runtime();
    let running = runtime.block_on(async { Gateway::with(model.await.unwrap(), |_| ()).await });
    tell_gateway.send(*running).unwrap();
    runtime.block_on(open.recv()).unwrap();

    let held = measure(|| runtime.block_on(open.recv()).unwrap()).bytes_current;

    drop(open);
    outside.join().unwrap();
    held / i64::try_from(STREAMS).unwrap()
}

#[test]
fn a_stream_holds_no_more_than_it_needs() {
    for (words, most) in [("So.", STREAM_BYTES_MAX), ("", WAITING_BYTES_MAX)] {
        let each = held_for_each(words);
        assert!(
            each <= most,
            "{each} bytes: compare heap profiles, or raise the limit and say why"
        );
        assert!(each > most / 2, "{each} bytes: the streams were not counted");
    }
}
