//! What holds for the streams of all dialects.

mod cuts;
mod described;
pub(super) mod events;
mod ranges;
mod refusals;
mod turns;

use allocation_counter::measure;
use bytes::BytesMut;

use super::ImageReader;
use super::ag_ui::AgUi;
use super::ai_sdk::AiSdk;
use super::chat_completions::ChatCompletions;
use super::messages::{Messages, MessagesServerTools};
use super::models::Models;
use super::native::Native;
use super::server_tools::ServerTools;
use super::{ClientRequest, Encoder, Form, RequestReader};
pub(super) use crate::conversation::claimed::NoTurns;
use crate::event::Event;
use crate::session::log::tests::records;

/// Each dialect with a request for a stream.
fn dialects() -> Vec<(Box<dyn RequestReader>, &'static str)> {
    let chat = ChatCompletions { shown: ServerTools::Off };
    let messages = Messages { server_tools: MessagesServerTools::Off };
    vec![
        (
            Box::new(AgUi),
            r#"{"threadId":"t","runId":"r","messages":[{"role":"user","content":"Hello?"}]}"#,
        ),
        (Box::new(AiSdk), r#"{"messages":[{"role":"user","content":"Hello?"}]}"#),
        (Box::new(Native), r#"{"prompt":"Hello?"}"#),
        (
            Box::new(chat),
            r#"{"model":"m","stream":true,"messages":[{"role":"user","content":"Hello?"}]}"#,
        ),
        (
            Box::new(messages),
            r#"{"model":"m","max_tokens":9,"stream":true,"thinking":{"type":"adaptive"},
                "messages":[{"role":"user","content":"Hello?"}]}"#,
        ),
    ]
}

/// The encoder of a request for a stream.
fn encoder(dialect: &dyn RequestReader, body: &str) -> Box<dyn Encoder> {
    let asked = ClientRequest {
        accept: "",
        body: body.as_bytes(),
        idempotency_key: None,
        owner: "",
        models: &Models::new(vec!["m".to_owned()], Vec::new(), false),
        conversation: None,
        lookup: &NoTurns,
        images: ImageReader::new(true),
        now_sec: 1_795_315_264,
    };
    match dialect.read(&asked).expect("the request is valid").form {
        Form::Stream(encoder) => encoder,
        Form::Whole(_) | Form::Later(_) => panic!("{body} asks for a stream"),
    }
}

/// A token costs each client the bytes of its frame, and nothing else.
#[test]
fn a_piece_of_text_costs_no_allocation() {
    let started = events::started();
    let (text, reasoning) =
        (Event::text(" \"caf\u{e9}\"\n"), Event::ReasoningDelta { text: " hm" });
    for (dialect, body) in dialects() {
        let mut encoder = encoder(&*dialect, body);
        let mut out = BytesMut::with_capacity(1 << 20);
        records(std::slice::from_ref(&started), |record| encoder.encode(&record, &mut out));
        for delta in [&reasoning, &text] {
            let deltas = vec![delta.clone(); 101];
            let mut at = 0;
            records(&deltas, |record| {
                // The first may begin something.
                let allocations = measure(|| encoder.encode(&record, &mut out));
                assert!(at == 0 || allocations.count_total == 0, "{body}: {delta:?}");
                at += 1;
            });
            assert_eq!(at, 101);
        }
    }
}
