//! The list of a server's tools, judged tool by tool.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use rmcp::model::{ClientRequest, ListToolsRequest, PaginatedRequestParams};
use rmcp::service::{PeerRequestOptions, ServiceError};
use serde_json::{Map, Value, json};
use tokio::time::{Instant, timeout_at};

use super::cause::told_request;
use super::connection::{Connection, Era};
use super::http::params::{Param, params};
use super::message;
use crate::limits::mcp::{LIST_BYTES_MAX, LIST_PAGES_MAX, LIST_TIMEOUT, LIST_TOOLS_MAX};
use crate::text::{json_len, quote};
use crate::tools::source::{Declared, Effects, Hints, LeftOut};
use crate::tools::{ToolFault, digest};

/// A server's tools.
#[derive(Debug, Default)]
pub(super) struct Listing {
    pub(super) tools: Vec<ListedTool>,
    pub(super) left_out: Vec<LeftOut>,
    /// Why the list is incomplete, if it is.
    pub(super) cut: Option<String>,
    /// What an operator pins.
    pub(super) pin: String,
    /// How long it may be used, if the server says so.
    pub(super) lasts: Option<Duration>,
}

impl Listing {
    /// The names of all tools that it has, whether they can be offered or not.
    pub(super) fn names(&self) -> Vec<String> {
        let tools = self.tools.iter().map(|tool| &tool.declared.name);
        tools.chain(self.left_out.iter().map(|tool| &tool.name)).cloned().collect()
    }
}

/// A tool of a server.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct ListedTool {
    pub(super) declared: Declared,
    /// A hash of everything about it that a model or an operator relies on.
    pub(super) definition: String,
    /// A JSON Schema of its structured results.
    pub(super) output: Option<Value>,
    /// The arguments that are repeated in headers.
    pub(super) params: Vec<Param>,
}

/// Why a list cannot be used. Its words are for operators.
#[derive(Debug, thiserror::Error)]
pub(super) enum NotListed {
    /// There is none for now.
    #[error("{0}")]
    Failed(String),
    /// It is not the pinned one, so what was offered before must be withdrawn.
    #[error(
        "its tools do not match `pin`, so none are offered: found {0}; look at what changed \
         before you pin it"
    )]
    NotPinned(String),
}

impl NotListed {
    /// The fault of a call that could not be sent for this reason.
    pub(super) fn fault(&self) -> ToolFault {
        match self {
            Self::Failed(reason) => ToolFault::transient(reason),
            Self::NotPinned(_) => ToolFault::permanent(
                "the tool was not called: its definition no longer matches its pin",
            ),
        }
        .before_sending()
    }
}

/// Asks for all pages, and compares them with what an operator pinned.
///
/// # Errors
/// See [`NotListed`].
pub(super) async fn checked(
    connection: &Connection,
    pin: Option<&str>,
) -> Result<Listing, NotListed> {
    let listed = list(connection).await;
    let listing = listed.map_err(NotListed::Failed)?;
    if pin.is_some_and(|pin| pin != listing.pin) {
        return Err(NotListed::NotPinned(listing.pin));
    }
    Ok(listing)
}

/// Asks for all pages.
///
/// # Errors
/// Why there is no list, without the keys that the server is given.
pub(super) async fn list(connection: &Connection) -> Result<Listing, String> {
    all_pages(connection).await.map_err(|reason| connection.hidden(reason))
}

async fn all_pages(connection: &Connection) -> Result<Listing, String> {
    if !connection.has_tools {
        return Ok(Listing { pin: pin(&[]), ..Listing::default() });
    }
    let until = Instant::now() + LIST_TIMEOUT;
    let mut pages = Pages::new(connection.era);
    let mut cursor = None;
    loop {
        // rmcp gives up a little earlier than we do, so that it forgets the request and tells the server.
        let page = page(connection, cursor.clone(), until);
        let page = timeout_at(until + Duration::from_secs(1), page).await;
        let page = page.unwrap_or_else(|_| Err(too_late()))?;
        match pages.add(page)? {
            Some(next) => cursor = Some(next),
            None => break,
        }
    }
    let listing = pages.listing();
    let mut definitions = HashMap::new();
    // Of several tools with one name, the first is offered.
    for tool in &listing.tools {
        let definition = definitions.entry(tool.declared.name.clone());
        definition.or_insert_with(|| tool.definition.clone());
    }
    connection.note_list(definitions, listing.lasts);
    Ok(listing)
}

