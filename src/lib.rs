//! Tether: a gateway that makes the tool calls of local language models solid.
//!
//! The library behind the `tether` binary. [`parser`] is of use by itself: it finds the
//! tool calls in a model's streamed text, without async, I/O or clocks. Its interface is
//! kept stable; the other modules are public for the binary and its tests, and follow
//! the gateway's needs. How they fit together is told in `docs/ARCHITECTURE.md`.
//!
//! ```
//! use tether::parser::{Parser, Segment, Settings};
//!
//! let mut parser = Parser::new(Settings::default())?;
//! let print = |segment: Segment<'_>| println!("{segment:?}");
//! parser.push_str("Hi. <<function_call>> {\"name\"", print);
//! parser.push_str(": \"now\"}", print);
//! parser.finish(print);
//! # Ok::<(), tether::parser::SettingsError>(())
//! ```

pub mod app;
pub mod cli;
pub mod config;
pub mod conversation;
pub mod event;
pub mod gateway;
pub mod http;
pub mod limits;
pub mod orchestrator;
pub mod parser;
pub mod rehearsal;
pub mod server;
pub mod session;
pub mod telemetry;
mod text;
mod time_zones;
pub mod tools;
pub mod upstream;
