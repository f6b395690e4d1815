//! Tether: a gateway that makes the tool calls of local language models solid.

pub mod app;
pub mod cli;
pub mod config;
pub mod event;
pub mod limits;
pub mod parser;
pub mod telemetry;
pub mod tools;
pub mod upstream;
