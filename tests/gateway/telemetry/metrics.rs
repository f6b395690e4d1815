//! The exact metrics that a scripted afternoon leaves in `/metrics`.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::json;

use super::{choice, config, look_up_and_send, prompt, send, sum, turn};
use crate::support::client::request;
use crate::support::model::call;
use crate::support::process::Process;
use crate::support::{Model, within};

/// The samples of a gateway: name with labels, and value.
pub(super) struct Samples(BTreeMap<String, f64>);

impl Samples {
    pub(super) async fn of(gateway: &Process) -> Self {
        let text = String::from_utf8(gateway.get("/metrics").await.body).unwrap();
        let lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
        let samples = lines.map(|line| {
            let (name, value) = line.rsplit_once(' ').expect("a sample");
            (name.to_owned(), value.parse().expect("a number"))
        });
        Self(samples.collect())
    }

    pub(super) fn value(&self, name: &str) -> f64 {
        self.0.get(name).copied().unwrap_or_default()
    }

    /// The counters that are at 0.
    fn counters_at_0(&self) -> BTreeSet<&str> {
        let counters = self.0.iter().filter(|(sample, _)| sample.contains("_total"));
        counters.filter(|(_, value)| **value == 0.0).map(|(sample, _)| &**sample).collect()
    }

    /// Checks that these are all samples of this name, beside [counters at 0](Self::counters_at_0).
    #[track_caller]
    fn check(&self, name: &str, expected: &[(&str, u32)]) {
        let found = self.0.iter().filter_map(|(sample, value)| {
            let labels = sample.strip_prefix(name)?;
            let is_it = labels.is_empty() || labels.starts_with('{');
            let counts = *value > 0.0 || expected.iter().any(|(other, _)| *other == labels);
            (is_it && counts).then_some((labels, *value))
        });
        let all: BTreeMap<_, _> = found.collect();
        let expected = expected.iter().map(|(labels, value)| (*labels, f64::from(*value)));
        assert_eq!(all, expected.collect(), "{name}");
    }
}

/// Turns of each kind, one after another.
async fn afternoon(gateway: &Process, model: &mut Model) {
    // Text; then silence followed by text.
    turn(gateway, model, &prompt("a"), &["Hello."]).await;
    turn(gateway, model, &prompt("a"), &["", "Hello."]).await;
    // Nothing but silence.
    turn(gateway, model, &prompt("b"), &["", " ", "\n"]).await;
    // No such tool, bad arguments, invalid JSON; then a good call and the answer.
    let bad = call("calculate", &json!({"expression": 7}));
    let several = [&*call("calc", &json!({})), &bad, &*sum(1)].join("\n");
    turn(gateway, model, &prompt("c"), &[&several, "<<function_call>> {]", "Two."]).await;
    // A call, the same call again, another call, and the loop limit.
    turn(gateway, model, &prompt("d"), &[&sum(1), &sum(1), &sum(2), "Two."]).await;
    // More calls than a turn may make.
    let calls = (1..=5).map(sum).collect::<Vec<_>>().join("\n");
    turn(gateway, model, &prompt("e"), &[&calls, "Many."]).await;
    // A tool that fails because there is no such person.
    let lost = call("send_message", &json!({"contact_id": "contact_nobody", "text": "Hello"}));
    turn(gateway, model, &prompt("f"), &[&lost, "There is nobody."]).await;
    // Asked and answered; then asked, and the question dropped.
    let asked = turn(gateway, model, &prompt("g"), &[&look_up_and_send()]).await;
    let answer = choice("g", &asked, "contact_john_doe");
    turn(gateway, model, &answer, &[&send(), "It is sent."]).await;
    turn(gateway, model, &prompt("j"), &[&look_up_and_send()]).await;
    turn(gateway, model, &prompt("j"), &["Never mind."]).await;
    // A model whose connection breaks.
    let (mut stream, mut round) = gateway.begin(model, "h").await;
    round.begin().await;
    round.say("Half a").await;
    stream.up_to("text_delta").await;
    round.reset();
    stream.rest().await;
    // A user who leaves.
    let (mut stream, mut round) = gateway.begin(model, "i").await;
    assert_eq!(gateway.cancel("i").await, 202);
    stream.rest().await;
    round.closed().await;
}

