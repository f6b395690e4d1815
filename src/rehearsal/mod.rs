//! The embedded model, a rehearsal: shows what the gateway does without needing a model.
//!
//! It is not a language model, and says so. It has a few scripted abilities, follows the call
//! contract like a real model, and answers in the bytes of a Chat Completions stream, so its
//! answers pass through the same decoder and parser.
//!
//! ```text
//! ChatRequest --scene--> the user's questions and the results so far
//!             --intent-> what the user wants
//!             --reply--> the text and calls of this round
//!             --Script-> tokens --wire--> bytes, at a human pace
//! ```
//!
//! Everything except [`stream`] is pure: the same request always gets the same answer.

mod intent;
mod outcome;
mod reply;
mod scene;
#[cfg(test)]
mod tests;
mod wire;

pub(crate) use wire::stream;

use crate::event::Usage;
use crate::upstream::{ChatRequest, LocalAnswer, LocalModel, Message, RoundFinish};

/// The embedded model.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rehearsal {
    /// Its pace; 0 means as fast as possible.
    pub(crate) tokens_per_sec: u32,
}

impl LocalModel for Rehearsal {
    fn answer(&self, request: &ChatRequest) -> LocalAnswer {
        Box::pin(stream(answer(request), self.tokens_per_sec))
    }
}

/// What the embedded model says in one round, as tokens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Script {
    text: String,
    /// Where each token ends in `text`; the last entry is the end of `text`.
    ends: Vec<usize>,
    finish: RoundFinish,
    usage: Usage,
}

/// Answers one round.
///
/// The answer obeys `max_tokens` and `stop`, so a call can be cut off in the middle, as with a
/// real model.
#[must_use]
pub(crate) fn answer(request: &ChatRequest) -> Script {
    let (messages, said) = match request.messages.split_last() {
        Some((last, before)) if request.is_prefilled => (before, last.text_content()),
        _ => (&*request.messages, None),
    };
    let scene = scene::Scene::read(messages);
    let mut text = reply::reply(&scene, &request.tools, &request.format);
    if let Some(said) = said {
        text = rest_of(&text, said.trim_end()).to_owned();
    }
    let stops = request.sampling.stop.iter().filter(|stop| !stop.is_empty());
    if let Some(end) = stops.filter_map(|stop| text.find(stop.as_str())).min() {
        text.truncate(end);
    }

    let mut ends: Vec<usize> = token_ends(&text).collect();
    let mut finish = RoundFinish::Stop;
    if let Some(tokens_max) = request.sampling.max_tokens {
        let tokens_max = usize::try_from(tokens_max).unwrap_or(usize::MAX);
        if ends.len() > tokens_max {
            ends.truncate(tokens_max);
            text.truncate(ends.last().copied().unwrap_or_default());
            finish = RoundFinish::Length;
        }
    }
    let prompt = request.messages.iter().filter_map(Message::text_content);
    let prompt_tokens = prompt.map(|words| count(token_ends(&words))).sum();
    let completion_tokens = count(ends.iter());
    let total_tokens = prompt_tokens + completion_tokens;
    Script { text, ends, finish, usage: Usage { prompt_tokens, completion_tokens, total_tokens } }
}

/// What follows in a text after the words that were said of it.
fn rest_of<'t>(text: &'t str, said: &str) -> &'t str {
    text.strip_prefix(said).unwrap_or(text)
}

impl Script {
    /// The text as tokens of 1 to [`TOKEN_CHARS_MAX`] characters.
    #[must_use]
    pub(crate) fn tokens(&self) -> impl ExactSizeIterator<Item = &str> {
        let mut start = 0;
        self.ends.iter().map(move |&end| {
            let token = &self.text[start..end];
            start = end;
            token
        })
    }

    /// Why the round ends.
    #[must_use]
    pub(crate) const fn finish(&self) -> RoundFinish {
        self.finish
    }

    /// The number of tokens read and written.
    #[must_use]
    pub(crate) const fn usage(&self) -> Usage {
        self.usage
    }
}

/// The longest token, in characters. Short enough that markers and arguments arrive in pieces.
pub(crate) const TOKEN_CHARS_MAX: usize = 6;

/// Where tokens end, roughly as in a real tokenizer: a space belongs to the word after it, and
/// letters and signs do not mix.
fn token_ends(text: &str) -> impl Iterator<Item = usize> + '_ {
    let mut start = 0;
    std::iter::from_fn(move || {
        let rest = &text[start..];
        let mut chars = rest.chars();
        let mut length = chars.next()?.len_utf8();
        let mut kind = Kind::of(rest.chars().next()?);
        for char in chars.take(TOKEN_CHARS_MAX - 1) {
            let next = Kind::of(char);
            let word_after_space = kind == Kind::Space && next == Kind::Word && length == 1;
            if next != kind && !word_after_space {
                break;
            }
            kind = next;
            length += char.len_utf8();
        }
        start += length;
        Some(start)
    })
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Space,
    Word,
    Sign,
}

impl Kind {
    fn of(char: char) -> Self {
        match char {
            char if char.is_whitespace() => Self::Space,
            char if char.is_alphanumeric() => Self::Word,
            _ => Self::Sign,
        }
    }
}

fn count<T>(items: impl Iterator<Item = T>) -> u64 {
    items.fold(0, |count, _| count + 1)
}
