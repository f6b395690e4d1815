//! A connection to the store that fails at each of its replies in turn. Whatever is lost, each turn ends complete
//! for whoever reads it on whichever node, its events have no gap, and no tool runs twice.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _};
use tokio::join;
use tokio::net::{TcpListener, TcpStream, UnixStream};

use super::redis_store::{config_at, until_closed};
use crate::support::client::post;
use crate::support::events::{Frame, said};
use crate::support::gateway::STREAM;
use crate::support::model::{DONE, call, finish, text};
use crate::support::process::Process;
use crate::support::redis_server::RedisServer;
use crate::support::{EventStream, Model, pass};

/// What happens to a reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fault {
    /// Half of it arrives, and then the connection is closed.
    Cut,
    /// It never arrives, nor does anything after it on this connection.
    Lost,
    /// It arrives when nobody waits for it any more.
    Late,
    /// Its halves arrive one after the other.
    Halved,
}

/// How long the gateway waits for a reply, and how late a late one is.
const WAIT: Duration = Duration::from_millis(500);
const LATENESS: Duration = Duration::from_millis(600);

/// Stands between the gateway and the store.
#[derive(Debug)]
struct Proxy {
    port: u16,
    /// How many replies pass before the fault; `usize::MAX` if none comes.
    left: Arc<AtomicUsize>,
}

impl Proxy {
    async fn start(server: &RedisServer, fault: Fault) -> Self {
        let path = server.url().trim_start_matches("unix://").to_owned();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let left = Arc::new(AtomicUsize::new(usize::MAX));
        let counter = Arc::clone(&left);
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let store = UnixStream::connect(&path).await.unwrap();
                tokio::spawn(relay(client, store, fault, Arc::clone(&counter)));
            }
        });
        Self { port, left }
    }
}

/// Relays a connection until one side is gone, or the fault has come.
async fn relay(client: TcpStream, store: UnixStream, fault: Fault, left: Arc<AtomicUsize>) {
    let (mut client_reader, mut client_writer) = client.into_split();
    let (mut store_reader, mut store_writer) = store.into_split();
    let requests = async {
        while let Some(bytes) = piece(&mut client_reader).await {
            if store_writer.write_all(&bytes).await.is_err() {
                return;
            }
        }
    };
    let replies = async {
        while let Some(bytes) = piece(&mut store_reader).await {
            let passed = left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| match left {
                usize::MAX => None,
                left => Some(left.checked_sub(1).unwrap_or(usize::MAX)),
            });
            let (first, second) = bytes.split_at(bytes.len() / 2);
            let sent = match (passed, fault) {
                (Ok(0), Fault::Cut) => {
                    let _ = client_writer.write_all(first).await;
                    return;
                }
                // Until the gateway gives the connection up.
                (Ok(0), Fault::Lost) => std::future::pending().await,
                (Ok(0), Fault::Late) => {
                    pass(LATENESS).await;
                    client_writer.write_all(&bytes).await
                }
                (Ok(0), Fault::Halved) => {
                    let _ = client_writer.write_all(first).await;
                    pass(WAIT / 10).await;
                    client_writer.write_all(second).await
                }
                _ => client_writer.write_all(&bytes).await,
            };
            if sent.is_err() {
                return;
            }
        }
    };
    tokio::select! {
        () = requests => {}
        () = replies => {}
    }
}

async fn piece(reader: &mut (impl AsyncRead + Unpin)) -> Option<Vec<u8>> {
    let mut bytes = vec![0; 65536];
    let length = reader.read(&mut bytes).await.ok().filter(|length| *length > 0)?;
    bytes.truncate(length);
    Some(bytes)
}

/// A model, and two tools that note each of their runs in a file. One of them needs an approval.
fn config(model: &Model, store: &str, notes: &Path) -> String {
    let wait = (2 * WAIT).as_secs_f64();
    let tool = |name: &str, confirm: &str| {
        format!(
            "    - name: {name}
      description: Notes something.
      command: [sh, -c, 'echo $1 >> $0; echo noted', '{}', '{{what}}']
      parameters: {{type: object, properties: {{what: {{type: string}}}}, required: [what]}}
      policy: {{mutates: true, confirm: {confirm}}}
      sandbox: {{mode: 'off'}}
",
            notes.display()
        )
    };
    config_at(model, store, &format!("wait_sec: {wait}"))
        + "tools:\n  builtin: []\n  command:\n"
        + &tool("note", "never")
        + &tool("note_for_good", "always")
}

/// Plays the model's side of conversations that begin with `Note N.`: a call, one that needs an approval, and an
/// answer.
async fn play(mut model: Model) {
    loop {
        let round = model.round().await;
        let told = round.request.body["messages"].as_array().unwrap();
        let texts: Vec<&str> = told.iter().filter_map(|it| it["content"].as_str()).collect();
        let prompt = texts.iter().rposition(|text| text.starts_with("Note ")).unwrap();
        let number = texts[prompt].trim_start_matches("Note ").trim_end_matches('.');
        let current = texts[prompt + 1..].concat();
        let [first, second] = ["a", "b"].map(|which| format!("{which}-{number}"));
        let words = if !current.contains(&first) {
            format!("Well. {}", call("note", &json!({"what": first})))
        } else if !current.contains(&second) {
            format!("And now. {}", call("note_for_good", &json!({"what": second})))
        } else {
            "Both are noted.".to_owned()
        };
        let pieces: String =
            words.split_inclusive(' ').map(text).chain([finish("stop"), DONE.into()]).collect();
        round.answer_with(&pieces).await;
    }
}

