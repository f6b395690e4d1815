//! Finds out what the user wants, by keywords. It understands little and never guesses.

mod message;
mod sum;

use serde_json::{Value, json};

use crate::time_zones;
use crate::upstream::OfferedTool;

pub(super) const TIME_TOOL: &str = "get_current_time";
pub(super) const SUM_TOOL: &str = "calculate";
pub(super) const LOOKUP_TOOL: &str = "lookup_contacts";
pub(super) const SEND_TOOL: &str = "send_message";
pub(super) const APPOINTMENTS_TOOL: &str = "lookup_appointments";
pub(super) const INVOICES_TOOL: &str = "lookup_invoices";

/// The longest count: minutes of streaming, enough to leave and rejoin.
const COUNT_MAX: u32 = 10_000;

/// How many words of a question are looked up as places, since each time all time zones are searched. After that many, the
/// rest of the question names none.
pub(super) const PLACES_TRIED_MAX: usize = 32;

/// How many verbs are tried, to find a message to send. Each try reads the whole question.
pub(super) const VERBS_TRIED_MAX: usize = 16;

/// Something that a tool can do.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Task {
    /// The time: in a zone, in a place that may not name a zone, or in general.
    Time(Option<String>),
    /// A sum.
    Sum(String),
    /// A message to someone. If `hasty`, it is sent in the same round that looks up the person.
    Tell { name: String, text: String, hasty: bool },
    /// A tool that the question mentions, called without arguments.
    Named(String),
}

impl Task {
    /// The tool to call first.
    pub(super) fn tool(&self) -> &str {
        match self {
            Self::Time(_) => TIME_TOOL,
            Self::Sum(_) => SUM_TOOL,
            Self::Tell { .. } => LOOKUP_TOOL,
            Self::Named(tool) => tool,
        }
    }

    pub(super) fn arguments(&self) -> Value {
        match self {
            Self::Time(Some(zone)) => json!({"timezone": zone}),
            Self::Time(None) | Self::Named(_) => json!({}),
            Self::Sum(expression) => json!({"expression": expression}),
            Self::Tell { name, .. } => json!({"name": name}),
        }
    }
}

/// The tasks in `question`, in the order they are done.
pub(super) fn tasks(question: &str, tools: &[OfferedTool]) -> Vec<Task> {
    if let Some(tell) = message::find(question) {
        // The message's text may mention times and numbers.
        return vec![tell];
    }
    let mut tasks = times(question);
    tasks.extend(sum::expressions(question).into_iter().map(Task::Sum));
    tasks.extend(named(question, tools));
    tasks
}

/// Whether the question asks for a call of a nonexistent tool.
pub(super) fn wants_wrong_tool(question: &str) -> bool {
    let question = question.to_lowercase();
    ["wrong tool", "unknown tool", "nonexistent tool", "tool that does not exist"]
        .iter()
        .any(|phrase| question.contains(phrase))
}

/// Whether the model should show its reasoning.
pub(super) fn wants_reasoning(question: &str) -> bool {
    let question = question.to_lowercase();
    ["think aloud", "think out loud", "think step by step", "reason aloud"]
        .iter()
        .any(|phrase| question.contains(phrase))
}

/// Whether the question asks for an empty answer.
pub(super) fn wants_silence(question: &str) -> bool {
    question.to_lowercase().contains("say nothing")
}

/// Whether the question asks for a long text of any kind.
pub(super) fn wants_long_answer(question: &str) -> bool {
    let question = question.to_lowercase();
    ["long answer", "long story", "long text"].iter().any(|phrase| question.contains(phrase))
}

/// How far to count.
pub(super) fn count_to(question: &str) -> Option<u32> {
    let question = question.to_lowercase();
    let (_, after) =
        question.split_once("count to ").or_else(|| question.split_once("count up to "))?;
    let digits = after.find(|char: char| !char.is_ascii_digit()).unwrap_or(after.len());
    after[..digits].parse().ok().map(|count: u32| count.min(COUNT_MAX))
}

