//! An MCP server over HTTP. A test decides what it answers; what the test leaves to it, it answers
//! like any server.

use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::{Value, json};
use tether::tools::mcp::{HttpReach, McpOptions, Reach};
use tether::tools::outbound::{Addresses, Client, ClientOptions};
use tether::tools::source::EntryRules;
use tether::tools::{Source, SourceKind};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tokio::task::JoinSet;

/// A server on a loopback port of its own.
pub(crate) struct Web {
    pub(crate) state: Arc<State>,
    address: std::net::SocketAddr,
    accepting: JoinSet<()>,
}

/// What it does and has heard.
pub(crate) struct State {
    pub(crate) tools: Mutex<Value>,
    /// The session that it knows; 0 before the first one.
    pub(crate) session: Mutex<u32>,
    /// The error with which it refuses the next call, by status and with the call's id.
    pub(crate) refusal: Mutex<Option<Value>>,
    is_modern: bool,
    answers: Box<Answers>,
    heard: Mutex<Vec<String>>,
    /// Ends the streams of those who listen for changes.
    pub(crate) hang_up: Notify,
}

/// What a test answers to a method; `None` leaves it to the server.
type Answers = dyn Fn(&str) -> Option<Vec<u8>> + Send + Sync;

impl Web {
    pub(crate) async fn start(
        is_modern: bool,
        answers: impl Fn(&str) -> Option<Vec<u8>> + Send + Sync + 'static,
    ) -> Self {
        let state = State {
            tools: Mutex::new(json!([tool("act", "Acts."), tool("odd", "Is odd.")])),
            session: Mutex::new(0),
            refusal: Mutex::default(),
            is_modern,
            answers: Box::new(answers),
            heard: Mutex::default(),
            hang_up: Notify::new(),
        };
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let mut web = Self { state: Arc::new(state), address, accepting: JoinSet::new() };
        web.accept(listener);
        web
    }

    fn accept(&mut self, listener: TcpListener) {
        let state = Arc::clone(&self.state);
        self.accepting.spawn(async move {
            let mut open = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                open.spawn(serve(stream, Arc::clone(&state)));
            }
        });
    }

    /// Closes its port and all connections.
    pub(crate) async fn stop(&mut self) {
        self.accepting.shutdown().await;
    }

    /// Listens again.
    pub(crate) async fn restart(&mut self) {
        let listener = self.listen_again().await;
        self.accept(listener);
    }

    /// Takes connections at its old port that nobody answers.
    pub(crate) async fn listen_again(&self) -> TcpListener {
        TcpListener::bind(self.address).await.unwrap()
    }

    pub(crate) fn options(&self) -> McpOptions {
        let client = ClientOptions::new(Addresses::In(vec!["127.0.0.1".parse().unwrap()]));
        let reach = HttpReach {
            url: format!("http://{}/mcp", self.address).parse().unwrap(),
            headers: Vec::new(),
            auth: None,
            client: Client::new(client),
        };
        let rules = EntryRules::new(Source::entry(SourceKind::Mcp, "web"));
        let rules = EntryRules { prefix: String::new(), is_trusted: true, ..rules };
        McpOptions::new(rules, Reach::Http(Box::new(reach)))
    }

    /// How often a method was asked for.
    pub(crate) fn heard(&self, method: &str) -> usize {
        self.state.heard.lock().iter().filter(|heard| *heard == method).count()
    }
}

pub(crate) fn tool(name: &str, description: &str) -> Value {
    let schema = json!({ "type": "object", "properties": { "text": { "type": "string" } } });
    json!({ "name": name, "description": description, "inputSchema": schema })
}

/// A whole response. `head` is the status with further fields.
pub(crate) fn whole(head: &str, body: &str) -> Vec<u8> {
    format!("HTTP/1.1 {head}\r\ncontent-length: {}\r\n\r\n{body}", body.len()).into_bytes()
}

/// The beginning of a stream of events; the connection ends after it.
pub(crate) fn events(body: &str) -> Vec<u8> {
    format!("HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n{body}")
        .into_bytes()
}

fn answer(id: &Value, member: &str, value: &Value) -> Vec<u8> {
    answer_with("200 OK", id, member, value)
}

