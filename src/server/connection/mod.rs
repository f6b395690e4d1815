//! A single connection, from accept to close.

mod handover;
mod preflights;
mod protocol;
mod refused_head;

use std::convert::Infallible;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures::future::Either;
use hyper::body::Incoming;
use hyper::header::CONNECTION;
use hyper::server::conn::{http1, http2};
use hyper::service::{Service, service_fn};
use hyper::{Method, Request};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tower::Layer as _;
use tracing::debug;

use self::handover::{Begun, Handover, NotedBody};
use self::preflights::Preflights;
use self::protocol::Protocol;
use self::refused_head::Refusing;
use super::admission::ConnectionGuard;
use super::answering::Progress;
use super::body::Events;
use super::direct::{self, Ended};
use super::places::Place;
use super::reply::Reply;
use super::request_body::RequestBody;
use super::socket::Socket;
use super::stall::{StreamExecutor, Streams, Watched};
use super::transport::Transport;
use super::unread::Unread;
use super::{App, handlers};
use crate::limits;
use crate::telemetry::metrics;

/// A connection to a client.
struct Connection {
    wire: Watched<Socket>,
    guard: Arc<ConnectionGuard>,
    // Dropped after the socket: the place is free only once that is closed.
    place: Arc<Place>,
    app: Arc<App>,
    stop: CancellationToken,
}

/// How the driving of a connection of hyper ends.
enum Driven {
    /// With a stream that is to be written without hyper.
    Begun(Box<Begun>),
    /// With the end of the connection, which may be an error.
    Closed(hyper::Result<()>),
}

/// Serves one connection until its client leaves, stalls or loses its place, or until `stop`
/// shuts it down. This is no `async fn`, which would keep its arguments twice.
pub(super) fn serve(
    mut transport: Transport,
    guard: Arc<ConnectionGuard>,
    place: Arc<Place>,
    app: Arc<App>,
    stop: CancellationToken,
) -> impl Future<Output = ()> {
    let wire = transport.watched().clone();
    let connection = Connection { wire, guard, place, app, stop };
    async move {
        let _open = metrics::connection_open();
        let mut read = BytesMut::new();
        // Boxed, so that it takes no room afterwards.
        match Box::pin(connection.detect_protocol(&mut transport, &mut read)).await {
            Some(Protocol::Http1) => connection.serve_http1(transport, read.freeze()).await,
            // Boxed, so that the futures of other connections need no room for it.
            Some(Protocol::Http2) => {
                Box::pin(connection.serve_http2(transport, read.freeze())).await;
            }
            // Closes the socket before the place is free again.
            None => drop(transport),
        }
    }
}

/// How HTTP/1 connections are served. A client has `head` to send a request's head.
fn http1(head: Duration) -> http1::Builder {
    let mut builder = http1::Builder::new();
    builder
        .timer(TokioTimer::new())
        .header_read_timeout(head)
        // A client may close its sending side after the request and keep reading. Response
        // bodies find out whether it is gone.
        .half_close(true)
        .max_buf_size(limits::server::HEAD_BYTES_MAX)
        .max_headers(limits::server::HEADERS_MAX)
        // A frame is one small buffer: copying it is faster than a vectored write.
        .writev(false);
    builder
}

/// Takes a connection apart for a stream. What is kept is what has been read of the next requests: first what hyper
/// has not parsed, then what it has not taken yet. hyper's buffer, which is freed, would be the largest part of a
/// stream's memory.
fn take_apart<S>(parts: http1::Parts<TokioIo<Refusing<Unread<Transport>>>, S>) -> Bytes {
    let not_taken = parts.io.into_inner().into_inner().bytes;
    // A copy, because even an empty slice of hyper's buffer keeps the whole buffer.
    [&*parts.read_buf, &*not_taken].concat().into()
}

/// How HTTP/2 connections are served.
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

/// The service that answers all requests of a connection.
fn answers<B: RequestBody>(
    app: &Arc<App>,
    guard: &Arc<ConnectionGuard>,
) -> impl Service<Request<B>, Response = Reply, Error = Infallible, Future: Send> + use<B> {
    let preflights = Preflights { app: Arc::clone(app), guard: Arc::clone(guard) };
    let (app, guard) = (Arc::clone(app), Arc::clone(guard));
    let answer = move |mut request: Request<B>| {
        let app = Arc::clone(&app);
        request.extensions_mut().insert(Arc::clone(&guard));
        // Boxed, so that it takes no room in the connection's future while that streams.
        Box::pin(async move { Ok::<_, Infallible>(handlers::answer(request, app).await) })
    };
    service_fn(move |request: Request<B>| {
        let app = &preflights.app;
        // The layer costs more than the rest of a connection's work on a request. No page reads an answer without an
        // origin that may.
        if app.auth.origins().is_empty() && request.method() != Method::OPTIONS {
            return Either::Left(answer(request));
        }
        let layers = preflights.layer(app.cors.layer(tower::service_fn(answer.clone())));
        Either::Right(TowerToHyperService::new(layers).call(request))
    })
}

