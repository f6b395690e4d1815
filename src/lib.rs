//! Tether: a gateway that makes the tool calls of local language models solid.
//!
//! The library behind the `tether` binary. [`parser`] is of use by itself; how the
//! rest fits together is told in `docs/ARCHITECTURE.md`.

pub mod app;
pub mod cli;
pub mod config;
pub mod conversation;
pub mod event;
pub mod gateway;
pub mod limits;
pub mod orchestrator;
pub mod parser;
pub mod server;
pub mod session;
pub mod telemetry;
pub mod tools;
pub mod upstream;
