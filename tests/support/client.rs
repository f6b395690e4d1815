//! An HTTP/1.1 client that writes the bytes it is given and reads raw bytes.

use std::net::SocketAddr;

use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::events::EventStream;
use super::within;

/// One connection to the gateway.
#[derive(Debug)]
pub(crate) struct Client {
    pub(crate) socket: TcpStream,
    /// Received but not yet read.
    unread: Vec<u8>,
    /// What delimits the rest of the current body.
    framing: Framing,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Framing {
    Length(usize),
    Chunked,
    /// Until the connection ends.
    UntilClose,
    Over,
}

/// The result of reading on.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Piece {
    /// Some of the body.
    Bytes(Vec<u8>),
    /// The proper end of the body.
    End,
    /// The connection broke before the end.
    Cut,
}

/// The head of a response.
#[derive(Debug)]
pub(crate) struct Head {
    pub(crate) status: u16,
    headers: Vec<(String, String)>,
}

impl Head {
    /// The only value of a header, or `None`.
    #[track_caller]
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let mut values =
            self.headers.iter().filter(|(n, _)| n.eq_ignore_ascii_case(name)).map(|(_, v)| &**v);
        let value = values.next();
        assert_eq!(values.next(), None, "{name} occurs more than once: {self:?}");
        value
    }
}

/// A whole response.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) head: Head,
    pub(crate) body: Vec<u8>,
}

impl Reply {
    pub(crate) fn status(&self) -> u16 {
        self.head.status
    }

    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body)
            .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&self.body)))
    }

    /// The status, and the error's code and param.
    #[track_caller]
    pub(crate) fn refusal(&self) -> (u16, String, Option<String>) {
        let json = self.json();
        let error = json["error"].as_object().expect("an error object");
        assert!(error["message"].as_str().is_some_and(|message| message.len() > 5), "{json}");
        let code = error["code"].as_str().expect("a code").to_owned();
        (self.status(), code, error.get("param").map(|p| p.as_str().unwrap().to_owned()))
    }

    /// The message of an error.
    #[track_caller]
    pub(crate) fn message(&self) -> String {
        self.json()["error"]["message"].as_str().expect("a message").to_owned()
    }
}

impl Client {
    pub(crate) async fn connect(address: SocketAddr) -> Self {
        Self::from(TcpStream::connect(address).await.unwrap())
    }