async fn page(
    connection: &Connection,
    cursor: Option<String>,
    until: Instant,
) -> Result<Value, String> {
    let request = match cursor {
        Some(cursor) => ListToolsRequest::with_param(
            PaginatedRequestParams::default().with_cursor(Some(cursor)),
        ),
        None => ListToolsRequest::default(),
    };
    let request = ClientRequest::ListToolsRequest(request);
    let left = until.saturating_duration_since(Instant::now());
    let options = PeerRequestOptions::with_timeout(left);
    let handle = connection.peer.send_cancellable_request(request, options).await;
    let answer = match handle {
        Ok(handle) => handle.await_response().await,
        Err(error) => Err(error),
    };
    let answer = answer.map_err(|error| match error {
        ServiceError::Timeout { .. } => too_late(),
        error => format!("it does not list its tools: {}", told_request(&error)),
    })?;
    message::unwrap(answer).ok_or_else(|| "its list of tools cannot be read".to_owned())
}

fn too_late() -> String {
    format!("it did not list its tools within {} s", LIST_TIMEOUT.as_secs())
}

/// The pages that have come so far.
#[derive(Debug)]
pub(super) struct Pages {
    era: Era,
    tools: Vec<Value>,
    bytes: usize,
    count: usize,
    cursors: HashSet<String>,
    cut: Option<String>,
    lasts: Option<Duration>,
}

impl Pages {
    pub(super) fn new(era: Era) -> Self {
        Self {
            era,
            tools: Vec::new(),
            bytes: 0,
            count: 0,
            cursors: HashSet::new(),
            cut: None,
            lasts: None,
        }
    }

    /// Adds a page and returns the cursor of the next, if there is one to ask for.
    pub(super) fn add(&mut self, mut page: Value) -> Result<Option<String>, String> {
        let tools = page.get_mut("tools").map(Value::take);
        let Some(Value::Array(tools)) = tools else {
            return Err("its answer has no list of tools".to_owned());
        };
        self.count += 1;
        let lasts = page.get("ttlMs").and_then(Value::as_u64).map(Duration::from_millis);
        self.lasts = self.lasts.into_iter().chain(lasts).min();
        for tool in tools {
            self.bytes += json_len(&tool);
            if self.tools.len() == LIST_TOOLS_MAX || self.bytes > LIST_BYTES_MAX {
                let what = if self.bytes > LIST_BYTES_MAX {
                    format!("{} MiB", LIST_BYTES_MAX / crate::limits::MIB)
                } else {
                    format!("{LIST_TOOLS_MAX} tools")
                };
                self.cut = Some(format!("its list has more than {what}; the rest is left out"));
                return Ok(None);
            }
            self.tools.push(tool);
        }
        let Some(Value::String(next)) = page.get("nextCursor") else { return Ok(None) };
        // SDKs of the old era write an absent cursor like this.
        if next.is_empty() && self.era == Era::Legacy {
            return Ok(None);
        }
        if !self.cursors.insert(next.clone()) {
            self.cut = Some("its list begins again; the rest is left out".to_owned());
            return Ok(None);
        }
        if self.count == LIST_PAGES_MAX {
            self.cut = Some(format!(
                "its list has more than {LIST_PAGES_MAX} pages; the rest is left out"
            ));
            return Ok(None);
        }
        Ok(Some(next.clone()))
    }

