#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| tether::cli::fuzz::parse_batch(data));
