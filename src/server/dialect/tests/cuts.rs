//! Wherever the bytes of a model server are cut, clients of every dialect read the same.
//!
//! Bytes go the whole way without I/O, as in the driver: frames, deltas, the turn machine, the log,
//! the encoders. Only how text is split into pieces may differ, so pieces are joined.

use std::collections::HashSet;
use std::sync::Arc;

use bytes::BytesMut;
use serde_json::{Value, json};

use super::described::respond;
use super::events::TURN;
use super::{AgUi, AiSdk, Native, encoder};
use crate::call_format::CallContract;
use crate::call_format::MARKER_JSON;
use crate::conversation::{Conversation, Opening};
use crate::orchestrator::{Briefing, CallAt, Input, Output, Rules, TurnMachine, TurnRequest};
use crate::server::dialect::chat_completions::ChatCompletions;
use crate::server::dialect::messages::{Messages, MessagesServerTools};
use crate::server::dialect::responses::ServerItems;
use crate::server::dialect::server_tools::ServerTools;
use crate::server::dialect::{Encoder, Form, RequestReader};
use crate::session::log::{TurnLog, Writer};
use crate::tools::builtin::{Calculate, GetCurrentTime};
use crate::tools::{Catalog, Registry, ToolResult};
use crate::upstream::dialect::{Kind, Options};
use crate::upstream::{ChatRequest, Sampling, ToolChoice, sse};

const SESSION: &str = "resp-000000000000000000000000000000aa";

/// A recording in `tests/data/upstream`.
macro_rules! recording {
    ($name:literal) => {
        include_bytes!(concat!("../../../../tests/data/upstream/", $name, ".body")).to_vec()
    };
}

/// A round's bytes, cut in two.
type Chunks<'a> = [&'a [u8]; 2];

/// A turn that is played.
struct Played {
    turn: TurnMachine,
    writer: Writer,
    /// Calls that run.
    called: Vec<CallAt>,
    /// Whether the running round is not needed any more.
    stops: bool,
}

fn briefing(call_contract: CallContract) -> Arc<Briefing> {
    let rules = Rules { call_contract, ..Rules::default() };
    let mut tools = Registry::default();
    tools.add(Arc::new(GetCurrentTime::new())).unwrap();
    tools.add(Arc::new(Calculate::new())).unwrap();
    Arc::new(Briefing::new(&Arc::new(rules), None, tools.catalog()).unwrap())
}

