//! The cases of web-platform-tests (`eventsource/format-*`), eventsource-parser and
//! `LaunchDarkly`'s client, restated. Each is decoded whole, byte by byte, and cut at every
//! position. Then random streams are checked against a plain reference.

use proptest::prelude::*;

use super::{Decoder, Field, FrameTooLarge};

/// A frame, owned: field, data, event, id.
type Owned = (Field, String, String, Option<String>);

#[derive(Debug, PartialEq, Eq)]
struct Decoded {
    frames: Vec<Owned>,
    mid_frame: bool,
}

fn decode<'a>(decoder: &mut Decoder, chunks: impl IntoIterator<Item = &'a [u8]>) -> Decoded {
    let mut frames = Vec::new();
    for mut chunk in chunks {
        while let Some(frame) = decoder.next_frame(&mut chunk).expect("within the limit") {
            let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
            frames.push((frame.field, text(frame.data), text(frame.event), frame.id.map(text)));
        }
        assert!(chunk.is_empty(), "a chunk was not used up");
    }
    Decoded { frames, mid_frame: decoder.is_mid_frame() }
}

/// Decodes the stream whole, byte by byte, and cut at every position; all must agree.
#[track_caller]
fn decode_at_every_cut(stream: &[u8]) -> Decoded {
    let whole = decode(&mut Decoder::new(), [stream]);
    assert_eq!(decode(&mut Decoder::new(), stream.chunks(1)), whole, "byte by byte");
    for cut in 0..=stream.len() {
        let (before, after) = stream.split_at(cut);
        assert_eq!(decode(&mut Decoder::new(), [before, after]), whole, "cut at {cut}");
    }
    whole
}

/// Checks the data of a stream's frames, at every cut.
#[track_caller]
fn check(stream: impl AsRef<[u8]>, data: &[&str]) {
    let decoded = decode_at_every_cut(stream.as_ref());
    let found: Vec<&str> = decoded.frames.iter().map(|frame| frame.1.as_str()).collect();
    assert_eq!(found, data, "{:?}", String::from_utf8_lossy(stream.as_ref()));
}

/// Checks the `(event, data)` of a stream's frames, at every cut.
#[track_caller]
fn check_events(stream: &str, events: &[(&str, &str)]) {
    let decoded = decode_at_every_cut(stream.as_bytes());
    let found: Vec<_> = decoded.frames.iter().map(|frame| (&*frame.2, &*frame.1)).collect();
    assert_eq!(found, events, "{stream:?}");
}

/// Checks the ids of a stream's frames, at every cut.
#[track_caller]
fn check_ids(stream: &str, ids: &[Option<&str>]) {
    let decoded = decode_at_every_cut(stream.as_bytes());
    let found: Vec<_> = decoded.frames.iter().map(|frame| frame.3.as_deref()).collect();
    assert_eq!(found, ids, "{stream:?}");
}

#[test]
fn line_ends_of_all_kinds_mix() {
    check("data: a\n\n", &["a"]);
    check("data: a\r\r", &["a"]);
    check("data: a\r\n\r\n", &["a"]);
    check("data: a\n\r\n", &["a"]);
    check("data: a\r\n\n", &["a"]);
    check("data: a\r\r\n", &["a"]);
    check("data: a\n\r", &["a"]);
    check("data:test\r\ndata\ndata:test\r\n\r\n", &["test\n\ntest"]);
    check("data: a\r\n\r\ndata: b\r\rdata: c\n\ndata: d\n\r", &["a", "b", "c", "d"]);
    // CRLF is one line ending and LF CR is two. Blank lines after a frame add no frame.
    check("data: a\n\n\r\n\r\n\n\rdata: b\n\n", &["a", "b"]);
}

#[test]
fn a_frame_is_out_with_the_byte_that_completes_it() {
    for stream in ["data: a\n\n", "data: a\r\r", "data: a\r\n\r", "data: a\n\r"] {
        let mut decoder = Decoder::new();
        let (last, before) = stream.as_bytes().split_last().unwrap();
        assert_eq!(decode(&mut decoder, before.chunks(1)).frames, [], "{stream:?}");
        assert_eq!(decode(&mut decoder, [&[*last][..]]).frames.len(), 1, "{stream:?}");
    }
}

