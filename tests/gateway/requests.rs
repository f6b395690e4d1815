//! Requests that are unusual, broken, slow or numerous.

use serde_json::json;

use crate::support::client::{post, request};
use crate::support::events::said;
use crate::support::gateway::{CANCEL, STREAM, Setup};
use crate::support::h2::Connection;
use crate::support::process::Process;
use crate::support::{Gateway, Model, ms};

#[tokio::test]
async fn a_head_that_never_ends() {
    let model = Model::listen();
    let gateway = Gateway::with(model.address, |s| s.timeouts.head = ms(50)).await;
    for start in ["", "G", "PRI * HTTP/2.0\r\n", "GET /healthz HTTP/1.1\r\nHost: local"] {
        let mut client = gateway.client().await;
        client.send(start).await;
        let answer = String::from_utf8(client.closed().await).unwrap();
        assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 408"), "{start:?}: {answer}");
    }
}

/// There are more silent connections than the gateway can hold, so the oldest make room.
#[tokio::test]
async fn silent_connections_block_no_clients() {
    let gateway = Process::start("").await;
    gateway.limit_files(128);
    let mut first = gateway.client().await;
    first.send(request("GET", "/healthz", &[], "")).await;
    assert_eq!(first.reply().await.status(), 200);
    let mut second = Connection::open(gateway.address, 64 * 1024).await;
    assert_eq!(second.send("GET", "/healthz", "").await.unwrap().status(), 200);
    let mut silent = Vec::new();
    for _ in 0..400 {
        silent.push(gateway.client().await);
    }
    assert_eq!(gateway.get("/healthz").await.status(), 200);
    assert_eq!(silent[0].closed().await, b"");
    // A client that has sent a request keeps its place.
    first.send(request("GET", "/healthz", &[], "")).await;
    assert_eq!(first.reply().await.status(), 200);
    assert_eq!(second.send("GET", "/healthz", "").await.unwrap().status(), 200);
}

#[tokio::test]
async fn a_connection_that_is_not_used_again_is_closed() {
    let model = Model::listen();
    let gateway = Gateway::with(model.address, |s| s.timeouts.head = ms(50)).await;
    let mut client = gateway.client().await;
    client.send(request("GET", "/healthz", &[], "")).await;
    assert_eq!(client.reply().await.status(), 200);
    assert_eq!(client.closed().await, b"");
}

/// The timeout for the head does not apply to the turn.
#[tokio::test]
async fn a_stream_outlives_the_time_for_a_head() {
    let mut model = Model::listen();
    let gateway = Gateway::with(model.address, |s| {
        s.timeouts.head = ms(20);
        s.config.stream.keep_alive = ms(25);
    })
    .await;
    let (mut stream, round) = gateway.begin(&mut model, "s").await;
    stream.up_to("turn_started").await;
    stream.comments(4).await;
    round.answer("Still here.").await;
    assert_eq!(said(&stream.rest().await), "Still here.");
}

#[tokio::test]
async fn a_body_that_never_ends() {
    let model = Model::listen();
    let gateway = Gateway::with(model.address, |s| s.timeouts.body = ms(50)).await;
    for headers in ["Content-Length: 100", "Transfer-Encoding: chunked"] {
        let mut client = gateway.client().await;
        let start = if headers.contains("chunked") { "1\r\n{\r\n" } else { "{" };
        client.send(request("POST", STREAM, &[headers], start)).await;
        let reply = client.reply().await;
        let (status, code, _) = reply.refusal();
        assert_eq!((status, &*code), (408, "body_timeout"));
        // What follows could be anything, so the connection cannot be used again.
        assert_eq!(client.closed().await, b"");
    }
    assert!(model.has_no_requests());
}