/// The log of the turn if its rounds arrive in these chunks.
fn play(briefing: &Arc<Briefing>, rounds: [Chunks<'_>; 2]) -> Arc<TurnLog> {
    let (log, writer) = Writer::new(1);
    let turn = TurnMachine::new(TurnRequest {
        session_id: SESSION.to_owned(),
        turn_id: TURN.to_owned(),
        started_at_ms: 0,
        opening: Opening::Prompt("Hello?".to_owned()),
        images: Vec::new(),
        model: "m".to_owned(),
        sampling: Sampling::default(),
        max_tool_loops: None,
        max_calls: None,
        disconnect_grace: None,
        tool_choice: ToolChoice::Auto,
        response_format: None,
        is_read_whole: false,
        single_client_call: false,
        words_only: false,
        nobody_approves: true,
        confirm: None,
        briefing: Arc::clone(briefing),
        lent: Catalog::default(),
        history: Conversation::default(),
    });
    let mut played = Played { turn, writer, called: Vec::new(), stops: false };
    played.drain();
    for chunks in rounds {
        played.round(chunks);
    }
    assert!(played.turn.is_over());
    log
}

impl Played {
    fn round(&mut self, chunks: Chunks<'_>) {
        let dialect = Kind::OpenaiChat.dialect(Options::default());
        let (mut frames, mut events) =
            (sse::Decoder::new(), dialect.decoder(&ChatRequest::default()));
        for mut chunk in chunks {
            while let Some(frame) = frames.next_frame(&mut chunk).expect("within the limit") {
                let turn = &mut self.turn;
                let outcome = events.decode(&frame, &mut |delta| turn.handle(Input::Delta(delta)));
                outcome.expect("a valid frame");
            }
            self.drain();
        }
        assert!(!std::mem::take(&mut self.stops), "no round is cut short");
        self.turn.handle(Input::RoundEnded);
        self.drain();
        for call in std::mem::take(&mut self.called) {
            let result = ToolResult::data(json!({ "found": 42 }));
            let (duration_ms, attempts) = (5, 1);
            let ended = Input::ToolEnded { call, result, duration_ms, attempts };
            self.turn.handle(ended);
            self.drain();
        }
    }

    fn drain(&mut self) {
        while let Some(output) = self.turn.poll() {
            match output {
                Output::Event(event) => self.writer.push(&event),
                Output::StartTool { call, .. } => self.called.push(call),
                Output::StopRound => self.stops = true,
                _ => {}
            }
        }
        self.writer.publish();
    }
}

/// The six APIs, in forms that show as much as each can.
fn encoders() -> Vec<(&'static str, Box<dyn Encoder>)> {
    let messages = r#"[{"role":"user","content":"Hello?"}]"#;
    let of = |name, dialect: &dyn RequestReader, body: &str| {
        (name, encoder(dialect, &body.replace("MESSAGES", messages)))
    };
    let chat = ChatCompletions { shown: ServerTools::Extension };
    let anthropic = Messages { server_tools: MessagesServerTools::McpToolUse };
    let responses = json!({"model": "m", "stream": true, "input": "Hello?"});
    let Form::Stream(responses) = respond(&responses, ServerItems::McpCall).form else {
        panic!("a stream was asked for");
    };
    vec![
        of("native", &Native, r#"{"prompt":"Hello?"}"#),
        of("Chat Completions", &chat, r#"{"model":"m","stream":true,"messages":MESSAGES}"#),
        ("Responses", responses),
        of(
            "Messages",
            &anthropic,
            r#"{"model":"m","max_tokens":9,"stream":true,"thinking":{"type":"adaptive"},
                "messages":MESSAGES}"#,
        ),
        of("AI SDK", &AiSdk, r#"{"messages":MESSAGES}"#),
        of("AG-UI", &AgUi, r#"{"threadId":"t","runId":"r","messages":MESSAGES}"#),
    ]
}

/// Where the pieces of a text are, in the data of any dialect.
const PIECES: &[&str] = &[
    "/data/text",
    "/data/delta",
    "/delta",
    "/delta/text",
    "/delta/thinking",
    "/delta/partial_json",
    "/choices/0/delta/content",
    "/choices/0/delta/reasoning_content",
];

/// A frame without its piece of text, and that piece.
type Joined = (Value, String);

/// The frames of a stream, with adjacent pieces joined.
fn joined(stream: &str) -> Vec<Joined> {
    let mut all: Vec<Joined> = Vec::new();
    for frame in stream.split_terminator("\n\n") {
        let field = |name| frame.lines().find_map(|line| line.strip_prefix(name));
        let data = field("data: ").unwrap_or_default();
        let mut data: Value = serde_json::from_str(data).unwrap_or_else(|_| data.into());
        if let Some(fields) = data.as_object_mut() {
            fields.remove("sequence_number");
        }
        let mut text = String::new();
        for place in PIECES {
            if let Some(piece @ Value::String(_)) = data.pointer_mut(place) {
                text.push_str(piece.take().as_str().unwrap());
            }
        }
        let shape = json!({"event": field("event: "), "data": data});
        match all.last_mut() {
            Some((last, before)) if goes_on(last, &shape) && !text.is_empty() => {
                before.push_str(&text);
            }
            _ => all.push((shape, text)),
        }
    }
    all
}

/// Whether a piece goes on with the one before, as frames without their pieces tell. Only the first of a message has its
/// round.
fn goes_on(last: &Value, next: &Value) -> bool {
    let mut last = last.clone();
    if let Some(Value::Object(data)) = last.pointer_mut("/data/data")
        && data.contains_key("text")
    {
        data.remove("loop");
    }
    last == *next
}

/// What a client reads of a log.
fn read(log: &TurnLog, encoder: &mut dyn Encoder) -> Vec<Joined> {
    let mut out = BytesMut::new();
    log.replay(|record| encoder.encode(&record, &mut out));
    joined(std::str::from_utf8(&out).unwrap())
}

/// Everything in a log.
fn data(log: &TurnLog) -> Vec<u8> {
    let mut all = Vec::new();
    log.replay(|record| all.extend_from_slice(record.data));
    all
}

/// Plays a turn with cuts of its rounds, `step` bytes apart. Recordings are long, so they are cut at
/// every third byte; `tests/upstream_recordings.rs` cuts them everywhere, but ends at the parser.
/// Clients have to read these words in any case.
#[track_caller]
fn check(contract: CallContract, rounds: &[Vec<u8>; 2], step: usize, words: &[&str]) {
    let briefing = briefing(contract);
    let [first, second] = rounds;
    let whole = play(&briefing, [[first, b""], [second, b""]]);
    let expected: Vec<_> =
        encoders().into_iter().map(|(name, mut it)| (name, read(&whole, &mut *it))).collect();
    for (name, frames) in &expected {
        for words in words {
            let is_read =
                |(shape, text): &Joined| text.contains(words) || shape.to_string().contains(words);
            assert!(frames.iter().any(is_read), "{name}: {words} is missing in {frames:#?}");
        }
    }
    // Most cuts lead to the same log, and the same log to the same frames.
    let mut seen = HashSet::from([data(&whole)]);
    let mut compare = |rounds: [Chunks<'_>; 2], round: &str, cut: usize| {
        let log = play(&briefing, rounds);
        if !seen.insert(data(&log)) {
            return;
        }
        for ((name, expected), (_, mut encoder)) in expected.iter().zip(encoders()) {
            let frames = read(&log, &mut *encoder);
            assert_eq!(frames, *expected, "{name}: the {round} round cut at {cut}");
        }
    };
    for cut in (1..first.len()).step_by(step) {
        compare([first.split_at(cut).into(), [second, b""]], "first", cut);
    }
    for cut in (1..second.len()).step_by(step) {
        compare([[first, b""], second.split_at(cut).into()], "second", cut);
    }
    assert!(seen.len() > 2, "nothing was tested: {} different logs", seen.len());
}

/// A short frame with a delta.
fn frame(delta: &Value) -> String {
    format!("data: {}\n\n", json!({"choices": [{ "delta": delta }]}))
}

fn says(text: &str) -> String {
    frame(&json!({ "content": text }))
}

fn end() -> String {
    let end = json!({"choices": [{"delta": {}, "finish_reason": "stop"}]});
    format!("data: {end}\n\ndata: [DONE]\n\n")
}

/// An answer that begins with reasoning.
fn answer() -> Vec<u8> {
    [says("<think>So"), says(".</think>It is "), says("42."), end()].concat().into_bytes()
}

#[test]
fn recorded_reasoning_and_native_calls() {
    let rounds = [recording!("chat_native_reasoning"), recording!("prose")];
    check(CallContract::Native, &rounds, 3, &["clock", "capital of France is Paris."]);
}

#[test]
fn a_recorded_call_in_text() {
    let rounds = [recording!("call_calculate"), answer()];
    check(CallContract::InText(&MARKER_JSON), &rounds, 3, &["So.", "It is 42."]);
}

/// Words around the call, reasoning both ways, and characters of several bytes, escaped or not.
#[test]
fn everything_in_short_frames() {
    let escaped = r#"data: {"choices":[{"delta":{"content":" \ud83e\uddee see.\n<<func"}}]}"#;
    let first = [
        frame(&json!({"reasoning_content": "H\u{e4}"})),
        frame(&json!({"reasoning_content": "m."})),
        says("Let me \u{1f9ee}"),
        format!("{escaped}\n\n"),
        says("tion_call>> {\"name\": \"calc"),
        says("ulate\", \"arguments\": {\"expression\": \"6 * "),
        says("7\"}}\n"),
        end(),
    ];
    let rounds = [first.concat().into_bytes(), answer()];
    let words = ["H\u{e4}m.", "\u{1f9ee} \u{1f9ee} see.", "So.", "It is 42."];
    check(CallContract::InText(&MARKER_JSON), &rounds, 1, &words);
}
