//! The decoders for the data of model servers.

#[path = "../../src/upstream/sse/mod.rs"]
pub mod sse;
