//! The model server: it speaks Chat Completions, and writes stamped tokens at a fixed pace.
//!
//! It runs on a thread of its own, so that clients with much to read do not slow its tokens down.

use std::collections::HashMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use memchr::memmem;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::time::{Instant, sleep_until};

use crate::Error;
use crate::clock::now_us;
use crate::directive::Directive;
use crate::token::{self, decimal};

/// Connections that wait to be accepted.
const BACKLOG: u32 = 4096;
/// First room for a request.
const REQUEST_BYTES: usize = 4096;
/// Bytes of a request; those of the gateway are far shorter.
const REQUEST_BYTES_MAX: usize = 1024 * 1024;

const STREAM_HEAD: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\
    Cache-Control: no-cache\r\nTransfer-Encoding: chunked\r\n\r\n";
const FRAME_START: &str = "data: {\"id\":\"chatcmpl-soak\",\"object\":\"chat.completion.chunk\",\
    \"created\":1760000000,\"model\":\"soak\",\"choices\":[{\"index\":0,\"delta\":{";
const CALL: &str = "\\n<<function_call>> {\\\"name\\\": \\\"calculate\\\", \\\"arguments\\\": \
    {\\\"expression\\\": \\\"";
const MODELS: &str = "{\"object\":\"list\",\"data\":[{\"id\":\"soak\",\"object\":\"model\"}]}";

/// What the model counts.
#[derive(Debug, Default)]
struct Counts {
    rounds: AtomicU64,
    cancelled: AtomicU64,
    open: AtomicU64,
    most: AtomicU64,
}

/// What the model has done so far.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rounds {
    pub(crate) begun: u64,
    /// The gateway closed the connection before their end.
    pub(crate) cancelled: u64,
    /// The model is still writing.
    pub(crate) open: u64,
    /// The most that it wrote at the same time, since this was last asked.
    pub(crate) most: u64,
}

/// A running model server.
#[derive(Debug)]
pub(crate) struct Model {
    pub(crate) address: SocketAddr,
    counts: Arc<Counts>,
}

#[derive(Debug, Clone)]
struct Server {
    interval: Duration,
    counts: Arc<Counts>,
    /// How far the model has come in turns that go on after a call.
    turns: Arc<Mutex<HashMap<u64, Progress>>>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Progress {
    tokens: u64,
    rounds: u64,
}

impl Model {
    /// Starts a model that writes a token of each stream every `interval`. It ends with the process.
    pub(crate) fn start(interval: Duration) -> Result<Self, Error> {
        let counts = Arc::<Counts>::default();
        let server = Server { interval, counts: Arc::clone(&counts), turns: Arc::default() };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let (sender, receiver) = mpsc::sync_channel(1);
        std::thread::Builder::new().name("model".to_owned()).spawn(move || {
            runtime.block_on(async move {
                let listener = listen();
                let address = listener.as_ref().map(TcpListener::local_addr);
                let is_listening = address.is_ok();
                let address =
                    address.unwrap_or_else(|error| Err(std::io::Error::other(error.to_string())));
                if sender.send(address).is_ok()
                    && is_listening
                    && let Ok(listener) = listener
                {
                    server.serve(listener).await;
                }
            });
        })?;
        let address = receiver.recv()??;
        Ok(Self { address, counts })
    }

    pub(crate) fn rounds(&self) -> Rounds {
        let Counts { rounds, cancelled, open, most } = &*self.counts;
        let most = most.swap(0, Ordering::Relaxed);
        let [begun, cancelled, open] =
            [rounds, cancelled, open].map(|count| count.load(Ordering::Relaxed));
        Rounds { begun, cancelled, open, most }
    }
}

fn listen() -> std::io::Result<TcpListener> {
    let socket = TcpSocket::new_v4()?;
    socket.bind((Ipv4Addr::LOCALHOST, 0).into())?;
    socket.listen(BACKLOG)
}

/// A request that has been read.
struct Request {
    is_chat: bool,
    is_models: bool,
    directive: Option<Directive>,
}

impl Server {
    async fn serve(self, listener: TcpListener) {
        loop {
            let Ok((socket, _)) = listener.accept().await else { continue };
            let server = self.clone();
            tokio::spawn(async move {
                // The gateway may close a connection at any time.
                let _ = server.connection(socket).await;
            });
        }
    }

