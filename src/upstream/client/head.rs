//! Heads of requests and answers (RFC 9112, sections 2 to 6).

use bytes::{BufMut as _, BytesMut};
use hyper::header::{CONNECTION, CONTENT_LENGTH, HeaderName, HeaderValue, TRANSFER_ENCODING};
use hyper::http::response::Parts;
use hyper::{Method, Request, Response, StatusCode, Version};
use memchr::memchr_iter;

use super::framing::Framing;
use crate::http;
use crate::limits::upstream as limits;

/// Why the head of an answer cannot be read. The connection must be closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum HeadError {
    /// It is not the head of an HTTP/1 answer.
    #[error("it is not an HTTP/1.1 answer: {0}")]
    Malformed(httparse::Error),
    /// It is longer than the limit.
    #[error("its headers have more than {} KiB", limits::HEAD_BYTES_MAX / crate::limits::KIB)]
    TooLarge,
    /// It does not say in a usable way where the body ends.
    #[error("its Content-Length or Transfer-Encoding cannot be used")]
    NoLength,
    /// It switches to another protocol.
    #[error("it switches to another protocol")]
    Switched,
}

/// The head of an answer.
#[derive(Debug)]
pub(super) struct Head {
    /// Status and headers.
    pub(super) parts: Parts,
    /// Where the body ends.
    pub(super) framing: Framing,
    /// Whether the connection can be used again after the body.
    pub(super) is_reusable: bool,
}

/// Writes the head of a request with the `Content-Length` of its body.
pub(super) fn write_request<B>(request: &Request<B>, body_bytes: usize) -> BytesMut {
    let mut head = BytesMut::with_capacity(limits::REQUEST_HEAD_ROOM_BYTES);
    let path = request.uri().path_and_query().map_or("/", |path| path.as_str());
    let lines = [request.method().as_str(), " ", path, " HTTP/1.1\r\n"];
    for part in lines {
        head.put_slice(part.as_bytes());
    }
    for (name, value) in request.headers() {
        for part in [name.as_str().as_bytes(), b": ", value.as_bytes(), b"\r\n"] {
            head.put_slice(part);
        }
    }
    if body_bytes > 0 || *request.method() == Method::POST {
        head.put_slice(format!("content-length: {body_bytes}\r\n").as_bytes());
    }
    head.put_slice(b"\r\n");
    head
}

/// The length of the head that `bytes` begin with: it ends with its first empty line. `None` if that
/// has not arrived. The first `searched` bytes are known to hold no end. Lines may end in a bare LF
/// (RFC 9112, section 2.2).
pub(super) fn end_of_head(bytes: &[u8], searched: usize) -> Option<usize> {
    // The empty line may have begun in the searched bytes.
    let from = searched.saturating_sub(b"\n\r".len());
    memchr_iter(b'\n', &bytes[from..]).find_map(|at| {
        let after = from + at + 1;
        let rest = &bytes[after..];
        let ending = [b"\n".as_slice(), b"\r\n"].into_iter().find(|line| rest.starts_with(line))?;
        Some(after + ending.len())
    })
}

/// Reads the head of an answer. `None` for an interim answer (RFC 9110, section 15.2): the real one
/// follows.
///
/// # Errors
/// If the head is malformed or does not say where the body ends; see [`HeadError`].
pub(super) fn read_answer(head: &[u8]) -> Result<Option<Head>, HeadError> {
    let mut fields = [httparse::EMPTY_HEADER; limits::ANSWER_HEADERS_MAX];
    let mut answer = httparse::Response::new(&mut fields);
    let read = answer.parse(head).map_err(HeadError::Malformed)?;
    let (httparse::Status::Complete(_), Some(version), Some(code)) =
        (read, answer.version, answer.code)
    else {
        return Err(HeadError::Malformed(httparse::Error::NewLine));
    };
    let status =
        StatusCode::from_u16(code).map_err(|_| HeadError::Malformed(httparse::Error::Status))?;
    if status == StatusCode::SWITCHING_PROTOCOLS {
        return Err(HeadError::Switched);
    }
    if status.is_informational() {
        return Ok(None);
    }
    let mut response = Response::new(());
    *response.status_mut() = status;
    *response.version_mut() = if version == 0 { Version::HTTP_10 } else { Version::HTTP_11 };
    let headers = response.headers_mut();
    for field in answer.headers {
        let name = HeaderName::from_bytes(field.name.as_bytes())
            .map_err(|_| HeadError::Malformed(httparse::Error::HeaderName))?;
        let value = HeaderValue::from_bytes(field.value)
            .map_err(|_| HeadError::Malformed(httparse::Error::HeaderValue))?;
        headers.append(name, value);
    }
    let (parts, ()) = response.into_parts();
    let framing = framing(&parts)?;
    let is_reusable = is_reusable(&parts, &framing);
    Ok(Some(Head { parts, framing, is_reusable }))
}

