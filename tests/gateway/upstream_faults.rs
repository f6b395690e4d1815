//! Model servers that refuse, stall, die, lie and flood: each has one clear
//! outcome, and what was said until then is kept.

use serde_json::{Value, json};
use tokio::net::TcpSocket;
use tokio::time::Instant;

use crate::support::events::{names, outcome, said};
use crate::support::gateway::Setup;
use crate::support::model::{CHUNKED, DONE, UNTIL_CLOSE, call, delta, finish, frame, text};
use crate::support::{EventStream, Frame, Gateway, Model, Round, ms, until};

/// A turn whose model does what `fault` says; its frames.
async fn turn(
    change: impl FnOnce(&mut Setup),
    fault: impl AsyncFnOnce(Round, &mut EventStream),
) -> Vec<Frame> {
    let mut model = Model::listen().await;
    let gateway = Gateway::with(model.address, change).await;
    let (mut stream, round) = gateway.begin(&mut model, "s").await;
    fault(round, &mut stream).await;
    let frames = stream.rest().await;
    assert!(model.is_unasked(), "it was asked again");
    // Whatever happened, the session is free and its history valid.
    let again = gateway.whole_turn(&mut model, "s", "Again.").await.rest().await;
    assert_eq!(outcome(&again), "stop");
    frames
}

/// Checks how a turn failed; its message.
#[track_caller]
fn failed(frames: &[Frame], code: &str, retryable: bool) -> String {
    assert_eq!(outcome(frames), code, "{frames:#?}");
    let last = frames.last().unwrap();
    assert_eq!(last.data["retryable"], retryable, "{last:#?}");
    let (kept, said) = (last.data["text"].as_str().unwrap(), said(frames));
    if last.data["text_truncated"].is_null() {
        assert_eq!(kept, said);
    } else {
        assert!(said.starts_with(kept), "{kept:?}");
    }
    last.data["message"].as_str().unwrap().to_owned()
}

fn nothing(_: &mut Setup) {}

/// A port where nobody listens, as long as it is held.
fn nobody() -> TcpSocket {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    socket
}

fn prompt() -> Value {
    json!({"session_id": "s", "prompt": "Hello?"})
}

#[tokio::test]
async fn it_refuses_connections() {
    let nobody = nobody();
    let gateway = Gateway::with(nobody.local_addr().unwrap(), nothing).await;
    let frames = gateway.turn(&prompt()).await.rest().await;
    let message = failed(&frames, "upstream_unavailable", true);
    assert!(message.contains("refused") && message.contains("running?"), "{message}");
}

#[tokio::test]
async fn it_refuses_connections_and_then_serves() {
    let socket = nobody();
    let gateway = Gateway::with(socket.local_addr().unwrap(), nothing).await;
    let begun = Instant::now();
    let mut stream = gateway.turn(&prompt()).await;
    stream.up_to("turn_started").await;
    let mut model = Model::on(socket.listen(16).unwrap());
    model.round().await.answer("At last.").await;
    // Otherwise it would not have been refused first.
    assert!(begun.elapsed() >= tether::limits::upstream::RETRY_BACKOFF);
    assert_eq!(said(&stream.rest().await), "At last.");
}

