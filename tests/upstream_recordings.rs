//! Streams of a real llama.cpp server, replayed through the decoders and the parser at every
//! cut. `tests/real_model/record.py` makes the recordings and documents their format.

use std::path::PathBuf;

use serde::Deserialize;
use serde_json::{Value, json};
use tether::event::Usage;
use tether::parser::{ErrorCode, ParsedCall, Parser, Segment, Settings};
use tether::upstream::dialect::{Decode, Kind, Options};
use tether::upstream::server_error::ServerError;
use tether::upstream::{ChatRequest, Delta, FrameError, RoundFinish, sse};

const MARKER: &str = "<<function_call>>";

/// The sidecar of a recording.
#[derive(Deserialize)]
struct Recording {
    path: String,
    request: Request,
    status: u16,
    cuts: Vec<usize>,
}

/// The part of a request that reading its answer depends on.
#[derive(Deserialize)]
struct Request {
    #[serde(default)]
    max_output_tokens: Option<u32>,
}

/// The decoder for the API of a recording.
fn decoder_of(recording: &Recording) -> Box<dyn Decode> {
    // Some errors are recorded from other paths; servers answer them like Chat Completions.
    let kind = match recording.path.as_str() {
        "/v1/responses" => Kind::OpenaiResponses,
        _ => Kind::OpenaiChat,
    };
    let mut request = ChatRequest::default();
    request.sampling.max_tokens = recording.request.max_output_tokens;
    kind.dialect(Options::default()).decoder(&request)
}

/// What a client needs to know of a stream.
#[derive(Debug, Clone, Default, PartialEq)]
struct Answer {
    text: String,
    deltas: usize,
    /// The parser's segments of the text.
    pieces: Vec<Piece>,
    reasoning: String,
    /// Reasoning items, as they go back to the server.
    items: Vec<Value>,
    /// Calls that the server separated: the arguments reported for each, and the completed
    /// calls by name and arguments.
    arguments: Vec<String>,
    native_calls: Vec<(String, String)>,
    finish: Option<RoundFinish>,
    usage: Option<Usage>,
    error: Option<FrameError>,
    done: bool,
    mid_frame: bool,
}

/// A segment of the parser, with adjacent text joined.
#[derive(Debug, Clone, PartialEq)]
enum Piece {
    Text(String),
    Call(ParsedCall),
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

impl Answer {
    fn take(&mut self, delta: Delta<'_>, parser: &mut Parser) {
        match delta {
            Delta::Text(text) => {
                self.text.push_str(text);
                self.deltas += 1;
                parser.push_str(text, |segment| take(&mut self.pieces, segment));
            }
            Delta::Reasoning(text) => self.reasoning.push_str(text),
            Delta::ReasoningItem(json) => {
                self.items.push(serde_json::from_str(json).expect("an item is JSON"));
            }
            Delta::CallStarted { index } => {
                assert_eq!(index as usize, self.arguments.len());
                self.arguments.push(String::new());
            }
            Delta::CallArguments { index, json } => self.arguments[index as usize].push_str(json),
            Delta::CallCompleted { index, name, arguments } => {
                assert_eq!(index as usize, self.native_calls.len(), "in their order");
                assert_eq!(self.arguments[index as usize], arguments);
                self.native_calls.push((name.to_owned(), arguments.to_owned()));
            }
            Delta::Finish(finish) => self.finish = Some(finish),
            Delta::Usage(usage) => self.usage = Some(usage),
        }
    }
}

fn decode<'a>(recording: &Recording, chunks: impl IntoIterator<Item = &'a [u8]>) -> Answer {
    let mut frames = sse::Decoder::new();
    let mut events = decoder_of(recording);
    let mut parser = Parser::new(Settings::default()).expect("the defaults are valid");
    let mut answer = Answer::default();
    for mut chunk in chunks {
        while let Some(frame) = frames.next_frame(&mut chunk).expect("within the limit") {
            let outcome = events.decode(&frame, &mut |delta| answer.take(delta, &mut parser));
            if let Err(error) = outcome {
                answer.error = Some(error);
            }
        }
    }
    parser.finish(|segment| take(&mut answer.pieces, segment));
    answer.done = events.is_done();
    answer.mid_frame = frames.is_mid_frame();
    answer
}

/// The pieces of a text that comes in two chunks.
fn parse_cut(text: &str, cut: usize) -> Vec<Piece> {
    let mut parser = Parser::new(Settings::default()).expect("the defaults are valid");
    let mut pieces = Vec::new();
    let (before, after) = text.as_bytes().split_at(cut);
    parser.push(before, |segment| take(&mut pieces, segment));
    parser.push(after, |segment| take(&mut pieces, segment));
    parser.finish(|segment| take(&mut pieces, segment));
    pieces
}

