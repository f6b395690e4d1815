//! llama.cpp's own API: the chat template is rendered by `POST /apply-template`, and the prompt goes
//! to `POST /completion`.
//!
//! ```text
//!   messages, tools ──/apply-template──> prompt ──/completion──> every token, special ones too
//! ```
//! Between the two, Tether sees what the model will read: whether the prompt has begun its reasoning.
//! And here, unlike in its Chat Completions, the server takes a lazy grammar and prints the special
//! tokens that it is told to keep.

mod decode;
mod request;
#[cfg(test)]
mod tests;

pub(crate) use decode::Decoder;
pub(crate) use request::LlamaCompletion;
