#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| tether::tools::http::openapi::fuzz::openapi_document(data));
