//! What a call costs besides the tool's own work: over MCP, as a program, and built in, each beside
//! the bare tool in the same run; the memory of an idle MCP server; and what many tools cost at the
//! start of a turn.
//!
//! `cargo bench --bench tools`. The two sides of a pair take turns, because the machine is not
//! always the same. Times are medians; CPU is that of this process, without the tools' own.

#![expect(clippy::print_stdout, reason = "a table is what it is for")]
#![expect(clippy::disallowed_methods, reason = "it measures, with the real clock")]

use std::io::{BufRead as _, BufReader as StdReader, Write as _};
use std::net::TcpListener;
use std::process::{ExitCode, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};
use serde_json::{Value, json};
use tether::app;
use tether::config::{self, Overrides};
use tether::conversation::{Conversation, Opening};
use tether::orchestrator::{Basis, Briefing, Rules, Selection};
use tether::tools::search::Index;
use tether::tools::{
    CallContext, Registry, Sources, Tool, ToolFuture, ToolResult, ToolSpec, Toolset, process,
};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::runtime::{Builder, Runtime};

const IDLE_SERVERS: usize = 20;

fn main() -> ExitCode {
    // This program is the launcher of programs, and the MCP server, too.
    if process::is_launch() {
        return process::launch();
    }
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.first().map(String::as_str) {
        Some("serve-stdio") => {
            serve_stdio(arguments.get(1).and_then(|count| count.parse().ok()).unwrap_or(1));
        }
        Some("serve-http") => serve_http(),
        // Without `--bench`, this is a test: everything runs once.
        _ => compare(if arguments.iter().any(|it| it == "--bench") { 1000 } else { 3 }),
    }
    ExitCode::SUCCESS
}

/// The answer to a request of a server with so many tools; nothing to a notification.
fn answer(line: &str, tools: usize) -> Option<String> {
    let request: Value = serde_json::from_str(line).expect("requests are JSON");
    let result = match request["method"].as_str()? {
        "initialize" => json!({
            "protocolVersion": "2025-11-25", "capabilities": {"tools": {}},
            "serverInfo": {"name": "bench", "version": "1"},
        }),
        "tools/list" => {
            let more = (1..tools).map(|at| json!({
                "name": format!("search_{at}"),
                "description": "Searches the records of one kind, newest first, and returns those \
                                that fit, with their ids. Use it before you change a record.",
                "inputSchema": {"type": "object", "required": ["query"], "properties": {
                    "query": {"type": "string", "description": "Words to search for."},
                    "kind": {"type": "string", "enum": ["open", "closed", "all"]},
                    "limit": {"type": "integer", "minimum": 1, "maximum": 100},
                    "since": {"type": "string", "format": "date-time"},
                }},
            }));
            let echo = json!({
                "name": "echo", "description": "Echoes.", "inputSchema": {"type": "object"},
            });
            json!({"tools": std::iter::once(echo).chain(more).collect::<Vec<_>>()})
        }
        "tools/call" => json!({"content": [{"type": "text", "text": "hello"}]}),
        _ => json!({}),
    };
    Some(json!({"jsonrpc": "2.0", "id": request.get("id")?, "result": result}).to_string())
}

fn serve_stdio(tools: usize) {
    let mut out = std::io::stdout().lock();
    for line in std::io::stdin().lock().lines().map_while(Result::ok) {
        if let Some(answer) = answer(&line, tools) {
            let written = writeln!(out, "{answer}").and_then(|()| out.flush());
            if written.is_err() {
                return;
            }
        }
    }
}

fn serve_http() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback has a free port");
    println!("{}", listener.local_addr().expect("it listens"));
    for connection in listener.incoming().flatten() {
        std::thread::spawn(move || {
            let _ = connection.set_nodelay(true);
            let mut reader = StdReader::new(&connection);
            while let Some(body) = request_body(&mut reader) {
                let reply = match answer(&body, 1) {
                    Some(text) => format!(
                        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{text}",
                        text.len()
                    ),
                    None if body.is_empty() => {
                        "HTTP/1.1 405 No\r\ncontent-length: 0\r\n\r\n".to_owned()
                    }
                    None => "HTTP/1.1 202 OK\r\ncontent-length: 0\r\n\r\n".to_owned(),
                };
                if (&connection).write_all(reply.as_bytes()).is_err() {
                    return;
                }
            }
        });
    }
}