#[tokio::test]
async fn an_incomplete_body() {
    use tokio::io::AsyncWriteExt as _;

    let model = Model::listen();
    let gateway = Gateway::start(&model).await;
    let mut client = gateway.client().await;
    client.send(request("POST", STREAM, &["Content-Length: 100"], "{\"prompt\":")).await;
    client.socket.shutdown().await.unwrap();
    client.closed().await;
    // The server is unaffected.
    assert_eq!(gateway.get("/healthz").await.status(), 200);
    assert!(model.has_no_requests());
}

#[tokio::test]
async fn a_request_byte_by_byte() {
    let mut model = Model::listen();
    let gateway = Gateway::start(&model).await;
    let mut client = gateway.client().await;
    client.socket.set_nodelay(true).unwrap();
    for byte in post(STREAM, &[], r#"{"prompt":"Hello?"}"#).bytes() {
        client.send([byte]).await;
        tokio::task::yield_now().await;
    }
    model.round().await.answer("Well.").await;
    assert_eq!(said(&client.events().await.rest().await), "Well.");
}

#[tokio::test]
async fn requests_that_are_sent_before_the_first_answer() {
    let mut model = Model::listen();
    let gateway = Gateway::start(&model).await;
    let mut client = gateway.client().await;
    let turn = |session: &str| {
        post(STREAM, &[], &json!({"session_id": session, "prompt": "Hello?"}).to_string())
    };
    let all = [
        request("GET", "/healthz", &[], ""),
        turn("a"),
        request("GET", "/nowhere", &[], ""),
        turn("b"),
        request("HEAD", "/healthz", &["Connection: close"], ""),
    ];
    client.send(all.concat()).await;
    assert_eq!(client.reply().await.status(), 200);
    model.round().await.answer("First.").await;
    let first = client.reply().await;
    assert_eq!(said(&crate::support::events::frames(&first.body)), "First.");
    assert_eq!(client.reply().await.status(), 404);
    model.round().await.answer("Second.").await;
    let second = client.reply().await;
    assert_eq!(said(&crate::support::events::frames(&second.body)), "Second.");
    let rest = String::from_utf8(client.closed().await).unwrap();
    assert!(rest.starts_with("HTTP/1.1 200 OK\r\n") && rest.ends_with("\r\n\r\n"), "{rest}");
}

#[tokio::test]
async fn rubbish_is_refused_and_the_connection_closed() {
    let model = Model::listen();
    let gateway = Gateway::start(&model).await;
    for rubbish in [
        &b"\0\0\0\0\r\n\r\n"[..],
        b"HELO mail.example\r\n\r\n",
        b"GET\r\n\r\n",
        b"GET / HTTP/9.9\r\nHost: localhost\r\n\r\n",
        b"GET /\xff HTTP/1.1\r\nHost: localhost\r\n\r\n\x16\x03\x01",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"GET / HTTP/1.1\r\nHost: localhost\r\nNo colon\r\n\r\n",
        b"GET / HTTP/1.1\r\n Folded: x\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\nrubbish that is no frame of anything",
    ] {
        let mut client = gateway.client().await;
        client.send(rubbish).await;
        tokio::io::AsyncWriteExt::shutdown(&mut client.socket).await.unwrap();
        let answer = client.closed().await;
        let text = String::from_utf8_lossy(&answer);
        let is_h2 = rubbish.starts_with(b"PRI");
        let refused = ["HTTP/1.1 4", "HTTP/1.1 5"].iter().any(|start| text.starts_with(start));
        assert!(text.is_empty() || refused || is_h2, "{rubbish:?}: {text}");
    }
    assert_eq!(gateway.get("/healthz").await.status(), 200);
    assert!(model.has_no_requests());
}

/// A request that two servers read differently can smuggle another past one of them.
#[tokio::test]
async fn two_ways_to_know_a_bodys_end_are_refused() {
    let model = Model::listen();
    let gateway = Gateway::start(&model).await;
    let mut client = gateway.client().await;
    let body = "0\r\n\r\nGET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n";
    let length = format!("Content-Length: {}", body.len());
    client.send(request("POST", STREAM, &[&length, "Transfer-Encoding: chunked"], body)).await;
    // Chunked wins (RFC 9112, section 6.3), and the rest is not a second request on this
    // connection; or the request is refused outright.
    let head = client.reply().await;
    assert_eq!(head.status(), 400);
    assert!(model.has_no_requests());
}