/// Where the body of an answer to a `GET` or a `POST` ends (RFC 9112, section 6.3).
fn framing(head: &Parts) -> Result<Framing, HeadError> {
    if matches!(head.status, StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED) {
        return Ok(Framing::Complete);
    }
    if head.headers.contains_key(TRANSFER_ENCODING) {
        return chunked_framing(head);
    }
    let mut length = None;
    for field in head.headers.get_all(CONTENT_LENGTH) {
        for value in field.as_bytes().split(|byte| *byte == b',') {
            let value = decimal(value.trim_ascii()).ok_or(HeadError::NoLength)?;
            // The same value twice is allowed.
            if length.is_some_and(|length| length != value) {
                return Err(HeadError::NoLength);
            }
            length = Some(value);
        }
    }
    Ok(length.map_or(Framing::UntilClose, Framing::length))
}

/// The framing of a body with a `Transfer-Encoding`. Only `chunked` alone is supported.
fn chunked_framing(head: &Parts) -> Result<Framing, HeadError> {
    let fields = head.headers.get_all(TRANSFER_ENCODING).iter();
    let fields = fields.map(|field| field.to_str().unwrap_or("?"));
    let mut codings = http::elements(fields);
    let is_chunked = codings.next().is_some_and(|coding| coding.eq_ignore_ascii_case("chunked"));
    // HTTP/1.0 has no transfer codings, so the server and a proxy may disagree about where the body
    // ends.
    if head.version == Version::HTTP_10 || !is_chunked || codings.next().is_some() {
        return Err(HeadError::NoLength);
    }
    Ok(Framing::CHUNKED)
}

/// A number that consists of digits only, without sign or white space.
fn decimal(value: &[u8]) -> Option<u64> {
    let is_digits = !value.is_empty() && value.iter().all(u8::is_ascii_digit);
    str::from_utf8(value).ok().filter(|_| is_digits)?.parse().ok()
}

