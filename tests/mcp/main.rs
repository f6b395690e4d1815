//! MCP servers on a bad day: each has a clear outcome, and leaves nothing behind.

#![expect(clippy::unwrap_used, reason = "a test that panics has failed, as it should")]

mod calls;
mod http;
mod lists;
mod questions;
mod sessions;
mod starts;
mod web;

#[path = "../support/mcp.rs"]
mod server;

use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;
use tether::tools::mcp::{Connections, McpOptions, McpServer, Protocol, Reach};
use tether::tools::source::{Offering, SourceState};
use tether::tools::{CallContext, Delivery, Entry, Registry, Tool, ToolFault, ToolResult};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, BufReader};
use tokio::net::unix::pipe;
use tokio::sync::watch;
use tokio::time::timeout;

/// What becomes of a call to a server whose list is no longer the pinned one.
const NOT_PINNED: &str = "the tool was not called: its definition no longer matches its pin";

/// A server that behaves in this way, and what it offers.
struct Bad {
    directory: TempDir,
    /// What happens to it, a line each. Closes when the last of its processes is gone.
    events: BufReader<pipe::Receiver>,
    offers: Offers,
}

/// What a server offers.
struct Offers(watch::Receiver<Offering>);

impl Deref for Bad {
    type Target = Offers;

    fn deref(&self) -> &Offers {
        &self.offers
    }
}

impl DerefMut for Bad {
    fn deref_mut(&mut self) -> &mut Offers {
        &mut self.offers
    }
}

impl Bad {
    fn start(behaviour: &str) -> Self {
        Self::start_with(behaviour, |_| {})
    }

    fn start_with(behaviour: &str, change: impl FnOnce(&mut McpOptions)) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let events = events(&directory);
        let mut options = server::options(behaviour, Some(directory.path()));
        change(&mut options);
        Self { offers: Offers(McpServer::new(options).follow()), events, directory }
    }

    /// Waits until this has happened.
    async fn hears(&mut self, expected: &str) {
        within(async {
            let mut line = String::new();
            while line.trim_end() != expected {
                line.clear();
                self.events.read_line(&mut line).await.unwrap();
            }
        })
        .await;
    }

    /// Lets go of it, and waits until none of its processes is left. Returns what happened to it.
    async fn closes(mut self) -> String {
        drop(self.offers);
        let mut rest = String::new();
        within(self.events.read_to_string(&mut rest)).await.unwrap();
        rest
    }

    /// How often it was started.
    fn starts(&self) -> usize {
        std::fs::read_to_string(self.directory.path().join("starts")).unwrap().lines().count()
    }
}

impl Offers {
    /// Waits until it offers what is wanted.
    async fn until(&mut self, wanted: impl Fn(&Offering) -> bool) -> Offering {
        within(self.0.wait_for(wanted)).await.unwrap().clone()
    }

    async fn ready(&mut self) -> Offering {
        self.until(|offering| offering.report.state == SourceState::Ready).await
    }

    async fn failed(&mut self) -> String {
        let failed = self.until(|offering| offering.report.state == SourceState::Failed).await;
        failed.report.error.unwrap()
    }

    /// Its tool of this name.
    async fn tool(&mut self, name: &str) -> Arc<dyn Tool> {
        tool(self.ready().await, name)
    }

    /// Calls one of its tools once.
    async fn call(&mut self, name: &str, text: &str) -> Result<ToolResult, ToolFault> {
        let tool = self.tool(name).await;
        within(tool.call(json!({ "text": text }), CallContext::first("call"))).await
    }

    /// What a call says, if it succeeds.
    async fn says(&mut self, name: &str, text: &str) -> Value {
        let result = self.call(name, text).await.unwrap();
        assert!(result.success, "{result:?}");
        result.data.unwrap()
    }
}

/// A key that a server is given.
const KEY: &str = "s3cr3t-key-of-a-server";

/// Gives the server's program a key.
fn give_key(options: &mut McpOptions) {
    let Reach::Program(program) = &mut options.reach else { panic!("it is no program") };
    program.environment.push(("API_TOKEN".into(), KEY.into()));
}

/// The pipe to which servers write what happens.
fn events(directory: &TempDir) -> BufReader<pipe::Receiver> {
    let path = directory.path().join("events");
    let made = std::process::Command::new("mkfifo").arg(&path).status().unwrap();
    assert!(made.success());
    BufReader::new(pipe::OpenOptions::new().open_receiver(path).unwrap())
}

fn tool(offering: Offering, name: &str) -> Arc<dyn Tool> {
    let mut registry = Registry::default();
    for entry in offering.tools {
        registry.add_entry(entry).unwrap();
    }
    Arc::clone(registry.get(name).unwrap())
}

fn names(offering: &Offering) -> Vec<&str> {
    offering.tools.iter().map(|entry: &Entry| entry.spec().name.as_str()).collect()
}

async fn within<T>(wait: impl Future<Output = T>) -> T {
    timeout(Duration::from_secs(30), wait).await.expect("it takes too long")
}
