#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| tether::tools::mcp::fuzz::mcp_server(data));
