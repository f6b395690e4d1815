//! Questions of servers to users (MCP, elicitation), and their answers.

mod exchange;
mod secret;

use rmcp::model::{ErrorCode, ErrorData};
use serde_json::{Value, json};
use url::Url;

use crate::limits::mcp::QUESTION_CHARS_MAX;
use crate::text::quote;
use crate::tools::source::clean_text;
use crate::tools::{Clarification, Given, form};

pub(super) use exchange::{Exchange, Reply, Step};

/// A user's answer, as servers read it.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct ElicitedAnswer {
    pub(super) action: &'static str,
    pub(super) content: Option<Value>,
}

impl ElicitedAnswer {
    pub(super) const fn decline() -> Self {
        Self { action: "decline", content: None }
    }

    pub(super) const fn cancel() -> Self {
        Self { action: "cancel", content: None }
    }

    /// The answer as JSON (`ElicitResult`).
    pub(super) fn to_json(&self) -> Value {
        match &self.content {
            Some(content) => json!({ "action": self.action, "content": content }),
            None => json!({ "action": self.action }),
        }
    }
}

/// The parameters of the questions in an error that says that the user has to visit pages first
/// (MCP 2025-11-25, `URLElicitationRequiredError`); `None` if it is another error.
pub(super) fn pages(error: &ErrorData) -> Option<Vec<Value>> {
    if error.code != URL_ELICITATION_REQUIRED {
        return None;
    }
    let pages = error.data.as_ref()?.get("elicitations")?.as_array()?;
    let page = |page: &Value| {
        let mut page = page.as_object()?.clone();
        page.insert("mode".to_owned(), "url".into());
        Some(Value::Object(page))
    };
    let pages: Option<Vec<Value>> = pages.iter().map(page).collect();
    pages.filter(|pages| !pages.is_empty())
}

/// The user has to visit pages before the call is made again.
const URL_ELICITATION_REQUIRED: ErrorCode = ErrorCode(-32042);

/// Reads the parameters of `elicitation/create`.
///
/// # Errors
/// Why the question is not put to the user: lower case, no full stop.
pub(super) fn read(params: &Value, may_send_to_pages: bool) -> Result<Clarification, String> {
    let message = params.get("message").and_then(Value::as_str).unwrap_or_default();
    let message = clean_text(message, QUESTION_CHARS_MAX);
    match params.get("mode").and_then(Value::as_str) {
        Some("url") => page(params, &message, may_send_to_pages),
        None | Some("form") => form(params, message),
        Some(other) => Err(format!("its question has the unknown mode {}", quote(other))),
    }
}

/// Reads the same for a user who may be able to answer only in words, or by naming an option.
///
/// # Errors
/// See [`read`].
pub(super) fn read_for(
    words_only: bool,
    params: &Value,
    may_send_to_pages: bool,
) -> Result<Clarification, String> {
    let question = read(params, may_send_to_pages)?;
    if words_only && question.options.is_empty() && !question.takes_text() {
        return Err("it asks for a form to be filled in, and the user's program shows none; the \
                    user can be asked in words"
            .to_owned());
    }
    Ok(question)
}

fn page(params: &Value, message: &str, may: bool) -> Result<Clarification, String> {
    if !may {
        return Err(
            "it wants to send the user to a page; `elicit_urls: true` allows that".to_owned()
        );
    }
    let url = params.get("url").and_then(Value::as_str).and_then(|url| Url::parse(url).ok());
    let url = url.filter(|url| url.scheme() == "https" && url.host_str().is_some());
    let url = url.ok_or("it wants to send the user to something that is not an https page")?;
    if !url.username().is_empty() || url.password().is_some() {
        return Err("it wants to send the user to an address with a password in it".to_owned());
    }
    let host = url.host_str().unwrap_or_default();
    let question = format!("{message}\n\nThis leads to {host}.");
    Ok(Clarification::page(question.trim_start(), url))
}

fn form(params: &Value, message: String) -> Result<Clarification, String> {
    let mut schema = params.get("requestedSchema").cloned().unwrap_or_else(|| json!({}));
    if let Some(schema) = schema.as_object_mut() {
        schema.shift_remove("$schema");
        schema.entry("type").or_insert_with(|| "object".into());
    }
    form::clean(&mut schema);
    if let Some(kind) = secret::asked_for(&message, &schema) {
        return Err(format!(
            "it asked the user for {kind}, which nobody should give to a model's tool"
        ));
    }
    crate::tools::check_parameters(&schema)
        .map_err(|error| format!("its form cannot be used: {error}"))?;
    Ok(Clarification::form(message, schema))
}

