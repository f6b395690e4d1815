//! Files that tools return.

use std::sync::Arc;

use serde_json::{Value, json};
use tether::config::Secret;
use tether::tools::{CallContext, Tool, ToolFile, ToolFuture, ToolResult, ToolSpec};

use crate::support::client::request;
use crate::support::events::Frame;
use crate::support::gateway::Setup;
use crate::support::model::call;
use crate::support::{Gateway, Model};

/// A tool that returns these files.
#[derive(Debug)]
pub(crate) struct Draw {
    spec: Arc<ToolSpec>,
    files: Vec<ToolFile>,
}

impl Draw {
    pub(crate) fn new(files: Vec<ToolFile>) -> Arc<Self> {
        let parameters = json!({"type": "object"});
        let spec = ToolSpec { name: "draw".to_owned(), parameters, ..ToolSpec::default() };
        Arc::new(Self { spec: Arc::new(spec), files })
    }
}

impl Tool for Draw {
    fn spec(&self) -> &Arc<ToolSpec> {
        &self.spec
    }

    fn call(&self, _arguments: Value, _context: CallContext) -> ToolFuture {
        let result = ToolResult::data(json!({"text": "Drawn."})).with_files(self.files.clone());
        Box::pin(std::future::ready(Ok(result)))
    }
}

fn image(name: Option<&str>, bytes: usize) -> ToolFile {
    let (name, mime_type) = (name.map(str::to_owned), "image/png".to_owned());
    ToolFile { name, mime_type, bytes: vec![7; bytes].into() }
}

/// Runs a turn that draws. Returns the listed files, and what the model was told.
async fn drawn(gateway: &Gateway, model: &mut Model, session: &str) -> (Vec<Value>, String) {
    drawn_for(&[], gateway, model, session).await
}

/// The same with these headers.
async fn drawn_for(
    headers: &[&str],
    gateway: &Gateway,
    model: &mut Model,
    session: &str,
) -> (Vec<Value>, String) {
    let body = json!({"session_id": session, "prompt": "Draw."});
    let mut stream = gateway.turn_with(headers, &body).await;
    model.round().await.answer(&call("draw", &json!({}))).await;
    let round = model.round().await;
    let told = round.request.contents();
    round.answer("Here.").await;
    (listed(&stream.rest().await), told)
}

fn listed(frames: &[Frame]) -> Vec<Value> {
    let ended = frames.iter().find(|frame| frame.event == "tool_completed").unwrap();
    ended.data["tool_result"]["data"]["artifacts"].as_array().cloned().unwrap_or_default()
}

async fn gateway(files: Vec<ToolFile>) -> (Model, Gateway) {
    gateway_with(files, |_| {}).await
}

async fn gateway_with(files: Vec<ToolFile>, change: impl FnOnce(&mut Setup)) -> (Model, Gateway) {
    let model = Model::listen();
    let gateway = Gateway::with(model.address, |setup| {
        setup.tools.add(Draw::new(files)).unwrap();
        change(setup);
    })
    .await;
    (model, gateway)
}

#[tokio::test]
async fn a_file_is_listed_and_served_and_told_in_words() {
    let (mut model, gateway) = gateway(vec![image(Some("a \"cat\".png"), 3000)]).await;
    let (files, told) = drawn(&gateway, &mut model, "s").await;
    let [file] = &files[..] else { panic!("{files:?}") };
    let id = file["id"].as_str().unwrap();
    assert!(id.len() == 32 && id.bytes().all(|byte| byte.is_ascii_hexdigit()), "{id}");
    let url = format!("/api/v1/artifacts/{id}");
    assert_eq!(
        *file,
        json!({"id": id, "kind": "image", "mime_type": "image/png", "bytes": 3000,
               "name": "a \"cat\".png", "url": url})
    );
    assert!(told.contains("[image a \\\"cat\\\".png image/png, 3 KiB, artifact a1]"), "{told}");
    assert!(!told.contains(id), "{told}");

    let reply = gateway.get(&url).await;
    assert_eq!((reply.status(), &*reply.body), (200, &[7; 3000][..]));
    for (name, value) in [
        ("content-type", "image/png"),
        ("content-disposition", "attachment; filename=\"a _cat_.png\""),
        ("x-content-type-options", "nosniff"),
        ("content-security-policy", "default-src 'none'; sandbox; frame-ancestors 'none'"),
        ("cache-control", "private, max-age=3600, immutable"),
    ] {
        assert_eq!(reply.head.header(name), Some(value), "{name}");
    }
}

#[tokio::test]
async fn the_transcript_lists_it_too() {
    let (mut model, gateway) = gateway(vec![image(None, 1)]).await;
    let (files, _) = drawn(&gateway, &mut model, "s").await;
    let transcript = gateway.get("/api/v1/sessions/s").await.json().to_string();
    assert!(transcript.contains(files[0]["url"].as_str().unwrap()), "{transcript}");
}

