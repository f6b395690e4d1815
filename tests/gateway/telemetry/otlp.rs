//! What an OpenTelemetry collector is sent, and what happens if it accepts nothing.

use serde_json::{Value, json};

use super::metrics::Samples;
use super::{prompt, sum};
use crate::support::client::{post, request};
use crate::support::collector::{Collector, attribute};
use crate::support::events::outcome;
use crate::support::gateway::STREAM;
use crate::support::model::{DONE, call, finish, text};
use crate::support::process::Process;
use crate::support::{Model, Round, until, within};

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const PARENT: &str = "traceparent: 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

fn config(model: &Model, collector: &Collector, more: &str) -> String {
    format!(
        "upstreams: [{{name: main, base_url: \"http://{}/v1\", model: m}}]\n\
         telemetry: {{otlp: {{endpoint: \"http://{}\", service_name: gw, \
         headers: {{X-Key: \"a key\"}}, metrics_interval_sec: 0.05, {more}}}}}",
        model.address, collector.address,
    )
}

/// The `traceparent` and the `tracestate` of a request to the model server.
fn told(round: &Round) -> (Option<String>, Option<String>) {
    let header = |name: &str| {
        let lines = round.request.head.lines().filter_map(|line| line.split_once(": "));
        let mut values = lines.filter(|(other, _)| other.eq_ignore_ascii_case(name));
        values.next().map(|(_, value)| value.to_owned())
    };
    (header("traceparent"), header("tracestate"))
}

#[track_caller]
fn text_of<'v>(span: &'v Value, key: &str) -> &'v str {
    attribute(span, key).and_then(Value::as_str).unwrap_or_else(|| panic!("no {key}: {span}"))
}

/// How many spans, or requests with metrics, the collector has not taken.
async fn dropped(gateway: &Process, signal: &str) -> f64 {
    let samples = Samples::of(gateway).await;
    samples.value(&format!("tether_otlp_dropped_total{{signal=\"{signal}\"}}"))
}

#[tokio::test]
async fn a_turn_with_a_tool_is_four_spans_below_the_clients_own() {
    let mut model = Model::listen();
    let collector = Collector::listen(0).await;
    let gateway = Process::start(&config(&model, &collector, "sample_ratio: 0")).await;
    let headers = [PARENT, "tracestate: a=1"];
    let mut stream = gateway.turn_with(&headers, &prompt("s")).await;
    let first = model.round().await;
    let told_first = told(&first);
    first.answer_with(&(text(&sum(1)) + &finish("stop") + DONE)).await;
    let second = model.round().await;
    let told_second = told(&second);
    let usage = json!({"choices": [], "usage": {"prompt_tokens": 30, "completion_tokens": 4}});
    let answer = text("Two.") + &finish("stop") + &format!("data: {usage}\n\n") + DONE;
    second.answer_with(&answer).await;
    assert_eq!(outcome(&stream.rest().await), "stop");

    let spans = collector.spans(4).await;
    let named = |name: &str| spans.iter().filter(|span| span["name"] == name).collect::<Vec<_>>();
    let [turn] = named("invoke_agent tether")[..] else { panic!("{spans:?}") };
    let [first, second] = named("chat m")[..] else { panic!("{spans:?}") };
    let [tool] = named("execute_tool calculate")[..] else { panic!("{spans:?}") };
    assert!(spans.iter().all(|span| span["traceId"] == TRACE && span["traceState"] == "a=1"));
    assert_eq!(turn["parentSpanId"], "00f067aa0ba902b7");
    for below in [first, second, tool] {
        assert_eq!(below["parentSpanId"], turn["spanId"]);
        assert_eq!(below["status"], json!(null), "{below}");
    }
    // The model server was told the span that made its request.
    for (span, (parent, state)) in [(first, told_first), (second, told_second)] {
        let expected = format!("00-{TRACE}-{}-01", span["spanId"].as_str().unwrap());
        assert_eq!((parent, state), (Some(expected), Some("a=1".to_owned())));
    }
    assert_eq!((&turn["kind"], &first["kind"], &tool["kind"]), (&json!(1), &json!(3), &json!(1)));
    assert_eq!(text_of(turn, "gen_ai.conversation.id"), "s");
    assert_eq!(text_of(turn, "gen_ai.request.model"), "main");
    assert_eq!(text_of(turn, "tether.turn.outcome"), "stop");
    assert_eq!(text_of(second, "gen_ai.operation.name"), "chat");
    assert_eq!(text_of(second, "gen_ai.provider.name"), "openai");
    assert_eq!(text_of(second, "server.address"), "127.0.0.1");
    assert_eq!(text_of(second, "server.port"), model.address.port().to_string());
    assert_eq!(text_of(second, "gen_ai.usage.input_tokens"), "30");
    assert_eq!(text_of(second, "gen_ai.usage.output_tokens"), "4");
    assert_eq!(text_of(tool, "gen_ai.tool.name"), "calculate");
    assert_eq!(text_of(tool, "gen_ai.tool.call.id"), "call_1");
    assert_eq!(text_of(tool, "tether.tool.source"), "builtin");
    let everything = spans.iter().map(Value::to_string).collect::<String>();
    for said in ["Hello?", "Two.", "1+1"] {
        assert!(!everything.contains(said), "{said}: {everything}");
    }
    assert_eq!(text_of(&collector.resource(), "service.name"), "gw");
    assert_eq!(text_of(&collector.resource(), "service.version"), env!("CARGO_PKG_VERSION"));
    assert_eq!(collector.headers()["x-key"], "a key");
}

