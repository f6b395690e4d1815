//! Requests to servers on loopback, and to names that a fake resolver knows.

mod exchange;
pub(crate) mod server;
mod tls;

use std::future;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use hyper::header::HeaderValue;

use super::connect::Lookup;
use super::*;
use server::{Answer, Server, Then};

fn loopback() -> Addresses {
    Addresses::In(vec!["127.0.0.1".parse().unwrap()])
}

fn nothing_private() -> Addresses {
    Addresses::In(Vec::new())
}

fn client(addresses: Addresses) -> Client {
    Client::new(ClientOptions::new(addresses))
}

/// A client whose names have these addresses, for one lookup after the other; the last for all
/// further ones.
fn client_that_finds(addresses: Addresses, found: &[&[&str]]) -> (Client, Arc<AtomicUsize>) {
    let found: Vec<Vec<_>> = found
        .iter()
        .map(|found| found.iter().map(|text| (text.parse::<IpAddr>().unwrap(), 0).into()).collect())
        .collect();
    let lookups = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&lookups);
    let lookup: Lookup = Arc::new(move |_| {
        let number = counted.fetch_add(1, Ordering::SeqCst);
        let found = found.get(number).or_else(|| found.last()).cloned().unwrap_or_default();
        Box::pin(future::ready(Ok(found)))
    });
    (client_with(addresses, lookup), lookups)
}

fn client_with(addresses: Addresses, lookup: Lookup) -> Client {
    let options = Arc::new(ClientOptions::new(addresses));
    let connector = Connector { lookup, ..Connector::new(Arc::clone(&options)) };
    Client::with(connector, options)
}

fn request(method: Method, url: &str) -> Request<Bytes> {
    Request::builder().method(method).uri(url).body(Bytes::new()).unwrap()
}

async fn get(client: &Client, url: &str) -> Result<Response<Body>, OutboundError> {
    client.send(request(Method::GET, url)).await
}

/// Status and body.
async fn read(response: Response<Body>) -> (u16, String) {
    let status = response.status().as_u16();
    let body = response.into_body().collect(1 << 20).await.unwrap();
    (status, String::from_utf8(body.to_vec()).unwrap())
}

/// The ways to write loopback in a URL.
const LOOPBACK: &[&str] = &[
    "127.0.0.1",
    "127.0.0.1.",
    "127.1",
    "127.0.1",
    "2130706433",
    "0x7f000001",
    "0x7f.1",
    "017700000001",
    "0177.0.0.1",
    "[::1]",
    "[0:0:0:0:0:0:0:1]",
    "[::ffff:127.0.0.1]",
    "[::ffff:7f00:1]",
    "[::127.0.0.1]",
    "[64:ff9b::127.0.0.1]",
    "[64:ff9b:1::127.0.0.1]",
    "[2002:7f00:1::]",
    "[2001:0:7f00:1::]",
    "0.0.0.0",
    "0",
    "[::]",
    "localhost",
    "LOCALHOST",
];

#[tokio::test]
async fn loopback_is_private_in_all_its_forms() {
    let server = Server::start(Vec::new()).await;
    let client = client(nothing_private());
    for host in LOOPBACK {
        for scheme in ["http", "https"] {
            let url = format!("{scheme}://{host}:{}/", server.address.port());
            let error = get(&client, &url).await.unwrap_err();
            assert!(matches!(error, OutboundError::Private { .. }), "{url}: {error:?}");
            assert!(error.is_unsent(), "{url}");
        }
    }
    assert_eq!(server.connections(), 0);
}

#[tokio::test]
async fn a_range_that_is_written_out_can_be_reached() {
    for host in ["127.0.0.1", "127.1", "0x7f000001", "[::ffff:127.0.0.1]", "localhost"] {
        let server = Server::once([Answer::json("{}")]).await;
        let url = format!("http://{host}:{}/", server.address.port());
        let response = get(&client(loopback()), &url).await.unwrap();
        assert_eq!(read(response).await, (200, "{}".to_owned()), "{host}");
    }
    let error = get(&client(loopback()), "http://127.0.0.2:9/").await.unwrap_err();
    assert!(matches!(error, OutboundError::Private { .. }), "{error:?}");
}

#[track_caller]
fn check_found(found: &[&str], scheme: &str, is_refused: fn(&OutboundError) -> bool) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let (client, _) = client_that_finds(nothing_private(), &[found]);
        let error = get(&client, &format!("{scheme}://shop.example/")).await.unwrap_err();
        assert!(is_refused(&error), "{found:?}: {error:?}");
    });
}

#[test]
fn a_name_with_private_addresses_only_is_not_reached() {
    let is_private = |error: &OutboundError| matches!(error, OutboundError::Private { .. });
    check_found(&["127.0.0.1"], "https", is_private);
    check_found(&["10.0.0.1", "169.254.169.254", "fe80::1"], "https", is_private);
    check_found(&["::ffff:192.168.0.1"], "http", is_private);
    check_found(&["64:ff9b::a00:1"], "https", is_private);
}