#[test]
fn one_leading_byte_order_mark_is_skipped() {
    check("\u{FEFF}data: a\n\n", &["a"]);
    // A second one becomes part of the field's name.
    check("\u{FEFF}\u{FEFF}data: a\n\ndata: b\n\ndata: c\n\n", &["b", "c"]);
    check("data: a\n\n\u{FEFF}data: b\n\ndata: c\n\n", &["a", "c"]);
    check("\u{FEFF}\n\ndata: a\n\n", &["a"]);
    // Bytes that only start like one.
    check(b"\xEF\xBBdata: a\n\ndata: b\n\n", &["b"]);
    check(b"\xEFdata: a\n\ndata: b\n\n", &["b"]);
    check(b"\xEF\xBB\n\ndata: b\n\n", &["b"]);
    check(b"\xEF\n\ndata: b\n\n", &["b"]);
}

#[test]
fn comments_are_skipped() {
    check(":\n\n", &[]);
    check(": keep-alive\n\n", &[]);
    check(":\n\n:\r\n\r\n: \n\ndata: a\n\n", &["a"]);
    check("data: a\n: between\ndata: b\n\n", &["a\nb"]);
    check("data:1\r:\0\n:\r\ndata:2\n:aaaa\rdata:3\r\r", &["1\n2\n3"]);
    check(":data: a\n\ndata: b\n\n", &["b"]);
    check(format!(":{}\n\ndata: a\n\n", "x".repeat(2000)), &["a"]);
}

#[test]
fn data_lines_are_joined_with_one_line_feed() {
    check("data: a\ndata: b\n\n", &["a\nb"]);
    check("data: a\ndata:\ndata: b\n\n", &["a\n\nb"]);
    check("data: a\ndata\ndata: b\ndata\n\n", &["a\n\nb\n"]);
    check("data:\n\n", &[""]);
    check("data\n\n", &[""]);
    check("data:\n\ndata\n\ndata: \n\n", &["", "", ""]);
    check("data\ndata\n\n", &["\n"]);
    check("data:\ndata:\ndata: x\n\n", &["\n\nx"]);
}

#[test]
fn one_leading_space_is_dropped() {
    check("data:a\n\n", &["a"]);
    check("data: a\n\n", &["a"]);
    check("data:  a\n\n", &[" a"]);
    check("data:\ta\n\n", &["\ta"]);
    check("data: \n\n", &[""]);
    check("data:  \n\n", &[" "]);
    check("data:a \n\n", &["a "]);
    check("data:\tb\rdata: c\ndata:d\n\n", &["\tb\nc\nd"]);
}

#[test]
fn field_names_are_exact() {
    check("data:a\n data:b\n\n", &["a"]);
    check("Data: a\n\n", &[]);
    check("DATA: a\n\ndata: b\n\n", &["b"]);
    check("data : a\n\n", &[]);
    check("dat: a\n\ndata_: b\n\ndatabase: c\n\n", &[]);
    check(
        "data:\0\ndata:  2\rData:1\ndata\0:2\ndata:1\r\0data:4\nda-ta:3\rdata_5\ndata:3\rdata:\r\n data:32\ndata:4\n\n",
        &["\0\n 2\n1\n3\n\n4"],
    );
    check("unknown: x\nfoo\n: c\ndata: a\n\n", &["a"]);
    check("data: a:b: c\n\n", &["a:b: c"]);
    check("::data: a\n\n", &[]);
}

#[test]
fn the_last_event_type_wins_and_holds_for_one_frame() {
    check_events("event: add\ndata: a\n\ndata: b\n\n", &[("add", "a"), ("", "b")]);
    check_events("event: one\nevent: two\ndata: a\n\n", &[("two", "a")]);
    check_events("event: one\nevent\ndata: a\n\n", &[("", "a")]);
    check_events("event: \ndata: a\n\n", &[("", "a")]);
    check_events("data: a\nevent: late\n\n", &[("late", "a")]);
    check_events("data: a\nevent: late\ndata: b\n\n", &[("late", "a\nb")]);
    check_events("event: lost\n\ndata: a\n\n", &[("", "a")]);
    check_events(
        "event: add\r\ndata: 1\r\n\r\nevent: remove\r\ndata: 2\r\n\r\n",
        &[("add", "1"), ("remove", "2")],
    );
}

