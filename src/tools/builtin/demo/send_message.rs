//! A message to a person in the address book. Nothing is sent: the result says what would have
//! been sent and to whom.

use std::future;
use std::sync::Arc;

use serde_json::{Value, json};

use super::address_book;
use crate::limits::tools::TEXT_CHARS_MAX;
use crate::text::quote;
use crate::tools::{CallContext, Policy, Source, Tool, ToolFuture, ToolResult, ToolSpec};

/// The tool `send_message`.
#[derive(Debug)]
pub struct SendMessage {
    spec: Arc<ToolSpec>,
}

impl SendMessage {
    /// The tool; it has no settings.
    #[must_use]
    pub fn new() -> Self {
        Self { spec: Arc::new(spec()) }
    }
}

impl Default for SendMessage {
    fn default() -> Self {
        Self::new()
    }
}

impl Tool for SendMessage {
    fn spec(&self) -> &Arc<ToolSpec> {
        &self.spec
    }

    fn call(&self, arguments: Value, _context: CallContext) -> ToolFuture {
        let text = |key: &str| arguments[key].as_str().unwrap_or_default();
        Box::pin(future::ready(Ok(send(text("contact_id"), text("text")))))
    }
}

fn spec() -> ToolSpec {
    ToolSpec {
        name: "send_message".to_owned(),
        description: "Sends a text message to a person. Needs a contact_id that lookup_contacts \
                      returned or the user chose; never make one up."
            .to_owned(),
        parameters: json!({
            "type": "object",
            "properties": {
                "contact_id": {
                    "type": "string",
                    "description": "The person's contact_id, not the name.",
                    "minLength": 1
                },
                "text": {
                    "type": "string",
                    "description": "The message, in the user's own words.",
                    "minLength": 1,
                    "maxLength": TEXT_CHARS_MAX
                }
            },
            "required": ["contact_id", "text"],
            "additionalProperties": false
        }),
        waiting_hint: "sending your message".to_owned(),
        policy: Policy { mutates: true, ..Policy::default() },
        source: Source::builtin(),
        ..ToolSpec::default()
    }
}

fn send(contact_id: &str, text: &str) -> ToolResult {
    let Some(contact) = address_book::by_id(contact_id) else {
        return ToolResult::error(format!(
            "there is no contact_id {}, nothing was sent; find the right one with lookup_contacts",
            quote(contact_id)
        ));
    };
    if text.trim().is_empty() {
        return ToolResult::error("the text is empty, nothing was sent");
    }
    ToolResult::data(json!({
        "sent": true, "contact_id": contact.id, "name": contact.name, "text": text
    }))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_result_says_what_went_to_whom() {
        assert_eq!(
            send("contact_john_doe", "I'm late"),
            ToolResult::data(json!({
                "sent": true, "contact_id": "contact_john_doe", "name": "John Doe",
                "text": "I'm late"
            }))
        );
    }

    #[test]
    fn an_empty_message_is_not_sent() {
        let error = send("contact_john_doe", " \n").error.unwrap();
        assert_eq!(error, "the text is empty, nothing was sent");
    }

    proptest! {
        #[test]
        fn a_guessed_id_sends_nothing(id in "\\PC{0,40}|contact_[a-z_]{0,12}|John( Doe)?") {
            prop_assume!(address_book::by_id(&id).is_none());
            let result = send(&id, "I'm late");
            prop_assert!(!result.success && result.data.is_none());
            prop_assert!(result.error.unwrap().contains("nothing was sent"));
        }
    }
}
