//! The misbehaving MCP server of `tests/mcp/server.py`, as a gateway starts it.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use tether::tools::mcp::{McpOptions, Reach};
use tether::tools::process::{self, Confinement, environment, find_program};
use tether::tools::source::EntryRules;
use tether::tools::{Source, SourceKind};

/// A server named `bad` with this behaviour. It writes to the pipe `events` in the folder.
pub(crate) fn options(behaviour: &str, folder: Option<&Path>) -> McpOptions {
    let environment = environment(own_environment(), &[], &[]);
    let path = environment.iter().find(|(name, _)| name == "PATH").map(|(_, value)| &**value);
    let program = find_program("python3".as_ref(), path, None).unwrap();
    let script = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/mcp/server.py");
    let mut arguments: Vec<OsString> = vec![script.into(), behaviour.into()];
    arguments.extend(folder.map(Into::into));
    let process = process::Options {
        program,
        arguments,
        environment,
        directory: None,
        has_input: true,
        session: None,
        confinement: Confinement::default(),
        launcher: None,
    };
    let rules = EntryRules::new(Source::entry(SourceKind::Mcp, "bad"));
    let rules = EntryRules { prefix: String::new(), is_trusted: true, ..rules };
    McpOptions::new(rules, Reach::Program(Box::new(process)))
}

#[expect(clippy::disallowed_methods, reason = "stands in for the configuration")]
fn own_environment() -> Vec<(OsString, OsString)> {
    std::env::vars_os().collect()
}