impl Connection {
    /// Finds out which protocol the client speaks. `None` if the connection ends before that.
    async fn detect_protocol(
        &self,
        transport: &mut Transport,
        read: &mut BytesMut,
    ) -> Option<Protocol> {
        let peer = self.guard.peer();
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

    /// Serves HTTP/1. hyper reads the requests and writes the responses, except for streams: while one is
    /// written, the connection has its socket back. Under TLS, hyper writes the streams, too.
    async fn serve_http1(&self, mut transport: Transport, mut unread: Bytes) {
        let is_plain = matches!(transport, Transport::Plain(_));
        loop {
            // Nothing of hyper is kept while a stream is written.
            let begun = {
                let (handover, progress) = (Handover::default(), Progress::default());
                let service = self.http1_service(handover.clone(), progress.clone(), is_plain);
                let io = Unread { stream: transport, bytes: unread };
                let io = Refusing::new(io, progress.clone());
                let connection =
                    http1(self.app.timeouts.head).serve_connection(TokioIo::new(io), service);
                // Boxed, as what drives it is, so that they take no room in this future while that streams.
                let mut connection = Box::new(connection);
                let begun = Box::pin(self.drive(|cx, shuts_down| {
                    let mut connection = Pin::new(&mut *connection);
                    if shuts_down {
                        connection.as_mut().graceful_shutdown();
                    }
                    if let Poll::Ready(closed) = connection.poll(cx) {
                        return Poll::Ready(Driven::Closed(closed));
                    }
                    // hyper would wait for the rest of a head.
                    if shuts_down && progress.is_between() {
                        return Poll::Ready(Driven::Closed(Ok(())));
                    }
                    // hyper may have read this request while it is still sending the previous answer. Once the
                    // socket takes more, this is polled again.
                    if self.wire.pace.is_blocked() {
                        return Poll::Pending;
                    }
                    handover
                        .take_begun()
                        .map_or(Poll::Pending, |begun| Poll::Ready(Driven::Begun(begun)))
                }));
                let Some(begun) = begun.await else {
                    drop(connection);
                    let has_unread_body = handover.has_unread_body();
                    if has_unread_body || progress.has_refused() {
                        let bytes_max = if has_unread_body { self.app.max_body_bytes } else { 0 };
                        Box::pin(self.discard_rest(bytes_max)).await;
                    }
                    return;
                };
                unread = take_apart(connection.into_parts());
                begun
            };
            transport = Transport::Plain(self.wire.clone());
            let (head, events, closes) = self.head_of(begun);
            let (socket, patience) = (self.wire.socket.clone(), self.app.timeouts.reader);
            let ended = direct::serve(socket, head, events, patience).await;
            if !self.goes_on_after(ended, closes).await {
                return;
            }
        }
    }

    /// What hyper asks for each reply. On a plain connection, a stream goes to the hand-over instead.
    fn http1_service(
        &self,
        handover: Handover,
        progress: Progress,
        is_plain: bool,
    ) -> impl Service<Request<Incoming>, Response = Reply, Error = Infallible, Future: Send> + use<>
    {
        let answers = answers(&self.app, &self.guard);
        let (place, wire) = (Arc::clone(&self.place), self.wire.clone());
        service_fn(move |mut request: Request<Incoming>| {
            place.keep();
            progress.begin();
            let (socket, handover, progress) =
                (wire.socket.clone(), handover.clone(), progress.clone());
            let may_take = handover.expect(&request) && is_plain;
            request.extensions_mut().insert(wire.clone());
            let noted = handover.clone();
            let reply = answers.call(request.map(|body| NotedBody { body, handover: noted }));
            async move {
                let mut reply = reply.await?;
                if may_take {
                    reply = match handover.take_from(reply) {
                        Some(other) => other,
                        // Never answer: `serve_http1` takes the connection from hyper.
                        None => std::future::pending().await,
                    };
                }
                reply.body_mut().watch(socket);
                reply.body_mut().note_end(progress.answer());
                Ok::<_, Infallible>(reply)
            }
        })
    }

    /// Reads the rest of a request that was refused because of its head: up to `bytes_max`, and a little in any case.
    /// Otherwise the system would answer it with a reset, which can overtake our answer.
    async fn discard_rest(&self, bytes_max: usize) {
        tokio::select! {
            () = self.wire.socket.clone().close_after(bytes_max) => {}
            () = self.place.lost() => {}
        }
    }

    /// The head of a stream as it is sent, its events, and whether the connection closes after it. A stream may last
    /// for hours, and needs nothing else of its reply.
    fn head_of(&self, begun: Box<Begun>) -> (Bytes, Events, bool) {
        let Begun { head, closes, events } = *begun;
        let closes = closes || self.stop.is_cancelled();
        (direct::write_head(&head, closes), events, closes)
    }

    /// Whether another request may follow a stream that has ended. If not, the connection is closed.
    async fn goes_on_after(&self, ended: Ended, closes: bool) -> bool {
        match ended {
            Ended::Properly if !closes && !self.stop.is_cancelled() => return true,
            // Boxed, so that a connection keeps no room for it while it streams.
            Ended::Properly => Box::pin(self.wire.socket.clone().close()).await,
            Ended::Stalled => self.note_stalled(),
            Ended::Left | Ended::Cut => {}
        }
        false
    }

    /// Serves HTTP/2.
    async fn serve_http2(&self, transport: Transport, unread: Bytes) {
        let (answers, place) = (answers(&self.app, &self.guard), Arc::clone(&self.place));
        let closes = Arc::new(AtomicBool::new(false));
        let note_close = Arc::clone(&closes);
        let service = service_fn(move |request: Request<Incoming>| {
            // Not in the future that answers, which is first polled later.
            place.keep();
            let (reply, note_close) = (answers.call(request), Arc::clone(&note_close));
            async move {
                let reply = reply.await?;
                if reply.headers().contains_key(CONNECTION) {
                    note_close.store(true, Ordering::Relaxed);
                }
                Ok::<_, Infallible>(reply)
            }
        });
        let io = Unread { stream: transport, bytes: unread };
        let (streams, timeouts) = (Streams::new(), self.app.timeouts);
        let executor =
            StreamExecutor::new(Arc::clone(&self.wire.pace), Arc::clone(&streams), timeouts.reader);
        let connection = http2(executor).serve_connection(TokioIo::new(io), service);
        let mut connection = pin!(connection);
        let (mut idle, mut is_idle) = (pin!(streams.idle_for(timeouts.head)), false);
        // Closing takes the client's answer to a ping.
        let patience = timeouts.head + limits::server::H2_PING_TIMEOUT;
        let mut stuck = pin!(streams.idle_for(patience));
        self.drive(|cx, shuts_down| {
            let idles = !is_idle && idle.as_mut().poll(cx).is_ready();
            is_idle |= idles;
            // The reply that says so wakes the connection up, because it has to be sent.
            let closes = closes.swap(false, Ordering::Relaxed);
            if shuts_down || idles || closes {
                connection.as_mut().graceful_shutdown();
            }
            if stuck.as_mut().poll(cx).is_ready() {
                debug!(peer = %self.guard.peer(), "client has no stream and does not let go; connection closed");
                return Poll::Ready(Driven::Closed(Ok(())));
            }
            connection.as_mut().poll(cx).map(Driven::Closed)
        })
        .await;
    }

    /// Polls a connection of hyper until it hands a stream over. `None` if it ends before that, because
    /// the client leaves, stalls or loses its place. `poll` gets true once, when it has to shut down.
    async fn drive(
        &self,
        mut poll: impl FnMut(&mut Context<'_>, bool) -> Poll<Driven>,
    ) -> Option<Box<Begun>> {
        let peer = self.guard.peer();
        let mut stalled = pin!(self.wire.pace.stalled(self.app.timeouts.reader));
        let mut lost = pin!(self.place.lost());
        let (mut stop, mut stopping) = (pin!(self.stop.cancelled()), false);
        poll_fn(|cx| {
            let shuts_down = !stopping && stop.as_mut().poll(cx).is_ready();
            stopping |= shuts_down;
            match poll(cx, shuts_down) {
                Poll::Ready(Driven::Begun(begun)) => return Poll::Ready(Some(begun)),
                Poll::Ready(Driven::Closed(closed)) => {
                    if let Err(error) = closed {
                        debug!(%peer, %error, "connection failed");
                    }
                    return Poll::Ready(None);
                }
                Poll::Pending => {}
            }
            // While the socket takes what it gets, no timer is needed.
            if self.wire.pace.is_blocked() && stalled.as_mut().poll(cx).is_ready() {
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
        debug!(peer = %self.guard.peer(), "client is not reading; connection closed");
    }
}
