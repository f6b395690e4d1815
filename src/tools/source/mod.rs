//! Sources of tools: what each offers, and what became of it.
//!
//! A source publishes an [`Offering`] whenever that changes. It knows nothing of other sources.

mod clean;
mod glob;
mod names;
mod rules;
mod told;

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::Entry;

pub use glob::Glob;
pub use rules::{Declared, EntryRules, Hints};

/// Where a tool comes from.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Source {
    /// What kind of source it is.
    pub kind: SourceKind,
    /// The entry's name in the configuration; empty for kinds without entries.
    #[serde(default, skip_serializing_if = "str::is_empty")]
    pub name: Arc<str>,
}

/// The kinds of sources.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum SourceKind {
    /// Rust code outside the gateway.
    #[default]
    Rust,
    /// The gateway itself.
    Builtin,
    /// HTTP requests, written by hand or taken from an `OpenAPI` document.
    Http,
    /// A program on this machine.
    Command,
    /// An MCP server.
    Mcp,
}

impl Source {
    /// The gateway itself.
    #[must_use]
    pub fn builtin() -> Self {
        Self { kind: SourceKind::Builtin, name: Arc::default() }
    }
}

/// What a source offers at one moment.
#[derive(Debug, Clone)]
pub struct Offering {
    /// The source.
    pub source: Source,
    /// Its state.
    pub state: SourceState,
    /// The protocol's era, for MCP servers that have been asked: `legacy` or `modern`.
    pub era: Option<&'static str>,
    /// The version of the protocol or document.
    pub version: Option<String>,
    /// Its tools, in its own order.
    pub tools: Vec<Entry>,
    /// The tools that are not offered.
    pub left_out: Vec<LeftOut>,
    /// Why it offers nothing, or the last thing that went wrong.
    pub error: Option<String>,
}

/// The state of a source.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum SourceState {
    /// It has not answered yet.
    Starting,
    /// Its tools can be called.
    Ready,
    /// Its connection broke. Its tools are still offered, and calls wait for a while.
    Reconnecting,
    /// It cannot be used, and offers nothing.
    Failed,
}

/// A tool that is not offered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LeftOut {
    /// Its name at the source.
    pub name: String,
    /// Why, and what would help: lower case, no full stop.
    pub reason: String,
}

impl Offering {
    /// The offering of a source that is always there.
    #[must_use]
    pub const fn ready(source: Source, tools: Vec<Entry>, left_out: Vec<LeftOut>) -> Self {
        let state = SourceState::Ready;
        Self { source, state, era: None, version: None, tools, left_out, error: None }
    }
}
