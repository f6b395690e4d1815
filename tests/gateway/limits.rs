//! Every limit of a request, of the server and of a turn, tested at the limit and one above it.

use serde_json::json;
use tokio::io::AsyncWriteExt as _;

use crate::support::client::{post, request};
use crate::support::events::{outcome, said};
use crate::support::gateway::STREAM;
use crate::support::model::{call, text};
use crate::support::{Client, Gateway, Model};

/// The status of a request to begin a turn, which is cancelled at once.
async fn status(gateway: &Gateway, headers: &[&str], body: &str) -> u16 {
    let mut client = gateway.client().await;
    client.send(post(STREAM, headers, body)).await;
    client.head().await.status
}

/// A body of exactly this many bytes.
fn body_of(bytes: usize) -> String {
    let empty = json!({"prompt": ""}).to_string();
    json!({"prompt": "x".repeat(bytes - empty.len())}).to_string()
}

#[tokio::test]
async fn bytes_of_a_body() {
    let model = Model::listen();
    let gateway = Gateway::with(model.address, |s| s.config.server.max_body_bytes = 5000).await;
    assert_eq!(status(&gateway, &[], &body_of(5000)).await, 200);
    let reply = gateway.exchange(post(STREAM, &[], &body_of(5001))).await;
    assert_eq!(reply.refusal().0, 413);
    assert_eq!(reply.refusal().1, "body_too_large");
    assert!(reply.message().contains("5000"), "{}", reply.message());
}

#[tokio::test]
async fn bytes_of_a_body_that_does_not_say_its_length() {
    let model = Model::listen();
    let gateway = Gateway::with(model.address, |s| s.config.server.max_body_bytes = 5000).await;
    for (bytes, expected) in [(5000, 200), (5001, 413)] {
        let mut client = gateway.client().await;
        client.send(request("POST", STREAM, &["Transfer-Encoding: chunked"], "")).await;
        for part in body_of(bytes).as_bytes().chunks(999) {
            client.send(format!("{:x}\r\n", part.len())).await;
            client.send(part).await;
            client.send("\r\n").await;
        }
        client.send("0\r\n\r\n").await;
        assert_eq!(client.head().await.status, expected, "{bytes}");
    }
}

/// It is refused because of its `Content-Length`, before it is sent.
#[tokio::test]
async fn a_body_that_announces_too_many_bytes() {
    let model = Model::listen();
    let gateway = Gateway::start(&model).await;
    for expect in [&[][..], &["Expect: 100-continue"]] {
        let headers = [&["Content-Length: 10000000000"], expect].concat();
        let reply = gateway.exchange(request("POST", STREAM, &headers, "")).await;
        assert_eq!(reply.refusal().0, 413);
    }
    // It is not asked for, though it is short enough to be thrown away.
    let headers = ["Content-Length: 9000000", "Expect: 100-continue"];
    let reply = gateway.exchange(request("POST", STREAM, &headers, "")).await;
    assert_eq!(reply.refusal().0, 413);
}