fn answer_with(status: &str, id: &Value, member: &str, value: &Value) -> Vec<u8> {
    let body = json!({ "jsonrpc": "2.0", "id": id, member: value }).to_string();
    whole(&format!("{status}\r\ncontent-type: application/json"), &body)
}

async fn serve(mut stream: TcpStream, state: Arc<State>) {
    while let Some((head, message)) = read(&mut stream).await {
        let method = message["method"].as_str().unwrap_or_default();
        let verb = head.split(' ').next().unwrap_or_default();
        let method = if verb == "POST" { method } else { verb };
        state.heard.lock().push(method.to_owned());
        if let Some(bytes) = (state.answers)(method) {
            let _ = stream.write_all(&bytes).await;
            if !bytes.windows(15).any(|part| part == b"content-length:") {
                return;
            }
            continue;
        }
        if method == "subscriptions/listen" {
            let _ = stream.write_all(&events(&listening(&message["id"]))).await;
            state.hang_up.notified().await;
            return;
        }
        let bytes = state.usual(method, &head, &message);
        let _ = stream.write_all(&bytes).await;
    }
}

fn listening(id: &Value) -> String {
    let event = json!({
        "jsonrpc": "2.0",
        "method": "notifications/subscriptions/acknowledged",
        "params": {
            "_meta": { "io.modelcontextprotocol/subscriptionId": id },
            "notifications": { "toolsListChanged": true },
        },
    });
    format!("data: {event}\n\n")
}

impl State {
    fn usual(&self, method: &str, head: &str, message: &Value) -> Vec<u8> {
        let id = &message["id"];
        let ok = |result: Value| answer(id, "result", &result);
        let capabilities = json!({ "tools": { "listChanged": true } });
        if method == "initialize" {
            let mut session = self.session.lock();
            *session += 1;
            let result = json!({
                "protocolVersion": "2025-11-25",
                "capabilities": capabilities,
                "serverInfo": { "name": "web", "version": "1" },
            });
            let field = format!("200 OK\r\nmcp-session-id: {session}\r\n");
            let bytes = String::from_utf8(ok(result)).unwrap();
            return bytes.replacen("200 OK\r\n", &field, 1).into_bytes();
        }
        let knows = format!("mcp-session-id: {}\r\n", self.session.lock());
        if !self.is_modern && head.contains("mcp-session-id") && !head.contains(&knows) {
            return whole("404 Not Found", "");
        }
        match method {
            "server/discover" if self.is_modern => ok(json!({
                "resultType": "complete",
                "supportedVersions": ["2026-07-28"],
                "capabilities": capabilities,
                "ttlMs": 1000,
                "cacheScope": "public",
            })),
            "tools/list" => ok(json!({ "tools": *self.tools.lock(), "ttlMs": 1000 })),
            "tools/call" => match self.refusal.lock().take() {
                Some(error) => answer_with("400 Bad Request", id, "error", &error),
                None => ok(json!({ "content": [{ "type": "text", "text": "done" }] })),
            },
            "GET" => whole("405 Method Not Allowed", ""),
            "DELETE" => whole("204 No Content", ""),
            _ if id.is_null() => whole("202 Accepted", ""),
            _ => answer(id, "error", &json!({ "code": -32601, "message": "unknown" })),
        }
    }
}

/// The head of a request in lower case but for its verb, and the message in it.
async fn read(stream: &mut TcpStream) -> Option<(String, Value)> {
    let mut bytes = Vec::new();
    loop {
        if let Some(end) = bytes.windows(4).position(|part| part == b"\r\n\r\n") {
            let head = String::from_utf8(bytes[..end + 2].to_vec()).unwrap();
            let (verb, rest) = head.split_once(' ').unwrap();
            let head = format!("{verb} {}", rest.to_lowercase());
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
            let length = length.map_or(0, |length| length.parse().unwrap());
            let body = &bytes[end + 4..];
            if body.len() >= length {
                return Some((head, serde_json::from_slice(body).unwrap_or_default()));
            }
        }
        if stream.read_buf(&mut bytes).await.unwrap_or(0) == 0 {
            return None;
        }
    }
}
