//! Rejoining a turn: from every frame, with every reader, under every key.

use serde_json::json;

use crate::support::client::{post, request};
use crate::support::events::{check_order, frames, outcome, said};
use crate::support::gateway::STREAM;
use crate::support::{Ending, Frame, Gateway, Model, Round, ms};

/// A turn of a few frames whose last one is still to come.
async fn half_a_turn(gateway: &Gateway, model: &mut Model) -> (Vec<Frame>, Round) {
    let (mut stream, mut round) = gateway.begin(model, "s").await;
    round.begin().await;
    let mut seen = stream.up_to("turn_started").await;
    for word in ["One", " two", " three"] {
        round.say(word).await;
        seen.extend(stream.up_to_text(word).await);
    }
    (seen, round)
}

#[tokio::test]
async fn a_running_turn_is_rejoined_from_every_frame() {
    let mut model = Model::listen();
    let gateway = Gateway::start(&model).await;
    let (seen, round) = half_a_turn(&gateway, &mut model).await;
    let mut streams = Vec::new();
    for after in 0..=seen.len() {
        let id = format!("Last-Event-ID: 1-{after}");
        streams.push((after, gateway.rejoin("session_id=s", &[&id]).await));
        let query = format!("session_id=s&last_event_id=1-{after}");
        streams.push((after, gateway.rejoin(&query, &[]).await));
    }
    round.end().await;
    for (after, mut stream) in streams {
        let rest = stream.rest().await;
        assert_eq!(rest[..seen.len() - after], seen[after..], "after {after}");
        assert_eq!(rest.len(), seen.len() - after + 1);
    }
}

/// Some proxies hold the head of an answer until its body begins, and the model may be silent for long.
#[tokio::test]
async fn a_quiet_turn_is_rejoined_with_a_comment() {
    let mut model = Model::listen();
    let gateway = Gateway::start(&model).await;
    let (seen, round) = half_a_turn(&gateway, &mut model).await;
    let id = format!("Last-Event-ID: 1-{}", seen.len());
    let mut stream = gateway.rejoin("session_id=s", &[&id]).await;
    stream.comments(1).await;
    round.end().await;
    stream.rest().await;
    assert!(stream.raw.starts_with(b": keep-alive\n"));
    assert_eq!(stream.comments, 1);
}

#[tokio::test]
async fn a_finished_turn_is_rejoined_from_every_frame() {
    let mut model = Model::listen();
    let gateway = Gateway::start(&model).await;
    let mut stream = gateway.whole_turn(&mut model, "s", "Well.").await;
    let all = stream.rest().await;
    for after in 0..all.len() {
        let id = format!("Last-Event-ID: 1-{after}");
        let mut again = gateway.rejoin("session_id=s", &[&id]).await;
        assert_eq!(again.rest().await, all[after..]);
    }
    // Without an id, the stream is the same byte for byte.
    let mut again = gateway.rejoin("session_id=s", &[]).await;
    again.rest().await;
    assert_eq!(again.raw, stream.raw);
    for name in ["content-type", "cache-control", "x-accel-buffering", "location"] {
        assert_eq!(again.head.header(name), stream.head.header(name), "{name}");
    }
}

#[tokio::test]
async fn nothing_follows_the_last_frame() {
    let mut model = Model::listen();
    let gateway = Gateway::start(&model).await;
    let all = gateway.whole_turn(&mut model, "s", "Well.").await.rest().await;
    let id = format!("Last-Event-ID: 1-{}", all.len());
    let reply = gateway.exchange(request("GET", &rejoin_path("session_id=s"), &[&id], "")).await;
    assert_eq!((reply.status(), &*reply.body), (204, &b""[..]));
}

fn rejoin_path(query: &str) -> String {
    format!("{STREAM}?{query}")
}

