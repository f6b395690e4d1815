//! Request smuggling: requests that two servers could read differently. A proxy in front of the gateway must
//! never see one request where the gateway sees two. So each of these is refused and its connection closed, or
//! it is read in the only way that RFC 9112 allows.

use tokio::io::AsyncWriteExt as _;

use crate::support::gateway::{CANCEL, STREAM};
use crate::support::{Gateway, Model};

/// The request that follows each of them. If the first one is refused, this one must not be read.
const NEXT: &str = "GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";

/// A body of 18 bytes, and the answer to it: nothing runs in this session.
const BODY: &str = "{\"session_id\":\"s\"}";
const NOTHING_RUNS: u16 = 404;

/// The statuses of all answers to a request and the one after it.
async fn answers(gateway: &Gateway, request: &[u8]) -> Vec<u16> {
    let mut client = gateway.client().await;
    client.send([request, NEXT.as_bytes()].concat()).await;
    client.socket.shutdown().await.unwrap();
    let answered = String::from_utf8(client.closed().await).unwrap();
    let heads = answered.split("HTTP/1.1 ").skip(1);
    heads.map(|head| head[..3].parse().unwrap()).collect()
}

/// A request to cancel a turn with these header lines, each with its end, and this body.
fn cancel(headers: &str, body: &str) -> Vec<u8> {
    format!("POST {CANCEL} HTTP/1.1\r\nHost: localhost\r\n{headers}\r\n{body}").into()
}

/// The body in one chunk, whose size is written like this, and what follows the chunk's data.
fn chunked(size: &str, after: &str) -> Vec<u8> {
    cancel("Transfer-Encoding: chunked\r\n", &format!("{size}{BODY}{after}"))
}

/// Checks that the request was refused and that the one after it was not read.
#[track_caller]
fn refused(request: &[u8], answers: &[u16]) {
    let request = String::from_utf8_lossy(request);
    assert!(matches!(answers, [400 | 431]), "{answers:?}: {request:?}");
}

/// Checks that the request was answered with this status, and the one after it, too.
#[track_caller]
fn read(request: &[u8], answers: &[u16], status: u16) {
    let request = String::from_utf8_lossy(request);
    assert_eq!(answers, [status, 200], "{request:?}");
}

#[tokio::test]
async fn obscured_transfer_codings_are_refused() {
    let model = Model::listen();
    let gateway = Gateway::start(&model).await;
    let body = format!("12\r\n{BODY}\r\n0\r\n\r\n");
    for headers in [
        "Transfer-Encoding: xchunked\r\n",
        "Transfer-Encoding: chunked, identity\r\n",
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n",
        "Transfer-Encoding: identity\r\n",
        "Transfer-Encoding: chunked,\r\n",
        "Transfer-Encoding: \"chunked\"\r\n",
        "Transfer-Encoding: chunked;q=1\r\n",
        "Transfer-Encoding:\r\n",
        "Transfer-Encoding : chunked\r\n",
        "Transfer-Encoding\r\n: chunked\r\n",
        "Transfer-Encoding:\x0bchunked\r\n",
        "Transfer-Encoding: chunked\x0b\r\n",
        "Transfer-Encoding: chunke\0d\r\n",
        "Transfer-Encoding: chunked\r\r\n",
        "\0Transfer-Encoding: chunked\r\n",
        ": x\r\nTransfer-Encoding: chunked\r\n",
        // Fields on several lines (obs-fold), and a bare CR.
        "X: y\r\n Transfer-Encoding: chunked\r\n",
        "X: y\n\tTransfer-Encoding: chunked\r\n",
        "X: y\rTransfer-Encoding: chunked\r\n",
    ] {
        let request = cancel(headers, &body);
        refused(&request, &answers(&gateway, &request).await);
    }
    // HTTP/1.0 has no transfer codings.
    for headers in ["", "Connection: keep-alive\r\n", "Content-Length: 32\r\n"] {
        let headers = format!("{headers}Transfer-Encoding: chunked\r\n");
        let request = String::from_utf8(cancel(&headers, &body)).unwrap();
        let request = request.replacen("HTTP/1.1", "HTTP/1.0", 1).into_bytes();
        let answers = answers(&gateway, &request).await;
        assert!(answers.is_empty() || matches!(answers[..], [400]), "{answers:?}");
    }
    assert!(model.has_no_requests());
}

