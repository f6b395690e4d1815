//! Frames must not depend on where a stream is cut.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tether_fuzz::upstream::sse::fuzz::sse_decoder;

fuzz_target!(|input: &[u8]| sse_decoder(input));
