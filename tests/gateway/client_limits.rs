//! The limits of one client, by its address and by its key: at each of them, and one over it.

use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusRecorder};
use serde_json::{Value, json};
use tether::config::Secret;
use tether::server::ForwardedHeader;

use crate::support::client::{post, request};
use crate::support::events::outcome;
use crate::support::gateway::{STREAM, Setup};
use crate::support::{Client, EventStream, Gateway, Model, Round};

/// Makes this machine a trusted proxy.
fn trust(setup: &mut Setup, header: ForwardedHeader) {
    setup.config.server.trusted_proxies = vec!["127.0.0.1".parse().unwrap()];
    setup.config.server.forwarded_header = header;
}

fn keys(setup: &mut Setup, keys: &[&str]) {
    setup.config.server.api_keys = keys.iter().map(|&key| Secret::new(key.to_owned())).collect();
}

/// Applies the limits by address to this machine, too.
fn exempt_nobody(setup: &mut Setup) {
    setup.config.server.limits.exempt_addresses = Vec::new();
}

/// Checks how many refusals were counted for this limit, on the thread on which the gateway runs.
#[track_caller]
fn counted(recorder: &PrometheusRecorder, limit: &str, expected: u32) {
    let text = recorder.handle().render();
    let lines = text.lines().filter(|line| line.starts_with("tether_over_limit_total"));
    let lines: Vec<&str> = lines.collect();
    assert_eq!(lines, [format!("tether_over_limit_total{{limit=\"{limit}\"}} {expected}")]);
}

/// Checks that a request is refused with 429 and this code.
#[track_caller]
fn refused(reply: &crate::support::client::Reply, code: &str) {
    let (status, found, _) = reply.refusal();
    assert_eq!((status, &*found), (429, code), "{}", reply.message());
    let wait: u64 = reply.head.header("retry-after").unwrap().parse().unwrap();
    assert!((1..=30).contains(&wait), "{wait}");
}

async fn status(client: &mut Client) -> u16 {
    client.send(request("GET", "/healthz", &[], "")).await;
    client.reply().await.status()
}

#[tokio::test]
async fn an_address_has_a_limit_on_its_connections() {
    let recorder = PrometheusBuilder::new().build_recorder();
    let _counting = metrics::set_default_local_recorder(&recorder);
    let mut model = Model::listen();
    let gateway = Gateway::with(model.address, |setup| {
        exempt_nobody(setup);
        setup.config.server.limits.connections_per_address = Some(2);
    })
    .await;
    let (mut stream, round) = gateway.begin(&mut model, "s").await;
    let mut second = gateway.client().await;
    assert_eq!(status(&mut second).await, 200);
    for _ in 0..3 {
        let mut third = gateway.client().await;
        third.send(post(STREAM, &[], &json!({"prompt": "Hello?"}).to_string())).await;
        let reply = third.reply().await;
        refused(&reply, "too_many_connections");
        assert!(reply.message().contains("server.trusted_proxies"), "{}", reply.message());
        assert_eq!(third.closed().await, b"");
    }
    // The others notice nothing.
    assert_eq!(status(&mut second).await, 200);
    round.answer("Well.").await;
    assert_eq!(outcome(&stream.rest().await), "stop");
    counted(&recorder, "connections_per_address", 3);
    // A closed connection no longer counts.
    drop(second);
    while status(&mut gateway.client().await).await != 200 {}
}

/// Clients over their limit cannot hold more than a few connections by staying silent.
#[tokio::test]
async fn silent_connections_over_the_limit_are_closed() {
    let recorder = PrometheusBuilder::new().build_recorder();
    let _counting = metrics::set_default_local_recorder(&recorder);
    let model = Model::listen();
    let gateway = Gateway::with(model.address, |setup| {
        exempt_nobody(setup);
        setup.config.server.limits.connections_per_address = Some(1);
    })
    .await;
    let mut first = gateway.client().await;
    assert_eq!(status(&mut first).await, 200);
    let mut silent = Vec::new();
    for _ in 0..tether::limits::server::REFUSED_CONNECTIONS_MAX {
        silent.push(gateway.client().await);
    }
    let mut another = gateway.client().await;
    assert_eq!(another.closed().await, b"");
    assert_eq!(status(&mut first).await, 200);
    let refused = u32::try_from(silent.len()).unwrap() + 1;
    for mut client in silent {
        assert_eq!(client.closed().await, b"");
    }
    counted(&recorder, "connections_per_address", refused);
}

