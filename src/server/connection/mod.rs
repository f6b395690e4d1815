//! A single connection, from accept to close.

mod handover;
mod protocol;

use std::convert::Infallible;
use std::future::{Future as _, poll_fn};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::{Bytes, BytesMut};
use hyper::Request;
use hyper::body::Incoming;
use hyper::server::conn::{http1, http2};
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tower::Layer as _;
use tracing::debug;

use self::handover::{Begun, Handover, NotedBody};
use self::protocol::Protocol;
use super::admission::Entry;
use super::direct::{self, Ended};
use super::incoming;
use super::places::Place;
use super::reply::Reply;
use super::socket::Socket;
use super::stall::{Pace, StreamExecutor, Watched};
use super::transport::Transport;
use super::{App, handlers, route};
use crate::limits;
use crate::telemetry::metrics;

/// A connection to a client.
struct Connection {
    socket: Socket,
    entry: Arc<Entry>,
    place: Arc<Place>,
    app: Arc<App>,
    stop: CancellationToken,
    pace: Arc<Pace>,
}

/// Serves one connection until its client leaves, stalls or loses its place, or until `stop`
/// shuts it down.
pub(super) async fn serve(
    mut transport: Transport,
    entry: Arc<Entry>,
    place: Arc<Place>,
    app: Arc<App>,
    stop: CancellationToken,
) {
    let _open = metrics::connection_open();
    let socket = transport.socket().clone();
    let connection = Connection { socket, entry, place, app, stop, pace: Pace::new() };
    let mut read = BytesMut::new();
    match connection.protocol(&mut transport, &mut read).await {
        Some(Protocol::Http1) => connection.serve_http1(transport, read.freeze()).await,
        // Boxed, so that other connections keep no room for it.
        Some(Protocol::Http2) => Box::pin(connection.serve_http2(transport, read.freeze())).await,
        None => {}
    }
}

/// What HTTP/1 connections are read by.
fn http1() -> http1::Builder {
    let mut builder = http1::Builder::new();
    builder
        .timer(TokioTimer::new())
        // A client may close its sending side after the request and keep reading. Response
        // bodies find out whether it is gone.
        .half_close(true)
        .max_buf_size(limits::server::HEAD_BYTES_MAX)
        .max_headers(limits::server::HEADERS_MAX)
        // A frame is one small buffer: copying it is faster than a vectored write.
        .writev(false);
    builder
}

/// Of a connection, only its service is kept while a stream runs, and what has been read of the next request. Its
/// buffer alone would be the largest part of a stream's memory.
fn keep<I, S>(parts: http1::Parts<I, S>) -> (S, Bytes) {
    // A copy, because even an empty part of hyper's buffer keeps all of it.
    (parts.service, Bytes::copy_from_slice(&parts.read_buf))
}

/// What HTTP/2 connections are served by.
fn http2(executor: StreamExecutor) -> http2::Builder<StreamExecutor> {
    let mut builder = http2::Builder::new(executor);
    builder
        .timer(TokioTimer::new())
        .max_concurrent_streams(limits::server::H2_STREAMS_MAX)
        .max_header_list_size(limits::server::H2_HEADER_BYTES_MAX)
        .max_send_buf_size(limits::stream::WRITE_BYTES_MAX)
        .keep_alive_interval(limits::server::H2_PING_INTERVAL)
        .keep_alive_timeout(limits::server::H2_PING_TIMEOUT);
    builder
}

/// Answers requests.
fn answers<B: incoming::Incoming>(
    app: &Arc<App>,
    entry: &Arc<Entry>,
) -> impl Service<Request<B>, Response = Reply, Error = Infallible, Future: Send> + Clone + use<B> {
    let (cors, app) = (route::cors(app.auth.origins()), Arc::clone(app));
    let entry = Arc::clone(entry);
    let answer = tower::service_fn(move |mut request: Request<B>| {
        let app = Arc::clone(&app);
        request.extensions_mut().insert(Arc::clone(&entry));
        // Boxed, so that a connection keeps no room for it while it streams.
        Box::pin(async move { Ok::<_, Infallible>(handlers::answer(request, app).await) })
    });
    TowerToHyperService::new(cors.layer(answer))
}

impl Connection {
    /// Finds out what the client speaks. `None` if the connection is over before that.
    async fn protocol(&self, transport: &mut Transport, read: &mut BytesMut) -> Option<Protocol> {
        let peer = self.entry.peer();
        tokio::select! {
            biased;
            detected = timeout(self.app.timeouts.head, protocol::detect(transport, read)) => {
                detected.unwrap_or_else(|_| {
                    debug!(%peer, "client sent nothing; connection closed");
                    None
                })
            }
            () = self.place.lost() => {
                debug!(%peer, "client is silent while others wait; connection closed");
                None
            }
            () = self.stop.cancelled() => None,
        }
    }

