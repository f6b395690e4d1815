//! `tether check --probe`: asks the sources of tools, and suggests settings.

use super::warn_of_names;
use crate::app;
use crate::cli::runtime::runtime;
use crate::cli::tools::settle;
use crate::cli::{CliError, print_diagnostic};
use crate::config::{Config, McpConfig};
use crate::tools::mcp::Protocol;
use crate::tools::source::{SourceKind, SourceState};
use crate::tools::{SourceReport, ToolSpec, Toolset};

/// Asks them, and writes what it finds to standard error. Returns whether those that turns wait for can be used.
///
/// # Errors
/// [`CliError::Usage`] if this machine cannot do what the configuration requires.
pub(super) fn probe(config: &Config) -> Result<bool, CliError> {
    runtime()?.block_on(async {
        let mut sources = app::tools(config).map_err(CliError::usage)?;
        let toolset = settle::settled(&mut sources, settle::wait(config)).await;
        print(&toolset, config);
        sources.stop().await;
        Ok(toolset.awaited().is_none())
    })
}

fn print(toolset: &Toolset, config: &Config) {
    settle::report(toolset);
    warn_of_names(config, toolset);
    let findings = toolset.sources.iter().flat_map(|report| of_source(report, config, toolset));
    for finding in findings {
        print_diagnostic("note", finding);
    }
    print_diagnostic("note", context_taken(config, toolset));
    for SourceReport { source, .. } in toolset.all_awaited() {
        let message = format!("{source}: it is `required`, so no turn can begin without it");
        print_diagnostic("error", message);
    }
}

/// How much of the context the tools take.
fn context_taken(config: &Config, toolset: &Toolset) -> String {
    let catalog = toolset.tools.catalog();
    let rules = app::rules(config);
    let (count, tokens) = (catalog.specs().len(), rules.told_tokens_of(catalog));
    let budget = rules.context_budget_tokens;
    let taken = format!("{count} tools take about {tokens} of {budget} tokens of context");
    if rules.can_tell_all(catalog) {
        return format!("{taken}; the model is told about all of them");
    }
    let most = rules.select.max_told;
    format!(
        "{taken}: each question gets the best matches, up to {most} in a quarter of the context. \
         Set `allow`, `deny` or `include` to offer fewer, `tools.select.always` to show some every \
         time, or a higher `tools.select.max_told` and `model.context_budget_tokens`"
    )
}

fn of_source(report: &SourceReport, config: &Config, toolset: &Toolset) -> Vec<String> {
    let source = &report.source;
    let tools: Vec<&ToolSpec> =
        toolset.tools.catalog().specs().filter(|tool| tool.source == *source).collect();
    let named = |name: &str| *name == *source.name;
    let advice = match source.kind {
        SourceKind::Mcp => {
            let entry = config.tools.mcp.iter().find(|entry| named(&entry.name));
            entry.map(|entry| of_server(entry, report, &tools)).unwrap_or_default()
        }
        SourceKind::Command => {
            let entry = config.tools.command.iter().find(|entry| named(&entry.name));
            let is_settled = entry.is_none_or(|entry| entry.policy.mutates.is_some());
            (!is_settled).then(|| UNSETTLED.to_owned()).into_iter().collect()
        }
        _ => Vec::new(),
    };
    advice.into_iter().map(|advice| format!("{source}: {advice}")).collect()
}

const UNSETTLED: &str = "it counts as changing something, so its calls run one by one and are not \
                         repeated: set `policy: {mutates: false}` if it only reads";

fn of_server(entry: &McpConfig, report: &SourceReport, tools: &[&ToolSpec]) -> Vec<String> {
    if report.state != SourceState::Ready {
        return vec![of_silent_server(entry)];
    }
    let (era, version) = (report.era.unwrap_or("?"), report.version.as_deref().unwrap_or("?"));
    let count = tools.len();
    let mut advice = vec![format!("it offers {count} tools over MCP {version}")];
    if entry.protocol == Protocol::Auto {
        advice.push(format!("set `protocol: {era}` to skip finding that out at each start"));
    }
    if let Some(pin) = &report.pin
        && entry.pin.is_none()
    {
        advice.push(format!("set `pin: {pin}` to accept only this list"));
    }
    let unsettled = tools.iter().filter(|tool| tool.policy.mutates).count();
    if !entry.trust && entry.policy.is_empty() && unsettled > 0 {
        advice.push(format!(
            "{unsettled} of its tools count as changing something, so their calls run one by one \
             and are not repeated: set `trust: true` to believe what it says about them, or \
             `policy` by name, such as `{{\"read_*\": {{mutates: false}}}}`"
        ));
    }
    advice
}

fn of_silent_server(entry: &McpConfig) -> String {
    if entry.problem.is_some() {
        return "write an entry for it under `tools.mcp` instead of importing it, or repair the \
                file"
            .to_owned();
    }
    if entry.url.is_some() {
        return "check `url`, and `headers` or `auth` if it requires authentication".to_owned();
    }
    "run its `command` by hand; it gets only the usual variables, so name others that it needs in \
     `env_inherit`, and raise `connect_timeout_sec` if it has to be downloaded first"
        .to_owned()
}
