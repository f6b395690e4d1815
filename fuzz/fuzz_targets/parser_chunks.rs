#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| tether::parser::fuzz::parser_chunks(data));