#[tokio::test]
async fn an_impossible_rejoin_is_refused_with_its_reason() {
    let mut model = Model::listen();
    let gateway = Gateway::start(&model).await;
    gateway.whole_turn(&mut model, "s", "Well.").await.rest().await;
    for (query, status, code, param) in [
        ("", 400, "invalid_request", Some("session_id")),
        ("session_id=", 400, "invalid_request", Some("session_id")),
        ("session_id=a+b", 400, "invalid_request", Some("session_id")),
        ("session_id=%ff", 400, "invalid_request", Some("session_id")),
        ("session_id=unknown", 404, "not_found", None),
        ("session_id=s&turn_id=unknown", 404, "not_found", None),
        ("session_id=s&last_event_id=1-99", 410, "gone", None),
        ("session_id=s&last_event_id=2-1", 410, "gone", None),
        ("session_id=s&last_event_id=0-1", 410, "gone", None),
        ("session_id=s&last_event_id=99999999999-1", 410, "gone", None),
        ("session_id=s&last_event_id=1-99999999999999999999999", 410, "gone", None),
        ("session_id=s&last_event_id=1", 400, "invalid_request", Some("Last-Event-ID")),
        ("session_id=s&last_event_id=1-", 400, "invalid_request", Some("Last-Event-ID")),
        ("session_id=s&last_event_id=-1", 400, "invalid_request", Some("Last-Event-ID")),
        ("session_id=s&last_event_id=1-2-3", 400, "invalid_request", Some("Last-Event-ID")),
        ("session_id=s&last_event_id=1-%2B2", 400, "invalid_request", Some("Last-Event-ID")),
    ] {
        let reply = gateway.get(&rejoin_path(query)).await;
        let expected = (status, code.to_owned(), param.map(str::to_owned));
        assert_eq!(reply.refusal(), expected, "{query}");
    }
}

#[tokio::test]
async fn u64_max_is_an_unknown_id() {
    let mut model = Model::listen();
    let gateway = Gateway::start(&model).await;
    let (_stream, _round) = gateway.begin(&mut model, "s").await;
    let path = rejoin_path("session_id=s&last_event_id=1-18446744073709551615");
    assert_eq!(gateway.get(&path).await.status(), 410);
}

#[tokio::test]
async fn the_header_wins_over_the_query() {
    let mut model = Model::listen();
    let gateway = Gateway::start(&model).await;
    gateway.whole_turn(&mut model, "s", "Well.").await.rest().await;
    let query = "session_id=s&last_event_id=1-1";
    let mut stream = gateway.rejoin(query, &["Last-Event-ID: 1-2"]).await;
    assert_eq!(stream.rest().await[0].id, "1-3");
}

#[tokio::test]
async fn a_query_is_percent_decoded_and_its_first_value_counts() {
    let mut model = Model::listen();
    let gateway = Gateway::start(&model).await;
    gateway.whole_turn(&mut model, "a:b", "Well.").await.rest().await;
    for query in [
        "session_id=a%3Ab",
        "session_id=a%3ab",
        "session_id=a:b",
        "session%5Fid=a:b",
        "session_id=a:b&session_id=c",
        "x=1&session_id=a:b&&y",
    ] {
        assert_eq!(outcome(&gateway.rejoin(query, &[]).await.rest().await), "stop", "{query}");
    }
    assert_eq!(gateway.get(&rejoin_path("session_id=c&session_id=a:b")).await.status(), 404);
}

#[tokio::test]
async fn several_readers_follow_one_turn() {
    let mut model = Model::listen();
    let gateway = Gateway::start(&model).await;
    let (mut first, mut round) = gateway.begin(&mut model, "s").await;
    round.begin().await;
    round.say("One").await;
    first.up_to_text("One").await;
    let mut streams = Vec::new();
    for _ in 0..5 {
        streams.push(gateway.rejoin("session_id=s", &[]).await);
    }
    for stream in &mut streams {
        stream.up_to_text("One").await;
    }
    round.say(" two").await;
    for stream in &mut streams {
        stream.up_to_text(" two").await;
    }
    // One of them leaves, and the others do not notice.
    drop(streams.pop());
    drop(first);
    round.say(" three").await;
    round.end().await;
    for stream in &mut streams {
        assert_eq!(said(&stream.rest().await), " three");
    }
}