/// Two gateways with the same store. What the first one hears of it goes through a proxy.
#[derive(Debug)]
struct Faulty {
    fault: Fault,
    proxy: Proxy,
    one: Process,
    two: Process,
}

impl Faulty {
    /// Has a conversation named so: a turn that asks a question, and the one that answers it.
    async fn talk(&self, session: &str) -> [Vec<Frame>; 2] {
        let asking = json!({"session_id": session, "prompt": format!("Note {session}.")});
        let asked = self.turn(session, &asking).await;
        let question = asked.iter().find(|frame| frame.event == "clarification_needed").unwrap();
        let id = &question.data["clarification_id"];
        let approval = json!({"clarification_id": id, "selected_option": {"id": "approve"}});
        let answer = json!({"session_id": session, "clarification_response": approval});
        [asked, self.turn(session, &answer).await]
    }

    /// A turn's events. A second reader, on the other node, sees what the first one does.
    async fn turn(&self, session: &str, body: &Value) -> Vec<Frame> {
        let mut stream = self.begin(session, body).await;
        let first = stream.next().await.unwrap();
        let turn = first.data["turn_id"].as_str().unwrap();
        let query = format!("session_id={session}&turn_id={turn}");
        let (rest, elsewhere) = join!(until_closed(stream), read_to_the_end(&self.two, &query));
        let events = [vec![first], rest].concat();
        let sequences = events.iter().map(Frame::sequence);
        assert!(sequences.eq(1..=events.len() as u64), "{session}: {events:?}");
        assert_eq!(events.last().unwrap().event, "turn_completed", "{session}: {events:?}");
        assert_eq!(elsewhere, events, "{session}");
        events
    }

    /// Begins a turn. One that is refused, because its reply does not come in time, is asked for again.
    async fn begin(&self, session: &str, body: &Value) -> EventStream {
        let request = post(STREAM, &[], &body.to_string());
        let stream = self.one.stream(&request).await;
        if stream.head.status == 200 {
            return stream;
        }
        let is_in_time = matches!(self.fault, Fault::Cut | Fault::Halved);
        assert!(stream.head.status == 503 && !is_in_time, "{session}: {:?}", stream.head);
        assert!(stream.head.header("retry-after").is_some(), "{session}: {:?}", stream.head);
        let again = self.one.stream(&request).await;
        assert_eq!(again.head.status, 200, "{session}: {:?}", again.head);
        again
    }

    /// Lets the fault come after so many replies. Returns whether it came.
    async fn fail_after(&self, passing: usize, whole: &[Vec<Frame>; 2]) -> bool {
        self.proxy.left.store(passing, Ordering::SeqCst);
        let turns = self.talk(&passing.to_string()).await;
        let has_come = self.proxy.left.swap(usize::MAX, Ordering::SeqCst) == usize::MAX;
        for (turn, whole) in turns.iter().zip(whole) {
            assert_eq!(said(turn), said(whole), "after {passing}");
        }
        has_come
    }
}

/// Reads a turn as an `EventSource` does, which comes back after each end of its stream.
async fn read_to_the_end(node: &Process, query: &str) -> Vec<Frame> {
    let mut seen: Vec<Frame> = Vec::new();
    while !seen.last().is_some_and(Frame::is_last) {
        let last = seen.last().map(|frame| format!("Last-Event-ID: {}", frame.id));
        let headers: Vec<&str> = last.iter().map(|it| &**it).collect();
        seen.extend(until_closed(node.rejoin(query, &headers).await).await);
    }
    seen
}

async fn check(fault: Fault) {
    let server = RedisServer::start();
    let proxy = Proxy::start(&server, fault).await;
    let folder = tempfile::tempdir().unwrap();
    let notes = folder.path().join("notes");
    let model = Model::listen();
    let url = format!("redis://127.0.0.1:{}", proxy.port);
    let one = Process::start(&config(&model, &url, &notes)).await;
    let two = Process::start(&config(&model, &server.url(), &notes)).await;
    let player = tokio::spawn(play(model));
    let store = Faulty { fault, proxy, one, two };
    let whole = store.talk("undisturbed").await;
    let mut passing = 0;
    while store.fail_after(passing, &whole).await {
        passing += 1;
    }
    // Each turn is begun, written in a few batches, and ended.
    assert!(passing >= 8, "{passing} replies");
    let notes = fs::read_to_string(notes).unwrap();
    let mut lines: Vec<&str> = notes.lines().collect();
    lines.sort_unstable();
    let count = lines.len();
    lines.dedup();
    assert_eq!(lines.len(), count, "no tool runs twice: {notes}");
    assert_eq!(count, 2 * (passing + 2), "and each runs: {notes}");
    player.abort();
}

#[tokio::test]
async fn a_reply_is_cut_in_the_middle() {
    check(Fault::Cut).await;
}

#[tokio::test]
async fn a_reply_never_comes() {
    check(Fault::Lost).await;
}

#[tokio::test]
async fn a_reply_comes_late() {
    check(Fault::Late).await;
}

#[tokio::test]
async fn a_reply_comes_in_halves() {
    check(Fault::Halved).await;
}
