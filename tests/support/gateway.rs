//! The real gateway, in this process, on its own port.

use std::net::SocketAddr;
use std::ops::Deref;
use std::sync::Arc;

use metrics_exporter_prometheus::PrometheusBuilder;
use serde_json::{Value, json};
use tether::app::{self, Parts, Running};
use tether::config::{Config, ModelServerConfig, UpstreamConfig, UpstreamKind};
use tether::server::Timeouts;
use tether::session::store::Store;
use tether::tools::Sources;
use tokio::net::TcpStream;

use super::client::{Client, Reply, post, request};
use super::events::{EventStream, Frame};
use super::model::{Model, Round};
use super::within;

pub(crate) const STREAM: &str = "/api/v1/chat/stream";
pub(crate) const CANCEL: &str = "/api/v1/chat/cancel";

/// The settings that a test may change before the gateway starts.
#[derive(Debug)]
pub(crate) struct Setup {
    pub(crate) config: Config,
    pub(crate) timeouts: Timeouts,
    pub(crate) tools: Sources,
    /// Instead of the one that the configuration names.
    pub(crate) store: Option<Arc<dyn Store>>,
}

impl Setup {
    /// The options of the only upstream.
    pub(crate) fn upstream(&mut self) -> &mut ModelServerConfig {
        match &mut self.config.upstreams[0].kind {
            UpstreamKind::Server(options) => options,
            other @ UpstreamKind::Embedded(_) => panic!("not a model server: {other:?}"),
        }
    }
}

/// A gateway that runs until its test ends.
#[derive(Debug)]
pub(crate) struct Gateway {
    door: Endpoint,
    pub(crate) running: Running,
}

impl Gateway {
    /// Starts a gateway for this model, with the default configuration.
    pub(crate) async fn start(model: &Model) -> Self {
        Self::with(model.address, |_| {}).await
    }

    /// Starts a gateway with changes, and the model that it is in front of.
    pub(crate) async fn with_model(change: impl FnOnce(&mut Setup)) -> (Model, Self) {
        let model = Model::listen();
        let gateway = Self::with(model.address, change).await;
        (model, gateway)
    }

    /// Starts a gateway for the server at `model`, with changes.
    pub(crate) async fn with(model: SocketAddr, change: impl FnOnce(&mut Setup)) -> Self {
        let options = ModelServerConfig {
            base_url: format!("http://{model}/v1").parse().unwrap(),
            model: "fake-model".to_owned(),
            ..ModelServerConfig::default()
        };
        let mut config = Config {
            upstreams: vec![UpstreamConfig {
                name: "fake".to_owned(),
                call_contract: None,
                kind: UpstreamKind::Server(options),
            }],
            ..Config::default()
        };
        config.server.listen = SocketAddr::from(([127, 0, 0, 1], 0));
        let tools = app::tools(&config).unwrap();
        let mut setup = Setup { config, timeouts: Timeouts::default(), tools, store: None };
        change(&mut setup);
        // Not installed, because tests in one process would share its counts.
        let metrics = PrometheusBuilder::new().build_recorder().handle();
        let Setup { config, timeouts, tools, store } = setup;
        let store = store.unwrap_or_else(|| Parts::of(&config).unwrap().store);
        let running = app::start(&config, Parts { tools, store }, timeouts, metrics).await.unwrap();
        Self { door: Endpoint { address: running.address() }, running }
    }
}

impl Deref for Gateway {
    type Target = Endpoint;

    fn deref(&self) -> &Endpoint {
        &self.door
    }
}

/// A gateway's address, and requests to it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Endpoint {
    pub(crate) address: SocketAddr,
}

impl Endpoint {
    pub(crate) async fn client(&self) -> Client {
        Client::connect(self.address).await
    }

    /// Sends one request on a new connection and reads the whole response.
    #[track_caller]
    pub(crate) fn exchange(&self, bytes: impl AsRef<[u8]>) -> impl Future<Output = Reply> {
        within(async move {
            let mut client = self.client().await;
            client.send(bytes).await;
            client.reply().await
        })
    }

