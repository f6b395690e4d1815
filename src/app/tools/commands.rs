//! Tools that are programs, as a configuration describes them.

use std::num::NonZero;
use std::sync::Arc;
use std::thread::available_parallelism;

use super::programs::{Programs, found, hide_unreadable_home, sandbox};
use super::{OperatorTool, ToolsError, written_spec};
use crate::config::{CommandConfig, Config, process_environment};
use crate::limits::command as limits;
use crate::tools::command::{self, CommandTool, Element};
use crate::tools::process::{Confinement, Limits, missing_directory};
use crate::tools::source::{LeftOut, Offering, SourceKind, SourceReport, SourceState};
use crate::tools::{Entry, Policy, Source};

/// The programs of a configuration.
pub(super) struct Commands<'c> {
    pub(super) config: &'c Config,
    pub(super) programs: &'c Programs,
}

impl Commands<'_> {
    /// The tool of an entry, or why it is not offered.
    pub(super) fn offering(&self, entry: &CommandConfig) -> Result<Offering, ToolsError> {
        let source = Source::entry(SourceKind::Command, entry.name.as_str());
        self.programs.check(&entry.name, sandbox(&entry.sandbox).as_ref())?;
        let mut report = SourceReport::new(source, SourceState::Ready);
        let mut tools = Vec::new();
        match self.tool(entry, &mut report) {
            Ok(tool) => tools.push(tool),
            Err(reason) => report.left_out.push(LeftOut { name: entry.name.clone(), reason }),
        }
        Ok(Offering { report, tools })
    }

    /// The tool of an entry. Reports what it runs, and what restricts it.
    fn tool(&self, entry: &CommandConfig, report: &mut SourceReport) -> Result<Entry, String> {
        let Some((Element::One(program), arguments)) = entry.command.reveal().split_first() else {
            return Err("it names no program".to_owned());
        };
        let mut environment = process_environment(&entry.env_inherit, &entry.env);
        let sandbox = sandbox(&entry.sandbox);
        if let Some(sandbox) = &sandbox
            && self.programs.restrict_files()
            && !entry.names_variable("HOME")
        {
            hide_unreadable_home(&mut environment, sandbox, entry.cwd.as_deref());
        }
        let found = found(program, &environment, entry.cwd.as_deref())?;
        report.program = Some(found.clone());
        report.error = missing_directory(entry.cwd.as_deref());
        let timeout = entry.policy.timeout.or(entry.timeout);
        let policy = entry.policy.apply(Policy { mutates: true, ..Policy::NONE });
        let policy = Policy { timeout, ..policy };
        let limit = timeout.unwrap_or(self.config.limits.tool_timeout);
        let CommandConfig { name, description, parameters, .. } = entry;
        let tool = OperatorTool { name, description, parameters };
        let spec = written_spec(&report.source, "running", tool, policy)?;
        let confinement = Confinement {
            limits: Some(Limits {
                cpu_sec: (limit.as_secs() + limits::CPU_SEC_MORE).saturating_mul(processors()),
                files: limits::FILES_MAX,
                file_bytes: limits::FILE_BYTES_MAX,
            }),
            sandbox,
        };
        report.sandbox = Some(self.programs.held(&confinement));
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
            launcher: Some(Arc::clone(self.programs.launcher())),
        };
        let tool = CommandTool::new(Arc::new(spec), options).map_err(|error| error.to_string())?;
        Entry::new(Arc::new(tool)).map_err(|error| error.to_string())
    }
}

/// How many processors a program may keep busy at once.
fn processors() -> u64 {
    available_parallelism().map_or(1, NonZero::get) as u64
}
