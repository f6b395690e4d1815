//! A model server that does what a test says, byte by byte.
//!
//! It accepts connections and answers `GET /models` by itself, like any server. Each `POST`
//! becomes a [`Round`] in the test's hands: the test decides what the server does with it, and
//! when.

use std::net::SocketAddr;
use std::os::fd::AsFd as _;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use super::client::find;
use super::within;

/// The head of a response that marks its own end.
pub(crate) const CHUNKED: &str = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\
                           Transfer-Encoding: chunked\r\n\r\n";
/// The head of a response that ends with its connection.
pub(crate) const UNTIL_CLOSE: &str = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\
                               Connection: close\r\n\r\n";
/// The last frame of a response.
pub(crate) const DONE: &str = "data: [DONE]\n\n";

/// A listening model server.
#[derive(Debug)]
pub(crate) struct Model {
    pub(crate) address: SocketAddr,
    away: Away,
    rounds: mpsc::Receiver<Round>,
    listing: Arc<Mutex<Listing>>,
    accepting: JoinHandle<()>,
}

/// A model server that does not listen, so connections are refused.
///
/// It keeps its port, so that no other test running at the same time can be given it.
#[derive(Debug)]
#[must_use = "dropping it frees the port"]
pub(crate) struct Away(TcpSocket);

/// How requests for the list of models are answered, and how many there were.
#[derive(Debug)]
struct Listing {
    /// Empty: no answer. [`HANGS_UP`]: not even a connection.
    status: &'static str,
    body: String,
    /// What llama.cpp says about itself; empty for servers that are not llama.cpp.
    props: String,
    /// Whether that breaks off in the middle.
    cuts_props: bool,
    /// Whether the list does.
    cuts_list: bool,
    /// What Ollama says about a model; empty for servers that are not Ollama.
    shown: String,
    asked: usize,
}

const HANGS_UP: &str = "hangs up";

impl Model {
    pub(crate) fn listen() -> Self {
        Away::anywhere().back()
    }

    fn on(listener: TcpListener, away: Away) -> Self {
        let address = listener.local_addr().unwrap();
        let (sender, rounds) = mpsc::channel(64);
        let body = json!({"object": "list", "data": [{"id": "fake-model"}]}).to_string();
        let listing = Arc::new(Mutex::new(Listing {
            status: "200 OK",
            body,
            props: String::new(),
            cuts_props: false,
            cuts_list: false,
            shown: String::new(),
            asked: 0,
        }));
        let shown = Arc::clone(&listing);
        let accepting = tokio::spawn(async move {
            let mut connection = 0;
            while let Ok((socket, _)) = listener.accept().await {
                connection += 1;
                socket.set_nodelay(true).unwrap();
                let round = Round {
                    socket,
                    unread: Vec::new(),
                    connection,
                    request: Request::none(),
                    rounds: sender.clone(),
                    listing: Arc::clone(&shown),
                };
                tokio::spawn(round.serve());
            }
        });
        Self { address, away, rounds, listing, accepting }
    }

    /// Makes it list one model.
    pub(crate) fn list(&self, id: &str, owned_by: &str) {
        let mut listing = self.listing.lock();
        listing.status = "200 OK";
        listing.body = json!({"data": [{"id": id, "owned_by": owned_by}]}).to_string();
    }

    /// Makes it answer with this when it is asked for its models.
    pub(crate) fn list_as(&self, body: &str) {
        body.clone_into(&mut self.listing.lock().body);
    }

    /// Makes it a llama.cpp server whose model has this chat template.
    pub(crate) fn show_template(&self, template: &str) {
        let caps = json!({"supports_tools": true, "supports_tool_calls": true});
        let props = json!({"chat_template": template, "chat_template_caps": caps});
        let mut listing = self.listing.lock();
        (listing.props, listing.cuts_props) = (props.to_string(), false);
    }

    /// The same, but its connection breaks in the middle of that.
    pub(crate) fn show_half_a_template(&self, template: &str) {
        self.show_template(template);
        self.listing.lock().cuts_props = true;
    }

    /// Makes it Ollama, which says this about its model.
    pub(crate) fn show_model(&self, shown: &Value) {
        self.list("fake-model", "library");
        self.listing.lock().shown = shown.to_string();
    }

    /// Makes it refuse to list models.
    pub(crate) fn refuse_to_list(&self) {
        self.listing.lock().status = "500 Oh";
    }

    /// Makes it say that it is still starting up.
    pub(crate) fn start_up(&self) {
        self.listing.lock().status = "503 Wait";
    }

    /// Makes it a server without a list of models, which answers with this status.
    pub(crate) fn list_nothing(&self, status: &'static str) {
        self.listing.lock().status = status;
    }

    /// Makes its connection break in the middle of its list of models, or no longer.
    pub(crate) fn break_off_list(&self, breaks_off: bool) {
        self.listing.lock().cuts_list = breaks_off;
    }

    /// Makes it leave requests for its models unanswered.
    pub(crate) fn stall_listing(&self) {
        self.listing.lock().status = "";
    }