#[tokio::test]
async fn a_file_needs_the_key_and_its_id() {
    let (mut model, gateway) = gateway(vec![image(None, 1)]).await;
    let (files, _) = drawn(&gateway, &mut model, "s").await;
    assert!(files[0]["url"].is_string());
    for path in ["/api/v1/artifacts/0", "/api/v1/artifacts/%2e%2e", "/api/v1/artifacts/"] {
        assert_eq!(gateway.get(path).await.status(), 404, "{path}");
    }
    let posted = gateway.post(files[0]["url"].as_str().unwrap(), &json!({})).await;
    assert_eq!(posted.status(), 405);

    let (_model, gateway) = gateway_with(Vec::new(), |setup| {
        setup.config.server.api_keys = vec![Secret::new("k".to_owned())];
    })
    .await;
    let get = |headers: &'static [&'static str]| request("GET", "/api/v1/artifacts/0", headers, "");
    assert_eq!(gateway.exchange(get(&[])).await.status(), 401);
    assert_eq!(gateway.exchange(get(&["X-Api-Key: k"])).await.status(), 404);
}

/// Two keys may call their sessions the same, and neither gets the other's files.
#[tokio::test]
async fn a_file_is_for_the_key_whose_turn_returned_it() {
    let (mut model, gateway) = gateway_with(vec![image(None, 1)], |setup| {
        setup.config.server.api_keys =
            ["a", "b"].map(|key| Secret::new(key.to_owned())).into_iter().collect();
    })
    .await;
    let keys = ["X-Api-Key: a", "Authorization: Bearer b"];
    let mut urls = Vec::new();
    for key in keys {
        let (files, _) = drawn_for(&[key], &gateway, &mut model, "s").await;
        urls.push(files[0]["url"].as_str().unwrap().to_owned());
    }
    for (owner, url) in urls.iter().enumerate() {
        for (reader, key) in keys.iter().enumerate() {
            let reply = gateway.exchange(request("GET", url, &[key], "")).await;
            let expected = if owner == reader { 200 } else { 404 };
            assert_eq!(reply.status(), expected, "{reader} reads a file of {owner}");
        }
        assert_eq!(gateway.get(url).await.status(), 401);
        assert_eq!(
            gateway.exchange(request("GET", url, &["X-Api-Key: c"], "")).await.status(),
            401
        );
        let other_header =
            request("GET", url, &[["Authorization: Bearer a", "X-Api-Key: b"][owner]], "");
        assert_eq!(gateway.exchange(other_header).await.status(), 200, "either header will do");
    }
}

#[tokio::test]
async fn a_file_goes_with_its_session() {
    let (mut model, gateway) = gateway(vec![image(None, 1)]).await;
    let (files, _) = drawn(&gateway, &mut model, "s").await;
    let (others, _) = drawn(&gateway, &mut model, "other").await;
    let url = |files: &[Value]| files[0]["url"].as_str().unwrap().to_owned();
    gateway.exchange(request("DELETE", "/api/v1/sessions/s", &[], "")).await;
    assert_eq!(gateway.get(&url(&files)).await.status(), 404);
    assert_eq!(gateway.get(&url(&others)).await.status(), 200);
}

const MIB: usize = 1 << 20;

#[tokio::test]
async fn a_file_of_8_mib_is_kept_and_one_byte_more_is_not() {
    let (mut model, gateway) = gateway(vec![image(None, 8 * MIB), image(None, 8 * MIB + 1)]).await;
    let (files, told) = drawn(&gateway, &mut model, "s").await;
    assert!(files[0]["url"].is_string() && files[0].get("error").is_none(), "{files:?}");
    assert!(files[1].get("url").is_none(), "{files:?}");
    assert_eq!(files[1]["error"], "not kept: longer than 8 MiB");
    assert!(told.contains("[image image/png, 8193 KiB, not kept: longer than 8 MiB]"), "{told}");
}

#[tokio::test]
async fn a_result_may_have_sixteen_files() {
    let (mut model, gateway) = gateway(vec![image(None, 1); 17]).await;
    let (files, _) = drawn(&gateway, &mut model, "s").await;
    let kept = files.iter().filter(|file| file["url"].is_string()).count();
    assert_eq!((files.len(), kept), (17, 16));
    assert_eq!(files[16]["error"], "not kept: a result may have 16 files");
}

#[tokio::test]
async fn beyond_32_mib_a_sessions_oldest_files_go() {
    let (mut model, gateway) = gateway(vec![image(None, 8 * MIB - 1024); 4]).await;
    let (first, _) = drawn(&gateway, &mut model, "s").await;
    for file in &first {
        assert_eq!(gateway.get(file["url"].as_str().unwrap()).await.status(), 200);
    }
    let (second, _) = drawn(&gateway, &mut model, "s").await;
    for (files, status) in [(&first, 404), (&second, 200)] {
        for file in files {
            assert_eq!(gateway.get(file["url"].as_str().unwrap()).await.status(), status);
        }
    }
}