#[tokio::test]
async fn connections_of_this_machine_and_of_a_trusted_proxy_are_not_limited() {
    for is_proxy in [false, true] {
        let model = Model::listen();
        let gateway = Gateway::with(model.address, |setup| {
            setup.config.server.limits.connections_per_address = Some(1);
            if is_proxy {
                exempt_nobody(setup);
                trust(setup, ForwardedHeader::default());
            }
        })
        .await;
        let mut clients = [gateway.client().await, gateway.client().await, gateway.client().await];
        for client in &mut clients {
            assert_eq!(status(client).await, 200);
        }
    }
}

/// Sends one request for each of these sets of headers, all at once, so that no time passes between them.
/// Returns the statuses.
async fn statuses(gateway: &Gateway, requests: &[&[&str]]) -> Vec<u16> {
    let bytes: String =
        requests.iter().map(|headers| request("GET", "/api/v1/tools", headers, "")).collect();
    let mut client = gateway.client().await;
    client.send(bytes).await;
    let mut statuses = Vec::new();
    for _ in requests {
        let reply = client.reply().await;
        if reply.status() == 429 {
            refused(&reply, "too_many_requests");
        }
        statuses.push(reply.status());
    }
    statuses
}

#[tokio::test]
async fn each_address_behind_a_proxy_has_a_rate_of_its_own() {
    for (header, one, other) in [
        (
            ForwardedHeader::XForwardedFor,
            "X-Forwarded-For: 192.0.2.1",
            "X-Forwarded-For: 192.0.2.2",
        ),
        (ForwardedHeader::Forwarded, "Forwarded: for=192.0.2.1", "Forwarded: for=\"[2001:db8::]\""),
    ] {
        let model = Model::listen();
        let gateway = Gateway::with(model.address, |setup| {
            trust(setup, header);
            setup.config.server.limits.head_rate_per_address = Some(2);
        })
        .await;
        let requests: &[&[&str]] = &[&[one], &[one], &[one], &[other], &[other], &[other]];
        assert_eq!(statuses(&gateway, requests).await, [200, 200, 429, 200, 200, 429]);
        // The proxy's own requests, such as health checks, have no limit.
        assert_eq!(statuses(&gateway, &[&[][..]; 4]).await, [200; 4]);
    }
}

/// A client that writes the header itself gains nothing, and uses up nobody else's rate.
#[tokio::test]
async fn addresses_that_a_client_makes_up_do_not_count() {
    let [spoofed, more, own] = ["198.51.100.1", "198.51.100.2, 198.51.100.3", "192.0.2.1"];
    let [spoofed, more, own] = [spoofed, more, own].map(|it| format!("X-Forwarded-For: {it}"));
    let limit = |setup: &mut Setup| {
        exempt_nobody(setup);
        setup.config.server.limits.head_rate_per_address = Some(2);
    };
    let model = Model::listen();
    let untrusting = Gateway::with(model.address, limit).await;
    let requests: &[&[&str]] = &[&[&spoofed], &[&more], &[&own], &[]];
    assert_eq!(statuses(&untrusting, requests).await, [200, 200, 429, 429]);

    let behind_proxy = Gateway::with(model.address, |setup| {
        limit(setup);
        trust(setup, ForwardedHeader::default());
    })
    .await;
    // The proxy has appended the last line.
    let requests: &[&[&str]] = &[&[&spoofed, &own], &[&more, &own], &[&own], &[&spoofed]];
    assert_eq!(statuses(&behind_proxy, requests).await, [200, 200, 429, 200]);
}