#[tokio::test]
async fn chunked_is_recognized_in_every_valid_spelling() {
    let model = Model::listen();
    let gateway = Gateway::start(&model).await;
    let body = format!("12\r\n{BODY}\r\n0\r\n\r\n");
    for headers in [
        "Transfer-Encoding: Chunked\r\n",
        "transfer-encoding:chunked\r\n",
        "Transfer-Encoding:\tchunked \r\n",
        "Transfer-Encoding: ,chunked\r\n",
        "Transfer-Encoding: \r\nTransfer-Encoding: chunked\r\n",
        "X: y\nTransfer-Encoding: chunked\r\n",
        "Transfer-Encoding: chunked\r\nConnection: Transfer-Encoding\r\n",
        "Upgrade: h2c\r\nConnection: Upgrade\r\nTransfer-Encoding: chunked\r\n",
    ] {
        let request = cancel(headers, &body);
        read(&request, &answers(&gateway, &request).await, NOTHING_RUNS);
    }
    // A body that is chunked twice still ends where the outer chunks do.
    for headers in [
        "Transfer-Encoding: chunked, chunked\r\n",
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: Chunked\r\n",
        "Transfer-Encoding: identity\r\nTransfer-Encoding: chunked\r\n",
    ] {
        let request = cancel(headers, &body);
        read(&request, &answers(&gateway, &request).await, 501);
    }
}

/// If a request has both, the chunks count and the connection is closed (RFC 9112, section 6.3).
#[tokio::test]
async fn chunks_with_a_length_end_the_connection() {
    let model = Model::listen();
    let gateway = Gateway::start(&model).await;
    let body = format!("12\r\n{BODY}\r\n0\r\n\r\n");
    for headers in [
        "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n",
        "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n",
    ] {
        assert_eq!(answers(&gateway, &cancel(headers, &body)).await, [NOTHING_RUNS], "{headers:?}");
    }
}

/// The same if the response is a stream, which the connection writes without hyper.
#[tokio::test]
async fn chunks_with_a_length_end_the_connection_after_a_stream() {
    let mut model = Model::listen();
    let gateway = Gateway::start(&model).await;
    let head =
        format!("POST {STREAM} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n");
    let body = "13\r\n{\"prompt\":\"Hello?\"}\r\n0\r\n\r\n";
    for (length, statuses) in [("", &[200, 200][..]), ("Content-Length: 5\r\n", &[200])] {
        let request = format!("{head}{length}Transfer-Encoding: chunked\r\n\r\n{body}");
        let turn = async { model.round().await.answer("Well.").await };
        let (answers, ()) = tokio::join!(answers(&gateway, request.as_bytes()), turn);
        assert_eq!(answers, statuses, "{length:?}");
    }
}

#[tokio::test]
async fn a_length_consists_of_digits_alone() {
    let model = Model::listen();
    let gateway = Gateway::start(&model).await;
    for value in [
        " +18",
        " -0",
        " 0x12",
        " 18;",
        " 18,18",
        " 18, 18",
        " 1 8",
        " 1\r\n 8",
        " 1e1",
        " 1_8",
        "",
        " ",
        " \x0b18",
        " 18\0",
        " \u{ff11}\u{ff18}",
        " 18446744073709551634",
        " 18446744073709551615",
        " 18\r\nContent-Length: 5",
        " 18\r\nX: \x7f",
    ] {
        let request = cancel(&format!("Content-Length:{value}\r\n"), BODY);
        refused(&request, &answers(&gateway, &request).await);
    }
    let request = cancel("Content-Length : 18\r\n", BODY);
    refused(&request, &answers(&gateway, &request).await);
    for headers in [
        "Content-Length:18\r\n",
        "Content-Length: 18 \r\n",
        "Content-Length: 018\r\n",
        "content-length: 18\n",
        "Content-Length: 18\r\nContent-Length: 18\r\n",
    ] {
        let request = cancel(headers, BODY);
        read(&request, &answers(&gateway, &request).await, NOTHING_RUNS);
    }
    // Other names are other fields. Without a length, the body is read as the next request, and a bad one.
    for headers in ["", "Content_Length: 18\r\n", "TE: chunked\r\n", "Content-Length: 0\r\n"] {
        let answers = answers(&gateway, &cancel(headers, BODY)).await;
        assert_eq!(answers, [400, 400], "{headers:?}");
    }
    assert!(model.has_no_requests());
}