/// The answer must not be lost in a reset while the body is still being sent.
#[tokio::test]
async fn a_long_body_that_is_sent_anyway() {
    let model = Model::listen();
    let gateway = Gateway::start(&model).await;
    let Client { socket, .. } = gateway.client().await;
    let (mut reader, mut writer) = socket.into_split();
    let request = post(STREAM, &["Connection: close"], &body_of(16 << 20));
    let sending = tokio::spawn(async move {
        // It may be refused before it has been sent completely.
        let _ = writer.write_all(request.as_bytes()).await;
        writer
    });
    let mut answer = Vec::new();
    let read = tokio::io::AsyncReadExt::read_to_end(&mut reader, &mut answer);
    let ended = crate::support::within(read).await;
    let answer = String::from_utf8(answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 413 "), "{ended:?} {answer:?}");
    assert!(answer.contains("body_too_large"), "{ended:?} {answer:?}");
    let _ = sending.await;
}

/// Many clients send all of a body before they read the answer.
#[tokio::test]
async fn a_client_that_sends_all_of_a_long_body_reads_the_refusal() {
    let model = Model::listen();
    let gateway = Gateway::start(&model).await;
    for _ in 0..8 {
        let mut client = gateway.client().await;
        let request = post(STREAM, &[], &body_of(5 << 20));
        crate::support::within(client.socket.write_all(request.as_bytes())).await.unwrap();
        assert_eq!(client.head().await.status, 413);
    }
}

/// The same before anything of the body has been read.
#[tokio::test]
async fn a_client_that_sends_all_of_a_long_body_reads_why_its_head_is_refused() {
    let model = Model::listen();
    let gateway = Gateway::start(&model).await;
    let body = body_of(1 << 20);
    for (path, header, status) in
        [("/v1/embeddings", "", 404), ("/readyz", "", 405), (STREAM, "Host: evil.example", 421)]
    {
        for _ in 0..8 {
            let mut client = gateway.client().await;
            let headers: &[&str] = if header.is_empty() { &[] } else { &[header] };
            let request = post(path, headers, &body);
            crate::support::within(client.socket.write_all(request.as_bytes())).await.unwrap();
            assert_eq!(client.head().await.status, status, "{path}");
        }
    }
}

/// Checks the answer to a request with a long head. A refusal says why, arrives, and ends the connection.
async fn check_head(mut client: Client, status: u16) {
    let reply = client.reply().await;
    if status == 200 {
        assert_eq!(reply.status(), 200);
        return;
    }
    assert_eq!(reply.refusal(), (status, "head_too_large".to_owned(), None));
    assert_eq!(reply.head.header("content-type"), Some("application/json"));
    assert_eq!(reply.head.header("connection"), Some("close"));
    assert!(reply.head.header("x-request-id").is_some());
    assert_eq!(client.closed().await, b"");
    // What still comes is read, so that no reset overtakes the answer.
    client.socket.write_all(b"x").await.unwrap();
}

#[tokio::test]
async fn count_of_header_fields() {
    let model = Model::listen();
    let gateway = Gateway::start(&model).await;
    for (count, expected) in [(64, 200), (65, 431)] {
        // `Host` counts as one of them.
        let headers: Vec<_> = (1..count).map(|at| format!("X-{at}: y")).collect();
        let headers: Vec<&str> = headers.iter().map(|header| &**header).collect();
        let mut client = gateway.client().await;
        client.send(request("GET", "/healthz", &headers, "")).await;
        check_head(client, expected).await;
    }
}

#[tokio::test]
async fn bytes_of_a_head() {
    let model = Model::listen();
    let gateway = Gateway::start(&model).await;
    let limit = tether::limits::server::HEAD_BYTES_MAX;
    let around = request("GET", "/healthz", &["X-Long: "], "").len();
    for (bytes, expected) in [(limit, 200), (limit + 1, 431), (limit * 4, 431)] {
        let long = format!("X-Long: {}", "x".repeat(bytes - around));
        let mut client = gateway.client().await;
        client.send(request("GET", "/healthz", &[&long], "")).await;
        check_head(client, expected).await;
    }
}

#[tokio::test]
async fn bytes_of_a_query() {
    let model = Model::listen();
    let gateway = Gateway::start(&model).await;
    for (bytes, expected) in [(10_000, 404), (20_000, 431), (100_000, 431)] {
        let query = format!("{STREAM}?session_id=s&x={}", "y".repeat(bytes));
        let mut client = gateway.client().await;
        client.send(request("GET", &query, &[], "")).await;
        assert_eq!(client.head().await.status, expected, "{bytes}");
    }
}

#[tokio::test]
async fn characters_of_a_session_id() {
    let model = Model::listen();
    let gateway = Gateway::start(&model).await;
    let good = ["a", "A-Z_a.z:0", &"x".repeat(128)];
    let bad = ["", " ", "a b", "a/b", "\u{e9}", "a\n", &"x".repeat(129)];
    for id in good {
        let body = json!({"session_id": id, "prompt": "Hello?"}).to_string();
        assert_eq!(status(&gateway, &[], &body).await, 200, "{id}");
    }
    for id in bad {
        let body = json!({"session_id": id, "prompt": "Hello?"});
        let refusal = gateway.post(STREAM, &body).await.refusal();
        assert_eq!((refusal.0, refusal.2.as_deref()), (400, Some("session_id")), "{id}");
    }
}

#[tokio::test]
async fn bytes_of_an_idempotency_key() {
    let model = Model::listen();
    let gateway = Gateway::start(&model).await;
    let body = json!({"prompt": "Hello?"}).to_string();
    for (bytes, expected) in [(0, 400), (1, 200), (256, 200), (257, 400)] {
        let key = format!("Idempotency-Key: {}", "k".repeat(bytes));
        assert_eq!(status(&gateway, &[&key], &body).await, expected, "{bytes}");
    }
}

#[tokio::test]
async fn a_prompt_is_not_blank() {
    let model = Model::listen();
    let gateway = Gateway::start(&model).await;
    for body in [json!({}), json!({"prompt": ""}), json!({"prompt": " \n\t\u{3000}"})] {
        let refusal = gateway.post(STREAM, &body).await.refusal();
        assert_eq!((refusal.0, refusal.2.as_deref()), (400, Some("prompt")), "{body}");
    }
}

#[tokio::test]
async fn fields_of_a_request() {
    let model = Model::listen();
    let gateway = Gateway::start(&model).await;
    for (field, value, param) in [
        ("model", json!("unknown"), Some("model")),
        ("tools", json!(["unknown"]), Some("tools")),
        ("max_tool_loops", json!(-1), Some("max_tool_loops")),
        ("unknown", json!(1), Some("unknown")),
        ("sampling", json!({"temperature": 2.1}), Some("sampling.temperature")),
        ("sampling", json!({"temperature": -0.1}), Some("sampling.temperature")),
        ("sampling", json!({"top_p": -0.01}), Some("sampling.top_p")),
        ("sampling", json!({"max_tokens": 0}), Some("sampling.max_tokens")),
        ("sampling", json!({"stop": vec!["x"; 17]}), Some("sampling.stop")),
        ("sampling", json!({"stop": ["x".repeat(257)]}), Some("sampling.stop")),
        ("sampling", json!({"unknown": 1}), Some("sampling.unknown")),
    ] {
        let mut body = json!({"prompt": "Hello?"});
        body[field] = value;
        let (status, code, found) = gateway.post(STREAM, &body).await.refusal();
        assert_eq!((status, &*code), (400, "invalid_request"), "{body}");
        assert_eq!(found.as_deref(), param, "{body}");
    }
    for sampling in [
        json!({"temperature": 0, "top_p": 1, "max_tokens": 1, "seed": -1, "stop": vec!["x"; 16]}),
        json!({"temperature": 2, "top_p": 0, "stop": ["x".repeat(256)]}),
    ] {
        let body = json!({"prompt": "Hello?", "sampling": sampling}).to_string();
        assert_eq!(status(&gateway, &[], &body).await, 200, "{body}");
    }
}

#[tokio::test]
async fn concurrent_turns() {
    let mut model = Model::listen();
    let gateway = Gateway::with(model.address, |s| s.config.server.max_concurrent_turns = 2).await;
    let (mut first, round) = gateway.begin(&mut model, "a").await;
    let (_second, _second_round) = gateway.begin(&mut model, "b").await;
    let reply = gateway.post(STREAM, &json!({"session_id": "c", "prompt": "Hello?"})).await;
    let (status, code, _) = reply.refusal();
    assert_eq!((status, &*code), (503, "too_many_turns"));
    let wait: u64 = reply.head.header("retry-after").unwrap().parse().unwrap();
    assert!((1..=30).contains(&wait));
    // A refusal leaves no session.
    assert_eq!(gateway.get("/api/v1/sessions/c").await.status(), 404);
    // Reading does not count as a turn.
    gateway.rejoin("session_id=a", &[]).await.up_to("turn_started").await;
    round.answer("Well.").await;
    first.rest().await;
    gateway.whole_turn(&mut model, "c", "Now.").await.rest().await;
}

#[tokio::test]
async fn bytes_of_a_turn() {
    let mut model = Model::listen();
    let gateway = Gateway::with(model.address, |s| s.config.limits.max_turn_bytes = 3000).await;
    let mut stream = gateway.whole_turn(&mut model, "s", &"x".repeat(3000)).await;
    assert_eq!(outcome(&stream.rest().await), "stop");

    let (mut stream, mut round) = gateway.begin(&mut model, "s").await;
    round.begin().await;
    round.chunk(text(&"x".repeat(3001))).await;
    let frames = stream.rest().await;
    assert_eq!(outcome(&frames), "turn_too_large");
    let last = frames.last().unwrap();
    assert_eq!(last.data["retryable"], false);
    assert!(last.data["message"].as_str().unwrap().contains("max_turn_bytes"), "{last:?}");
    assert_eq!(said(&frames).len(), 3001);
    round.closed().await;
}

/// The whole turn counts, not a single round, and reasoning counts as well.
#[tokio::test]
async fn bytes_of_a_turn_are_counted_over_its_rounds() {
    let mut model = Model::listen();
    let gateway = Gateway::with(model.address, |s| s.config.limits.max_turn_bytes = 3000).await;
    let (mut stream, round) = gateway.begin(&mut model, "s").await;
    let call = call("calculate", &json!({"expression": "1+1"}));
    round.answer(&format!("{}\n{call}", "x".repeat(2000))).await;
    let mut round = model.round().await;
    round.begin().await;
    let reasoning = json!({"reasoning_content": "y".repeat(1000)});
    round.chunk(crate::support::model::delta(&reasoning)).await;
    assert_eq!(outcome(&stream.rest().await), "turn_too_large");
}

/// The oldest turns are dropped first, and the transcript says how many.
#[tokio::test]
async fn bytes_of_a_conversation() {
    let mut model = Model::listen();
    let gateway = Gateway::with(model.address, |s| s.config.server.max_body_bytes = 8 << 20).await;
    let half = tether::limits::session::CONVERSATION_BYTES_MAX / 2;
    for (prompt, kept, dropped) in [
        ("x".repeat(half), &["x"][..], 0),
        ("y".repeat(half - 10_000), &["x", "y"], 0),
        ("z".repeat(10_001), &["y", "z"], 1),
    ] {
        let mut stream = gateway.turn(&json!({"session_id": "s", "prompt": prompt})).await;
        model.round().await.answer("Well.").await;
        stream.rest().await;
        let transcript = gateway.get("/api/v1/sessions/s").await.json();
        let prompts: Vec<_> = transcript["turns"]
            .as_array()
            .unwrap()
            .iter()
            .map(|turn| &turn["prompt"].as_str().unwrap()[..1])
            .collect();
        assert_eq!((&*prompts, &transcript["dropped_turns"]), (kept, &json!(dropped)));
    }
}

/// One letter at a time, each in an event that is forty times as long.
#[tokio::test]
async fn bytes_of_a_turns_events() {
    let mut model = Model::listen();
    let gateway = Gateway::with(model.address, |s| s.config.limits.max_turn_bytes = 3000).await;
    let most = 3000 * tether::limits::turn::EVENTS_FACTOR;
    let (mut stream, mut round) = gateway.begin(&mut model, "s").await;
    round.begin().await;
    let mut frames = stream.up_to("turn_started").await;
    loop {
        round.say("x").await;
        let frame = stream.next().await.expect("a turn ends with its last event");
        let is_last = frame.is_last();
        frames.push(frame);
        if is_last {
            break;
        }
    }
    assert_eq!(outcome(&frames), "turn_too_large");
    assert!(said(&frames).len() < 2500, "{}", said(&frames).len());
    // The letter that exceeded the limit, and the last event.
    let raw = String::from_utf8_lossy(&stream.raw);
    let bytes: usize =
        raw.lines().filter_map(|line| line.strip_prefix("data: ")).map(str::len).sum();
    assert!((most..most + 3000).contains(&bytes), "{bytes} of {most}");
    round.closed().await;
}

#[tokio::test]
async fn bytes_of_a_call() {
    let mut model = Model::listen();
    let gateway =
        Gateway::with(model.address, |s| s.config.stream.parser.max_payload_bytes = 2000).await;
    for (bytes, event) in [(2000, "tool_started"), (2001, "feedback")] {
        let payload = |expression: &str| {
            let call = call("calculate", &json!({"expression": expression}));
            call.strip_prefix("<<function_call>> ").unwrap().to_owned()
        };
        // White space inside the payload counts.
        let short = payload("1+1");
        let padded = short.replacen('{', &format!("{{{}", " ".repeat(bytes - short.len())), 1);
        assert_eq!(padded.len(), bytes);
        let (mut stream, round) = gateway.begin(&mut model, &format!("s{bytes}")).await;
        round.answer(&format!("<<function_call>> {padded}\n")).await;
        let frames = stream.up_to(event).await;
        if event == "feedback" {
            assert_eq!(frames.last().unwrap().data["reason"], "payload_too_large");
        }
        model.round().await.answer("Well.").await;
        assert_eq!(outcome(&stream.rest().await), "stop");
    }
}

/// Calls that are not run may be as long as others, and the model continues after them.
#[tokio::test]
async fn tokens_of_a_request_after_refused_calls() {
    let mut model = Model::listen();
    for (name, argument) in [("no_such_tool", "expression"), ("calculate", "no_such_argument")] {
        let gateway = Gateway::start(&model).await;
        let budget = tether::limits::turn::CONTEXT_BUDGET_TOKENS;
        let (mut stream, mut round) = gateway.begin(&mut model, "s").await;
        let long = |n: usize| call(name, &json!({ argument: format!("{n:060000}") })) + "\n";
        for numbers in [0..15, 15..30] {
            let calls: String = numbers.map(long).collect();
            round.answer_in_pieces(&calls, 32 * 1024).await;
            round = model.round().await;
            let contents = round.request.contents();
            assert!(contents.len() / 3 < budget, "{} bytes", contents.len());
            assert!(contents.contains("bytes left out"), "{contents}");
            let why = if name == "calculate" { "not valid" } else { "no tool" };
            assert_eq!(contents.matches(why).count(), contents.matches("left out").count());
        }
        round.answer("Well.").await;
        assert_eq!(outcome(&stream.rest().await), "stop");
    }
}

#[tokio::test]
async fn rounds_of_a_turn() {
    let mut model = Model::listen();
    let gateway = Gateway::start(&model).await;
    let body = json!({"session_id": "s", "prompt": "Hello?", "max_tool_loops": 2});
    let mut stream = gateway.turn(&body).await;
    for expression in ["1+1", "2+2"] {
        let call = call("calculate", &json!({"expression": expression}));
        model.round().await.answer(&call).await;
    }
    model.round().await.answer("At last.").await;
    let frames = stream.rest().await;
    assert!(frames.iter().any(|frame| frame.event == "loop_limit_reached"));
    assert_eq!(outcome(&frames), "loop_limit");
    assert_eq!(said(&frames), "At last.");
}

/// Going through the calls again for each of them, and through all before it, would take minutes.
#[tokio::test]
async fn calls_of_a_message() {
    let mut model = Model::listen();
    let gateway = Gateway::with(model.address, |s| s.config.limits.max_calls_per_turn = 1000).await;
    let mut stream = gateway.turn(&json!({"session_id": "s", "prompt": "Hello?"})).await;
    let sum = |n: usize| call("calculate", &json!({"expression": format!("1+{n}")})) + "\n";
    let round = model.round().await;
    round.answer_in_pieces(&(0..1000).map(sum).collect::<String>(), 32 * 1024).await;
    model.round().await.answer("Many.").await;
    let frames = stream.rest().await;
    assert_eq!(frames.iter().filter(|frame| frame.event == "tool_completed").count(), 1000);
    assert_eq!(outcome(&frames), "stop");
}