#[tokio::test]
async fn a_tool_that_is_stopped_keeps_its_name_and_source() {
    let mut model = Model::listen();
    let collector = Collector::listen(0).await;
    // It takes requests and answers none.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let tool = format!(
        "\ntools: {{http: [{{name: wait, description: Waits., url: \"http://{}/\", allow_private: [127.0.0.1]}}]}}",
        silent.local_addr().unwrap()
    );
    let gateway = Process::start(&(config(&model, &collector, "") + &tool)).await;
    let mut stream = gateway.turn(&prompt("s")).await;
    model.round().await.answer(&call("wait", &json!({}))).await;
    stream.up_to("tool_started").await;
    assert_eq!(gateway.cancel("s").await, 202);
    stream.rest().await;
    let spans = collector.spans(3).await;
    let span = spans.iter().find(|span| span["name"] == "execute_tool wait");
    let span = span.unwrap_or_else(|| panic!("{spans:?}"));
    assert_eq!(text_of(span, "gen_ai.tool.name"), "wait");
    assert_eq!(text_of(span, "tether.tool.source"), "http wait");
    assert_eq!(text_of(span, "error.type"), "cancelled");
}

#[tokio::test]
async fn measurements_are_sent_as_histograms() {
    let mut model = Model::listen();
    let collector = Collector::listen(0).await;
    let gateway = Process::start(&config(&model, &collector, "")).await;
    gateway.whole_turn(&mut model, "s", "Well.").await.rest().await;
    for name in [
        "gen_ai.client.operation.time_to_first_chunk",
        "gen_ai.invoke_agent.duration",
        "gen_ai.invoke_agent.inference_calls",
        "gen_ai.invoke_agent.tool_calls",
    ] {
        let points = collector.points(name).await;
        assert_eq!((points.len(), &points[0]["count"]), (1, &json!("1")), "{name}");
    }
    let points = collector.points("gen_ai.client.operation.duration").await;
    assert_eq!(text_of(&points[0], "gen_ai.request.model"), "m");
    assert_eq!(text_of(&points[0], "gen_ai.provider.name"), "openai");
}

#[tokio::test]
async fn a_failed_round_has_the_status_of_an_error() {
    let mut model = Model::listen();
    let collector = Collector::listen(0).await;
    let gateway = Process::start(&config(&model, &collector, "")).await;
    let (mut stream, mut round) = gateway.begin(&mut model, "s").await;
    round.begin().await;
    round.say("Half a").await;
    stream.up_to("text_delta").await;
    round.reset();
    stream.rest().await;
    for span in collector.spans(2).await {
        assert_eq!(span["status"], json!({"code": 2, "message": "upstream_error"}));
        assert_eq!(text_of(&span, "error.type"), "upstream_error");
    }
}