/// The body of the next request; empty if it has none.
fn request_body(reader: &mut impl std::io::BufRead) -> Option<String> {
    let (mut line, mut length) = (String::new(), 0);
    loop {
        line.clear();
        if reader.read_line(&mut line).ok()? == 0 {
            return None;
        }
        if line == "\r\n" {
            break;
        }
        if let Some((name, value)) = line.split_once(':')
            && name.eq_ignore_ascii_case("content-length")
        {
            length = value.trim().parse().ok()?;
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    String::from_utf8(body).ok()
}

const CALL: &str = r#"{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"echo","arguments":{"text":"hello"}}}"#;

/// An MCP server, spoken to without anything in between.
struct BareStdio {
    _child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl BareStdio {
    fn start() -> Self {
        let mut child = Command::new(own_path())
            .arg("serve-stdio")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .expect("this program runs");
        let input = child.stdin.take().expect("it is piped");
        let output = BufReader::new(child.stdout.take().expect("it is piped"));
        Self { _child: child, input, output }
    }

    async fn call(&mut self) {
        self.input.write_all(format!("{CALL}\n").as_bytes()).await.expect("it reads");
        let mut line = String::new();
        self.output.read_line(&mut line).await.expect("it answers");
        let answer: Value = serde_json::from_str(&line).expect("it answers in JSON");
        assert_eq!(answer["result"]["content"][0]["text"], "hello");
    }
}

/// The same over HTTP, on one connection.
struct BareHttp(BufReader<TcpStream>);

impl BareHttp {
    async fn connect(address: &str) -> Self {
        let stream = TcpStream::connect(address).await.expect("it listens");
        stream.set_nodelay(true).expect("it is connected");
        Self(BufReader::new(stream))
    }

    async fn call(&mut self) {
        let request = format!("POST /mcp HTTP/1.1\r\ncontent-length: {}\r\n\r\n{CALL}", CALL.len());
        self.0.write_all(request.as_bytes()).await.expect("it reads");
        let (mut line, mut length) = (String::new(), 0);
        while line != "\r\n" {
            line.clear();
            self.0.read_line(&mut line).await.expect("it answers");
            if let Some(value) = line.strip_prefix("content-length: ") {
                length = value.trim().parse().expect("a length");
            }
        }
        let mut body = vec![0; length];
        self.0.read_exact(&mut body).await.expect("it answers");
        let answer: Value = serde_json::from_slice(&body).expect("it answers in JSON");
        assert_eq!(answer["result"]["content"][0]["text"], "hello");
    }
}

fn own_path() -> std::path::PathBuf {
    std::env::current_exe().expect("this program has a path")
}

/// The tools of a configuration, once all sources have answered. They end with the sources.
async fn tools(yaml: &str) -> (Sources, Toolset) {
    let config = config::load_text("bench", yaml, &Overrides::default(), &|_| None);
    let mut sources = app::tools(&config.expect("it is valid")).expect("it can be used");
    sources.start();
    while !sources.toolset().is_settled() {
        sources.changed().await;
    }
    let toolset = sources.toolset();
    for source in &toolset.sources {
        assert_eq!(source.error, None, "{}", source.source);
    }
    (sources, toolset)
}

/// Times and CPU of one side of a pair.
#[derive(Default)]
struct Side {
    times: Vec<Duration>,
    cpu: Duration,
}

impl Side {
    async fn add(&mut self, call: impl Future<Output = ()>) {
        let (begun, cpu) = (Instant::now(), cpu());
        call.await;
        self.cpu += self::cpu().saturating_sub(cpu);
        self.times.push(begun.elapsed());
    }

    fn median(&mut self) -> f64 {
        self.times.sort_unstable();
        micros(self.times[self.times.len() / 2])
    }
}

fn cpu() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec.cast_unsigned(), u32::try_from(time.tv_nsec).unwrap_or_default())
}

fn micros(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}

/// Prints a row of the table: the first call, and the median of all.
#[expect(clippy::cast_precision_loss, reason = "counts are small")]
fn row(name: &str, mut bare: Side, mut ours: Side) {
    let first = |side: &Side| micros(side.times[0]);
    let (bare_first, ours_first) = (first(&bare), first(&ours));
    let calls = ours.times.len() as f64;
    let cpu = (micros(ours.cpu) - micros(bare.cpu)) / calls;
    let (bare, ours) = (bare.median(), ours.median());
    let (added_first, added) = (ours_first - bare_first, ours - bare);
    println!("{name:<12} {added_first:>12.0} {bare:>12.1} {ours:>12.1} {added:>12.1} {cpu:>12.1}");
}

async fn call(tool: &Arc<dyn Tool>, arguments: Value) {
    let result = tool.call(arguments, CallContext::first("key")).await;
    let result = result.expect("the tool works");
    assert!(result.success, "{result:?}");
}

fn compare(calls: usize) {
    let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
    println!("{calls} calls each, in us");
    println!(
        "{:<12} {:>12} {:>12} {:>12} {:>12} {:>12}",
        "", "first, added", "bare", "ours", "added", "CPU added"
    );
    runtime.block_on(async {
        over_stdio(calls).await;
        over_http(calls).await;
        as_program(calls.min(100)).await;
        built_in(calls).await;
    });
    idle_servers(&runtime, 1);
    idle_servers(&runtime, 14);
    turn_starts(calls.min(100));
}

async fn over_stdio(calls: usize) {
    let exe = own_path();
    let yaml = format!(
        "tools: {{mcp: [{{name: s, command: [{}, serve-stdio], protocol: legacy}}]}}",
        exe.display()
    );
    let (_sources, toolset) = tools(&yaml).await;
    let tool = toolset.tools.get("s__echo").expect("it is offered");
    let (mut plain, mut bare, mut ours) = (BareStdio::start(), Side::default(), Side::default());
    // The first answer of a process is slow for reasons of its own.
    plain.call().await;
    for _ in 0..calls {
        bare.add(plain.call()).await;
        ours.add(call(tool, json!({"text": "hello"}))).await;
    }
    row("MCP, stdio", bare, ours);
}

async fn over_http(calls: usize) {
    let mut server = std::process::Command::new(own_path())
        .arg("serve-http")
        .stdout(Stdio::piped())
        .spawn()
        .expect("this program runs");
    let mut address = String::new();
    let output = server.stdout.take().expect("it is piped");
    StdReader::new(output).read_line(&mut address).expect("it says where it listens");
    let address = address.trim();
    let yaml =
        format!("tools: {{mcp: [{{name: s, url: 'http://{address}/mcp', protocol: legacy}}]}}");
    let (_sources, toolset) = tools(&yaml).await;
    let tool = toolset.tools.get("s__echo").expect("it is offered");
    let mut plain = BareHttp::connect(address).await;
    let (mut bare, mut ours) = (Side::default(), Side::default());
    plain.call().await;
    for _ in 0..calls {
        bare.add(plain.call()).await;
        ours.add(call(tool, json!({"text": "hello"}))).await;
    }
    row("MCP, HTTP", bare, ours);
    let _ = server.kill();
    let _ = server.wait();
}

async fn as_program(calls: usize) {
    let yaml = "tools: {command: [{name: program, description: Does nothing., command: [/bin/echo, hello]}]}";
    let (_sources, toolset) = tools(yaml).await;
    let tool = toolset.tools.get("program").expect("it is offered");
    let (mut bare, mut ours) = (Side::default(), Side::default());
    let plain = || async {
        let output = Command::new("/bin/echo").arg("hello").output().await.expect("it runs");
        assert_eq!(output.stdout, b"hello\n");
    };
    plain().await;
    for _ in 0..calls {
        bare.add(plain()).await;
        ours.add(call(tool, json!({}))).await;
    }
    row("program", bare, ours);
}

/// The floor is a tool of the same kind that does nothing.
async fn built_in(calls: usize) {
    let (_sources, toolset) = tools("").await;
    let tool = toolset.tools.get("calculate").expect("it is offered");
    let nothing: Arc<dyn Tool> = Arc::new(Nothing::named("nothing".to_owned()));
    let (mut bare, mut ours) = (Side::default(), Side::default());
    for _ in 0..calls {
        bare.add(call(&nothing, json!({}))).await;
        ours.add(async {
            let arguments = json!({"expression": "6*7"});
            toolset.tools.catalog().check("calculate", &arguments).expect("they are valid");
            call(tool, arguments).await;
        })
        .await;
    }
    row("built in", bare, ours);
}

#[derive(Debug)]
struct Nothing(Arc<ToolSpec>);

impl Nothing {
    fn named(name: String) -> Self {
        let description = format!("Does nothing about {name}, and says so to whoever asks.");
        let parameters = json!({"type": "object", "properties": {
            "id": {"type": "string", "description": "Which one."},
            "count": {"type": "integer", "minimum": 1},
        }});
        Self(Arc::new(ToolSpec { name, description, parameters, ..ToolSpec::default() }))
    }
}

impl Tool for Nothing {
    fn spec(&self) -> &Arc<ToolSpec> {
        &self.0
    }

    fn call(&self, _arguments: Value, _context: CallContext) -> ToolFuture {
        Box::pin(std::future::ready(Ok(ToolResult::data(json!({})))))
    }
}

/// What connected servers with so many tools each hold while nothing happens, beside a
/// configuration without any.
fn idle_servers(runtime: &Runtime, tools_each: usize) {
    let exe = own_path();
    let servers = |count: usize| {
        let command = format!("[{}, serve-stdio, \"{tools_each}\"]", exe.display());
        let one = |at| format!("{{name: s{at}, command: {command}, allow: [\"*\"]}}");
        let servers: Vec<String> = (0..count).map(one).collect();
        format!("tools: {{mcp: [{}]}}", servers.join(", "))
    };
    // What belongs to the process is made before.
    drop(runtime.block_on(tools(&servers(1))));
    let before = resident_bytes();
    let held = runtime.block_on(tools(&servers(IDLE_SERVERS)));
    let kib = resident_bytes().saturating_sub(before) / IDLE_SERVERS / 1024;
    drop(held);
    println!("an idle MCP server with {tools_each} tools holds {kib} KiB");
}

/// The memory of this process; 0 where that is not known. Schemas are prepared on other threads,
/// so that allocations of this one would not tell.
fn resident_bytes() -> usize {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages = statm.split_ascii_whitespace().nth(1).and_then(|pages| pages.parse().ok());
    pages.unwrap_or(0) * rustix::param::page_size()
}

/// The work that a turn's start has for its tools.
fn turn_starts(starts: usize) {
    let start = |count: usize| {
        let mut tools = Registry::default();
        for at in 0..count {
            tools.add(Arc::new(Nothing::named(format!("tool_{at}_of_many")))).expect("it is valid");
        }
        let rules = Arc::new(Rules::default());
        let index = Index::of(tools.catalog());
        let opening = Opening::Prompt("What is there to say about tool 7 of many?".to_owned());
        let history = Conversation::default();
        move || {
            let basis = Basis { opening: &opening, history: &history };
            let catalog = tools.catalog();
            let selection = if rules.can_tell_all(catalog) {
                Selection::all(catalog)
            } else {
                Selection::of(&rules, catalog, &index, &basis)
            };
            std::hint::black_box(Briefing::selected(&rules, None, catalog, selection).is_ok());
        }
    };
    let (few, many) = (start(20), start(2000));
    let (mut few_side, mut many_side) = (Side::default(), Side::default());
    for _ in 0..starts {
        let time = |side: &mut Side, start: &dyn Fn()| {
            let begun = Instant::now();
            start();
            side.times.push(begun.elapsed());
        };
        time(&mut few_side, &few);
        time(&mut many_side, &many);
    }
    let (few, many) = (few_side.median(), many_side.median());
    println!("a turn's start with 20 tools {few:.0} us, with 2,000 {many:.0} us");
}
