//! Invalid HTTP/2 frames, written by hand (RFC 9113): each ends its stream or its connection with an error and
//! affects nobody else.

use std::process::Stdio;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::support::client::Client;
use crate::support::process::Process;
use crate::support::{Gateway, Model, ms, within};

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const PRIORITY: u8 = 2;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const PUSH_PROMISE: u8 = 5;
const PING: u8 = 6;
const GOAWAY: u8 = 7;
const WINDOW_UPDATE: u8 = 8;
const CONTINUATION: u8 = 9;

const END_STREAM: u8 = 1;
const ACK: u8 = 1;
const END_HEADERS: u8 = 4;
const PADDED: u8 = 8;
const PRIORITISED: u8 = 0x20;

/// The end of a connection or of one of its streams, with the code of the error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Connection(u32),
    Stream(u32),
    /// The status of an answer.
    Answer(u16),
}
use End::{Answer, Connection, Stream};

/// Stands for every status that no case expects.
const OTHER_STATUS: u16 = 0;

const PROTOCOL_ERROR: u32 = 1;
const FLOW_CONTROL_ERROR: u32 = 3;
const FRAME_SIZE_ERROR: u32 = 6;
const REFUSED_STREAM: u32 = 7;
const ENHANCE_YOUR_CALM: u32 = 11;

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

/// Fields as literals without indexing (RFC 7541, section 6.2.2).
fn fields(fields: &[(&str, &str)]) -> Vec<u8> {
    let text = |text: &str| {
        let length = u8::try_from(text.len()).unwrap();
        assert!(length < 127, "one byte holds the length");
        [&[length], text.as_bytes()].concat()
    };
    fields.iter().flat_map(|(name, value)| [&[0][..], &text(name), &text(value)].concat()).collect()
}

const GET: [(&str, &str); 4] =
    [(":method", "GET"), (":scheme", "http"), (":path", "/healthz"), (":authority", "localhost")];

/// A request for `/healthz`.
fn get(stream: u32) -> Vec<u8> {
    frame(HEADERS, END_STREAM | END_HEADERS, stream, &fields(&GET))
}

/// The same with more fields.
fn get_with(more: &[(&str, &str)]) -> Vec<u8> {
    frame(HEADERS, END_STREAM | END_HEADERS, 1, &fields(&[&GET, more].concat()))
}

/// The beginning of a request with a body.
fn post(stream: u32, more: &[(&str, &str)]) -> Vec<u8> {
    let post = [&[(":method", "POST")], &GET[1..], more].concat();
    frame(HEADERS, END_HEADERS, stream, &fields(&post))
}

fn setting(id: u16, value: u32) -> Vec<u8> {
    frame(SETTINGS, 0, 0, &[&id.to_be_bytes()[..], &value.to_be_bytes()].concat())
}

/// Sends frames, and returns the first answer, reset or connection error. Frames go out while answers are
/// read, because a server may stop reading until it has written.
async fn end(gateway: &Gateway, frames: &[u8]) -> End {
    end_for(gateway.client().await, frames).await
}

async fn end_for(Client { socket, .. }: Client, frames: &[u8]) -> End {
    let (mut reading, mut writing) = socket.into_split();
    let bytes = [PREFACE, &frame(SETTINGS, 0, 0, &[]), frames].concat();
    // This fails if the server has seen enough and closes the connection.
    let writer = tokio::spawn(async move {
        let _ = writing.write_all(&bytes).await;
        writing
    });
    let ended = within(async {
        let (mut read, mut buffer) = (Vec::new(), vec![0; 1 << 16]);
        loop {
            let count = reading.read(&mut buffer).await.unwrap_or_default();
            read.extend_from_slice(&buffer[..count]);
            if let Some(end) = first_end(&read) {
                return end;
            }
            assert_ne!(count, 0, "closed without a word: {read:?}");
        }
    });
    let ended = ended.await;
    writer.abort();
    ended
}

/// The first frame that is an end.
fn first_end(mut bytes: &[u8]) -> Option<End> {
    let code = |payload: &[u8]| u32::from_be_bytes(payload[..4].try_into().unwrap());
    while let Some((head, rest)) = bytes.split_first_chunk::<9>() {
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize;
        let (payload, after) = rest.split_at_checked(length)?;
        match head[3] {
            GOAWAY if code(&payload[4..]) != 0 => return Some(Connection(code(&payload[4..]))),
            RST_STREAM => return Some(Stream(code(payload))),
            // Fields of the static table: `:status` 200, 400 and 404.
            HEADERS => {
                return Some(match payload[0] {
                    0x88 => Answer(200),
                    0x8c => Answer(400),
                    0x8d => Answer(404),
                    _ => Answer(OTHER_STATUS),
                });
            }
            _ => {}
        }
        bytes = after;
    }
    None
}

