//! Calls over real connections.

use std::time::Duration;

use tokio::sync::watch;

use super::*;
use crate::limits::openapi::FETCH_BACKOFF_MIN;
use crate::limits::tools::ATTEMPTS_MAX;
use crate::tools::http::openapi::{OpenApiOptions, Select};
use crate::tools::outbound::tests::server::{self, Server, Then};
use crate::tools::outbound::{Addresses, ClientOptions};
use crate::tools::run::{Run, RunEnd, ToolCall, run};
use crate::tools::source::{EntryRules, Offering, SourceState};
use crate::tools::{Policy, Reporter, Source, SourceKind, TraceContext};

fn tool(written: &WrittenRequest) -> HttpTool {
    tool_with(written, ClientOptions::new(Addresses::In(vec!["127.0.0.1".parse().unwrap()])))
}

fn tool_with(written: &WrittenRequest, client: ClientOptions) -> HttpTool {
    let parameters = parameters(&["q"]);
    let request = RequestTemplate::read(written, &parameters).unwrap();
    let spec = ToolSpec {
        name: "search".into(),
        parameters,
        policy: request.policy(),
        ..ToolSpec::default()
    };
    let result = ResultOptions::default();
    HttpTool::new(spec, HttpOptions { request, bearer: None, result, client: Client::new(client) })
}

fn search(server: &Server, method: &str) -> WrittenRequest {
    let query = pairs(&[("q", json!("{q}"))]);
    WrittenRequest { method: method.into(), query, ..get(&server.url("/search")) }
}

/// A document's entry that includes these operations.
fn source(include: &[&str]) -> OpenApiSource {
    OpenApiSource {
        rules: EntryRules::new(Source::entry(SourceKind::Http, "api")),
        options: OpenApiOptions {
            base_url: "https://api.example.org".parse().unwrap(),
            include: include.iter().map(|written| Select::parse(written)).collect(),
            exclude: Vec::new(),
            credentials: Vec::new(),
            idempotency_header: None,
        },
        client: Client::new(ClientOptions::new(Addresses::In(Vec::new()))),
        timeout: None,
    }
}

#[tokio::test]
async fn a_key_makes_a_call_repeatable_and_not_the_next_one() {
    let server = Server::once([]).await;
    for (method, header, by_key) in
        [("POST", true, true), ("PATCH", true, true), ("PUT", true, false), ("POST", false, false)]
    {
        let idempotency_header = header.then(|| "Idempotency-Key".to_owned());
        let tool = tool(&WrittenRequest { idempotency_header, ..search(&server, method) });
        assert_eq!(tool.needs_own_key(), by_key, "{method} {header}");
    }
}

#[tokio::test]
async fn an_operation_that_is_included_by_name_is_offered_however_long_its_schema_is() {
    let choices: Vec<String> = (0..4000).map(|number| format!("choice {number}")).collect();
    let schema = json!({ "enum": choices });
    let operation = json!({
        "operationId": "big", "parameters": [{ "in": "query", "name": "q", "schema": schema }],
    });
    let document = json!({ "openapi": "3.1.0", "paths": { "/big": { "get": operation } } });
    let document = document.to_string();
    let offered = |include: &[&str]| source(include).offering(Ok(document.as_bytes()));
    for include in [&[][..], &["b*"], &["/big"]] {
        let offering = offered(include);
        assert!(offering.tools.is_empty(), "{include:?}");
        assert!(offering.report.left_out[0].reason.ends_with("name it in `include`"));
    }
    assert_eq!(offered(&["big"]).tools[0].spec().name, "api__big");
}

async fn call(tool: &HttpTool) -> Result<ToolResult, ToolFault> {
    tool.call(json!({ "q": "a b" }), CallContext::first("key-1")).await
}

/// As the gateway runs it, with retries.
async fn run_it(tool: HttpTool) -> Run {
    let call = ToolCall {
        tool: Arc::new(tool),
        arguments: json!({}),
        idempotency_key: "key-1".into(),
        resumption: None,
        session: Arc::default(),
        words_only: false,
        trace: None,
    };
    run(call, Reporter::default(), Duration::from_secs(30)).await
}

fn unavailable() -> server::Answer {
    server::Answer::whole("503 Busy\r\nretry-after: 0", "")
}