/// Whoever begins a trace decides whether it is recorded.
#[tokio::test]
async fn a_trace_that_its_client_does_not_record_is_only_passed_on() {
    let mut model = Model::listen();
    let collector = Collector::listen(0).await;
    let gateway = Process::start(&config(&model, &collector, "")).await;
    let unsampled = PARENT.replace("-01", "-00");
    let mut stream = gateway.turn_with(&[&unsampled], &prompt("s")).await;
    let round = model.round().await;
    let (parent, _) = told(&round);
    let parent = parent.unwrap();
    assert!(parent.starts_with(&format!("00-{TRACE}-")) && parent.ends_with("-00"), "{parent}");
    round.answer("Well.").await;
    stream.rest().await;
    // A later trace that is recorded: by then, spans of the first would have arrived.
    gateway.whole_turn(&mut model, "t", "Well.").await.rest().await;
    let spans = collector.spans(2).await;
    assert!(spans.iter().all(|span| span["traceId"] != TRACE), "{spans:?}");
}

#[tokio::test]
async fn without_a_collector_the_clients_trace_is_passed_on_unchanged() {
    let mut model = Model::listen();
    let gateway = Process::start(&super::config(&model)).await;
    for (headers, expected) in [
        (&[PARENT, "tracestate: a=1", "tracestate: b=2"][..], (Some(PARENT), Some("a=1,b=2"))),
        (&[], (None, None)),
        (&["traceparent: 00-zz"], (None, None)),
        (&["tracestate: a=1"], (None, None)),
        (&[PARENT, PARENT], (None, None)),
    ] {
        let mut stream = gateway.turn_with(headers, &json!({"prompt": "Hello?"})).await;
        let round = model.round().await;
        let (parent, state) = expected;
        let parent = parent.map(|line| line.trim_start_matches("traceparent: ").to_owned());
        assert_eq!(told(&round), (parent, state.map(str::to_owned)), "{headers:?}");
        round.answer("Well.").await;
        stream.rest().await;
    }
}

#[tokio::test]
async fn the_last_spans_are_sent_when_the_gateway_stops() {
    let mut model = Model::listen();
    let collector = Collector::listen(0).await;
    let gateway = Process::start(&config(&model, &collector, "")).await;
    gateway.whole_turn(&mut model, "s", "Well.").await.rest().await;
    gateway.signal("TERM");
    assert_eq!(gateway.exit().await.code(), Some(0));
    assert!(collector.has_spans());
}

#[tokio::test]
async fn a_collector_that_is_busy_is_tried_again() {
    let mut model = Model::listen();
    let collector = Collector::listen(2).await;
    // Without metrics in between.
    let config = config(&model, &collector, "").replace("0.05", "60");
    let gateway = Process::start(&config).await;
    gateway.whole_turn(&mut model, "s", "Well.").await.rest().await;
    collector.spans(2).await;
    assert_eq!(collector.requests(), 3);
}

#[tokio::test]
async fn a_collector_that_refuses_everything_disturbs_no_turn() {
    let mut model = Model::listen();
    let collector = Collector::listen(usize::MAX).await;
    let gateway = Process::start(&config(&model, &collector, "")).await;
    within(async {
        let mut turns = 0;
        while dropped(&gateway, "traces").await < 2.0 || dropped(&gateway, "metrics").await < 1.0 {
            turns += 1;
            let session = format!("s{turns}");
            let mut stream = gateway.whole_turn(&mut model, &session, "Well.").await;
            assert_eq!(outcome(&stream.rest().await), "stop");
        }
    })
    .await;
    // Nor does it delay the end of the process for long.
    gateway.signal("TERM");
    assert_eq!(gateway.exit().await.code(), Some(0));
}

