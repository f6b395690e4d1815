//! Listed tools as entries of the registry, within limits on what their schemas take.

use std::collections::HashSet;
use std::sync::Arc;

use super::result::Reading;
use super::{McpTool, Shared};
use crate::limits::mcp as limits;
use crate::tools::Entry;
use crate::tools::mcp::connection::Connection;
use crate::tools::mcp::link::Link;
use crate::tools::mcp::list::ListedTool;
use crate::tools::mcp::options::McpOptions;
use crate::tools::schema::{PatternsLeft, Schema};
use crate::tools::source::LeftOut;

/// The tools that can be offered, and the others.
pub(in crate::tools::mcp) fn entries(
    listed: Vec<ListedTool>,
    options: &McpOptions,
    link: &Link,
    connection: &Arc<Connection>,
) -> (Vec<Entry>, Vec<LeftOut>) {
    let (mut tools, mut left_out) = (Vec::new(), Vec::new());
    let mut names = HashSet::new();
    let mut patterns_left = PatternsLeft::new(limits::LIST_PATTERNS_MAX);
    for tool in listed {
        let name = tool.declared.name.clone();
        let schemas = [&tool.declared.parameters].into_iter().chain(&tool.output);
        let entry = if patterns_left.take(schemas) {
            entry(tool, options, link, connection)
        } else {
            Err(format!(
                "the schemas of the list have more than {} patterns, which take too much time and \
                 memory; leave some out with `deny`",
                limits::LIST_PATTERNS_MAX
            ))
        };
        match entry {
            Ok(_) if !names.insert(name.clone()) => {
                let reason = "another tool of the server has the same name".to_owned();
                left_out.push(LeftOut { name, reason });
            }
            Ok(entry) => tools.push(entry),
            Err(reason) => left_out.push(LeftOut { name, reason }),
        }
    }
    (tools, left_out)
}

/// A tool that can be offered.
fn entry(
    listed: ListedTool,
    options: &McpOptions,
    link: &Link,
    connection: &Arc<Connection>,
) -> Result<Entry, String> {
    let ListedTool { declared, definition, output, params } = listed;
    let name = declared.name.clone();
    let mut spec = options.rules.spec(declared)?;
    let (silence_max, silence_key) = match spec.policy.timeout {
        Some(timeout) => (timeout, "timeout_sec"),
        None => (options.silence_max, "limits.tool_timeout_sec"),
    };
    spec.policy.timeout = Some(options.call_max);
    spec.implementation = options.reach.digest();
    // A schema that cannot be used only means that results are not checked.
    let output = output.and_then(|schema| Schema::compile(&schema).ok());
    let shared = Shared {
        name,
        definition,
        listed_by: Arc::downgrade(connection),
        params,
        reading: Reading { output, is_trusted: options.rules.is_trusted },
        link: link.clone(),
        silence_max,
        silence_key,
        call_max: options.call_max,
        result_bytes_max: options.result_bytes_max,
        may_send_to_pages: options.may_send_to_pages,
        pin: options.pin.clone(),
        reached: options.reach.trace_attributes(),
        keys: options.reach.keys(),
    };
    let tool = McpTool::new(Arc::new(spec), Arc::new(shared));
    Entry::new(Arc::new(tool)).map_err(|error| error.to_string())
}