/// The body could not be read anyway (RFC 9112, section 6.1).
#[tokio::test]
async fn transfer_codings_other_than_chunked_are_not_implemented() {
    let model = Model::listen();
    let gateway = Gateway::start(&model).await;
    let body = r#"{"prompt":"Hello?"}"#;
    let body = format!("{:x}\r\n{body}\r\n0\r\n\r\n", body.len());
    for (path, method) in [(STREAM, "POST"), (CANCEL, "POST"), ("/healthz", "GET")] {
        for headers in [
            &["Transfer-Encoding: gzip, chunked"][..],
            &["transfer-encoding: GZIP", "Transfer-Encoding: chunked"],
            &["Transfer-Encoding: identity,chunked"],
        ] {
            let reply = gateway.exchange(request(method, path, headers, &body)).await;
            let (status, code, _) = reply.refusal();
            assert_eq!((status, &*code), (501, "unsupported_transfer_encoding"), "{headers:?}");
        }
    }
    // Without a final `chunked`, the end of the body is unknown (section 6.3).
    let mut client = gateway.client().await;
    client.send(request("POST", STREAM, &["Transfer-Encoding: chunked, gzip"], &body)).await;
    assert_eq!(client.head().await.status, 400);
    assert!(model.has_no_requests());
}

/// Not even where the body would be read as it is.
#[tokio::test]
async fn compressed_bodies_are_refused() {
    let model = Model::listen();
    let gateway = Gateway::start(&model).await;
    let body = r#"{"prompt":"Hello?"}"#;
    let length = format!("Content-Length: {}", body.len());
    for path in [STREAM, CANCEL, "/v1/chat/completions", "/v1/messages"] {
        for coding in ["gzip", "Zstd", "identity, br"] {
            let headers = [&*length, &format!("Content-Encoding: {coding}")];
            let reply = gateway.exchange(request("POST", path, &headers, body)).await;
            assert_eq!(reply.head.status, 415, "{path} {coding}");
            assert_eq!(reply.head.header("accept-encoding"), Some("identity"));
        }
    }
    let headers = [&*length, "Content-Encoding: gzip"];
    let refusal = gateway.exchange(request("POST", STREAM, &headers, body)).await.refusal();
    assert_eq!((refusal.0, &*refusal.1), (415, "unsupported_content_encoding"));
    assert!(model.has_no_requests());
    // This one says that nothing was done to it (RFC 9110, section 12.5.3).
    let headers = [&*length, "Content-Encoding: identity"];
    let reply = gateway.exchange(request("POST", CANCEL, &headers, body)).await;
    assert_eq!(reply.head.status, 400);
}

/// SDKs look for all four keys.
#[tokio::test]
async fn an_unknown_path_below_v1_has_openais_form() {
    let (_model, gateway) = Gateway::with_model(|_| {}).await;
    for path in ["/v1/embeddings", "/v1/completions", "/v1/responses/", "/v1/v1/messages"] {
        let reply = gateway.get(path).await;
        assert_eq!(reply.status(), 404, "{path}");
        let error = reply.json()["error"].clone();
        assert_eq!(
            (&error["type"], &error["code"], error.get("param")),
            (&json!("not_found_error"), &json!("not_found"), Some(&json!(null))),
            "{path}"
        );
    }
    let error = gateway.get("/v1/messages/batches").await.json();
    assert_eq!(
        (&error["type"], &error["error"]["type"]),
        (&json!("error"), &json!("not_found_error"))
    );
}