    /// Makes it close the connection when it is asked for its models, as a forwarder does whose server is not there yet.
    pub(crate) fn hang_up_when_asked(&self) {
        self.listing.lock().status = HANGS_UP;
    }

    /// How many times its models were requested.
    pub(crate) fn listed(&self) -> usize {
        self.listing.lock().asked
    }

    /// Stops listening.
    pub(crate) async fn stop(self) -> Away {
        self.accepting.abort();
        // It was aborted, or it has ended by itself.
        let _ = self.accepting.await;
        self.away
    }

    /// The next completion request, on any connection.
    #[track_caller]
    pub(crate) fn round(&mut self) -> impl Future<Output = Round> {
        within(async { self.rounds.recv().await.expect("the server runs") })
    }

    /// Answers as many rounds in these words. Returns what the model was told last.
    pub(crate) async fn answers(&mut self, words: &[&str]) -> String {
        let mut told = String::new();
        for words in words {
            let round = self.round().await;
            told = round.request.contents();
            round.answer(words).await;
        }
        told
    }

    /// Whether every completion request so far has been taken.
    pub(crate) fn has_no_requests(&self) -> bool {
        self.rounds.is_empty()
    }
}

impl Away {
    /// On a free port.
    pub(crate) fn anywhere() -> Self {
        Self::at("127.0.0.1:0".parse().unwrap())
    }

    /// Bound, so that the port is taken, but not listening.
    fn at(address: SocketAddr) -> Self {
        let socket = TcpSocket::new_v4().unwrap();
        socket.set_reuseport(true).unwrap();
        socket.bind(address).unwrap();
        Self(socket)
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.0.local_addr().unwrap()
    }

    /// A model server listening on the same address, indistinguishable from the previous one.
    pub(crate) fn back(self) -> Model {
        let away = Self::at(self.address());
        Model::on(self.0.listen(1024).unwrap(), away)
    }
}

/// A request as received.
#[derive(Debug)]
pub(crate) struct Request {
    pub(crate) head: String,
    pub(crate) body: Value,
}

impl Request {
    const fn none() -> Self {
        Self { head: String::new(), body: Value::Null }
    }

    /// The contents of all its messages, joined.
    pub(crate) fn contents(&self) -> String {
        let messages = self.body["messages"].as_array().expect("messages");
        let contents = messages.iter().filter_map(|message| message["content"].as_str());
        contents.collect::<Vec<_>>().join("\n")
    }
}

/// A request waiting for its response, on its connection.
#[derive(Debug)]
pub(crate) struct Round {
    socket: TcpStream,
    unread: Vec<u8>,
    /// The connection's number, from 1.
    pub(crate) connection: usize,
    pub(crate) request: Request,
    /// Takes further requests on this connection.
    rounds: mpsc::Sender<Self>,
    listing: Arc<Mutex<Listing>>,
}

impl Round {
    async fn serve(mut self) {
        if self.read_request().await {
            let rounds = self.rounds.clone();
            // Fails if the test is over and takes no more rounds.
            let _ = rounds.send(self).await;
        }
    }

    /// Reads up to the next completion request; false if there is none.
    async fn read_request(&mut self) -> bool {
        loop {
            let Some(request) = self.try_request().await else { return false };
            let is_show = request.head.starts_with("POST /api/show ");
            if request.head.starts_with("POST ") && !is_show {
                self.request = request;
                return true;
            }
            let (reply, is_cut) = {
                let mut listing = self.listing.lock();
                let is_props = request.head.starts_with("GET /props?");
                let is_list = !is_props && !is_show;
                listing.asked += usize::from(is_list);
                let Listing { status, body, props, shown, cuts_props, cuts_list, .. } = &*listing;
                let own = if is_props { props } else { shown };
                let (status, body) = match (is_list, &**own) {
                    (true, _) => (*status, body),
                    (false, "") => ("404 Not Found", own),
                    (false, _) => ("200 OK", own),
                };
                if status.is_empty() {
                    continue;
                }
                if status == HANGS_UP {
                    return false;
                }
                let length = body.len();
                let is_cut = is_props && *cuts_props || is_list && *cuts_list;
                let sent = if is_cut { length / 2 } else { length };
                let body = &body[..sent];
                let reply = format!(
                    "HTTP/1.1 {status}\r\nContent-Type: application/json\r\n\
                     Content-Length: {length}\r\n\r\n{body}"
                );
                (reply, is_cut)
            };
            let is_sent = self.socket.write_all(reply.as_bytes()).await.is_ok();
            if is_cut || !is_sent {
                return false;
            }
        }
    }

    async fn try_request(&mut self) -> Option<Request> {
        let head = loop {
            if let Some(at) = find(&self.unread, b"\r\n\r\n") {
                break at + 4;
            }
            self.read_more().await.then_some(())?;
        };
        let text = String::from_utf8(self.unread.drain(..head).collect()).unwrap();
        let length = text.lines().find_map(|line| {
            let (name, value) = line.split_once(": ")?;
            name.eq_ignore_ascii_case("content-length").then(|| value.parse().unwrap())
        });
        let length: usize = length.unwrap_or(0);
        while self.unread.len() < length {
            self.read_more().await.then_some(())?;
        }
        let body: Vec<u8> = self.unread.drain(..length).collect();
        let body = if length == 0 { Value::Null } else { serde_json::from_slice(&body).unwrap() };
        Some(Request { head: text, body })
    }

