//! A Redis server as operators have them: over TLS with certificates on both sides, and with a user who may do what the
//! docs say.

use serde_json::json;

use crate::support::Model;
use crate::support::model::call;
use crate::support::process::Process;
use crate::support::redis_cluster::free_ports;
use crate::support::redis_server::RedisServer;
use crate::support::tls::{Files, LOCAL_NAME};

/// The command in docs/configuration.md that makes the user.
fn documented_user() -> Vec<&'static str> {
    const DOCS: &str = include_str!("../../docs/configuration.md");
    let line = DOCS.lines().find(|line| line.starts_with("ACL SETUSER tether ")).unwrap();
    line.split(' ').collect()
}

/// Starts a server that takes only connections with this certificate, which is its own one, too. Returns its URL.
fn serve(files: &Files) -> (RedisServer, String) {
    let [port]: [u16; 1] = free_ports();
    let (cert, key) = (files.cert(), files.key());
    let [cert, key] = [&cert, &key].map(|path| path.to_str().unwrap());
    let server = RedisServer::start_with(&[
        "--tls-port",
        &port.to_string(),
        "--tls-cert-file",
        cert,
        "--tls-key-file",
        key,
        "--tls-ca-cert-file",
        cert,
        "--tls-auth-clients",
        "yes",
    ]);
    server.command(&documented_user());
    server.command(&["ACL", "SETUSER", "default", "off"]);
    (server, format!("rediss://{LOCAL_NAME}:{port}"))
}

fn config(model: &Model, url: &str, files: &Files) -> String {
    let (cert, key) = (files.cert(), files.key());
    let (cert, key) = (cert.display(), key.display());
    format!(
        "upstreams: [{{name: fake, kind: openai_chat, base_url: \"http://{}/v1\", model: fake}}]
sessions:
  redis:
    url: {url}
    user: tether
    password: PASSWORD
    ca_file: {cert}
    cert_file: {cert}
    key_file: {key}
    lease_sec: 2
tools:
  builtin: []
  mcp:
    - name: artist
      command: [python3, {}/tests/mcp/server.py, draws]
      prefix: ''
      trust: true
      required: true
",
        model.address,
        env!("CARGO_MANIFEST_DIR")
    )
}

#[tokio::test]
async fn a_turn_its_files_and_its_takeover_work_over_tls_with_the_documented_rights() {
    let (mut model, (files, _)) = (Model::listen(), Files::new());
    let (_server, url) = serve(&files);
    let config = config(&model, &url, &files);
    let [one, two] = [Process::start(&config).await, Process::start(&config).await];
    let mut stream = one.turn(&json!({"session_id": "s", "prompt": "Draw."})).await;
    // Before that, nobody else can know of it.
    let mut seen = stream.up_to("turn_started").await;
    let mut elsewhere = two.rejoin("session_id=s", &[]).await;
    model.round().await.answer(&call("odd", &json!({}))).await;
    let mut round = model.round().await;
    round.begin().await;
    round.say("Half a wo").await;
    seen.extend(stream.up_to_text("Half a wo").await);
    assert_eq!(elsewhere.up_to_text("Half a wo").await, seen);

    let drawn = seen.iter().find(|frame| frame.event == "tool_completed").unwrap();
    let url = drawn.data["tool_result"]["data"]["artifacts"][0]["url"].as_str().unwrap();
    for node in [&one, &two] {
        let file = node.get(url).await;
        assert_eq!((file.status(), &*file.body), (200, &b"\x89PNG\r\n\x1a\n"[..]));
    }
    one.signal("KILL");
    one.exit().await;
    drop((stream, round));
    model.round().await.answer("rd.").await;
    let end = elsewhere.rest().await;
    assert_eq!(end.last().unwrap().data["text"], "Half a word.");
    assert_eq!(two.get(url).await.status(), 200, "it does not end with its node");
    assert_eq!(two.get("/readyz").await.status(), 200);
}