#[tokio::test]
async fn spans_that_a_collector_rejects_are_counted_and_reported() {
    let mut model = Model::listen();
    let collector = Collector::listen_rejecting(1).await;
    // Without metrics in between.
    let config = config(&model, &collector, "").replace("0.05", "60");
    let (gateway, log) = Process::start_logging(&config).await;
    gateway.whole_turn(&mut model, "s", "Well.").await.rest().await;
    within(async { while dropped(&gateway, "traces").await < 1.0 {} }).await;
    let complains = |line: &Value| {
        line["error_message"] == "spans from the future"
            && (&line["level"], &line["rejected"]) == (&json!("WARN"), &json!(1))
    };
    until(|| log.lines().iter().any(complains)).await;
    // They are not sent again.
    assert_eq!((collector.spans(2).await.len(), collector.requests()), (2, 1));
}

#[tokio::test]
async fn every_api_passes_a_trace_on() {
    let mut model = Model::listen();
    let gateway = Process::start(&super::config(&model)).await;
    let chat =
        json!({"model": "model", "max_tokens": 9, "messages": [{"role": "user", "content": "Hi"}]});
    for (path, body) in [
        ("/v1/chat/completions", chat.clone()),
        ("/v1/messages", chat),
        ("/v1/responses", json!({"model": "model", "input": "Hi"})),
        (STREAM, json!({"prompt": "Hi"})),
    ] {
        let mut client = gateway.client().await;
        client.send(post(path, &[PARENT], &body.to_string())).await;
        let round = model.round().await;
        assert!(told(&round).0.is_some_and(|parent| PARENT.ends_with(&parent)), "{path}");
        round.answer("Well.").await;
        assert_eq!(client.reply().await.status(), 200, "{path}");
    }
    assert_eq!(gateway.exchange(request("GET", "/healthz", &[PARENT], "")).await.status(), 200);
}

/// A server may answer with another model than it was asked for.
#[tokio::test]
async fn a_round_says_which_model_answered() {
    let mut model = Model::listen();
    let collector = Collector::listen(0).await;
    let gateway = Process::start(&config(&model, &collector, "")).await;
    for (first, expected) in [(json!("m-2026-11"), Some("m-2026-11")), (json!(null), None)] {
        let mut stream = gateway.turn(&prompt("s")).await;
        let chunk = json!({"model": first, "choices": [{"index": 0, "delta": {"content": "W"}}]});
        let answer = format!("data: {chunk}\n\n") + &text("ell.") + &finish("stop") + DONE;
        model.round().await.answer_with(&answer).await;
        assert_eq!(outcome(&stream.rest().await), "stop");
        let sent = if expected.is_some() { 2 } else { 4 };
        let spans = collector.spans(sent).await;
        let round = spans[sent - 2..].iter().find(|span| span["name"] == "chat m").unwrap();
        let answering = attribute(round, "gen_ai.response.model").and_then(Value::as_str);
        assert_eq!(answering, expected, "{round}");
    }
    let points = collector.points("gen_ai.client.operation.time_per_output_chunk").await;
    assert_eq!((points.len(), &points[0]["count"]), (1, &json!("2")));
    assert_eq!(text_of(&points[0], "gen_ai.request.model"), "m");
}

#[tokio::test]
async fn a_tool_of_an_mcp_server_says_how_it_was_reached() {
    let mut model = Model::listen();
    let collector = Collector::listen(0).await;
    let server = format!(
        "\ntools: {{mcp: [{{name: bad, command: [python3, \"{}/tests/mcp/server.py\", plain], required: true}}]}}",
        env!("CARGO_MANIFEST_DIR")
    );
    let gateway = Process::start(&(config(&model, &collector, "") + &server)).await;
    let mut stream = gateway.turn(&prompt("s")).await;
    let called = call("bad__echo", &json!({"text": "x"}));
    model.round().await.answer_with(&(text(&called) + &finish("stop") + DONE)).await;
    model.round().await.answer("Well.").await;
    assert_eq!(outcome(&stream.rest().await), "stop");
    let spans = collector.spans(4).await;
    let tool = spans.iter().find(|span| span["name"] == "execute_tool bad__echo");
    let tool = tool.unwrap_or_else(|| panic!("{spans:?}"));
    assert_eq!(text_of(tool, "tether.tool.source"), "mcp bad");
    assert_eq!(text_of(tool, "mcp.method.name"), "tools/call");
    assert_eq!(text_of(tool, "mcp.protocol.version"), "2025-11-25");
    assert_eq!(text_of(tool, "network.transport"), "pipe");
}