#[test]
fn a_public_address_is_reached_by_https_alone() {
    let is_insecure = |error: &OutboundError| matches!(error, OutboundError::Insecure { .. });
    check_found(&["93.184.215.14", "2606:4700::1"], "http", is_insecure);
    check_found(&["10.0.0.1", "93.184.215.14"], "http", is_insecure);
}

#[tokio::test]
async fn only_the_allowed_addresses_of_a_name_are_tried() {
    let server = Server::once([Answer::json("{}")]).await;
    let (client, _) = client_that_finds(loopback(), &[&["127.0.0.2", "::1", "127.0.0.1"]]);
    let url = format!("http://shop.example:{}/", server.address.port());
    let response = get(&client, &url).await.unwrap();
    let info = response.extensions().get::<HttpInfo>().unwrap();
    assert_eq!(info.remote_addr(), server.address);
    assert_eq!(
        server.requests()[0].lines().nth(1).unwrap(),
        format!("host: shop.example:{}", server.address.port())
    );
}

/// The name is looked up once for each connection, and what was checked is what is connected to:
/// nothing can change in between.
#[tokio::test]
async fn a_name_that_moves_to_a_private_address_is_not_followed() {
    let close = || Answer::new("HTTP/1.1 204 No\r\nconnection: close\r\n\r\n", Then::Close);
    let server = Server::start(vec![vec![close()], vec![close()]]).await;
    let addresses: &[&[&str]] = &[&["127.0.0.1"], &["127.0.0.2"], &["127.0.0.1"]];
    let (client, lookups) = client_that_finds(loopback(), addresses);
    let url = format!("http://shop.example:{}/", server.address.port());
    for (number, is_reached) in [(1, true), (2, false), (3, true)] {
        let answer = get(&client, &url).await;
        assert_eq!(answer.is_ok(), is_reached, "{answer:?}");
        assert_eq!(lookups.load(Ordering::SeqCst), number);
    }
    assert_eq!(server.connections(), 2);
}

#[tokio::test]
async fn what_the_operator_wrote_may_be_private_and_nothing_else() {
    let server = Server::once([Answer::json("{}")]).await;
    let other = Server::start(Vec::new()).await;
    let written = Url::parse(&server.url("/mcp")).unwrap();
    let client = client(Addresses::Of(written));
    read(get(&client, &server.url("/other/path")).await.unwrap()).await;
    let port = server.address.port();
    for url in [
        other.url("/mcp"),
        format!("https://127.0.0.1:{port}/mcp"),
        format!("http://localhost:{port}/mcp"),
        format!("http://127.0.0.2:{port}/mcp"),
        "http://169.254.169.254/latest".to_owned(),
    ] {
        let error = get(&client, &url).await.unwrap_err();
        assert!(matches!(error, OutboundError::Private { .. }), "{url}: {error:?}");
    }
    assert_eq!((server.connections(), other.connections()), (1, 0));
}

#[tokio::test]
async fn urls_that_cannot_be_requested_are_named() {
    let client = client(loopback());
    for (url, says) in [
        ("/path", "not absolute"),
        ("ftp://example.org/", "neither http nor https"),
        ("http://user@example.org/", "user name"),
        ("http://user:secret@example.org/", "user name"),
        ("http://1.2.3.4.5/", "not valid"),
    ] {
        let error = get(&client, url).await.unwrap_err();
        assert!(error.to_string().contains(says), "{url}: {error}");
        assert!(!error.to_string().contains("secret"));
    }
}

#[tokio::test]
async fn a_name_without_addresses_and_a_closed_port_are_connection_errors() {
    let lookup: Lookup =
        Arc::new(|_| Box::pin(future::ready(Err(io::Error::other("name or service not known")))));
    let error = get(&client_with(loopback(), lookup), "https://gone.example/").await.unwrap_err();
    assert_eq!(error.to_string(), "cannot connect to gone.example: name or service not known");

    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    drop(listener);
    let error = get(&client(loopback()), &url).await.unwrap_err();
    let fault = crate::tools::ToolFault::from(error);
    assert_eq!((&*fault.message, fault.transient), ("127.0.0.1 refused the connection", true));
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_takes_too_long_is_given_up() {
    let lookup: Lookup = Arc::new(|_| Box::pin(future::pending()));
    let begun = tokio::time::Instant::now();
    let error = get(&client_with(loopback(), lookup), "https://slow.example/").await.unwrap_err();
    assert_eq!(error.to_string(), "cannot connect to slow.example within 5 s");
    assert_eq!(begun.elapsed(), limits::CONNECT_TIMEOUT);
    assert!(error.is_unsent());
}
