//! Chat Completions, streamed: a round as its request, a frame as deltas.
//!
//! Speaks to llama.cpp, vLLM, `SGLang`, Ollama, LM Studio, MLC and whoever else
//! answers `POST /v1/chat/completions`. Not here: the connection (`client`), and
//! the calls inside the text (`parser`).

mod decode;
mod json_string;
pub(super) mod lenient;
mod memo;
mod models;
mod request;
#[cfg(test)]
mod tests;
mod tool_calls;

pub use decode::{Decoder, FrameError};
pub(super) use json_string::unescape;
pub use models::{Flavour, Models};
pub use request::{Options, request_body};
pub use tool_calls::{Assembler, Piece};
