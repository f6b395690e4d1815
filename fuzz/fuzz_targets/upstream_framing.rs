//! The body of an answer must not depend on where its bytes are cut.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tether_fuzz::upstream::upstream_framing;

fuzz_target!(|input: &[u8]| upstream_framing(input));
