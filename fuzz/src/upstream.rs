//! The decoders of what model servers send.

#[path = "../../src/upstream/sse/mod.rs"]
pub mod sse;