#[tokio::test]
async fn chunks_that_can_be_read_in_two_ways_are_refused() {
    const END: &str = "\r\n0\r\n\r\n";

    let model = Model::listen();
    let gateway = Gateway::start(&model).await;
    let long = format!("12;{}\r\n", "a".repeat(70_000));
    let many = format!("\r\n0\r\n{}\r\n", "X: y\r\n".repeat(70_000));
    for (size, after) in [
        (" 12\r\n", END),
        ("0x12\r\n", END),
        ("+12\r\n", END),
        ("-12\r\n", END),
        ("12g\r\n", END),
        ("12,\r\n", END),
        ("1_2\r\n", END),
        ("\r\n", END),
        ("10000000000000012\r\n", END),
        ("FFFFFFFFFFFFFFFF\r\n", END),
        ("12\n", END),
        ("12\r\r\n", END),
        ("12;a\n", END),
        ("12;a\rb\r\n", END),
        ("12;a\nb\r\n", END),
        (&*long, END),
        ("11\r\n", END),
        ("12\r\n", "\n0\r\n\r\n"),
        ("12\r\n", "0\r\n\r\n"),
        ("12\r\n", "XX0\r\n\r\n"),
        ("12\r\n", "\r\n\r\n"),
        ("12\r\n", "\r\n0\n\n"),
        ("12\r\n", "\r\n0\r\n"),
        ("12\r\n", "\r\n0\r\nno colon\r\n\r\n"),
        ("12\r\n", "\r\n0\r\n X: y\r\n\r\n"),
        ("12\r\n", &*many),
    ] {
        let request = chunked(size, after);
        refused(&request, &answers(&gateway, &request).await);
    }
    assert!(model.has_no_requests());
}

#[tokio::test]
async fn chunks_with_extensions_and_trailers_are_read() {
    let model = Model::listen();
    let gateway = Gateway::start(&model).await;
    for (size, after) in [
        ("12\r\n", "\r\n0\r\n\r\n"),
        ("012\r\n", "\r\n00\r\n\r\n"),
        ("12 \r\n", "\r\n0\r\n\r\n"),
        ("12;a=\"b\"\r\n", "\r\n0 ;c\r\n\r\n"),
        // Nothing in a trailer counts.
        ("12\r\n", "\r\n0\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n"),
        ("12\r\n", "\r\n0\r\nHost: evil.example\r\n\r\n"),
    ] {
        let request = chunked(size, after);
        read(&request, &answers(&gateway, &request).await, NOTHING_RUNS);
    }
    // An end without its CR is not the end of the trailer, so nothing after it is a request.
    for after in ["\r\n0\r\n\n", "\r\n0\r\nX: y\n\n"] {
        assert_eq!(answers(&gateway, &chunked("12\r\n", after)).await, [NOTHING_RUNS], "{after:?}");
    }
}

#[tokio::test]
async fn a_head_that_could_be_read_in_two_ways_is_refused() {
    let model = Model::listen();
    let gateway = Gateway::start(&model).await;
    for start in [
        "GET  /healthz HTTP/1.1\r\n",
        "GET\t/healthz HTTP/1.1\r\n",
        "GET /healthz  HTTP/1.1\r\n",
        "GET /healthz HTTP/1.1 \r\n",
        "GET /healthz HTTP/1.1\r",
        "GET /healthz http/1.1\r\n",
        "GET /healthz HTTP/1.2\r\n",
        "GET /healthz HTTP/2.0\r\n",
        "GET /healthz HTTP/0.9\r\n",
        "GET /healthz\r\n",
        "GET /healthz\0 HTTP/1.1\r\n",
        "GE\0T /healthz HTTP/1.1\r\n",
        "G(T /healthz HTTP/1.1\r\n",
        "GET /healthz HTTP/1.1\r\n X: y\r\n",
        "GET /healthz HTTP/1.1\r\nX: y\r\n z\r\n",
        "GET /healthz HTTP/1.1\r\nX: y\0\r\n",
    ] {
        let request = format!("{start}Host: localhost\r\n\r\n");
        refused(request.as_bytes(), &answers(&gateway, request.as_bytes()).await);
    }
    for (request, status) in [
        // All servers read empty lines before a request, and lines that end in LF alone, in the same way.
        ("\r\n\r\nGET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n", 200),
        ("GET /healthz HTTP/1.1\nHost: localhost\n\n", 200),
        // A GET may have a body.
        ("GET /healthz HTTP/1.1\r\nHost: localhost\r\nContent-Length: 4\r\n\r\nGET ", 200),
        (
            "GET /healthz HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n\
             4\r\nGET \r\n0\r\n\r\n",
            200,
        ),
        // The host in the target counts.
        ("GET http://localhost/healthz HTTP/1.1\r\nHost: evil.example\r\n\r\n", 200),
        ("GET http://evil.example/healthz HTTP/1.1\r\nHost: localhost\r\n\r\n", 421),
        ("GET /healthz HTTP/1.1\r\nHost: localhost\r\nHost: localhost\r\n\r\n", 421),
        ("GET /healthz HTTP/1.1\r\nHost: localhost, evil.example\r\n\r\n", 421),
        ("GET /healthz HTTP/1.1\r\n\r\n", 421),
        ("CONNECT localhost:80 HTTP/1.1\r\nHost: localhost\r\n\r\n", 404),
        ("TRACE /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n", 405),
    ] {
        read(request.as_bytes(), &answers(&gateway, request.as_bytes()).await, status);
    }
}
