//! What a real llama.cpp server sent, replayed through both decoders and the
//! parser at every cut in their first and last frames. `tests/real_model/record.py` makes the recordings and tells their format.

use std::path::PathBuf;

use serde::Deserialize;
use tether::event::Usage;
use tether::parser::{Call, ErrorCode, Parser, Segment, Settings};
use tether::upstream::openai_chat::{self, FrameError};
use tether::upstream::server_error::ServerError;
use tether::upstream::{Delta, RoundFinish, sse};

const MARKER: &str = "<<function_call>>";

/// The sidecar of a recording.
#[derive(Deserialize)]
struct Recording {
    status: u16,
    cuts: Vec<usize>,
}

/// What a client is to know of a stream.
#[derive(Debug, Clone, Default, PartialEq)]
struct Answer {
    text: String,
    deltas: usize,
    /// What the parser makes of the text.
    pieces: Vec<Piece>,
    finish: Option<RoundFinish>,
    usage: Option<Usage>,
    error: Option<FrameError>,
    done: bool,
    mid_frame: bool,
}

/// A segment of the parser's; adjacent text is one.
#[derive(Debug, Clone, PartialEq)]
enum Piece {
    Text(String),
    Call(Call),
    Error(ErrorCode),
}

fn take(pieces: &mut Vec<Piece>, segment: Segment<'_>) {
    match segment {
        Segment::Text(more) => match pieces.last_mut() {
            Some(Piece::Text(text)) => text.push_str(more),
            _ => pieces.push(Piece::Text(more.to_owned())),
        },
        Segment::CallStarted { .. } => {}
        Segment::CallCompleted(call) => pieces.push(Piece::Call(call)),
        Segment::Error(error) => pieces.push(Piece::Error(error.code)),
        other => panic!("not asked for: {other:?}"),
    }
}

fn recording(name: &str) -> (Recording, Vec<u8>) {
    let data = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/data/upstream");
    let sidecar = std::fs::read(data.join(format!("{name}.json"))).expect("a sidecar");
    let body = std::fs::read(data.join(format!("{name}.body"))).expect("a body");
    (serde_json::from_slice(&sidecar).expect("a sidecar's fields"), body)
}

fn decode<'a>(chunks: impl IntoIterator<Item = &'a [u8]>) -> Answer {
    let mut frames = sse::Decoder::new();
    let mut chat = openai_chat::Decoder::new();
    let mut parser = Parser::new(Settings::default()).expect("the defaults are valid");
    let mut answer = Answer::default();
    for mut chunk in chunks {
        while let Some(frame) = frames.next_frame(&mut chunk).expect("within the limit") {
            let outcome = chat.decode(&frame, |delta| match delta {
                Delta::Text(text) => {
                    answer.text.push_str(text);
                    answer.deltas += 1;
                    parser.push_str(text, |segment| take(&mut answer.pieces, segment));
                }
                Delta::Finish(finish) => answer.finish = Some(finish),
                Delta::Usage(usage) => answer.usage = Some(usage),
                other => panic!("no reasoning model, no tools: {other:?}"),
            });
            if let Err(error) = outcome {
                answer.error = Some(error);
            }
        }
    }
    parser.finish(|segment| take(&mut answer.pieces, segment));
    answer.done = chat.is_done();
    answer.mid_frame = frames.is_mid_frame();
    answer
}

/// The pieces of a text that comes in two chunks.
fn parse_cut(text: &str, cut: usize) -> Vec<Piece> {
    let mut parser = Parser::new(Settings::default()).expect("the defaults are valid");
    let mut pieces = Vec::new();
    let (before, behind) = text.as_bytes().split_at(cut);
    parser.push(before, |segment| take(&mut pieces, segment));
    parser.push(behind, |segment| take(&mut pieces, segment));
    parser.finish(|segment| take(&mut pieces, segment));
    pieces
}

/// The answer of a recording, the same at every cut: of its bytes, and of the
/// text that they carry.
#[track_caller]
fn replay(name: &str) -> Answer {
    let (recording, body) = recording(name);
    assert_eq!(recording.status, 200, "{name}");
    let mut rest = body.as_slice();
    let as_recorded = recording.cuts.iter().map(|bytes| {
        let (chunk, behind) = rest.split_at(*bytes);
        rest = behind;
        chunk
    });
    let answer = decode(as_recorded);
    assert_eq!(decode(body.chunks(1)), answer, "{name} byte by byte");
    for cut in 0..=body.len() {
        let (before, behind) = body.split_at(cut);
        assert_eq!(decode([before, behind]), answer, "{name} cut at {cut}");
    }
    for cut in 0..=answer.text.len() {
        assert_eq!(parse_cut(&answer.text, cut), answer.pieces, "{name}: text cut at {cut}");
    }
    answer
}

