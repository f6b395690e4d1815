//! A single connection, from accept to close.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use hyper::body::Incoming;
use hyper::service::{Service as _, service_fn};
use hyper::{Request, Version};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use hyper_util::service::TowerToHyperService;
use tokio::net::TcpStream;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use tower::Layer as _;
use tracing::debug;

use super::places::Place;
use super::socket::Socket;
use super::stall::{Pace, StreamExecutor, Watched};
use super::{App, Timeouts, handlers, route};
use crate::limits;
use crate::telemetry::metrics;

/// The settings of the protocols.
fn builder(timeouts: Timeouts, pace: &Arc<Pace>) -> Builder<StreamExecutor> {
    let mut builder = Builder::new(StreamExecutor::new(Arc::clone(pace), timeouts.reader));
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(timeouts.head)
        // A client may close its sending side after the request and keep reading. Response
        // bodies find out whether it is gone.
        .half_close(true)
        .max_buf_size(limits::server::HEAD_BYTES_MAX)
        .max_headers(limits::server::HEADERS_MAX)
        // A frame is one small buffer: copying it is faster than a vectored write.
        .writev(false);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(limits::server::H2_STREAMS_MAX)
        .max_header_list_size(limits::server::H2_HEADER_BYTES_MAX)
        .max_send_buf_size(limits::stream::WRITE_BYTES_MAX)
        .keep_alive_interval(limits::server::H2_PING_INTERVAL)
        .keep_alive_timeout(limits::server::H2_PING_TIMEOUT);
    builder
}

/// Sends immediately and keeps little unsent, which shows whether a slow client makes progress.
fn set_up(socket: &TcpStream) -> io::Result<()> {
    socket.set_nodelay(true)?;
    #[cfg(target_os = "linux")]
    socket2::SockRef::from(socket).set_tcp_notsent_lowat(limits::server::UNSENT_BYTES_MAX)?;
    Ok(())
}

/// Serves one connection until its client leaves, stalls or loses its place, or until `stop`
/// shuts it down.
pub(super) async fn serve(
    socket: TcpStream,
    peer: SocketAddr,
    own_place: Arc<Place>,
    app: Arc<App>,
    stop: CancellationToken,
) {
    if let Err(error) = set_up(&socket) {
        debug!(%peer, %error, "connection lost before it was served");
        return;
    }
    let _open = metrics::connection_open();
    let pace = Pace::new();
    let timeouts = app.timeouts;
    let builder = builder(timeouts, &pace);
    let socket = Socket::new(socket);
    let io = TokioIo::new(Watched::new(socket.clone(), Arc::clone(&pace)));
    let service = {
        let cors = route::cors(app.auth.origins());
        let answer = tower::service_fn(move |mut request: Request<Incoming>| {
            let app = Arc::clone(&app);
            // On HTTP/2, hyper itself keeps reading the connection.
            let socket = (request.version() < Version::HTTP_2).then(|| socket.clone());
            if let Some(socket) = &socket {
                request.extensions_mut().insert(socket.clone());
            }
            // Boxed, so that a connection keeps no room for it while it streams.
            Box::pin(async move {
                let mut reply = handlers::answer(request, app).await;
                if let Some(socket) = socket {
                    reply.body_mut().watch(socket);
                }
                Ok::<_, Infallible>(reply)
            })
        });
        let (answer, place_kept) =
            (TowerToHyperService::new(cors.layer(answer)), Arc::clone(&own_place));
        service_fn(move |request| {
            // At once: on HTTP/2, the future that answers is first polled later.
            place_kept.keep();
            answer.call(request)
        })
    };
    let mut connection = std::pin::pin!(builder.serve_connection(io, service));
    let mut stalled = std::pin::pin!(pace.stalled(timeouts.reader));
    let mut lost = std::pin::pin!(own_place.lost());
    let mut first_head = std::pin::pin!(sleep(timeouts.head));
    let (mut spoken, mut stopping) = (false, false);
    loop {
        tokio::select! {
            biased;
            ended = connection.as_mut() => {
                if let Err(error) = ended {
                    debug!(%peer, %error, "connection failed");
                }
                return;
            }
            () = stalled.as_mut() => {
                metrics::reader_cut();
                debug!(%peer, "client is not reading; connection closed");
                return;
            }
            () = lost.as_mut() => {
                debug!(%peer, "client is silent while others wait; connection closed");
                return;
            }
            () = first_head.as_mut(), if !spoken => {
                if !pace.has_spoken() {
                    debug!(%peer, "client sent nothing; connection closed");
                    return;
                }
                spoken = true;
            }
            () = stop.cancelled(), if !stopping => {
                stopping = true;
                connection.as_mut().graceful_shutdown();
            }
        }
    }
}
