//! Requests that do not come from hyper's own server: any front end can pass one on.

use http_body_util::{BodyExt as _, Full, StreamBody};
use hyper::body::{Bytes, Frame};
use hyper::header::{HOST, HeaderValue, RETRY_AFTER};
use hyper::{Method, Request, StatusCode};
use metrics_exporter_prometheus::PrometheusBuilder;

use super::*;
use crate::call_format::ContractSetting;
use crate::gateway;
use crate::rehearsal::Rehearsal;
use crate::session::tests::Slow;
use crate::tools::Registry;
use crate::upstream::{self, History, Kind, Upstream};

fn app() -> Arc<App> {
    app_on(gateway::Options::default())
}

fn app_on(options: gateway::Options) -> Arc<App> {
    let kind = Kind::Local(Arc::new(Rehearsal { tokens_per_sec: 100_000 }));
    let model = upstream::Options {
        name: "m".to_owned(),
        contract: ContractSetting::default(),
        history: History::Text,
        kind,
    };
    let upstreams = vec![Arc::new(Upstream::new(model).unwrap())];
    let gateway = Gateway::new(options, upstreams, Registry::default()).unwrap();
    let address = SocketAddr::from(([127, 0, 0, 1], 8080));
    let metrics = PrometheusBuilder::new().build_recorder().handle();
    Arc::new(App::new(Options::default(), address, Arc::new(gateway), metrics))
}

fn post<B>(body: B) -> Request<B> {
    let request = Request::post("/api/v1/chat/stream");
    request.header(HOST, HeaderValue::from_static("localhost")).body(body).unwrap()
}

#[tokio::test]
async fn a_body_in_memory_is_read() {
    let body = Full::new(Bytes::from_static(b"{\"prompt\":\"Hello?\"}"));
    let reply = handlers::answer(post(body), app()).await;
    assert_eq!(reply.status(), StatusCode::OK);
    let events = reply.into_body().collect().await.unwrap().to_bytes();
    let events = String::from_utf8(events.to_vec()).unwrap();
    assert!(events.contains("event: turn_completed"), "{events}");
}

#[tokio::test]
async fn an_incomplete_body_is_refused() {
    let pieces = [Ok(Frame::data(Bytes::from_static(b"{"))), Err("the client is gone")];
    let body = StreamBody::new(tokio_stream::iter(pieces));
    let reply = Box::pin(handlers::answer(post(body), app())).await;
    assert_eq!(reply.status(), StatusCode::BAD_REQUEST);
}

/// Each address that needs a session reports that the store is unavailable.
#[tokio::test]
async fn an_unavailable_store_is_reported() {
    let get = |method: Method, path: &str| {
        let request = Request::builder().method(method).uri(path);
        let request = request.header(HOST, HeaderValue::from_static("localhost"));
        request.body(Full::new(Bytes::from_static(br#"{"session_id":"s"}"#))).unwrap()
    };
    for request in [
        post(Full::new(Bytes::from_static(br#"{"prompt":"Hello?"}"#))),
        get(Method::GET, "/api/v1/chat/stream?session_id=s"),
        get(Method::POST, "/api/v1/chat/cancel"),
        get(Method::GET, "/api/v1/sessions/s"),
        get(Method::DELETE, "/api/v1/sessions/s"),
    ] {
        let options = gateway::Options { store: Slow::new(true), ..gateway::Options::default() };
        let reply = handlers::answer(request, app_on(options)).await;
        assert_eq!(reply.status(), StatusCode::SERVICE_UNAVAILABLE);
        assert!(reply.headers().contains_key(RETRY_AFTER));
        let body = reply.into_body().collect().await.unwrap().to_bytes();
        let body = String::from_utf8(body.to_vec()).unwrap();
        assert!(body.contains("\"code\":\"store_unavailable\""), "{body}");
    }
}
