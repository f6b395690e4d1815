//! Decodes frames into deltas.

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::event::Usage;
use crate::upstream::dialect::Decode;
use crate::upstream::dialect::json_string::text_of;
use crate::upstream::frame_error::FrameError;
use crate::upstream::server_error::ServerError;
use crate::upstream::sse::{Field, Frame};
use crate::upstream::{Delta, RoundFinish};

/// Decodes the frames of one stream. Text without escapes is borrowed from the frame, other text from
/// a reused buffer: no token costs an allocation.
#[derive(Debug, Default)]
pub(crate) struct Decoder {
    scratch: String,
    finished: bool,
}

/// A frame: some text, or the end.
#[derive(Deserialize)]
struct Chunk<'a> {
    #[serde(borrow, default)]
    content: Option<&'a RawValue>,
    #[serde(default)]
    stop: bool,
    // What is wrong here must not cost words.
    #[serde(borrow, default)]
    stop_type: Option<&'a RawValue>,
    #[serde(borrow, default)]
    tokens_evaluated: Option<&'a RawValue>,
    #[serde(borrow, default)]
    tokens_predicted: Option<&'a RawValue>,
    #[serde(borrow, default)]
    error: Option<&'a RawValue>,
}

impl Decode for Decoder {
    fn decode(
        &mut self,
        frame: &Frame<'_>,
        sink: &mut dyn FnMut(Delta<'_>),
    ) -> Result<(), FrameError> {
        let data = frame.data;
        if frame.field == Field::Error || frame.event == b"error" {
            return Err(FrameError::Server(ServerError::from_body(data)));
        }
        match data.trim_ascii() {
            b"" | b"[DONE]" => Ok(()),
            _ => match std::str::from_utf8(data) {
                Ok(json) => self.parse(json, sink),
                Err(_) => self.parse(&String::from_utf8_lossy(data), sink),
            },
        }
    }

    fn is_finished(&self) -> bool {
        self.finished
    }

    /// The last frame says so itself.
    fn is_done(&self) -> bool {
        self.finished
    }
}

impl Decoder {
    fn parse(&mut self, json: &str, sink: &mut dyn FnMut(Delta<'_>)) -> Result<(), FrameError> {
        // serde would also accept a list of the struct's fields in order.
        if !json.trim_start().starts_with('{') {
            return Err(FrameError::Malformed);
        }
        let chunk: Chunk<'_> = serde_json::from_str(json).map_err(|_| FrameError::Malformed)?;
        if chunk.error.is_some_and(|error| error.get() != "null") {
            return Err(FrameError::Server(ServerError::from_body(json.as_bytes())));
        }
        if let Some(content) = chunk.content.filter(|raw| !matches!(raw.get(), "null" | "\"\"")) {
            sink(Delta::Text(text_of(content, &mut self.scratch).ok_or(FrameError::Malformed)?));
        }
        if chunk.stop {
            self.finished = true;
            sink(Delta::Finish(match chunk.stop_type.map(RawValue::get) {
                Some("\"eos\"" | "\"word\"") => RoundFinish::Stop,
                Some("\"limit\"") => RoundFinish::Length,
                _ => RoundFinish::Other,
            }));
            let count = |raw: Option<&RawValue>| raw.and_then(|raw| raw.get().parse().ok());
            let usage = Usage {
                prompt_tokens: count(chunk.tokens_evaluated).unwrap_or_default(),
                completion_tokens: count(chunk.tokens_predicted).unwrap_or_default(),
                ..Usage::NONE
            };
            sink(Delta::Usage(usage.with_total()));
        }
        Ok(())
    }
}
