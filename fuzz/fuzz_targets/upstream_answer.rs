#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| tether::upstream::fuzz::upstream_answer(data));