#[tokio::test]
async fn a_killed_connection_is_resumed_without_gaps_or_duplicates() {
    let mut model = Model::listen();
    let gateway = Gateway::start(&model).await;
    let (mut stream, mut round) = gateway.begin(&mut model, "s").await;
    round.begin().await;
    let mut all = Vec::new();
    for part in 0..20 {
        let word = format!("{part} ");
        round.say(&word).await;
        all.extend(stream.up_to_text(&word).await);
        stream.client.socket.set_zero_linger().unwrap();
        drop(stream);
        let id = format!("Last-Event-ID: {}", all.last().unwrap().id);
        stream = gateway.rejoin("session_id=s", &[&id]).await;
    }
    round.end().await;
    all.extend(stream.rest().await);
    check_order(&all);
    assert_eq!(all[0].id, "1-1");
    assert_eq!(said(&all), (0..20).map(|part| format!("{part} ")).collect::<Vec<_>>().concat());
}

#[tokio::test]
async fn an_older_turn_is_kept_for_a_while_and_then_gone() {
    let mut model = Model::listen();
    let gateway = Gateway::start(&model).await;
    let mut turns = Vec::new();
    for part in 0..6 {
        let frames = gateway.whole_turn(&mut model, "s", &part.to_string()).await.rest().await;
        turns.push(frames[0].data["turn_id"].as_str().unwrap().to_owned());
    }
    for (part, turn_id) in turns.iter().enumerate() {
        let query = format!("session_id=s&turn_id={turn_id}");
        if part < turns.len() - tether::limits::session::TURN_LOGS_MAX {
            assert_eq!(gateway.get(&rejoin_path(&query)).await.refusal().0, 410);
        } else {
            let frames = gateway.rejoin(&query, &[]).await.rest().await;
            assert_eq!(said(&frames), part.to_string());
        }
    }
}

#[tokio::test]
async fn a_key_begins_one_turn_only() {
    let mut model = Model::listen();
    let gateway = Gateway::start(&model).await;
    let body = json!({"session_id": "s", "prompt": "Hello?"});
    let key = ["Idempotency-Key: k"];
    let mut first = gateway.turn_with(&key, &body).await;
    let round = model.round().await;
    let mut during = gateway.turn_with(&key, &body).await;
    round.answer("Once.").await;
    let all = first.rest().await;
    assert_eq!(during.rest().await, all);
    let mut after = gateway.turn_with(&key, &body).await;
    assert_eq!(after.rest().await, all);
    assert_eq!(after.head.header("location"), first.head.header("location"));
    assert!(model.has_no_requests());

    // Another key, or the same key in another session, begins a turn of its own.
    for (key, session) in [("Idempotency-Key: l", "s"), ("Idempotency-Key: k", "t")] {
        let body = json!({"session_id": session, "prompt": "Hello?"});
        let mut other = gateway.turn_with(&[key], &body).await;
        model.round().await.answer("Twice.").await;
        assert_eq!(said(&other.rest().await), "Twice.");
    }
}

/// A client that repeats its request with its key and its last id gets the rest.
#[tokio::test]
async fn a_key_sent_again_resumes_after_what_was_seen() {
    let mut model = Model::listen();
    let gateway = Gateway::start(&model).await;
    let body = json!({"session_id": "s", "prompt": "Hello?"});
    let key = "Idempotency-Key: k";
    // A turn that only begins has no frames to skip.
    let mut first = gateway.turn_with(&[key, "Last-Event-ID: 1-7"], &body).await;
    model.round().await.answer("Once.").await;
    let all = first.rest().await;
    let mut again = gateway.turn_with(&[key, "Last-Event-ID: 1-1"], &body).await;
    assert_eq!(again.rest().await, all[1..]);
    let last = format!("Last-Event-ID: 1-{}", all.len());
    let nothing = post(STREAM, &[key, &last], &body.to_string());
    assert_eq!(gateway.exchange(nothing).await.status(), 204);
    assert!(model.has_no_requests());
}

