//! Results of tools, put into words.

use serde_json::Value;

use super::WRONG_TOOL;
use crate::rehearsal::intent::{
    APPOINTMENTS_TOOL, INVOICES_TOOL, LOOKUP_TOOL, SEND_TOOL, SUM_TOOL, TIME_TOOL,
};
use crate::rehearsal::outcome::Outcome;
use crate::text::cut;

/// The most data to quote from an unknown tool, in bytes.
const QUOTE_BYTES_MAX: usize = 300;

/// All results as text.
pub(super) fn report(outcomes: &[Outcome]) -> String {
    let recovered = outcomes.iter().any(Outcome::success);
    let sentences: Vec<String> = outcomes
        .iter()
        // The mistake was reported when it was corrected.
        .filter(|outcome| !(recovered && outcome.tool == WRONG_TOOL))
        // The report on the message names the contact.
        .filter(|outcome| !(outcome.tool == LOOKUP_TOOL && contact_of(outcome.data()).is_some()))
        .map(words_of)
        .collect();
    sentences.join(" ")
}

fn words_of(outcome: &Outcome) -> String {
    let data = outcome.data();
    let text = |key: &str| data[key].as_str();
    if !outcome.success() {
        return format!(
            "{} did not work: {}.",
            outcome.tool,
            outcome.error().trim_end_matches('.')
        );
    }
    match (outcome.tool.as_str(), text("timezone"), text("time")) {
        (TIME_TOOL, Some(zone), Some(time)) => return format!("In {zone} it is {time}."),
        (LOOKUP_TOOL, ..) => return not_one(outcome),
        (SEND_TOOL, ..) => {
            let whom = text("name").map(|name| format!(" to {name}")).unwrap_or_default();
            return format!("Done: the message{whom} is sent.");
        }
        (APPOINTMENTS_TOOL, ..) if data["appointments"].is_array() => return appointments(data),
        (INVOICES_TOOL, ..) if data["invoices"].is_array() => return invoices(data),
        _ => {}
    }
    if let (SUM_TOOL, Some(sum), Some(result)) =
        (outcome.tool.as_str(), text("expression"), text("result"))
    {
        let about = if data["exact"] == false { "about " } else { "" };
        let exactly = text("fraction").map(|fraction| format!(", exactly {fraction}"));
        return format!("{sum} = {about}{result}{}.", exactly.unwrap_or_default());
    }
    format!("{} says: {}", outcome.tool, cut(&data.to_string(), QUOTE_BYTES_MAX))
}

/// A lookup that did not find exactly one person.
fn not_one(outcome: &Outcome) -> String {
    if let Some(question) = outcome.question() {
        return format!("I sent nothing yet. {question}");
    }
    let whom = outcome.data()["name"].as_str();
    let whom = whom.map_or_else(|| "of that name".to_owned(), |name| format!("called {name}"));
    format!("I found nobody {whom}, so I sent nothing.")
}

/// "You have 1 appointment: Dentist on Monday, 23 November 2026 at 10:00."
fn appointments(data: &Value) -> String {
    let lines = listed(&data["appointments"], |appointment| {
        let text = |key: &str| appointment[key].as_str();
        Some(format!("{} on {} at {}", text("title")?, text("date")?, text("time")?))
    });
    match lines.as_slice() {
        [] => "You have no appointments.".to_owned(),
        [one] => format!("You have 1 appointment: {one}."),
        many => format!("You have {} appointments: {}.", many.len(), many.join("; ")),
    }
}

/// "174.50 EUR are open: 129.00 EUR for electricity, due Monday, 4 January 2027."
fn invoices(data: &Value) -> String {
    let lines = listed(&data["invoices"], |invoice| {
        let text = |key: &str| invoice[key].as_str();
        Some(format!("{} for {}, due {}", text("amount")?, text("for")?, text("due")?))
    });
    match data["open_total"].as_str() {
        Some(total) if !lines.is_empty() => format!("{total} are open: {}.", lines.join("; ")),
        _ => "No bills are open.".to_owned(),
    }
}

fn listed(list: &Value, line: impl Fn(&Value) -> Option<String>) -> Vec<String> {
    list.as_array().into_iter().flatten().filter_map(line).collect()
}

/// The id of the contact, if a lookup found exactly one.
pub(super) fn contact_of(data: &Value) -> Option<String> {
    let id = |contact: &Value| {
        let id = contact["contact_id"].as_str().or_else(|| contact["id"].as_str());
        id.map(str::to_owned)
    };
    let listed = ["contacts", "matches", "results"].iter().find_map(|key| data[key].as_array());
    match listed.map(Vec::as_slice) {
        Some([contact]) => id(contact),
        Some(_) => None,
        None => id(data).or_else(|| id(&data["contact"])),
    }
}
