//! Turns that are cancelled, and connections that break.

use std::net::SocketAddr;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};
use tokio::spawn;

use super::program::Piped;
use super::{chat, run};
use crate::support::client::find;
use crate::support::model::Round;
use crate::support::{Gateway, Model, within};

/// A program that shows the beginning of an answer.
async fn counting() -> (Model, Gateway, Piped, Round) {
    let mut model = Model::listen();
    let gateway = Gateway::start(&model).await;
    let program = Piped::start(gateway.address, &[], "Count.").await;
    let mut round = model.round().await;
    round.begin().await;
    round.say("One, two").await;
    program.answer.take("One, two").await;
    (model, gateway, program, round)
}

#[tokio::test]
async fn an_interrupt_cancels_the_turn() {
    let (_model, _gateway, program, mut round) = counting().await;
    program.interrupt().await;
    round.closed().await;
    let (answer, notes) = (program.answer.clone(), program.notes.clone());
    assert_eq!(program.exit().await, Some(1));
    assert_eq!(
        notes.take("\ncancelled\n").await,
        "cancelling; Ctrl-C again leaves at once\ncancelled\n"
    );
    answer.take("\n").await;
}

/// Nobody waits for a gateway that does not answer.
#[tokio::test]
async fn a_second_interrupt_leaves_at_once() {
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let program = Piped::start(silent.local_addr().unwrap(), &[], "Hello?").await;
    let (_held, _) = silent.accept().await.unwrap();
    program.interrupt().await;
    program.notes.take("Ctrl-C again leaves at once\n").await;
    program.interrupt().await;
    // The turn may have begun there.
    let (mut cancelling, _) = within(silent.accept()).await.unwrap();
    let mut request = vec![0; 4096];
    let _ = within(cancelling.read(&mut request)).await.unwrap();
    assert!(request.starts_with(b"POST /api/v1/chat/cancel "));
    let none = b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n";
    cancelling.write_all(none).await.unwrap();
    assert_eq!(program.exit().await, Some(1));
}

/// A service manager asks once, and nobody is at a prompt.
#[tokio::test]
async fn a_request_to_terminate_cancels_the_turn_and_leaves() {
    let (_model, _gateway, program, mut round) = counting().await;
    program.terminate().await;
    round.closed().await;
    assert_eq!(program.exit().await, Some(1));
}

/// A proxy that breaks its first connections, each after one of these texts has passed.
struct Breaking {
    address: SocketAddr,
    /// The heads of all requests.
    requests: Arc<Mutex<Vec<String>>>,
}

impl Breaking {
    async fn before(gateway: SocketAddr, cut_after: Vec<&'static str>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let requests = Arc::new(Mutex::new(Vec::new()));
        let (heads, mut cuts) = (Arc::clone(&requests), cut_after.into_iter());
        spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let server = TcpStream::connect(gateway).await.unwrap();
                spawn(pass(client, server, cuts.next(), Arc::clone(&heads)));
            }
        });
        Self { address, requests }
    }
}

async fn pass(
    mut client: TcpStream,
    mut server: TcpStream,
    cut_after: Option<&str>,
    heads: Arc<Mutex<Vec<String>>>,
) {
    let mut bytes = vec![0; 64 * 1024];
    let Ok(read) = client.read(&mut bytes).await else { return };
    heads.lock().push(String::from_utf8_lossy(&bytes[..read]).to_lowercase());
    server.write_all(&bytes[..read]).await.unwrap();
    let Some(cut_after) = cut_after else {
        let _ = copy_bidirectional(&mut client, &mut server).await;
        return;
    };
    let mut passed = Vec::new();
    loop {
        let Ok(read @ 1..) = server.read(&mut bytes).await else { return };
        let before = passed.len();
        passed.extend_from_slice(&bytes[..read]);
        if let Some(at) = find(&passed, cut_after.as_bytes()) {
            let end = (at + cut_after.len()).max(before);
            client.write_all(&passed[before..end]).await.unwrap();
            return;
        }
        client.write_all(&passed[before..]).await.unwrap();
    }
}

#[tokio::test]
async fn a_broken_connection_loses_and_doubles_nothing() {
    let mut model = Model::listen();
    let gateway = Gateway::start(&model).await;
    // After a whole event, and in the middle of one.
    let proxy = Breaking::before(gateway.address, vec!["id: 1-3\n", "event: turn_comp"]).await;
    let program = Piped::start(proxy.address, &[], "Count.").await;
    let (answer, notes) = (program.answer.clone(), program.notes.clone());
    let mut round = model.round().await;
    round.begin().await;
    // It is shown before the rest comes, so that a note comes between the model's words.
    round.say("one, ").await;
    assert_eq!(answer.take("one, ").await, "one, ");
    for word in ["two, ", "three, ", "four, ", "five, ", "six."] {
        round.say(word).await;
    }
    round.end().await;
    assert_eq!(program.exit().await, Some(0));
    assert_eq!(answer.take("six.\n").await, "two, three, four, five, six.\n");
    notes.take("; connecting again\nconnected again\n").await;
    let requests = proxy.requests.lock().clone();
    assert!(requests[0].starts_with("post /api/v1/chat/stream "), "{requests:?}");
    assert!(requests[1].starts_with("get /api/v1/chat/stream?session_id="), "{requests:?}");
    assert!(requests[1].contains("\r\nlast-event-id: 1-2\r\n"), "{requests:?}");
    assert_eq!(requests.len(), 3, "{requests:?}");
}

/// The request may have arrived, so it is repeated with its key.
#[tokio::test]
async fn an_answer_that_never_came_begins_no_second_turn() {
    let mut model = Model::listen();
    let gateway = Gateway::start(&model).await;
    let proxy = Breaking::before(gateway.address, vec!["HTTP/1.1 200 OK\r\n"]).await;
    let ended = spawn(run(chat(proxy.address, &[]), "Hello?"));
    model.answers(&["Hello."]).await;
    let ended = ended.await.unwrap();
    assert_eq!((ended.status, &*ended.answer), (Some(0), "Hello.\n"), "{}", ended.notes);
    let requests = proxy.requests.lock().clone();
    let key = |at: usize| {
        let mut lines = requests[at].lines();
        lines.find(|line| line.starts_with("idempotency-key: ")).unwrap().to_owned()
    };
    assert_eq!(key(0), key(1));
    assert!(model.has_no_requests());
}
