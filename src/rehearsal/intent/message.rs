//! A message to someone: who it goes to and what it says.

use super::{Task, VERBS_TRIED_MAX, trim};

const VERBS: [&str; 9] =
    ["tell", "text", "message", "inform", "notify", "send", "write", "ping", "let"];

/// Words between the verb and the name.
const BEFORE_NAME: [&str; 6] = ["a", "message", "to", "text", "note", "quick"];

/// Words between the name and the text of the message.
const BEFORE_TEXT: [&str; 6] = ["that", "saying", "a", "message", "know", "note"];

/// Words that are never names, whatever their case.
const NO_NAMES: [&str; 24] = [
    "i", "i'm", "i’m", "i'll", "i’ll", "i've", "i’ve", "we", "we're", "we’re", "you", "he", "she",
    "it", "they", "me", "us", "him", "her", "them", "my", "the", "that", "what",
];

/// Words that start a message's text. Before them, a lower-case word may be a name.
const BEGINNINGS: [&str; 10] =
    ["i", "i'm", "i’m", "i'll", "i’ll", "we", "we're", "we’re", "that", "know"];

/// "Tell John I'm running late", "Send a message to Jane: hello", "let jane know
/// that I'm on my way", "Send I'm late to John".
pub(super) fn find(question: &str) -> Option<Task> {
    let words: Vec<&str> = question.split_whitespace().collect();
    let plain: Vec<String> = words.iter().map(|word| trim(word).to_lowercase()).collect();
    let verbs = (0..words.len()).filter(|at| VERBS.contains(&plain[*at].as_str()));
    verbs
        .take(VERBS_TRIED_MAX)
        .find_map(|verb| after_verb(verb, &words, &plain).or_else(|| at_end(verb, &words, &plain)))
}

/// Verb, name, text.
fn after_verb(verb: usize, words: &[&str], plain: &[String]) -> Option<Task> {
    let fillers = plain[verb + 1..].iter().take_while(|word| BEFORE_NAME.contains(&word.as_str()));
    let first = verb + 1 + fillers.count();
    let length = name_length(&words[first..]);
    let (name, mut text) = words[first..].split_at(length);
    if name.is_empty() || (plain[verb] == "let" && plain.get(first + length)? != "know") {
        return None;
    }
    while let [filler, rest @ ..] = text
        && BEFORE_TEXT.contains(&trim(filler).to_lowercase().as_str())
    {
        text = rest;
    }
    Some(tell(name, text, &plain[verb]))
}

/// Verb, text, "to", name.
fn at_end(verb: usize, words: &[&str], plain: &[String]) -> Option<Task> {
    let to = plain.iter().rposition(|word| word == "to").filter(|to| *to > verb + 1)?;
    let name = &words[to + 1..];
    let whole = !name.is_empty() && name_length(name) == name.len();
    (whole && plain[verb] != "tell").then(|| tell(name, &words[verb + 1..to], &plain[verb]))
}

fn tell(name: &[&str], text: &[&str], verb: &str) -> Task {
    let text = text.join(" ");
    let text = text.trim_matches('"');
    Task::Tell {
        name: trim(&name.join(" ")).to_owned(),
        text: if text.is_empty() { "Hello!".to_owned() } else { text.to_owned() },
        hasty: verb == "tell",
    }
}

/// How many of the first words are a name: at most two.
fn name_length(words: &[&str]) -> usize {
    let may_be_name = |word: &str| {
        let word = trim(word);
        !word.is_empty() && !NO_NAMES.contains(&word.to_lowercase().as_str())
    };
    let is_name = |word: &&&str| may_be_name(word) && trim(word).starts_with(char::is_uppercase);
    let length = words.iter().take(2).take_while(is_name).count();
    match words {
        // Punctuation ends the name.
        [first, ..] if length == 2 && trim(first).len() != first.len() => 1,
        [first, next, ..] if length == 0 && may_be_name(first) => {
            usize::from(BEGINNINGS.contains(&trim(next).to_lowercase().as_str()))
        }
        _ => length,
    }
}
