#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| tether::config::fuzz::configuration(data));