    #[track_caller]
    pub(crate) fn get(&self, path: &str) -> impl Future<Output = Reply> {
        self.exchange(request("GET", path, &[], ""))
    }

    #[track_caller]
    pub(crate) fn post(&self, path: &str, body: &Value) -> impl Future<Output = Reply> {
        self.exchange(post(path, &[], &body.to_string()))
    }

    /// A value in `/metrics`; 0 if it is not there.
    pub(crate) async fn metric(&self, name: &str) -> f64 {
        let text = String::from_utf8(self.get("/metrics").await.body).unwrap();
        let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        value.map_or(0.0, |value| value.parse().unwrap())
    }

    /// Starts a turn and reads the head of its stream.
    #[track_caller]
    pub(crate) fn turn(&self, body: &Value) -> impl Future<Output = EventStream> {
        self.turn_with(&[], body)
    }

    /// The same with more header lines.
    #[track_caller]
    pub(crate) fn turn_with(
        &self,
        headers: &[&str],
        body: &Value,
    ) -> impl Future<Output = EventStream> {
        let request = post(STREAM, headers, &body.to_string());
        within(async move {
            let stream = self.stream(&request).await;
            assert_eq!(stream.head.status, 200, "{:?}", stream.head);
            stream
        })
    }

    /// Starts a turn in `session`, and takes its first request to the model.
    #[track_caller]
    pub(crate) fn begin(
        &self,
        model: &mut Model,
        session: &str,
    ) -> impl Future<Output = (EventStream, Round)> {
        let body = json!({"session_id": session, "prompt": "Hello?"});
        within(async move { (self.turn(&body).await, model.round().await) })
    }

    /// Starts a turn in `session`, whose model has said this. Also returns the events up to there.
    #[track_caller]
    pub(crate) fn begin_saying(
        &self,
        model: &mut Model,
        session: &str,
        words: &str,
    ) -> impl Future<Output = (EventStream, Round, Vec<Frame>)> {
        within(async move {
            let (mut stream, mut round) = self.begin(model, session).await;
            round.begin().await;
            round.say(words).await;
            let seen = stream.up_to_text(words).await;
            (stream, round, seen)
        })
    }

    /// Plays a whole turn that the model answers with `words`.
    #[track_caller]
    pub(crate) fn whole_turn(
        &self,
        model: &mut Model,
        session: &str,
        words: &str,
    ) -> impl Future<Output = EventStream> {
        within(async move {
            let (stream, round) = self.begin(model, session).await;
            round.answer(words).await;
            stream
        })
    }

    /// Re-joins with this query and more header lines.
    #[track_caller]
    pub(crate) fn rejoin(
        &self,
        query: &str,
        headers: &[&str],
    ) -> impl Future<Output = EventStream> {
        let request = request("GET", &format!("{STREAM}?{query}"), headers, "");
        within(async move {
            let stream = self.stream(&request).await;
            assert_eq!(stream.head.status, 200, "{:?}", stream.head);
            stream
        })
    }

    /// Cancels a session's turn. Returns the status.
    #[track_caller]
    pub(crate) fn cancel(&self, session: &str) -> impl Future<Output = u16> {
        let body = json!({ "session_id": session });
        within(async move { self.post(CANCEL, &body).await.status() })
    }

    pub(crate) async fn stream(&self, request: &str) -> EventStream {
        let mut client = self.client().await;
        client.send(request).await;
        client.events().await
    }

    /// A connection whose receiving side buffers less than a megabyte.
    pub(crate) async fn narrow_client(&self) -> Client {
        Client::from(connect_narrowly(self.address).await)
    }
}

/// A socket that buffers less than a megabyte of what it receives. The kernel would let it grow to 32.
pub(crate) async fn connect_narrowly(address: SocketAddr) -> TcpStream {
    let socket = tokio::net::TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(128 * 1024).unwrap();
    socket.connect(address).await.unwrap()
}
