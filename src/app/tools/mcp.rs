//! MCP servers, as a configuration describes them.

use std::sync::Arc;

use super::ToolsError;
use super::programs::{Programs, found, sandbox};
use crate::config::{AuthConfig, Config, McpConfig, Shown, process_environment};
use crate::tools::mcp::{HttpReach, McpOptions, McpServer, Reach};
use crate::tools::outbound::{Addresses, Client, ClientOptions};
use crate::tools::process::{self, Confinement};
use crate::tools::source::{EntryRules, SourceKind};
use crate::tools::{Source, Sources};

/// Adds the server of an entry.
///
/// # Errors
/// If its sandbox is required, but does not hold.
pub(super) fn add(
    sources: &mut Sources,
    entry: &McpConfig,
    config: &Config,
    programs: &Programs,
) -> Result<(), ToolsError> {
    let server = server(entry, config, programs)?;
    sources.push_live(server.starting(), move || server.follow());
    Ok(())
}

/// The server of an entry, not connected.
///
/// # Errors
/// If its sandbox is required, but does not hold.
pub(super) fn server(
    entry: &McpConfig,
    config: &Config,
    programs: &Programs,
) -> Result<McpServer, ToolsError> {
    let rules = EntryRules {
        prefix: entry.prefix.clone(),
        allow: entry.allow.clone(),
        deny: entry.deny.clone(),
        policy: entry.policy.clone(),
        is_trusted: entry.trust,
        ..EntryRules::new(Source::entry(SourceKind::Mcp, entry.name.as_str()))
    };
    let options = McpOptions {
        protocol: entry.protocol,
        is_required: entry.required,
        connections: entry.connections,
        connect_timeout: entry.connect_timeout,
        silence_max: config.limits.tool_timeout,
        call_max: entry.max_call,
        result_bytes_max: entry.max_result_bytes,
        may_send_to_pages: entry.elicit_urls,
        pin: entry.pin.clone(),
        ..McpOptions::new(rules, reach(entry, programs)?)
    };
    let server = McpServer::new(options);
    Ok(match &entry.sandbox {
        Some(config) => {
            let confinement = Confinement { limits: None, sandbox: sandbox(config) };
            server.restricted_by(programs.held(&confinement))
        }
        None => server,
    })
}

fn reach(entry: &McpConfig, programs: &Programs) -> Result<Reach, ToolsError> {
    if let Some(problem) = &entry.problem {
        return Ok(Reach::Missing(problem.clone()));
    }
    if let Some(url) = entry.url.as_ref().map(Shown::reveal) {
        let headers = entry.headers.iter();
        let headers = headers.map(|(name, value)| (name.clone(), value.reveal().to_owned()));
        // The operator chose this address, private or not.
        let client = Client::new(ClientOptions::new(Addresses::Of(url.clone())));
        let auth = match entry.auth.as_ref().map(AuthConfig::credentials).transpose() {
            Ok(auth) => auth,
            Err(reason) => return Ok(Reach::Missing(reason)),
        };
        let reach = HttpReach { url: url.clone(), headers: headers.collect(), auth, client };
        return Ok(Reach::Http(Box::new(reach)));
    }
    let sandbox = entry.sandbox.as_ref().and_then(sandbox);
    programs.check(&entry.name, sandbox.as_ref())?;
    let Some((program, arguments)) = entry.command.reveal().split_first() else {
        return Ok(Reach::Missing("it names no program".to_owned()));
    };
    let environment = process_environment(&entry.env_inherit, &entry.env);
    let found = match found(program, &environment, entry.cwd.as_deref()) {
        Ok(found) => found,
        Err(reason) => return Ok(Reach::Missing(reason)),
    };
    Ok(Reach::Program(Box::new(process::Options {
        program: found,
        arguments: arguments.iter().map(Into::into).collect(),
        environment,
        directory: entry.cwd.clone(),
        has_input: true,
        session: None,
        confinement: Confinement { limits: None, sandbox },
        launcher: Some(Arc::clone(programs.launcher())),
    })))
}
