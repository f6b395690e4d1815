//! The Responses API, streamed: a round as its request, an event as deltas.
//!
//! Speaks to `OpenAI`, llama.cpp, vLLM, Ollama and whoever else answers
//! `POST /v1/responses`. Nothing is stored there: each request holds the whole
//! conversation. Not here: the connection (`client`), and the calls inside the text
//! (`parser`).

mod calls;
mod decode;
mod event;
mod messages;
mod request;
#[cfg(test)]
mod tests;

pub use decode::Decoder;
pub use request::OpenaiResponses;
