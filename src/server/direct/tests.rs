//! The same log over both paths: written by hyper, and written directly.

use std::convert::Infallible;

use bytes::BytesMut;
use hyper::header::HeaderValue;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use proptest::prelude::*;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use super::*;
use crate::event::Event;
use crate::server::body::EventBody;
use crate::server::dialect::Encoder;
use crate::server::reply::ReplyBody;
use crate::session::{Reader, Record, Writer};

const FOR_EVER: Duration = Duration::from_secs(3600);

/// Writes records as they are.
#[derive(Debug)]
struct Plain {
    is_cut: bool,
    /// Records of fewer bytes are left out, as some dialects leave out events.
    shortest: usize,
}

impl Encoder for Plain {
    fn media_type(&self) -> &'static str {
        "text/plain"
    }

    fn encode(&mut self, record: &Record<'_>, out: &mut BytesMut) {
        if record.data.len() >= self.shortest {
            out.extend_from_slice(record.data);
        }
    }

    fn keep_alive(&self) -> Bytes {
        Bytes::from_static(b":\n")
    }

    fn is_cut(&self) -> bool {
        self.is_cut
    }
}

/// Fails at the second record.
#[derive(Debug)]
struct Failing(Plain);

impl Encoder for Failing {
    fn media_type(&self) -> &'static str {
        self.0.media_type()
    }

    fn encode(&mut self, record: &Record<'_>, out: &mut BytesMut) {
        assert!(record.sequence < 2, "an encoder that fails");
        self.0.encode(record, out);
    }

    fn keep_alive(&self) -> Bytes {
        self.0.keep_alive()
    }
}

/// What is streamed in one case.
#[derive(Debug, Clone)]
struct Case {
    /// Bytes of text in each event, by what is published together.
    batches: Vec<Vec<usize>>,
    is_cut: bool,
    shortest: usize,
    greets: bool,
    /// Whether the client reads only at the end.
    is_slow: bool,
}

fn cases() -> impl Strategy<Value = Case> {
    let length = prop_oneof![6 => 0..40_usize, 2 => 40..3000_usize, 1 => 3000..200_000_usize];
    let batch = prop::collection::vec(length, 0..4);
    let batches = prop::collection::vec(batch, 0..12);
    let flags = (any::<bool>(), any::<bool>(), any::<bool>());
    (batches, prop_oneof![Just(0), Just(60)], flags).prop_map(
        |(batches, shortest, (is_cut, greets, is_slow))| Case {
            batches,
            is_cut,
            shortest,
            greets,
            is_slow,
        },
    )
}

impl Case {
    fn body(&self, reader: Reader) -> EventBody {
        let encoder = Plain { is_cut: self.is_cut, shortest: self.shortest };
        let mut body = EventBody::new(reader, Box::new(encoder), FOR_EVER);
        if self.greets {
            body.greet();
        }
        body
    }

    fn publish(&self, mut writer: Writer, mut after_each: impl FnMut()) {
        for batch in &self.batches {
            for bytes in batch {
                writer.push(&Event::text(&"x".repeat(*bytes)));
            }
            writer.publish();
            after_each();
        }
    }
}

async fn connected() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (ours, theirs) = tokio::join!(listener.accept(), TcpStream::connect(address));
    (ours.unwrap().0, theirs.unwrap())
}

async fn read_all(mut client: TcpStream) -> Vec<u8> {
    let mut bytes = Vec::new();
    // A cut stream may end in a reset.
    let _ = client.read_to_end(&mut bytes).await;
    bytes
}

fn response(body: EventBody) -> Response<ReplyBody> {
    let mut response = Response::new(ReplyBody::events(body));
    response.headers_mut().insert("content-type", HeaderValue::from_static("text/plain"));
    response
}

async fn by_hyper(socket: TcpStream, body: EventBody) {
    let body = parking_lot::Mutex::new(Some(body));
    let service = service_fn(|_: Request<hyper::body::Incoming>| {
        let body = body.lock().take().expect("one request");
        std::future::ready(Ok::<_, Infallible>(response(body)))
    });
    // A cut stream is an error.
    let _ = http1::Builder::new().serve_connection(TokioIo::new(socket), service).await;
}

async fn directly(socket: TcpStream, body: EventBody) {
    let (head, body) = response(body).into_parts();
    let events = body.into_events().expect("events");
    let socket = Socket::new(socket);
    let head = write_head(&head, true);
    if serve(socket.clone(), head, events, FOR_EVER).await == Ended::Properly {
        socket.shut_down();
    }
}

/// The response's head without its date, its chunks, and whether it is complete.
type Parsed = (Vec<String>, Vec<Vec<u8>>, bool);