#[tokio::test]
async fn each_decision_is_counted_where_it_belongs() {
    let mut model = Model::listen();
    let gateway = Process::start(&config(&model)).await;
    let before = Samples::of(&gateway).await;
    afternoon(&gateway, &mut model).await;
    let samples = Samples::of(&gateway).await;
    let (begun, left) = (before.counters_at_0(), samples.counters_at_0());
    assert!(begun.contains("tether_turns_total{outcome=\"stop\"}"), "{begun:?}");
    assert!(left.is_subset(&begun), "what was not counted has no sample: {left:?}");
    samples.check(
        "tether_turns_total",
        &[
            ("{outcome=\"stop\"}", 7),
            ("{outcome=\"loop_limit\"}", 1),
            ("{outcome=\"clarification_needed\"}", 2),
            ("{outcome=\"empty_response\"}", 1),
            ("{outcome=\"upstream_error\"}", 1),
            ("{outcome=\"cancelled\"}", 1),
        ],
    );
    samples.check("tether_turn_rounds_count", &[("", 13)]);
    samples.check("tether_turn_rounds_sum", &[("", 24)]);
    samples.check("tether_turn_seconds_count", &[("", 13)]);
    samples.check("tether_first_event_seconds_count", &[("", 13)]);
    // The model of the cancelled turn never said anything.
    samples.check("tether_first_delta_seconds_count", &[("", 12)]);
    samples.check("tether_empty_answers_total", &[("", 4)]);
    samples.check(
        "tether_feedback_total",
        &[
            ("{reason=\"tool_not_found\"}", 1),
            ("{reason=\"invalid_arguments\"}", 1),
            ("{reason=\"malformed_call\"}", 1),
            ("{reason=\"tool_failed\"}", 1),
            ("{reason=\"empty_response\"}", 3),
        ],
    );
    samples.check(
        "tether_tool_calls_total",
        &[
            ("{source=\"builtin\",tool=\"calculate\",outcome=\"done\"}", 7),
            ("{source=\"builtin\",tool=\"lookup_contacts\",outcome=\"done\"}", 2),
            ("{source=\"builtin\",tool=\"send_message\",outcome=\"done\"}", 1),
            ("{source=\"builtin\",tool=\"send_message\",outcome=\"failed\"}", 1),
        ],
    );
    samples.check(
        "tether_tool_seconds_count",
        &[
            ("{tool=\"calculate\"}", 7),
            ("{tool=\"lookup_contacts\"}", 2),
            ("{tool=\"send_message\"}", 2),
        ],
    );
    samples.check("tether_tool_hidden_seconds_count", &[("", 11)]);
    samples.check(
        "tether_calls_not_run_total",
        &[
            ("{why=\"refused\"}", 2),
            ("{why=\"repeated\"}", 1),
            ("{why=\"over_cap\"}", 1),
            ("{why=\"skipped\"}", 2),
        ],
    );
    samples.check(
        "tether_clarifications_total",
        &[("{outcome=\"asked\"}", 2), ("{outcome=\"answered\"}", 1), ("{outcome=\"dropped\"}", 1)],
    );
    assert!(samples.value("tether_turn_seconds_sum") > 0.0);
}

#[tokio::test]
async fn turns_that_run_are_counted_by_their_state() {
    let mut model = Model::listen();
    let gateway = Process::start(&config(&model)).await;
    let running = async |state: &str| {
        let samples = Samples::of(&gateway).await;
        samples.value(&format!("tether_turns_running{{state=\"{state}\"}}"))
    };
    let at_once = json!({"session_id": "a", "prompt": "Hello?", "max_tool_loops": 1});
    let mut closing = gateway.turn(&at_once).await;
    model.round().await.answer_at_once(&sum(1)).await;
    let closing_round = model.round().await;
    let (mut stream, round) = gateway.begin(&mut model, "b").await;
    let counted = (running("planning").await, running("synthesizing").await);
    assert!(counted == (1.0, 1.0), "{counted:?}");
    round.answer("Hello.").await;
    closing_round.answer("Two.").await;
    stream.rest().await;
    closing.rest().await;
    // Turns stop counting as running before their last event is sent.
    for state in ["planning", "executing", "synthesizing"] {
        within(async { assert!(running(state).await == 0.0, "{state}") }).await;
    }
}

#[tokio::test]
async fn what_the_binary_was_built_from_is_shown() {
    let model = Model::listen();
    let gateway = Process::start(&config(&model)).await;
    let [version, commit, target, features] = [
        env!("CARGO_PKG_VERSION"),
        env!("TETHER_COMMIT"),
        env!("TETHER_TARGET"),
        env!("TETHER_FEATURES"),
    ];
    let built_from = format!(
        "{{version=\"{version}\",commit=\"{commit}\",target=\"{target}\",features=\"{features}\"}}"
    );
    Samples::of(&gateway).await.check("tether_build_info", &[(&*built_from, 1)]);
}

#[tokio::test]
async fn session_sizes_are_shown() {
    let mut model = Model::listen();
    let gateway = Process::start(&config(&model)).await;
    turn(&gateway, &mut model, &prompt("a"), &["Hello."]).await;
    let held = Samples::of(&gateway).await;
    held.check("tether_sessions", &[("", 1)]);
    assert!(held.value("tether_session_bytes") > 500.0);
    assert!(held.value("tether_turn_log_bytes") > 500.0);
    let forgotten = gateway.exchange(request("DELETE", "/api/v1/sessions/a", &[], "")).await;
    assert_eq!(forgotten.status(), 204);
    let held = Samples::of(&gateway).await;
    for name in ["tether_sessions", "tether_session_bytes", "tether_turn_log_bytes"] {
        held.check(name, &[("", 0)]);
    }
}

/// The CORS layer answers preflights, and no handler sees them.
#[tokio::test]
async fn preflights_are_requests() {
    let model = Model::listen();
    let gateway = Process::start(&config(&model)).await;
    for path in ["/api/v1/chat/stream", "/nothing"] {
        let headers = ["Origin: https://a.example", "Access-Control-Request-Method: POST"];
        let reply = gateway.exchange(request("OPTIONS", path, &headers, "")).await;
        assert_eq!(reply.status(), 200);
    }
    gateway.exchange("nonsense\r\n\r\n").await;
    let samples = Samples::of(&gateway).await;
    let requests = |labels: &str| {
        let name = format!("tether_http_requests_total{{{labels}}}");
        samples.value(&name).to_string()
    };
    assert_eq!(requests("route=\"chat_stream\",status=\"200\""), "1");
    assert_eq!(requests("route=\"none\",status=\"200\""), "1");
    // Nor do they see a head that cannot be read.
    assert_eq!(requests("route=\"none\",status=\"400\""), "1");
}
