//! Chat Completions, streamed: a round as its request, a frame as deltas.
//!
//! Speaks to llama.cpp, vLLM, `SGLang`, Ollama, LM Studio, MLC and whoever else
//! answers `POST /v1/chat/completions`. Not here: the connection (`client`), and
//! the calls inside the text (`parser`).

mod decode;
mod memo;
mod request;
#[cfg(test)]
mod tests;
mod tool_calls;

pub use decode::Decoder;
pub use request::OpenaiChat;
pub use tool_calls::{Assembler, Piece};