#[test]
fn an_id_belongs_to_its_frame_unless_it_contains_a_nul() {
    check_ids("id: 1\ndata: a\n\ndata: b\n\n", &[Some("1"), None]);
    check_ids("id: 1\nid: 2\ndata: a\n\n", &[Some("2")]);
    check_ids("id\ndata: a\n\n", &[Some("")]);
    check_ids("id: 1\nid: a\0b\ndata: a\n\n", &[Some("1")]);
    check_ids("id: \0\ndata: a\n\n", &[None]);
    check_ids("data: a\nid: \u{2026}\n\n", &[Some("\u{2026}")]);
}

#[test]
fn frames_without_data_are_skipped() {
    check("id: 1\n\nevent: x\n\nretry: 10\n\n\n\n\n", &[]);
    check("retry: 1000\nretry:5000x\ndata: a\n\n", &["a"]);
    check("\n\n\ndata: a\n\n", &["a"]);
}

#[test]
fn characters_of_several_bytes_and_broken_ones_pass_unchanged() {
    check(
        "data: ok\u{2026} \u{1F600} \u{2028}\u{2029}\u{85}\n\n",
        &["ok\u{2026} \u{1F600} \u{2028}\u{2029}\u{85}"],
    );
    check(b"data: \xFF\xC3\n\n", &["\u{FFFD}\u{FFFD}"]);
    check("data: a\0b\x0Bc\x0Cd\n\n", &["a\0b\x0Bc\x0Cd"]);
}

#[test]
fn an_unfinished_frame_is_discarded_and_known() {
    for unfinished in
        ["data: a", "data: a\n", "data: a\r", "data", "event: x\n", ":", ": ping", "id: 1\n"]
    {
        let decoded = decode_at_every_cut(format!("data: x\n\n{unfinished}").as_bytes());
        assert_eq!(decoded.frames.len(), 1, "{unfinished:?}");
        assert!(decoded.mid_frame, "{unfinished:?}");
    }
    for finished in
        ["", "\n", "data: a\n\n", ": ping\n", "data: a\r\n\r", "data: a\r\n\r\n", "x: y\n"]
    {
        assert!(!decode_at_every_cut(finished.as_bytes()).mid_frame, "{finished:?}");
    }
    assert!(decode_at_every_cut(b"\xEF\xBB").mid_frame);
    assert!(!decode_at_every_cut(b"\xEF\xBB\xBF").mid_frame);
}

#[test]
fn an_error_field_is_a_frame_of_its_own_kind() {
    let decoded = decode_at_every_cut(b"data: a\n\nerror: {\"code\":500}\n\ndata: b\n\n");
    let fields: Vec<_> = decoded.frames.iter().map(|frame| (frame.0, frame.1.as_str())).collect();
    assert_eq!(fields, [(Field::Data, "a"), (Field::Error, "{\"code\":500}"), (Field::Data, "b")]);
    check("error: x\ndata: a\n\n", &["a"]);
}

#[test]
fn a_frame_in_one_chunk_is_borrowed_from_it() {
    let chunk = b"event: x\ndata: first\n\ndata: second\r\n\r\n".as_slice();
    let mut decoder = Decoder::new();
    let mut rest = chunk;
    for _ in 0..2 {
        let frame = decoder.next_frame(&mut rest).unwrap().unwrap();
        assert!(chunk.as_ptr_range().contains(&frame.data.as_ptr()));
    }
}

#[test]
fn the_limit_holds_and_the_decoder_stays_ended() {
    const MAX: usize = 64;
    #[track_caller]
    fn check(stream: &str, fits: bool) {
        for size in [1, 7, stream.len()] {
            let mut decoder = Decoder::with_frame_bytes_max(MAX);
            let outcome = stream.as_bytes().chunks(size).try_for_each(|mut chunk| {
                while decoder.next_frame(&mut chunk)?.is_some() {}
                Ok(())
            });
            assert_eq!(
                outcome,
                if fits { Ok(()) } else { Err(FrameTooLarge { bytes_max: MAX }) },
                "{stream:?} by {size}"
            );
            if !fits {
                assert!(decoder.next_frame(&mut &b"data: a\n\n"[..]).is_err(), "ended");
            }
        }
    }
    let line = |bytes: usize| format!("data: {}", "x".repeat(bytes - 6));
    check(&format!("{}\n\n", line(MAX)), true);
    check(&format!("{}\n\n", line(MAX + 1)), false);
    check(&line(MAX), true);
    check(&line(MAX + 1), false);
    check(&format!("{}\n{}\n\n", line(32), line(32)), true);
    check(&format!("{}\n{}\n\n", line(32), line(33)), false);
    check(&format!("event: {}\ndata: {}\n\n", "e".repeat(40), "x".repeat(40)), false);
    check(&format!("error: {}\nerror: {}\n\n", "e".repeat(40), "x".repeat(40)), false);
    check(&format!(":{}\n", "x".repeat(MAX)), false);
    // Ignored lines take no room, however many there are.
    check(&": ping\n".repeat(100), true);
    check(&format!("{}\n\n", line(MAX)).repeat(100), true);
}

