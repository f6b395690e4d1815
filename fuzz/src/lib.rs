//! The code under test, compiled by itself out of the product's own files: these
//! modules need nothing of the rest, and `crate::limits` means the same here.

#![allow(dead_code, reason = "what the targets do not call is called by the product")]

#[path = "../../src/call_format/mod.rs"]
pub mod call_format;
#[path = "../../src/limits.rs"]
pub mod limits;
#[path = "../../src/parser/mod.rs"]
pub mod parser;
pub mod upstream;
