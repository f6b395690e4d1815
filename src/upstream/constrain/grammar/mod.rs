//! The grammar of calls: GBNF, from the call format and the JSON Schemas of the offered tools.
//!
//! The model writes freely until it has written the opener. After that it can only write a call
//! of an offered tool, with arguments of the tool's shape. Patterns, formats and ranges are
//! left to the validation of the call: if the maximum is 7, a model that wants 12 would write 1
//! under a grammar, and would never learn why.
//!
//! llama.cpp has *lazy* grammars for this, which sleep until a trigger is seen, and the request
//! asks for one. But its `/v1/chat/completions` overwrites `grammar_lazy` and the triggers with
//! those of its own tool calling. There the grammar applies from the first token, and a grammar
//! of calls alone would force every answer to be a call. So this grammar is lazy by itself: it
//! begins with any text that does not contain the opener ([`free_text`]). If it is applied
//! lazily, from the trigger on, that text is simply empty.
//!
//! In formats without an opener, and in `beam`, whose opener is an ordinary word, calls are held to the
//! grammar at the start of an answer alone: one that begins like a call must be one, or the JSON that the
//! client has asked for. In `functionary_v32`, the prompt has begun a header, so the answer begins with a
//! tool's name or `all`.
//!
//! White space and digits are bounded everywhere, because a small model that may write one more
//! blank writes blanks forever. The number of calls in a message is bounded as well. After the
//! last call the model must stop, or it goes on and invents the result.
//!
//! Texts are not bounded, neither in strings nor in tags: a file that a tool writes is long, and llama.cpp
//! refuses rules that repeat more than 2,000 times. `max_tokens` ends a text that goes on forever.

mod arguments;
mod calls;
mod free_text;
mod nested;
mod notation;
mod rules;
mod schema;
mod tags;
#[cfg(test)]
mod tests;

use serde_json::Value;

use self::notation::Notation;
use self::rules::{Rules, literal};
use crate::call_format::{CallFormat, Row};
use crate::upstream::{OfferedTool, ToolChoice};

/// What a model may call.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Callable<'a> {
    /// Tools with arguments that fit their parameters.
    pub(crate) tools: &'a [OfferedTool],
    /// Tools whose names alone the model knows. It need not guess what they take: they are called
    /// without arguments, and are described to it then.
    pub(crate) named: &'a [String],
}

/// What an answer may be besides calls.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Besides<'a> {
    /// What closes the reasoning that the prompt has begun.
    pub(crate) reasoning: Option<&'a str>,
    /// The JSON Schema of an answer that has to be JSON.
    pub(crate) answer: Option<&'a Value>,
}

/// A grammar of free text that may contain these calls. If a call is required, the grammar
/// begins with it, without free text but for reasoning that the prompt has begun.
#[must_use]
pub(crate) fn of_answers(
    callable: Callable<'_>,
    choice: &ToolChoice,
    format: &CallFormat,
    Besides { reasoning, answer: json }: Besides<'_>,
) -> String {
    let mut rules = Rules::new();
    let begin = literal(format.trigger());
    let start = Start::of(format.row());
    // The prompt may have written the opener already.
    let optional = if start == Start::Name { "?" } else { "" };
    let address = calls::address(format.row()).unwrap_or_default();
    let required = format!("{address}{begin}{optional} calls");
    // Elsewhere, JSON is as free as any other text.
    let json = json.filter(|_| *choice == ToolChoice::Auto && start.may_be_json());
    let answer = match (choice, &start) {
        (ToolChoice::Auto, Start::Anywhere) => {
            free_text::push_up_to(&mut rules, "text", format.trigger(), "calls")
        }
        (ToolChoice::Auto, Start::Words(words)) => {
            free_text::push_not_beginning_with(&mut rules, words);
            format!("{required} | other{}", if json.is_some() { " | json" } else { "" })
        }
        (ToolChoice::Auto, Start::Name) => {
            free_text::push_any(&mut rules);
            format!("{required} | {}", words_for_the_user(format.row()))
        }
        (ToolChoice::Required | ToolChoice::Named(_), _) => required,
    };
    match reasoning.filter(|_| *choice != ToolChoice::Auto || start != Start::Anywhere) {
        None => rules.push("root", &answer),
        Some(close) => {
            rules.push("answer", &format!("[ \\n]{{0,2}} ({answer})"));
            let thought = free_text::push_up_to(&mut rules, "thought", close, "answer");
            rules.push("root", &thought);
        }
    }
    calls::push(&mut rules, callable, choice, format);
    if let Some(schema) = json {
        let json = schema::push(&mut rules, "json", schema, Notation::of(&format.row().body));
        rules.push("json", &json);
    }
    rules.into_text()
}

/// Where an answer's calls begin.
#[derive(Debug, PartialEq, Eq)]
enum Start {
    /// After any text, with the trigger.
    Anywhere,
    /// At the answer's start, with these words. They are too common to mean a call elsewhere.
    Words(String),
    /// At the answer's start, with the tool's name: the prompt has opened a header.
    Name,
}

impl Start {
    fn of(row: &Row) -> Self {
        match (&row.bare, &row.header) {
            (Some(bare), _) if row.is_bare() => {
                Self::Words(format!("{}{}", bare.word, char::from(bare.bracket)))
            }
            (_, Some(header)) if header.is_name() => Self::Name,
            (_, Some(header)) if header.starts.contains(&row.openers[0]) => {
                Self::Words(row.openers[0].to_owned())
            }
            _ => Self::Anywhere,
        }
    }

    /// Whether an answer in JSON may begin like a call.
    fn may_be_json(&self) -> bool {
        matches!(self, Self::Words(words) if words.starts_with(['{', '[']))
    }
}

/// Whether the calls of an answer begin with the trigger, wherever they stand, so that a server can wait
/// for it.
#[must_use]
pub(crate) fn has_trigger(row: &Row) -> bool {
    Start::of(row) == Start::Anywhere
}

/// A message for the user, after the opener of a header.
fn words_for_the_user(row: &Row) -> String {
    let header = row.header.as_ref();
    let user = header.and_then(|header| Some(format!("{}{}", header.others.first()?, header.end)));
    format!("{} any", literal(&user.unwrap_or_default()))
}

/// A grammar of these calls alone, without the trigger.
#[must_use]
pub(crate) fn of_calls(callable: Callable<'_>, choice: &ToolChoice, format: &CallFormat) -> String {
    let mut rules = Rules::new();
    rules.push("root", "calls");
    calls::push(&mut rules, callable, choice, format);
    rules.into_text()
}
