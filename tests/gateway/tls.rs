//! The gateway's own TLS: both protocols over it, clients that leave or dawdle, certificates that change.

use std::process::{Command, Stdio};

use serde_json::json;
use tether::limits::server::TLS_HANDSHAKES_MAX;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::task::spawn_blocking;

use crate::support::client::{post, request};
use crate::support::events::{frames, outcome, said};
use crate::support::gateway::{Endpoint, STREAM, Setup};
use crate::support::h2::{Connection, collect};
use crate::support::model::text;
use crate::support::process::{Log, Process};
use crate::support::tls::{Files, Tunnel, connect, connector};
use crate::support::{Client, Gateway, Model, ms, until, within};

/// A gateway that speaks TLS, and a tunnel to it for clients of this protocol, with its plain end.
async fn gateway(
    model: &Model,
    protocol: &str,
    change: impl FnOnce(&mut Setup),
) -> (Gateway, Tunnel, Endpoint) {
    let (files, certificate) = Files::new();
    let gateway = Gateway::with(model.address, |setup| {
        let (cert, key) = (files.cert(), files.key());
        setup.config.server.tls = Some(tether::config::TlsConfig { cert, key });
        change(setup);
    })
    .await;
    let tunnel = Tunnel::open(gateway.address, certificate, &[protocol]).await;
    let door = Endpoint { address: tunnel.address };
    (gateway, tunnel, door)
}

#[tokio::test]
async fn a_turn_runs_over_http_1() {
    let mut model = Model::listen();
    let (_gateway, tunnel, door) = gateway(&model, "http/1.1", |_| {}).await;
    let mut stream = door.whole_turn(&mut model, "s", "Well.").await;
    let events = stream.rest().await;
    assert_eq!((said(&events), outcome(&events)), ("Well.".to_owned(), "stop"));
    assert_eq!(*tunnel.agreed.lock(), [Some(b"http/1.1".to_vec())]);
}

#[tokio::test]
async fn turns_run_over_http_2() {
    let mut model = Model::listen();
    let (_gateway, tunnel, door) = gateway(&model, "h2", |_| {}).await;
    let mut connection = Connection::open(door.address, 64 * 1024).await;
    for session in ["a", "b"] {
        let prompt = json!({"session_id": session, "prompt": "Hello?"}).to_string();
        let reply = connection.send("POST", STREAM, &prompt).await.unwrap();
        model.round().await.answer("Well.").await;
        let bytes = collect(reply.into_body()).await.unwrap();
        assert_eq!(said(&frames(&bytes)), "Well.");
    }
    assert_eq!(*tunnel.agreed.lock(), [Some(b"h2".to_vec())]);
}

#[tokio::test]
async fn both_protocols_are_offered_and_no_other() {
    let model = Model::listen();
    let (files, certificate) = Files::new();
    let gateway = Gateway::with(model.address, |setup| {
        let (cert, key) = (files.cert(), files.key());
        setup.config.server.tls = Some(tether::config::TlsConfig { cert, key });
    })
    .await;
    let agreed = async |protocols: &[&str]| {
        let connector = connector(certificate.clone(), protocols);
        let stream = within(connect(&connector, gateway.address)).await?;
        Some(stream.get_ref().1.alpn_protocol().map(<[u8]>::to_vec))
    };
    assert_eq!(agreed(&["http/1.1", "h2"]).await, Some(Some(b"h2".to_vec())));
    assert_eq!(agreed(&["http/1.1"]).await, Some(Some(b"http/1.1".to_vec())));
    assert_eq!(agreed(&[]).await, Some(None));
    assert_eq!(agreed(&["spdy/3"]).await, None);
}

/// At once, not with the next event.
#[tokio::test]
async fn a_client_that_leaves_a_silent_stream_is_noticed() {
    let mut model = Model::listen();
    let leave_at_once = |setup: &mut Setup| setup.config.stream.disconnect_grace = ms(1);
    let (_gateway, _tunnel, door) = gateway(&model, "http/1.1", leave_at_once).await;
    let (stream, mut round) = door.begin(&mut model, "s").await;
    drop(stream);
    round.closed().await;
}

/// Nothing is written before the answer, so only its `close_notify` can tell.
#[tokio::test]
async fn a_client_that_leaves_before_its_answer_is_noticed() {
    let mut model = Model::listen();
    let (_gateway, _tunnel, door) = gateway(&model, "http/1.1", |_| {}).await;
    let mut client = door.client().await;
    let body = json!({"model": "fake", "messages": [{"role": "user", "content": "Hello?"}]});
    client.send(post("/v1/chat/completions", &[], &body.to_string())).await;
    let mut round = model.round().await;
    drop(client);
    round.closed().await;
}