#[tokio::test]
async fn it_is_busy_twice_and_then_serves() {
    for status in ["503 Busy", "429 Slow down", "502 Bad", "504 Late"] {
        let mut model = Model::listen().await;
        let gateway = Gateway::start(&model).await;
        let (mut stream, mut round) = gateway.begin(&mut model, "s").await;
        for _ in 0..2 {
            round.write(format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\n\r\n")).await;
            round.keep();
            round = model.round().await;
        }
        round.answer("At last.").await;
        assert_eq!(said(&stream.rest().await), "At last.", "{status}");
    }
}

/// An answer with a status, a body and perhaps a header.
fn refusal(status: &str, header: &str, body: &str) -> String {
    let length = body.len();
    format!("HTTP/1.1 {status}\r\n{header}Content-Length: {length}\r\n\r\n{body}")
}

#[tokio::test]
async fn it_stays_busy() {
    let mut model = Model::listen().await;
    let gateway = Gateway::start(&model).await;
    let (mut stream, mut round) = gateway.begin(&mut model, "s").await;
    let body = r#"{"error":{"code":503,"message":"Loading model","type":"unavailable_error"}}"#;
    for attempt in 1.. {
        round.write(refusal("503 Busy", "Retry-After: 0\r\n", body)).await;
        round.keep();
        if attempt == tether::limits::upstream::ATTEMPTS_MAX {
            break;
        }
        round = model.round().await;
    }
    let frames = stream.rest().await;
    let message = failed(&frames, "upstream_unavailable", true);
    assert!(message.contains("503") && message.contains("Loading model"), "{message}");
    assert!(model.is_unasked());
}

#[tokio::test]
async fn it_asks_to_come_back_too_late() {
    let frames = turn(nothing, async |mut round, _| {
        round.write(refusal("503 Busy", "Retry-After: 3600\r\n", "")).await;
        round.keep();
    })
    .await;
    failed(&frames, "upstream_unavailable", true);
}

#[tokio::test]
async fn it_refuses_the_request() {
    for (status, code, retryable, advice) in [
        ("400 Bad", "upstream_error", false, "no such thing"),
        ("401 No", "upstream_error", false, "api_key"),
        ("403 No", "upstream_error", false, "api_key"),
        ("404 No", "upstream_error", false, "base_url"),
        ("500 Oh", "upstream_error", true, "no such thing"),
    ] {
        let frames = turn(nothing, async |mut round, _| {
            round.write(refusal(status, "", r#"{"error":{"message":"no such thing"}}"#)).await;
            round.keep();
        })
        .await;
        let message = failed(&frames, code, retryable);
        assert!(message.contains(&status[..3]) && message.contains(advice), "{message}");
        assert!(message.contains("no such thing"), "{message}");
    }
}

#[tokio::test]
async fn its_error_is_quoted_but_not_at_any_length() {
    let frames = turn(nothing, async |mut round, _| {
        round.write("HTTP/1.1 500 Oh\r\nConnection: close\r\n\r\n").await;
        round.flood("wordy ".repeat(1000).as_bytes(), 1000).await;
    })
    .await;
    let message = failed(&frames, "upstream_error", true);
    assert!(message.contains("wordy wordy"), "{message}");
    assert!(message.len() < 2000, "{}", message.len());
}

#[tokio::test]
async fn it_stalls_inside_its_error() {
    let frames = turn(
        |setup| setup.upstream().idle_timeout = ms(100),
        async |mut round, _| {
            round.write("HTTP/1.1 500 Oh\r\nContent-Length: 100\r\n\r\nhalf of").await;
            round.closed().await;
        },
    )
    .await;
    let message = failed(&frames, "upstream_error", true);
    assert!(message.contains("500") && message.contains("half of"), "{message}");
}

#[tokio::test]
async fn it_answers_with_something_else() {
    for (head, body) in [
        ("Content-Type: application/json\r\n", r#"{"choices":[{"message":{"content":"Hi"}}]}"#),
        ("Content-Type: text/html\r\n", "<h1>Welcome</h1>"),
        ("", "data: x\n\n"),
    ] {
        let frames = turn(nothing, async |mut round, _| {
            round.write(refusal("200 OK", head, body)).await;
            round.keep();
        })
        .await;
        let message = failed(&frames, "upstream_error", false);
        assert!(message.contains("event stream"), "{message}");
    }
}

#[tokio::test]
async fn it_speaks_no_http() {
    for rubbish in
        [&b"\x16\x03\x01\x02\x00"[..], b"220 mail.example ESMTP\r\n", b"HTTP/1.1\r\n\r\n"]
    {
        let frames = turn(nothing, async |mut round, _| round.write(rubbish).await).await;
        failed(&frames, "upstream_error", true);
    }
}

#[tokio::test]
async fn it_stalls_before_the_head() {
    let frames = turn(
        |setup| setup.upstream().idle_timeout = ms(100),
        async |mut round, _| round.closed().await,
    )
    .await;
    failed(&frames, "upstream_timeout", true);
}

#[tokio::test]
async fn it_stalls_before_the_first_frame() {
    let frames = turn(
        |setup| setup.upstream().idle_timeout = ms(100),
        async |mut round, _| {
            round.begin().await;
            round.closed().await;
        },
    )
    .await;
    let message = failed(&frames, "upstream_timeout", true);
    assert!(message.contains("idle_timeout_sec"), "{message}");
}

#[tokio::test]
async fn it_stalls_in_the_middle() {
    let frames = turn(
        |setup| setup.upstream().idle_timeout = ms(100),
        async |mut round, _| {
            round.begin().await;
            round.say("Half").await;
            round.closed().await;
        },
    )
    .await;
    failed(&frames, "upstream_timeout", true);
    assert_eq!(said(&frames), "Half");
}

/// The longest silence counts, not the whole answer's time.
#[tokio::test]
async fn it_is_slow_but_not_silent() {
    let frames = turn(
        |setup| {
            setup.upstream().idle_timeout = ms(200);
            setup.config.stream.keep_alive = ms(20);
        },
        async |mut round, stream| {
            round.begin().await;
            stream.up_to("turn_started").await;
            let begun = Instant::now();
            while begun.elapsed() < ms(500) {
                round.chunk(": still reading the prompt\n\n").await;
                stream.up_to_comment().await;
            }
            round.say("There.").await;
            round.end().await;
        },
    )
    .await;
    assert_eq!((outcome(&frames), &*said(&frames)), ("stop", "There."));
}

#[tokio::test]
async fn it_dies_before_the_head() {
    let frames = turn(nothing, async |round, _| drop(round)).await;
    failed(&frames, "upstream_error", true);
    let frames = turn(nothing, async |round, _| round.reset()).await;
    failed(&frames, "upstream_error", true);
}

#[tokio::test]
async fn it_dies_in_the_middle_of_the_text() {
    for reset in [false, true] {
        for head in [CHUNKED, UNTIL_CLOSE] {
            let frames = turn(nothing, async |mut round, stream| {
                round.write(head).await;
                if head == CHUNKED {
                    round.say("Half").await;
                } else {
                    round.write(text("Half")).await;
                }
                stream.up_to_text("Half").await;
                if reset { round.reset() } else { drop(round) }
            })
            .await;
            assert_eq!(outcome(&frames), "upstream_error");
            assert_eq!(frames[0].data["text"], "Half");
            assert_eq!(frames[0].data["retryable"], true);
        }
    }
}

/// A server that closes well without `[DONE]` and finish reason has lost its model.
#[tokio::test]
async fn it_ends_without_having_finished() {
    let frames = turn(nothing, async |mut round, _| {
        round.begin().await;
        round.say("Half").await;
        round.write("0\r\n\r\n").await;
        round.keep();
    })
    .await;
    let message = failed(&frames, "upstream_error", true);
    assert!(message.contains("finish reason"), "{message}");
}

#[tokio::test]
async fn it_finishes_without_done() {
    for head in [CHUNKED, UNTIL_CLOSE] {
        let frames = turn(nothing, async |mut round, _| {
            round.write(head).await;
            if head == CHUNKED {
                round.chunk(text("Whole.") + &finish("stop")).await;
                round.write("0\r\n\r\n").await;
                round.keep();
            } else {
                round.write(text("Whole.") + &finish("stop")).await;
            }
        })
        .await;
        assert_eq!((outcome(&frames), &*said(&frames)), ("stop", "Whole."));
    }
}

#[tokio::test]
async fn it_says_done_and_nothing_else() {
    let frames = turn(nothing, async |mut round, _| {
        round.begin().await;
        round.say("Whole.").await;
        round.chunk(DONE).await;
        round.write("0\r\n\r\n").await;
        round.keep();
    })
    .await;
    assert_eq!((outcome(&frames), &*said(&frames)), ("stop", "Whole."));
}

#[tokio::test]
async fn it_dies_in_the_middle_of_a_call_which_is_not_run() {
    let call = call("calculate", &json!({"expression": "6 * 7"}));
    for cut in [3, 17, 18, 25, call.len() - 3, call.len() - 1] {
        let frames = turn(nothing, async |mut round, _| {
            round.begin().await;
            round.say("Let me see. ").await;
            round.say(&call[..cut]).await;
        })
        .await;
        failed(&frames, "upstream_error", true);
        assert!(!names(&frames).contains(&"tool_started"), "{cut}: {frames:#?}");
    }
}

/// A call that was whole has begun to run: its round broke, and the turn with it.
#[tokio::test]
async fn it_dies_behind_a_call() {
    let frames = turn(nothing, async |mut round, stream| {
        round.begin().await;
        round.say(&(call("calculate", &json!({"expression": "6 * 7"})) + "\n")).await;
        stream.up_to("tool_completed").await;
        drop(round);
    })
    .await;
    assert_eq!(outcome(&frames), "upstream_error");
}

#[tokio::test]
async fn it_is_cut_by_its_token_limit() {
    let frames = turn(nothing, async |mut round, _| {
        round.begin().await;
        round.chunk(text("Half of") + &finish("length") + DONE).await;
        round.write("0\r\n\r\n").await;
        round.keep();
    })
    .await;
    assert_eq!(outcome(&frames), "length");
}

#[tokio::test]
async fn it_sends_frames_that_are_no_chunks() {
    for rubbish in [
        "data: {\"choices\": [\n\n",
        "data: rubbish\n\n",
        "data: [1, 2]\n\n",
        "data: {\"choices\": [{\"delta\": 7}]}\n\n",
        "data: {\"choices\": \"none\"}\n\n",
    ] {
        let frames = turn(nothing, async |mut round, _| {
            round.begin().await;
            round.chunk(text("Half") + rubbish).await;
            round.closed().await;
        })
        .await;
        let message = failed(&frames, "upstream_error", false);
        assert!(message.contains("cannot be read"), "{rubbish}: {message}");
        assert_eq!(said(&frames), "Half", "{rubbish}");
    }
}

#[tokio::test]
async fn it_sends_bytes_that_are_no_text() {
    let frames = turn(nothing, async |mut round, _| {
        round.begin().await;
        let mut bytes = b"data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"a".to_vec();
        bytes.extend_from_slice(b"\xff\xc3");
        bytes.extend_from_slice(b"b\"}}]}\n\n");
        round.chunk(bytes).await;
        round.end().await;
    })
    .await;
    assert_eq!(outcome(&frames), "stop");
    assert_eq!(said(&frames), "a\u{fffd}\u{fffd}b");
}

#[tokio::test]
async fn it_breaks_the_chunks() {
    for rubbish in ["zz\r\n", "5\r\ndata:xx", "-1\r\n", "ffffffffffffffffff\r\n"] {
        let frames = turn(nothing, async |mut round, _| {
            round.begin().await;
            round.say("Half").await;
            round.write(rubbish).await;
        })
        .await;
        failed(&frames, "upstream_error", true);
        assert_eq!(said(&frames), "Half");
    }
}

#[tokio::test]
async fn it_reports_an_error_inside_its_stream() {
    for (error, words) in [
        (
            r#"data: {"error":{"message":"out of memory","type":"server_error","code":500}}"#,
            "out of memory",
        ),
        (r#"data: {"error":"out of memory"}"#, "out of memory"),
        (r#"data: {"object":"error","message":"out of memory","code":500}"#, "out of memory"),
        ("event: error\ndata: {\"error\":{\"message\":\"out of memory\"}}", "out of memory"),
        (r#"error: {"code":500,"message":"out of memory","type":"server_error"}"#, "out of memory"),
    ] {
        let frames = turn(nothing, async |mut round, _| {
            round.begin().await;
            round.chunk(format!("{}{error}\n\n", text("Half"))).await;
            round.closed().await;
        })
        .await;
        let message = failed(&frames, "upstream_error", true);
        assert!(message.contains(words), "{error}: {message}");
        assert_eq!(said(&frames), "Half", "{error}");
    }
}

#[tokio::test]
async fn it_sends_a_frame_without_end() {
    let frames = turn(nothing, async |mut round, _| {
        round.write(UNTIL_CLOSE).await;
        round.write("data: {\"choices\": \"").await;
        let taken = round.flood("x".repeat(64 * 1024).as_bytes(), 16 * 1024).await;
        assert!(taken < 32 << 20, "{taken} bytes of one frame were taken");
    })
    .await;
    failed(&frames, "upstream_error", false);
}

#[tokio::test]
async fn it_sends_a_line_without_end_and_no_frame() {
    let frames = turn(nothing, async |mut round, _| {
        round.write(UNTIL_CLOSE).await;
        let taken = round.flood("x".repeat(64 * 1024).as_bytes(), 16 * 1024).await;
        assert!(taken < 32 << 20, "{taken} bytes of one line were taken");
    })
    .await;
    failed(&frames, "upstream_error", false);
}

#[tokio::test]
async fn it_sends_a_head_without_end() {
    let frames = turn(nothing, async |mut round, _| {
        round.write("HTTP/1.1 200 OK\r\nX: ").await;
        let taken = round.flood("x".repeat(64 * 1024).as_bytes(), 16 * 1024).await;
        assert!(taken < 32 << 20, "{taken} bytes of a head were taken");
    })
    .await;
    failed(&frames, "upstream_error", true);
}

/// A gigabyte of words: the turn ends at its limit, and the server is let go.
#[tokio::test]
async fn it_sends_a_gigabyte_of_text() {
    for field in ["content", "reasoning_content"] {
        let frames = turn(
            |setup| setup.config.limits.max_turn_bytes = 1 << 20,
            async |mut round, _| {
                round.write(UNTIL_CLOSE).await;
                let words = delta(&json!({field: "word ".repeat(800)})).repeat(16);
                let taken = round.flood(words.as_bytes(), (1 << 30) / words.len()).await;
                assert!(taken < 32 << 20, "{taken} bytes were taken");
            },
        )
        .await;
        failed(&frames[..], "turn_too_large", false);
    }
}

#[tokio::test]
async fn its_connection_serves_the_next_round_and_the_next_turn() {
    let mut model = Model::listen().await;
    let gateway = Gateway::start(&model).await;
    let (mut stream, round) = gateway.begin(&mut model, "s").await;
    let first = round.connection;
    round.answer(&call("calculate", &json!({"expression": "1+1"}))).await;
    let round = model.round().await;
    assert_eq!(round.connection, first);
    round.answer("Two.").await;
    stream.rest().await;
    let (mut stream, round) = gateway.begin(&mut model, "s").await;
    assert_eq!(round.connection, first);
    round.answer("More.").await;
    stream.rest().await;
}

#[tokio::test]
async fn its_idle_connection_died_meanwhile() {
    for reset in [false, true] {
        let mut model = Model::listen().await;
        let gateway = Gateway::start(&model).await;
        let (mut stream, mut round) = gateway.begin(&mut model, "s").await;
        round.begin().await;
        round.chunk(text("First.") + &finish("stop") + DONE).await;
        round.write("0\r\n\r\n").await;
        assert_eq!(outcome(&stream.rest().await), "stop");
        let first = round.connection;
        if reset {
            round.reset();
        } else {
            drop(round);
        }
        let (mut stream, round) = gateway.begin(&mut model, "s").await;
        assert_ne!(round.connection, first);
        round.answer("Second.").await;
        assert_eq!(said(&stream.rest().await), "Second.");
    }
}

/// Its close and the next request cross each other on the way.
#[tokio::test]
async fn its_idle_connection_dies_when_it_is_used_again() {
    for reset in [false, true] {
        let mut model = Model::listen().await;
        let gateway = Gateway::start(&model).await;
        let (mut stream, round) = gateway.begin(&mut model, "s").await;
        let first = round.connection;
        round.answer("First.").await;
        stream.rest().await;
        let (mut stream, round) = gateway.begin(&mut model, "s").await;
        assert_eq!(round.connection, first);
        let asked = round.request.body.clone();
        if reset {
            round.reset();
        } else {
            drop(round);
        }
        let round = model.round().await;
        assert_ne!(round.connection, first);
        assert_eq!(round.request.body, asked);
        round.answer("Second.").await;
        assert_eq!(said(&stream.rest().await), "Second.");
    }
}

/// What follows `[DONE]` on the connection would be read as the next answer.
#[tokio::test]
async fn it_says_more_than_it_should() {
    let mut model = Model::listen().await;
    let gateway = Gateway::start(&model).await;
    let (mut stream, mut round) = gateway.begin(&mut model, "s").await;
    let first = round.connection;
    round.begin().await;
    round.chunk(text("Well.") + &finish("stop") + DONE + &text("More.")).await;
    round.write(format!("0\r\n\r\n{CHUNKED}")).await;
    round.chunk(text("Smuggled.")).await;
    assert_eq!(said(&stream.rest().await), "Well.");
    let (mut stream, round) = gateway.begin(&mut model, "s").await;
    assert_ne!(round.connection, first);
    round.answer("Second.").await;
    assert_eq!(said(&stream.rest().await), "Second.");
}

/// It says that it is done and leaves the answer open: the turn does not wait.
#[tokio::test]
async fn it_does_not_end_its_answer() {
    let mut model = Model::listen().await;
    let gateway = Gateway::start(&model).await;
    let (mut stream, mut round) = gateway.begin(&mut model, "s").await;
    round.begin().await;
    round.chunk(text("Well.") + &finish("stop") + DONE).await;
    let ended = Instant::now();
    assert_eq!(outcome(&stream.rest().await), "stop");
    assert!(ended.elapsed() < tether::limits::upstream::ANSWER_END_TIMEOUT);
    round.closed().await;
}

/// Wherever a stream is cut, its events say the same. Here the pieces go through a
/// socket, which may join them again; the decoders' own tests cut for certain.
#[tokio::test]
async fn it_comes_in_pieces() {
    let words =
        format!("Let me \u{1f9ee} see.\n{}\n", call("calculate", &json!({"expression": "6 * 7"})));
    let mut first = String::new();
    for word in words.split_inclusive(' ') {
        first += &text(word);
    }
    first += &finish("stop");
    first += &frame(&json!({"choices": [], "usage": {
        "prompt_tokens": 5, "completion_tokens": 7, "total_tokens": 12}}));
    first += DONE;
    let first = first.as_bytes();
    let mut model = Model::listen().await;
    let gateway = Gateway::start(&model).await;
    let mut expected = None;
    for cut in (1..first.len()).step_by(3) {
        let (mut stream, mut round) = gateway.begin(&mut model, &format!("s{cut}")).await;
        round.begin().await;
        round.chunk(&first[..cut]).await;
        tokio::task::yield_now().await;
        round.chunk(&first[cut..]).await;
        round.write("0\r\n\r\n").await;
        round.keep();
        model.round().await.answer("It is 42.").await;
        let frames = stream.rest().await;
        let merged = merged(&frames);
        assert_eq!(*expected.get_or_insert_with(|| merged.clone()), merged, "cut at {cut}");
    }
    // And one byte at a time.
    let (mut stream, mut round) = gateway.begin(&mut model, "bytes").await;
    round.begin().await;
    for byte in first {
        round.chunk([*byte]).await;
    }
    round.write("0\r\n\r\n").await;
    round.keep();
    model.round().await.answer("It is 42.").await;
    assert_eq!(expected, Some(merged(&stream.rest().await)));
}

/// Events without what differs from turn to turn, texts joined.
fn merged(frames: &[Frame]) -> Vec<(String, Value)> {
    let mut merged: Vec<(String, Value)> = Vec::new();
    for frame in &frames[1..] {
        let mut data = frame.data.clone();
        if let Some(fields) = data.as_object_mut() {
            fields.remove("duration_ms");
        }
        match merged.last_mut() {
            Some((event, last)) if frame.event == "text_delta" && event == "text_delta" => {
                let text =
                    format!("{}{}", last["text"].as_str().unwrap(), data["text"].as_str().unwrap());
                last["text"] = text.into();
            }
            _ => merged.push((frame.event.clone(), data)),
        }
    }
    merged
}

/// What is sent to a server says who asks and nothing of other clients.
#[tokio::test]
async fn it_is_asked_as_the_standard_says() {
    let mut model = Model::listen().await;
    let gateway = Gateway::with(model.address, |setup| {
        setup.upstream().api_key = Some(tether::config::Secret::new("sesame".to_owned()));
    })
    .await;
    let (_stream, round) = gateway.begin(&mut model, "s").await;
    let head = round.request.head.to_ascii_lowercase();
    assert!(head.starts_with("post /v1/chat/completions http/1.1\r\n"), "{head}");
    assert!(head.contains("\r\nauthorization: bearer sesame\r\n"), "{head}");
    assert!(head.contains("\r\ncontent-type: application/json\r\n"), "{head}");
    assert_eq!(head.matches("\r\nhost: ").count(), 1, "{head}");
    let body = &round.request.body;
    assert_eq!((&body["model"], &body["stream"]), (&json!("fake-model"), &json!(true)));
    assert_eq!(body["stream_options"]["include_usage"], true);
    assert_eq!(body["messages"].as_array().unwrap().last().unwrap()["content"], "Hello?");
}

/// Reading stops where readers cannot follow? No: the turn goes on without them.
#[tokio::test]
async fn a_reader_who_leaves_does_not_stop_its_words() {
    let mut model = Model::listen().await;
    let gateway = Gateway::start(&model).await;
    let (stream, mut round) = gateway.begin(&mut model, "s").await;
    drop(stream);
    round.begin().await;
    let words = "word ".repeat(20_000);
    for _ in 0..10 {
        round.say(&words).await;
    }
    round.end().await;
    until(|| gateway.running.gateway().running() == 0).await;
    let frames = gateway.rejoin("session_id=s", &[]).await.rest().await;
    assert_eq!(said(&frames).len(), words.len() * 10);
    assert_eq!(outcome(&frames), "stop");
}
