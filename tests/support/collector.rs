//! A fake OpenTelemetry collector that keeps what it is sent, as OpenTelemetry's own definitions write it in JSON.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::header::{CONTENT_TYPE, HeaderMap};
use hyper::service::service_fn;
use hyper::{Method, Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::{
    ExportTracePartialSuccess, ExportTraceServiceRequest, ExportTraceServiceResponse,
};
use parking_lot::Mutex;
use prost::Message;
use serde::Serialize;
use serde_json::Value;
use tokio::net::TcpListener;

use super::until;

/// A fake collector. Clones share what it has received.
#[derive(Debug, Clone)]
pub(crate) struct Collector {
    pub(crate) address: SocketAddr,
    kept: Arc<Mutex<Kept>>,
    /// How many more requests are answered with 503.
    refusals: Arc<AtomicUsize>,
    /// How many spans of each request are rejected.
    rejected: i64,
}

#[derive(Debug, Default)]
struct Kept {
    spans: Vec<Value>,
    /// The last set.
    metrics: Vec<Value>,
    resource: Value,
    headers: HeaderMap,
    requests: usize,
}

impl Collector {
    /// Starts a collector that refuses this many requests, then accepts everything.
    pub(crate) async fn listen(refusals: usize) -> Self {
        Self::start(refusals, 0).await
    }

    /// Starts a collector that rejects this many spans of each request.
    pub(crate) async fn listen_rejecting(rejected: i64) -> Self {
        Self::start(0, rejected).await
    }

    async fn start(refusals: usize, rejected: i64) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let refusals = Arc::new(AtomicUsize::new(refusals));
        let collector = Self { address, kept: Arc::default(), refusals, rejected };
        let served = collector.clone();
        tokio::spawn(async move {
            while let Ok((socket, _)) = listener.accept().await {
                let served = served.clone();
                let answer = service_fn(move |request| {
                    let served = served.clone();
                    async move { Ok::<_, Infallible>(served.take(request).await) }
                });
                tokio::spawn(async move {
                    let builder = auto::Builder::new(TokioExecutor::new());
                    let _ = builder.serve_connection(TokioIo::new(socket), answer).await;
                });
            }
        });
        collector
    }

    async fn take(&self, request: Request<Incoming>) -> Response<Full<Bytes>> {
        let (head, body) = request.into_parts();
        let body = body.collect().await.unwrap().to_bytes();
        assert_eq!(head.method, Method::POST);
        assert_eq!(head.headers[CONTENT_TYPE], "application/x-protobuf");
        let mut kept = self.kept.lock();
        kept.requests += 1;
        let refuse = |left: usize| left.checked_sub(1);
        if self.refusals.fetch_update(Ordering::SeqCst, Ordering::SeqCst, refuse).is_ok() {
            let mut answer = Response::new(Full::default());
            *answer.status_mut() = hyper::StatusCode::SERVICE_UNAVAILABLE;
            return answer;
        }
        let (body, signal, scopes, items) = match head.uri.path() {
            "/v1/traces" => {
                (read::<ExportTraceServiceRequest>(body), "resourceSpans", "scopeSpans", "spans")
            }
            "/v1/metrics" => (
                read::<ExportMetricsServiceRequest>(body),
                "resourceMetrics",
                "scopeMetrics",
                "metrics",
            ),
            other => panic!("a request to {other}"),
        };
        let sent = &body[signal][0];
        let items = sent[scopes][0][items].as_array().unwrap().clone();
        if signal == "resourceSpans" {
            kept.spans.extend(items);
        } else {
            kept.metrics = items;
        }
        kept.resource = sent["resource"].clone();
        kept.headers = head.headers;
        Response::new(Full::new(self.partial_success().encode_to_vec().into()))
    }

    /// As other collectors: a whole success has an empty one.
    fn partial_success(&self) -> ExportTraceServiceResponse {
        let error_message = if self.rejected > 0 { "spans from the future" } else { "" }.to_owned();
        ExportTraceServiceResponse {
            partial_success: Some(ExportTracePartialSuccess {
                rejected_spans: self.rejected,
                error_message,
            }),
        }
    }

    /// The spans, once there are this many.
    #[track_caller]
    pub(crate) fn spans(&self, count: usize) -> impl Future<Output = Vec<Value>> {
        let has_all = until(move || self.kept.lock().spans.len() >= count);
        async move {
            has_all.await;
            self.kept.lock().spans.clone()
        }
    }

    /// The points of this metric, once there are any.
    #[track_caller]
    pub(crate) fn points(&self, name: &str) -> impl Future<Output = Vec<Value>> {
        let is_it = move |metric: &&Value| metric["name"] == *name;
        let has_it = until(move || self.kept.lock().metrics.iter().any(|it| is_it(&it)));
        async move {
            has_it.await;
            let kept = self.kept.lock();
            let metric = kept.metrics.iter().find(is_it).unwrap();
            metric["histogram"]["dataPoints"].as_array().unwrap().clone()
        }
    }

    pub(crate) fn resource(&self) -> Value {
        self.kept.lock().resource.clone()
    }

    pub(crate) fn headers(&self) -> HeaderMap {
        self.kept.lock().headers.clone()
    }

    pub(crate) fn requests(&self) -> usize {
        self.kept.lock().requests
    }

    pub(crate) fn has_spans(&self) -> bool {
        !self.kept.lock().spans.is_empty()
    }
}

fn read<T: Message + Default + Serialize>(body: Bytes) -> Value {
    serde_json::to_value(T::decode(body).unwrap()).unwrap()
}

/// The value of an attribute of a span, a point or a resource.
pub(crate) fn attribute<'v>(of: &'v Value, key: &str) -> Option<&'v Value> {
    let attribute =
        of["attributes"].as_array()?.iter().find(|attribute| attribute["key"] == key)?;
    attribute["value"].as_object()?.values().next()
}
