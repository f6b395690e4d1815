#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| tether::server::fuzz::client_request(data));
