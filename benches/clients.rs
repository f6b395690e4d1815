//! What each client API costs per token, beside the native one in the same run.
//!
//! `cargo bench --bench clients`. A gateway of its own process streams the answers of a model that
//! pauses after each token, as models do: without pauses, tokens arrive in heaps, and an API would
//! look cheap that merges them. CPU is the gateway's, all threads, user and system; APIs take turns,
//! because the machine is not always the same.

#![expect(clippy::print_stdout, reason = "a table is what it is for")]
#![expect(clippy::cast_precision_loss, reason = "counts are small")]
#![expect(clippy::disallowed_methods, reason = "a model takes its time")]

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

/// A client API.
struct Api {
    name: &'static str,
    path: &'static str,
    body: &'static str,
}

const APIS: &[Api] = &[
    Api { name: "native", path: "/api/v1/chat/stream", body: r#"{"prompt":"Go."}"# },
    Api {
        name: "Chat Completions",
        path: "/v1/chat/completions",
        body: r#"{"model":"local","stream":true,"messages":[{"role":"user","content":"Go."}]}"#,
    },
    Api {
        name: "Responses",
        path: "/v1/responses",
        body: r#"{"model":"local","stream":true,"input":"Go."}"#,
    },
    Api {
        name: "Messages",
        path: "/v1/messages",
        body: r#"{"model":"local","max_tokens":9999,"stream":true,"messages":[{"role":"user","content":"Go."}]}"#,
    },
    Api {
        name: "AI SDK",
        path: "/api/v1/ai-sdk/chat",
        body: r#"{"id":"UNIQUE","messages":[{"role":"user","content":"Go."}]}"#,
    },
    Api {
        name: "AG-UI",
        path: "/api/v1/ag-ui",
        body: r#"{"threadId":"UNIQUE","runId":"r","messages":[{"role":"user","content":"Go."}]}"#,
    },
];

/// How long the model takes for a token.
const PAUSE: Duration = Duration::from_millis(2);

/// How much is measured.
struct Load {
    runs: usize,
    streams: usize,
    /// Tokens of a long answer. A short one has a single token.
    tokens: usize,
}

/// Microseconds of CPU.
struct Cost {
    /// For a turn with a single token.
    turn: f64,
    /// For each further token.
    token: f64,
}

fn main() {
    // Without `--bench`, this is a test: everything runs once.
    let is_bench = std::env::args().any(|it| it == "--bench");
    let load = if is_bench {
        Load { runs: 15, streams: 32, tokens: 256 }
    } else {
        Load { runs: 1, streams: 2, tokens: 8 }
    };
    let (short, long) = (Gateway::start(1), Gateway::start(load.tokens));
    let mut costs: BTreeMap<&str, Vec<Cost>> = BTreeMap::new();
    // The first is not counted: it starts threads and fills caches.
    for run in 0..=load.runs {
        for api in APIS {
            let (turn, whole) = (short.cost(api, load.streams), long.cost(api, load.streams));
            let token = (whole - turn) / (load.tokens - 1) as f64;
            if run > 0 {
                costs.entry(api.name).or_default().push(Cost { turn, token });
            }
        }
    }
    let median = |name, of: fn(&Cost) -> f64| {
        let mut values: Vec<f64> = costs[name].iter().map(of).collect();
        values.sort_by(f64::total_cmp);
        values[values.len() / 2]
    };
    let (native_turn, native_token) =
        (median("native", |it| it.turn), median("native", |it| it.token));
    println!(
        "| API | CPU per token | tokens per CPU second | beside native | CPU per turn | beside native |"
    );
    println!("| --- | --: | --: | --: | --: | --: |");
    for Api { name, .. } in APIS {
        let (turn, token) = (median(name, |it| it.turn), median(name, |it| it.token));
        let per_second = 1e6 / token;
        let (of_token, of_turn) = (token / native_token, turn / native_turn);
        println!(
            "| {name} | {token:.1} us | {per_second:.0} | {of_token:.2} | {turn:.0} us | {of_turn:.2} |"
        );
    }
}

/// A gateway of its own process.
struct Gateway {
    child: Child,
    address: String,
}

impl Gateway {
    /// A gateway whose model answers with so many tokens.
    fn start(tokens: usize) -> Self {
        let upstream = format!("http://{}/v1", serve_model(tokens));
        let mut child = Command::new(env!("CARGO_BIN_EXE_tether"))
            .args(["serve", "--listen", "127.0.0.1:0", "--upstream", &upstream, "--model", "local"])
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("the gateway starts");
        let greeting = BufReader::new(child.stdout.take().expect("it is piped"));
        let mut lines = greeting.lines().map_while(Result::ok);
        let address = lines.find_map(|line| {
            let (_, rest) = line.split_once("http://")?;
            Some(rest.split(['/', ' ']).next()?.to_owned())
        });
        // A full pipe would block the gateway.
        thread::spawn(move || lines.for_each(drop));
        Self { child, address: address.expect("it prints its address") }
    }

    /// Microseconds of CPU for a turn, of so many at the same time.
    fn cost(&self, api: &Api, streams: usize) -> f64 {
        let before = self.cpu_ns();
        thread::scope(|scope| {
            for _ in 0..streams {
                scope.spawn(|| read_stream(&self.address, api));
            }
        });
        let spent = Duration::from_nanos(self.cpu_ns() - before);
        spent.as_secs_f64() * 1e6 / streams as f64
    }

    /// What all its threads have spent.
    fn cpu_ns(&self) -> u64 {
        let tasks = format!("/proc/{}/task", self.child.id());
        let tasks = std::fs::read_dir(tasks).expect("the gateway runs").flatten();
        let spent = tasks.filter_map(|task| {
            let stat = std::fs::read_to_string(task.path().join("schedstat")).ok()?;
            stat.split(' ').next()?.parse::<u64>().ok()
        });
        spent.sum()
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// How many requests were sent.
static REQUESTS: AtomicUsize = AtomicUsize::new(0);

/// Reads an answer to its end.
fn read_stream(address: &str, Api { name, path, body }: &Api) {
    let mut connection = TcpStream::connect(address).expect("the gateway listens");
    // In a chat, a second turn would take the place of the first.
    let unique = REQUESTS.fetch_add(1, Ordering::Relaxed).to_string();
    let body = body.replace("UNIQUE", &unique);
    let length = body.len();
    write!(
        connection,
        "POST {path} HTTP/1.1\r\nhost: {address}\r\ncontent-type: application/json\r\n\
         content-length: {length}\r\nconnection: close\r\n\r\n{body}"
    )
    .expect("the gateway reads");
    let mut answer = Vec::new();
    connection.read_to_end(&mut answer).expect("the gateway answers");
    let answer = String::from_utf8_lossy(&answer);
    assert!(answer.starts_with("HTTP/1.1 200"), "{name}: {answer}");
    assert!(answer.contains("token"), "{name}: {answer}");
}

/// A model that answers with so many tokens; returns its address.
fn serve_model(tokens: usize) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback has a free port");
    let address = listener.local_addr().expect("it listens").to_string();
    thread::spawn(move || {
        for connection in listener.incoming().flatten() {
            thread::spawn(move || answer(connection, tokens));
        }
    });
    address
}

/// Answers one request. A gateway that hangs up is no concern of the model's.
fn answer(mut connection: TcpStream, tokens: usize) -> Option<()> {
    connection.set_nodelay(true).ok()?;
    let is_completion = read_request(&connection)?;
    if !is_completion {
        return connection.write_all(b"HTTP/1.1 404 No\r\ncontent-length: 0\r\n\r\n").ok();
    }
    connection
        .write_all(
            b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n",
        )
        .ok()?;
    for _ in 0..tokens {
        connection
            .write_all(
                b"data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\" token\"}}]}\n\n",
            )
            .ok()?;
        thread::sleep(PAUSE);
    }
    connection
        .write_all(
            b"data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n\
              data: [DONE]\n\n",
        )
        .ok()
}

/// Reads a request; returns whether it asks for a completion.
fn read_request(connection: &TcpStream) -> Option<bool> {
    let mut reader = BufReader::new(connection);
    let (mut line, mut length) = (String::new(), 0);
    reader.read_line(&mut line).ok()?;
    let is_completion = line.starts_with("POST /v1/chat/completions");
    loop {
        line.clear();
        reader.read_line(&mut line).ok()?;
        let Some((name, value)) = line.split_once(':') else { break };
        if name.eq_ignore_ascii_case("content-length") {
            length = value.trim().parse().ok()?;
        }
    }
    reader.read_exact(&mut vec![0; length]).ok()?;
    Some(is_completion)
}