/// Fetches a document whose first answer is this one, and waits for what it is.
async fn fetched(answer: server::Answer) -> (Server, watch::Receiver<Offering>, Option<String>) {
    let server = Server::once([answer, server::Answer::json(r#"{"openapi": "3.1.0"}"#)]).await;
    let client = ClientOptions::new(Addresses::In(vec!["127.0.0.1".parse().unwrap()]));
    let client = Client::new(ClientOptions { redirects_max: 3, ..client });
    let source = OpenApiSource { client, ..source(&[]) };
    let mut offered = source.follow(server.url("/a.json?key=s3cr3t-key").parse().unwrap());
    offered.changed().await.unwrap();
    let error = offered.borrow().report.error.clone();
    (server, offered, error)
}

#[tokio::test]
async fn a_document_is_fetched_without_redirects() {
    let elsewhere = server::Answer::whole("302 Found\r\nlocation: /b.json", "");
    let (server, _offered, error) = fetched(elsewhere).await;
    let error = error.unwrap();
    assert!(error.contains("HTTP status 302, a redirect"), "{error}");
    assert_eq!(server.requests().len(), 1);
}

/// As while a service is being maintained.
#[tokio::test]
async fn a_document_is_fetched_again_if_a_page_came_instead() {
    let page = server::Answer::whole("200 OK\r\ncontent-type: text/html", "<p>Back soon.</p>");
    let (_server, mut offered, error) = fetched(page).await;
    assert!(error.unwrap().contains("this is not an OpenAPI document"));
    tokio::time::pause();
    tokio::time::advance(FETCH_BACKOFF_MIN).await;
    tokio::time::resume();
    offered.wait_for(|offering| offering.report.state == SourceState::Ready).await.unwrap();
}

#[tokio::test]
async fn a_document_that_is_compressed_unasked_is_refused_with_the_coding() {
    let gzip = server::Answer::whole("200 OK\r\ncontent-encoding: gzip", b"\x1f\x8b");
    let (_server, _offered, error) = fetched(gzip).await;
    let told = "cannot fetch the document: the server compressed it (gzip) unasked";
    assert_eq!(error.as_deref(), Some(told));
}

#[tokio::test]
async fn a_document_does_not_repeat_the_key_in_its_address() {
    let (_server, _offered, error) =
        fetched(server::Answer::json(r#"{"openapi": "no s3cr3t-key"}"#)).await;
    let error = error.unwrap();
    assert!(error.contains("this is OpenAPI no [the key]"), "{error}");
}

#[tokio::test]
async fn a_call_is_a_request_and_its_answer_the_result() {
    let server = Server::once([server::Answer::json(r#"{"temp": 7}"#)]).await;
    let result = call(&tool(&search(&server, "GET"))).await.unwrap();
    assert_eq!(result, ToolResult::data(json!({ "temp": 7 })));
    let request = server.requests().remove(0);
    let lines: Vec<_> = request.trim_end().split("\r\n").collect();
    assert_eq!(lines[0], "GET /search?q=a%20b HTTP/1.1");
    let names: Vec<_> = lines[1..].iter().map(|line| line.split(':').next().unwrap()).collect();
    assert_eq!(names, ["accept", "user-agent", "traceparent", "host"]);
    assert_eq!(lines[1], "accept: application/json, */*;q=0.5");
}

#[tokio::test]
async fn what_the_operator_wrote_replaces_our_own_headers() {
    let server = Server::once([server::Answer::json("{}")]).await;
    let headers = pairs(&[("Accept", "text/csv".to_owned()), ("User-Agent", "me".to_owned())]);
    call(&tool(&WrittenRequest { headers, ..search(&server, "GET") })).await.unwrap();
    let request = server.requests().remove(0);
    assert!(request.contains("\r\naccept: text/csv\r\n"), "{request}");
    assert!(request.contains("\r\nuser-agent: me\r\n"), "{request}");
}

#[tokio::test]
async fn a_body_has_its_media_type() {
    let server = Server::once([server::Answer::json("{}")]).await;
    let written = WrittenRequest {
        body: Some(WrittenBody::Json(json!({ "q": "{q}" }))),
        query: Vec::new(),
        ..search(&server, "POST")
    };
    call(&tool(&written)).await.unwrap();
    let request = server.requests().remove(0);
    assert!(request.contains("\r\ncontent-type: application/json\r\n"), "{request}");
    assert!(request.ends_with("\r\n\r\n{\"q\":\"a b\"}"), "{request}");
}

#[tokio::test]
async fn arguments_that_do_not_fit_are_told_and_nothing_is_sent() {
    let server = Server::start(Vec::new()).await;
    let written = WrittenRequest {
        headers: pairs(&[("X-Note", "{q}".to_owned())]),
        query: Vec::new(),
        ..search(&server, "GET")
    };
    let result = tool(&written).call(json!({ "q": "ö" }), CallContext::first("k")).await.unwrap();
    assert!(result.error.unwrap().starts_with("`q` is sent in a header"));
    assert_eq!(server.connections(), 0);
}

#[tokio::test]
async fn a_private_address_is_a_permanent_fault() {
    let server = Server::start(Vec::new()).await;
    let tool = tool_with(&search(&server, "GET"), ClientOptions::new(Addresses::In(Vec::new())));
    let fault = call(&tool).await.unwrap_err();
    let message = "127.0.0.1 may not be reached, because its address is private and no \
                   `allow_private` covers it";
    assert_eq!(fault, ToolFault::permanent(message));
    assert_eq!(server.connections(), 0);
}

#[tokio::test]
async fn an_answer_may_have_a_mebibyte() {
    for (bytes, fits) in [(BODY_BYTES_MAX, true), (BODY_BYTES_MAX + 1, false)] {
        let answer = server::Answer::whole("200 OK\r\ncontent-type: text/plain", "x".repeat(bytes));
        let server = Server::once([answer]).await;
        let result = call(&tool(&search(&server, "GET"))).await.unwrap();
        assert_eq!(result.success, fits);
        if !fits {
            let lost = ToolResult::unread("127.0.0.1 answered with more than 1024 KiB");
            assert_eq!(result, lost.with_instruction("Ask for a smaller part."));
        }
    }
}

#[tokio::test]
async fn an_error_with_a_huge_body_is_still_that_error() {
    let body = "x".repeat(BODY_BYTES_MAX + 1);
    let server = Server::once([server::Answer::whole("404 Not Found", body)]).await;
    let result = call(&tool(&search(&server, "GET"))).await.unwrap();
    assert_eq!(result, ToolResult::error("127.0.0.1 answered with HTTP status 404"));
}

#[tokio::test]
async fn a_call_goes_on_with_its_trace() {
    let server = Server::once([server::Answer::json("{}")]).await;
    let parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    let trace = TraceContext::parse(parent, "a=1");
    let context = CallContext { trace, ..CallContext::first("key-1") };
    tool(&search(&server, "GET")).call(json!({ "q": "a" }), context).await.unwrap();
    let request = server.requests().remove(0);
    for line in [format!("traceparent: {parent}"), "tracestate: a=1".to_owned()] {
        assert!(request.lines().any(|other| other == line), "{line}: {request}");
    }
}

#[tokio::test(start_paused = true)]
async fn reads_are_retried_after_transient_faults() {
    let cut = "HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nshort";
    let script = vec![
        vec![unavailable(), server::Answer::new(cut, Then::Reset)],
        vec![server::Answer::json("{}")],
    ];
    let server = Server::start(script).await;
    let run = run_it(tool(&search(&server, "GET"))).await;
    assert_eq!((run.end, run.attempts), (RunEnd::Done, 3));
    let traces: Vec<_> = server
        .requests()
        .iter()
        .map(|request| {
            let line = request.lines().find(|line| line.starts_with("traceparent"));
            line.unwrap().to_owned()
        })
        .collect();
    let trace = |line: &str| line.split('-').nth(1).unwrap().to_owned();
    assert!(trace(&traces[0]) == trace(&traces[2]) && traces[0] != traces[2], "{traces:?}");
}

/// A change whose answer broke off may have been made.
#[tokio::test(start_paused = true)]
async fn changes_are_never_retried() {
    let cut = "HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nshort";
    for method in ["POST", "PATCH"] {
        for answer in [
            unavailable(),
            server::Answer::new("", Then::Close),
            server::Answer::new("", Then::Reset),
            server::Answer::new(cut, Then::Reset),
        ] {
            let server = Server::start(vec![vec![answer], vec![server::Answer::json("{}")]]).await;
            let run = run_it(tool(&search(&server, method))).await;
            assert_eq!((run.end, run.attempts), (RunEnd::Unavailable, 1));
            assert!(run.result.error.unwrap().contains("do not call it again"));
            assert_eq!(server.requests().len(), 1);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn changes_are_repeated_if_the_server_knows_a_repetition() {
    for (method, header) in [("PUT", None), ("DELETE", None), ("POST", Some("Idempotency-Key"))] {
        let script = vec![vec![unavailable(), unavailable(), server::Answer::json("{}")]];
        let server = Server::start(script).await;
        let idempotency_header = header.map(str::to_owned);
        let written = WrittenRequest { idempotency_header, ..search(&server, method) };
        let run = run_it(tool(&written)).await;
        assert_eq!((run.end, run.attempts), (RunEnd::Done, ATTEMPTS_MAX), "{method}");
        for request in server.requests() {
            assert_eq!(request.contains("\r\nidempotency-key: key-1\r\n"), header.is_some());
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_slow_body_ends_with_the_calls_time() {
    let head = "HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nslow";
    let server = Server::once([server::Answer::new(head, Then::Hang)]).await;
    let mut tool = tool(&search(&server, "POST"));
    let spec = Arc::make_mut(&mut tool.spec);
    spec.policy = Policy { timeout: Some(Duration::from_secs(2)), ..spec.policy };
    let run = run_it(tool).await;
    assert_eq!((run.end, run.attempts), (RunEnd::TimedOut, 1));
}

#[test]
fn another_address_or_method_is_another_tool() {
    let digest = |method: &str, url: &str, key: &str| {
        let headers = vec![("x-key".to_owned(), key.to_owned())];
        let query = pairs(&[("q", json!("{q}"))]);
        let written = WrittenRequest { method: method.into(), headers, query, ..get(url) };
        tool(&written).spec().implementation.clone()
    };
    let own = digest("GET", "https://a.example/x", "1");
    assert_eq!(digest("GET", "https://a.example/x", "2"), own, "a key may be replaced");
    assert_ne!(digest("GET", "https://b.example/x", "1"), own);
    assert_ne!(digest("GET", "https://a.example/y", "1"), own);
    assert_ne!(digest("HEAD", "https://a.example/x", "1"), own);
}
