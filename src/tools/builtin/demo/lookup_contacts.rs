//! Finds the person meant by a name, or asks the user who is meant.

use std::future;
use std::sync::Arc;

use serde_json::{Value, json};

use super::address_book::{self, Contact, SURE};
use crate::limits::tools::NAME_CHARS_MAX;
use crate::text::quote;
use crate::tools::{
    CallContext, Clarification, ClarificationOption, Example, NextAction, Policy, Source, Tool,
    ToolFuture, ToolResult, ToolSpec,
};

/// The tool `lookup_contacts`.
#[derive(Debug)]
pub struct LookupContacts {
    spec: Arc<ToolSpec>,
}

impl LookupContacts {
    /// The tool; it has no settings.
    #[must_use]
    pub fn new() -> Self {
        Self { spec: Arc::new(spec()) }
    }
}

impl Default for LookupContacts {
    fn default() -> Self {
        Self::new()
    }
}

impl Tool for LookupContacts {
    fn spec(&self) -> &Arc<ToolSpec> {
        &self.spec
    }

    fn call(&self, arguments: Value, _context: CallContext) -> ToolFuture {
        let name = arguments["name"].as_str().unwrap_or_default().trim();
        Box::pin(future::ready(Ok(look_up(name))))
    }
}

fn spec() -> ToolSpec {
    ToolSpec {
        name: "lookup_contacts".to_owned(),
        description:
            "Finds a person in the user's address book and returns the contact_id. Use it \
                      whenever you need to know who a person is."
                .to_owned(),
        parameters: json!({
            "type": "object",
            "properties": {
                "name": {
                    "type": "string",
                    "description": "The name as the user said it, for example \"Maria\".",
                    "minLength": 1,
                    "maxLength": NAME_CHARS_MAX
                }
            },
            "required": ["name"],
            "additionalProperties": false
        }),
        waiting_hint: "looking up your contacts".to_owned(),
        example: Some(Example {
            question: "is Maria in my address book?".to_owned(),
            arguments: json!({ "name": "Maria" }),
            result: json!({ "contact_id": "contact_maria_lopez", "name": "Maria Lopez" }),
            answer: "Yes, Maria Lopez is in your address book.".to_owned(),
        }),
        policy: Policy { may_clarify: true, ..Policy::default() },
        source: Source::builtin(),
        ..ToolSpec::default()
    }
}

fn look_up(name: &str) -> ToolResult {
    let found = address_book::search(name);
    match found.as_slice() {
        [] => nobody(name),
        [(contact, confidence)] if *confidence >= SURE => one(contact, *confidence),
        [(_, best), ..] if *best >= SURE => ask(format!("Which {name} do you mean?"), &found),
        _ => ask(format!("Who do you mean by {}?", quote(name)), &found),
    }
}

fn one(contact: &Contact, confidence: f64) -> ToolResult {
    ToolResult::data(json!({
        "found": 1,
        "contact_id": contact.id,
        "name": contact.name,
        "company": contact.company,
        "town": contact.town,
        "confidence": confidence,
    }))
}

/// The request cannot be carried out, so the chain ends here: later calls about this person do not
/// run, and the user learns why.
fn nobody(name: &str) -> ToolResult {
    let instruction = format!(
        "Tell the user that nobody called {} was found in the address book, and ask for the full \
         name.",
        quote(name)
    );
    let data = ToolResult::data(json!({"found": 0, "name": name}));
    ToolResult { next_action: NextAction::Complete, ..data }.with_instruction(instruction)
}

fn ask(question: String, found: &[(&Contact, f64)]) -> ToolResult {
    let option = |(contact, confidence): &(&Contact, f64)| ClarificationOption {
        id: contact.id.to_owned(),
        title: contact.name.to_owned(),
        subtitle: Some(format!("{}, {}", contact.company, contact.town)),
        confidence: Some(*confidence),
        metadata: Some(contact.details()),
    };
    let options = found.iter().map(option).collect();
    ToolResult::clarification(Clarification {
        r#type: "choice".to_owned(),
        question,
        options,
        ..Clarification::default()
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn options(result: &ToolResult) -> Vec<&str> {
        let options = &result.clarification.as_ref().unwrap().options;
        options.iter().map(|option| option.id.as_str()).collect()
    }

    #[test]
    fn one_match_has_its_id() {
        let result = look_up("Jane");
        assert_eq!(result.next_action, NextAction::Continue);
        assert_eq!(
            result.data.unwrap(),
            json!({
                "found": 1, "contact_id": "contact_jane_miller", "name": "Jane Miller",
                "company": "Northwind Tea", "town": "Leeds", "confidence": 0.9
            })
        );
    }

    #[test]
    fn three_johns_are_a_question() {
        let result = look_up("John");
        assert_eq!(
            options(&result),
            ["contact_john_doe", "contact_john_smith", "contact_john_carter"]
        );
        let clarification = result.clarification.unwrap();
        assert_eq!(
            (clarification.r#type.as_str(), clarification.question.as_str()),
            ("choice", "Which John do you mean?")
        );
        assert_eq!(
            serde_json::to_value(&clarification.options[0]).unwrap(),
            json!({
                "id": "contact_john_doe", "title": "John Doe", "subtitle": "Acme Tools, Boston",
                "confidence": 0.9, "metadata": {"company": "Acme Tools", "town": "Boston"}
            })
        );
    }

    #[test]
    fn an_unsure_match_is_asked_about_even_if_it_is_the_only_one() {
        let result = look_up("J");
        assert_eq!(result.clarification.as_ref().unwrap().question, "Who do you mean by \"J\"?");
        assert_eq!(options(&result).len(), 6);
        assert_eq!(options(&look_up("Jan")), ["contact_jane_miller"]);
    }

    #[test]
    fn no_match_ends_the_chain_and_says_so() {
        let result = look_up("Zorgblort");
        assert_eq!((result.success, result.next_action), (true, NextAction::Complete));
        assert_eq!(result.data, Some(json!({"found": 0, "name": "Zorgblort"})));
        assert!(result.instruction_for_ai.unwrap().contains("nobody called \"Zorgblort\""));
    }

    proptest! {
        #[test]
        fn every_result_keeps_the_shape_and_only_one_sure_person_has_an_id(name in "\\PC{0,90}|[A-Za-z ]{1,6}") {
            let result = look_up(name.trim());
            let checked = result.clone().checked();
            prop_assert_eq!(&checked, &result);
            if let Some(id) = result.data.as_ref().and_then(|data| data["contact_id"].as_str()) {
                prop_assert!(address_book::by_id(id).is_some());
                prop_assert_eq!(address_book::search(&name).len(), 1);
            }
        }
    }
}
