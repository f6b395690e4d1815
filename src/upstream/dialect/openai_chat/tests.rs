//! Frames as real servers write them, and a comparison of memo and parser.

use proptest::prelude::*;

use super::Decoder;
use crate::event::Usage;
use crate::upstream::FrameError;
use crate::upstream::dialect::Decode as _;
use crate::upstream::sse::{Field, Frame};
use crate::upstream::{Delta, RoundFinish};

#[derive(Debug, Clone, PartialEq)]
enum Said {
    Text(String),
    Reasoning(String),
    CallStarted(u32),
    CallArguments(u32, String),
    CallCompleted(u32, String, String),
    Finish(RoundFinish),
    Usage(u64, u64, u64),
}

impl From<Delta<'_>> for Said {
    fn from(delta: Delta<'_>) -> Self {
        match delta {
            Delta::Text(text) => Self::Text(text.to_owned()),
            Delta::Reasoning(text) => Self::Reasoning(text.to_owned()),
            Delta::CallStarted { index } => Self::CallStarted(index),
            Delta::CallArguments { index, json } => Self::CallArguments(index, json.to_owned()),
            Delta::CallCompleted { index, name, arguments } => {
                Self::CallCompleted(index, name.to_owned(), arguments.to_owned())
            }
            Delta::ReasoningItem(_) => unreachable!("this dialect has none"),
            Delta::Finish(finish) => Self::Finish(finish),
            Delta::Usage(Usage { prompt_tokens, completion_tokens, total_tokens }) => {
                Self::Usage(prompt_tokens, completion_tokens, total_tokens)
            }
        }
    }
}

fn data(data: &[u8]) -> Frame<'_> {
    Frame { field: Field::Data, data, event: b"", id: None }
}

fn decode(decoder: &mut Decoder, frame: &[u8]) -> (Result<(), FrameError>, Vec<Said>) {
    let mut said = Vec::new();
    let outcome = decoder.decode(&data(frame), &mut |delta| said.push(delta.into()));
    (outcome, said)
}

/// Checks the deltas of a frame: parsed, and again with its shape remembered.
#[track_caller]
fn check(frame: impl AsRef<[u8]>, expected: &[Said]) {
    let frame = frame.as_ref();
    let mut decoder = Decoder::new();
    for round in ["parsed", "remembered"] {
        let (outcome, said) = decode(&mut decoder, frame);
        assert_eq!(outcome, Ok(()), "{round}");
        assert_eq!(said, expected, "{round}");
    }
}

fn text(text: &str) -> Said {
    Said::Text(text.to_owned())
}

fn reasoning(text: &str) -> Said {
    Said::Reasoning(text.to_owned())
}

#[test]
fn text_is_read_from_the_chunks_of_every_server() {
    // llama.cpp: the first chunk has a role and null, the others have content.
    check(
        r#"{"choices":[{"finish_reason":null,"index":0,"delta":{"role":"assistant","content":null}}],"created":1,"id":"chatcmpl-a","model":"m","object":"chat.completion.chunk"}"#,
        &[],
    );
    check(
        r#"{"choices":[{"finish_reason":null,"index":0,"delta":{"content":" Hi"}}],"created":1,"id":"chatcmpl-a","model":"m","object":"chat.completion.chunk"}"#,
        &[text(" Hi")],
    );
    // vLLM
    check(
        r#"{"id":"chatcmpl-a","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"content":"Hi"},"logprobs":null,"finish_reason":null}],"usage":null}"#,
        &[text("Hi")],
    );
    check(
        r#"{"id":"a","choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}]}"#,
        &[],
    );
    // Ollama
    check(
        r#"{"id":"chatcmpl-1","choices":[{"index":0,"delta":{"role":"assistant","content":"","reasoning":"Hm"},"finish_reason":null}]}"#,
        &[reasoning("Hm")],
    );
}

