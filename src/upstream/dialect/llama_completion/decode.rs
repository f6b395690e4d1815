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
    #[serde(default)]
    stop_type: StopType,
    #[serde(default)]
    tokens_evaluated: u64,
    #[serde(default)]
    tokens_predicted: u64,
    #[serde(borrow, default)]
    error: Option<&'a RawValue>,
}

/// Why the server stopped.
#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
enum StopType {
    /// The model was done.
    Eos,
    /// The token limit.
    Limit,
    /// A stop text.
    Word,
    /// It does not say.
    #[default]
    #[serde(other)]
    None,
}

impl Decode for Decoder {
    fn decode(
        &mut self,
        frame: &Frame<'_>,
        sink: &mut dyn FnMut(Delta<'_>),
    ) -> Result<(), FrameError> {
        let data = frame.data;
        if frame.field == Field::Error {
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
            sink(Delta::Finish(match chunk.stop_type {
                StopType::Eos | StopType::Word => RoundFinish::Stop,
                StopType::Limit => RoundFinish::Length,
                StopType::None => RoundFinish::Other,
            }));
            sink(Delta::Usage(Usage {
                prompt_tokens: chunk.tokens_evaluated,
                completion_tokens: chunk.tokens_predicted,
                total_tokens: chunk.tokens_evaluated.saturating_add(chunk.tokens_predicted),
            }));
        }
        Ok(())
    }
}