    pub(super) fn listing(self) -> Listing {
        let Self { era, tools, cut, lasts, .. } = self;
        let mut listing = Listing { pin: pin(&tools), cut, lasts, ..Listing::default() };
        let mut seen = HashSet::new();
        for tool in tools {
            // A page that comes twice has nothing new.
            if !seen.insert(relied_on(&tool)) {
                continue;
            }
            let name = tool.get("name").and_then(Value::as_str);
            let name = name.map_or_else(|| "(without a name)".to_owned(), str::to_owned);
            match listed(tool, era) {
                Ok(tool) => listing.tools.push(tool),
                Err(reason) => listing.left_out.push(LeftOut { name, reason }),
            }
        }
        listing
    }
}

/// Reads a tool.
///
/// # Errors
/// Why it cannot be offered.
fn listed(tool: Value, era: Era) -> Result<ListedTool, String> {
    let definition = digest::of_text(&relied_on(&tool));
    let Value::Object(mut tool) = tool else { return Err("it is not an object".to_owned()) };
    let Some(Value::String(name)) = tool.remove("name") else {
        return Err("it has no name".to_owned());
    };
    let needs_task = tool.get("execution").and_then(|execution| execution.get("taskSupport"));
    if needs_task == Some(&json!("required")) {
        return Err("it runs only as a task, which is not supported".to_owned());
    }
    let parameters = match tool.remove("inputSchema") {
        Some(schema @ Value::Object(_)) => schema,
        Some(other) => {
            return Err(format!("its schema is {}, not an object", quote(&other.to_string())));
        }
        None => json!({ "type": "object" }),
    };
    let params = match era {
        Era::Modern => params(&parameters)?,
        Era::Legacy => Vec::new(),
    };
    let annotations = match tool.remove("annotations") {
        Some(Value::Object(annotations)) => annotations,
        _ => Map::new(),
    };
    let mut text = |key: &str| match tool.remove(key) {
        Some(Value::String(text)) => Some(text),
        _ => None,
    };
    let title = text("title");
    let title = title.or_else(|| annotations.get("title")?.as_str().map(str::to_owned));
    let description = text("description").or_else(|| title.clone()).unwrap_or_default();
    let hint = |key: &str| annotations.get(key).and_then(Value::as_bool);
    let hints = Hints {
        read_only: hint("readOnlyHint"),
        destructive: hint("destructiveHint"),
        idempotent: hint("idempotentHint"),
        open_world: hint("openWorldHint"),
    };
    let effects = Effects::Hinted(hints);
    let declared = Declared { name, title, description, parameters, effects };
    let output = tool.remove("outputSchema").filter(Value::is_object);
    Ok(ListedTool { declared, definition, output, params })
}

/// A hash of everything in a list that a model or an operator relies on, whatever the order.
fn pin(tools: &[Value]) -> String {
    let mut tools: Vec<String> = tools.iter().map(relied_on).collect();
    tools.sort_unstable();
    format!("sha256:{}", digest::of_text(&tools.join("\n")))
}