/// What a user's answer means to a server.
pub(super) fn answer(given: &Given) -> ElicitedAnswer {
    match given {
        Given::Content(content) => {
            ElicitedAnswer { action: "accept", content: Some(content.clone()) }
        }
        // A page that the user will visit, or not.
        Given::Option(option) if option.id == "accept" => {
            ElicitedAnswer { action: "accept", content: None }
        }
        Given::Option(_) | Given::Refused(_) | Given::Declined => ElicitedAnswer::decline(),
        Given::Text(_) | Given::Approved { .. } | Given::Cancelled => ElicitedAnswer::cancel(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_form_that_asks_for_a_secret_is_not_shown() {
        let form = |message: &str, name: &str| {
            let schema = json!({ "properties": { name: { "type": "string" } } });
            read(&json!({ "message": message, "requestedSchema": schema }), false)
        };
        let reason = form("?", "pass\u{200b}word").unwrap_err();
        assert!(reason.starts_with("it asked the user for a password"), "{reason}");
        assert!(form("Please enter your GitHub password", "value").is_err());
        assert!(form("Please enter your GitHub name", "value").is_ok());
    }

    #[test]
    fn pages_are_allowed_by_the_operator_and_are_https() {
        let page = |url: &str, may| {
            read(&json!({ "mode": "url", "message": "Sign in.", "url": url }), may)
        };
        let shown = page("https://example.org/a?b", true).unwrap();
        assert_eq!(shown.url.as_deref(), Some("https://example.org/a?b"));
        assert_eq!(shown.question, "Sign in.\n\nThis leads to example.org.");
        assert!(page("https://example.org/", false).unwrap_err().contains("elicit_urls"));
        for url in ["http://example.org/", "javascript:alert(1)", "https://a:b@example.org/", "x"] {
            assert!(page(url, true).is_err(), "{url}");
        }
    }

    #[test]
    fn a_form_is_a_question_with_its_schema() {
        let schema = json!({ "properties": { "size": { "type": "string", "enum": ["s", "m"] } }, "required": ["size"] });
        let question =
            read(&json!({ "message": "Which\u{202e} size?", "requestedSchema": schema }), false)
                .unwrap();
        assert_eq!(question.question, "Which size?");
        assert_eq!(question.options.len(), 2);
        let bad = json!({ "type": "array" });
        assert!(read(&json!({ "message": "?", "requestedSchema": bad }), false).is_err());
    }

    #[test]
    fn a_form_may_have_lists_nulls_and_formats_of_its_own() {
        let maybe = json!({ "anyOf": [{ "type": "string" }, { "type": "null" }], "default": null });
        let list = json!({ "type": "array", "items": { "type": "string" } });
        let phone = json!({ "type": "string", "format": "phone" });
        for schema in [
            json!({ "type": "object", "properties": { "a": maybe, "b": list, "c": phone } }),
            json!({ "type": "object" }),
            json!({}),
        ] {
            let params = json!({ "message": "?", "requestedSchema": schema });
            assert_eq!(read(&params, false).map(|_| ()), Ok(()), "{schema}");
        }
    }

    #[test]
    fn whoever_has_only_words_is_asked_what_words_can_answer() {
        let size = json!({ "type": "string", "enum": ["s", "m"] });
        let note = json!({ "type": "string" });
        for (properties, required, may_ask) in [
            (json!({ "size": size }), json!(["size"]), true),
            (json!({ "note": note }), json!(["note"]), true),
            (json!({}), json!([]), true),
            (json!({ "note": note, "size": size }), json!(["size"]), true),
            (json!({ "note": note, "size": size }), json!(["note", "size"]), false),
            (json!({ "note": note }), json!([]), false),
            (json!({ "age": { "type": "integer" } }), json!(["age"]), true),
            (json!({ "ages": { "type": "array" } }), json!(["ages"]), false),
        ] {
            let schema = json!({ "properties": properties, "required": required });
            let params = json!({ "message": "?", "requestedSchema": schema });
            assert!(read_for(false, &params, false).is_ok(), "{params}");
            assert_eq!(read_for(true, &params, false).is_ok(), may_ask, "{params}");
        }
        let page = json!({ "mode": "url", "message": "?", "url": "https://a.example/" });
        assert!(read_for(true, &page, true).is_ok());
    }

    #[test]
    fn answers_are_as_servers_read_them() {
        let content = json!({ "size": "s" });
        assert_eq!(
            answer(&Given::Content(content.clone())).to_json(),
            json!({ "action": "accept", "content": content })
        );
        assert_eq!(answer(&Given::Declined).to_json(), json!({ "action": "decline" }));
        assert_eq!(answer(&Given::Cancelled).to_json(), json!({ "action": "cancel" }));
    }
}