#[tokio::test]
async fn preflights_count_like_other_requests() {
    let recorder = PrometheusBuilder::new().build_recorder();
    let _counting = metrics::set_default_local_recorder(&recorder);
    let model = Model::listen();
    let gateway = Gateway::with(model.address, |setup| {
        exempt_nobody(setup);
        setup.config.server.limits.head_rate_per_address = Some(2);
    })
    .await;
    let preflight = request("OPTIONS", "/api/v1/tools", &["Origin: http://a.example"], "");
    let mut client = gateway.client().await;
    client.send(preflight.repeat(3)).await;
    for expected in [200, 200, 429] {
        assert_eq!(client.reply().await.status(), expected);
    }
    counted(&recorder, "head_rate_per_address", 1);
}

#[tokio::test]
async fn each_key_has_a_rate_of_its_own() {
    let recorder = PrometheusBuilder::new().build_recorder();
    let _counting = metrics::set_default_local_recorder(&recorder);
    let model = Model::listen();
    let gateway = Gateway::with(model.address, |setup| {
        keys(setup, &["first", "second"]);
        setup.config.server.limits.head_rate_per_key = Some(2);
    })
    .await;
    let [first, second, wrong] =
        ["first", "second", "wrong"].map(|key| format!("Authorization: Bearer {key}"));
    let requests: &[&[&str]] =
        &[&[&first], &[&first], &[&first], &[&second], &[&second], &[&second], &[&wrong]];
    let expected = [200, 200, 429, 200, 200, 429, 401];
    assert_eq!(statuses(&gateway, requests).await, expected);
    counted(&recorder, "head_rate_per_key", 2);
}

/// Begins a turn with these headers, and receives its request at the model server.
async fn begin(gateway: &Gateway, model: &mut Model, headers: &[&str]) -> (EventStream, Round) {
    let stream = gateway.turn_with(headers, &json!({"prompt": "Hello?"})).await;
    (stream, model.round().await)
}

/// Checks that another turn with these headers is refused, with the limit `key` in the message.
#[track_caller]
fn over(gateway: &Gateway, headers: &[&str], key: &'static str) -> impl Future<Output = ()> {
    let begins = post(STREAM, headers, &json!({"prompt": "Hello?"}).to_string());
    let reply = gateway.exchange(begins);
    async move {
        let reply = reply.await;
        refused(&reply, "too_many_turns");
        assert!(reply.message().contains(key), "{}", reply.message());
    }
}

#[tokio::test]
async fn an_address_has_a_limit_on_its_turns() {
    let recorder = PrometheusBuilder::new().build_recorder();
    let _counting = metrics::set_default_local_recorder(&recorder);
    let mut model = Model::listen();
    let gateway = Gateway::with(model.address, |setup| {
        trust(setup, ForwardedHeader::default());
        setup.config.server.limits.turns_per_address = Some(2);
    })
    .await;
    let (one, other) = ("X-Forwarded-For: 192.0.2.1", "X-Forwarded-For: 192.0.2.2");
    let (mut first, round) = begin(&gateway, &mut model, &[one]).await;
    let _second = begin(&gateway, &mut model, &[one]).await;
    over(&gateway, &[one], "server.limits.turns_per_address").await;
    let _other = begin(&gateway, &mut model, &[other]).await;
    round.answer("Well.").await;
    assert_eq!(outcome(&first.rest().await), "stop");
    let _third = begin(&gateway, &mut model, &[one]).await;
    counted(&recorder, "turns_per_address", 1);
}

#[tokio::test]
async fn a_key_has_a_limit_on_its_turns() {
    let recorder = PrometheusBuilder::new().build_recorder();
    let _counting = metrics::set_default_local_recorder(&recorder);
    let mut model = Model::listen();
    let gateway = Gateway::with(model.address, |setup| {
        keys(setup, &["first", "second"]);
        setup.config.server.limits.turns_per_key = Some(1);
    })
    .await;
    let [one, other] = ["X-Api-Key: first", "X-Api-Key: second"];
    let (mut first, round) = begin(&gateway, &mut model, &[one]).await;
    over(&gateway, &[one], "server.limits.turns_per_key").await;
    let _other = begin(&gateway, &mut model, &[other]).await;
    round.answer("Well.").await;
    assert_eq!(outcome(&first.rest().await), "stop");
    let _second = begin(&gateway, &mut model, &[one]).await;
    counted(&recorder, "turns_per_key", 1);
}

