//! The Responses API, streamed: writes a round as a request, reads events as deltas.
//!
//! Works with `OpenAI`, llama.cpp, vLLM, Ollama and any other server with `POST /v1/responses`.
//! Nothing is stored there: each request holds the whole conversation. The connection is
//! handled by `client`, and calls in the text by `parser`.

mod calls;
mod decode;
mod event;
mod messages;
mod request;
#[cfg(test)]
mod tests;

pub(crate) use decode::Decoder;
pub(crate) use request::OpenaiResponses;