#[tokio::test]
async fn a_reader_that_takes_nothing_is_cut() {
    let mut model = Model::listen();
    let (_gateway, _tunnel, door) = gateway(&model, "http/1.1", |setup| {
        setup.config.limits.max_turn_bytes = 64 << 20;
        setup.config.stream.disconnect_grace = ms(1);
        setup.timeouts.reader = ms(300);
    })
    .await;
    let mut slow = door.narrow_client().await;
    slow.send(post(STREAM, &[], &json!({"prompt": "Hello?"}).to_string())).await;
    let mut round = model.round().await;
    round.begin().await;
    let frame = text(&"x".repeat(32 * 1024));
    let chunk = format!("{:x}\r\n{frame}\r\n", frame.len());
    // More than the buffers on the way hold.
    round.flood(chunk.as_bytes(), 256).await;
    round.closed().await;
}

#[tokio::test]
async fn clients_that_do_not_speak_tls_disturb_nobody() {
    let mut model = Model::listen();
    let (gateway, _tunnel, door) = gateway(&model, "http/1.1", |_| {}).await;
    for bytes in
        [request("GET", "/healthz", &[], ""), "\0".repeat(100), "PRI * HTTP/2.0".to_owned()]
    {
        let mut client = gateway.client().await;
        client.send(&bytes).await;
        // At most an alert comes back, and nothing in plain HTTP.
        let answer = client.closed().await;
        assert!(answer.len() < 32 && !answer.starts_with(b"HTTP"), "{answer:?}");
    }
    door.whole_turn(&mut model, "s", "Well.").await.rest().await;
}

/// hyper refuses it by itself.
#[tokio::test]
async fn a_head_that_cannot_be_read_is_refused_in_our_words() {
    let model = Model::listen();
    let (_gateway, _tunnel, door) = gateway(&model, "http/1.1", |_| {}).await;
    let mut client = Client::connect(door.address).await;
    client.send("GET /healthz HTTP/1.1\r\nHost: localhost\r\nno header\r\n\r\n").await;
    let reply = client.reply().await;
    assert_eq!((reply.status(), &reply.json()["error"]["code"]), (400, &json!("invalid_request")));
    assert!(client.closed().await.is_empty());
}

#[tokio::test]
async fn a_handshake_that_takes_too_long_is_cut() {
    let model = Model::listen();
    let (gateway, ..) =
        gateway(&model, "http/1.1", |setup| setup.timeouts.handshake = ms(50)).await;
    let mut silent = gateway.client().await;
    assert_eq!(silent.closed().await, b"");
    // The beginning of a record that never ends.
    let mut slow = gateway.client().await;
    slow.send(b"\x16\x03\x01\x02\x00\x01").await;
    assert_eq!(slow.closed().await, b"");
}

#[tokio::test]
async fn the_oldest_handshake_makes_room_for_a_new_one() {
    let mut model = Model::listen();
    let (gateway, _tunnel, door) = gateway(&model, "http/1.1", |_| {}).await;
    let mut silent = Vec::new();
    for _ in 0..TLS_HANDSHAKES_MAX {
        silent.push(gateway.client().await);
    }
    door.whole_turn(&mut model, "s", "Well.").await.rest().await;
    let mut oldest = silent.remove(0);
    assert_eq!(oldest.closed().await, b"");
    // The next oldest still has its place.
    let mut byte = [0];
    assert!(silent[0].socket.try_read(&mut byte).is_err());
}

/// A gateway in its own process, and its log.
async fn process(model: &Model, files: &Files) -> (Process, Log) {
    let tls = files.config();
    let config = format!(
        "server: {{listen: \"127.0.0.1:0\", {tls}}}\nupstreams: [{{base_url: \"http://{}/v1\"}}]\n",
        model.address
    );
    Process::start_logging_raw(config).await
}

#[track_caller]
fn logged(log: &Log, part: &str) -> impl Future<Output = ()> {
    until(move || log.lines().iter().any(|line| line.to_string().contains(part)))
}

#[tokio::test]
async fn a_certificate_is_replaced_while_connections_go_on() {
    let model = Model::listen();
    let (files, first) = Files::new();
    let (process, log) = process(&model, &files).await;
    let before = Tunnel::open(process.address, first.clone(), &["http/1.1"]).await;
    let mut old = Client::connect(before.address).await;
    old.send(request("GET", "/healthz", &[], "")).await;
    assert_eq!(old.reply().await.status(), 200);

    let second = files.renew();
    process.signal("HUP");
    logged(&log, "certificate reloaded").await;
    let trusting_second = connector(second, &["http/1.1"]);
    assert!(within(connect(&trusting_second, process.address)).await.is_some());
    assert!(within(connect(&connector(first, &["http/1.1"]), process.address)).await.is_none());
    old.send(request("GET", "/healthz", &[], "")).await;
    assert_eq!(old.reply().await.status(), 200);

    // After unusable files, the second certificate still serves.
    std::fs::write(files.cert(), "").unwrap();
    process.signal("HUP");
    logged(&log, "the previous certificate stays in use").await;
    let mut stream = within(connect(&trusting_second, process.address)).await.unwrap();
    stream
        .write_all(request("GET", "/healthz", &["Connection: close"], "").as_bytes())
        .await
        .unwrap();
    let mut answer = Vec::new();
    within(stream.read_to_end(&mut answer)).await.unwrap();
    assert!(answer.starts_with(b"HTTP/1.1 200 "), "{}", String::from_utf8_lossy(&answer));

    files.expire();
    process.signal("HUP");
    logged(&log, "has expired; clients will refuse it").await;
}