#[tokio::test]
async fn one_key_sent_many_times_at_once_begins_one_turn() {
    let mut model = Model::listen();
    let gateway = Gateway::start(&model).await;
    let body = json!({"session_id": "s", "prompt": "Hello?"}).to_string();
    let mut clients = Vec::new();
    for _ in 0..20 {
        clients.push(gateway.client().await);
    }
    for client in &mut clients {
        client.send(post(STREAM, &["Idempotency-Key: k"], &body)).await;
    }
    model.round().await.answer("Once.").await;
    for mut client in clients {
        let reply = client.reply().await;
        assert_eq!(reply.status(), 200);
        assert_eq!(said(&frames(&reply.body)), "Once.");
    }
    assert!(model.has_no_requests());
}

#[tokio::test]
async fn a_key_whose_turn_is_no_longer_kept_is_gone() {
    let mut model = Model::listen();
    let gateway = Gateway::start(&model).await;
    let body = json!({"session_id": "s", "prompt": "Hello?"});
    let mut stream = gateway.turn_with(&["Idempotency-Key: k"], &body).await;
    model.round().await.answer("Once.").await;
    stream.rest().await;
    for _ in 0..tether::limits::session::TURN_LOGS_MAX {
        gateway.whole_turn(&mut model, "s", "More.").await.rest().await;
    }
    let again = post(STREAM, &["Idempotency-Key: k"], &body.to_string());
    assert_eq!(gateway.exchange(again).await.refusal().0, 410);
    assert!(model.has_no_requests());
}

/// A client that lost its answer repeats the request with its key and takes no second place.
#[tokio::test]
async fn a_known_key_is_served_when_all_places_are_taken() {
    let mut model = Model::listen();
    let gateway = Gateway::with(model.address, |s| s.config.server.max_concurrent_turns = 1).await;
    let body = json!({"session_id": "s", "prompt": "Hello?"});
    let _first = gateway.turn_with(&["Idempotency-Key: k"], &body).await;
    let round = model.round().await;
    let mut again = gateway.turn_with(&["Idempotency-Key: k"], &body).await;
    round.answer("Once.").await;
    assert_eq!(said(&again.rest().await), "Once.");
}

#[tokio::test]
async fn a_second_turn_in_a_busy_session_is_refused() {
    let mut model = Model::listen();
    let gateway = Gateway::start(&model).await;
    let (mut stream, round) = gateway.begin(&mut model, "s").await;
    let body = json!({"session_id": "s", "prompt": "And?"});
    let (status, code, _) = gateway.post(STREAM, &body).await.refusal();
    assert_eq!((status, &*code), (409, "turn_in_progress"));
    round.answer("Well.").await;
    assert_eq!(outcome(&stream.rest().await), "stop");
    assert!(model.has_no_requests());
}

/// The last event says that the session is free, so it must be free.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_next_turn_may_begin_as_soon_as_the_last_event_is_seen() {
    let mut model = Model::listen();
    let gateway = Gateway::with(model.address, |s| s.config.server.max_concurrent_turns = 1).await;
    for _ in 0..200 {
        let mut stream = gateway.whole_turn(&mut model, "s", "Well.").await;
        while !stream.next().await.expect("a last event").is_last() {}
    }
}

#[tokio::test]
async fn the_conversation_continues_across_turns() {
    let mut model = Model::listen();
    let gateway = Gateway::start(&model).await;
    gateway.whole_turn(&mut model, "s", "The first answer.").await.rest().await;
    let (_stream, round) = gateway.begin(&mut model, "s").await;
    assert!(round.request.contents().contains("The first answer."));
}

#[tokio::test]
async fn a_session_without_a_name_gets_one() {
    let mut model = Model::listen();
    let gateway = Gateway::start(&model).await;
    let mut stream = gateway.turn(&json!({"prompt": "Hello?"})).await;
    model.round().await.answer("Well.").await;
    let all = stream.rest().await;
    let session = all[0].data["session_id"].as_str().unwrap();
    assert_eq!(gateway.rejoin(&format!("session_id={session}"), &[]).await.rest().await, all);
}

