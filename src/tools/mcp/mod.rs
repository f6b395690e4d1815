//! Tools of MCP servers (Model Context Protocol), versions 2025-03-26 to 2026-07-28, over standard
//! input and output or streamable HTTP.
//!
//! ```text
//!   McpServer::follow ──> task: connection ──> list ──> Offering { McpTool .. }
//!                           │ owns                          │ calls
//!                           v                               v
//!                         process or HTTP <── Guard <── rmcp's Peer
//! ```
//! Only this module knows `rmcp`. It keeps the handshake, the ids and HTTP's sessions; whatever
//! servers send is read here, tool by tool and result by result, within limits.

mod auth;
mod cause;
mod connection;
mod end;
mod entries;
mod envelope;
mod exchange;
mod given_up;
mod handler;
mod http;
mod lines;
mod link;
mod list;
mod message;
mod open_call;
mod options;
mod own;
mod program;
mod question;
mod restarts;
mod result;
mod secret;
mod server;
mod stdio;
mod tool;
mod traffic;

pub use options::{Connections, HttpReach, McpOptions, Protocol, Reach};
pub use server::McpServer;