/// Everything about a tool that a model or an operator relies on.
fn relied_on(tool: &Value) -> String {
    const RELIED_ON: &[&str] =
        &["annotations", "description", "inputSchema", "name", "outputSchema", "title"];
    let members = tool.as_object().into_iter().flatten();
    let members = members.filter(|(key, _)| RELIED_ON.contains(&key.as_str()));
    let members = members.map(|(key, value)| (key.clone(), value.clone())).collect();
    digest::canonical(&Value::Object(members))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listing(tools: impl Into<Value>) -> Listing {
        let mut pages = Pages::new(Era::Modern);
        let page = [("tools".to_owned(), tools.into())].into_iter().collect();
        assert_eq!(pages.add(Value::Object(page)), Ok(None));
        pages.listing()
    }

    #[test]
    fn a_malformed_tool_does_not_affect_the_others() {
        let listing = listing(json!([
            { "name": "good", "inputSchema": { "type": "object" }, "title": "Good" },
            5,
            { "inputSchema": {} },
            { "name": "list", "inputSchema": [] },
            { "name": "task", "inputSchema": {}, "execution": { "taskSupport": "required" } },
            { "name": "odd", "inputSchema": {}, "description": 5, "annotations": "none" },
            { "name": "header", "inputSchema": { "x-mcp-header": "A" } },
        ]));
        let names: Vec<_> = listing.tools.iter().map(|tool| &*tool.declared.name).collect();
        assert_eq!(names, ["good", "odd"]);
        assert_eq!(listing.tools[0].declared.description, "Good");
        let left_out: Vec<_> = listing.left_out.iter().map(|tool| &*tool.name).collect();
        let nameless = "(without a name)";
        assert_eq!(left_out, [nameless, nameless, "list", "task", "header"]);
    }

    #[test]
    fn pages_end_at_their_limits() {
        let page = |tools: usize, next: Option<&str>| {
            let tools: Vec<_> = (0..tools).map(|at| json!({ "name": at.to_string() })).collect();
            json!({ "tools": tools, "nextCursor": next })
        };
        let mut pages = Pages::new(Era::Modern);
        assert_eq!(pages.add(page(1, Some("a"))), Ok(Some("a".to_owned())));
        assert_eq!(pages.add(page(1, Some("a"))), Ok(None));
        assert!(pages.cut.unwrap().contains("begins again"));

        let mut pages = Pages::new(Era::Modern);
        for at in 1..LIST_PAGES_MAX {
            assert!(pages.add(page(0, Some(&at.to_string()))).unwrap().is_some());
        }
        assert_eq!(pages.add(page(0, Some("last"))), Ok(None));
        assert!(pages.cut.unwrap().contains("pages"));

        let mut pages = Pages::new(Era::Modern);
        assert_eq!(pages.add(page(LIST_TOOLS_MAX, Some("a"))), Ok(Some("a".to_owned())));
        assert!(pages.cut.is_none());
        assert_eq!(pages.add(page(1, Some("b"))), Ok(None));
        assert_eq!((pages.tools.len(), pages.cut.is_some()), (LIST_TOOLS_MAX, true));

        let mut pages = Pages::new(Era::Modern);
        let big = json!({ "tools": [{ "name": "x".repeat(LIST_BYTES_MAX) }] });
        assert_eq!(pages.add(big), Ok(None));
        assert_eq!((pages.tools.len(), pages.cut.is_some()), (0, true));
        assert!(Pages::new(Era::Modern).add(json!({ "tool": [] })).is_err());
    }

    #[test]
    fn an_empty_cursor_ends_the_list_of_an_old_server() {
        let page = || json!({ "tools": [{ "name": "a" }], "nextCursor": "" });
        let mut pages = Pages::new(Era::Legacy);
        assert_eq!(pages.add(page()), Ok(None));
        assert_eq!(pages.listing().cut, None);
        assert_eq!(Pages::new(Era::Modern).add(page()), Ok(Some(String::new())));
    }

    #[test]
    fn a_pin_changes_with_what_is_relied_on_and_with_nothing_else() {
        let pin = |tools: Value| listing(tools).pin;
        let tool =
            json!({ "name": "a", "description": "b", "inputSchema": { "type": "object", "x": 1 } });
        let other = json!({ "name": "c", "inputSchema": {} });
        let with = |key: &str, value: Value| {
            let mut tool = tool.clone();
            tool[key] = value;
            tool
        };
        let own = pin(json!([tool, other]));
        assert_eq!(own.len(), "sha256:".len() + 64);
        assert_eq!(pin(json!([other, with("icons", json!([]))])), own);
        assert_eq!(
            pin(json!([with("inputSchema", json!({ "x": 1, "type": "object" })), other])),
            own
        );
        for (key, value) in [
            ("description", json!("d")),
            ("annotations", json!({ "readOnlyHint": true })),
            ("inputSchema", json!({ "type": "object" })),
            ("outputSchema", json!({})),
            ("title", json!("t")),
            ("name", json!("e")),
        ] {
            assert_ne!(pin(json!([with(key, value), other])), own, "{key}");
        }
        assert_ne!(pin(json!([tool])), own);
    }
}