#[tokio::test]
async fn unknown_addresses_and_methods() {
    let model = Model::listen();
    let gateway = Gateway::start(&model).await;
    for path in ["/nowhere", "/api/v1/chat/stream/", "/api", "//", "/healthz/", "/HEALTHZ", "/%2e"]
    {
        let (status, code, _) = gateway.get(path).await.refusal();
        assert_eq!((status, &*code), (404, "not_found"), "{path}");
    }
    for (method, path, allowed) in [
        ("PUT", STREAM, "GET, POST"),
        ("HEAD", STREAM, "GET, POST"),
        ("GET", "/api/v1/chat/cancel", "POST"),
        ("POST", "/api/v1/sessions/s", "GET, DELETE"),
        ("POST", "/api/v1/tools", "GET"),
        ("DELETE", "/healthz", "GET"),
        ("BREW", "/metrics", "GET"),
    ] {
        let mut client = gateway.client().await;
        client.send(request(method, path, &["Connection: close"], "")).await;
        let head = client.head().await;
        assert_eq!(head.status, 405, "{method} {path}");
        assert_eq!(head.header("allow"), Some(allowed), "{method} {path}");
        let body = client.closed().await;
        assert_eq!(body.is_empty(), method == "HEAD", "{method} {path}");
    }
}

#[tokio::test]
async fn a_head_request_has_the_head_of_the_answer_and_no_body() {
    let model = Model::listen();
    let gateway = Gateway::start(&model).await;
    for path in ["/healthz", "/readyz", "/metrics", "/", "/api/v1/tools"] {
        let whole = gateway.get(path).await;
        let mut client = gateway.client().await;
        client.send(request("HEAD", path, &["Connection: close"], "")).await;
        let head = client.head().await;
        assert_eq!(head.status, 200, "{path}");
        let media_type = "content-type";
        assert_eq!(head.header(media_type), whole.head.header(media_type), "{path}");
        assert_eq!(client.closed().await, b"", "{path}");
    }
}

#[tokio::test]
async fn every_answer_names_its_request() {
    let model = Model::listen();
    let gateway = Gateway::start(&model).await;
    let id = async |header: &str| {
        let mut client = gateway.client().await;
        client.send(request("GET", "/nowhere", &[header], "")).await;
        client.head().await.header("x-request-id").unwrap().to_owned()
    };
    assert_eq!(id("X-Request-Id: mine-1").await, "mine-1");
    assert_eq!(id(&format!("X-Request-Id: {}", "x".repeat(128))).await, "x".repeat(128));
    // An id that cannot be logged is replaced.
    for bad in ["", "a b", "\u{e9}", &"x".repeat(129)] {
        assert_eq!(id(&format!("X-Request-Id: {bad}")).await.len(), 36, "{bad}");
    }
    assert_ne!(id("X: y").await, id("X: y").await);
}

#[tokio::test]
async fn json_that_cannot_be_read_is_refused_in_plain_words() {
    let model = Model::listen();
    let gateway = Gateway::start(&model).await;
    for (body, place) in [
        (&b""[..], "the body is empty; send a JSON object"),
        (b"{\"prompt\": }", "line 1 column 12"),
        (b"{\"prompt\":\n  x}", "line 2 column 3"),
        (b"{\"prompt\": \"a\xff\"}", "line 1 column"),
        (b"{\"prompt\": \"a\"} x", "line 1 column 17"),
        (b"{\"prompt\": \"a\"", "it ends too early at line 1 column 14"),
        (b"{\"prompt\": \"a\", \"prompt\": \"b\"}", "prompt occurs more than once"),
        (b"{\"prompt\": 1}", "prompt must be a string, not 1"),
        (b"{\"promt\": \"a\"}", "promt is not a known field; known here: session_id, prompt,"),
        (b"{\"prompt\": \"\\ud800\"}", "line 1 column"),
        (b"[]", "the body must be an object, not a list"),
        (b"null", "the body must be an object, not null"),
        (b"\xef\xbb\xbf{}", "line 1 column 1"),
    ] {
        let length = format!("Content-Length: {}", body.len());
        let mut bytes = request("POST", STREAM, &[&length], "").into_bytes();
        bytes.extend_from_slice(body);
        let reply = gateway.exchange(bytes).await;
        assert_eq!(reply.refusal().0, 400, "{body:?}");
        assert!(reply.message().contains(place), "{}", reply.message());
    }
    let deep = format!("{{\"tools\":{}", "[".repeat(100_000));
    assert_eq!(gateway.exchange(post(STREAM, &[], &deep)).await.refusal().0, 400);
    assert!(model.has_no_requests());
}

