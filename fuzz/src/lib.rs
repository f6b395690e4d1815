//! The code under test, compiled directly from the product's own files. These modules need
//! nothing else of the product, and `crate::limits` means the same here.

#![allow(dead_code, reason = "the gateway uses what the targets do not")]

#[path = "../../src/call_format/mod.rs"]
pub mod call_format;
#[path = "../../src/limits/mod.rs"]
pub mod limits;
#[path = "../../src/parser/mod.rs"]
pub mod parser;
pub mod upstream;
