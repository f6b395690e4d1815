//! The code under test, compiled directly from the product's own files. These modules need
//! nothing else of the product, and `crate::limits` means the same here.

#![allow(dead_code, reason = "what the targets do not call is called by the product")]

#[path = "../../src/call_format/mod.rs"]
pub mod call_format;
#[path = "../../src/limits.rs"]
pub mod limits;
#[path = "../../src/parser/mod.rs"]
pub mod parser;
pub mod upstream;
