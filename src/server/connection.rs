//! One connection, from accept to close.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;

use hyper::Request;
use hyper::body::Incoming;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use hyper_util::service::TowerToHyperService;
use tokio::net::TcpStream;
use tokio::time::{MissedTickBehavior, interval, sleep};
use tokio_util::sync::CancellationToken;
use tower::Layer as _;
use tracing::debug;

use super::stall::{Pace, Watched};
use super::{App, Patience, routes};
use crate::limits;
use crate::telemetry::metrics;

/// The protocol's settings, the same for all connections.
pub(super) fn builder(patience: Patience) -> Builder<TokioExecutor> {
    let mut builder = Builder::new(TokioExecutor::new());
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(patience.head)
        .max_buf_size(limits::server::HEAD_BYTES_MAX)
        .max_headers(limits::server::HEADERS_MAX)
        // A frame is one small buffer: copying it beats a vectored write.
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

/// Serves one connection until its client leaves, stalls or `stop` lets it go.
pub(super) async fn serve(
    socket: TcpStream,
    peer: SocketAddr,
    app: Arc<App>,
    builder: &Builder<TokioExecutor>,
    stop: CancellationToken,
) {
    if let Err(error) = socket.set_nodelay(true) {
        debug!(%peer, %error, "the connection was gone before it was served");
        return;
    }
    let _open = metrics::connection_open();
    let pace = Pace::new();
    let Patience { head, reader, .. } = app.patience;
    let io = TokioIo::new(Watched::new(socket, Arc::clone(&pace)));
    let service = {
        let (cors, pace) = (routes::cors(app.auth.origins()), Arc::clone(&pace));
        let answer = tower::service_fn(move |request: Request<Incoming>| {
            let (app, pace) = (Arc::clone(&app), Arc::clone(&pace));
            async move { Ok::<_, Infallible>(routes::answer(request, app, pace).await) }
        });
        TowerToHyperService::new(cors.layer(answer))
    };
    let mut connection = std::pin::pin!(builder.serve_connection(io, service));
    let mut look = interval(reader / 6);
    look.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut first_head = std::pin::pin!(sleep(head));
    let (mut spoken, mut stopping) = (false, false);
    loop {
        tokio::select! {
            biased;
            ended = connection.as_mut() => {
                if let Err(error) = ended {
                    debug!(%peer, %error, "connection broke");
                }
                return;
            }
            _ = look.tick() => {
                if pace.is_stalled(reader) {
                    metrics::reader_cut();
                    debug!(%peer, "client takes nothing; connection cut");
                    return;
                }
            }
            () = first_head.as_mut(), if !spoken => {
                if !pace.has_spoken() {
                    debug!(%peer, "client says nothing; connection cut");
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
