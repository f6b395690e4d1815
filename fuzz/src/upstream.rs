//! The decoders for the data of model servers.

#[path = "../../src/upstream/sse/mod.rs"]
pub mod sse;

#[path = "../../src/upstream/client/framing/mod.rs"]
mod framing;

/// The body of the fuzz target.
pub fn upstream_framing(input: &[u8]) {
    framing::fuzz::upstream_framing(input);
}