    /// Serves HTTP/1: hyper reads the requests and answers them, except for streams, which take over
    /// the socket up to their end. Under TLS, hyper answers with streams, too.
    async fn serve_http1(&self, mut transport: Transport, mut unread: Bytes) {
        let is_plain = matches!(transport, Transport::Plain(_));
        let (answers, handover) = (answers(&self.app, &self.entry), Handover::default());
        let (place, socket, left) =
            (Arc::clone(&self.place), self.socket.clone(), handover.clone());
        let mut service = service_fn(move |mut request: Request<Incoming>| {
            place.keep();
            let (socket, handover) = (socket.clone(), left.clone());
            let may_take = is_plain && handover.expect(&request);
            request.extensions_mut().insert(socket.clone());
            let noted = handover.clone();
            let reply = answers.call(request.map(|body| NotedBody { body, handover: noted }));
            async move {
                let mut reply = reply.await?;
                if may_take {
                    reply = match handover.take_from(reply) {
                        Some(given_back) => given_back,
                        // hyper is done with this connection; it just does not know it yet.
                        None => std::future::pending().await,
                    };
                }
                reply.body_mut().watch(socket);
                Ok::<_, Infallible>(reply)
            }
        });
        let mut builder = http1();
        builder.header_read_timeout(self.app.timeouts.head);
        loop {
            let begun = {
                let io = Watched::new(transport, Arc::clone(&self.pace), unread);
                // Boxed, so that a connection keeps no room for it while it streams.
                let mut connection = Box::new(builder.serve_connection(TokioIo::new(io), service));
                let begun = self.drive(|cx, shuts_down| {
                    let mut connection = Pin::new(&mut *connection);
                    if shuts_down {
                        connection.as_mut().graceful_shutdown();
                    }
                    match connection.poll(cx) {
                        Poll::Ready(ended) => Poll::Ready(Err(ended)),
                        Poll::Pending => {
                            handover.begun().map_or(Poll::Pending, |it| Poll::Ready(Ok(it)))
                        }
                    }
                });
                let Some(begun) = begun.await else { return };
                (service, unread) = keep(connection.into_parts());
                begun
            };
            transport = Transport::Plain(self.socket.clone());
            if !self.stream(begun).await {
                return;
            }
        }
    }

    /// Writes a stream. Returns whether another request may follow.
    async fn stream(&self, begun: Begun) -> bool {
        let closes = begun.closes || self.stop.is_cancelled();
        let head = direct::write_head(&begun.head, closes);
        let (socket, patience) = (self.socket.clone(), self.app.timeouts.reader);
        drop(begun.head);
        match direct::serve(socket, head, begun.events, patience).await {
            Ended::Properly if !closes && !self.stop.is_cancelled() => return true,
            Ended::Properly => self.socket.shut_down(),
            Ended::Stalled => self.note_stalled(),
            Ended::Left | Ended::Cut => {}
        }
        false
    }

    /// Serves HTTP/2.
    async fn serve_http2(&self, transport: Transport, unread: Bytes) {
        let (answers, place) = (answers(&self.app, &self.entry), Arc::clone(&self.place));
        let service = service_fn(move |request: Request<Incoming>| {
            // At once: the future that answers is first polled later.
            place.keep();
            answers.call(request)
        });
        let io = Watched::new(transport, Arc::clone(&self.pace), unread);
        let executor = StreamExecutor::new(Arc::clone(&self.pace), self.app.timeouts.reader);
        let connection = http2(executor).serve_connection(TokioIo::new(io), service);
        let mut connection = pin!(connection);
        self.drive::<Infallible>(|cx, shuts_down| {
            if shuts_down {
                connection.as_mut().graceful_shutdown();
            }
            connection.as_mut().poll(cx).map(Err)
        })
        .await;
    }

    /// Polls a connection of hyper until it is over, or returns what `poll` returns. `poll` is told
    /// once to shut it down.
    async fn drive<T>(
        &self,
        mut poll: impl FnMut(&mut Context<'_>, bool) -> Poll<Result<T, hyper::Result<()>>>,
    ) -> Option<T> {
        let peer = self.entry.peer();
        let mut stalled = pin!(self.pace.stalled(self.app.timeouts.reader));
        let mut lost = pin!(self.place.lost());
        let (mut stop, mut stopping) = (pin!(self.stop.cancelled()), false);
        poll_fn(|cx| {
            let shuts_down = !stopping && stop.as_mut().poll(cx).is_ready();
            stopping |= shuts_down;
            match poll(cx, shuts_down) {
                Poll::Ready(Ok(done)) => return Poll::Ready(Some(done)),
                Poll::Ready(Err(ended)) => {
                    if let Err(error) = ended {
                        debug!(%peer, %error, "connection failed");
                    }
                    return Poll::Ready(None);
                }
                Poll::Pending => {}
            }
            if stalled.as_mut().poll(cx).is_ready() {
                self.note_stalled();
                return Poll::Ready(None);
            }
            if lost.as_mut().poll(cx).is_ready() {
                debug!(%peer, "client is silent while others wait; connection closed");
                return Poll::Ready(None);
            }
            Poll::Pending
        })
        .await
    }

    fn note_stalled(&self) {
        metrics::reader_cut();
        debug!(peer = %self.entry.peer(), "client is not reading; connection closed");
    }
}
