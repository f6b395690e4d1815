//! A server that still loads its data when a gateway starts, as after a restart of their machine.

use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader, copy};
use tokio::net::{TcpListener, TcpStream, UnixStream};
use tokio::process::Command;

use super::redis_store::config_at;
use crate::support::process::Process;
use crate::support::redis_cluster::RedisCluster;
use crate::support::redis_server::RedisServer;
use crate::support::{Model, until};

/// What a server answers as long as it loads.
const LOADING: &[u8] = b"-LOADING Redis is loading the dataset in memory\r\n";

/// Passes connections on to a server, and answers so many requests as if it were loading. Returns its address.
async fn loading(server: &RedisServer, requests: usize) -> String {
    let path = server.url().trim_start_matches("unix://").to_owned();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("redis://{}", listener.local_addr().unwrap());
    let left = Arc::new(AtomicUsize::new(requests));
    tokio::spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            let store = UnixStream::connect(&path).await.unwrap();
            tokio::spawn(relay(client, store, Arc::clone(&left)));
        }
    });
    url
}

/// Relays a connection once no more requests are to be refused.
async fn relay(mut client: TcpStream, store: UnixStream, left: Arc<AtomicUsize>) {
    let mut request = [0; 4096];
    while left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1)).is_ok()
    {
        if client.read(&mut request).await.is_ok_and(|length| length > 0) {
            let _ = client.write_all(LOADING).await;
        } else {
            return;
        }
    }
    let (mut requests, mut answers) = client.into_split();
    let (mut replies, mut asked) = store.into_split();
    tokio::select! {
        _ = copy(&mut requests, &mut asked) => {}
        _ = copy(&mut replies, &mut answers) => {}
    }
}

/// Starts a gateway with this store, and checks that it says what it waits for.
async fn check(url: &str) {
    let model = Model::listen();
    let config = config_at(&model, url, "wait_sec: 1");
    let (process, log) = Process::start_logged_with(&config, |command| {
        command.args(["--log-format", "json"]).env("TETHER_LOG", "info").stderr(Stdio::piped());
    })
    .await;
    assert_eq!(process.get("/readyz").await.status(), 200);
    until(|| log.lines().iter().any(|line| line["store"].is_string())).await;
    let lines = log.lines();
    let told = lines.iter().find(|line| line["store"].is_string()).unwrap();
    let expected = "the session store is loading its data; the gateway waits for it";
    assert_eq!(told["message"], expected);
}

#[tokio::test]
async fn a_gateway_waits_for_a_server_that_is_loading() {
    let server = RedisServer::start();
    check(&loading(&server, 2).await).await;
}

/// Such a server does not even say who has which keys.
#[tokio::test]
async fn a_gateway_waits_for_a_cluster_that_is_loading() {
    let cluster = RedisCluster::start();
    let url = loading(&cluster[0], 3).await;
    check(&url.replace("redis://", "redis+cluster://")).await;
}

#[tokio::test]
async fn a_gateway_that_waits_for_a_server_can_be_stopped() {
    let (model, server) = (Model::listen(), RedisServer::start());
    let url = loading(&server, usize::MAX).await;
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), config_at(&model, &url, "wait_sec: 1")).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_tether"));
    command.arg("--config").arg(file.path()).env("TETHER_LOG", "info").kill_on_drop(true);
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let mut log = BufReader::new(child.stderr.take().unwrap()).lines();
    while let Some(line) = log.next_line().await.unwrap() {
        if line.contains("the session store is loading its data") {
            break;
        }
    }
    let pid = child.id().expect("it waits").to_string();
    let signalled = Command::new("kill").args(["-s", "TERM", &pid]).status().await.unwrap();
    assert!(signalled.success() && child.wait().await.unwrap().success());
}