/// Of four places, one is reserved.
#[tokio::test]
async fn a_key_that_uses_more_than_its_share_is_refused_before_one_that_uses_less() {
    let recorder = PrometheusBuilder::new().build_recorder();
    let _counting = metrics::set_default_local_recorder(&recorder);
    let mut model = Model::listen();
    let gateway = Gateway::with(model.address, |setup| {
        keys(setup, &["greedy", "modest"]);
        setup.config.server.max_concurrent_turns = 4;
    })
    .await;
    let [greedy, modest] = ["Authorization: Bearer greedy", "Authorization: Bearer modest"];
    let mut turns = Vec::new();
    for _ in 0..3 {
        turns.push(begin(&gateway, &mut model, &[greedy]).await);
    }
    over(&gateway, &[greedy], "server.limits.reserved_turns_percent").await;
    let _modest = begin(&gateway, &mut model, &[modest]).await;
    // Now it is full, for everyone.
    for key in [greedy, modest] {
        let begins = post(STREAM, &[key], &json!({"prompt": "Hello?"}).to_string());
        assert_eq!(gateway.exchange(begins).await.status(), 503);
    }
    // The next free place is not for the key that has three of four.
    let (mut stream, round) = turns.pop().unwrap();
    round.answer("Well.").await;
    assert_eq!(outcome(&stream.rest().await), "stop");
    over(&gateway, &[greedy], "server.limits.reserved_turns_percent").await;
    let _second = begin(&gateway, &mut model, &[modest]).await;
    // Running turns are left alone.
    for (mut stream, round) in turns {
        round.answer("Well.").await;
        assert_eq!(outcome(&stream.rest().await), "stop");
    }
    counted(&recorder, "share", 2);
}

/// With a single key, there is nobody to reserve places for.
#[tokio::test]
async fn a_key_alone_gets_every_place() {
    let mut model = Model::listen();
    let gateway = Gateway::with(model.address, |setup| {
        keys(setup, &["only"]);
        setup.config.server.max_concurrent_turns = 2;
    })
    .await;
    let _first = begin(&gateway, &mut model, &["X-Api-Key: only"]).await;
    let _second = begin(&gateway, &mut model, &["X-Api-Key: only"]).await;
}

/// SDKs look at the status and the type.
#[tokio::test]
async fn each_api_reports_a_limit_in_its_own_form() {
    let mut model = Model::listen();
    let gateway = Gateway::with(model.address, |setup| {
        keys(setup, &["key"]);
        setup.config.server.limits.turns_per_key = Some(1);
    })
    .await;
    let _running = begin(&gateway, &mut model, &["X-Api-Key: key"]).await;
    let chat =
        json!({"model": "fake", "max_tokens": 9, "messages": [{"role": "user", "content": "Hi"}]});
    let over: &[(&str, Value, &str, &str)] = &[
        ("/v1/chat/completions", chat.clone(), "/error/type", "rate_limit_error"),
        ("/v1/messages", chat, "/error/type", "rate_limit_error"),
        (
            "/v1/responses",
            json!({"model": "fake", "input": "Hi"}),
            "/error/type",
            "too_many_requests",
        ),
        (STREAM, json!({"prompt": "Hi"}), "/error/code", "too_many_turns"),
    ];
    for (path, body, pointer, expected) in over {
        let request = post(path, &["X-Api-Key: key"], &body.to_string());
        let reply = gateway.exchange(request).await;
        assert_eq!(reply.status(), 429, "{path}");
        assert_eq!(reply.head.header("retry-after"), Some("2"), "{path}");
        let found = reply.json();
        assert_eq!(found.pointer(pointer), Some(&json!(expected)), "{path}: {found}");
    }
}