#[tokio::test]
async fn ready_means_that_the_model_is_reachable() {
    let model = Model::listen();
    let gateway = Gateway::start(&model).await;
    assert_eq!(gateway.get("/readyz").await.status(), 200);
    assert_eq!(gateway.get("/healthz").await.status(), 200);

    // A server that lists no models is used as it is.
    for answer in ["404 No", "405 No", "410 Gone", "501 What"] {
        model.list_nothing(answer);
        for (name, status) in [("named", 200), ("", 503)] {
            let change = |setup: &mut Setup| setup.upstream().model = name.to_owned();
            let gateway = Gateway::with(model.address, change).await;
            assert_eq!(gateway.get("/readyz").await.status(), status, "{name} {answer}");
        }
    }

    let nobody = tokio::net::TcpSocket::new_v4().unwrap();
    nobody.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let gateway = Gateway::with(nobody.local_addr().unwrap(), |_| {}).await;
    let reply = gateway.get("/readyz").await;
    assert_eq!((reply.status(), &reply.json()["status"]), (503, &json!("upstream_unreachable")));
    assert_eq!(gateway.get("/healthz").await.status(), 200);
}

/// An address may be that of a page, or of a server into which no model was loaded.
#[tokio::test]
async fn ready_means_that_a_model_can_be_named() {
    let model = Model::listen();
    for (list, advice) in [
        ("<!doctype html><title>Chat</title>", "check base_url"),
        (r#"{"object":"list","data":[]}"#, "load one"),
        (r#"{"object":"list","data":null}"#, "load one"),
        (r#"{"object":"list","data":[{"id":""}]}"#, "load one"),
    ] {
        model.list_as(list);
        for (name, status) in [("named", 200), ("", 503)] {
            let change = |setup: &mut Setup| setup.upstream().model = name.to_owned();
            let gateway = Gateway::with(model.address, change).await;
            // What was learnt by the first question does not make the second a better one.
            for _ in 0..2 {
                let reply = gateway.get("/readyz").await;
                assert_eq!(reply.status(), status, "{name} {list}");
                let why = reply.json()["message"].as_str().unwrap_or_default().to_owned();
                assert_eq!(why.contains(advice), status == 503, "{why}");
            }
            if name.is_empty() {
                for _ in 0..2 {
                    let mut stream = gateway.turn(&json!({"prompt": "Hello?"})).await;
                    let events = stream.rest().await;
                    let why = events.last().unwrap().data["message"].as_str().unwrap().to_owned();
                    assert!(why.contains(advice), "{why}");
                }
            }
        }
    }
    assert!(model.has_no_requests());
}

/// Whoever may ask without a key must not make the gateway ask as often.
#[tokio::test]
async fn a_server_is_not_asked_for_its_health_at_every_request() {
    let model = Model::listen();
    model.refuse_to_list();
    let gateway = Gateway::start(&model).await;
    assert_eq!(gateway.get("/readyz").await.status(), 503);
    let asked = model.listed();
    let others = futures::future::join_all((0..9).map(|_| gateway.get("/readyz"))).await;
    assert!(others.iter().all(|reply| reply.status() == 503));
    assert_eq!(model.listed(), asked);
}

/// The faulty field is named as the client wrote it. Invalid JSON is not the fault of a field.
#[tokio::test]
async fn a_field_at_fault_is_named() {
    let model = Model::listen();
    let gateway = Gateway::start(&model).await;
    for (path, body, param) in [
        (STREAM, r#"{"prompt": 1}"#, Some("prompt")),
        (STREAM, r#"{"prompt": "?", "session_id": ["s"]}"#, Some("session_id")),
        (STREAM, r#"{"prompt": "?", "session_id": "a b"}"#, Some("session_id")),
        (STREAM, r#"{"prompt": "?", "model": true}"#, Some("model")),
        (STREAM, r#"{"prompt": "?", "model": "none"}"#, Some("model")),
        (STREAM, r#"{"prompt": "?", "tools": "all"}"#, Some("tools")),
        (STREAM, r#"{"prompt": "?", "tools": ["none"]}"#, Some("tools")),
        (STREAM, r#"{"prompt": "?", "tool_choice": "any"}"#, Some("tool_choice")),
        (STREAM, r#"{"prompt": "?", "tool_choice": {"name": 1}}"#, Some("tool_choice")),
        (STREAM, r#"{"prompt": "?", "tool_choice": {"name": "none"}}"#, Some("tool_choice")),
        (
            STREAM,
            r#"{"prompt": "?", "tool_choice": {"name": "calculate"}, "tools": ["get_current_time"]}"#,
            Some("tool_choice"),
        ),
        (STREAM, r#"{"prompt": "?", "tool_choice": "required", "tools": []}"#, Some("tool_choice")),
        (STREAM, r#"{"prompt": "?", "tools": ["calculate", 2]}"#, Some("tools[1]")),
        (STREAM, r#"{"prompt": "?", "max_tool_loops": -1}"#, Some("max_tool_loops")),
        (STREAM, r#"{"prompt": "?", "max_tool_loops": 1.5}"#, Some("max_tool_loops")),
        (STREAM, r#"{"prompt": "?", "max_tool_loops": 0}"#, Some("max_tool_loops")),
        (STREAM, r#"{"prompt": "?", "sampling": []}"#, Some("sampling")),
        (STREAM, r#"{"prompt": "?", "sampling": {"top_p": "1"}}"#, Some("sampling.top_p")),
        (STREAM, r#"{"prompt": "?", "sampling": {"top_k": 1}}"#, Some("sampling.top_k")),
        (STREAM, r#"{"prompt": "?", "sampling": {"stop": ["", 1]}}"#, Some("sampling.stop[1]")),
        (STREAM, r#"{"clarification_response": {}}"#, Some("clarification_response")),
        (STREAM, r#"{"prompt": "?", "promt": "?"}"#, Some("promt")),
        (STREAM, r#"{"session_id": "s"}"#, Some("prompt")),
        (STREAM, r#"{"prompt": "?""#, None),
        (STREAM, r#"{"prompt": ?}"#, None),
        (STREAM, r#"[null, "?", null, null, null, null, {}]"#, None),
        (CANCEL, r#"["s"]"#, None),
        (CANCEL, r#"{"session_id": 1}"#, Some("session_id")),
        (CANCEL, r#"{"session_id": ""}"#, Some("session_id")),
        (CANCEL, r#"{"session": "s"}"#, Some("session")),
        (CANCEL, "{}", Some("session_id")),
    ] {
        let reply = gateway.exchange(post(path, &[], body)).await;
        let expected = (400, "invalid_request".to_owned(), param.map(str::to_owned));
        assert_eq!(reply.refusal(), expected, "{body}: {}", reply.message());
        let is_told =
            |param| reply.message().contains(param) || reply.message().contains("available: ");
        assert!(param.is_none_or(is_told), "{body}: {}", reply.message());
    }
    assert!(model.has_no_requests());
}

/// Every field, with each type that it does not accept.
#[tokio::test]
async fn a_wrong_type_is_explained_in_json_terms() {
    let model = Model::listen();
    let gateway = Gateway::start(&model).await;
    let count = "an integer from 1 to 4294967295";
    for (param, wanted, wrong) in [
        ("session_id", "a string", &["1", "[]", "{}", "true"][..]),
        ("prompt", "a string", &["1.5", "[\"a\"]", "{\"a\":1}"]),
        ("model", "a string", &["true"]),
        ("tools", "a list of strings", &["\"all\"", "{}", "1"]),
        ("tools[1]", "a string", &["2", "null", "[]"]),
        ("client_tools", "a list of objects", &["{}"]),
        ("parallel_client_calls", "true or false", &["1", "\"no\""]),
        ("confirm", "a string", &["true"]),
        ("tool_results", "a list of objects", &["{}", "\"done\""]),
        ("max_tool_loops", count, &["\"five\"", "-1", "1.5", "4294967296", "[]", "true"]),
        ("sampling", "an object", &["[]", "\"hot\"", "1"]),
        ("sampling.temperature", "a number from 0 to 2", &["\"hot\"", "{}"]),
        ("sampling.top_p", "a number from 0 to 1", &["\"1\"", "false"]),
        ("sampling.max_tokens", count, &["\"all\"", "-1", "0.5"]),
        ("sampling.seed", "a 64-bit integer", &["\"x\"", "0.5"]),
        ("sampling.stop", "a list of strings", &["\".\"", "null", "{}"]),
        ("sampling.stop[1]", "a string", &["1", "null"]),
        ("clarification_response", "an object", &["[]", "\"yes\""]),
        ("clarification_response.clarification_id", "a string", &["1", "null"]),
        ("clarification_response.selected_option", "an object", &["\"a\"", "[\"a\"]"]),
        ("clarification_response.selected_option.id", "a string", &["1", "null"]),
        ("clarification_response.text", "a string", &["1", "{}"]),
        ("clarification_response.content", "an object", &["[]", "\"l\""]),
        ("clarification_response.action", "\"decline\" or \"cancel\"", &["\"no\""]),
    ] {
        for wrong in wrong {
            // Inside out: each name wraps what follows it.
            let body = param.rsplit('.').fold((*wrong).to_owned(), |value, name| {
                match name.strip_suffix("[1]") {
                    Some(name) => format!("{{\"{name}\":[\"calculate\",{value}]}}"),
                    None => format!("{{\"{name}\":{value}}}"),
                }
            });
            let reply = gateway.exchange(post(STREAM, &[], &body)).await;
            let expected = (400, "invalid_request".to_owned(), Some(param.to_owned()));
            assert_eq!(reply.refusal(), expected, "{body}: {}", reply.message());
            let got = match wrong.as_bytes()[0] {
                b'[' => "a list",
                b'{' => "an object",
                b'"' if wanted.starts_with('"') => wrong,
                b'"' => "a string",
                _ => wrong,
            };
            assert_eq!(reply.message(), format!("{param} must be {wanted}, not {got}"), "{body}");
        }
    }
    let cut = gateway.exchange(post(STREAM, &[], "{\"prompt\": 1, ")).await;
    assert_eq!(cut.message(), "prompt must be a string, not 1");
}

/// A refusal that quotes the request does not send all of it back.
#[tokio::test]
async fn a_refusal_is_short() {
    let model = Model::listen();
    let gateway = Gateway::start(&model).await;
    let long = "\u{e9}".repeat(200_000);
    for body in [
        json!({"prompt": "?", "model": long}),
        json!({"prompt": "?", "sampling": long}),
        json!({"prompt": "?", "tools": [long]}),
        json!({"prompt": "?", &*long: 1}),
    ] {
        let reply = gateway.post(STREAM, &body).await;
        assert_eq!(reply.status(), 400);
        assert!(reply.body.len() < 5000, "{}", reply.body.len());
    }
}

/// A program that cuts a text may cut an emoji. It sends the half with every later request.
#[tokio::test]
async fn half_an_emoji_does_not_end_a_conversation() {
    for path in ["/v1/chat/completions", "/v1/messages"] {
        let mut model = Model::listen();
        let gateway = Gateway::start(&model).await;
        let body =
            r#"{"model":"fake","max_tokens":9,"messages":[{"role":"user","content":"Hi \ud83d"}]}"#;
        let answer = async {
            let round = model.round().await;
            assert!(round.request.contents().contains("Hi \u{fffd}"));
            round.answer("Hi.").await;
        };
        let (reply, ()) = tokio::join!(gateway.exchange(post(path, &[], body)), answer);
        assert_eq!(reply.status(), 200, "{path}: {}", reply.json());
    }
}

/// It is read elsewhere, with all that it says.
#[tokio::test]
async fn a_long_conversation_is_answered() {
    for path in ["/v1/chat/completions", "/v1/messages", "/v1/responses"] {
        let mut model = Model::listen();
        let gateway = Gateway::start(&model).await;
        let words = "So? ".repeat(tether::limits::session::INLINE_RECORD_BYTES_MAX / 4);
        let messages =
            json!([{"role": "user", "content": words}, {"role": "user", "content": "End."}]);
        let mut body = json!({"model": "fake", "max_tokens": 9});
        let key = if path == "/v1/responses" { "input" } else { "messages" };
        body[key] = messages;
        let answer = async {
            let round = model.round().await;
            assert!(round.request.contents().contains("End."));
            round.answer("Hi.").await;
        };
        let (reply, ()) = tokio::join!(gateway.post(path, &body), answer);
        assert_eq!(reply.status(), 200, "{path}: {}", reply.json());
    }
}

/// hyper refuses these before any handler sees them.
#[tokio::test]
async fn a_head_that_is_not_http_is_refused_in_words() {
    let model = Model::listen();
    let gateway = Gateway::start(&model).await;
    for head in [
        "G\u{0}T / HTTP/1.1\r\n\r\n",
        "GET / HTTP/7.0\r\n\r\n",
        "GET /healthz HTTP/1.1\r\nHost: localhost\r\nno colon\r\n\r\n",
        "GET /healthz HTTP/1.1\r\nHost: localhost\r\nContent-Length: x\r\n\r\n",
    ] {
        let mut client = gateway.client().await;
        // Also after a request that was answered.
        client.send(request("GET", "/healthz", &[], "")).await;
        assert_eq!(client.reply().await.status(), 200);
        client.send(head).await;
        let reply = client.reply().await;
        assert_eq!(reply.refusal(), (400, "invalid_request".to_owned(), None), "{head:?}");
        assert_eq!(client.closed().await, b"", "{head:?}");
    }
}

/// After a stream, which hyper does not write.
#[tokio::test]
async fn a_bad_head_after_a_stream_is_refused_in_words() {
    let mut model = Model::listen();
    let gateway = Gateway::start(&model).await;
    let mut client = gateway.client().await;
    client.send(post(STREAM, &[], &json!({"prompt": "Hello?"}).to_string())).await;
    model.round().await.answer("Hello.").await;
    assert_eq!(client.reply().await.status(), 200);
    client.send("nonsense\r\n\r\n").await;
    assert_eq!(client.reply().await.refusal().0, 400);
}

/// What a body looks like does not matter.
#[tokio::test]
async fn an_answer_that_looks_like_a_refused_head_is_sent_as_it_is() {
    let model = Model::listen();
    let gateway = Gateway::start(&model).await;
    let mut client = gateway.client().await;
    client.send(post(STREAM, &[], "HTTP/1.1 400 Bad Request\r\n\r\n")).await;
    let refusal = client.reply().await;
    assert_eq!(refusal.refusal().1, "invalid_request");
    assert!(!refusal.message().contains("the head"), "{refusal:?}");
    client.send(request("GET", "/healthz", &[], "")).await;
    assert_eq!(client.reply().await.status(), 200);
}