/// Every place whose time the question asks for.
fn times(question: &str) -> Vec<Task> {
    let words: Vec<&str> = question.split_whitespace().collect();
    let plain: Vec<String> = words.iter().map(|word| trim(word).to_lowercase()).collect();
    let asks =
        plain.iter().any(|word| ["time", "clock", "date", "o'clock"].contains(&word.as_str()));
    if !asks && !wants_wrong_tool(question) {
        return Vec::new();
    }
    let mut places = Vec::new();
    let (mut at, mut tried) = (0, 0);
    while at < words.len() && tried < PLACES_TRIED_MAX {
        let introduced = at > 0 && ["in", "at", "for"].contains(&plain[at - 1].as_str());
        // "in Tokyo and Paris", "in Tokyo, Paris".
        let listed = !places.is_empty()
            && at > 0
            && (plain[at - 1] == "and" || words[at - 1].ends_with(','));
        let id = words[at].contains('/');
        let may_be_place = introduced || listed || id;
        tried += usize::from(may_be_place);
        if may_be_place && let Some((place, length)) = place(&words[at..], introduced) {
            places.push(Task::Time(Some(place)));
            at += length;
        } else {
            at += 1;
        }
    }
    if places.is_empty() {
        places.push(Task::Time(None));
    }
    places
}

/// The zone that the first words name, and the number of these words. If they name no zone but
/// must be a place, the words themselves.
fn place(words: &[&str], must_be_place: bool) -> Option<(String, usize)> {
    const WORDS_MAX: usize = 3;
    for length in (1..=words.len().min(WORDS_MAX)).rev() {
        // A comma or a full stop ends the name.
        let inner = &words[..length - 1];
        if inner.iter().any(|word| trim(word).len() != word.len()) {
            continue;
        }
        if let Some((id, _)) = time_zones::find(trim(&words[..length].join(" "))) {
            return Some((id, length));
        }
    }
    let name = words.iter().take_while(|word| word.starts_with(char::is_uppercase));
    let length = name.take(WORDS_MAX).count();
    (must_be_place && length > 0).then(|| (trim(&words[..length].join(" ")).to_owned(), length))
}

fn trim(word: &str) -> &str {
    word.trim_matches(|char: char| "?!.,;:\"'()".contains(char))
}

/// Everyday words for things that some tools name differently.
const MEANINGS: [(&str, &[&str]); 2] = [
    (APPOINTMENTS_TOOL, &["appointment", "calendar", "schedule"]),
    (INVOICES_TOOL, &["bill", "bills", "billing", "invoice"]),
];

/// Offered tools that the question mentions and that need no arguments: "check my appointments"
/// is `lookup_appointments`.
fn named(question: &str, tools: &[OfferedTool]) -> Vec<Task> {
    const KNOWN: [&str; 4] = [TIME_TOOL, SUM_TOOL, LOOKUP_TOOL, SEND_TOOL];
    // Words that are common in tool names.
    const COMMON: [&str; 8] = ["check", "list", "lookup", "find", "search", "show", "tool", "read"];
    const CHARS_MIN: usize = 4;
    let question = question.to_lowercase();
    let is_meant = |tool: &OfferedTool| {
        let words = question.split(|char: char| !char.is_alphanumeric());
        let mut meanings = MEANINGS.iter().filter(|(name, _)| *name == tool.name);
        meanings.any(|(_, meaning)| words.clone().any(|word| meaning.contains(&word)))
    };
    let is_named = |tool: &&OfferedTool| {
        let name = tool.name.to_lowercase();
        let words = name.split(['_', '-', '.']).map(str::to_owned);
        let needs_nothing = tool.parameters["required"].as_array().is_none_or(Vec::is_empty);
        needs_nothing
            && !KNOWN.contains(&tool.name.as_str())
            && (is_meant(tool)
                || words
                    .filter(|word| word.len() >= CHARS_MIN && !COMMON.contains(&word.as_str()))
                    .any(|word| question.contains(&word)))
    };
    tools.iter().filter(is_named).map(|tool| Task::Named(tool.name.clone())).collect()
}
