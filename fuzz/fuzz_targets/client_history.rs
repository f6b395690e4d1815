#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| tether::conversation::claimed::fuzz::client_history(data));