/// Whether the connection stays open after the body (RFC 9112, section 9.3). An answer with both
/// `Transfer-Encoding` and `Content-Length` can be read in two ways, so its connection is not used
/// again (section 6.3).
fn is_reusable(head: &Parts, framing: &Framing) -> bool {
    let fields = || head.headers.get_all(CONNECTION).iter().filter_map(|field| field.to_str().ok());
    let says = |option: &str| http::has_connection_option(fields(), option);
    let is_open = match head.version {
        Version::HTTP_10 => says("keep-alive") && !says("close"),
        _ => !says("close"),
    };
    let has_both = [TRANSFER_ENCODING, CONTENT_LENGTH].iter().all(|n| head.headers.contains_key(n));
    is_open && !has_both && *framing != Framing::UntilClose
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(head: &str) -> Result<Option<Head>, HeadError> {
        read_answer(format!("{head}\r\n\r\n").as_bytes())
    }

    #[track_caller]
    fn check(head: &str, framing: Framing, is_reusable: bool) {
        let head = read(head).expect("a valid head").expect("a final answer");
        assert_eq!((head.framing, head.is_reusable), (framing, is_reusable), "{head:?}");
    }

    #[test]
    fn a_request_head_has_its_line_fields_and_body_length() {
        let post = Request::post("/v1/x?y=z").header("Host", "a:1").header("Accept", "*/*");
        let post = post.body(()).unwrap();
        assert_eq!(
            write_request(&post, 5),
            "POST /v1/x?y=z HTTP/1.1\r\nhost: a:1\r\naccept: */*\r\ncontent-length: 5\r\n\r\n"
        );
        assert_eq!(
            write_request(&Request::post("/").body(()).unwrap(), 0),
            "POST / HTTP/1.1\r\ncontent-length: 0\r\n\r\n"
        );
        assert_eq!(
            write_request(&Request::get("/").body(()).unwrap(), 0),
            "GET / HTTP/1.1\r\n\r\n"
        );
    }

    #[test]
    fn a_head_ends_after_its_first_empty_line() {
        for head in ["HTTP/1.1 200 OK\r\nA: b\r\n\r\n", "HTTP/1.1 200 OK\nA: b\n\n", "A\n\r\n"] {
            let (bytes, end) = (format!("{head}body\r\n\r\n"), head.len());
            for cut in 0..end {
                assert_eq!(end_of_head(&bytes.as_bytes()[..cut], 0), None, "{cut}");
                assert_eq!(end_of_head(bytes.as_bytes(), cut), Some(end), "{cut}");
            }
        }
    }

    #[test]
    fn the_head_says_where_the_body_ends() {
        for (fields, framing, is_reusable) in [
            ("", Framing::UntilClose, false),
            ("Content-Length: 0", Framing::Complete, true),
            ("Content-Length: 12", Framing::Length(12), true),
            ("Content-Length: 12, 12\r\nContent-Length:12", Framing::Length(12), true),
            ("Transfer-Encoding: chunked", Framing::CHUNKED, true),
            ("transfer-encoding:  Chunked ", Framing::CHUNKED, true),
            ("Transfer-Encoding: chunked\r\nContent-Length: 3", Framing::CHUNKED, false),
            ("Connection: close\r\nContent-Length: 12", Framing::Length(12), false),
            ("Connection: x, Close\r\nTransfer-Encoding: chunked", Framing::CHUNKED, false),
        ] {
            check(&format!("HTTP/1.1 200 OK\r\n{fields}\r\nA: b"), framing, is_reusable);
        }
    }

    #[test]
    fn some_answers_have_no_body_whatever_they_say() {
        for status in [204, 304] {
            check(&format!("HTTP/1.1 {status} x\r\nContent-Length: 3"), Framing::Complete, true);
        }
    }

    #[test]
    fn http_1_0_servers_close_unless_they_say_otherwise() {
        check("HTTP/1.0 200 OK\r\nContent-Length: 3", Framing::Length(3), false);
        let kept = "HTTP/1.0 200 OK\r\nConnection: Keep-Alive\r\nContent-Length: 3";
        check(kept, Framing::Length(3), true);
        check("HTTP/1.0 200", Framing::UntilClose, false);
    }

    #[test]
    fn an_answer_without_a_usable_length_is_refused() {
        for fields in [
            "Content-Length: ",
            "Content-Length: +3",
            "Content-Length: 3 3",
            "Content-Length: 3,",
            "Content-Length: 0x3",
            "Content-Length: 3\r\nContent-Length: 4",
            "Content-Length: 99999999999999999999",
            "Transfer-Encoding: ",
            "Transfer-Encoding: gzip",
            "Transfer-Encoding: gzip, chunked",
            "Transfer-Encoding: chunked, chunked",
            "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity",
            "Transfer-Encoding: \x0bchunked",
        ] {
            let read = read(&format!("HTTP/1.1 200 OK\r\n{fields}"));
            assert!(
                matches!(read, Err(HeadError::NoLength | HeadError::Malformed(_))),
                "{fields:?}"
            );
        }
        let old = read("HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked");
        assert_eq!(old.map(drop), Err(HeadError::NoLength));
    }

    #[test]
    fn anything_but_an_http_1_answer_is_refused() {
        for head in [
            "",
            "hello",
            "HTTP/2 200",
            "HTTP/1.1 20",
            "HTTP/1.1 099 x",
            "HTTP/1.1 200 OK\r\nA b",
            "HTTP/1.1 200 OK\r\n A: b",
            "HTTP/1.1 200 OK\r\nA : b",
            "HTTP/1.1 200 OK\r\nA: b\r\n c",
            "HTTP/1.1 200 OK\r\nA: \0",
        ] {
            let read = read(head).map(drop);
            assert!(matches!(read, Err(HeadError::Malformed(_))), "{head:?}: {read:?}");
        }
        let switched = read("HTTP/1.1 101 Switching Protocols\r\nUpgrade: x").map(drop);
        assert_eq!(switched, Err(HeadError::Switched));
    }

    #[test]
    fn interim_answers_are_skipped() {
        for status in ["100 Continue", "103 Early Hints", "102"] {
            assert!(read(&format!("HTTP/1.1 {status}\r\nLink: x")).unwrap().is_none());
        }
    }

    #[test]
    fn headers_are_read_up_to_the_limit() {
        let fields = |count: usize| format!("HTTP/1.1 200 OK{}", "\r\nA: b".repeat(count));
        let most = read(&fields(limits::ANSWER_HEADERS_MAX)).unwrap().unwrap();
        assert_eq!(most.parts.headers.len(), limits::ANSWER_HEADERS_MAX);
        let more = read(&fields(limits::ANSWER_HEADERS_MAX + 1)).map(drop);
        assert_eq!(more, Err(HeadError::Malformed(httparse::Error::TooManyHeaders)));
    }
}
