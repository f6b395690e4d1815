//! Chat Completions, streamed: writes a round as a request, reads frames as deltas.
//!
//! Works with llama.cpp, vLLM, `SGLang`, Ollama, LM Studio, MLC and any other server with
//! `POST /v1/chat/completions`. The connection is handled by `client`, and calls in the text by
//! `parser`.

mod decode;
mod memo;
mod parts;
mod prologue;
mod request;
#[cfg(test)]
mod tests;
mod tool_calls;

pub use decode::Decoder;
pub(crate) use request::OpenaiChat;
