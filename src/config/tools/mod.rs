//! `tools`: which tools there are, and how calls run.

mod address;
mod auth;
mod command;
mod http;
mod mcp;
mod policy;
mod sandbox;
mod script;
mod shown;
mod values;

pub(super) use address::{range, ranges};

use std::path::Path;

use serde::Serialize;

pub use auth::AuthConfig;
pub use command::CommandConfig;
pub use http::{
    AccessConfig, BodyConfig, CredentialConfig, DocumentAt, HttpConfig, OpenApiConfig,
    RequestConfig, ResultConfig,
};
use mcp::Imported;
pub use mcp::{ImportConfig, McpConfig};
pub use sandbox::{SandboxConfig, SandboxMode};
pub use shown::Shown;

use super::raw::Node;
use super::reader::{Keys, Refused, boolean, enumerate, integer, text};
use super::surroundings::Surroundings;
use super::values::{CONTRACTS, choice};
use crate::call_format::ContractSetting;
use crate::limits::config as bounds;
use crate::orchestrator::{Execution, Rules, Select};
use crate::text::closest;
use crate::tools::{Confirm, Glob};

/// `tools`: which tools there are, and how calls run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ToolsConfig {
    /// How the model makes a call.
    pub call_contract: ContractSetting,
    /// Whether the model continues with the results.
    pub continue_after_tool: bool,
    /// When a call starts to run.
    pub execution: Execution,
    /// How many calls of a turn may run at the same time.
    pub max_parallel: usize,
    /// Which calls the user is asked to approve.
    pub confirm: Confirm,
    /// How many tools the model is told about.
    pub select: Select,
    /// Names of built-in tools, each once.
    pub builtin: Vec<String>,
    /// Whether the demonstration tools are offered too.
    pub demo: bool,
    /// Tools over HTTP.
    pub http: Vec<HttpConfig>,
    /// Tools that are programs.
    pub command: Vec<CommandConfig>,
    /// MCP servers.
    #[serde(serialize_with = "mcp::written")]
    pub mcp: Vec<McpConfig>,
    /// Files of MCP servers that have not been read yet.
    #[serde(skip)]
    pub imports: Vec<ImportConfig>,
    /// What was ignored in the imported files, a sentence each.
    #[serde(skip)]
    pub import_warnings: Vec<String>,
}

impl ToolsConfig {
    /// The names that `tools.builtin` accepts.
    pub const BUILTIN: [&str; 2] = ["get_current_time", "calculate"];

    /// Finds the files that the configuration names, and reads those that it imports.
    pub(super) fn resolve(&mut self, around: &Surroundings<'_>) {
        for entry in &mut self.http {
            if let HttpConfig::OpenApi(entry) = entry
                && let DocumentAt::File(path) = &mut entry.openapi
            {
                *path = around.path(path);
            }
        }
        for import in std::mem::take(&mut self.imports) {
            let imported = import.servers(around);
            self.take_over(&import.path, imported);
        }
    }

    /// Adds imported servers. A name that is already taken stays with its first entry.
    fn take_over(&mut self, path: &Path, imported: Imported) {
        let file = path.display();
        let warnings = imported.warnings.iter().map(|warning| format!("{file}: {warning}"));
        self.import_warnings.extend(warnings);
        for server in imported.servers {
            let name = &server.name;
            if self.mcp.iter().any(|other| other.name == *name) {
                self.import_warnings.push(format!(
                    "{file}: {name} is left out: there is already an entry with this name"
                ));
                continue;
            }
            self.mcp.push(server);
        }
    }
}

impl Default for ToolsConfig {
    fn default() -> Self {
        let Rules { continue_after_tool, execution, max_parallel, confirm, select, .. } =
            Rules::default();
        Self {
            call_contract: ContractSetting::default(),
            continue_after_tool,
            execution,
            max_parallel,
            confirm,
            select,
            builtin: Self::BUILTIN.map(str::to_owned).to_vec(),
            demo: false,
            http: Vec::new(),
            command: Vec::new(),
            mcp: Vec::new(),
            imports: Vec::new(),
            import_warnings: Vec::new(),
        }
    }
}

/// Reads the section.
pub(super) fn read(mut keys: Keys<'_, '_>) -> ToolsConfig {
    let default = ToolsConfig::default();
    let executions = &[("eager", Execution::Eager), ("after_turn", Execution::AfterTurn)];
    let contract = choice("call_contract", &CONTRACTS);
    let parallel = integer(1..=bounds::PARALLEL_MAX, "calls");
    let (mcp, imports) = mcp::read(&mut keys);
    let tools = ToolsConfig {
        call_contract: keys.read("call_contract", default.call_contract, contract),
        continue_after_tool: keys.read("continue_after_tool", default.continue_after_tool, boolean),
        execution: keys.read("execution", default.execution, choice("execution", executions)),
        max_parallel: keys.read("max_parallel", default.max_parallel, parallel),
        confirm: keys.read("confirm", default.confirm, choice("confirm", &Confirm::ALL)),
        select: select(keys.section("select"), default.select),
        builtin: keys.list("builtin", default.builtin, builtin),
        demo: keys.read("demo", default.demo, boolean),
        http: keys.sections("http", http::read).unwrap_or_default(),
        command: keys.sections("command", command::read).unwrap_or_default(),
        mcp,
        imports,
        import_warnings: Vec::new(),
    };
    for (index, name) in tools.builtin.iter().enumerate() {
        if tools.builtin.iter().take(index).any(|earlier| earlier == name) {
            keys.refuse("builtin", format!("found `{name}` twice, expected each name once"));
        }
    }
    keys.finish();
    tools
}

fn select(mut keys: Keys<'_, '_>, default: Select) -> Select {
    let glob = |node: &Node| Ok(Glob::new(text(node)?));
    let count = || integer(0..=bounds::TOLD_TOOLS_MAX, "tools");
    let select = Select {
        max_told: keys.read(
            "max_told",
            default.max_told,
            integer(1..=bounds::TOLD_TOOLS_MAX, "tools"),
        ),
        always: keys.list("always", default.always, glob),
        names: keys.read("names", default.names, count()),
    };
    keys.finish();
    select
}

fn builtin(node: &Node) -> Result<String, Refused> {
    let text = text(node)?;
    if ToolsConfig::BUILTIN.contains(&text) {
        return Ok(text.to_owned());
    }
    let expected = match closest(text, ToolsConfig::BUILTIN) {
        Some(known) => format!("a built-in tool; did you mean `{known}`?"),
        None => format!("a built-in tool: {}", enumerate(&ToolsConfig::BUILTIN)),
    };
    Err(Refused::new(node, expected))
}