    pub(crate) async fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.socket.write_all(bytes.as_ref()).await.unwrap();
    }

    /// Reads the next response's head, before its body.
    #[track_caller]
    pub(crate) fn head(&mut self) -> impl Future<Output = Head> {
        within(async {
            self.try_head().await.unwrap_or_else(|| {
                panic!("the connection ended, not a head: {:?}", self.unread);
            })
        })
    }

    /// The same, but `None` if the connection ends first.
    pub(crate) async fn try_head(&mut self) -> Option<Head> {
        let end = loop {
            if let Some(at) = find(&self.unread, b"\r\n\r\n") {
                break at + 4;
            }
            if !self.read_more().await {
                return None;
            }
        };
        let text = String::from_utf8(self.unread.drain(..end).collect()).unwrap();
        let mut lines = text.trim_end().split("\r\n");
        let status = lines.next().unwrap();
        let status = status.strip_prefix("HTTP/1.1 ").expect("HTTP/1.1")[..3].parse().unwrap();
        let headers = lines.map(|line| line.split_once(": ").expect("a header field"));
        let headers = headers.map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
        let head = Head { status, headers };
        self.framing = match (head.header("content-length"), head.header("transfer-encoding")) {
            (Some(length), None) => Framing::Length(length.parse().unwrap()),
            (None, Some("chunked")) => Framing::Chunked,
            (None, None) if matches!(status, 204 | 100) => Framing::Over,
            (None, None) => Framing::UntilClose,
            (length, encoding) => panic!("no way to know the end: {length:?}, {encoding:?}"),
        };
        Some(head)
    }

    /// Reads more of a body until this is in it.
    pub(crate) async fn until(&mut self, text: &str) {
        let mut seen = Vec::new();
        while !String::from_utf8_lossy(&seen).contains(text) {
            let Piece::Bytes(bytes) = self.piece().await else { panic!("the body ends") };
            seen.extend(bytes);
        }
    }

    /// Reads more of the body. Chunks are returned as they came, not joined.
    pub(crate) async fn piece(&mut self) -> Piece {
        loop {
            match self.framing {
                Framing::Over | Framing::Length(0) => return Piece::End,
                Framing::Length(rest) if !self.unread.is_empty() => {
                    let taken = rest.min(self.unread.len());
                    self.framing = Framing::Length(rest - taken);
                    return Piece::Bytes(self.unread.drain(..taken).collect());
                }
                Framing::Chunked => {
                    if let Some(piece) = self.chunk() {
                        return piece;
                    }
                }
                Framing::UntilClose if !self.unread.is_empty() => {
                    return Piece::Bytes(std::mem::take(&mut self.unread));
                }
                Framing::Length(_) | Framing::UntilClose => {}
            }
            if !self.read_more().await {
                let is_end = self.framing == Framing::UntilClose;
                return if is_end { Piece::End } else { Piece::Cut };
            }
        }
    }

    fn chunk(&mut self) -> Option<Piece> {
        let line = find(&self.unread, b"\r\n")?;
        let size = std::str::from_utf8(&self.unread[..line]).unwrap();
        let size = usize::from_str_radix(size, 16).expect("a chunk's size");
        let (start, end) = (line + 2, line + 2 + size);
        if self.unread.len() < end + 2 {
            return None;
        }
        let bytes = self.unread[start..end].to_vec();
        assert_eq!(&self.unread[end..end + 2], b"\r\n");
        self.unread.drain(..end + 2);
        if size == 0 {
            self.framing = Framing::Over;
            return Some(Piece::End);
        }
        Some(Piece::Bytes(bytes))
    }

    /// Reads what has arrived; false at the end of the connection.
    async fn read_more(&mut self) -> bool {
        let mut buffer = vec![0; 64 * 1024];
        match self.socket.read(&mut buffer).await {
            Ok(0) | Err(_) => false,
            Ok(read) => {
                self.unread.extend_from_slice(&buffer[..read]);
                true
            }
        }
    }

    /// Reads the next response completely.
    #[track_caller]
    pub(crate) fn reply(&mut self) -> impl Future<Output = Reply> {
        within(async {
            let head = self.try_head().await.expect("a response");
            let mut body = Vec::new();
            loop {
                match self.piece().await {
                    Piece::Bytes(bytes) => body.extend(bytes),
                    Piece::End => return Reply { head, body },
                    Piece::Cut => panic!("the body was cut: {head:?}"),
                }
            }
        })
    }

    /// Waits for the other side to close; returns the unread bytes.
    #[track_caller]
    pub(crate) fn closed(&mut self) -> impl Future<Output = Vec<u8>> {
        within(async {
            while self.read_more().await {}
            std::mem::take(&mut self.unread)
        })
    }

    /// Reads the response as a stream of events.
    #[track_caller]
    pub(crate) fn events(mut self) -> impl Future<Output = EventStream> {
        within(async move {
            let head = self.try_head().await.expect("a response");
            EventStream::new(head, self)
        })
    }
}

impl From<TcpStream> for Client {
    fn from(socket: TcpStream) -> Self {
        Self { socket, unread: Vec::new(), framing: Framing::Over }
    }
}

/// The position of `needle`.
pub(crate) fn find(haystack: &[u8], needle: &[u8]) -> Option<usize> {
    haystack.windows(needle.len()).position(|window| window == needle)
}

/// A request with a JSON body. `headers` are lines without line ends.
pub(crate) fn post(path: &str, headers: &[&str], body: &str) -> String {
    let length = format!("Content-Length: {}", body.len());
    request("POST", path, &[headers, &["Content-Type: application/json", &length]].concat(), body)
}

/// A request. `Host` is localhost unless `headers` say otherwise.
pub(crate) fn request(method: &str, path: &str, headers: &[&str], body: &str) -> String {
    let mut request = format!("{method} {path} HTTP/1.1\r\n");
    if !headers.iter().any(|header| header.to_ascii_lowercase().starts_with("host:")) {
        request.push_str("Host: localhost\r\n");
    }
    for header in headers {
        request.push_str(header);
        request.push_str("\r\n");
    }
    request + "\r\n" + body
}