/// The answer of a recording, which must be the same at every cut, both of its bytes and of the
/// text in them.
#[track_caller]
fn replay(name: &str) -> Answer {
    let (recording, body) = recording(name);
    assert_eq!(recording.status, 200, "{name}");
    let mut rest = body.as_slice();
    let as_recorded = recording.cuts.iter().map(|bytes| {
        let (chunk, after) = rest.split_at(*bytes);
        rest = after;
        chunk
    });
    let answer = decode(&recording, as_recorded);
    assert_eq!(decode(&recording, body.chunks(1)), answer, "{name} byte by byte");
    for cut in 0..=body.len() {
        let (before, after) = body.split_at(cut);
        assert_eq!(decode(&recording, [before, after]), answer, "{name} cut at {cut}");
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

/// The recordings of this name over both APIs.
fn over_both(name: &str) -> [String; 2] {
    ["chat", "responses"].map(|api| format!("{api}_native_{name}"))
}

const BERLIN: (&str, &str) = ("get_current_time", "{\"timezone\": \"Europe/Berlin\"}");

#[track_caller]
fn check_native_calls(answer: &Answer, expected: &[(&str, &str)]) {
    let found: Vec<_> =
        answer.native_calls.iter().map(|(name, json)| (name.as_str(), json.as_str())).collect();
    assert_eq!(found, expected);
}

#[test]
fn a_call_that_the_server_parsed() {
    for name in over_both("call") {
        let answer = replay_well(&name, RoundFinish::ToolCalls);
        check_native_calls(&answer, &[BERLIN]);
        assert_eq!(answer.text, "");
        let usage = answer.usage.unwrap();
        assert_eq!((usage.prompt_tokens, usage.completion_tokens), (765, 37));
    }
}

/// Over the Responses API, both are done only at the end, and only their ids tell them apart.
#[test]
fn two_calls_that_the_server_parsed() {
    for name in over_both("calls") {
        let answer = replay_well(&name, RoundFinish::ToolCalls);
        check_native_calls(&answer, &[BERLIN, ("calculate", "{\"expression\": \"6*7\"}")]);
    }
}

#[test]
fn reasoning_before_a_call() {
    for (name, items) in over_both("reasoning").iter().zip([0, 1]) {
        let answer = replay_well(name, RoundFinish::ToolCalls);
        check_native_calls(&answer, &[BERLIN]);
        assert_eq!(answer.reasoning, "I look at the clock of Berlin.\n", "{name}");
        assert_eq!(answer.items.len(), items, "{name}");
        for item in answer.items {
            assert_eq!(
                (&item["type"], &item["content"][0]["text"]),
                (&json!("reasoning"), &json!(answer.reasoning))
            );
        }
    }
}

/// Over the Responses API, this server says that the response is complete.
#[test]
fn a_native_call_that_was_cut_by_the_token_limit() {
    for name in over_both("cut") {
        let answer = replay_well(&name, RoundFinish::Length);
        check_native_calls(&answer, &[("get_current_time", "{\"timezone\": \"")]);
    }
}

#[test]
fn words_with_native_tools() {
    for name in over_both("words") {
        let answer = replay_well(&name, RoundFinish::Stop);
        assert_eq!(answer.text, "The capital of France is Paris.", "{name}");
    }
    for name in over_both("length") {
        let answer = replay_well(&name, RoundFinish::Length);
        assert_eq!(answer.usage.unwrap().completion_tokens, 12, "{name}");
    }
}

/// The calls of an answer that contains nothing else.
#[track_caller]
fn calls(name: &str) -> Vec<ParsedCall> {
    let pieces = replay_well(name, RoundFinish::Stop).pieces;
    let call = |piece| match piece {
        Piece::Call(call) => call,
        other => panic!("{name}: {other:?} beside calls"),
    };
    pieces.into_iter().map(call).collect()
}

#[test]
fn calls_enforced_by_the_grammar() {
    for (name, zone) in [("call_time", "Berlin"), ("call_time_zone", "New York")] {
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
fn prose_with_tools() {
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
    assert!(!answer.done, "the server sends no [DONE] after an error");
}

#[test]
fn a_stream_that_the_client_left() {
    let answer = replay("disconnect");
    assert!(!answer.text.is_empty());
    assert_eq!((answer.finish, answer.done), (None, false));
}

#[test]
fn errors_before_the_stream() {
    let overflow = "exceed_context_size_error";
    for (name, code) in [
        ("error_grammar", "invalid_request_error"),
        ("error_context", overflow),
        ("chat_native_error", overflow),
        ("responses_native_error", overflow),
    ] {
        let (recording, body) = recording(name);
        assert_eq!(recording.status, 400);
        let error = ServerError::from_body(&body);
        assert_eq!(error.code.as_deref(), Some(code));
        assert_eq!(error.is_context_overflow(), code == overflow);
    }
}
