//! An HTTP/2 client with prior knowledge.

use std::net::SocketAddr;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::client::conn::http2::{self, SendRequest};
use hyper::{Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;

use super::within;

/// One connection to the gateway.
#[derive(Debug)]
pub struct Connection {
    pub sender: SendRequest<Full<Bytes>>,
    pub driver: JoinHandle<hyper::Result<()>>,
    address: SocketAddr,
}

impl Connection {
    /// With streams whose windows hold `window` bytes until they are read.
    pub async fn open(address: SocketAddr, window: u32) -> Self {
        let socket = TcpStream::connect(address).await.unwrap();
        let (sender, driver) = http2::Builder::new(TokioExecutor::new())
            .initial_stream_window_size(window)
            .handshake(TokioIo::new(socket))
            .await
            .unwrap();
        Self { sender, driver: tokio::spawn(driver), address }
    }

    /// Sends a request and waits for its response's head.
    #[track_caller]
    pub fn send(
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

/// The rest of a body; `Err` where it broke off.
#[track_caller]
pub fn collect(body: Incoming) -> impl Future<Output = hyper::Result<Vec<u8>>> {
    within(async { Ok(body.collect().await?.to_bytes().to_vec()) })
}