#[tokio::test]
async fn the_transcript_has_finished_and_running_turns() {
    let mut model = Model::listen();
    let gateway = Gateway::start(&model).await;
    gateway.whole_turn(&mut model, "a:b", "Well.").await.rest().await;
    let (mut stream, round) = gateway.begin(&mut model, "a:b").await;
    // `encodeURIComponent` escapes the colon.
    for path in ["/api/v1/sessions/a:b", "/api/v1/sessions/a%3Ab", "/api/v1/sessions/a%3ab"] {
        let transcript = gateway.get(path).await.json();
        assert_eq!(transcript["session_id"], "a:b");
        assert_eq!(transcript["turns"].as_array().unwrap().len(), 1);
        assert!(transcript["turns"][0].to_string().contains("Well."), "{transcript}");
        let first = stream.head.header("location").unwrap();
        assert!(first.ends_with(transcript["running_turn_id"].as_str().unwrap()));
    }
    round.answer("More.").await;
    stream.rest().await;
    let transcript = gateway.get("/api/v1/sessions/a:b").await.json();
    assert_eq!(transcript["turns"].as_array().unwrap().len(), 2);
    assert!(transcript["running_turn_id"].is_null());
}

#[tokio::test]
async fn an_unknown_session_is_not_found() {
    let model = Model::listen();
    let gateway = Gateway::start(&model).await;
    for path in ["unknown", "", "a/b", "%ff", "a%2Fb"] {
        let path = format!("/api/v1/sessions/{path}");
        assert_eq!(gateway.get(&path).await.status(), 404, "{path}");
        let delete = gateway.exchange(request("DELETE", &path, &[], "")).await;
        assert_eq!(delete.status(), 404, "{path}");
    }
}

#[tokio::test]
async fn deleting_a_session_ends_its_turn_and_leaves_nothing() {
    let mut model = Model::listen();
    let gateway = Gateway::start(&model).await;
    gateway.whole_turn(&mut model, "a:b", "Secret.").await.rest().await;
    let (mut stream, mut round) = gateway.begin(&mut model, "a:b").await;
    let delete = request("DELETE", "/api/v1/sessions/a%3Ab", &[], "");
    assert_eq!(gateway.exchange(&delete).await.status(), 204);
    assert_eq!(outcome(&stream.rest().await), "cancelled");
    round.closed().await;
    assert_eq!(gateway.exchange(&delete).await.status(), 404);
    assert_eq!(gateway.get("/api/v1/sessions/a:b").await.status(), 404);
    assert_eq!(gateway.get(&rejoin_path("session_id=a:b")).await.status(), 404);
    // A session of the same name starts afresh.
    let (_stream, round) = gateway.begin(&mut model, "a:b").await;
    assert!(!round.request.contents().contains("Secret."));
}

#[tokio::test]
async fn a_reader_that_waits_for_the_end_gets_it_once() {
    let mut model = Model::listen();
    let gateway =
        Gateway::with(model.address, |setup| setup.config.stream.keep_alive = ms(10)).await;
    let (seen, round) = half_a_turn(&gateway, &mut model).await;
    let id = format!("Last-Event-ID: 1-{}", seen.len());
    let mut stream = gateway.rejoin("session_id=s", &[&id]).await;
    stream.comments(2).await;
    round.end().await;
    let rest = stream.rest().await;
    assert_eq!((rest.len(), stream.ending), (1, Some(Ending::Well)));
}

#[tokio::test]
async fn a_header_that_may_occur_once_is_refused_if_it_occurs_twice() {
    let model = Model::listen();
    let gateway = Gateway::start(&model).await;
    let keys = ["Idempotency-Key: a", "Idempotency-Key: b"];
    let reply = gateway.exchange(post(STREAM, &keys, r#"{"prompt":"Hello?"}"#)).await;
    assert_eq!((reply.head.status, reply.refusal().1), (400, "invalid_request".into()));
    assert!(reply.message().contains("Idempotency-Key only once"), "{}", reply.message());
    let ids = ["Last-Event-ID: 1-1", "Last-Event-ID: 1-2"];
    let path = format!("{STREAM}?session_id=s");
    let reply = gateway.exchange(request("GET", &path, &ids, "")).await;
    assert!(reply.message().contains("Last-Event-ID only once"), "{}", reply.message());
}