/// `None` without a head.
fn parse(bytes: &[u8]) -> Option<Parsed> {
    let end = bytes.windows(4).position(|window| window == b"\r\n\r\n")? + 4;
    let head = String::from_utf8(bytes[..end].to_vec()).unwrap();
    let mut lines: Vec<String> = head.lines().map(str::to_owned).collect();
    lines.retain(|line| !line.starts_with("date: "));
    let (mut rest, mut chunks) = (&bytes[end..], Vec::new());
    while let Some(line) = rest.windows(2).position(|window| window == b"\r\n") {
        let size = str::from_utf8(&rest[..line]).unwrap();
        assert_eq!(size, format!("{:X}", usize::from_str_radix(size, 16).unwrap()));
        let size = usize::from_str_radix(size, 16).unwrap();
        rest = &rest[line + 2..];
        assert_eq!(&rest[size..size + 2], b"\r\n");
        let (chunk, after) = (rest[..size].to_vec(), &rest[size + 2..]);
        if size == 0 {
            return Some((lines, chunks, after.is_empty()));
        }
        chunks.push(chunk);
        rest = after;
    }
    assert!(rest.is_empty(), "half a chunk");
    Some((lines, chunks, false))
}

/// hyper drops what it has not sent yet when a stream is cut; written directly, all of it arrives.
fn check_cut(hyper: &[u8], direct: &[u8]) {
    let (head, chunks, is_complete) = parse(direct).expect("a head");
    assert!(!is_complete, "the end is missing");
    if let Some((its_head, its_chunks, is_complete)) = parse(hyper) {
        assert!(its_head == head && chunks.starts_with(&its_chunks) && !is_complete);
    }
}

/// What a client reads of a log that is complete before it is streamed.
async fn complete(case: &Case, is_direct: bool) -> Vec<u8> {
    let (log, writer) = Writer::new(1);
    let body = case.body(log.read_after(0));
    case.publish(writer, || {});
    stream(body, is_direct, std::future::ready(()), case.is_slow).await
}

/// What a client reads of a log that is published meanwhile, on another thread.
async fn live(case: &Case, is_direct: bool) -> Vec<u8> {
    let (log, writer) = Writer::new(1);
    let body = case.body(log.read_after(0));
    let published = case.clone();
    let publishing = tokio::task::spawn_blocking(move || {
        published.publish(writer, std::thread::yield_now);
    });
    let publishing = async move { publishing.await.unwrap() };
    stream(body, is_direct, publishing, case.is_slow).await
}

async fn stream(
    body: EventBody,
    is_direct: bool,
    publishing: impl Future<Output = ()>,
    is_slow: bool,
) -> Vec<u8> {
    let (ours, mut client) = connected().await;
    client.write_all(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").await.unwrap();
    let serving = tokio::spawn(async move {
        if is_direct {
            // As after hyper has read it.
            let mut ours = ours;
            let mut request = [0; 46];
            ours.read_exact(&mut request).await.unwrap();
            directly(ours, body).await;
        } else {
            by_hyper(ours, body).await;
        }
    });
    let bytes = if is_slow {
        publishing.await;
        read_all(client).await
    } else {
        let reading = tokio::spawn(read_all(client));
        publishing.await;
        reading.await.unwrap()
    };
    serving.await.unwrap();
    bytes
}

/// A client that has read the head and all that has been published.
async fn following(reader: Reader, encoder: Box<dyn Encoder>, published: &str) -> TcpStream {
    let (ours, mut client) = connected().await;
    tokio::spawn(directly(ours, EventBody::new(reader, encoder, FOR_EVER)));
    let mut read = Vec::new();
    while !String::from_utf8_lossy(&read).contains(published) {
        assert_ne!(client.read_buf(&mut read).await.unwrap(), 0);
    }
    client
}

#[tokio::test]
async fn a_reader_that_fails_ends_its_own_stream_and_no_other() {
    let (log, mut writer) = Writer::new(1);
    writer.push(&Event::text("one"));
    writer.publish();
    let plain = || Plain { is_cut: false, shortest: 0 };
    let failing = following(log.read_after(0), Box::new(Failing(plain())), "one").await;
    let other = following(log.read_after(0), Box::new(plain()), "one").await;
    writer.push(&Event::text("two"));
    writer.publish();
    drop(writer);
    let (failed, whole) = tokio::join!(read_all(failing), read_all(other));
    assert_eq!(failed, b"", "broken off");
    let whole = String::from_utf8(whole).unwrap();
    assert!(whole.contains("two") && whole.ends_with("\r\n0\r\n\r\n"), "{whole}");
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Head, chunks and end are the same, byte for byte.
    #[test]
    fn a_complete_log_gives_the_same_bytes_on_both_paths(case in cases()) {
        runtime().block_on(async {
            let (hyper, direct) = (complete(&case, false).await, complete(&case, true).await);
            if case.is_cut {
                check_cut(&hyper, &direct);
            } else {
                assert_eq!(parse(&hyper), parse(&direct));
            }
        });
    }

    /// Chunks depend on how fast everybody is; what is in them does not.
    #[test]
    fn a_log_that_grows_meanwhile_gives_the_same_body_on_both_paths(case in cases()) {
        runtime().block_on(async {
            let whole = |bytes: Vec<u8>| {
                let (head, chunks, is_complete) = parse(&bytes).expect("a head");
                let body = chunks.concat();
                // The greeting is sent if the reader was faster than the first event.
                let said = body.strip_prefix(b":\n").unwrap_or(&body).to_vec();
                (head, said, is_complete)
            };
            let direct = whole(live(&case, true).await);
            if case.is_cut {
                assert!(!direct.2, "the end is missing");
            } else {
                assert_eq!(whole(live(&case, false).await), direct);
            }
        });
    }
}