/// An answer that ended well.
#[track_caller]
fn replay_well(name: &str, finish: RoundFinish) -> Answer {
    let answer = replay(name);
    assert_eq!(answer.finish, Some(finish), "{name}");
    assert_eq!(answer.error, None, "{name}");
    assert!(answer.done && !answer.mid_frame, "{name}");
    answer
}

#[test]
fn prose() {
    let answer = replay_well("prose", RoundFinish::Stop);
    assert_eq!(answer.text, "The capital of France is Paris.");
    let usage = answer.usage.unwrap();
    assert_eq!(usage.total_tokens, usage.prompt_tokens + usage.completion_tokens);
    assert_eq!(usage.completion_tokens, 8);
}

#[test]
fn characters_of_many_bytes() {
    let answer = replay_well("unicode", RoundFinish::Length);
    assert!(answer.text.contains("\u{1F469}\u{200D}\u{1F469}\u{200D}\u{1F467}"), "{}", answer.text);
    assert!(!answer.text.contains('\u{FFFD}'));
    assert_eq!(answer.pieces, [Piece::Text(answer.text)]);
}

#[test]
fn an_answer_without_usage() {
    assert_eq!(replay_well("no_usage", RoundFinish::Length).usage, None);
}

#[test]
fn an_answer_that_ran_into_the_token_limit() {
    let answer = replay_well("length", RoundFinish::Length);
    assert_eq!(answer.usage.unwrap().completion_tokens, 12);
}

#[test]
fn an_answer_that_met_a_stop_sequence() {
    assert!(!replay_well("stop", RoundFinish::Stop).text.contains('\n'));
}

/// The calls of an answer that has nothing else.
#[track_caller]
fn calls(name: &str) -> Vec<Call> {
    let pieces = replay_well(name, RoundFinish::Stop).pieces;
    let call = |piece| match piece {
        Piece::Call(call) => call,
        other => panic!("{name}: {other:?} beside calls"),
    };
    pieces.into_iter().map(call).collect()
}

#[test]
fn calls_held_by_the_grammar() {
    for (name, zone) in [("call_time", "Europe/Berlin"), ("call_time_zone", "America/New_York")] {
        let calls = calls(name);
        assert_eq!(calls.len(), 1, "{name}");
        assert_eq!(calls[0].name, "get_current_time");
        assert_eq!(calls[0].arguments.to_value()["timezone"], zone);
    }
    let calls = calls("call_calculate");
    assert_eq!(calls.len(), 1);
    assert_eq!(calls[0].name, "calculate");
    assert!(calls[0].arguments.to_value()["expression"].is_string());
}

#[test]
fn two_calls() {
    let calls = calls("two_calls");
    let names: Vec<_> = calls.iter().map(|call| call.name.as_str()).collect();
    assert_eq!(names, ["get_current_time", "calculate"]);
    assert_eq!(calls[1].arguments.to_value()["expression"], "12 * 7");
}

#[test]
fn a_call_that_was_cut_by_the_token_limit() {
    let answer = replay_well("call_cut", RoundFinish::Length);
    assert_eq!(answer.text, format!("{MARKER} {{\"name\": \"get_current_time"));
    assert_eq!(answer.pieces, [Piece::Error(ErrorCode::IncompletePayload)]);
}

#[test]
fn prose_beside_tools() {
    let answer = replay_well("prose_with_tools", RoundFinish::Stop);
    assert!(!answer.text.contains(MARKER));
    assert_eq!(answer.pieces, [Piece::Text(answer.text)]);
}

#[test]
fn an_error_in_the_middle_of_an_answer() {
    let answer = replay("error_inside");
    let Some(FrameError::Server(error)) = answer.error else { panic!("{answer:?}") };
    assert_eq!(error.code.as_deref(), Some("server_error"));
    assert!(error.message.contains("Unexpected empty grammar stack"), "{error}");
    assert!(!answer.done, "the server sends no [DONE] behind an error");
}

#[test]
fn a_stream_that_was_left_in_the_middle() {
    let answer = replay("disconnect");
    assert!(!answer.text.is_empty());
    assert_eq!((answer.finish, answer.done), (None, false));
}

#[test]
fn errors_before_the_stream() {
    for (name, code) in
        [("error_grammar", "invalid_request_error"), ("error_context", "exceed_context_size_error")]
    {
        let (recording, body) = recording(name);
        assert_eq!(recording.status, 400);
        assert_eq!(ServerError::from_body(&body).code.as_deref(), Some(code));
    }
    assert!(ServerError::from_body(&recording("error_context").1).is_context_overflow());
}
