use super::*;
use crate::limits::upstream::{CHUNK_OVERHEAD_BYTES_MAX, CHUNK_SIZE_BYTES_MAX};

/// Checks what comes of `stream`, wherever it is cut in two: the body, how many bytes the answer has,
/// and whether it is complete.
#[track_caller]
fn check(framing: Framing, stream: &str, expected: Result<(&str, usize, bool), FramingError>) {
    let stream = stream.as_bytes();
    for cut in 0..=stream.len() {
        let (mut framing, mut body, mut taken) = (framing, Vec::new(), 0);
        let mut failed = None;
        for piece in [&stream[..cut], &stream[cut..]] {
            match framing.push(piece, |data| body.extend_from_slice(data)) {
                Ok(used) => taken += used,
                Err(error) => failed = Some(error),
            }
        }
        let found = match failed {
            Some(error) => Err(error),
            None => Ok((str::from_utf8(&body).unwrap(), taken, framing.is_complete())),
        };
        assert_eq!(found, expected, "{stream:?} cut at {cut}");
    }
}

#[test]
fn a_chunked_body_is_its_chunks() {
    for (stream, body) in [
        ("0\r\n\r\n", ""),
        ("5\r\nhello\r\n0\r\n\r\n", "hello"),
        ("5\r\nhello\r\n1\r\n!\r\n0\r\n\r\n", "hello!"),
        ("00000000000000000005\r\nhello\r\n000\r\n\r\n", "hello"),
        ("A\r\n0123456789\r\n0\r\n\r\n", "0123456789"),
        ("a\r\n\r\n\r\n\r\n\r\n\r\n\r\n0\r\n\r\n", "\r\n\r\n\r\n\r\n\r\n"),
        ("5 \t\r\nhello\r\n0\r\n\r\n", "hello"),
        ("5;a=\"b;c\"\r\nhello\r\n0;last\r\n\r\n", "hello"),
        ("5 ;a\r\nhello\r\n0\r\nExpires: never\r\nX:\r\n\r\n", "hello"),
    ] {
        check(Framing::CHUNKED, stream, Ok((body, stream.len(), true)));
        let more = format!("{stream}HTTP/1.1 200 OK\r\n");
        check(Framing::CHUNKED, &more, Ok((body, stream.len(), true)));
    }
}

#[test]
fn an_incomplete_body_is_passed_on_as_far_as_it_came() {
    for (stream, body) in [
        ("", ""),
        ("5", ""),
        ("5\r\nhel", "hel"),
        ("5\r\nhello", "hello"),
        ("5\r\nhello\r\n0\r\n", "hello"),
        ("5\r\nhello\r\n0\r\n\r", "hello"),
        ("0\r\nTrailer: x\r\n", ""),
        ("ffffffffffffffff\r\nhello", "hello"),
    ] {
        check(Framing::CHUNKED, stream, Ok((body, stream.len(), false)));
    }
}

#[test]
fn malformed_chunks_are_refused() {
    for (stream, error) in [
        ("\r\n", FramingError::NoSize),
        ("x\r\n", FramingError::NoSize),
        ("-5\r\nhello", FramingError::NoSize),
        ("+5\r\nhello", FramingError::NoSize),
        (" 5\r\nhello", FramingError::NoSize),
        ("0x5\r\nhello", FramingError::NoSize),
        ("5 5\r\nhello", FramingError::NoSize),
        (";a\r\nhello", FramingError::NoSize),
        ("10000000000000000\r\n", FramingError::SizeTooLarge),
        ("5\nhello\r\n0\r\n\r\n", FramingError::NoLineEnd),
        ("5\rhello\r\n", FramingError::NoLineEnd),
        ("5;a\nb\r\nhello", FramingError::NoLineEnd),
        ("5\r\nhello!", FramingError::NoLineEnd),
        ("5\r\nhello\n", FramingError::NoLineEnd),
        ("5\r\nhello\r0", FramingError::NoLineEnd),
        ("0\r\n\n", FramingError::NoLineEnd),
        ("0\r\n\r\r", FramingError::NoLineEnd),
        ("0\r\nX: y\nZ: \r\n", FramingError::NoLineEnd),
    ] {
        check(Framing::CHUNKED, stream, Err(error));
    }
}

#[test]
fn a_size_may_be_padded_up_to_the_limit() {
    let most = usize::from(CHUNK_SIZE_BYTES_MAX);
    let zeros = |count: usize| format!("{}1\r\n!\r\n0\r\n\r\n", "0".repeat(count - 1));
    let blanks = |count: usize| format!("1{}\r\n!\r\n0\r\n\r\n", " ".repeat(count));
    for make in [&zeros as &dyn Fn(usize) -> String, &blanks] {
        let push = |stream: String| Framing::CHUNKED.clone().push(stream.as_bytes(), |_| ());
        assert_eq!(push(make(most)), Ok(make(most).len()));
        assert_eq!(push(make(most + 1)), Err(FramingError::SizeTooLarge));
    }
}

#[test]
fn extensions_and_trailers_are_ignored_up_to_the_limit() {
    let extensions = |bytes: usize| {
        let half = "x".repeat(bytes / 2);
        format!("1;{half}\r\n!\r\n1;{}\r\n!\r\n0\r\n\r\n", "x".repeat(bytes - bytes / 2))
    };
    let trailers = |bytes: usize| format!("0\r\n{}\r\n\r\n", "x".repeat(bytes));
    let short_trailers = |bytes: usize| format!("0\r\n{}\r\n", "x\r\n".repeat(bytes));
    for (make, body) in
        [(&extensions as &dyn Fn(usize) -> String, "!!"), (&trailers, ""), (&short_trailers, "")]
    {
        for (bytes, is_taken) in
            [(CHUNK_OVERHEAD_BYTES_MAX, true), (CHUNK_OVERHEAD_BYTES_MAX + 1, false)]
        {
            let (stream, mut taken) = (make(bytes), Vec::new());
            let mut framing = Framing::CHUNKED;
            let pushed = framing.push(stream.as_bytes(), |data| taken.extend_from_slice(data));
            if is_taken {
                assert_eq!((pushed, taken), (Ok(stream.len()), body.as_bytes().to_vec()));
            } else {
                assert_eq!(pushed, Err(FramingError::TooMuchOverhead));
            }
        }
    }
}

#[test]
fn a_body_of_known_length_ends_there() {
    check(Framing::length(0), "more", Ok(("", 0, true)));
    check(Framing::length(5), "hello", Ok(("hello", 5, true)));
    check(Framing::length(5), "hello, more", Ok(("hello", 5, true)));
    check(Framing::length(6), "hello", Ok(("hello", 5, false)));
    check(Framing::length(u64::MAX), "hello", Ok(("hello", 5, false)));
}

#[test]
fn a_body_without_a_length_ends_with_the_connection() {
    check(Framing::UntilClose, "5\r\nhello", Ok(("5\r\nhello", 8, false)));
    assert!(Framing::UntilClose.may_end_here() && Framing::Complete.may_end_here());
    assert!(!Framing::length(1).may_end_here() && !Framing::CHUNKED.may_end_here());
}

#[test]
fn after_a_fault_every_push_fails() {
    let mut framing = Framing::CHUNKED;
    assert_eq!(framing.push(b"x", |_| {}), Err(FramingError::NoSize));
    assert_eq!(framing.push(b"5\r\nhello", |_| {}), Err(FramingError::NoSize));
    assert!(!framing.may_end_here());
}
