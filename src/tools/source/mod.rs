//! Sources of tools: what each offers, and what became of it.
//!
//! A source publishes an [`Offering`] whenever that changes. It knows nothing of other sources.

mod glob;
mod names;
mod rules;
pub(crate) mod told;
pub(crate) mod unmatched;

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Entry;

pub(crate) use super::clean::text as clean_text;
pub use glob::Glob;
pub use rules::{Declared, Effects, EntryRules, Hints};

/// Where a tool comes from.
#[derive(
    Debug, Clone, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
pub struct Source {
    /// What kind of source it is.
    pub kind: SourceKind,
    /// The entry's name in the configuration; empty for kinds without entries.
    #[serde(default, skip_serializing_if = "str::is_empty")]
    #[schemars(with = "String")]
    pub name: Arc<str>,
}

/// The kinds of sources.
#[derive(
    Debug,
    Clone,
    Copy,
    Default,
    PartialEq,
    Eq,
    Hash,
    PartialOrd,
    Ord,
    Serialize,
    Deserialize,
    JsonSchema,
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
    /// The client that began the turn, which also runs it.
    Client,
}

impl SourceKind {
    /// Its name in events, metrics and reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Rust => "rust",
            Self::Builtin => "builtin",
            Self::Http => "http",
            Self::Command => "command",
            Self::Mcp => "mcp",
            Self::Client => "client",
        }
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &*self.name {
            "" => f.write_str(self.kind.name()),
            name => write!(f, "{} {name}", self.kind.name()),
        }
    }
}

impl SourceState {
    /// Its name in metrics and reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Starting => "starting",
            Self::Ready => "ready",
            Self::Reconnecting => "reconnecting",
            Self::Failed => "failed",
        }
    }
}

impl Source {
    /// The client that began the turn.
    #[must_use]
    pub fn client() -> Self {
        Self { kind: SourceKind::Client, name: Arc::default() }
    }

    /// Whether it is the client of one request.
    #[must_use]
    pub(crate) fn is_client(&self) -> bool {
        self.kind == SourceKind::Client
    }

    /// The gateway itself.
    #[must_use]
    pub fn builtin() -> Self {
        Self { kind: SourceKind::Builtin, name: Arc::default() }
    }
}

/// What a source offers at one moment.
#[derive(Debug, Clone)]
pub struct Offering {
    /// The state of the source.
    pub report: SourceReport,
    /// Its tools, in its own order.
    pub tools: Vec<Entry>,
}

/// A source's state, and what is known about it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct SourceReport {
    /// The source.
    #[serde(flatten)]
    pub source: Source,
    /// Its state.
    pub state: SourceState,
    /// How many of its tools are offered.
    pub tools: usize,
    /// The protocol's era, for MCP servers that have been asked: `legacy` or `modern`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub era: Option<&'static str>,
    /// The version of its protocol or document.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// The layers of the sandbox that are enforced, for programs that run in one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sandbox: Option<Vec<&'static str>>,
    /// The program that it runs. Clients need not know.
    #[serde(skip)]
    pub program: Option<PathBuf>,
    /// The tools that are not offered.
    pub left_out: Vec<LeftOut>,
    /// Names in its entry that nothing at the source has, and what was probably meant: no full stop.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unmatched: Vec<String>,
    /// Why it offers nothing, or the last thing that went wrong.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// The hash of its list of tools, for MCP servers that have been asked.
    #[serde(skip)]
    pub pin: Option<String>,
    /// Whether turns wait for it.
    #[serde(skip)]
    pub is_required: bool,
    /// Whether it cannot start as configured: only a restart can help.
    #[serde(skip)]
    pub is_lost: bool,
    /// What comes before the names of its tools; nothing if they can have any name.
    #[serde(skip)]
    pub prefix: String,
}

/// The state of a source.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, JsonSchema)]
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
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct LeftOut {
    /// Its name at the source.
    pub name: String,
    /// Why, and what would help: lower case, no full stop.
    pub reason: String,
}

impl LeftOut {
    /// Says which source it belongs to, and why it is not offered.
    #[must_use]
    pub fn of(&self, source: &Source) -> String {
        let Self { name, reason } = self;
        if *source.name == **name {
            format!("{source} is not offered: {reason}")
        } else {
            format!("{source}: {name} is not offered: {reason}")
        }
    }
}

impl Offering {
    /// The offering of a source that is always there.
    #[must_use]
    pub fn ready(source: Source, tools: Vec<Entry>, left_out: Vec<LeftOut>) -> Self {
        let report = SourceReport { left_out, ..SourceReport::new(source, SourceState::Ready) };
        Self { report, tools }
    }
}

impl SourceReport {
    /// A source in this state, about which nothing else is known.
    #[must_use]
    pub const fn new(source: Source, state: SourceState) -> Self {
        Self {
            source,
            state,
            tools: 0,
            era: None,
            version: None,
            sandbox: None,
            program: None,
            left_out: Vec::new(),
            unmatched: Vec::new(),
            error: None,
            pin: None,
            is_required: false,
            is_lost: false,
            prefix: String::new(),
        }
    }

    /// What an operator has to know of its tools.
    pub fn warnings(&self) -> impl Iterator<Item = String> {
        let left_out = self.left_out.iter().map(|tool| tool.of(&self.source));
        let unmatched = self.unmatched.iter().map(|told| format!("{}: {told}", self.source));
        left_out.chain(unmatched)
    }

    /// Those of its warnings that an earlier report did not have.
    pub fn warnings_since(&self, before: Option<&Self>) -> impl Iterator<Item = String> {
        let before: Vec<String> = before.into_iter().flat_map(Self::warnings).collect();
        self.warnings().filter(move |warning| !before.contains(warning))
    }

    /// Whether a tool of this name may be one of its own.
    #[must_use]
    pub fn may_offer(&self, name: &str) -> bool {
        names::may_be_told(&self.prefix, name)
    }
}
