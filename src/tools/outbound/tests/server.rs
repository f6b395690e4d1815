//! A server that answers with bytes from a script.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use socket2::SockRef;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

/// What to do with a request.
pub(crate) struct Answer {
    bytes: Vec<u8>,
    then: Then,
}

/// What to do with the connection after an answer.
#[derive(Clone, Copy)]
pub(crate) enum Then {
    Keep,
    Close,
    Reset,
    /// Neither write nor close until the client closes.
    Hang,
}

impl Answer {
    pub(crate) fn new(bytes: impl Into<Vec<u8>>, then: Then) -> Self {
        Self { bytes: bytes.into(), then }
    }

    /// A whole answer on a connection that is kept. `head` is what follows the version in the
    /// first line, with further fields.
    pub(crate) fn whole(head: &str, body: impl AsRef<[u8]>) -> Self {
        let body = body.as_ref();
        let head = format!("HTTP/1.1 {head}\r\ncontent-length: {}\r\n\r\n", body.len());
        let mut bytes = head.into_bytes();
        bytes.extend_from_slice(body);
        Self::new(bytes, Then::Keep)
    }

    /// JSON, with status 200.
    pub(crate) fn json(body: &str) -> Self {
        Self::whole("200 OK\r\ncontent-type: application/json", body)
    }
}

/// A server on a loopback port of its own.
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    seen: Arc<Mutex<Seen>>,
}

#[derive(Default)]
struct Seen {
    connections: usize,
    requests: Vec<String>,
}

impl Server {
    /// Starts a server. Its script has the answers of each connection, in the order in which
    /// connections are accepted; any further connection is closed at once.
    pub(crate) async fn start(script: Vec<Vec<Answer>>) -> Self {
        Self::start_with(|_| script).await
    }

    /// The same with a script that follows from the server's own address.
    pub(crate) async fn start_with(script: impl FnOnce(&str) -> Vec<Vec<Answer>>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let seen = Arc::new(Mutex::new(Seen::default()));
        let script = script(&format!("http://{address}"));
        tokio::spawn(accept(listener, script, Arc::clone(&seen)));
        Self { address, seen }
    }

    /// A server for a single connection.
    pub(crate) async fn once(answers: impl IntoIterator<Item = Answer>) -> Self {
        Self::start(vec![answers.into_iter().collect()]).await
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// How many connections it has accepted.
    pub(crate) fn connections(&self) -> usize {
        self.seen.lock().connections
    }

    /// The requests that it has received, as they were written.
    pub(crate) fn requests(&self) -> Vec<String> {
        self.seen.lock().requests.clone()
    }
}

async fn accept(listener: TcpListener, script: Vec<Vec<Answer>>, seen: Arc<Mutex<Seen>>) {
    let mut script = script.into_iter();
    while let Ok((stream, _)) = listener.accept().await {
        seen.lock().connections += 1;
        let answers = script.next().unwrap_or_default();
        tokio::spawn(serve(stream, answers, Arc::clone(&seen)));
    }
}

async fn serve(mut stream: TcpStream, answers: Vec<Answer>, seen: Arc<Mutex<Seen>>) {
    for Answer { bytes, then } in answers {
        let Some(request) = read_request(&mut stream).await else { return };
        seen.lock().requests.push(request);
        // The client may have read enough and left.
        let _ = stream.write_all(&bytes).await;
        match then {
            Then::Keep => {}
            Then::Close => return,
            Then::Reset => {
                SockRef::from(&stream).set_linger(Some(Duration::ZERO)).unwrap();
                return;
            }
            Then::Hang => {
                let _ = stream.read_u8().await;
                return;
            }
        }
    }
    // A further request is seen, but not answered.
    if let Some(request) = read_request(&mut stream).await {
        seen.lock().requests.push(request);
    }
}

/// A request with its body, if it has a length; `None` at the end.
async fn read_request(stream: &mut TcpStream) -> Option<String> {
    let mut bytes = Vec::new();
    loop {
        if let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
            let head = String::from_utf8(bytes[..end].to_vec()).unwrap().to_lowercase();
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
            let length = length.map_or(0, |length| length.parse::<usize>().unwrap());
            if bytes.len() >= end + 4 + length {
                return Some(String::from_utf8(bytes).unwrap());
            }
        }
        if stream.read_buf(&mut bytes).await.unwrap_or(0) == 0 {
            return None;
        }
    }
}
