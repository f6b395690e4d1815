//! An HTTP/2 client with prior knowledge.

use std::net::{Shutdown, SocketAddr};

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::client::conn::http2::{self, SendRequest};
use hyper::{Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::TcpStream;

use super::within;

/// One connection to the gateway.
#[derive(Debug)]
pub(crate) struct Connection {
    sender: SendRequest<Full<Bytes>>,
    /// A second handle to the socket, for breaking it.
    socket: std::net::TcpStream,
    address: SocketAddr,
}

impl Connection {
    /// Connects with stream windows that hold `window` unread bytes.
    pub(crate) async fn open(address: SocketAddr, window: u32) -> Self {
        let connected = TcpStream::connect(address).await.unwrap().into_std().unwrap();
        let socket = connected.try_clone().unwrap();
        let connected = TcpStream::from_std(connected).unwrap();
        let (sender, driver) = http2::Builder::new(TokioExecutor::new())
            .initial_stream_window_size(window)
            .handshake(TokioIo::new(connected))
            .await
            .unwrap();
        tokio::spawn(driver);
        Self { sender, socket, address }
    }

    /// Breaks the connection without warning, as a network does.
    pub(crate) fn cut(&self) {
        self.socket.shutdown(Shutdown::Both).unwrap();
    }

    /// Sends a request and waits for the response's head.
    #[track_caller]
    pub(crate) fn send(
        &mut self,
        method: &str,
        path: &str,
        body: &str,
    ) -> impl Future<Output = hyper::Result<Response<Incoming>>> {
        let uri = format!("http://{}{path}", self.address);
        let request = Request::builder().method(method).uri(uri);
        let request = request.body(Full::from(body.to_owned())).unwrap();
        within(self.sender.send_request(request))
    }
}

/// Reads the rest of a body; `Err` if it breaks off.
#[track_caller]
pub(crate) fn collect(body: Incoming) -> impl Future<Output = hyper::Result<Vec<u8>>> {
    within(async { Ok(body.collect().await?.to_bytes().to_vec()) })
}