    async fn connection(&self, mut socket: TcpStream) -> std::io::Result<()> {
        socket.set_nodelay(true)?;
        while let Some(request) = read_request(&mut socket).await? {
            match request.directive {
                Some(directive) if request.is_chat => {
                    let others = self.counts.open.fetch_add(1, Ordering::Relaxed);
                    self.counts.most.fetch_max(others + 1, Ordering::Relaxed);
                    let written = self.round(&mut socket, directive).await;
                    self.counts.open.fetch_sub(1, Ordering::Relaxed);
                    if written.is_err() {
                        self.counts.cancelled.fetch_add(1, Ordering::Relaxed);
                        self.turns().remove(&directive.turn);
                    }
                    written?;
                }
                _ if request.is_models => {
                    let head = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n";
                    let length = MODELS.len();
                    let answer = format!("{head}Content-Length: {length}\r\n\r\n{MODELS}");
                    socket.write_all(answer.as_bytes()).await?;
                }
                _ => {
                    socket
                        .write_all(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n")
                        .await?;
                }
            }
        }
        Ok(())
    }

    fn turns(&self) -> std::sync::MutexGuard<'_, HashMap<u64, Progress>> {
        self.turns.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes tokens up to the next call or the end of the turn.
    async fn round(&self, socket: &mut TcpStream, directive: Directive) -> std::io::Result<()> {
        self.counts.rounds.fetch_add(1, Ordering::Relaxed);
        let mut progress = self.turns().remove(&directive.turn).unwrap_or_default();
        let mut frame = Vec::new();
        frame.extend_from_slice(STREAM_HEAD);
        chunk(&mut frame, |frame| content(frame, |frame| frame.extend_from_slice(b"Well;")));
        socket.write_all(&frame).await?;
        let padding = usize::try_from(directive.padding).unwrap_or(0);
        let mut due = Instant::now();
        while progress.tokens < directive.tokens_after(progress.rounds) {
            due += self.interval;
            sleep_until(due).await;
            frame.clear();
            let write = |out: &mut Vec<u8>| token::write(out, progress.tokens, now_us(), padding);
            chunk(&mut frame, |frame| content(frame, write));
            socket.write_all(&frame).await?;
            progress.tokens += 1;
        }
        frame.clear();
        if progress.rounds < directive.calls {
            let expression = format!("{CALL}{} + {}\\\"}}}}\\n", directive.turn, progress.rounds);
            chunk(&mut frame, |frame| {
                content(frame, |frame| frame.extend_from_slice(expression.as_bytes()));
            });
            progress.rounds += 1;
            self.turns().insert(directive.turn, progress);
        }
        chunk(&mut frame, |frame| {
            frame.extend_from_slice(FRAME_START.as_bytes());
            frame.extend_from_slice(b"},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n");
        });
        frame.extend_from_slice(b"0\r\n\r\n");
        socket.write_all(&frame).await
    }
}

/// Writes a frame that adds to the message what `text` writes.
fn content(frame: &mut Vec<u8>, text: impl FnOnce(&mut Vec<u8>)) {
    frame.extend_from_slice(FRAME_START.as_bytes());
    frame.extend_from_slice(b"\"content\":\"");
    text(frame);
    frame.extend_from_slice(b"\"},\"finish_reason\":null}]}\n\n");
}

/// Writes a chunk with the data that `data` writes.
fn chunk(out: &mut Vec<u8>, data: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len();
    out.extend_from_slice(b"00000000\r\n");
    let data_start = out.len();
    data(out);
    let size = format!("{:08x}", out.len() - data_start);
    out[start..start + size.len()].copy_from_slice(size.as_bytes());
    out.extend_from_slice(b"\r\n");
}

/// Reads the next request; `None` if the gateway closes the connection instead.
async fn read_request(socket: &mut TcpStream) -> std::io::Result<Option<Request>> {
    let mut bytes = Vec::with_capacity(REQUEST_BYTES);
    let mut length = None;
    loop {
        if length.is_none()
            && let Some(end) = memmem::find(&bytes, b"\r\n\r\n")
        {
            let head = bytes[..end].to_ascii_lowercase();
            let field = b"content-length: ";
            let body =
                memmem::find(&head, field).map_or(0, |at| decimal(&head[at + field.len()..]));
            length = Some(end + 4 + usize::try_from(body).unwrap_or(0));
        }
        if let Some(length) = length
            && bytes.len() >= length
        {
            return Ok(Some(Request {
                is_chat: bytes.starts_with(b"POST /v1/chat/completions "),
                is_models: bytes.starts_with(b"GET /v1/models "),
                directive: Directive::find(&bytes),
            }));
        }
        if bytes.len() > REQUEST_BYTES_MAX || socket.read_buf(&mut bytes).await? == 0 {
            return Ok(None);
        }
    }
}