#[tokio::test]
async fn handshakes_are_counted_by_how_they_ended() {
    let model = Model::listen();
    let (files, certificate) = Files::new();
    let (process, log) = process(&model, &files).await;
    let mut plain = Client::connect(process.address).await;
    plain.send(request("GET", "/healthz", &[], "")).await;
    logged(&log, "TLS handshake failed").await;
    let mut silent = Vec::new();
    for _ in 0..TLS_HANDSHAKES_MAX {
        silent.push(Client::connect(process.address).await);
    }
    let tunnel = Tunnel::open(process.address, certificate, &["http/1.1"]).await;
    let metrics = Endpoint { address: tunnel.address }.get("/metrics").await;
    let metrics = String::from_utf8(metrics.body).unwrap();
    for (outcome, count) in [("done", 1), ("failed", 1), ("displaced", 1), ("timed_out", 0)] {
        let sample = format!("tether_tls_handshakes_total{{outcome=\"{outcome}\"}} {count}\n");
        assert!(metrics.contains(&sample), "{sample} {metrics}");
    }
}

/// A pipe instead of a file, which nobody writes to: the read hangs, as on a network file system that is gone.
#[tokio::test]
async fn a_reload_that_hangs_keeps_nothing_else() {
    let model = Model::listen();
    let (files, _) = Files::new();
    let (process, log) = process(&model, &files).await;
    std::fs::remove_file(files.cert()).unwrap();
    assert!(Command::new("mkfifo").arg(files.cert()).status().unwrap().success());
    process.signal("HUP");
    // It can be opened as soon as the gateway reads it.
    let opened = spawn_blocking(move || {
        std::fs::OpenOptions::new().write(true).open(files.cert()).map(|pipe| (pipe, files))
    });
    let (_open, files) = within(opened).await.unwrap().unwrap();
    // Nor does it keep the next one.
    logged(&log, "the previous certificate stays in use").await;
    std::fs::remove_file(files.cert()).unwrap();
    files.renew();
    process.signal("HUP");
    logged(&log, "certificate reloaded").await;
    process.signal("TERM");
    assert_eq!(process.exit().await.code(), Some(0));
}

/// Runs `tether` with this `tls` section. Returns its standard error and its exit status.
fn run(arguments: &[&str], tls: &str) -> (String, Option<i32>) {
    let config = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(config.path(), format!("server: {{listen: \"127.0.0.1:0\", {tls}}}\n")).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_tether"));
    command.args(arguments).arg("--config").arg(config.path()).stdin(Stdio::null());
    let output = command.env_remove("TETHER_LOG").output().unwrap();
    (String::from_utf8(output.stderr).unwrap(), output.status.code())
}

#[test]
fn a_gateway_does_not_wait_for_a_pipe_in_place_of_its_certificate() {
    let (files, _) = Files::new();
    std::fs::remove_file(files.cert()).unwrap();
    assert!(Command::new("mkfifo").arg(files.cert()).status().unwrap().success());
    let tls = format!("tls: {{cert: {:?}, key: {:?}}}", files.cert(), files.key());
    for command in [&["serve"][..], &["check"]] {
        let (error, status) = run(command, &tls);
        assert_eq!(status, Some(2), "{error}");
        assert!(error.contains("it is not a file (`server.tls.cert`)"), "{error}");
    }
}

#[test]
fn a_gateway_does_not_start_without_its_certificate() {
    let (files, _) = Files::new();
    let (other, _) = Files::new();
    let missing = format!("tls: {{cert: /nowhere/cert.pem, key: {:?}}}", files.key());
    let mixed = format!("tls: {{cert: {:?}, key: {:?}}}", files.cert(), other.key());
    for command in [&["serve"][..], &["check"]] {
        let (error, status) = run(command, &missing);
        assert_eq!(status, Some(2), "{error}");
        assert!(error.contains("cannot read /nowhere/cert.pem"), "{error}");
        let (error, status) = run(command, &mixed);
        assert_eq!(status, Some(2), "{error}");
        assert!(error.contains("does not belong to the certificate"), "{error}");
    }
}

#[test]
fn an_expired_certificate_is_warned_about() {
    let (files, _) = Files::new();
    assert_eq!(run(&["check"], &files.config()), (String::new(), Some(0)));
    files.expire();
    let (warning, status) = run(&["check"], &files.config());
    assert_eq!(status, Some(0), "{warning}");
    assert!(warning.starts_with("warning: server.tls.cert: "), "{warning}");
    assert!(warning.contains("has expired"), "{warning}");
}
