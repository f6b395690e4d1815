//! The parser's allocations, counted for the thread that runs it.

use allocation_counter::{AllocationInfo, measure};
use tether::parser::{Parser, Segment, Settings};

/// How chunks are passed to the parser: all as bytes, or as text if they are valid text.
#[derive(Debug, Clone, Copy, PartialEq)]
enum How {
    Bytes,
    Text,
}

/// Measures reading `input` in chunks of `length`, without the creation of the parser.
fn cost(settings: &Settings, input: &[u8], length: usize, how: How) -> AllocationInfo {
    let mut parser = Parser::new(settings.clone()).expect("valid settings");
    let mut said = 0;
    let mut take = |segment: Segment<'_>| match segment {
        Segment::Text(text) | Segment::Reasoning(text) => said += text.len(),
        _ => {}
    };
    measure(|| {
        for chunk in input.chunks(length) {
            match std::str::from_utf8(chunk) {
                Ok(text) if how == How::Text => parser.push_str(text, &mut take),
                _ => parser.push(chunk, &mut take),
            }
        }
        parser.finish(&mut take);
    })
}

#[test]
fn text_costs_no_allocation() {
    let texts: [&[u8]; 5] = [
        "Words, naïve ones, and 日本語 🦀. ".as_bytes(),
        b"if a < b << c { <<function_call> <div></div> <thin",
        b"<think>Reasons < </thin </think>Answers",
        b"\xff\xe2\x82<\xf0\x9f\xa6\x80\xe2",
        b"{\"name\": [1, 2]} `x`",
    ];
    for text in texts {
        let input = text.repeat(200);
        for length in [1, 2, 3, 4, 5, 64, 1000, input.len()] {
            for how in [How::Bytes, How::Text] {
                let cost = cost(&Settings::default(), &input, length, how);
                let text = String::from_utf8_lossy(text);
                assert_eq!(cost.count_total, 0, "{text:?} by {length} as {how:?}");
            }
        }
    }
}

#[test]
fn the_counter_counts() {
    let marker = b"a <<function_call>> b";
    assert!(
        cost(&Settings::default(), marker, 4, How::Text).count_total > 0,
        "an error is said in words"
    );
}

#[test]
fn a_call_costs_three_allocations() {
    let calls = |count: usize| {
        let call = r#"Text. <<function_call>> {"name": "get_weather", "arguments": {"city": "Oslo", "note": "a \"b\" {c}"}}"#;
        (call.to_owned() + "\n").repeat(count)
    };
    let feed = |count: usize, length: usize| {
        let mut parser = Parser::new(Settings::default()).expect("valid settings");
        let input = calls(count);
        let mut completed = 0;
        let cost = measure(|| {
            for chunk in input.as_bytes().chunks(length) {
                parser.push(chunk, |segment| {
                    completed += usize::from(matches!(segment, Segment::CallCompleted(_)));
                });
            }
        });
        assert_eq!(completed, count);
        cost.count_total
    };
    for length in [1, 3, 64, 4096] {
        // The first call allocates the buffer.
        let per_call = feed(101, length) - feed(1, length);
        assert!(per_call <= 300, "{per_call} for a hundred calls in chunks of {length}");
    }
}

#[test]
fn memory_is_bounded_for_any_input() {
    let most = 4096;
    let settings = Settings { max_payload_bytes: most, ..Settings::default() };
    let endless: [(&[u8], &[u8]); 5] = [
        (b"<<function_call>>{\"a\":\"", b"xyz"),
        (b"<<function_call>>", b"["),
        (b"<<function_call>>", b" "),
        (b"", b"<<function_call>>{"),
        (b"<think>", b"<<function_call>>"),
    ];
    for (begin, more) in endless {
        let input = [begin, &more.repeat(100_000)].concat();
        for length in [1, 7, 4096] {
            let cost = cost(&settings, &input, length, How::Bytes);
            let bound = 2 * most as u64 + 8192;
            assert!(cost.bytes_max <= bound, "{} bytes for {more:?} by {length}", cost.bytes_max);
        }
    }
}