    async fn read_more(&mut self) -> bool {
        let mut buffer = vec![0; 16 * 1024];
        match self.socket.read(&mut buffer).await {
            Ok(0) | Err(_) => false,
            Ok(read) => {
                self.unread.extend_from_slice(&buffer[..read]);
                true
            }
        }
    }

    /// Writes raw bytes.
    pub(crate) async fn write(&mut self, bytes: impl AsRef<[u8]>) {
        self.socket.write_all(bytes.as_ref()).await.unwrap();
    }

    /// Writes for as long as the other side reads. Returns how many bytes that was.
    pub(crate) async fn flood(&mut self, bytes: &[u8], times: usize) -> usize {
        for written in 0..times {
            if self.socket.write_all(bytes).await.is_err() {
                return written * bytes.len();
            }
        }
        times * bytes.len()
    }

    /// Writes the same bytes at this pace until the other side stops reading. This happens in
    /// another thread: the gateway runs in this one, and its timers must not end a wait because
    /// both were held up.
    pub(crate) async fn drip(&self, bytes: String, every: Duration) {
        let socket = self.socket.as_fd().try_clone_to_owned().unwrap();
        let drip = move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.unwrap().block_on(async {
                let mut socket = TcpStream::from_std(socket.into()).unwrap();
                let mut pace = tokio::time::interval(every);
                while socket.write_all(bytes.as_bytes()).await.is_ok() {
                    pace.tick().await;
                }
            });
        };
        tokio::task::spawn_blocking(drip).await.unwrap();
    }

    /// Writes the head of a chunked response.
    pub(crate) async fn begin(&mut self) {
        self.write(CHUNKED).await;
    }

    /// Writes a chunk.
    pub(crate) async fn chunk(&mut self, bytes: impl AsRef<[u8]>) {
        let bytes = bytes.as_ref();
        let mut chunk = format!("{:x}\r\n", bytes.len()).into_bytes();
        chunk.extend_from_slice(bytes);
        chunk.extend_from_slice(b"\r\n");
        self.write(chunk).await;
    }

    /// Writes a chunk with the text `words`.
    pub(crate) async fn say(&mut self, words: &str) {
        self.chunk(text(words)).await;
    }

    /// Ends the response properly. The next request on this connection is a round like any other.
    pub(crate) async fn end(mut self) {
        self.chunk(finish("stop") + DONE).await;
        self.write("0\r\n\r\n").await;
        self.keep();
    }

    /// Returns the connection to the server for its next request.
    pub(crate) fn keep(self) {
        tokio::spawn(self.serve());
    }

    /// Writes a complete response.
    pub(crate) async fn answer(mut self, words: &str) {
        self.begin().await;
        self.say(words).await;
        self.end().await;
    }

    /// The same in one write, for a response whose end the gateway may not want.
    pub(crate) async fn answer_at_once(self, words: &str) {
        self.answer_with(&(text(words) + &finish("stop") + DONE)).await;
    }

    /// The same in frames of `size` characters.
    pub(crate) async fn answer_in_pieces(self, words: &str, size: usize) {
        let chars: Vec<char> = words.chars().collect();
        let frames = chars.chunks(size).map(|piece| text(&piece.iter().collect::<String>()));
        self.answer_with(&(frames.collect::<String>() + &finish("stop") + DONE)).await;
    }

    /// Writes these frames in one write.
    pub(crate) async fn answer_with(mut self, body: &str) {
        self.write(format!("{CHUNKED}{:x}\r\n{body}\r\n0\r\n\r\n", body.len())).await;
        self.keep();
    }

    /// Waits for the gateway to close the connection.
    #[track_caller]
    pub(crate) fn closed(&mut self) -> impl Future<Output = ()> {
        within(async {
            while self.read_more().await {}
            assert_eq!(self.unread, b"", "nothing is sent after a request");
        })
    }

    /// Resets the connection, as a crash does.
    pub(crate) fn reset(self) {
        self.socket.set_zero_linger().unwrap();
    }
}

/// A Chat Completions frame that says `words`.
pub(crate) fn text(words: &str) -> String {
    delta(&json!({ "content": words }))
}

/// A frame with a delta.
pub(crate) fn delta(delta: &Value) -> String {
    frame(&json!({"choices": [{"index": 0, "delta": delta, "finish_reason": null}]}))
}

/// A frame with a finish reason.
pub(crate) fn finish(reason: &str) -> String {
    frame(&json!({"choices": [{"index": 0, "delta": {}, "finish_reason": reason}]}))
}

/// A frame with this JSON.
pub(crate) fn frame(json: &Value) -> String {
    format!("data: {json}\n\n")
}

/// A call as a model writes it.
pub(crate) fn call(name: &str, arguments: &Value) -> String {
    format!("<<function_call>> {}", json!({"name": name, "arguments": arguments}))
}
