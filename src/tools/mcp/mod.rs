//! Tools of MCP servers (Model Context Protocol), versions 2025-03-26 to 2026-07-28, over standard
//! input and output or streamable HTTP.
//!
//! ```text
//!   McpServer::follow ──> server: connection ──> list ──> Offering { McpTool .. }
//!                           │ owns                           │ calls, over a link
//!                           v                                v
//!                         stdio or http <── traffic <── rmcp's Peer
//! ```
//! Only this module knows `rmcp`. It keeps the handshake, the ids and HTTP's sessions; whatever
//! servers send is read here, tool by tool and result by result, within limits.

mod auth;
mod cause;
mod connection;
mod end;
mod envelope;
#[cfg(any(test, fuzzing))]
pub mod fuzz;
mod http;
mod link;
mod list;
mod message;
mod options;
mod question;
mod server;
mod stdio;
mod tool;
mod traffic;

pub use options::{Connections, HttpReach, McpOptions, Protocol, Reach};
pub use server::McpServer;
