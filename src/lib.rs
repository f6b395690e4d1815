//! Tether: a gateway that makes the tool calls of local language models solid.

pub mod cli;
pub mod event;
pub mod limits;
pub mod parser;
pub mod tools;
pub mod upstream;
