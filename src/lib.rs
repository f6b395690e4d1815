//! Tether: a gateway that makes the tool calls of local language models reliable.
//!
//! The library behind the `tether` binary. Two parts of it are meant for other programs:
//!
//! - [`parser`] finds the tool calls in a model's streamed text, without async, I/O or
//!   clocks. Its interface is kept stable.
//! - [`tools::Tool`], [`session::store::Store`], [`config`] and [`app`] serve a gateway with
//!   tools, or a store of sessions, of your own; [`app::gateway`] gives one that begins turns
//!   without HTTP.
//!
//! What these need is public too: [`event`], [`conversation`] and [`session`] to read turns,
//! [`upstream`] to name models, [`call_format`] for the parser's settings, [`limits`] for
//! their bounds. The rest is public for the `tether` binary and its tests, and may change at
//! any time. `docs/ARCHITECTURE.md` explains how the modules fit together.
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
//!
//! A tool of your own, next to those in the configuration:
//!
//! ```no_run
//! use std::sync::Arc;
//!
//! use serde_json::{Value, json};
//! use tether::tools::{CallContext, Policy, Tool, ToolFuture, ToolResult, ToolSpec};
//! use tether::{app, config};
//!
//! #[derive(Debug)]
//! struct Shout(Arc<ToolSpec>);
//!
//! impl Tool for Shout {
//!     fn spec(&self) -> &Arc<ToolSpec> {
//!         &self.0
//!     }
//!
//!     fn call(&self, arguments: Value, _context: CallContext) -> ToolFuture {
//!         // The schema has been checked: `text` is there, and a string.
//!         let text = arguments["text"].as_str().unwrap_or_default().to_uppercase();
//!         Box::pin(async move { Ok(ToolResult::data(json!({ "text": text }))) })
//!     }
//! }
//!
//! fn main() -> Result<(), Box<dyn std::error::Error>> {
//!     let config = config::load(None, &config::Overrides::default())?;
//!     let mut parts = app::Parts::of(&config)?;
//!     parts.tools.add(Arc::new(Shout(Arc::new(ToolSpec {
//!         name: "shout".to_owned(),
//!         description: "Writes a text in capital letters.".to_owned(),
//!         parameters: json!({
//!             "type": "object",
//!             "properties": { "text": { "type": "string" } },
//!             "required": ["text"],
//!         }),
//!         waiting_hint: "raising my voice".to_owned(),
//!         policy: Policy::NONE,
//!         ..ToolSpec::default()
//!     }))))?;
//!     app::run(&config, parts, &mut std::io::stdout())?;
//!     Ok(())
//! }
//! ```

pub mod app;
pub mod call_format;
pub mod cli;
pub mod config;
pub mod conversation;
#[cfg(test)]
mod corpus;
mod error_chain;
pub mod event;
pub mod gateway;
mod hidden_key;
mod http;
pub mod limits;
pub mod orchestrator;
pub mod parser;
mod random;
mod rehearsal;
pub mod server;
pub mod session;
mod telemetry;
mod terminal;
mod text;
mod thread_buffer;
mod time_zones;
mod tls;
pub mod tools;
mod trace_context;
pub mod upstream;
mod version;
