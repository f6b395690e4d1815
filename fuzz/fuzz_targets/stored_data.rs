#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| tether::session::fuzz::stored_data(data));