#[test]
fn escapes_are_taken_out() {
    check(
        r#"{"choices":[{"delta":{"content":"a\n\"b\" \u00e9 \ud83d\ude00"}}]}"#,
        &[text("a\n\"b\" \u{e9} \u{1F600}")],
    );
    // A key may contain escapes, too.
    check(r#"{"choices":[{"delta":{"c\u006fntent":"a"}}]}"#, &[text("a")]);
}

/// Checks the deltas of frames that follow each other.
#[track_caller]
fn check_stream(deltas: &[&str], expected: &[Said]) {
    for mut decoder in [Decoder::new(), Decoder::without_memo()] {
        let mut said = Vec::new();
        for delta in deltas {
            let (outcome, more) =
                decode(&mut decoder, format!(r#"{{"choices":[{delta}]}}"#).as_bytes());
            assert_eq!(outcome, Ok(()), "{delta}");
            said.extend(more);
        }
        assert_eq!(said, expected, "{deltas:?}");
    }
}

/// As by servers whose strings are UTF-16.
#[test]
fn a_character_may_be_split_between_two_frames() {
    let first = r#"{"delta":{"content":"a\ud83d"}}"#;
    let second = r#"{"delta":{"content":"\ude00b"}}"#;
    check_stream(
        &[first, second, first, second],
        &[text("a"), text("\u{1F600}b"), text("a"), text("\u{1F600}b")],
    );
    let thought = r#"{"delta":{"reasoning":"c\ud83d"}}"#;
    let cut = text("\u{FFFD}");
    check_stream(&[thought, second], &[reasoning("c"), reasoning("\u{FFFD}"), text("\u{FFFD}b")]);
    let stop = r#"{"delta":{},"finish_reason":"stop"}"#;
    check_stream(&[first, stop], &[text("a"), cut.clone(), Said::Finish(RoundFinish::Stop)]);
    let call = r#"{"delta":{"tool_calls":[{"index":0,"function":{"name":"f"}}]}}"#;
    check_stream(&[first, call], &[text("a"), cut, Said::CallStarted(0)]);
}

#[test]
fn invalid_text_is_replaced_and_the_turn_continues() {
    check(br#"{"choices":[{"delta":{"content":"a\ud83d b"}}]}"#, &[text("a\u{FFFD} b")]);
    check(b"{\"choices\":[{\"delta\":{\"content\":\"a\xFFb\"}}]}", &[text("a\u{FFFD}b")]);
}

#[test]
fn reasoning_is_read_under_both_names_and_before_text() {
    check(
        r#"{"choices":[{"delta":{"content":null,"reasoning_content":"Hm"}}]}"#,
        &[reasoning("Hm")],
    );
    check(r#"{"choices":[{"delta":{"reasoning":"Hm"}}]}"#, &[reasoning("Hm")]);
    check(
        r#"{"choices":[{"delta":{"content":"So","reasoning_content":"Hm"}}]}"#,
        &[reasoning("Hm"), text("So")],
    );
    check(
        r#"{"choices":[{"delta":{"reasoning_content":"Hm","reasoning":"Hm"}}]}"#,
        &[reasoning("Hm")],
    );
    check(
        r#"{"choices":[{"delta":{"reasoning_content":"","reasoning":"Hm"}}]}"#,
        &[reasoning("Hm")],
    );
}

/// Of Mistral's API.
#[test]
fn words_in_a_list_of_parts_are_read() {
    let frame = |delta: &str| format!(r#"{{"choices":[{{"index":0,"delta":{delta}}}]}}"#);
    check(
        frame(
            r#"{"content":[{"type":"thinking","thinking":[{"type":"text","text":"Hm"},{"type":"text","text":"."}],"closed":true},{"type":"text","text":"Hi"},{"type":"reference","reference_ids":[1]}]}"#,
        ),
        &[reasoning("Hm"), reasoning("."), text("Hi")],
    );
    check(frame(r#"{"content":[{"type":"thinking","thinking":"Hm"}]}"#), &[reasoning("Hm")]);
    check(frame(r#"{"content":[]}"#), &[]);
}

#[test]
fn the_end_is_read() {
    for (word, finish) in [
        ("stop", RoundFinish::Stop),
        ("length", RoundFinish::Length),
        ("model_length", RoundFinish::Length),
        ("tool_calls", RoundFinish::ToolCalls),
        ("function_call", RoundFinish::ToolCalls),
        ("content_filter", RoundFinish::ContentFilter),
        ("eos_token", RoundFinish::Other),
    ] {
        check(
            format!(r#"{{"choices":[{{"index":0,"delta":{{}},"finish_reason":"{word}"}}]}}"#),
            &[Said::Finish(finish)],
        );
    }
    for word in [
        "error",
        "abort",
        "aborted",
        "preempt",
        "cancelled",
        "canceled",
        "network_error",
        "insufficient_system_resource",
    ] {
        let frame = format!(r#"{{"choices":[{{"delta":{{}},"finish_reason":"{word}"}}]}}"#);
        let (outcome, deltas) = decode(&mut Decoder::default(), frame.as_bytes());
        assert!(matches!(outcome, Err(FrameError::Server(_))) && deltas.is_empty(), "{word}");
    }
    check(
        r#"{"choices":[{"delta":{"content":"."},"finish_reason":"stop"}]}"#,
        &[text("."), Said::Finish(RoundFinish::Stop)],
    );
    // Not an end: some servers put an empty reason into every chunk.
    check(r#"{"choices":[{"delta":{"content":"."},"finish_reason":""}]}"#, &[text(".")]);
    check(
        r#"{"choices":[{"delta":null,"finish_reason":"stop"}]}"#,
        &[Said::Finish(RoundFinish::Stop)],
    );
}

#[test]
fn a_finish_reason_and_the_last_frame_are_remembered() {
    let mut decoder = Decoder::new();
    let mut states = Vec::new();
    for frame in [
        r#"{"choices":[{"delta":{"content":"a"},"finish_reason":null}]}"#,
        r#"{"choices":[{"delta":{},"finish_reason":"stop"}]}"#,
        r#"{"choices":[],"usage":{}}"#,
        " [DONE]",
    ] {
        decode(&mut decoder, frame.as_bytes()).0.unwrap();
        states.push((decoder.is_finished(), decoder.is_done()));
    }
    assert_eq!(states, [(false, false), (true, false), (true, false), (true, true)]);
}

#[test]
fn usage_is_read_with_and_without_choices() {
    let usage = Said::Usage(4, 2, 6);
    check(
        r#"{"choices":[],"usage":{"prompt_tokens":4,"completion_tokens":2,"total_tokens":6,"prompt_tokens_details":{"cached_tokens":1}}}"#,
        std::slice::from_ref(&usage),
    );
    check(
        r#"{"choices":null,"usage":{"prompt_tokens":4,"completion_tokens":2,"total_tokens":6}}"#,
        std::slice::from_ref(&usage),
    );
    check(
        r#"{"choices":[{"delta":{"content":"a"}}],"usage":{"prompt_tokens":4,"completion_tokens":2,"total_tokens":6}}"#,
        &[text("a"), usage],
    );
    check(r#"{"choices":[{"delta":{"content":"a"}}],"usage":null}"#, &[text("a")]);
    // An invalid count ends neither the turn nor the other counts.
    check(r#"{"choices":[],"usage":{"prompt_tokens":-1}}"#, &[]);
    check(
        r#"{"choices":[],"usage":{"prompt_tokens":4.0,"completion_tokens":null,"total_tokens":"6"}}"#,
        &[Said::Usage(4, 0, 6)],
    );
}

#[test]
fn only_the_first_choice_is_read() {
    check(
        r#"{"choices":[{"index":"1","delta":{"content":"b"}},{"index":0.0,"delta":{"content":"a"}}]}"#,
        &[text("a")],
    );
    check(
        r#"{"choices":[{"index":1,"delta":{"content":"b"}},{"index":0,"delta":{"content":"a"}}]}"#,
        &[text("a")],
    );
    check(
        r#"{"choices":[{"index":0,"delta":{"content":"a"}},{"index":1,"delta":{"content":"b"}}]}"#,
        &[text("a")],
    );
    check(r#"{"choices":[{"index":1,"delta":{"content":"b"},"finish_reason":"stop"}]}"#, &[]);
    check(r#"{"choices":[{"index":null,"delta":{"content":"a"}}]}"#, &[text("a")]);
}

#[test]
fn unknown_fields_are_skipped() {
    check(
        r#"{"choices":[{"delta":{"content":"a","function_call":{"name":"f"},"x":{"content":"no"}},"logprobs":{"content":[]}}],"timings":{"a":1.5},"obfuscation":"xx"}"#,
        &[text("a")],
    );
    check(r#"{"prompt_progress":{"total":4}}"#, &[]);
    check("{}", &[]);
    check("", &[]);
    check(r#"{"choices":[{}]}"#, &[]);
}

#[test]
fn errors_inside_the_stream_are_errors() {
    #[track_caller]
    fn check(frame: &str, code: Option<&str>, message: &str) {
        let (outcome, deltas) = decode(&mut Decoder::new(), frame.as_bytes());
        let Err(FrameError::Server(error)) = outcome else { panic!("{frame}: {outcome:?}") };
        assert_eq!((error.code.as_deref(), &*error.message), (code, message), "{frame}");
        assert!(deltas.is_empty(), "{frame}: {deltas:?}");
    }
    check(
        r#"{"error":{"code":500,"message":"context shift is disabled","type":"server_error"}}"#,
        Some("server_error"),
        "context shift is disabled",
    );
    check(
        r#"{"error":{"message":"EngineCore died","type":"InternalServerError","param":null,"code":500}}"#,
        Some("InternalServerError"),
        "EngineCore died",
    );
    check(
        r#"{"error":"an error was encountered while running the model"}"#,
        None,
        "an error was encountered while running the model",
    );
    check(
        r#"{"object":"error","message":"bad","type":"BadRequestError","code":400}"#,
        Some("BadRequestError"),
        "bad",
    );
    check(
        r#"{"choices":[{"delta":{"content":"a"}}],"error":{"message":"late","code":502}}"#,
        Some("502"),
        "late",
    );
}

#[test]
fn no_error_is_no_error() {
    for none in ["null", "\"\"", "false", "{}"] {
        let frame = format!(r#"{{"choices":[{{"delta":{{"content":"a"}}}}],"error":{none}}}"#);
        check(frame, &[text("a")]);
    }
}

#[test]
fn a_refusal_is_the_answer() {
    check(r#"{"choices":[{"delta":{"refusal":"No."}}]}"#, &[text("No.")]);
    check(r#"{"choices":[{"delta":{"content":null,"refusal":"No."}}]}"#, &[text("No.")]);
    check(r#"{"choices":[{"delta":{"content":"","refusal":"No."}}]}"#, &[text("No.")]);
    check(r#"{"choices":[{"delta":{"content":"Yes.","refusal":null}}]}"#, &[text("Yes.")]);
}

#[test]
fn an_error_field_of_the_stream_is_an_error() {
    let frame = Frame {
        field: Field::Error,
        ..data(br#"{"code":500,"message":"bad","type":"server_error"}"#)
    };
    let decoded = Decoder::new().decode(&frame, &mut |_| {});
    let Err(FrameError::Server(error)) = decoded else { panic!("{decoded:?}") };
    assert_eq!((error.code.as_deref(), &*error.message), (Some("server_error"), "bad"));
}

#[test]
fn frames_that_are_not_chunks_are_malformed() {
    for frame in [
        "nonsense",
        "{",
        "[]",
        r#"{"choices":[{"delta":{"content":"a"}}]"#,
        r#"{"choices":7}"#,
        r#"{"choices":[{"delta":{"content":["a"]}}]}"#,
        r#"{"choices":[{"delta":{"content":"a"}}]} {}"#,
    ] {
        assert_eq!(
            decode(&mut Decoder::new(), frame.as_bytes()).0,
            Err(FrameError::Malformed),
            "{frame}"
        );
    }
}

#[test]
fn a_frame_that_only_looks_like_the_one_before_is_parsed() {
    let mut decoder = Decoder::new();
    let first = r#"{"choices":[{"delta":{"content":"a"}}]}"#;
    assert_eq!(decode(&mut decoder, first.as_bytes()).1, [text("a")]);
    // The same start and end, with more than a string between them.
    let more = r#"{"choices":[{"delta":{"content":"b","reasoning":"c"}}]}"#;
    assert_eq!(decode(&mut decoder, more.as_bytes()).1, [reasoning("c"), text("b")]);
    let escaped = r#"{"choices":[{"delta":{"content":"b\"}}]}"#;
    assert_eq!(decode(&mut decoder, escaped.as_bytes()).0, Err(FrameError::Malformed));
    let control = "{\"choices\":[{\"delta\":{\"content\":\"b\n\"}}]}";
    assert_eq!(decode(&mut decoder, control.as_bytes()).0, Err(FrameError::Malformed));
    // Start and end overlap.
    assert_eq!(
        decode(&mut decoder, br#"{"choices":[{"delta":{"content":"}}]}"#).0,
        Err(FrameError::Malformed)
    );
}

#[test]
fn text_without_escapes_is_borrowed_from_the_frame() {
    let frame = br#"{"choices":[{"delta":{"content":"caf\u00e9"}}]}"#;
    let plain = "{\"choices\":[{\"delta\":{\"content\":\"caf\u{e9}\"}}]}".as_bytes();
    let mut decoder = Decoder::new();
    for (frame, borrowed) in [(plain, true), (plain, true), (frame, false), (frame, false)] {
        decoder
            .decode(&data(frame), &mut |delta| {
                let Delta::Text(text) = delta else { panic!("text") };
                assert_eq!(frame.as_ptr_range().contains(&text.as_ptr()), borrowed);
            })
            .unwrap();
    }
}

/// Frames of a few shapes, with strings that strain the JSON rules.
fn frames() -> impl Strategy<Value = Vec<u8>> {
    let shape = prop::sample::select(vec![
        (r#"{"choices":[{"index":0,"delta":{"content":""#, r#""}}]}"#),
        (
            r#"{"choices":[{"index":0,"delta":{"content":""#,
            r#""},"finish_reason":null}],"usage":null}"#,
        ),
        (r#"{"choices":[{"index":0,"delta":{"content":"a"},"finish_reason":""#, r#""}]}"#),
        (r#"{"choices":[{"index":0,"delta":{"reasoning_content":""#, r#""}}]}"#),
        (r#"{"choices":[{"index":0,"delta":{"reasoning_content":""#, r#"","reasoning":"b"}}]}"#),
        (r#"{"choices":[{"index":0,"delta":{"reasoning":""#, r#"","content":""}}]}"#),
        (r#"{"choices":[{"index":0,"delta":{"reasoning":"","content":""#, r#""}}]}"#),
        (r#"{"choices":[{"index":1,"delta":{"content":""#, r#""}}]}"#),
        (r#"{"choices":[{"index":0,"delta":{"content":null,"refusal":""#, r#""}}]}"#),
        (
            r#"{"choices":[{"index":0,"delta":{"content":"a"}},{"index":1,"delta":{"content":""#,
            r#""}}]}"#,
        ),
        (r#"{"id":""#, r#"","choices":[{"index":0,"delta":{"content":"a"}}]}"#),
        (r#"{"choices":[{"delta":{"content":"a"}}],"error":""#, r#""}"#),
    ]);
    let piece = prop_oneof![
        4 => "[ a-z]{0,3}".prop_map(String::into_bytes),
        2 => any::<char>().prop_map(|character| character.to_string().into_bytes()),
        2 => prop::sample::select(vec![r"\n", r#"\""#, r"\\", r"\u00e9", r"\ud83d\ude00", r"\ud83d", "stop"]).prop_map(|text| text.as_bytes().to_vec()),
        1 => prop::sample::select(vec!["\"", r"\", "\n", r#"","content":""#, r#""},"delta":{"content":""#]).prop_map(|text| text.as_bytes().to_vec()),
        1 => prop::collection::vec(any::<u8>(), 0..2),
    ];
    (shape, prop::collection::vec(piece, 0..3)).prop_map(|((before, after), pieces)| {
        [before.as_bytes(), &pieces.concat(), after.as_bytes()].concat()
    })
}

/// Realistic streams: a shape that mostly stays the same, with occasional damage.
fn streams() -> impl Strategy<Value = Vec<Vec<u8>>> {
    let damaged =
        (frames(), any::<prop::sample::Index>(), any::<u8>()).prop_map(|(mut frame, at, byte)| {
            let at = at.index(frame.len());
            frame[at] = byte;
            frame
        });
    prop::collection::vec(prop_oneof![6 => frames(), 1 => damaged], 1..30)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1024))]
    #[test]
    fn the_memo_never_changes_the_result(stream in streams()) {
        let (mut with, mut without) = (Decoder::new(), Decoder::without_memo());
        for frame in &stream {
            prop_assert_eq!(decode(&mut with, frame), decode(&mut without, frame), "{}", String::from_utf8_lossy(frame));
        }
    }
}

#[test]
fn native_calls_are_reported_as_they_arrive() {
    let mut decoder = Decoder::new();
    let mut said = Vec::new();
    for frame in [
        // vLLM: the name first, then the arguments in pieces.
        r#"{"choices":[{"index":0,"delta":{"content":"So. "}}]}"#,
        r#"{"choices":[{"index":0,"delta":{"tool_calls":[{"id":"a","type":"function","index":0,"function":{"name":"f","arguments":""}}]}}]}"#,
        r#"{"choices":[{"index":0,"delta":{"content":null,"tool_calls":[{"index":0,"function":{"arguments":"{\"x\""}}]}}]}"#,
        r#"{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":":1}"}}]}}]}"#,
        // Ollama: a call in one piece, together with text.
        r#"{"choices":[{"index":0,"delta":{"content":"And. ","tool_calls":[{"index":1,"id":"b","function":{"name":"g","arguments":"{"}}]}}]}"#,
        r#"{"choices":[{"index":0,"delta":{"content":"","tool_calls":[]},"finish_reason":"length"}]}"#,
    ] {
        let (outcome, deltas) = decode(&mut decoder, frame.as_bytes());
        assert_eq!(outcome, Ok(()), "{frame}");
        said.extend(deltas);
    }
    let arguments = |index, json: &str| Said::CallArguments(index, json.to_owned());
    let completed = |index, name: &str, json: &str| {
        Said::CallCompleted(index, name.to_owned(), json.to_owned())
    };
    assert_eq!(
        said,
        [
            text("So. "),
            Said::CallStarted(0),
            arguments(0, "{\"x\""),
            arguments(0, ":1}"),
            completed(0, "f", "{\"x\":1}"),
            text("And. "),
            Said::CallStarted(1),
            arguments(1, "{"),
            Said::Finish(RoundFinish::Length),
            // Cut off, and reported after the finish.
            completed(1, "g", "{"),
        ]
    );
}

#[test]
fn an_invalid_list_of_calls_is_malformed() {
    for calls in ["7", "[7]", "[[0]]", "\"f\"", r#"{"a":1"#] {
        let frame = format!(r#"{{"choices":[{{"delta":{{"tool_calls":{calls}}}}}]}}"#);
        let (outcome, said) = decode(&mut Decoder::new(), frame.as_bytes());
        assert_eq!((outcome, said), (Err(FrameError::Malformed), Vec::new()), "{calls}");
    }
    for nothing in ["null", "[]", "{}", "\"\""] {
        check(format!(r#"{{"choices":[{{"delta":{{"tool_calls":{nothing}}}}}]}}"#), &[]);
    }
    // One call without a list around it.
    let call = r#"{"choices":[{"delta":{"tool_calls":{"function":{"name":"f","arguments":{}}}}}]}"#;
    assert_eq!(decode(&mut Decoder::new(), call.as_bytes()), (Ok(()), vec![Said::CallStarted(0)]));
}
