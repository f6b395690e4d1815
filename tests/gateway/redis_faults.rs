//! A connection to the store that fails at each of its replies in turn. Whatever is lost, a turn ends complete
//! or with an honest failure, its events have no gap, and no tool runs twice.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::json;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream, UnixStream};
use tokio::time::timeout;

use super::redis_store::{config_at, until_closed};
use crate::support::Model;
use crate::support::client::post;
use crate::support::events::{Frame, said};
use crate::support::gateway::STREAM;
use crate::support::model::{DONE, call, finish, text};
use crate::support::process::Process;
use crate::support::redis_server::RedisServer;

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
const WAIT: Duration = Duration::from_millis(200);
const LATENESS: Duration = Duration::from_millis(300);

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
                    hold_back(LATENESS).await;
                    client_writer.write_all(&bytes).await
                }
                (Ok(0), Fault::Halved) => {
                    let _ = client_writer.write_all(first).await;
                    hold_back(WAIT / 10).await;
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

/// Holds a reply back for this long: the delay is what is tested.
async fn hold_back(time: Duration) {
    let _ = timeout(time, std::future::pending::<()>()).await;
}

async fn piece(reader: &mut (impl AsyncRead + Unpin)) -> Option<Vec<u8>> {
    let mut bytes = vec![0; 65536];
    let length = reader.read(&mut bytes).await.ok().filter(|length| *length > 0)?;
    bytes.truncate(length);
    Some(bytes)
}

fn config(model: &Model, proxy: &Proxy, notes: &Path) -> String {
    let url = format!("redis://127.0.0.1:{}", proxy.port);
    let wait = (2 * WAIT).as_secs_f64();
    config_at(model, &url, &format!("wait_sec: {wait}"))
        + &format!(
            "tools:
  builtin: []
  command:
    - name: note
      description: Notes something.
      command: [sh, -c, 'echo $1 >> $0; echo noted', '{}', '{{what}}']
      parameters: {{type: object, properties: {{what: {{type: string}}}}, required: [what]}}
      policy: {{mutates: true, confirm: never}}
      sandbox: {{mode: 'off'}}
",
            notes.display()
        )
}

/// Plays the model's side of turns with the prompt `Note N.`: two calls, one after another, and an answer.
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
            call("note", &json!({"what": second}))
        } else {
            "Both are noted.".to_owned()
        };
        let pieces: String =
            words.split_inclusive(' ').map(text).chain([finish("stop"), DONE.into()]).collect();
        round.answer_with(&pieces).await;
    }
}

/// What a turn says that nothing disturbs.
async fn undisturbed(process: &Process) -> String {
    let body = json!({"session_id": "undisturbed", "prompt": "Note undisturbed."});
    let stream = process.stream(&post(STREAM, &[], &body.to_string())).await;
    said(&until_closed(stream).await)
}

/// Lets the fault come after `passing` replies of a turn that says `whole`. Returns whether it came while the turn
/// ran.
async fn turn(process: &Process, proxy: &Proxy, passing: usize, whole: &str) -> bool {
    let context = format!("after {passing}");
    proxy.left.store(passing, Ordering::SeqCst);
    let session = format!("s{passing}");
    let body = json!({"session_id": session, "prompt": format!("Note {passing}.")});
    let stream = process.stream(&post(STREAM, &[], &body.to_string())).await;
    if stream.head.status != 200 {
        assert_eq!(stream.head.status, 503, "{context}: {:?}", stream.head);
        return true;
    }
    let events = until_closed(stream).await;
    let has_come = proxy.left.swap(usize::MAX, Ordering::SeqCst) == usize::MAX;
    check_gapless(&events, &context);
    let end = events.last().unwrap();
    match end.event.as_str() {
        "turn_completed" => assert_eq!(said(&events), whole, "{context}"),
        "turn_failed" => assert_eq!(end.data["code"], "store_unavailable", "{context}: {end:?}"),
        _ => panic!("{context}: it ends with {end:?}"),
    }
    // The log, as far as it goes: a turn that failed may go on once its lease has lapsed.
    let stored = process.stream(&rejoin(&session)).await;
    if stored.head.status == 200 {
        let stored = until_closed(stored).await;
        check_gapless(&stored, &context);
        if end.event == "turn_completed" {
            assert_eq!(stored, events, "{context}");
        }
    }
    has_come
}

fn rejoin(session: &str) -> String {
    crate::support::client::request("GET", &format!("{STREAM}?session_id={session}"), &[], "")
}

fn check_gapless(events: &[Frame], context: &str) {
    let sequences: Vec<u64> = events.iter().map(Frame::sequence).collect();
    assert_eq!(sequences, (1..=events.len() as u64).collect::<Vec<_>>(), "{context}");
}

async fn check(fault: Fault) {
    let server = RedisServer::start();
    let proxy = Proxy::start(&server, fault).await;
    let folder = tempfile::tempdir().unwrap();
    let notes = folder.path().join("notes");
    let model = Model::listen();
    let process = Process::start(&config(&model, &proxy, &notes)).await;
    let player = tokio::spawn(play(model));
    let whole = undisturbed(&process).await;
    let mut passing = 0;
    while turn(&process, &proxy, passing, &whole).await {
        passing += 1;
    }
    assert!(passing >= 8, "{passing} replies");
    let notes = fs::read_to_string(notes).unwrap();
    let mut lines: Vec<&str> = notes.lines().collect();
    lines.sort_unstable();
    let count = lines.len();
    lines.dedup();
    assert_eq!(lines.len(), count, "no tool runs twice: {notes}");
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