#[test]
fn ten_megabytes_in_one_frame_are_no_more_than_a_copy() {
    let stream = format!("data: {}\n\n", "x".repeat(10_000_000));
    let mut decoder = Decoder::with_frame_bytes_max(usize::MAX);
    let found = decode(&mut decoder, stream.as_bytes().chunks(1000));
    assert_eq!(found.frames[0].1.len(), 10_000_000);
}

/// The standard's own algorithm, over the whole stream, with no concern for speed.
fn reference(stream: &[u8]) -> Vec<(Vec<u8>, Vec<u8>)> {
    let stream = stream.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(stream);
    let mut lines = vec![Vec::new()];
    let mut at = 0;
    while at < stream.len() {
        match stream[at] {
            b'\r' | b'\n' => {
                at += usize::from(stream[at..].starts_with(b"\r\n"));
                lines.push(Vec::new());
            }
            byte => lines.last_mut().unwrap().push(byte),
        }
        at += 1;
    }
    lines.pop();

    let (mut frames, mut data, mut event) = (Vec::new(), Vec::new(), Vec::new());
    for line in lines {
        if line.is_empty() {
            if data.pop().is_some() {
                frames.push((event.clone(), data.clone()));
            }
            data.clear();
            event.clear();
        }
        let mut parts = line.splitn(2, |byte| *byte == b':');
        let name = parts.next().unwrap();
        let value = parts.next().unwrap_or_default();
        let value = value.strip_prefix(b" ").unwrap_or(value);
        match name {
            b"data" => {
                data.extend_from_slice(value);
                data.push(b'\n');
            }
            b"event" => event = value.to_vec(),
            _ => {}
        }
    }
    frames
}

/// Streams made of the bytes that matter to the grammar.
fn streams() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        4 => prop::sample::select(vec!["\n", "\r", "\r\n", "\n\n", "\r\n\r\n"]).prop_map(|text| text.as_bytes().to_vec()),
        4 => prop::sample::select(vec!["data: ", "data:", "data", "event: ", "event", ": c", ":", " ", "a", "{\"b\":1}"]).prop_map(|text| text.as_bytes().to_vec()),
        1 => prop::sample::select(vec![b"\xEF".as_slice(), b"\xBB", b"\xBF", b"\xEF\xBB\xBF", b"\0"]).prop_map(<[u8]>::to_vec),
        1 => prop::collection::vec(any::<u8>(), 0..4),
    ];
    prop::collection::vec(piece, 0..40).prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn frames_are_those_of_the_reference_however_cut(stream in streams(), sizes in prop::collection::vec(1_usize..9, 1..8)) {
        let mut decoder = Decoder::new();
        let mut frames = Vec::new();
        let mut rest = stream.as_slice();
        let mut sizes = sizes.iter().cycle();
        while !rest.is_empty() {
            let (mut chunk, after) = rest.split_at(rest.len().min(*sizes.next().unwrap()));
            while let Some(frame) = decoder.next_frame(&mut chunk).unwrap() {
                if frame.field == Field::Data {
                    frames.push((frame.event.to_vec(), frame.data.to_vec()));
                }
            }
            rest = after;
        }
        prop_assert_eq!(frames, reference(&stream));
    }
}

#[test]
fn corpus_of_sse_decoder() {
    crate::corpus::replay("sse_decoder", super::fuzz::sse_decoder);
}

proptest! {
    #[test]
    fn the_fuzz_target_holds(input in prop::collection::vec(any::<u8>(), 0..200), stream in streams()) {
        super::fuzz::sse_decoder(&input);
        super::fuzz::sse_decoder(&[&[3, 1, 5, 2], stream.as_slice()].concat());
    }
}