/// Checks how each case ends, and that the gateway goes on.
async fn check(cases: &[(&str, Vec<u8>, End)]) {
    let model = Model::listen();
    let gateway = Gateway::start(&model).await;
    let mut wrong = Vec::new();
    for (what, frames, expected) in cases {
        let end = end(&gateway, frames).await;
        if end != *expected {
            wrong.push(format!("{what}: {end:?}, not {expected:?}"));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert_eq!(gateway.get("/healthz").await.status(), 200);
    assert!(model.has_no_requests());
}

fn window(stream: u32, by: u32) -> Vec<u8> {
    frame(WINDOW_UPDATE, 0, stream, &by.to_be_bytes())
}

fn both(first: Vec<u8>, second: Vec<u8>) -> Vec<u8> {
    [first, second].concat()
}

fn many(count: u32, one: impl Fn(u32) -> Vec<u8>) -> Vec<u8> {
    (0..count).flat_map(one).collect()
}

/// A request with these fields alone.
fn request(list: &[(&str, &str)]) -> Vec<u8> {
    frame(HEADERS, END_STREAM | END_HEADERS, 1, &fields(list))
}

#[tokio::test]
async fn valid_frames_and_unknown_ones_do_no_harm() {
    let (first, rest) = (&fields(&GET)[..9], &fields(&GET)[9..]);
    let priority = [&[0, 0, 0, 0, 0][..], &fields(&GET)].concat();
    check(&[
        ("a request", get(1), Answer(200)),
        ("an unknown frame", both(frame(99, 0xff, 0, b"x"), get(1)), Answer(200)),
        ("an unknown setting", both(setting(99, 1), get(1)), Answer(200)),
        ("a ping", both(frame(PING, 0, 0, &[7; 8]), get(1)), Answer(200)),
        ("an acknowledgement", both(frame(SETTINGS, ACK, 0, &[]), get(1)), Answer(200)),
        (
            "a priority",
            frame(HEADERS, END_STREAM | END_HEADERS | PRIORITISED, 1, &priority),
            Answer(200),
        ),
        (
            "a head in two frames",
            both(frame(HEADERS, END_STREAM, 1, first), frame(CONTINUATION, END_HEADERS, 1, rest)),
            Answer(200),
        ),
        ("te: trailers", get_with(&[("te", "trailers")]), Answer(200)),
    ])
    .await;
}

/// h2 answers frames that are too long with the standard's `FRAME_SIZE_ERROR`, and those that are too short
/// with a `PROTOCOL_ERROR`.
#[tokio::test]
async fn a_frame_of_the_wrong_size_ends_the_connection() {
    let big = vec![0; 16_385];
    check(&[
        ("DATA", both(post(1, &[]), frame(DATA, 0, 1, &big)), Connection(FRAME_SIZE_ERROR)),
        ("HEADERS", frame(HEADERS, END_HEADERS, 1, &big), Connection(FRAME_SIZE_ERROR)),
        ("an unknown frame", frame(99, 0, 0, &big), Connection(FRAME_SIZE_ERROR)),
        ("SETTINGS", frame(SETTINGS, 0, 0, &[0; 5]), Connection(PROTOCOL_ERROR)),
        ("an acknowledgement", frame(SETTINGS, ACK, 0, &[0; 6]), Connection(PROTOCOL_ERROR)),
        ("PING", frame(PING, 0, 0, &[0; 7]), Connection(PROTOCOL_ERROR)),
        ("WINDOW_UPDATE", frame(WINDOW_UPDATE, 0, 0, &[0; 3]), Connection(PROTOCOL_ERROR)),
        ("PRIORITY", frame(PRIORITY, 0, 1, &[0; 4]), Connection(PROTOCOL_ERROR)),
        ("GOAWAY", frame(GOAWAY, 0, 0, &[0; 7]), Connection(PROTOCOL_ERROR)),
        (
            "RST_STREAM",
            both(post(1, &[]), frame(RST_STREAM, 0, 1, &[0; 3])),
            Connection(PROTOCOL_ERROR),
        ),
    ])
    .await;
}

#[tokio::test]
async fn a_frame_on_the_wrong_stream_ends_the_connection() {
    let error = Connection(PROTOCOL_ERROR);
    check(&[
        ("DATA on the connection", frame(DATA, 0, 0, b"x"), error),
        ("DATA before a request", frame(DATA, 0, 1, b"x"), error),
        ("HEADERS on the connection", frame(HEADERS, END_HEADERS, 0, &fields(&GET)), error),
        ("HEADERS on a stream of ours", get(2), error),
        ("HEADERS on an earlier stream", both(get(3), get(1)), error),
        ("CONTINUATION alone", frame(CONTINUATION, END_HEADERS, 1, &fields(&GET)), error),
        ("CONTINUATION on the connection", frame(CONTINUATION, END_HEADERS, 0, &[]), error),
        (
            "another frame in a head",
            both(frame(HEADERS, 0, 1, &fields(&GET)), frame(PING, 0, 0, &[0; 8])),
            error,
        ),
        (
            "another stream in a head",
            both(frame(HEADERS, 0, 1, &fields(&GET)), frame(CONTINUATION, END_HEADERS, 3, &[])),
            error,
        ),
        (
            "an unknown frame in a head",
            both(frame(HEADERS, 0, 1, &fields(&GET)), frame(99, 0, 0, &[])),
            error,
        ),
        ("RST_STREAM on the connection", frame(RST_STREAM, 0, 0, &[0; 4]), error),
        ("RST_STREAM before a request", frame(RST_STREAM, 0, 1, &[0; 4]), error),
        ("SETTINGS on a stream", frame(SETTINGS, 0, 1, &[]), error),
        ("PING on a stream", frame(PING, 0, 1, &[0; 8]), error),
        ("GOAWAY on a stream", frame(GOAWAY, 0, 1, &[0; 8]), error),
        ("PRIORITY on the connection", frame(PRIORITY, 0, 0, &[0; 5]), error),
        ("WINDOW_UPDATE before a request", window(1, 1), error),
        ("a push", frame(PUSH_PROMISE, END_HEADERS, 1, &[0, 0, 0, 2]), error),
    ])
    .await;
}

#[tokio::test]
async fn invalid_settings_windows_and_padding_are_errors() {
    let error = Connection(PROTOCOL_ERROR);
    check(&[
        ("ENABLE_PUSH", setting(2, 2), error),
        ("INITIAL_WINDOW_SIZE", setting(4, 1 << 31), error),
        ("MAX_FRAME_SIZE, small", setting(5, 16_383), error),
        ("MAX_FRAME_SIZE, large", setting(5, 1 << 24), error),
        ("no window for the connection", window(0, 0), error),
        ("no window for a stream", both(post(1, &[]), window(1, 0)), error),
        ("the connection's window", window(0, (1 << 31) - 1), Connection(FLOW_CONTROL_ERROR)),
        (
            "a stream's window",
            both(post(1, &[]), window(1, (1 << 31) - 1)),
            Stream(FLOW_CONTROL_ERROR),
        ),
        (
            "more than the window",
            both(post(1, &[]), many(100, |_| frame(DATA, 0, 1, &[b'x'; 16_384]))),
            Connection(FLOW_CONTROL_ERROR),
        ),
        ("padding of DATA", both(post(1, &[]), frame(DATA, PADDED, 1, &[9, 1])), error),
        ("no padding of DATA", both(post(1, &[]), frame(DATA, PADDED, 1, &[])), error),
        ("padding of HEADERS", frame(HEADERS, END_HEADERS | PADDED, 1, &[200]), error),
    ])
    .await;
}

#[tokio::test]
async fn a_malformed_request_head_is_an_error() {
    // Most faults reset the stream. Those that h2 finds while it decompresses the fields end the connection.
    let (reset, closed) = (Stream(PROTOCOL_ERROR), Connection(PROTOCOL_ERROR));
    let [method, scheme, path, authority] = GET;
    check(&[
        ("a capital letter", get_with(&[("X-A", "b")]), closed),
        ("connection", get_with(&[("connection", "close")]), reset),
        ("keep-alive", get_with(&[("keep-alive", "1")]), reset),
        ("proxy-connection", get_with(&[("proxy-connection", "1")]), reset),
        ("transfer-encoding", get_with(&[("transfer-encoding", "chunked")]), reset),
        ("upgrade", get_with(&[("upgrade", "h2c")]), reset),
        ("te", get_with(&[("te", "gzip")]), reset),
        ("a late pseudo-field", get_with(&[("a", "b"), (":path", "/x")]), reset),
        ("two paths", get_with(&[(":path", "/x")]), reset),
        ("an unknown pseudo-field", get_with(&[(":other", "/x")]), closed),
        ("a status", get_with(&[(":status", "200")]), reset),
        ("an empty path", request(&[method, scheme, (":path", ""), authority]), reset),
        ("no path", request(&[method, scheme, authority]), reset),
        ("no method", request(&[scheme, path, authority]), reset),
        ("no scheme", request(&[method, path, authority]), reset),
        ("LF in a value", get_with(&[("a", "b\nc: d")]), closed),
        ("NUL in a value", get_with(&[("a", "b\0")]), closed),
        ("a space in a name", get_with(&[("a b", "c")]), closed),
        ("no name", get_with(&[("", "c")]), closed),
        ("a colon in a name", get_with(&[("a:b", "c")]), closed),
        (
            "a request in a path",
            request(&[method, scheme, (":path", "/ HTTP/1.1\r\nX: y"), authority]),
            reset,
        ),
        (
            "a request in a method",
            request(&[(":method", "GET / HTTP/1.1\r\n"), scheme, path, authority]),
            closed,
        ),
        (
            "a body that is shorter than it says",
            both(post(1, &[("content-length", "5")]), frame(DATA, END_STREAM, 1, b"four")),
            reset,
        ),
        (
            "a body that is longer than it says",
            both(post(1, &[("content-length", "3")]), frame(DATA, END_STREAM, 1, b"four")),
            reset,
        ),
        ("a length without a body", get_with(&[("content-length", "3")]), reset),
        ("a length that is no number", get_with(&[("content-length", "x")]), reset),
        (
            "trailers that are not the end",
            both(post(1, &[]), frame(HEADERS, END_HEADERS, 1, &fields(&[("a", "b")]))),
            reset,
        ),
        ("a stream that depends on itself", frame(PRIORITY, 0, 1, &[0, 0, 0, 1, 0]), reset),
    ])
    .await;
}

#[tokio::test]
async fn a_head_that_cannot_be_decompressed_ends_the_connection() {
    let head = |bytes: &[u8]| frame(HEADERS, END_STREAM | END_HEADERS, 1, bytes);
    // The standard says COMPRESSION_ERROR; h2 says this.
    let error = Connection(PROTOCOL_ERROR);
    check(&[
        ("an index that is not there", head(&[0xde]), error),
        ("index 0", head(&[0x80]), error),
        ("a table that is too large", head(&[0x3f, 0xff, 0xff, 0x7f]), error),
        ("a number without an end", head(&[0xff; 12]), error),
        ("a field that is cut", head(&fields(&GET)[..20]), error),
        ("a wrong code", head(&[0, 0x84, 0xff, 0xff, 0xff, 0xff, 1, b'a']), error),
    ])
    .await;
}

/// h2 warns of each, and any client can send them.
#[tokio::test]
async fn odd_frames_do_not_fill_the_log() {
    let (process, log) = Process::start_logged_with("", |command| {
        command.args(["--log-format", "json"]).stderr(Stdio::piped());
    })
    .await;
    let pings = many(2000, |_| frame(PING, ACK, 0, &[0; 8]));
    // It answers what comes last, so it has read all of them.
    assert_eq!(end_for(process.client().await, &both(pings, get(1))).await, Answer(200));
    process.signal("TERM");
    assert_eq!(process.exit().await.code(), Some(0));
    let of_h2 = log.lines().iter().filter(|line| line.to_string().contains("h2::")).count();
    assert_eq!(of_h2, 0);
}

/// Each flood would cost a server far more than the client.
#[tokio::test]
async fn floods_are_cut_or_cost_nothing() {
    let bomb = [&[0x40, 1, b'a', 0x7f, 0x81, 0x1d][..], &[b'x'; 4000], &[0xbe; 12_000]].concat();
    let begun = || frame(HEADERS, END_STREAM, 1, &fields(&GET));
    check(&[
        (
            "rapid reset",
            many(3000, |n| both(get(2 * n + 1), frame(RST_STREAM, 0, 2 * n + 1, &[0, 0, 0, 8]))),
            Connection(ENHANCE_YOUR_CALM),
        ),
        (
            "heads without an end",
            both(begun(), many(5000, |_| frame(CONTINUATION, 0, 1, &fields(&[("a", "b")])))),
            Connection(ENHANCE_YOUR_CALM),
        ),
        (
            "heads of empty frames",
            both(begun(), many(50_000, |_| frame(CONTINUATION, 0, 1, &[]))),
            Connection(ENHANCE_YOUR_CALM),
        ),
        ("a head that grows", request_of(&bomb), Connection(ENHANCE_YOUR_CALM)),
        (
            "bodies of empty frames",
            both(post(1, &[]), many(50_000, |_| frame(DATA, 0, 1, &[]))),
            Connection(ENHANCE_YOUR_CALM),
        ),
        ("more streams than allowed", many(300, |n| post(2 * n + 1, &[])), Stream(REFUSED_STREAM)),
        (
            "resets that the server is made to send",
            many(3000, |n| both(post(2 * n + 1, &[]), window(2 * n + 1, 0))),
            Connection(PROTOCOL_ERROR),
        ),
        // These are answered only as fast as the client reads, and nothing of them is kept.
        ("settings", both(many(50_000, |_| frame(SETTINGS, 0, 0, &[])), get(1)), Answer(200)),
        ("pings", both(many(50_000, |_| frame(PING, 0, 0, &[0; 8])), get(1)), Answer(200)),
        (
            "priorities",
            both(many(50_000, |n| frame(PRIORITY, 0, 2 * n + 1, &[0; 5])), get(1)),
            Answer(200),
        ),
    ])
    .await;
}

fn request_of(head: &[u8]) -> Vec<u8> {
    frame(HEADERS, END_STREAM | END_HEADERS, 1, head)
}

#[tokio::test]
async fn a_wrong_preface_is_a_bad_http_1_request() {
    let model = Model::listen();
    let gateway = Gateway::start(&model).await;
    for preface in [
        &b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\r"[..],
        b"PRI * HTTP/2.0\r\n\r\nXX\r\n\r\n",
        b"PRI * HTTP/2.1\r\n\r\nSM\r\n\r\n",
        b"PRI /healthz HTTP/2.0\r\n\r\nSM\r\n\r\n",
    ] {
        let mut client = gateway.client().await;
        client.send([preface, &frame(SETTINGS, 0, 0, &[]), &get(1)].concat()).await;
        client.socket.shutdown().await.unwrap();
        let answer = client.closed().await;
        let text = String::from_utf8_lossy(&answer);
        assert!(text.starts_with("HTTP/1.1 400 Bad Request\r\n"), "{preface:?}: {text}");
    }
}

/// A frame's kind, flags and payload.
type Read = (u8, u8, Vec<u8>);

/// The frames that have arrived, whole, and the rest.
fn split_frames(mut bytes: &[u8]) -> (Vec<Read>, &[u8]) {
    let mut frames = Vec::new();
    while let Some((head, rest)) = bytes.split_first_chunk::<9>() {
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize;
        let Some((payload, after)) = rest.split_at_checked(length) else { break };
        frames.push((head[3], head[4], payload.to_vec()));
        bytes = after;
    }
    (frames, bytes)
}

/// Pings say that a client is there, not that it needs the connection.
#[tokio::test]
async fn a_connection_with_nothing_but_pings_is_closed() {
    let model = Model::listen();
    let gateway = Gateway::with(model.address, |setup| setup.timeouts.head = ms(100)).await;
    for before in [Vec::new(), get(1)] {
        let mut client = gateway.client().await;
        let hello = [PREFACE, &frame(SETTINGS, 0, 0, &[]), &before].concat();
        client.send([&hello[..], &frame(PING, 0, 0, &[0; 8])].concat()).await;
        let (mut unread, mut leaves) = (Vec::new(), Vec::new());
        within(async {
            let mut buffer = vec![0; 1 << 14];
            while let Ok(read @ 1..) = client.socket.read(&mut buffer).await {
                unread.extend_from_slice(&buffer[..read]);
                let (frames, rest) = split_frames(&unread);
                unread = rest.to_vec();
                for (kind, flags, payload) in frames {
                    let answer = match kind {
                        PING if flags & ACK == 0 => frame(PING, ACK, 0, &payload),
                        // The next one, at once.
                        PING => frame(PING, 0, 0, &payload),
                        SETTINGS if flags & ACK == 0 => frame(SETTINGS, ACK, 0, &[]),
                        GOAWAY => {
                            leaves.push(payload[7]);
                            continue;
                        }
                        _ => continue,
                    };
                    // This fails once it is closed.
                    let _ = client.socket.write_all(&answer).await;
                }
            }
        })
        .await;
        assert!(!leaves.is_empty() && leaves.iter().all(|code| *code == 0), "{leaves:?}");
    }
}
