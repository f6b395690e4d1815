//! The body of the fuzz target `mcp_server`; an ordinary test replays its corpus.

use rmcp::model::ServerJsonRpcMessage;
use serde_json::Value;

use super::connection::Era;
use super::list::{ListedTool, Listing, Pages};
use super::stdio::fuzz::check_lines;
use super::tool::result::{self, Reading};
use super::{message, question};
use crate::limits::tools::OUTPUT_BYTES_MIN;
use crate::text::json_len;
use crate::tools::source::{EntryRules, Source, SourceKind, clean_text};
use crate::tools::{ToolResult, is_tool_name};

/// Target `mcp_server`: whatever a server says is read as it was meant or refused, and what the model and the
/// user see of it stays within bounds.
///
/// The first byte chooses what the rest is: a message, lines that are cut, a list of tools, the
/// result of a call, or a question to the user.
///
/// # Panics
/// If that does not hold.
pub fn mcp_server(data: &[u8]) {
    let Some((&choice, said)) = data.split_first() else { return };
    if choice % 5 == 1 {
        return check_lines(said);
    }
    let Ok(text) = std::str::from_utf8(said) else { return };
    if choice % 5 == 0 {
        return check_message(text);
    }
    let Ok(said) = serde_json::from_str(text) else { return };
    match choice % 5 {
        2 => check_list(&said),
        3 => check_result(said, choice >= 128),
        _ => check_question(&said),
    }
}

/// The result of a response arrives as it was sent, whatever its shape.
fn check_message(text: &str) {
    let guessed = message::read(text, false).is_ok();
    let Ok(read) = message::read(text, true) else {
        // What rmcp can read by itself, it can also read with its result wrapped.
        return assert!(!guessed, "only with its result as it is: {text}");
    };
    let Ok(sent) = serde_json::from_str::<Value>(text) else { return };
    if let ServerJsonRpcMessage::Response(response) = read
        && let Some(result) = message::unwrap(response.result)
    {
        assert_eq!(Some(&result), sent.get("result"));
    }
}

/// Every tool of a list is offered or left out, each on its own, and their order changes nothing.
fn check_list(page: &Value) {
    for era in [Era::Legacy, Era::Modern] {
        let Some(listing) = listing(page.clone(), era) else { return };
        let Some(Value::Array(tools)) = page.get("tools") else { panic!("a list without tools") };
        assert!(listing.tools.len() + listing.left_out.len() <= tools.len());
        let backwards: Vec<Value> = tools.iter().rev().cloned().collect();
        let backwards = self::listing(serde_json::json!({ "tools": backwards }), era);
        assert_eq!(backwards.expect("a list").pin, listing.pin, "backwards");
        for tool in tools {
            let alone = self::listing(serde_json::json!({ "tools": [tool] }), era);
            let alone = alone.expect("a list");
            assert_eq!(alone.tools.len() + alone.left_out.len(), 1, "{tool}");
            assert!(alone.tools.iter().all(|tool| listing.tools.contains(tool)), "{tool}");
        }
        listing.tools.into_iter().for_each(check_tool);
    }
}

fn listing(page: Value, era: Era) -> Option<Listing> {
    let mut pages = Pages::new(era);
    pages.add(page).ok()?;
    Some(pages.listing())
}

/// A tool that is offered has a name and a description for models.
fn check_tool(tool: ListedTool) {
    let rules = EntryRules::new(Source { kind: SourceKind::Mcp, name: "files".into() });
    let parameters = tool.declared.parameters.clone();
    let Ok(spec) = rules.spec(tool.declared) else { return };
    assert!(is_tool_name(&spec.name), "{:?}", spec.name);
    assert_eq!(spec.parameters, parameters, "calls are checked by the server's own schema");
    let description = &spec.description;
    assert_eq!(*description, clean_text(description, description.len()), "cleaned twice");
}

/// A result that was read keeps its form when it is checked, cut to size and stored.
fn check_result(sent: Value, is_trusted: bool) {
    let Ok(result) = result::read(sent, &Reading { output: None, is_trusted }) else { return };
    let checked = result.checked();
    assert_eq!(checked.clone().checked(), checked, "checked twice");
    let capped = checked.capped(OUTPUT_BYTES_MIN);
    assert_eq!(capped.clone().capped(OUTPUT_BYTES_MIN), capped, "cut twice");
    let data = capped.data.as_ref().map_or(0, json_len);
    assert!(data <= OUTPUT_BYTES_MIN, "{data} bytes: {capped:?}");
    let written = serde_json::to_string(&capped).expect("a result is JSON");
    let read: ToolResult = serde_json::from_str(&written).expect("it can be read again");
    assert_eq!(serde_json::to_string(&read).expect("a result is JSON"), written);
}

/// A question for the user contains nothing invisible, and no page that is not allowed.
fn check_question(params: &Value) {
    for may_send_to_pages in [false, true] {
        let Ok(question) = question::read(params, may_send_to_pages) else { continue };
        let words = &question.question;
        assert_eq!(*words, clean_text(words, words.len()), "cleaned twice");
        assert!(question.url.is_none() || may_send_to_pages, "a page that is not allowed");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn corpus_of_mcp_server() {
        crate::corpus::replay("mcp_server", mcp_server);
    }
}
