//! Programs, as a configuration describes them.

use std::sync::Arc;

use super::ToolsError;
use crate::config::{CommandConfig, Config, SandboxConfig, SandboxMode, process_environment};
use crate::limits::command as limits;
use crate::tools::command::{self, CommandTool, Element};
use crate::tools::process::{Confinement, Launcher, Layers, Limits, Sandbox, find_program};
use crate::tools::source::{LeftOut, Offering, SourceKind, SourceReport, SourceState};
use crate::tools::{Entry, Policy, Source, ToolSpec};

/// What all programs share.
pub(super) struct Commands<'c> {
    config: &'c Config,
    launcher: Arc<Launcher>,
    /// What of a sandbox holds; found out only if there are programs.
    layers: Layers,
}

impl<'c> Commands<'c> {
    pub(super) fn new(config: &'c Config) -> Self {
        let launcher = Arc::new(Launcher::own());
        let is_needed = !config.tools.command.is_empty();
        // A machine without a launcher has no sandbox.
        let layers = is_needed.then(|| launcher.layers().ok()).flatten().unwrap_or_default();
        Self { config, launcher, layers }
    }

    /// The tool of an entry, or why it is not offered.
    pub(super) fn offering(&self, entry: &CommandConfig) -> Result<Offering, ToolsError> {
        let source = Source::entry(SourceKind::Command, entry.name.as_str());
        if let Some(sandbox) = sandbox(&entry.sandbox)
            && sandbox.is_required
        {
            let missing = self.layers.missing(&sandbox);
            if !missing.is_empty() {
                let (tool, missing) = (entry.name.clone(), missing.join(", "));
                return Err(ToolsError::Sandbox { tool, missing });
            }
        }
        let mut report = SourceReport::new(source, SourceState::Ready);
        let mut tools = Vec::new();
        match self.tool(entry, &mut report) {
            Ok(tool) => tools.push(tool),
            Err(reason) => report.left_out.push(LeftOut { name: entry.name.clone(), reason }),
        }
        Ok(Offering { report, tools })
    }

    /// The tool of an entry. Notes what it runs, and what restricts it.
    fn tool(&self, entry: &CommandConfig, report: &mut SourceReport) -> Result<Entry, String> {
        let Some((Element::One(program), arguments)) = entry.command.split_first() else {
            return Err("it names no program".to_owned());
        };
        let environment = process_environment(&entry.env_inherit, &entry.env);
        let path = environment.iter().find(|(name, _)| name == "PATH").map(|(_, value)| &**value);
        let found = find_program(program.as_ref(), path, entry.cwd.as_deref());
        let found =
            found.ok_or_else(|| format!("there is no program {program} that can be run"))?;
        report.program = Some(found.clone());
        let timeout = entry.policy.timeout.or(entry.timeout);
        let policy = entry.policy.apply(Policy { mutates: true, ..Policy::NONE });
        let policy = Policy { timeout, ..policy };
        let limit = timeout.unwrap_or(self.config.limits.tool_timeout);
        let spec = ToolSpec {
            name: entry.name.clone(),
            description: entry.description.clone(),
            parameters: entry.parameters.clone(),
            waiting_hint: format!("running {}", entry.name.replace(['_', '-'], " ")),
            policy,
            source: report.source.clone(),
            ..ToolSpec::default()
        };
        let confinement = Confinement {
            limits: Some(Limits {
                cpu_sec: limit.as_secs() + limits::CPU_SEC_MORE,
                files: limits::FILES_MAX,
                file_bytes: limits::FILE_BYTES_MAX,
            }),
            sandbox: sandbox(&entry.sandbox),
        };
        report.sandbox = Some(confinement.held(&self.layers));
        let options = command::Options {
            program: found,
            arguments: arguments.to_vec(),
            environment,
            directory: entry.cwd.clone(),
            stdin: entry.stdin.clone(),
            output: entry.output,
            ok_exit_codes: entry.ok_exit_codes.clone(),
            progress: entry.progress,
            confinement,
            launcher: Some(Arc::clone(&self.launcher)),
        };
        let tool = CommandTool::new(Arc::new(spec), options).map_err(|error| error.to_string())?;
        Entry::new(Arc::new(tool)).map_err(|error| error.to_string())
    }
}

/// The sandbox that a configuration describes, if it wants one.
fn sandbox(config: &SandboxConfig) -> Option<Sandbox> {
    let SandboxConfig { mode, read, write, network } = config;
    (*mode != SandboxMode::Off).then(|| Sandbox {
        is_required: *mode == SandboxMode::Require,
        read: read.clone(),
        write: write.clone(),
        network: *network,
    })
}
